"""Wi-Fi, name server, time server and broker in one fake, for tests of boards: the `network`,
`socket` and `select` modules.

Status numbers are the ports' own. RP2: CYW43_LINK_* of georgerobotics/cyw43-driver, src/cyw43.h,
under the names that micropython/micropython, extmod/modnetwork.c gives them. ESP32:
micropython/micropython, ports/esp32/modnetwork.h and modnetwork_globals.h; the reasons below 256
are espressif/esp-idf's, components/esp_wifi/include/esp_wifi_types_generic.h, which
ports/esp32/network_wlan.c passes on.
"""

import errno

from fake_stream import FakeStream

RP2 = {
    "idle": 0,
    "connecting": 1,
    "no_address": 2,
    "joined": 3,
    "failed": -1,
    "no_ap": -2,
    "wrong_password": -3,
}
ESP32 = {
    "idle": 1000,
    "connecting": 1001,
    "no_address": 1001,
    "joined": 1010,
    "failed": 203,  # WIFI_REASON_ASSOC_FAIL
    "lost": 200,  # WIFI_REASON_BEACON_TIMEOUT
    "no_ap": 201,
    "wrong_password": 202,  # WIFI_REASON_AUTH_FAIL
}


class Ticks:
    """Time that passes only when a test or sleep_ms() moves it. Records the longest sleep."""

    def __init__(self):
        self.ms = 0x3FFFFF00  # it wraps soon
        self.longest_sleep_ms = 0

    def ticks_ms(self):
        return self.ms & 0x3FFFFFFF

    def sleep_ms(self, ms):
        self.longest_sleep_ms = max(self.longest_sleep_ms, ms)
        self.ms += ms


class Radio:
    """The state behind network.WLAN. numbers: RP2 or ESP32. fate: how connect() ends, as a key of
    numbers, `after_ms`.

    A radio fails as on the ports (extmod/network_cyw43.c and ports/esp32/network_wlan.c of
    MicroPython 1.25, cyw43_ctrl.c of its driver). failing_starts: this many starts fail from now
    on. RP2: active(True) returns and reads as True, connect() raises EPERM, and disconnect() starts
    the chip once more without making it usable. ESP32: active(True) raises. is_hung: the radio
    accepts commands and joins nothing until its power is cut: deinit(), on ESP32 active(False).
    start_ms, failed_start_ms: how long those calls take; longest_call_ms: the longest call so far.
    """

    def __init__(self, numbers, ticks):
        self.numbers, self.ticks = numbers, ticks
        self.fate, self.after_ms = "joined", 1500
        self.is_active = self.is_trying = self.is_hung = False
        # the value of active(): RP2 returns what was requested, not the result
        self.is_on = False
        self.key = self.network_name = None
        self.near = None  # {name: BSSID of the access point}, all in reach; None: any
        self.ended_as = None  # how the last connect() ends, if `near` decides
        self.addresses = None  # of ifconfig(); None: DHCP
        self.tries = []  # (name, BSSID) of each connect()
        self.country_code = ""
        self.since_ms = 0
        self.connects = self.disconnects = 0
        self.starts = self.failing_starts = self.start_ms = self.failed_start_ms = (
            self.longest_call_ms
        ) = 0
        # the ESP32 port tries indefinitely unless told otherwise, and reports "connecting"
        self.gives_up = numbers is RP2

    def start(self):
        """Power on and load the firmware."""
        self.starts += 1
        failed = self.failing_starts > 0
        self.failing_starts -= failed
        took_ms = self.failed_start_ms if failed else self.start_ms
        self.ticks.ms += took_ms
        self.longest_call_ms = max(self.longest_call_ms, took_ms)
        return not failed

    def cut_power(self):
        self.is_active = self.is_trying = self.is_hung = False

    def number(self):
        if not self.is_trying:
            return self.numbers["idle"]
        if self.is_hung or self.ticks.ms - self.since_ms < self.after_ms:
            return self.numbers["connecting"]
        fate = self.fate if self.near is None else self.ended_as
        decided = self.gives_up or fate == "joined"
        return self.numbers[fate if decided else "connecting"]

    def meet(self, name, bssid):
        """Decide how joining that network ends, or only that access point of it."""
        self.tries.append((name, bssid))
        if self.near is not None:
            is_there = name in self.near and bssid in (None, self.near[name])
            self.ended_as = self.fate if is_there else "no_ap"


