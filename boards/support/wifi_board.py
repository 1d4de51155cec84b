"""What boards with Wi-Fi have in common: the functions of board.py, put together from the modules of this package.

A board.py makes one of its subclasses (`esp32_board.py`, `rp2_board.py`), gives it the port's modules, and takes its methods for
its own functions. idle(), feed_watchdog(), keep_time() and the link take no heap while they wait
or have nothing to do.

The watchdog is started when the loop begins and fed by the loop alone. Nothing there lasts longer than its 8 s: network, name,
time, TCP and TLS go step by step; what cannot be cut is TLS arithmetic (1 to 3 s), switching the radio on, an erase (0.4 s).
"""

import gc
import os
import random
import select
import socket

from micropython import const

from outpost.session import elapsed_ms
from support import crash_log
from support.chip_sensors import Reading
from support.dns import Ask, Dns
from support.ntp import NetTime
from support.wifi import Wifi
from support.wifi_link import WifiLink

_IDLE_MS = const(5)
_WATCHDOG_MS = const(8000)  # RP2040 can do 8,388
_SETTLED_MS = const(600_000)
_MOST_STARTS = const(99)
_FIRST_DAY = const(20_089)  # 2025-01-01: a clock that says less was never set
_DAYS_1970_TO_2000 = const(10_957)


