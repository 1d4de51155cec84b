"""Topic aliases that this board assigns: `over(Session)(..., aliases=(b"board-1/data",))`.

The first message of a connection on such a topic carries topic and number, the others the number
alone [MQTT-3.3.2-7, -8]. A message that fits into the server's maximum packet size only without a
number goes without.

Must not know a session. Allocation: construction.
"""

from outpost.memory import copy


class OwnAliases:
    """topics: topic n has the number n + 1. plain: the properties of a PUBLISH without a number,
    as put_publish() takes them (`memory.py`). numbered: with one, at offset `at`. Both are the
    session's to send, and `plain` is what it sends where no number may."""

    def __init__(self, topics, plain, numbered, at):
        self._topics = [bytes(topic) for topic in topics]
        self._scratches = [bytearray(len(topic)) for topic in topics]
        self._lengths = [len(topic) for topic in topics]
        self.plain, self._numbered, self._at = plain, numbered, at
        self._most = self._known = 0  # the server's limit; bit n: it knows number n

    def connected(self, most) -> bool:
        """A connection begins, on which the server takes numbers up to `most`. False: none."""
        self._most = min(most, len(self._topics))
        self._known = 0
        return most > 0

    def choose(self, source, at, length):
        """Returns the properties of the PUBLISH that goes out now. Its topic is source[at:], of
        this length."""
        place = 0
        while place < self._most:
            if self._lengths[place] == length:
                copy(self._scratches[place], 0, source, at, length)
                if self._scratches[place] == self._topics[place]:
                    place += 1  # from here on the number
                    self._numbered[2] = self._known >> place & 1
                    self._known |= 1 << place
                    self._numbered[self._at] = place
                    return self._numbered
            place += 1
        return self.plain