class FakeWlan:
    """What both ports have, and no name that they lack (test_fakes.py)."""

    def __init__(self, radio):
        self._radio = radio

    def active(self, on=None):
        return self._radio.is_on if on is None else self._switch(on)

    def connect(self, name, key, *, bssid=None):
        radio = self._radio
        if not radio.is_active:
            raise self._not_started()
        if bssid is not None and len(bssid) != 6:
            raise ValueError
        radio.meet(name, bssid)
        radio.connects += 1
        radio.network_name, radio.key = name, key
        radio.is_trying, radio.since_ms = True, radio.ticks.ms

    def disconnect(self):
        self._radio.disconnects += 1
        self._radio.is_trying = False

    def status(self, what=None):
        return -61 if what == "rssi" else self._radio.number()

    def isconnected(self):
        return self._radio.number() == self._radio.numbers["joined"]

    def ifconfig(self, addresses=None):
        """Returns new strings at each call, as on the ports. "dhcp" would wait for the answer on
        RP2."""
        if addresses == "dhcp":
            raise AssertionError("it would wait")
        if addresses:
            if not self._radio.is_active:
                raise self._not_started()
            self._radio.addresses = addresses
            return None
        if self._radio.addresses:
            return self._radio.addresses
        return ("192.168.4.%d" % 2, "255.255.255.%d" % 0, "192.168.4.%d" % 1, "192.168.4.%d" % 1)

    def ipconfig(self, *, dhcp4):
        if dhcp4:
            self._radio.addresses = None


class FakeWlanRp2(FakeWlan):
    def _switch(self, on):
        self._radio.is_on = on  # False does nothing to a station
        self._radio.is_active = self._radio.is_active or (on and self._radio.start())

    def _not_started(self):
        return OSError(errno.EPERM)

    def config(self, **options):
        raise ValueError("unknown config param")

    def deinit(self):
        self._radio.cut_power()

    def disconnect(self):
        FakeWlan.disconnect(self)
        if not self._radio.is_active:
            self._radio.start()


class FakeWlanEsp32(FakeWlan):
    def _switch(self, on):
        radio = self._radio
        if not on:
            radio.cut_power()
        elif not radio.is_active and not radio.start():
            raise OSError("Wifi Internal Error")
        radio.is_on = radio.is_active = on
        return on

    def _not_started(self):
        return OSError("Wifi Not Started")  # a text, not a number

    def config(self, **options):
        self._radio.gives_up = options["reconnects"] == 0


def wlan_of(radio):
    return (FakeWlanRp2 if radio.numbers is RP2 else FakeWlanEsp32)(radio)


class FakeNetwork:
    """The module `network`."""

    STA_IF = 0

    def __init__(self, radio):
        self._radio = radio

    def WLAN(self, interface):  # noqa: N802 - the port's name
        return wlan_of(self._radio)

    def country(self, code):
        self._radio.country_code = code


class Net:
    """The state behind the sockets. stream: what a TCP connection returns. open: how many sockets
    are not closed.
    """

    def __init__(self, ticks):
        self.ticks = ticks
        self.names = {
            "broker.test": b"\x0a\x00\x00\x07",
            "broker.local": b"\x0a\x00\x00\x09",
            "pool.ntp.org": b"\x0a\x00\x00\x08",
        }
        self.dns_answers = self.ntp_answers = self.tcp_answers = True
        self.echo = bytes  # of the question, in the name server's answer
        self.questions = []
        self.servers = []  # the addresses to which TCP connected
        self.flood = b""  # a datagram that arrives at each look
        self.ntp_seconds = 3_953_000_000  # 2025-04-07 16:53:20 UTC
        self.stream = FakeStream()
        self.open = 0
        self.nodelay_option = 1  # the port's value of TCP_NODELAY; None: it has no such option
        self.nodelay = []  # values that this option was set to


