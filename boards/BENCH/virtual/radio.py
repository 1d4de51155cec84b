"""The module `network`: Wi-Fi as the ports have it, and how it fails.

A network is always in reach, except in an outage of the kind "no_wifi". Then joining ends as "no
access point", and a connection that stood is lost: an ESP32 joins again by itself unless its
`reconnects` says otherwise, an RP2 does not. On BENCH the network is joined from the start.

Status numbers are the ports' own. RP2: CYW43_LINK_* of georgerobotics/cyw43-driver, src/cyw43.h,
under the names of micropython/micropython, extmod/network_cyw43.c. ESP32: ports/esp32/modnetwork.h
and modnetwork_globals.h; the reasons below 256 are espressif/esp-idf's, esp_wifi_types_generic.h.

**The law.** The state is a function of the commands and of the outages; looking changes nothing.

Must not know sockets.
"""

import errno

from virtual.machine import bind
from virtual.outages import OF_RADIO
from virtual.world import CALL_US

RP2 = {"idle": 0, "connecting": 1, "joined": 3, "no_ap": -2, "lost": 0}
ESP32 = {"idle": 1000, "connecting": 1001, "joined": 1010, "no_ap": 201, "lost": 200}
_JOIN_US = 1_500_000  # and the address by DHCP
_SEARCH_US = 3_000_000  # until "no access point": a scan of all channels
_SCAN_US = 2_500_000
# Power on, and the firmware: 0.8 s for the CYW43 (boards/PORTING.md); ESP32 not measured
_START_US = {True: 800_000, False: 200_000}


class Radio:
    """The state behind WLAN."""

    def __init__(self, port):
        self._port, self._world = port, port.world
        self.numbers = RP2 if port.is_rp2 else ESP32
        # As active() says: RP2 returns what was requested
        self.is_on = self.is_started = self.is_joined_already = port.name == "BENCH"
        self.since_us = port.world.now_us - _JOIN_US if self.is_joined_already else None
        self.retries = not port.is_rp2  # the ESP32 port tries indefinitely unless told otherwise
        self.addresses = None  # of ifconfig(); None: DHCP
        self._spans = [
            (int(start * 1_000_000), int(end * 1_000_000))
            for start, end, kind in port.world.scenario["outages"]
            if kind == OF_RADIO
        ]
        self._spans.sort()

    def start(self):
        if not self.is_started:
            self._world.pass_us(_START_US[self._port.is_rp2])
            self.is_started = True

    def stop(self):
        self._world.pass_us(CALL_US)
        self.is_started, self.since_us = False, None

    def join(self):
        self._world.pass_us(CALL_US)
        self.since_us = self._world.now_us

    def leave(self):
        self._world.pass_us(CALL_US)
        self.since_us = None

    def is_joined(self):
        if self._spans or self.since_us is None:
            return self.state() == "joined"
        return self._world.now_us >= self.since_us + _JOIN_US

    def is_out(self):
        now_us = self._world.now_us
        return bool([1 for start_us, end_us in self._spans if start_us <= now_us < end_us])

    def state(self):
        """A key of `numbers`."""
        if self.since_us is None:
            return "idle"
        return self._state(self.since_us, self._world.now_us)

    def _state(self, since_us, now_us):
        for start_us, end_us in self._spans:
            if start_us > now_us or end_us <= since_us:
                continue
            was_joined = start_us >= since_us + _JOIN_US
            if self.retries:  # it joins again after the outage
                if now_us < end_us:
                    return "connecting"
                since_us = end_us
            elif was_joined:
                return "lost"
            else:
                return "connecting" if now_us < since_us + _SEARCH_US else "no_ap"
        return "joined" if now_us >= since_us + _JOIN_US else "connecting"


