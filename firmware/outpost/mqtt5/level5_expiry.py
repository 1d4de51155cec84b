"""What is left of a message's expiry when it goes out: `over(Session)(..., expiry_s=3600)`.

The age of a message is the time since it was stored. For messages that were there at power-on, it
is the time since power-on, because flash stores no time. Ages are kept in 32 marks (number,
second). When the marks run out, two are merged, and the messages of both count as stored at the
later time. So no message expires early, and none is late by more than a fifteenth of the oldest
message's age.

A QoS 1 message that expires before it was sent is released and counted in `expired`, and
on_expired(seq) is called. A message that may have been sent is sent again with what is left, at
least 1 s [MQTT-4.3.3-7]; so are all messages of QoS 2. Messages set aside go out with the full
time.

Must not know a packet beyond its first byte. Allocation: construction.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_MOST_MARKS = const(32)
_LONG_S = const(0x3FFFFFFF)


class Expiry:
    """expired: messages that were released. on_expired: callable, gets the number of each."""

    def __init__(self, session, expiry_s, from_end):
        self.expired = 0
        self.on_expired = None
        self.whole_s, self._outbox = expiry_s, session.outbox
        self._from_end = from_end  # where the seconds are, counted from the end of the properties
        self._properties, self._left_s = None, 0  # what was put last
        self._second = self._rest_ms = 0  # since power-on
        self._then_ms = -1  # ticks of the last look
        self._seqs, self._seconds = [0] * _MOST_MARKS, [0] * _MOST_MARKS
        self._seqs[0] = session.outbox.next_seq - 1  # all messages held now
        self._end = 1

    def look(self, now_ms):
        """Follow the clock; call this more often than it wraps. now_ms 0: no poll() so far."""
        if not now_ms:
            return
        if self._then_ms < 0:
            self._then_ms = now_ms
        if self._then_ms == now_ms:
            return
        passed_ms = elapsed_ms(now_ms, self._then_ms) + self._rest_ms
        self._then_ms = now_ms
        self._second += passed_ms // 1000
        self._rest_ms = passed_ms % 1000

    def stored(self, seq, now_ms):
        """Message seq was stored in the outbox."""
        self.look(now_ms)
        end = self._end
        if seq < self._seqs[end - 1]:  # the numbers restarted
            end = 0
        elif self._seconds[end - 1] == self._second and end > 1:
            end -= 1
        elif end == _MOST_MARKS:
            end = self._thin()
        self._seqs[end] = seq
        self._seconds[end] = self._second
        self._end = end + 1

    def _thin(self):
        """Drop a mark, first one whose messages are released, then the one whose messages thereby
        count as stored the least later. Returns its place, free at the end."""
        best, least = 0, _LONG_S
        for place in range(_MOST_MARKS - 1):
            gap = _LONG_S  # the first mark stays: when its messages were stored is not known
            if self._seqs[place] < self._outbox.oldest_seq:
                gap = 0
            elif place:
                gap = self._seconds[place + 1] - self._seconds[place - 1]
            if gap < least:
                best, least = place, gap
        for place in range(best, _MOST_MARKS - 1):
            self._seqs[place] = self._seqs[place + 1]
            self._seconds[place] = self._seconds[place + 1]
        return _MOST_MARKS - 1

    def left_s(self, seq):
        """Returns the seconds until message seq expires; 0 or less: it has expired."""
        place = 0
        while place < self._end - 1 and self._seqs[place] < seq:
            place += 1
        return self.whole_s - (self._second - self._seconds[place])

    def left_at(self, seq, now_ms):
        """As left_s(), at these ticks. seq -1: one that was set aside."""
        if seq < 0:
            return self.whole_s
        self.look(now_ms)
        return self.left_s(seq)

    def put(self, properties, left_s):
        """Put the seconds into the properties of a PUBLISH (`memory.py`: put_publish)."""
        if properties is self._properties and left_s == self._left_s:
            return
        self._properties, self._left_s = properties, left_s
        first = len(properties) - self._from_end
        for at in range(first + 3, first - 1, -1):
            properties[at] = left_s & 255
            left_s >>= 8

    def tell(self, seq):
        """Report that message seq was released."""
        self.expired += 1
        if self.on_expired:
            self.on_expired(seq)
