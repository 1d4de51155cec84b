"""Nothing that a sensor does stops the station or another sensor.

A Guard stands between the station and one sensor. It returns an integer times ten to a fixed
exponent, or None. Anything else that a driver may do becomes one of FAULTS: it is counted, printed
when it changes, and reported by `sensor_notices.py`. If a sensor with a driver file fails, its
driver is constructed again, at once and then at intervals that double from a second to ten minutes.
So the sensor recovers without a reset when a loose wire is fixed. A slow reading is kept, and
followed by a pause ten times as long; the watchdog is fed before and after each reading. If a
reading never returns, the watchdog resets the board: the board has noted which sensor it was, and
leaves that one alone for an hour. In deep sleep, where no start lasts that long, it leaves it alone
for a growing number of starts (`hung.py`).

A float that a driver returns costs the driver 16 bytes of garbage on a 32-bit build, and the Guard
another 16 (`test_guard.py`). Integers do not allocate.
"""

from micropython import const

from outpost.ticks import elapsed_ms

FAULTS = (
    "well",
    "no answer",  # OSError: not wired, wrong address, gone
    "raised",  # any other exception
    "no reading",  # None, three times in a row
    "not a number",  # NaN, infinite
    "garbage",  # text, too few values, ...
    "out of range",
    "slow",
    "not usable",  # its file or its settings
    "hung",  # never returned: the watchdog reset the board
)
_ABSENT = const(1)
_RAISED = const(2)
_NO_READING = const(3)
_NOT_A_NUMBER = const(4)
_GARBAGE = const(5)
_OUT_OF_RANGE = const(6)
_SLOW = const(7)
_NOT_USABLE = const(8)
_HUNG = const(9)

_MOST_EMPTY = const(3)  # readings of None in a row before they are a fault
_SLOW_MS = const(1000)
_PAUSES = const(10)  # times as long as the slow reading
_FIRST_RETRY_MS = const(1000)
_LAST_RETRY_MS = const(600_000)
_HUNG_MS = const(3_600_000)  # until a hung sensor is tried again
_MOST_VALUE = const(0x3FFF_FFFF)
_MOST_FLOAT = const(1e9)
_LEAST_FLOAT = -1e9
_DETAIL_CHARACTERS = const(80)


class Channel:
    """One value of a guarded sensor, as Station requires. The first one takes the reading."""

    def __init__(self, guard, index, name, unit, exponent):
        self.guard, self._index = guard, index
        self.name, self.unit, self.exponent = name, unit, exponent
        self.settle_ms = guard.settle_ms

    def read(self):
        if not self._index:
            self.guard.measure()
        return self.guard.values[self._index]


