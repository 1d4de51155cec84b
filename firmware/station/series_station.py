"""A station that stores its measurements as samples of a series (`outpost/series.py`): each durable
at once, many in one message. Loaded only when `series` is set.

A measurement is either a sample or a message of its own, as without series. It is a message, with
all readings of the measurement, when something must not wait for the record:

- a reading crosses a limit of `alarms`, in either direction;
- a sensor's fault appeared, changed or ended, or a counter of `health.py` changed;
- an answer to a command still waits to be stored;
- a value has more than 30 bits, which no sample takes;
- after each record, the message's number is one at which the board reports about itself
  (`about.py`, `flash_wear.py`, ...).

A record is closed, and goes out, when it has no room for two more samples, before the next sample
would find it `series_age_s` old, before any message, and before a sleep or the program's end. Does
not allocate after construction (`test_heap_series.py`, with either alignment).

On flash that takes one program per page, samples would have to wait in RAM, and `series` promises
that they do not: such a board refuses the setting. `fuzz/hunt_power_loss.py --series` cuts the
power, with both alignments.
"""

from micropython import const

from outpost.series import Series
from outpost.series_outbox import over  # noqa: F401 - for main.py
from station.station import Station

RECORD_BYTES = const(1024)  # of a record in flash: fewer bytes a sample than in shorter ones
_OK = const(0)
_TOO_BIG = const(-2)
_OWES = const(1)  # as in commands.py
_LIMIT = const(0x20000000)  # of a sample's value
_MOST_STEP_MS = const(1000)


def step_of(interval_ms):
    """Returns the unit of the samples' times: a hundredth of the interval, 1 to 1000 ms. Jitter of
    the loop below that costs nothing."""
    return min(max(interval_ms // 100, 1), _MOST_STEP_MS)


class Alarm:
    """Limits of one column: its reading is below, above, or within. None: no limit."""

    def __init__(self, column, below, above, exponent):
        self.column = column
        self._least, self._most = _scaled(below, exponent, -1), _scaled(above, exponent, 1)
        self._where = 0

    def crosses(self, value):
        """True when the value crossed a limit since the last reading. It starts "within"."""
        if value is None:
            return False
        where = 1 if value > self._most else -1 if value < self._least else 0
        crosses = where != self._where
        self._where = where
        return crosses


def _scaled(limit, exponent, sign):
    """Returns the limit in the column's units, rounded. None is beyond every value."""
    if limit is None:
        return sign * _LIMIT
    return max(-_LIMIT, min(_LIMIT, round(limit * 10.0**-exponent)))


class SeriesStation(Station):
    """Call start() before the first step. `sensors` begin with those that are columns."""

    series: "Anything" = None  # a Series, from start() on

    def __init__(self, client, pack, clock, sensors, topic, interval_ms, now_ms):
        Station.__init__(self, client, pack, clock, sensors, topic, interval_ms, now_ms)
        self._columns, self._guards, self._health = 0, (), None
        self._alarms = []

    def start(self, settings, columns, guards, health):
        """columns: how many of the sensors are columns. guards, health: their news are reported at
        once. Raises ValueError."""
        self._columns, self._guards, self._health = columns, guards, health
        found = [(one.name, one.unit, one.exponent) for one in self.sensors[:columns]]
        outbox, device = self.client.session.outbox, settings["device_id"].encode()
        options = {"step_ms": step_of(self.interval_ms), "max_age_s": settings["series_age_s"]}
        try:
            self.series = Series(outbox, self.topic, device, found, **options)
        except ValueError as error:
            raise ValueError("settings: key 'series' cannot be true here: " + str(error))
        self._watch(settings["alarms"] or {})

    def _watch(self, alarms):
        names = [one.name.decode() for one in self.sensors[: self._columns]]
        for name, limits in alarms.items():
            if name not in names:
                raise ValueError(
                    "settings: key 'alarms' names '%s'; readings: %s" % (name, ", ".join(names))
                )
            at = names.index(name)
            exponent = self.sensors[at].exponent
            one = Alarm(at, limits.get("below"), limits.get("above"), exponent)
            self._alarms.append(one)

    def measure(self):
        """As Station's."""
        at = 0
        while at < self._columns:
            self.values[at] = self.sensors[at].read()
            at += 1
        self.is_alarm = self._crosses()
        if self.is_alarm or self._has_news():
            self.close_record()  # the message's number is the one after it
        is_told = self._read_notices() or self.is_alarm or self._owes()
        if not is_told:
            self._done = len(self.sensors)
            if self._store():
                return self.sample_seq >= 0 or self.status != _OK
            self.close_record()
        self.sample_seq = -1
        self._done = 0
        return self.publish_rest()

    def _store(self):
        """Store the measurement as a sample. False: it must be a message."""
        self.sample_seq = -1
        self.status = _OK
        if self._has_values():
            self.status = self.series.add(self.clock, self.values)
            if self.status == _TOO_BIG:
                return False
            if self.status == _OK:
                self.sample_seq = self.client.session.outbox.next_seq
            self.published += self.status == _OK
            self.not_published += self.status != _OK
        if self.series.is_nearly_full():
            self.close_record()
        self.series.poll(self.clock, self.interval_ms)
        return True

    def _has_values(self):
        at = self._columns
        while at:
            at -= 1
            if self.values[at] is not None:
                return True
        return False

    def _crosses(self):
        found = False
        at = len(self._alarms)
        while at:
            at -= 1
            one = self._alarms[at]
            found = one.crosses(self.values[one.column]) or found
        return found

    def _has_news(self):
        if self._owes():
            return True
        at = len(self._guards)
        while at:
            at -= 1
            if self._guards[at].fault != self._guards[at].told:
                return True
        return self._health.has_news()

    def _owes(self):
        """True while an answer waits, whose number no sample may take."""
        return self.commands and self.commands.work & _OWES

    def _read_notices(self):
        """Read what the board reports about itself, in place of samples. While a record is open it
        is None, because that number is not a message's. True: there is something."""
        is_open = self.series.is_open()
        found = False
        at = self._columns
        while at < len(self.sensors):
            self.values[at] = None if is_open else self.sensors[at].read()
            found = found or self.values[at] is not None
            at += 1
        return found

    def close_record(self):
        """Make the samples so far a message, which can be sent."""
        self.series.close()
