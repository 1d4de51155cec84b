"""Topic aliases that the server assigns: `over(SubscribingSession)(..., alias_maximum=4)`.

If a message has an alias in place of its topic, the topic is put back in the session's buffer, so
that a handler sees no difference. If it does not fit there, the message is skipped, like any that
is too long. Aliases hold for one connection [MQTT-3.3.2-7].

Must not know a session beyond its buffer. Allocation: construction; a topic, when the server gives
it a number.
"""

from micropython import const

from outpost.memory import copy

_ALIAS = const(0x23)
_INVALID = const(-0x94)
_WRONG = const(-0x82)  # protocol error


class Aliases:
    """most: the highest number that the server may use. buffer_bytes: the session's buffer."""

    def __init__(self, most, buffer_bytes):
        self._topics = [None] * (most + 1)
        self._scratch = bytearray(buffer_bytes)

    def forget(self):
        for number in range(len(self._topics)):
            self._topics[number] = None

    def learn(self, session):
        """Keep the topic of the message in `buffer`, which has an alias. 0, or a reason code."""
        number = self._number(session)
        if not 0 < number < len(self._topics):
            return -_INVALID
        if not self._topics[number] or not session.is_on(self._topics[number]):
            self._topics[number] = bytes(session.buffer[2 : 2 + session.topic_length])
        return 0

    def restore(self, session):
        """Put the topic back into the message in `buffer`, whose properties are valid, if it fits.
        Returns the length with the topic, or a negative reason code: a message without a topic has
        a number (3.3.2.1), which is one of ours and was given to a topic (3.3.2.3.4)."""
        number = self._number(session)
        if number >= len(self._topics):
            return _INVALID
        topic = self._topics[number]
        if not topic:
            return _WRONG
        at = len(topic)
        if session.length + at <= len(self._scratch):  # else it is too long
            number = session.length - 2  # from here on: how many bytes follow the topic
            copy(self._scratch, 0, session.buffer, 2, number)
            copy(session.buffer, 2 + at, self._scratch, 0, number)
            session.buffer[0] = at >> 8
            session.buffer[1] = at & 255
            copy(session.buffer, 2, topic, 0, at)
        return session.length + at

    def _number(self, session):
        """Returns the alias of the message; 0: none."""
        at = session.property_at(_ALIAS)
        return session.buffer[at] << 8 | session.buffer[at + 1] if at >= 0 else 0
