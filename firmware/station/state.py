"""Tells the broker that the board is online: a retained message on `<prefix>/<device>/state`.

`online` goes out after each CONNACK. `offline` is the will, which the broker publishes when the
connection breaks. A board in deep sleep says `asleep` each time it connects. It has no will,
because it ends the connection after each wake without being gone.

Loaded only when `say_state` is set: a server that refuses RETAIN (Azure Event Grid), or this topic
(AWS IoT with a narrow policy), would close each connection.

It uses QoS 0 and bypasses the outbox, because a state of an hour ago would be wrong. Allocation:
construction.
"""

from micropython import const

_OFFLINE = const(b"offline")  # what the will says


class State:
    """topic: bytes. word: published after each CONNACK."""

    def __init__(self, client, topic, word=b"online"):
        self._client, self._publish = client, client.publish
        self._topic, self._word = topic, word
        self._told = 0  # the connection on which it was last published, by `session.connects`

    def tell(self):
        """Publish once per connection, when no other packet goes out. True when it was done now."""
        if self._client.session.connects == self._told:
            return False
        if self._publish(self._topic, self._word, 0, True):
            return False  # another packet is going out, or the connection is gone: next time
        self._told = self._client.session.connects
        return True

    def leave(self):
        """Call before an orderly end, after which the broker publishes no will."""
        self._publish(self._topic, _OFFLINE, 0, True)
