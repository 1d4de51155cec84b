"""Joins a Wi-Fi network without blocking: join() checks the state, starts the next step, returns.

It tries each network once and reports the result; the client's backoff (half a second to a minute)
decides when to retry, so there is no second timer. Knows no port: isconnected() means "joined",
which on RP2 (CYW43) and ESP32 includes an address; a number gives the reason for a failure, and the
numbers of the two ports do not overlap.

Networks are tried by name, in order, beginning with the one joined last. So a hidden network needs
no special treatment, and nothing waits for a scan (2 to 10 s in one call of the port, according to
its source). A network with a BSSID is tried at that access point first, then at any. The ports do
not report which access point or channel was joined, so neither is remembered.

A radio that fails is switched off, and the next join() switches it on: `radio_failures` counts
this. A radio has failed if active() or connect() raised (on RP2, active(True) never raises, so only
connect() shows it), or if 16 rounds failed in a row, because a hung radio may report anything. Then
disconnect() is not called: on RP2 it would start the chip a second time in the same call.
Allocates nothing while joined. Joining allocates what the port's connect() does.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_OK = const(0)
_WIFI_FAILED = const(-40)
_WIFI_WRONG_PASSWORD = const(-41)
_WIFI_NO_AP = const(-42)
_WIFI_TIMED_OUT = const(-43)
_FAILURES = const(16)  # in a row: with the client's backoff, 5 minutes or more
# ESP-IDF's reasons are one byte; idle, connecting and joined are 1000 and above
_LAST_REASON = const(256)


def fault(number):
    """The status for a number that wlan.status() returned. OK: not decided yet.

    CYW43 returns -3 to 3. ESP-IDF returns reasons; a wrong password is 15, 202 or 204, depending on
    the access point and on its version.
    """
    if number in (-3, 15, 202, 204):
        return _WIFI_WRONG_PASSWORD
    if number in (-2, 201, 210, 211, 212):
        return _WIFI_NO_AP
    return _WIFI_FAILED if number < 0 or 3 < number < _LAST_REASON else _OK


class Wifi:
    """radio: callable, returns the port's station interface. switch_off, prepare: callables for it.

    networks: list of (ssid, key, BSSID or None, addresses or None), as `wifi_networks.py` returns.
    first: which of them is tried first. Nothing touches the radio before the first join(), because
    getting the interface starts the driver on ESP32. switch_off turns the radio off; prepare is
    called after each start. deadline_ms: for the join and the address, for each network.
    """

    def __init__(
        self, radio, networks, ticks_ms, switch_off, prepare=None, deadline_ms=20_000, first=0
    ):
        self._radio, self._wlan = radio, None
        self._networks = networks
        self._ticks_ms, self._prepare, self._deadline_ms = ticks_ms, prepare, deadline_ms
        self._switch_off = switch_off
        self._is_active = self._is_joining = False
        self._since_ms = self._failures = 0
        self.at = first if first < len(networks) else 0  # the network joined, being tried, or next
        self._tried = 0  # networks since the last round was reported
        self._is_anywhere = False  # this attempt: at any access point, although one is named
        self._is_static = False  # the interface has configured addresses, no DHCP
        self._told = _OK  # the most informative fault of this round
        self.joins = self.radio_failures = 0

    @property
    def is_up(self):
        return self._wlan is not None and self._wlan.isconnected()

    def signal(self):
        """Strength of the network in dBm, or None."""
        try:
            return self._wlan.status("rssi") if self.is_up else None
        except OSError:  # ESP32: the connection is lost, but not reported yet
            return None

    @property
    def name_server(self):
        """The address of the name server, from DHCP or the settings."""
        return self._wlan.ifconfig()[3]

    def join(self):
        """True: the board has an address. False: call again. OSError(status): every network failed;
        the next call starts another round.
        """
        if self.is_up:
            self._is_joining = self._is_anywhere = False
            self._failures = self._tried = 0
            self._told = _OK
            return True
        if not self._is_joining:
            self._begin()
            return False
        late = elapsed_ms(self._ticks_ms(), self._since_ms) >= self._deadline_ms
        error = fault(self._wlan.status()) or (_WIFI_TIMED_OUT if late else _OK)
        if error:
            self._end(error)
        return False

    def _begin(self):
        if self._wlan is None:
            self._wlan = self._ask_for_radio()
        try:
            if not self._is_active:
                self._wlan.active(True)
                if self._prepare:
                    self._prepare(self._wlan)
                self._is_active = True
            self._connect(self._networks[self.at])
        except OSError:  # those of ESP32 have a text, but the client needs a number
            self._power_off()
            raise OSError(_WIFI_FAILED)
        self.joins += 1
        self._is_joining = True
        self._since_ms = self._ticks_ms()

    def _ask_for_radio(self):
        try:
            return self._radio()
        except OSError:
            self.radio_failures += 1
            raise OSError(_WIFI_FAILED)

    def _connect(self, network):
        self._set_addresses(network[3])
        if network[2] and not self._is_anywhere:
            self._wlan.connect(network[0], network[1], bssid=network[2])
        else:
            self._wlan.connect(network[0], network[1])

    def _set_addresses(self, addresses):
        if addresses:
            self._wlan.ifconfig(addresses)
        elif self._is_static:  # ifconfig("dhcp") would wait for the answer, up to 10 s on RP2
            self._wlan.ipconfig(dhcp4=True)
        self._is_static = bool(addresses)

    def _end(self, error):
        """This attempt failed; the radio seems to work. Raises OSError after a round."""
        self._is_joining = False
        if self._told in (_OK, _WIFI_NO_AP):  # out of range is less informative than a refusal
            self._told = error
        is_over = self._next()
        self._failures += is_over
        if self._failures == _FAILURES:
            self._power_off()
        else:
            self._leave()
        if is_over:
            told, self._told = self._told, _OK
            raise OSError(told)

    def _next(self):
        """Choose this network at any access point, or the next network. True: a round ended."""
        if self._networks[self.at][2] and not self._is_anywhere:
            self._is_anywhere = True
            return False
        self._is_anywhere = False
        self.at = (self.at + 1) % len(self._networks)
        self._tried = (self._tried + 1) % len(self._networks)
        return not self._tried

    def _leave(self):
        try:
            self._wlan.disconnect()
        except OSError:
            pass

    def _power_off(self):
        """The radio failed: switch it off; the next join() starts it."""
        self._is_active = False
        self._failures = 0
        self.radio_failures += 1
        try:
            self._switch_off(self._wlan)
        except OSError:
            pass
