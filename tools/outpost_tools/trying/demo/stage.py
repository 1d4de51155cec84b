"""Broker, collector and fleet of one run, and the disasters that hit them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import Self

from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import ANY_USER
from outpost_tools.loopback.brokers import open_broker
from outpost_tools.machine import children
from outpost_tools.store.base import Store
from outpost_tools.trying.demo.disasters import Disaster
from outpost_tools.trying.demo.progress import Progress
from outpost_tools.trying.simulate.fleet import Events, Fleet

COLLECTOR = "collector-1"
MIN_CUTS = 3
_LATE_CUTS_S = 20.0
_DRAIN_S = 90.0
_SUBSCRIBE_S = 20.0
_STEP_S = 0.25


class DemoError(ToolError):
    """A part of the run failed for another reason than a planned disaster."""


class Stage:
    """Everything that runs. Leaving `async with` ends all of it, whatever happened."""

    def __init__(
        self, out: Path, *, log: Store, kind: str, boards: int, seconds: float, seed: int,
        progress: Progress, level: str = "4",
    ) -> None:  # fmt: skip
        self.log = log
        self.events = Events()
        self._out = out
        self._seconds, self._level = seconds, level
        self._progress = progress
        self.broker = open_broker(kind, out / "broker")
        self._collector = None
        self.fleet = Fleet(
            out / "boards",
            count=boards,
            broker=("127.0.0.1", self.broker.port),
            seconds=seconds,
            seed=seed,
            series=boards // 2,
            settings={"user": ANY_USER, "level": int(level)},
            events=self.events,
        )

    async def __aenter__(self) -> Self:
        try:
            self.broker.start()
            self._spawn_collector()
            await self._until_subscribed()
            await self.fleet.__aenter__()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fleet.__aexit__()
        children.kill(self._collector)
        self.broker.kill()

    async def _until_subscribed(self) -> None:
        """Wait, so that the first messages have a subscriber. Raises DemoError."""
        until = time.monotonic() + _SUBSCRIBE_S
        while "subscribed to" not in children.tail(self._collector_log):
            self._check()
            if time.monotonic() > until:
                raise DemoError(
                    f"the collector did not subscribe: {children.tail(self._collector_log)}"
                )
            await asyncio.sleep(0.05)

    async def play(self, disasters: list[Disaster]) -> None:
        """Run the boards for their seconds while the disasters happen; longer if a disaster takes
        time or a slow machine still has power cuts left. Raises DemoError.
        """
        began = time.monotonic()
        waiting = list(disasters)
        self._progress.measure(
            f"{len(self.fleet.boards)} boards publish ({len(self.fleet.boards) // 2} of them "
            "samples of series): power, broker, collector, link fail",
            self._seconds,
        )
        while (
            (elapsed := time.monotonic() - began) < self._seconds
            or waiting
            or self._cuts_are_missing(elapsed)
        ):
            while waiting and waiting[0].at_s <= elapsed:
                await self._strike(waiting.pop(0))
            self._check()
            self._progress.step(elapsed, self._line())
            await asyncio.sleep(_STEP_S)
        self._progress.done()

    async def drain(self) -> None:
        """Wait until every board has everything confirmed; then the collector seals.

        Raises DemoError.
        """
        self._progress.say("draining: boards send what they hold, the collector confirms it")
        late = await self.fleet.drain(_DRAIN_S)
        self._check()
        if late:
            raise DemoError(
                f"not drained within {_DRAIN_S:.0f} s: {', '.join(late)}; see "
                f"{self._out / 'boards'}/*/board.log"
            )
        status = await asyncio.to_thread(children.stop, self._collector)
        if status != 0:
            raise DemoError(
                f"the collector ended with status {status}: {children.tail(self._collector_log)}"
            )
        self.broker.stop()

    async def kill_collector(self) -> None:
        children.kill(self._collector)
        self._collector = None

    async def start_collector(self) -> None:
        self._spawn_collector()

    async def kill_broker(self) -> None:
        self.broker.strike()

    async def start_broker(self) -> None:
        self.broker.spawn()
        # In a thread, so that the boards' links keep working meanwhile.
        await asyncio.to_thread(self.broker.wait_until_ready)

    _KINDS = {
        "kill_collector": "collector killed",
        "start_collector": "collector up",
        "kill_broker": "broker killed",
        "start_broker": "broker up",
    }

    async def _strike(self, disaster: Disaster) -> None:
        if disaster.what == "cut_link":
            self.fleet.cut_link(disaster.board, disaster.how)
        elif disaster.what == "restore_link":
            self.fleet.restore_link(disaster.board)
        else:
            await getattr(self, disaster.what)()
            self.events.report(self._KINDS[disaster.what])
        last = self.events.items[-1]
        self._progress.say(f"{last['kind']}{' (' + last['device'] + ')' if last['device'] else ''}")

    @property
    def _collector_log(self) -> Path:
        return self._out / "collector.log"

    def _spawn_collector(self) -> None:
        command = [
            sys.executable,
            "-m",
            "outpost_tools.cli",
            "collect",
            "--broker",
            f"127.0.0.1:{self.broker.port}",
        ]
        command += [
            "--log",
            str(self.log),
            "--id",
            COLLECTOR,
            "--user",
            ANY_USER,
            "--segment-seconds",
            "2",
            "--level",
            self._level,
        ]
        self._collector = children.start(
            command, log=self._collector_log, env=children.tools_environment()
        )

    def _cuts_are_missing(self, elapsed: float) -> bool:
        """A slow machine gets some more time for the power cuts that every board should have."""
        few = any(board.power_cuts < MIN_CUTS for board in self.fleet.boards)
        return few and elapsed < self._seconds + _LATE_CUTS_S

    def _check(self) -> None:
        if self.fleet.failures:
            raise DemoError("; ".join(self.fleet.failures))
        if self._collector is not None and self._collector.poll() is not None:
            status = self._collector.returncode
            raise DemoError(
                f"the collector ended with status {status}: {children.tail(self._collector_log)}"
            )

    def _line(self) -> str:
        fleet = self.fleet
        return (
            f"{fleet.published} published, {fleet.power_cuts} power cuts, "
            f"{self.events.count('broker killed')} broker kills, "
            f"{self.events.count('collector killed')} collector kills, "
            f"{fleet.online}/{len(fleet.boards)} online"
        )


@contextlib.asynccontextmanager
async def subprocess_group(command: list[str], log: Path):
    """A child in its own process group, which is killed as a whole: Spark's JVM must not survive
    it."""
    import os
    import signal

    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.PIPE,
            env=children.tools_environment(),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
