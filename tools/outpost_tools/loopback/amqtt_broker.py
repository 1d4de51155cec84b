"""amqtt's broker, fixed where it lost messages that it had acknowledged (amqtt 0.12.1, the newest).

amqtt's reader takes packet after packet while there are bytes, and leaves each to a task; something
has to let those tasks run. Up to Python 3.11, `asyncio.wait_for` did so by accident, for clients
with a keep alive: it wrapped what it waited for in a task. From 3.12 on, it returns at once if the
result is ready. Then, if a client published 40 messages and closed its connection, only 1 of the 40
was delivered, although at QoS 1 all were acknowledged. Also, messages published last overtook the
backlog of a resumed session.

`serve(port)` is the only entry point. Importing this module raises ModuleNotFoundError if amqtt is
not installed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.session import Session

# A flood from other clients must not keep a client out for longer than this.
_LONGEST_WAIT_S = 5.0


class _Reader(StreamReaderAdapter):
    """Lets the tasks of earlier packets run: amqtt cancels them at the end of the stream."""

    async def read(self, n: int = -1) -> bytes:
        await asyncio.sleep(0)
        return await super().read(n)


class _Broker(Broker):
    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        await self._client_connected(listener_name, _Reader(reader), StreamWriterAdapter(writer))

    async def _handle_client_session(
        self, reader: Any, writer: Any, client_session: Session, *rest: Any
    ) -> None:
        """Once connected, a session gets new messages ahead of those that are queued for it, so
        everything acknowledged before must be queued by then."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._broadcast_queue.join(), _LONGEST_WAIT_S)
        await super()._handle_client_session(reader, writer, client_session, *rest)

    async def _handle_message_delivery(
        self,
        client_session: Session,
        handler: BrokerProtocolHandler,
        wait_deliver: asyncio.Future[Any],
    ) -> bool:
        """Delivers everything that the client has sent, not just one message: this call may be the
        last one, because amqtt does not check again after the client has gone."""
        messages = [wait_deliver]
        queue = client_session.delivered_message_queue
        while not queue.empty():
            messages.append(asyncio.get_running_loop().create_future())
            messages[-1].set_result(queue.get_nowait())
        for message in messages:
            if not await super()._handle_message_delivery(client_session, handler, message):
                return False
        return True

    async def _run_broadcast(self, running_tasks: deque[asyncio.Task[Any]]) -> None:
        """amqtt does not call task_done(), which join() needs."""
        try:
            await super()._run_broadcast(running_tasks)
        finally:
            self._broadcast_queue.task_done()


async def serve(port: int) -> None:
    """Serves on loopback until the process is killed."""
    await _Broker(_configuration(port)).start()
    # Until SIGTERM, without calling its shutdown(), which has nothing to save and was seen to hang
    # for more than 10 s.
    await asyncio.Event().wait()


def _configuration(port: int) -> dict[str, Any]:
    return {
        # amqtt binds every interface by default.
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        # amqtt drops the persistent session of an anonymous client at disconnect, so we require a
        # user name. No other plugins: the default ones log every packet and publish $SYS.
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": False}},
    }
