"""The modules `socket` and `select`: TCP to the server, UDP to a name server and a time server.

TCP reaches the server of the world at any address and port, but 80 and 443 refuse. Each name has an
address. Names and time are answered whenever the board has a network; a blocking call lets time
pass until there is an answer or its time is over.

**The law.** What is between a socket and the server is the radio: while it is not joined nothing
goes either way; what was written waits, up to the port's send buffer, and goes out afterwards, as
TCP does it.

Must not know what is sent: the streams are World.broker's, and keep the contract of
firmware/outpost/client.py.
"""

import errno

from virtual.clock import NEVER_US
from virtual.machine import bind
from virtual.world import CALL_US

POLLIN, POLLOUT, POLLERR, POLLHUP = 1, 4, 8, 16
_STREAM, _DGRAM = 1, 2
_TRIP_US = 20_000  # to the server and back
# Without an answer, a SYN is repeated after 3 s, then after twice the time, six times: lwIP's
# TCP_RTO_TIME and TCP_SYNMAXRTX
_SYN_US = 3_000_000
_SYNS = 6
_NO_NAME_US = 7_000_000  # lwIP's DNS_MAX_RETRIES: after 1, 1, 2 and 3 s
_SEND_BYTES = 5744  # TCP_SND_BUF of ESP-IDF, and about lwIP's MEM_SIZE on RP2
_NTP_TO_UNIX_S = 2_208_988_800
_DNS_PORT, _NTP_PORT, _MDNS_PORT = 53, 123, 5353
_REFUSING = (80, 443)
_LINK_US = 10_000_000  # as support/wifi_link.py
_ADDRESSES = {"pool.ntp.org": "10.0.0.8"}
_BROKER = "10.0.0.7"


def address_of(host):
    """Each name has one."""
    parts = host.split(".")
    if len(parts) == 4 and all([part.isdigit() for part in parts]):
        return host
    return _ADDRESSES.get(host.lower(), _BROKER)


def bytes_of(data):
    """MicroPython takes text where it takes a buffer."""
    return data.encode() if isinstance(data, str) else bytes(data)


# --- Sockets ---


class _Socket:
    """What both kinds have in common. _until(): when a blocking call gives up."""

    def __init__(self):
        self._limit_us = NEVER_US  # 0: it does not block
        self._is_closed = False
        self._left = b""  # read, and not taken yet
        self._port.world.open_sockets += 1

    def _enter(self):
        self._port.world.pass_us(CALL_US)
        if self._is_closed:
            raise OSError(errno.EBADF)

    def _close(self):
        self._port.world.pass_us(CALL_US)
        self._port.world.open_sockets -= not self._is_closed
        self._is_closed = True

    def setblocking(self, flag):
        self.settimeout(None if flag else 0)

    def settimeout(self, value):
        self._enter()
        self._limit_us = NEVER_US if value is None else int(value * 1_000_000)

    def setsockopt(self, level, optname, value):
        self._enter()

    def bind(self, address):
        self._enter()

    def _until_us(self):
        return self._port.world.now_us + self._limit_us

    def _wait(self, is_ready):
        """True when it is; False when it is not and must not block. Raises OSError: too late."""
        if self._port.clock.wait(is_ready, self._until_us()):
            return True
        if self._limit_us:
            raise OSError(errno.ETIMEDOUT)
        return False

    # A stream's methods, and a socket's, from the subclass's _fill(): more bytes in _left, None:
    # nothing now, 0: the end

    def _read_some(self, most):
        """Up to that many bytes; b"": the end; None: nothing now."""
        state = [0]

        def is_ready():
            state[0] = len(self._left) or self._fill()
            return state[0] is not None

        if not self._wait(is_ready):
            return None
        data, self._left = self._left[:most], self._left[most:]
        return data

    def read(self, size=-1):
        """A blocking one waits for all of them."""
        self._enter()
        found = b""
        while size is None or size < 0 or len(found) < size:
            data = self._read_some(size - len(found) if size and size > 0 else 4096)
            if data is None:
                return found or None
            if not data:
                break
            found += data
        return found

    def readinto(self, buf, nbytes=None):
        """Blocking: until the buffer is full or the end."""
        size = len(buf) if nbytes is None else min(nbytes, len(buf))
        if self._limit_us:
            data = self.read(size)
        else:
            self._enter()
            data = self._read_some(size)
        if data is None:
            return None
        buf[: len(data)] = data
        return len(data)

    def readline(self):
        self._enter()
        line = b""
        while not line.endswith(b"\n"):
            data = self._read_some(1)
            if data is None:
                return line or None
            if not data:
                break
            line += data
        return line

    def recv(self, bufsize):
        self._enter()
        data = self._read_some(bufsize)
        if data is None:
            raise OSError(errno.EAGAIN)
        return data

    def makefile(self, mode="rb", buffering=0):
        return self


