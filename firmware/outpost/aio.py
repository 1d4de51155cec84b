"""A thin asyncio wrapper around any of the clients: `await publish()`, `await delivered()`,
`await run()`.

It is outside the no-allocation promise, because coroutines allocate. The client that it wraps
still keeps its own promises.
"""

import asyncio

from micropython import const

_FULL = const(-1)
_BUSY = const(-3)
_OFFLINE = const(-4)


class PublishError(Exception):
    """`status`: why the message was refused; see `outpost.status`."""

    def __init__(self, status):
        super().__init__("publish: status " + str(status))
        self.status = status


class AsyncClient:
    """client: a Client with any session. ticks_ms: callable that returns the board's ticks.
    idle_ms: how long to sleep between polls when nothing moved, in ms.

    run() must run as its own task. Any number of tasks may await the other methods.
    """

    def __init__(self, client, ticks_ms, idle_ms=5):
        self.client = client
        self._ticks_ms = ticks_ms
        self._idle_s = idle_ms / 1000
        self._is_stopping = False

    async def run(self):
        """Drive the client until stop(), then send DISCONNECT and close the connection.

        If the task is cancelled, the connection is closed as well.
        """
        try:
            while not self._is_stopping:
                await asyncio.sleep(0 if self.client.poll(self._ticks_ms()) else self._idle_s)
        finally:
            self.client.close()

    def stop(self):
        self._is_stopping = True

    async def connected(self):
        """Wait until the server has accepted the connection."""
        while not self.client.is_connected():
            await asyncio.sleep(self._idle_s)

    async def publish(self, topic, payload, qos=1, retain=False):
        """Publish a message, and wait while there is no room for it.

        QoS 1 and 2: returns its number once it is stored. QoS 0: waits for a connection, and
        returns None once sending has begun. PublishError: the message was refused for a reason that
        waiting does not remove.
        """
        while True:
            seq = self.client.session.outbox.next_seq
            status = self.client.publish(topic, payload, len(payload), qos, retain)
            if status == 0:
                return seq if qos else None
            if status not in (_FULL, _BUSY, _OFFLINE):
                raise PublishError(status)
            await asyncio.sleep(self._idle_s)

    async def delivered(self, seq):
        """Wait until message seq is released.

        The server's acknowledgement releases it, or in collector mode the collector's confirmation.
        """
        outbox = self.client.session.outbox
        while seq >= outbox.oldest_seq and not (outbox.acked << 1) >> (seq - outbox.oldest_seq) & 1:
            await asyncio.sleep(self._idle_s)
