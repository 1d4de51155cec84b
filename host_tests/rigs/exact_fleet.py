"""Simulated boards and a collector over any broker, with disasters, and an account that compares
the boards' journals with what the collector has on disk. The demo without Spark.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collector_process import Process
from outpost_tools.log import segments
from outpost_tools.loopback.broker import ANY_USER
from outpost_tools.mqtt import credentials
from outpost_tools.servers.collect.log import frame_key
from outpost_tools.trying.simulate.fleet import Fleet
from outpost_tools.trying.simulate.journal import read_journal

DRAIN_S = 240.0  # long enough for a busy machine
_SUBSCRIBE_S = 120.0


class Run:
    """boards: how many. settings: of the boards. options: of each collector. collectors: their ids.

    Disasters are (seconds after the start, callable that gets the run); boards publish between
    them.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        boards: int = 2,
        seconds: float = 4.0,
        cuts: int = 1,
        interval_ms: int = 20,
        settings: dict[str, Any] | None = None,
        options: tuple[str, ...] = (),
        collectors: tuple[str, ...] = ("c1",),
        made: Path | None = None,
    ) -> None:
        """made: the folder of `outpost broker init`, with boards board-1, ... and collectors."""
        self._seconds = seconds
        options = (*(() if made else ("--user", ANY_USER)), *options)
        self.collectors = [
            Process(folder, port, name=name, options=options, credentials=made)
            for name in collectors
        ]
        names = [f"board-{number}" for number in range(1, boards + 1)] if made else []
        user = {} if made else {"user": ANY_USER}
        self.fleet = Fleet(
            folder / "boards",
            count=boards,
            broker=("127.0.0.1", port),
            seconds=seconds,
            interval_ms=interval_ms,
            cuts=cuts,
            settings={**user, **(settings or {})},
            credentials={name: credentials.find(made, "board", name) for name in names},
        )

    def play(self, *disasters: tuple[float, Callable[[Run], None]]) -> dict[str, Any]:
        """Run the disasters. Returns the account."""
        began = time.monotonic()
        try:
            asyncio.run(self._play(disasters))
        finally:
            for collector in self.collectors:
                collector.kill()
        return {**self._account(), "seconds": round(time.monotonic() - began, 1)}

    async def _play(self, disasters) -> None:
        for collector in self.collectors:
            collector.start()
        async with asyncio.timeout(_SUBSCRIBE_S):
            while not all("subscribed to" in one.text() for one in self.collectors):
                await asyncio.sleep(0.05)
        async with self.fleet:
            began = time.monotonic()
            for at_s, disaster in (
                *sorted(disasters, key=lambda one: one[0]),
                (self._seconds, None),
            ):
                await asyncio.sleep(max(began + at_s - time.monotonic(), 0))
                if disaster:
                    await asyncio.to_thread(disaster, self)
            late = await self.fleet.drain(DRAIN_S)
            assert not self.fleet.failures, self.fleet.failures
            assert not late, (late, [one.text()[-500:] for one in self.collectors])
        for collector in self.collectors:
            assert await asyncio.to_thread(collector.terminate) == 0, collector.text()

    def _account(self) -> dict[str, Any]:
        copies: dict[tuple[str, str, int], list[bytes]] = {}
        for collector in self.collectors:
            for path in segments.sealed_segments(collector.directory):
                for frame in segments.read_segment(path):
                    key = frame_key(frame)
                    if key is not None:
                        place = (key.device, key.stream, key.seq)
                        copies.setdefault(place, []).append(frame.payload)
        said = {
            (board.device, entry.stream, entry.seq): entry.payload
            for board in self.fleet.boards
            for entry in read_journal(board.directory / "journal.txt")
            if entry.kind == "ok"
        }
        return {
            "published": len(said),
            "lost": sum(key not in copies for key in said),
            "changed": sum(len(set(found)) > 1 for found in copies.values())
            + sum(said[key] not in copies[key] for key in said if key in copies),
            # a power cut may leave one message in flash for which publish() did not return OK
            "unsaid": len(copies) - sum(key in copies for key in said),
            "repeated": sum(len(found) - 1 for found in copies.values()),
            "power_cuts": self.fleet.power_cuts,
        }


def assert_exact(account: dict[str, Any], *, published: int = 100) -> None:
    assert account["published"] >= published, account
    assert account["lost"] == account["changed"] == 0, account
    assert account["unsaid"] <= account["power_cuts"], account
