"""The server behind every HTTP port: the live page, setup, the metrics of collector and republish.

Law: however many connections are made, the port stays usable, and the program does not run out of
file descriptors.

- At most `most` connections are open. When one more arrives, the oldest connection that waits for
  the rest of a request, or for its answer to be read, is closed. If all are being answered, the new
  one waits.
- A connection whose client does not send a whole request within REQUEST_S, or stops reading for
  that long, is closed too.
- Connections are accepted at a bounded rate. A server in a thread also answers at a bounded rate.
  So a flood takes only a bounded share of time from the other threads.

Knows sockets and uvicorn, no page.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from outpost_tools.errors import ToolError

REQUEST_S = 10.0
MOST = 128  # connections of a port without event streams
_AT_ONCE, _PAUSE_S = 32, 0.05
_ANSWER_PAUSE_S = 0.02
_LOOK_S = 1.0
_BACKLOG = 128


def listener(host: str, port: int, option: str) -> socket.socket:
    """A listening socket. option: the beginning of the error message. Raises ToolError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or error
        raise ToolError(
            f"{option}: {reason}; another program may use it: give another port"
        ) from None
    return made


def configuration(app: ASGIApp, **more: Any) -> uvicorn.Config:
    """more: further options of uvicorn."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,  # a client that does not read would stay forever
        **more,
    )


def serve_in_thread(app: ASGIApp, port: int, option: str) -> None:
    """Serves on loopback in a thread, until the process ends. Raises ToolError."""
    made = listener("127.0.0.1", port, f"{option} {port}")
    server = Server(configuration(_Paced(app), lifespan="off"), MOST)
    threading.Thread(target=server.run, args=([made],), daemon=True).start()


class _Paced:
    """Pauses before each answer, so that other threads get the rest of the time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._turn = app, asyncio.Semaphore(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._turn:
            await asyncio.sleep(_ANSWER_PAUSE_S)
        await self._app(scope, receive, send)


@dataclass(slots=True, eq=False)
class _Open:
    """An open connection. waits_since: when it began to wait for a whole request, or for its answer
    to be read; None: it waits for neither."""

    socket: socket.socket
    protocol: Any
    waits_since: float | None
    _request: object = None
    _unread_bytes: int = 0

    def look(self, now: float) -> None:
        transport, cycle = self.protocol.transport, self.protocol.cycle
        if transport is None:  # the TLS handshake is not done
            return
        unread = transport.get_write_buffer_size()
        is_same = cycle is self._request and unread == self._unread_bytes
        self._request, self._unread_bytes = cycle, unread
        if cycle is not None and not cycle.response_complete and not unread:
            self.waits_since = None
        elif self.waits_since is None or not is_same:
            self.waits_since = now

    def close(self) -> None:
        """Closes the connection, at any stage, even before the TLS handshake is done."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Server(uvicorn.Server):
    """most: the limit of open connections."""

    def __init__(self, config: uvicorn.Config, most: int) -> None:
        super().__init__(config)
        self._most = most
        self._open: dict[_Open, asyncio.Task[None]] = {}
        self._accepting: asyncio.Future[Any] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # we accept, instead of uvicorn
        loops = (self._accept(one) for one in sockets or [])
        self._accepting = asyncio.ensure_future(asyncio.gather(*loops, self._close_late()))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    async def _accept(self, listening: socket.socket) -> None:
        listening.setblocking(False)
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(_AT_ONCE):
                try:
                    made, _ = await loop.sock_accept(listening)
                except OSError:  # no file descriptors left: the oldest are closed at their deadline
                    break
                while len(self._open) >= self._most and not self._close_one(time.monotonic()):
                    await asyncio.sleep(_PAUSE_S)  # all are being answered
                self._take(made)
            await asyncio.sleep(_PAUSE_S)

    def _take(self, made: socket.socket) -> None:
        made.setblocking(False)
        protocol = self.config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        one = _Open(made, protocol, time.monotonic())
        self._open[one] = asyncio.create_task(self._run(one))

    async def _run(self, one: _Open) -> None:
        loop, context = asyncio.get_running_loop(), self.config.ssl
        lost = loop.create_future()
        _when_lost(one.protocol, lost)
        how = {"ssl_handshake_timeout": REQUEST_S} if context else {}
        try:
            await loop.connect_accepted_socket(lambda: one.protocol, one.socket, ssl=context, **how)
            await lost
        except OSError:  # no TLS, or gone
            pass
        finally:
            self._open.pop(one, None)
            one.socket.close()

    def _close_one(self, now: float) -> bool:
        """Closes the oldest connection that waits; False if none does."""
        for one in self._open:
            one.look(now)
            if one.waits_since is not None:
                self._forget(one)
                return True
        return False

    def _forget(self, one: _Open) -> None:
        self._open.pop(one)
        one.close()

    async def _close_late(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            for one in [*self._open]:
                one.look(now)
                if one.waits_since is not None and now - one.waits_since > REQUEST_S:
                    self._forget(one)


def _when_lost(protocol: Any, lost: asyncio.Future[None]) -> None:
    before = protocol.connection_lost

    def connection_lost(error: Exception | None) -> None:
        before(error)
        if not lost.done():
            lost.set_result(None)

    protocol.connection_lost = connection_lost
