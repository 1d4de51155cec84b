"""The board contract (`boards/PORTING.md`) for boards with Wi-Fi, from this package's modules.

A port's class (`esp32_board.py`, `rp2_board.py`) adds _open_outbox(), _open_sensors(), _starts(),
_joined_last(), sensor_note(), hung_note(), _switch_off(), release_watchdog() and, where it differs,
sleep() and set_clock(). Imports no module of a port, but is given them. open() allocates; idle(),
feed_watchdog(), keep_time() and the link allocate nothing while they wait or have nothing to do.

The watchdog is started when the loop begins, and only the loop feeds it. Nothing there takes longer
than its 8 s: network, name, time, TCP and TLS proceed in steps; only TLS arithmetic (1 to 3 s),
switching the radio on, and an erase (0.4 s) cannot be divided.
"""

import gc
import os
import random
import select
import socket

from micropython import const

from outpost.memory import unload
from outpost.ticks import elapsed_ms
from support import crash_log
from support.chip_sensors import Reading

_IDLE_MS = const(5)
_CHECK_EACH_MS = const(15_000)  # pinned files: `pinned.watch()`
_WATCHDOG_MS = const(8000)  # RP2040 can do 8,388
_SETTLED_MS = const(600_000)
_MOST_STARTS = const(99)
WANTED = const(100)  # in place of the count: the next start is on purpose
_SOFT_RESET = const(5)  # as machine.reset_cause() has it on ports that know it
_ENOMEM = const(12)
_NO_MEMORY = const(
    "no memory for the connection to the broker: ENOMEM (12). These settings are too much for this "
    "board: leave out one of series, commands, update_key, level 5"
)
_FIRST_DAY = const(20_089)  # 2025-01-01: a clock before that was never set
_DAYS_1970_TO_2000 = const(10_957)
# For programs without station/settings.py, which has the same defaults (test_boards.py).
_BLOCKS = const(64)
_TIME_HOST = const("pool.ntp.org")