class Guard:
    """name: bytes. readings: (suffix, unit, exponent) of each value, maybe with least and most.

    driver: object with read(); or make: callable that constructs one. feed: feeds the watchdog.
    fault: index into FAULTS; faults: how many since the start; detail: text of the last one.
    """

    values: "Anything"
    _hung: "Anything" = None  # the board's Hung, while this sensor is in it

    def __init__(self, name, readings, ticks_ms, feed, driver=None, make=None, settle_ms=0):
        self.name, self.settle_ms = name, settle_ms
        self.values = [None] * max(len(readings), 1)
        self.exponents = [one[2] for one in readings] or [0]
        self.fault = self.faults = 0
        self.detail = ""
        self.told = self.told_count = 0  # sensor_notices.py
        self.fault_name, self.faults_name = name + b".fault", name + b".faults"
        self._scales = [10.0**-exponent for exponent in self.exponents]
        self._least = [one[3] if len(one) > 3 else -_MOST_VALUE for one in readings]
        self._most = [one[4] if len(one) > 3 else _MOST_VALUE for one in readings]
        self._driver, self._make = driver, make
        self._ticks_ms, self._feed = ticks_ms, feed
        self._since_ms = self._wait_ms = self._retry_ms = 0
        self._note, self._number = _forget, 0
        self._empty = 0  # readings of None in a row
        self._good_ms = 0  # ticks of the last good reading, or of the driver's start
        self._code = 0  # of the latest reading

    def channels(self, readings):
        """A Channel for each value; a sensor without a driver has one, which has no readings."""
        found = []
        for suffix, unit, exponent in [one[:3] for one in readings] or [("", "", 0)]:
            name = self.name + (b"_" + _bytes(suffix) if suffix else b"")
            found.append(Channel(self, len(found), name, _bytes(unit), exponent))
        return found

    def watch(self, note, number, hung):
        """note: callable that keeps a number across a reset: this sensor's, while it is being read.
        hung: a Hung, or None."""
        self._note, self._number = note, number
        if hung and hung.has(number):
            self._hung = hung
            if hung.is_due:
                return
            self.fault, self.faults, self.detail = _HUNG, 1, "the board was reset"
            self._since_ms, self._wait_ms = self._ticks_ms(), _HUNG_MS
            self.say()

    def may_fail_silently(self):
        """A chip's own sensor may have no reading at times, such as signal without Wi-Fi."""
        return self._make is None

    def measure(self):
        """Take a reading into `values`, or leave them None."""
        index = len(self.values)
        while index:
            index -= 1
            self.values[index] = None
        now_ms = self._ticks_ms()
        if self._wait_ms and elapsed_ms(now_ms, self._since_ms) < self._wait_ms:
            return
        self._since_ms = now_ms
        self._wait_ms = 0
        self._feed()
        self._note(self._number)
        self._read()
        self._note(0)
        if self._hung:
            self._hung.forget(self._number)
            self._hung = None
        code = self._code
        self._feed()
        took_ms = elapsed_ms(self._ticks_ms(), now_ms)
        if not code and took_ms > _SLOW_MS:
            code = _SLOW
            self.detail = str(took_ms) + " ms"
        self._judge(code, took_ms)

    # --- One reading ---

    def _read(self):
        with self:
            if self._driver is None:
                self._driver = self._make()
                self._good_ms = self._since_ms
            self._code = self._take(self._driver.read())

    def __enter__(self):
        """Used by `with`, because `except ... as` makes a frame too large for the C stack."""
        self.detail = ""

    def __exit__(self, kind, error, trace):
        """True: the exception ends here."""
        if error is None or not isinstance(error, (Exception, SystemExit)):
            return False  # Ctrl-C
        self._code = _code_of(error, self._driver is None)
        self.detail = _text_of(error)
        return True

    def _take(self, found):
        """Take each value; a good one is kept even if another is bad. Returns a code."""
        count = len(self.values)
        if type(found) is not list and type(found) is not tuple:
            return self._put(0, found) if count == 1 else _GARBAGE
        if len(found) != count:
            return _GARBAGE
        worst = index = 0
        while index < count:
            code = self._put(index, found[index])
            # one that is absent beside others is no fault: a BMP280 has no humidity
            worst = max(worst, code)
            index += 1
        return worst

    def _put(self, index, value):
        """Put one value in its place. Returns a code."""
        if value is None:
            return 0
        kind = type(value)
        if kind is float:
            value *= self._scales[index]
            if value != value or not _LEAST_FLOAT < value < _MOST_FLOAT:
                return _NOT_A_NUMBER if value != value or value - value != 0 else _OUT_OF_RANGE
            value = round(value)
        elif kind is bool:
            value = 1 if value else 0
        elif kind is not int:
            return _GARBAGE
        if not self._least[index] <= value <= self._most[index]:
            return _OUT_OF_RANGE
        self.values[index] = value
        self._good_ms = self._since_ms
        return 0

    def has_values(self):
        index = len(self.values)
        while index:
            index -= 1
            if self.values[index] is not None:
                return True
        return False

    # --- Consequences ---

    def _judge(self, code, took_ms):
        """Count, print, and decide when the next attempt is due."""
        has_values = self.has_values()
        if code or has_values:
            self._empty = 0
        elif self._make is not None:
            if self._is_settling():
                return
            self._empty = min(self._empty + 1, _MOST_EMPTY)
            code = _NO_READING if self._empty == _MOST_EMPTY else 0
        if code:
            self.faults += 1
            self._plan(code, has_values, took_ms)
        elif has_values:
            self._retry_ms = 0
        if code != self.fault:
            self.fault = code
            self.say()

    def _is_settling(self):
        """True while another None means nothing: the interval is shorter than a reading takes."""
        elapsed = elapsed_ms(self._since_ms, self._good_ms)
        return self._empty >= _MOST_EMPTY - 1 and elapsed < self.settle_ms

    def _plan(self, code, has_values, took_ms):
        if code == _SLOW:
            self._wait_ms = min(took_ms * _PAUSES, _LAST_RETRY_MS)
        elif not has_values:
            if self._make is not None:
                self._driver = None
            self._wait_ms = self._retry_ms
            self._retry_ms = min(max(2 * self._retry_ms, _FIRST_RETRY_MS), _LAST_RETRY_MS)

    def say(self):
        """Print the fault at the prompt."""
        print("sensor", str(self.name, "utf-8") + ":", FAULTS[self.fault], self.detail)


def guarded(sensors, ticks_ms, feed, note=None, kept=None):
    """Returns (guards, channels) of a board's sensors.

    A sensor is an object with name, unit, exponent, read(), or one of a driver file: with name,
    readings, open(). Both may have settle_ms. note: `board.sensor_note`; kept: its hung_note.
    """
    guards, channels = [], []
    hung = _find_hung(note, kept)
    for sensor in sensors:
        readings = getattr(sensor, "readings", None)
        settle_ms = getattr(sensor, "settle_ms", 0)
        if readings is None:
            readings = (("", sensor.unit, sensor.exponent),)
            one = Guard(sensor.name, readings, ticks_ms, feed, sensor, None, settle_ms)
        else:
            one = Guard(sensor.name, readings, ticks_ms, feed, None, sensor.open, settle_ms)
            if note:
                one.watch(note, len(guards) + 1, hung)
        guards.append(one)
        channels += one.channels(readings)
    return guards, channels


def _find_hung(note, kept):
    """A Hung, or None where no sensor hung."""
    number = note() if note else 0
    if not number and not (kept and kept()):
        return None
    from station.hung import Hung

    found = Hung(kept, number)
    if number:
        note(0)
    return found


def _forget(number):
    """Does nothing, for a sensor that is not watched: the chip's own."""


def _code_of(error, is_new):
    """Returns an index into FAULTS. is_new: the driver was being constructed."""
    if isinstance(error, OSError):
        return _ABSENT
    if getattr(error, "is_settings", False) or (is_new and isinstance(error, ImportError)):
        return _NOT_USABLE
    return _RAISED


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def _text_of(error):
    """Returns one line, so that the error and its traceback need not be kept."""
    try:
        if getattr(error, "is_settings", False):
            return str(error)
        return (type(error).__name__ + " " + str(error))[:_DETAIL_CHARACTERS].replace("\n", " ")
    except Exception:  # its own __str__ may raise
        return type(error).__name__