class _Tcp(_Socket):
    def __init__(self):
        _Socket.__init__(self)
        self._stream = None
        self._port_number = 0
        self._begun_us = None  # of connect()
        self._syns = 0
        self._error = 0
        self._unsent = b""

    # --- Connecting ---

    def connect(self, address):
        self._enter()
        if self._begun_us is not None:
            raise OSError(errno.EALREADY if self._stream is None else errno.EINVAL)
        if not self._port.radio.is_joined():
            raise OSError(errno.EHOSTUNREACH)
        self._port_number = address[1]
        self._begun_us = self._port.world.now_us + _TRIP_US  # when the next answer may be there
        if not self._limit_us:
            raise OSError(errno.EINPROGRESS)
        self._wait(self._is_decided)
        self._check()

    def _is_decided(self):
        """Connected, or failed."""
        if self._stream or self._error:
            return True
        world = self._port.world
        if self._begun_us is None or world.now_us < self._begun_us:
            return False
        try:
            if not self._port.radio.is_joined():
                raise OSError(errno.ETIMEDOUT)
            if self._port_number in _REFUSING:
                raise OSError(errno.ECONNREFUSED)
            self._stream = world.broker.accept()
            return True
        except OSError as error:
            return self._refused(error.args[0])

    def _refused(self, number):
        """ETIMEDOUT: nothing answered, so it is tried again."""
        if number != errno.ETIMEDOUT or self._syns == _SYNS:
            self._error = errno.ECONNABORTED if number == errno.ETIMEDOUT else number
            return True
        self._begun_us += _SYN_US << self._syns
        self._syns += 1
        return False

    def _check(self):
        if self._error:
            raise OSError(self._error)

    # --- Bytes ---

    def _is_open(self):
        """Raises OSError where the connection failed, or was never begun."""
        if self._begun_us is None:
            raise OSError(errno.ENOTCONN)
        decided = self._is_decided()
        self._check()
        return decided and self._drain()

    def _drain(self):
        """What waited goes out. True: nothing waits, and the radio is joined."""
        if not self._port.radio.is_joined():
            return False
        if self._unsent:
            count = self._stream.write(self._unsent, 0, len(self._unsent))
            self._unsent = self._unsent[count or 0 :]
        return not self._unsent

    def _fill(self):
        if not self._is_open():
            return None
        buf = bytearray(1024)
        count = self._stream.readinto(buf)
        if count:
            self._left += bytes(buf[:count])
        return count

    def readinto(self, buf, nbytes=None):
        """Without a limit of time and of bytes: what client.py calls all the time."""
        if self._limit_us or self._left or nbytes is not None:
            return _Socket.readinto(self, buf, nbytes)
        self._enter()
        return self._stream.readinto(buf) if self._is_open() else None

    def _put(self, data):
        """Returns how many bytes were taken; None: no room now."""
        if self._is_open():
            count = self._stream.write(data, 0, len(data))
            return count or None
        if self._stream is None:
            return None
        room = min(_SEND_BYTES - len(self._unsent), len(data))
        if room <= 0:
            return None
        self._unsent += bytes(data[:room])
        return room

    def write(self, buf, offset=None, length=None):
        """write(buf), write(buf, length), write(buf, offset, length). A blocking one writes all."""
        self._enter()
        if isinstance(buf, str):
            buf = bytes_of(buf)
        if length is None:
            offset, length = 0, len(buf) if offset is None else offset
        if not self._limit_us and self._is_open():
            return self._stream.write(buf, offset, length)
        data = bytes(buf[offset : offset + length])
        done = 0
        while done < len(data):
            count = self._put_some(data[done:])
            if count is None:
                return done or None
            done += count
        return done

    def _put_some(self, data):
        taken = [None]

        def is_ready():
            taken[0] = self._put(data)
            return taken[0] is not None

        return taken[0] if self._wait(is_ready) else None

    def send(self, data):
        self._enter()
        count = self._put_some(bytes_of(data))
        if count is None:
            raise OSError(errno.EAGAIN)
        return count

    def sendall(self, data):
        self._enter()
        data = bytes_of(data)
        while data:
            data = data[self.send(data) :]

    def close(self):
        """Without the radio, the server does not learn of it."""
        self._close()
        stream, self._stream = self._stream, None
        if stream and self._port.radio.is_joined():
            stream.close()

    # --- For select ---

    def _ready(self, events):
        if self._is_closed or self._begun_us is None:
            return POLLHUP
        try:
            if not self._is_decided():
                return 0
            self._check()
            found = events & POLLOUT if len(self._unsent) < _SEND_BYTES else 0
            if events & POLLIN and (self._left or self._fill() is not None):
                found |= POLLIN
            return found
        except OSError:
            return POLLERR | POLLHUP | events & POLLIN


