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


class Stopped(Exception):
    """run() has ended, so what is awaited would never come. What was stored is in the outbox."""


class AsyncClient:
    """client: a Client with any session. ticks_ms: callable that returns the board's ticks.
    idle_ms: how long to sleep between polls when nothing moved, in ms.

    run() must run as its own task. Any number of tasks may await the other methods. When run() has
    ended, by stop() or otherwise, those that wait raise Stopped. To go on, make another AsyncClient
    of the same client.
    """

    def __init__(self, client, ticks_ms, idle_ms=5):
        self.client = client
        self._ticks_ms = ticks_ms
        self._idle_s = idle_ms / 1000
        self._is_stopping = self._has_ended = False

    async def run(self):
        """Drive the client until stop(), then send DISCONNECT and close the connection.

        If the task is cancelled, the connection is closed as well.
        """
        try:
            while not self._is_stopping:
                await asyncio.sleep(0 if self.client.poll(self._ticks_ms()) else self._idle_s)
        finally:
            self._has_ended = True
            self.client.close()

    def stop(self):
        self._is_stopping = True

    async def connected(self):
        """Wait until the server has accepted the connection."""
        while not self.client.is_connected():
            await self._pause()

    async def publish(self, topic, payload, qos=1, retain=False):
        """Publish a message, and wait while there is no room for it.

        QoS 1 and 2: returns its number once it is stored. QoS 0: waits for a connection, and
        returns None once sending has begun. PublishError: the message was refused for a reason that
        waiting does not remove.
        """
        while True:
            status = self.client.publish(topic, payload, qos, retain)
            if status == 0:
                # Only now: what was stored with it (a series, copies of a policy) has numbers too.
                return self.client.session.outbox.next_seq - 1 if qos else None
            if status not in ((_FULL,) if qos else (_BUSY, _OFFLINE)):
                raise PublishError(status)
            await self._pause()

    async def delivered(self, seq):
        """Wait until message seq is released.

        The server's acknowledgement releases it, or in collector mode the collector's confirmation.
        It may also have been given up: dropped by a policy, expired, set aside.
        """
        outbox = self.client.session.outbox
        while seq >= outbox.oldest_seq and not (outbox.acked << 1) >> (seq - outbox.oldest_seq) & 1:
            await self._pause()

    async def _pause(self):
        if self._has_ended:
            raise Stopped
        await asyncio.sleep(self._idle_s)