class WifiBoard:
    """machine, network, time: the port's modules. starts: callable, gives the count of starts; with a number: keeps it.

    switch_off, prepare: see Wifi.
    """

    def __init__(self, machine, network, time, starts, switch_off, prepare=None):
        self._machine, self._network, self._clock_module = machine, network, time
        self._starts, self._switch_off, self._prepare = starts, switch_off, prepare
        self._ticks_ms = time.ticks_ms
        self._sleep_ms = time.sleep_ms
        self._dog = None
        self._since_ms = 0
        self._is_settled = False
        self._wifi = self._net_time = None
        self._unchecked = None  # the outbox's device, while it has files to check

    # --- Start and end ---

    def begin(self):
        """Before all else: count the start; a board that starts again and again is slowed."""
        starts = min(self._starts() + 1, _MOST_STARTS)
        self._starts(starts)
        self._sleep_ms(crash_log.pause_ms(starts))

    def started(self, client):
        """The loop begins."""
        self._since_ms = self._ticks_ms()
        self._dog = self._machine.WDT(timeout=_WATCHDOG_MS)

    def feed_watchdog(self):
        if self._dog:
            self._dog.feed()
        if not self._is_settled and elapsed_ms(self._ticks_ms(), self._since_ms) >= _SETTLED_MS:
            self._is_settled = True
            self._starts(0)

    def crashed(self, error):
        """Keep the reason in crash.txt, and begin anew."""
        text = crash_log.text_of(error)
        print(text)
        crash_log.keep("crash.txt", text)
        self._machine.reset()

    def give_up(self):
        """The settings are at fault: nothing to do but wait at the prompt for better ones."""
        self._starts(0)

    def sleep(self, ms):
        """Deep sleep; the board wakes as from a reset."""
        self._starts(0)
        self._machine.deepsleep(ms)

    def idle(self, client):
        if self._unchecked and not self._unchecked.check_next():
            self._unchecked = None
        self._sleep_ms(_IDLE_MS)

    def stopping(self):
        return False

    def published(self, station):
        pass

    def stopped(self, client):
        pass

    # --- Network ---

    def link(self, settings):
        """The callable that the client opens its stream with. Raises ValueError: one line that names the key."""
        if not settings["wifi_ssid"]:
            raise ValueError("settings: key 'wifi_ssid' is missing; this board reaches the broker by Wi-Fi")
        if settings["wifi_country"]:
            self._network.country(settings["wifi_country"])
        wlan = self._network.WLAN(self._network.STA_IF)
        ticks_ms = self._ticks_ms
        ssid, password = settings["wifi_ssid"], settings["wifi_password"]
        self._wifi = Wifi(wlan, ssid, password, ticks_ms, self._switch_off, self._prepare)
        ask, host = Ask(socket, ticks_ms), settings["ntp_host"]
        bits, on_time = self.random_bits, self._set_rtc
        self._net_time = NetTime(ask, self._dns(), host, bits, ticks_ms, on_time)
        secure = self._secure(settings) if settings["tls"] else None
        host, port = settings["broker_host"], settings["broker_port"]
        dns, net_time = self._dns(), self._net_time
        return WifiLink(self._wifi, dns, net_time, socket, select, host, port, ticks_ms, secure)

    def _dns(self):
        return Dns(Ask(socket, self._ticks_ms), self._wifi, self.random_bits)

    def _secure(self, settings):
        from support.tls_link import TlsLink, client_context

        context, name, ticks_ms = client_context(settings), settings["server_name"], self._ticks_ms
        return lambda open_socket: TlsLink(open_socket, context, name, _yes, ticks_ms)

    def signal(self):
        """Strength of the network in dBm, or None."""
        if not self._wifi or not self._wifi.is_up:
            return None
        return self._network.WLAN(self._network.STA_IF).status("rssi")

    # --- Time ---

    def set_clock(self, clock, now_ms):
        """After deep sleep the chip's own clock went on, where the port says that it was deep sleep."""
        if self._machine.reset_cause() != getattr(self._machine, "DEEPSLEEP_RESET", -1):
            return
        now = self._clock_module.time()
        day = now // 86400 + self._first_day()
        if day >= _FIRST_DAY:
            clock.set(day, now % 86400 * 1000, now_ms)
            self._time_is_known()

    def _time_is_known(self):
        if self._net_time:
            self._net_time.is_set = True

    def keep_time(self, clock, now_ms):
        """Called from the loop. Without link() there is nobody to ask."""
        if self._net_time:
            self._net_time.step(clock, self._wifi, now_ms)

    def _first_day(self):
        """Day number of the port's time 0: RP2 counts from 1970, ESP32 from 2000."""
        return _DAYS_1970_TO_2000 if self._clock_module.gmtime(0)[0] == 2000 else 0

    def _set_rtc(self, day, ms):
        """mbedTLS judges certificates by it."""
        date = self._clock_module.gmtime((day - self._first_day()) * 86400 + ms // 1000)
        self._machine.RTC().datetime((date[0], date[1], date[2], date[6], date[3], date[4], date[5], 0))

    # --- The rest ---

    def random_bits(self):
        """16 random bits, for the jitter of the reconnect delay."""
        return random.getrandbits(16)

    def random_hex(self):
        return ("%02x%02x%02x%02x" % tuple(os.urandom(4))).encode()

    def own_sensors(self, temperature, exponent=-1):
        """What the chip has itself. temperature: callable, degrees Celsius times 10 ** -exponent."""
        return [
            Reading(b"temperature", b"Cel", exponent, temperature),
            Reading(b"memory", b"B", 0, gc.mem_free),  # pyright: ignore[reportAttributeAccessIssue] - not in CPython's gc
            Reading(b"signal", b"dBm", 0, self.signal),
            Reading(b"reset_cause", b"", 0, self._machine.reset_cause),
        ]

    def pinned_blocks(self, raw, blocks):
        """The outbox's blocks in the board's own filesystem; made on the first start (`pinned.py`).

        Its files are checked one by one when idle; after a crash, of which they may be the cause, all before it begins.
        """
        from support.pinned import NotPinned, open_blocks

        board = self._machine.unique_id()
        try:
            self._unchecked = open_blocks(raw, "/outbox", board, self._starts() > 1)
            return self._unchecked
        except NotPinned:
            from support.pinning import create, say

            return create(raw, "/outbox", blocks, os.urandom(8), board, say)


def _yes():
    """WifiLink has waited for the time already."""
    return True