class _Udp(_Socket):
    def __init__(self):
        _Socket.__init__(self)
        self._peer = None
        self._coming = []  # [us, datagram, from]
        self._from = None

    def connect(self, address):
        self._enter()
        self._peer = address

    def send(self, data):
        return self.sendto(data, self._peer)

    def sendto(self, data, address):
        self._enter()
        if not self._port.radio.is_joined():
            raise OSError(errno.EHOSTUNREACH)
        data = bytes_of(data)
        answer = self._answer(data, address[1])
        if answer:
            at_us = self._port.world.now_us + _TRIP_US
            self._coming.append([at_us, answer, (address_of(address[0]), address[1])])
        return len(data)

    def write(self, buf):
        return self.send(buf)

    def _answer(self, question, port_number):
        if port_number in (_DNS_PORT, _MDNS_PORT):
            return dns_answer(question)
        if port_number == _NTP_PORT:
            return ntp_answer(question, self._port.world, _TRIP_US // 2)
        return None

    def _fill(self):
        """What arrives while the radio is away is lost."""
        world = self._port.world
        if not self._coming or self._coming[0][0] > world.now_us:
            return None
        _, data, self._from = self._coming.pop(0)
        if not self._port.radio.is_joined():
            return None
        self._left = data
        return len(data)

    def _read_some(self, most):
        """One datagram; its rest is lost."""
        data = _Socket._read_some(self, most)
        self._left = b""
        return data

    def read(self, size=-1):
        self._enter()
        return self._read_some(4096 if size is None or size < 0 else size)

    def recvfrom(self, bufsize):
        data = self.recv(bufsize)
        return data, self._from

    def close(self):
        self._close()

    def _ready(self, events):
        found = events & POLLOUT
        if events & POLLIN and (self._left or self._fill()):
            found |= POLLIN
        return found


def dns_answer(question):
    """An alias first, then the address (RFC 1035)."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += question[at] + 1
    address = bytes([int(part) for part in address_of(".".join(labels)).split(".")])
    record = b"\x00\x01\x00\x00\x00\x3c"
    return (
        question[:2] + b"\x81\x80\x00\x01\x00\x02\x00\x00\x00\x00" + question[12:]
        + b"\xc0\x0c\x00\x05" + record + b"\x00\x04\x01x\xc0\x0c"
        + b"\xc0\x0c\x00\x01" + record + b"\x00\x04" + address
    )  # fmt: skip


def ntp_answer(question, world, way_us):
    """Stratum 2; the time at the server (RFC 4330)."""
    now_us = world.scenario["unix_s"] * 1_000_000 + world.now_us + way_us
    seconds = now_us // 1_000_000 + _NTP_TO_UNIX_S & 0xFFFFFFFF
    fraction = (now_us % 1_000_000 << 32) // 1_000_000
    stamp = seconds.to_bytes(4, "big") + fraction.to_bytes(4, "big")
    return b"\x24\x02" + bytes(22) + question[40:48] + stamp + stamp


# --- The modules ---


class _Module:
    """The module `socket`."""

    AF_INET, AF_INET6, SOCK_STREAM, SOCK_DGRAM, SOCK_RAW = 2, 10, 1, 2, 3
    IPPROTO_TCP, IPPROTO_UDP, SOL_SOCKET, SO_REUSEADDR = 6, 17, 1, 4
    _no_name = -2

    def __init__(self, port):
        self._port = port
        self._tcp, self._udp = bind("socket", _Tcp, port), bind("socket", _Udp, port)

    def socket(self, af=2, type=1, proto=0):
        self._port.world.pass_us(CALL_US)
        return self._udp() if type == _DGRAM else self._tcp()

    def getaddrinfo(self, host, port, af=0, type=0, proto=0, flags=0):
        """Waits for the name server. Raises OSError with the port's number."""
        world = self._port.world
        if address_of(host) != host:
            if not self._port.radio.is_joined():
                world.sleep_us(_NO_NAME_US)
                raise OSError(self._no_name)
            world.sleep_us(_TRIP_US)
        world.pass_us(CALL_US)
        return [(self.AF_INET, type or _STREAM, 0, "", (address_of(host), int(port)))]


class SocketRp2(_Module):
    """extmod/modlwip.c: TF_NODELAY is 64; options that it does not know are ignored."""

    TCP_NODELAY = 64


class SocketEsp32(_Module):
    """ports/esp32/modsocket.c"""

    TCP_NODELAY = 1
    _no_name = -202


class _Poll:
    """The class `select.poll`. Objects with ioctl(), as MicroPython's asyncio has them, too."""

    def __init__(self):
        self._known = []  # [object, events]

    def register(self, obj, eventmask=POLLIN | POLLOUT):
        self._port.world.pass_us(CALL_US)
        for one in self._known:
            if one[0] is obj:
                one[1] = eventmask
                return
        self._known.append([obj, eventmask])

    def unregister(self, obj):
        self._port.world.pass_us(CALL_US)
        self._known = [one for one in self._known if one[0] is not obj]

    def modify(self, obj, eventmask):
        self._port.world.pass_us(CALL_US)
        for one in self._known:
            if one[0] is obj:
                one[1] = eventmask
                return
        raise OSError(errno.ENOENT)

    def _now(self):
        found = [(obj, ready(obj, events)) for obj, events in self._known]
        return [one for one in found if one[1]]

    def poll(self, timeout=-1):
        clock = self._port.clock
        clock.world.pass_us(CALL_US)
        if not self._known and timeout > 0:  # to the microsecond: nothing can come
            clock.world.sleep_us(int(timeout) * 1000)
            return []
        limit_us = NEVER_US if timeout < 0 else int(timeout) * 1000
        return clock.wait(self._now, clock.world.now_us + limit_us)

    def ipoll(self, timeout=-1, flags=0):
        return iter(self.poll(timeout))


def ready(obj, events):
    """Which of the events an object has; errors always."""
    if isinstance(obj, _Socket):
        return obj._ready(events)
    ioctl = getattr(obj, "ioctl", None)
    return ioctl(3, events) if ioctl else 0  # MP_STREAM_POLL


class _Select:
    """The module `select`."""

    POLLIN, POLLOUT, POLLERR, POLLHUP = POLLIN, POLLOUT, POLLERR, POLLHUP

    def __init__(self, port):
        self._port = port
        self.poll = bind("poll", _Poll, port)

    def select(self, rlist, wlist, xlist, timeout=None):
        poller = self.poll()
        for obj in list(rlist) + list(wlist):
            wanted = POLLIN * (obj in rlist) | POLLOUT * (obj in wlist)
            poller.register(obj, wanted)
        found = poller.poll(-1 if timeout is None else int(timeout * 1000))
        return (
            [obj for obj, events in found if events & ~POLLOUT and obj in rlist],
            [obj for obj, events in found if events & ~POLLIN and obj in wlist],
            [],
        )


def modules_of(port):
    return {"socket": (SocketRp2 if port.is_rp2 else SocketEsp32)(port), "select": _Select(port)}


class Link:
    """A board's link without names and settings of Wi-Fi: one step a call, as the contract has
    it."""

    def __init__(self, port):
        self._port, self._tcp, self._until_us = port, None, 0

    def __call__(self):
        """The connected socket, or None: call again. Raises OSError."""
        if self._tcp is None:
            self._begin()
            return None
        self._port.world.pass_us(CALL_US)
        try:
            is_decided = self._tcp._is_decided()
            self._tcp._check()
            if not is_decided and self._port.world.now_us >= self._until_us:
                raise OSError(errno.ETIMEDOUT)
        except OSError:
            self._take().close()
            raise
        return self._take() if is_decided else None

    def _take(self):
        tcp, self._tcp = self._tcp, None
        return tcp

    def _begin(self):
        tcp = self._port.socket.socket()
        tcp.setblocking(False)
        self._until_us = self._port.world.now_us + _LINK_US
        try:
            tcp.connect((_BROKER, 1883))
        except OSError as error:
            if error.args[0] != errno.EINPROGRESS:
                raise
        self._tcp = tcp