class _Wlan:
    """Both interfaces; the access point is there to be switched off."""

    IF_STA, IF_AP = 0, 1
    PM_NONE, PM_PERFORMANCE, PM_POWERSAVE = 0, 1, 2

    def __init__(self, interface=0):
        self._port.world.pass_us(CALL_US)
        self._is_station, self._radio = interface == 0, self._port.radio
        self._options = {"mac": self._port.unique_id[:6], "channel": 6, "essid": ""}

    def active(self, is_active=None):
        self._port.world.pass_us(CALL_US)
        if not self._is_station:
            return False if is_active is None else None
        if is_active is None:
            return self._radio.is_on
        return self._switch(is_active)

    def connect(self, ssid=None, key=None, *, bssid=None, **more):
        if not self._radio.is_started:
            raise self._not_started()
        if bssid is not None and len(bssid) != 6:
            raise ValueError
        if ssid is not None:
            self._options["essid"] = ssid
        self._radio.join()

    def disconnect(self):
        self._radio.leave()

    def isconnected(self):
        self._port.world.pass_us(CALL_US)
        return self._is_station and self._radio.is_joined()

    def status(self, param=None):
        """World.value("signal"): dBm."""
        if param == "rssi":
            return self._port.world.value("signal", -61)
        self._port.world.pass_us(CALL_US)
        return self._radio.numbers[self._radio.state()]

    def scan(self):
        """[(name, address, channel, dBm, security, hidden)]"""
        if not self._radio.is_started:
            raise self._not_started()
        self._port.world.pass_us(_SCAN_US)
        name = self._port.world.scenario["settings"].get("wifi_ssid", "home").encode()
        found = (name, b"\x02\x00\x00\x00\x00\x01", 6, -61, 5, 1)
        return [] if self._radio.is_out() else [found]

    def config(self, *names, **options):
        self._port.world.pass_us(CALL_US)
        if names:
            if names[0] in self._options:
                return self._options[names[0]]
            raise ValueError("unknown config param")
        self._set(options)
        return None

    def _set(self, options):
        self._options.update(options)

    def ifconfig(self, addresses=None):
        """(address, mask, gateway, name server). "dhcp" waits for the answer."""
        self._port.world.pass_us(CALL_US)
        if addresses == "dhcp":
            self._radio.addresses = None
            self._port.world.pass_us(_JOIN_US // 2)
            return None
        if addresses:
            if not self._radio.is_started:
                raise self._not_started()
            self._radio.addresses = addresses
            return None
        if not self._radio.is_joined() and not self._radio.addresses:
            return ("0.0.0.0",) * 4
        return self._radio.addresses or ("10.0.0.2", "255.255.255.0", "10.0.0.1", "10.0.0.1")

    def ipconfig(self, *names, **options):
        self._port.world.pass_us(CALL_US)
        if options.get("dhcp4"):
            self._radio.addresses = None
        if names:
            return {"addr4": self.ifconfig()[:2], "gw4": self.ifconfig()[2]}[names[0]]
        return None


class WlanRp2(_Wlan):
    """extmod/network_cyw43.c"""

    SEC_OPEN, SEC_WPA_WPA2, SEC_WPA3, SEC_WPA2_WPA3 = 0, 0x00400006, 0x01000004, 0x01400004

    def _switch(self, is_active):
        """active(False) leaves a station running."""
        if is_active:
            self._radio.start()
        self._radio.is_on = bool(is_active)

    def _not_started(self):
        return OSError(errno.EPERM)

    def disconnect(self):
        """It starts a chip that is off."""
        self._radio.leave()
        self._radio.start()

    def deinit(self):
        self._radio.stop()
        self._radio.is_on = False


class WlanEsp32(_Wlan):
    """ports/esp32/network_wlan.c"""

    SEC_OPEN, SEC_WEP, SEC_WPA, SEC_WPA2, SEC_WPA_WPA2, SEC_WPA3, SEC_WPA2_WPA3 = (
        0, 1, 2, 3, 4, 6, 7,
    )  # fmt: skip

    def _switch(self, is_active):
        if is_active:
            self._radio.start()
        else:
            self._radio.stop()
        self._radio.is_on = bool(is_active)
        return self._radio.is_on

    def _not_started(self):
        return OSError("Wifi Not Started")  # a text, not a number

    def _set(self, options):
        if "reconnects" in options:
            self._radio.retries = options["reconnects"] != 0
        _Wlan._set(self, options)


class _Network:
    """The module."""

    STA_IF, AP_IF = 0, 1

    def __init__(self, port):
        self._world, self._country, self._hostname = port.world, "XX", port.name.lower()

    def country(self, code=None):
        self._world.pass_us(CALL_US)
        if code is None:
            return self._country
        self._country = code
        return None

    def hostname(self, name=None):
        self._world.pass_us(CALL_US)
        if name is None:
            return self._hostname
        self._hostname = name
        return None

    def ipconfig(self, *names, **options):
        self._world.pass_us(CALL_US)


class NetworkRp2(_Network):
    STAT_IDLE, STAT_CONNECTING, STAT_GOT_IP = 0, 1, 3
    STAT_CONNECT_FAIL, STAT_NO_AP_FOUND, STAT_WRONG_PASSWORD = -1, -2, -3


class NetworkEsp32(_Network):
    STAT_IDLE, STAT_CONNECTING, STAT_GOT_IP = 1000, 1001, 1010
    STAT_BEACON_TIMEOUT, STAT_NO_AP_FOUND, STAT_WRONG_PASSWORD = 200, 201, 202
    STAT_CONNECT_FAIL = STAT_ASSOC_FAIL = 203
    STAT_HANDSHAKE_TIMEOUT = 204
    AUTH_OPEN, AUTH_WEP, AUTH_WPA_PSK, AUTH_WPA2_PSK, AUTH_WPA_WPA2_PSK = 0, 1, 2, 3, 4


def network_of(port):
    found = (NetworkRp2 if port.is_rp2 else NetworkEsp32)(port)
    found.WLAN = bind("WLAN", WlanRp2 if port.is_rp2 else WlanEsp32, port)
    return found