class FakeSocketModule:
    """The module `socket`."""

    AF_INET, SOCK_STREAM, SOCK_DGRAM = 2, 1, 2

    def __init__(self, net, numbers=None):
        self._net = net
        # extmod/modlwip.c of MicroPython 1.25: TF_NODELAY; it ignores options that it does not know
        if numbers is RP2:
            net.nodelay_option = self.TCP_NODELAY = 64

    def socket(self, family, kind):
        self._net.open += 1
        return (FakeUdp if kind == self.SOCK_DGRAM else FakeTcp)(self._net)


class FakeUdp:
    def __init__(self, net):
        self._net, self._reply = net, None

    def setblocking(self, blocking):
        if blocking:
            raise AssertionError("it would wait")

    def connect(self, address):
        self._address = address

    def send(self, packet):
        self._ask(packet, self._address)

    def sendto(self, packet, address):
        """To a group, any answer is received, because the socket is not connected."""
        self._ask(packet, address)

    def _ask(self, packet, address):
        self._net.questions.append((address, packet))
        self._reply = self._dns(packet) if address[1] in (53, 5353) else self._ntp(packet)

    def _dns(self, packet):
        if not self._net.dns_answers:
            return None
        labels, at = [], 12
        while packet[at]:
            labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
            at += packet[at] + 1
        found = self._net.names.get(".".join(labels).lower())
        if not found:
            return packet[:2] + b"\x81\x83" + packet[4:]  # no such name
        alias = b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01x\xc0\x0c"
        answer = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04" + found
        return (
            packet[:2]
            + b"\x81\x80\x00\x01\x00\x02\x00\x00\x00\x00"
            + self._net.echo(packet[12:])
            + alias
            + answer
        )

    def _ntp(self, packet):
        if not self._net.ntp_answers:
            return None
        seconds = self._net.ntp_seconds & 0xFFFFFFFF
        stamp = bytes([seconds >> shift & 255 for shift in (24, 16, 8, 0)]) + b"\x80\0\0\0"
        return b"\x24\x02" + bytes(22) + packet[40:48] + bytes(8) + stamp

    def recv(self, size):
        reply, self._reply = self._reply, None
        if not reply:
            raise OSError(errno.EAGAIN)
        return reply

    def readinto(self, buf):
        """As a stream's readinto(): None where recv() raises."""
        reply, self._reply = self._reply or self._net.flood, None
        if not reply:
            return None
        buf[: len(reply)] = reply
        return len(reply)

    def close(self):
        self._net.open -= 1


class FakeTcp:
    def __init__(self, net):
        self._net = net

    def setblocking(self, blocking):
        if blocking:
            raise AssertionError("it would wait")

    def connect(self, address):
        self._net.servers.append(address)
        raise OSError(errno.EINPROGRESS)

    def setsockopt(self, level, option, value):
        if self._net.nodelay_option is None:
            raise OSError(errno.EINVAL)
        if (level, option) == (6, self._net.nodelay_option):
            self._net.nodelay.append(value)

    def write(self, buf, offset, length):
        return self._net.stream.write(buf, offset, length)

    def readinto(self, buf):
        return self._net.stream.readinto(buf)

    def close(self):
        self._net.open -= 1


class FakeSelect:
    POLLOUT, POLLERR, POLLHUP = 4, 8, 16

    def poll(self):
        return FakePoller()


class FakePoller:
    """poll() builds a list at each call, as on the ports; ipoll() does not."""

    def register(self, tcp, events):
        self._tcp = tcp
        self._connected = [(tcp, 4)]

    def poll(self, timeout_ms):
        return list(self.ipoll(timeout_ms))

    def ipoll(self, timeout_ms):
        if timeout_ms:
            raise AssertionError("it would wait")
        return (
            self._connected
            if self._tcp._net.tcp_answers is True
            else self._tcp._net.tcp_answers or ()
        )
