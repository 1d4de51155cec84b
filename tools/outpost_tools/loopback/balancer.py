"""One address for several servers: a TCP relay on loopback that distributes connections among those
that answer.

    python -m outpost_tools.loopback.balancer PORT TARGET_PORT...

Each new connection goes to the next target; one that refuses is skipped. When a server dies, its
clients' connections end, and the clients reconnect to another server. Knows no MQTT.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Iterator

_CHUNK = 65536


class Balancer:
    """Relays 127.0.0.1:`port` to 127.0.0.1:`targets`, in turn."""

    def __init__(self, port: int, targets: list[int]) -> None:
        self._port, self._targets = port, targets
        self._turn = itertools.count()

    async def serve(self) -> None:
        """Runs until cancelled."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        async with server:
            await server.serve_forever()

    def _in_turn(self) -> Iterator[int]:
        first = next(self._turn)
        for n in range(len(self._targets)):
            yield self._targets[(first + n) % len(self._targets)]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for target in self._in_turn():
                with contextlib.suppress(ConnectionRefusedError):
                    there = await asyncio.open_connection("127.0.0.1", target)
                    await _relay((reader, writer), there)
                    return
        except OSError:
            pass  # one side has gone: the other one sees its connection close
        finally:
            writer.close()


async def _relay(
    here: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Relays both ways until one side ends. What was sent before that is still delivered."""
    ways = [
        asyncio.create_task(_pump(here[0], there[1])),
        asyncio.create_task(_pump(there[0], here[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for writer in (here[1], there[1]):
            writer.close()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


if __name__ == "__main__":
    asyncio.run(Balancer(int(sys.argv[1]), [int(word) for word in sys.argv[2:]]).serve())