class WifiBoard:
    """machine, network, time: the port's modules, not used before begin() and open()."""

    device: "Anything"
    link: "Anything"
    sensors: "Anything"
    align: int
    page_bytes: int
    _wifi: "Anything"
    _net_time: "Anything"
    _parts: "Anything"
    # What a port's class adds
    in_flight_bytes: int
    reprograms = False  # the outbox's flash takes several programs in a page, although align is 256
    _starts: "Anything"  # callable: starts in a row, kept over a reset; given a count, keeps it
    sensor_note: "Anything"  # callable as _starts: which sensor is being read;
    hung_note: "Anything"  # which sensors hung, and for how many starts they are left alone
    _open_outbox: "Anything"  # takes the settings; sets device, align, page_bytes
    _open_sensors: "Anything"  # takes names, or None: all of the chip's own; sets sensors
    _switch_off: "Anything"  # takes the station interface; turns the radio off
    _joined_last: "Anything"  # as _starts: index of the network joined before a sleep

    def __init__(self, machine, network, time):
        self._machine, self._network, self._time = machine, network, time
        self.ticks_ms, self._sleep_ms = time.ticks_ms, time.sleep_ms
        # open() sets these
        self.device = self.link = self.sensors = None
        self.about = []
        self.align = self.page_bytes = 0
        # the first calls of the link set these
        self._wifi = self._net_time = self._wifi_link = None
        self._parts = ()  # what they need of the settings
        self._has_kept_time = False  # from before a sleep; the link asks at its first calls
        self.flash = None  # the device under the filesystem, where files reserve outbox blocks
        self._pins = None  # the outbox's device there
        self._pins_told = 0  # lost files reported so far
        # the loop
        self._dog = None
        self._clock = None  # the program's, once it is known
        self._since_ms = 0  # when started() was called
        self._checked_ms = self._check_each_ms = 0  # pinned files
        self._is_settled = False
        # How often memory was missing: for a connection; 1 if the run before ended that way
        self._no_memory = 0
        self._failures = 0  # of the client, that were looked at
        self._is_told = False
        self._is_wanted = False  # somebody wanted this start

    # --- Start and end ---

    def begin(self):
        """Before all else: count the start, and slow down a board that restarts repeatedly."""
        starts = self._starts()
        self._is_wanted = starts == WANTED
        starts = 1 if self._is_wanted else min(starts + 1, _MOST_STARTS)
        self._starts(starts)
        self._sleep_ms(crash_log.pause_ms(starts))

    def started(self, client):
        """The loop begins."""
        self._since_ms = self.ticks_ms()
        self._dog = self._machine.WDT(timeout=_WATCHDOG_MS)

    def feed_watchdog(self):
        if self._dog:
            self._dog.feed()
        if not self._is_settled and elapsed_ms(self.ticks_ms(), self._since_ms) >= _SETTLED_MS:
            self._is_settled = True
            self._starts(0)

    def crashed(self, error):
        """Keep the reason in crash.txt, and reset."""
        gc.collect()  # the program is gone: there is memory again
        crash_log.tell(error)
        if isinstance(error, MemoryError):
            crash_log.mark(True)
        self._machine.reset()

    def give_up(self):
        """The settings are wrong: the program ends, and this start does not count."""
        self._starts(WANTED)

    def sleep(self, ms):
        """Deep sleep; waking is like a reset."""
        self._starts(0)
        self._keep_network()
        self._machine.deepsleep(ms)

    def _keep_network(self):
        """So that the next start tries it first."""
        if self._wifi:
            self._joined_last(self._wifi.at)

    def restart(self):
        """A restart on purpose, which does not count as a crash."""
        self._starts(WANTED)
        self._machine.reset()

    def idle(self, client):
        if self._pins and elapsed_ms(self.ticks_ms(), self._checked_ms) >= self._check_each_ms:
            self._check_pin(self._pins, client)
        if client and client.failures != self._failures:
            self._look_at_failure(client)
        self._sleep_ms(_IDLE_MS)

    def _look_at_failure(self, client):
        """A board without memory cannot say so to the broker: so once at its prompt and in
        crash.txt, and in a reading, for when it can."""
        self._failures = client.failures
        if client.last_error != _ENOMEM:
            return
        self._no_memory += 1
        if not self._is_told:
            self._is_told = crash_log.tell_text(_NO_MEMORY)

    def _check_pin(self, pins, client):
        """Check one file: each once, soon after the start, then at a steady pace."""
        self._checked_ms = self.ticks_ms()
        self._watch(pins)
        if pins.lost != self._pins_told:
            self._pins_told = pins.lost
            if client:
                pins.guard(client.session.outbox)
            print("outbox: %s; this block is not written any more" % pins.fault)

    def _watch(self, pins):
        try:
            self._check_each_ms = 0 if pins.watch() else _CHECK_EACH_MS
        except MemoryError:  # the check needs 2 KB for a moment: retry next time
            pass

    def pins_lost(self):
        """How many files that reserve an outbox block have been found lost since the start."""
        return self._pins.lost if self._pins else 0

    def stopping(self):
        return False

    def published(self, station):
        pass

    def stopped(self, client):
        pass

    # --- Settings to a working board ---

    def open(self, settings):
        """Set everything up from the settings. Starts no radio. Returns itself.

        The settings are checked before the flash is touched, which may take a minute to pin.
        Raises ValueError: one line that names the key, or the fault of the outbox's files.
        """
        self._open_link(settings)
        if self._starts() == WANTED:  # without begin(): the trial of an update
            self._is_wanted = True
        self.about = [
            Reading(b"signal", b"dBm", 0, self._signal),
            Reading(b"reset_cause", b"", 0, self._reset_cause),
            Reading(b"no_memory", b"", 0, self._ran_out),
        ]
        self._no_memory += crash_log.mark(False)
        self._open_sensors(settings.get("sensors"))
        self._open_outbox(settings)
        return self

    def _reset_cause(self):
        """5 after restart(), and after a program that was stopped by hand: the ports report what
        reset the chip last, RP2 also 3 (watchdog) for every reset by program."""
        return _SOFT_RESET if self._is_wanted else self._machine.reset_cause()

    def _ran_out(self):
        return self._no_memory

    def _signal(self):
        return self._wifi.signal() if self._wifi else None

    def _open_link(self, settings):
        """Check what the link needs. It is made at its first call."""
        host, is_secure = settings.get("broker_host"), settings.get("tls")
        if not host:
            raise ValueError("settings: key 'broker_host' is missing; add it")
        port = settings.get("broker_port", 8883 if is_secure else 1883)
        name = settings.get("server_name") or host
        secure = self._secure(settings, name) if is_secure else None
        country, time_host = settings.get("wifi_country"), settings.get("ntp_host", _TIME_HOST)
        self._parts = self._networks(settings), country, time_host, host, port, secure
        self.link = self._call_link

    def _call_link(self):
        """The link. Its modules are imported at its first two calls, when a first message is in
        flash: 0.1 s on an RP2040, most of it while the radio joins."""
        if self._wifi_link:
            return self._wifi_link()
        if self._wifi:
            self._open_rest()
            return self._wifi_link()
        self._open_wifi()
        self._wifi.join()
        return None

    def _open_wifi(self):
        from support.wifi import Wifi

        networks, country = self._parts[:2]

        def radio():
            if country:
                self._network.country(country)
            return self._network.WLAN(self._network.STA_IF)

        off, prepare, first = self._switch_off, self._prepare, self._joined_last()
        self._wifi = Wifi(radio, networks, self.ticks_ms, off, prepare, first=first)

    def _open_rest(self):
        from support.dns import Ask, Dns
        from support.ntp import NetTime
        from support.wifi_link import WifiLink

        _, _, time_host, host, port, secure = self._parts
        wifi, ticks_ms, bits = self._wifi, self.ticks_ms, self.random_bits
        ask, names = Ask(socket, ticks_ms), Dns(Ask(socket, ticks_ms), wifi, bits)
        time = NetTime(ask, names, time_host, bits, ticks_ms, self._set_rtc)
        time.is_set = self._has_kept_time
        names = Dns(Ask(socket, ticks_ms), wifi, bits)
        self._net_time, self._parts = time, ()
        self._wifi_link = WifiLink(wifi, names, time, socket, select, host, port, ticks_ms, secure)

    def _networks(self, settings):
        """The networks in the form that Wifi takes. Raises ValueError."""
        listed = settings.get("wifi_networks")
        if listed:
            from support.wifi_networks import networks

            try:
                return networks(listed)
            finally:
                unload("support.wifi_networks")
        if not settings.get("wifi_ssid"):
            reason = "this board reaches the broker by Wi-Fi"
            raise ValueError("settings: key 'wifi_ssid' is missing; " + reason)
        return [(settings["wifi_ssid"], settings.get("wifi_password") or None, None, None)]

    def _prepare(self, wlan):
        """Called after each start of the radio."""

    def _secure(self, settings, name):
        from support.tls_link import TlsLink, client_context

        context, ticks_ms = client_context(settings), self.ticks_ms
        return lambda open_socket: TlsLink(open_socket, context, name, _yes, ticks_ms)

    def _own_sensors(self, temperature, exponent=-1):
        """The chip's own sensors. temperature: callable, degrees Celsius times 10 ** -exponent."""
        own = [
            Reading(b"temperature", b"Cel", exponent, temperature),
            Reading(b"memory", b"B", 0, gc.mem_free),  # pyright: ignore[reportAttributeAccessIssue]
        ]
        return own + self.about

    def _pinned_blocks(self, raw, settings):
        """The outbox's blocks in the board's own filesystem; made at the first start (`pinned.py`).

        Its files are checked one by one while idle; after a crash, which a lost file may have
        caused, all of them are checked here.
        """
        from support.pinned import NotPinned, open_blocks

        board = self._machine.unique_id()
        self.flash = raw  # set even if the rest fails: for `outpost outbox --raw`
        try:
            has_crashed = 1 < self._starts() < WANTED
            self._pins = open_blocks(raw, "/outbox", board, has_crashed)
        except NotPinned:
            from support.pinning import create_first, say

            blocks = settings.get("outbox_blocks", _BLOCKS)
            self._pins = create_first(raw, "/outbox", blocks, os.urandom(8), board, say)
        return self._pins

    # --- Time ---

    def set_clock(self, clock, now_ms):
        """If this start ended a deep sleep, as the port reports, the chip's clock kept running."""
        self._clock = clock
        if self._machine.reset_cause() != getattr(self._machine, "DEEPSLEEP_RESET", -1):
            return
        now = self._time.time()
        day = now // 86400 + self._first_day()
        if day >= _FIRST_DAY:
            clock.set(day, now % 86400 * 1000, now_ms)
            self._has_kept_time = True

    def keep_time(self, clock, now_ms):
        """Called from the loop."""
        self._clock = clock
        if self._net_time:
            self._net_time.step(clock, self._wifi, now_ms)

    def _first_day(self):
        """Day number of the port's time 0: RP2 counts from 1970, ESP32 from 2000."""
        return _DAYS_1970_TO_2000 if self._time.gmtime(0)[0] == 2000 else 0

    def _set_rtc(self, day, ms):
        """mbedTLS checks certificates against it. False: the port cannot represent that time;
        MicroPython 1.25 has 2^31 s: until 2038 on RP2, until 2068 on ESP32.
        """
        try:
            now = self._time.gmtime((day - self._first_day()) * 86400 + ms // 1000)
        except OverflowError:
            return False
        date = (now[0], now[1], now[2], now[6], now[3], now[4], now[5], 0)
        self._machine.RTC().datetime(date)
        return True

    # --- The rest ---

    def random_bits(self):
        """16 random bits, for the jitter of the reconnect delay."""
        return random.getrandbits(16)

    def random_hex(self):
        return ("%02x%02x%02x%02x" % tuple(os.urandom(4))).encode()


def _yes():
    """The time is set: WifiLink has waited for it."""
    return True
