"""Reports what a board is and how it is: one reading in a message at most, each at its place in 64
messages, and none where `health.py` or `sensor_notices.py` has one.

    firmware     its version: 10203 is 1.2.3. Message 1 of 64
    report_s     seconds between two reports: the interval; in deep sleep, the time between
                 connections. Message 2, soon after a start as for reset_cause, and after a change
    reset_cause  machine.reset_cause(): 1 power, 2 reset pin, 3 watchdog, 5 software, which the
                 board also says of a start that somebody wanted. Message 3, and the first message
                 after each start that did not end a deep sleep (4), unless that message has one of
                 the two above
    no_memory    how often memory was missing: for a connection since the start, and 1 if the run
                 before ended that way. Only after a change, in the next message without one of the
                 others
    signal       of the Wi-Fi, dBm. Messages 5, 21, 37 and 53

Readings of the board itself (`board.about`) are left out if the settings have them among the
sensors, which are in every message. Messages with the readings of `flash_wear.py` have none.
Allocation: construction only.
"""

from micropython import const

_REST = const(63)  # as in flash_wear.py
_PLACES = const(b"\x01\x02\x03\x05")
_SIGNAL, _SIGNAL_REST = const(3), const(15)
_REPORT = const(1)
_RESET_CAUSE = const(2)
_DEEP_SLEEP = const(4)


def number_of(version):
    """Returns 10203 for "1.2.3"."""
    number = 0
    for part in version.split("."):
        number = number * 100 + int(part)
    return number


def interval_of(settings):
    """Returns a callable: seconds between two reports. A command may change the interval."""

    def report_s():
        found = -(-settings["interval_ms"] * settings["connect_every"] // 1000)
        if settings["series"] and not settings["deep_sleep"]:
            found = max(found, settings["series_age_s"])
        return found

    return report_s


class About:
    """A sensor with changing names, as Station requires. health: Health or SensorNotices, read
    before this one."""

    def __init__(self, outbox, health, version, report_s, of_board):
        """report_s: callable. of_board: readings named reset_cause, signal, no_memory, each or
        none."""
        self.name = self.unit = b""
        self.exponent = 0
        self._outbox, self._health = outbox, health
        self._firmware, self._report_s = number_of(version), report_s
        self._readings = [None] * len(_PLACES)
        self._lack = None  # the reading no_memory
        self._lack_told, self._lack_seq = 0, -1  # as told, and the message that told it
        for reading in of_board:
            if reading.name == b"no_memory":
                self._lack = reading
            else:
                index = _RESET_CAUSE if reading.name == b"reset_cause" else _SIGNAL
                self._readings[index] = reading
        reset = self._readings[_RESET_CAUSE]
        # the message that reports the last reset; -1: still to be reported, -2: done, or no need
        self._reset_seq = -1 if reset and reset.read() != _DEEP_SLEEP else -2
        # report_s as last reported, or as not worth a report; the message that reported it
        self._known_s, self._known_seq = report_s() if self._reset_seq == -2 else -1, -1

    def read(self):
        seq = self._outbox.next_seq
        if self._reset_seq >= 0 and seq != self._reset_seq:
            self._reset_seq = -2  # it was stored
        if not seq & _REST or self._health.reported_seq == seq:
            return None
        if self._reset_seq != -2 and seq & _REST >= _PLACES[_RESET_CAUSE]:
            self._reset_seq = seq
            return self._told(_RESET_CAUSE)
        value = self._due(seq & _REST)
        if value is None and (self._known_s != self._report_s() or self._known_seq == seq):
            return self._told(_REPORT)
        return self._of_memory(seq) if value is None else value

    def _of_memory(self, seq):
        now = self._lack.read() if self._lack else 0
        if now == self._lack_told and seq != self._lack_seq:
            return None
        self._lack_told, self._lack_seq = now, seq
        self.name = self._lack.name
        self.unit = self._lack.unit
        return now

    def _due(self, place):
        if place & _SIGNAL_REST == _PLACES[_SIGNAL]:
            return self._told(_SIGNAL)
        index = 0
        while index < _SIGNAL:
            if place == _PLACES[index]:
                return self._told(index)
            index += 1
        return None

    def _told(self, index):
        if index == 0:
            self.name, self.unit = b"firmware", b""
            return self._firmware
        if index == _REPORT:
            self.name, self.unit = b"report_s", b"s"
            self._known_s, self._known_seq = self._report_s(), self._outbox.next_seq
            return self._known_s
        reading = self._readings[index]
        if not reading:
            return None
        self.name, self.unit = reading.name, reading.unit
        return reading.read()
