"""The time from a server (SNTP, RFC 4330), queried from the main loop: no call blocks.

A query is given up after 6 s, and so is resolving the server's name before it. The next query
follows 6 h after an answer, and 8 s after a failure, doubling to 17 min. Half the round trip is
added. A time before 2025, or one that the port cannot represent, is a failure. Allocates when it
sends a query and when an answer arrives, not between.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_OK = const(0)
_NTP_FAILED = const(-45)
_NTP_PORT = const(123)
_REST_MS = const(21_600_000)
_FIRST_WAIT_MS = const(8000)
_DAY_MS = const(86_400_000)
_DAY_S = const(86_400)
_DAYS_1900_TO_1970 = const(25_567)
_FIRST_DAY = const(20_089)  # 2025-01-01, as in wifi_board.py: a clock before that was never set


class NetTime:
    """ask, dns: unshared objects of `dns.py`. random: callable, 16 random bits.

    on_time: called with day and ms, as Clock.set(). False: the port cannot represent that time.
    """

    def __init__(self, ask, dns, host, random, ticks_ms, on_time=None):
        self._ask, self._dns, self._host, self._random = ask, dns, host, random
        self._ticks_ms, self._on_time = ticks_ms, on_time
        self._address = None
        self._question = b""
        self._since_ms = self._wait_ms = 0
        self.is_set = False
        self.failures = 0  # in a row
        self.last_error = _OK
        self._day = self._ms = 0

    def step(self, clock, wifi, now_ms):
        """Set the clock if a query is due and its answer is there. True if the clock was set."""
        if elapsed_ms(now_ms, self._since_ms) < self._wait_ms:
            return False
        if not wifi.is_up:
            self._rest(now_ms, 0)  # the network may be down longer than ticks can count
            return False
        found = self._try()
        if found is None:
            self._fail(now_ms)
        elif found:
            self._take(clock, now_ms)
        return found is True

    def _try(self):
        """True: the time is there. False: not yet. None: failed. Separate: the frame limit."""
        try:
            return self._asked()
        except OSError:
            return None

    def _asked(self):
        if not self._address:
            self._address = self._dns(self._host)
        elif not self._question:
            self._begin()
        else:
            reply = self._ask.answer()
            return True if reply and self._check(reply) else False
        return False

    def _fail(self, now_ms):
        self._rest(now_ms, min(_FIRST_WAIT_MS << min(self.failures, 7), 1_024_000))
        self.failures += 1
        self.last_error = _NTP_FAILED

    def _take(self, clock, now_ms):
        clock.set(self._day, self._ms, now_ms)
        self.is_set = True
        self.failures = self.last_error = _OK
        self._rest(now_ms, _REST_MS)

    def _rest(self, now_ms, wait_ms):
        self._address, self._question = None, b""
        self._dns.stop()
        self._ask.stop()
        self._since_ms, self._wait_ms = now_ms, wait_ms

    def _begin(self):
        """The server returns these 8 random bytes, so an answer cannot be forged blindly."""
        stamp = bytes([self._random() & 255 for _ in range(8)])
        self._question = b"\x23" + bytes(39) + stamp
        self._ask.begin(self._address, _NTP_PORT, self._question)

    def _check(self, reply):
        """True: a good answer. None: no answer to this query, or from a server without the time."""
        if len(reply) < 48 or reply[0] & 7 != 4 or reply[0] >> 6 == 3 or not 0 < reply[1] < 16:
            return None
        seconds = int.from_bytes(reply[40:44], "big")
        if reply[24:32] != self._question[40:] or not seconds:
            return None
        if seconds < 0x80000000:  # the counter restarted in 2036
            seconds += 0x100000000
        ms = (reply[44] << 8 | reply[45]) * 1000 >> 16
        ms += seconds % _DAY_S * 1000 + elapsed_ms(self._ticks_ms(), self._ask.sent_ms) // 2
        self._day = seconds // _DAY_S - _DAYS_1900_TO_1970 + ms // _DAY_MS
        self._ms = ms % _DAY_MS
        return True if self._day >= _FIRST_DAY and self._is_held() else None

    def _is_held(self):
        """Whether the port's own clock could be set to it, too."""
        return not self._on_time or self._on_time(self._day, self._ms) is not False
