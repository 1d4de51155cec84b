"""Tells the broker that the board is there: a retained word on `<prefix>/<device>/state`.

`online` after each CONNACK; `offline` is the will, which the broker publishes when the connection
breaks. A board in deep sleep says `asleep` each time it connects, and has no will: it leaves the
connection after each wake, and is not gone.

QoS 0 and not through the outbox: a word of an hour ago would be wrong. Allocation: construction
only.
"""

from micropython import const

ONLINE, OFFLINE, ASLEEP = b"online", b"offline", b"asleep"
_WORD_BYTES = const(6)  # of ONLINE and ASLEEP


class State:
    """topic: bytes. word: what is told after each CONNACK."""

    def __init__(self, client, topic, word=ONLINE):
        self._client, self._topic, self._word = client, topic, word
        self._told = 0  # the connection on which it was told last; `session.connects` counts them

    def tell(self):
        """Once a connection, as soon as no other packet is going out. True when it was told now."""
        client = self._client
        connects = client.session.connects
        if connects == self._told or client.publish(self._topic, self._word, _WORD_BYTES, 0, True):
            return False
        self._told = connects
        return True

    def leave(self):
        """Before an orderly end, after which the broker publishes no will."""
        self._client.publish(self._topic, OFFLINE, len(OFFLINE), 0, True)
