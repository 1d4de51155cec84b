"""For tests of series on both interpreters: a clock, columns, and the messages of an outbox as
`virtual/series_reader.py` reads them.
"""

from virtual.series_reader import DAY_MS, read

TOPIC = b"outpost/board-1/data"
COLUMNS = ((b"t", b"Cel", -2), (b"h", b"%RH", -2), (b"p", b"Pa", 0))


class Clock:
    """Like station.clock.Clock, but tests move it."""

    def __init__(self, day, ms):
        self.day, self.ms, self.up_day, self.up_ms = day, ms, 0, 0

    @property
    def is_set(self):
        return self.day > 0

    def set(self, day, ms):
        self.day, self.ms = day, ms

    def pass_ms(self, ms):
        self.up_ms += ms
        self.up_day += self.up_ms // DAY_MS
        self.up_ms %= DAY_MS
        if self.day:
            self.ms += ms
            self.day += self.ms // DAY_MS
            self.ms %= DAY_MS

    def time_ms(self):
        if self.day:
            return self.day * DAY_MS + self.ms
        return self.up_day * DAY_MS + self.up_ms


def read_all(outbox):
    """Returns the held messages, as read_message() does."""
    found = []
    seq = outbox.oldest_seq
    while outbox.load(seq) == 0:
        found.append(read_message(outbox))
        seq = outbox.loaded_seq + 1
    return found


def read_message(outbox):
    at = outbox.topic_at + outbox.topic_length
    return read(bytes(outbox.buffer[at : at + outbox.payload_length]))
