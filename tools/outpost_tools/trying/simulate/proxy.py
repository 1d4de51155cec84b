"""A board's link: a TCP relay on loopback that can be cut, and that measures when the board was
offline.

Two ways to cut: "reset" ends every connection and refuses new ones; "silence" (a black hole) keeps
them open but carries nothing, so only a timeout can detect it. When the link is back, the data held
in a silent connection continues, as in TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from outpost_tools.mqtt import causes
from outpost_tools.trying.simulate.offline import OfflineMeter

CUTS = ("reset", "silence")
_CHUNK = 65536
_NO_ANSWER = "it takes connections and does not answer: it must be an MQTT broker, without TLS"
_CONNACK = 0x20


class Proxy:
    """Listens on `port` after start(); relays to 127.0.0.1:`target_port` (the broker)."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task] = set()
        self._refusing = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._answering: set[asyncio.StreamWriter] = set()
        self.meter = OfflineMeter(time.monotonic())
        self.fault = ""  # why the broker could not be reached at the last attempt
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.meter = OfflineMeter(time.monotonic())

    async def close(self) -> None:
        """Works even if it was never started."""
        if self._server is not None:
            self._server.close()
        self._abort_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_cut(self) -> bool:
        return self._refusing or not self._flowing.is_set()

    def cut(self, how: str) -> None:
        """`how` is one of CUTS."""
        if how not in CUTS:
            raise ValueError(f"unknown cut {how!r}; choose one of: {', '.join(CUTS)}")
        if how == "reset":
            self._refusing = True
            self._abort_all()
        else:
            self._flowing.clear()
        for writer in list(self._answering):
            self._silent(writer)

    def restore(self) -> None:
        self._refusing = False
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if not self._refusing:
                await self._flowing.wait()
                await self._relay(reader, writer)
        except (OSError, asyncio.CancelledError):
            # the broker is away, one side reset the connection, or the run ends: the other side's
            # connection is closed
            pass
        finally:
            self._silent(writer)
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(*self._target)
        except OSError as error:
            self.fault = causes.of_error(error, causes.Place(*self._target))
            raise
        self._writers.add(broker_writer)
        try:
            up = asyncio.create_task(self._pump(reader, broker_writer))
            down = asyncio.create_task(self._pump(broker_reader, writer, answers=True))
            _, pending = await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            if writer not in self._answering and not self.is_cut:
                self.fault = _NO_ANSWER
        finally:
            self._writers.discard(broker_writer)
            broker_writer.close()  # not abort(): the last data of the board is still sent

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            if answers and not self._refusing and writer not in self._answering:
                self._answering.add(writer)  # the first answer of the broker: CONNACK
                self.fault = _refusal(data)
                self.meter.up(time.monotonic())
            writer.write(data)
            await writer.drain()

    def _silent(self, writer: asyncio.StreamWriter) -> None:
        if writer in self._answering:
            self._answering.discard(writer)
            self.meter.down(time.monotonic())

    def _abort_all(self) -> None:
        for writer in list(self._writers):
            with contextlib.suppress(OSError):
                writer.transport.abort()


def _refusal(answer: bytes) -> str:
    """The meaning of a CONNACK that reports a refusal; "" for anything else, and within TLS."""
    if len(answer) < 4 or answer[0] != _CONNACK or not answer[3]:
        return ""
    return f"it refuses the boards (CONNACK, code {answer[3]}): try --user, or --credentials"
