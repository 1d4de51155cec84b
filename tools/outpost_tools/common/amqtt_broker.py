"""amqtt's broker, mended where it lost what it had acknowledged (amqtt 0.12.1, the newest).

Its reader takes packet after packet while bytes are there, and leaves each to a task; something has
to let those run. `asyncio.wait_for` did up to Python 3.11, by chance, for clients with a keep
alive: it made a task of what it waited for. From 3.12 on it returns at once when that is ready.
Then a client that published and closed its connection had 1 message of 40 delivered, though at
QoS 1 all 40 were acknowledged, and what was published last overtook the backlog of a session that
came back.

`serve(port)` is its only entry. Importing it raises ModuleNotFoundError where amqtt is missing.
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

# A flood from others must not keep a client out.
_LONGEST_WAIT_S = 5.0


class _Reader(StreamReaderAdapter):
    """Lets the tasks of the packets before run: at the end of the stream amqtt cancels them."""

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
        """Once connected, a session is sent what is new past what is queued for it: what was
        acknowledged before must be queued by then."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._broadcast_queue.join(), _LONGEST_WAIT_S)
        await super()._handle_client_session(reader, writer, client_session, *rest)

    async def _handle_message_delivery(
        self,
        client_session: Session,
        handler: BrokerProtocolHandler,
        wait_deliver: asyncio.Future[Any],
    ) -> bool:
        """All that the client has sent, not one message of it: the call may be the last, since
        amqtt does not look again once the client has gone."""
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
        """amqtt does not count what is done, and join() needs that."""
        try:
            await super()._run_broadcast(running_tasks)
        finally:
            self._broadcast_queue.task_done()


async def serve(port: int) -> None:
    """On loopback, until the process is ended."""
    await _Broker(_configuration(port)).start()
    # Until SIGTERM, without its shutdown(): that has nothing to save, and was seen to hang for
    # longer than 10 s.
    await asyncio.Event().wait()


def _configuration(port: int) -> dict[str, Any]:
    return {
        # amqtt binds every interface by default.
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        # An anonymous client's persistent session is dropped at disconnect, so a user name is asked
        # for. No other plugins: the default ones log every packet and publish $SYS.
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": False}},
    }
