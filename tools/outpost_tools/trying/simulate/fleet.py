"""All simulated boards of a run: the interface for programs.

    async with Fleet(directory, count=4, broker=("127.0.0.1", 1883), seconds=30, seed=1) as fleet:
        await asyncio.sleep(30)
        fleet.cut_link(0, "reset") ...
        late = await fleet.drain(60)         # the devices that did not drain in time

Folders: `<directory>/<device>/`. Events (power cut, boot, link cut, link up) go to `events`, in
order of time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from outpost_tools.machine import source_tree
from outpost_tools.mqtt.credentials import Credentials
from outpost_tools.trying.simulate import interpreter
from outpost_tools.trying.simulate.board import CA_FILE, Board
from outpost_tools.trying.simulate.orders import Orders
from outpost_tools.trying.simulate.proxy import Proxy

DEFAULT_INTERVAL_MS = 50
DEFAULT_CUTS = 4
# Short where the defaults for real boards are long, so that half a minute shows what happens.
_FAST = {"keep_alive_s": 4, "confirm_timeout_ms": 2000}
_SERIES = {"series": True, "series_age_s": 3}


@dataclass
class Events:
    """What happened and when; every part of a run reports here."""

    items: list[dict[str, Any]] = field(default_factory=list)

    def report(self, kind: str, device: str | None = None) -> None:
        """`kind` as in events.json: "power cut", "boot", "broker killed", ..."""
        self.items.append({"time_ms": time.time_ns() // 1_000_000, "kind": kind, "device": device})

    def count(self, kind: str) -> int:
        return sum(1 for item in self.items if item["kind"] == kind)


class Fleet:
    """Boards `board-1` to `board-<count>`.

    Use it with `async with`; leaving it ends everything that still runs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        count: int,
        broker: tuple[str, int],
        seconds: float,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        cuts: int = DEFAULT_CUTS,
        seed: int = 1,
        series: int = 0,
        settings: dict[str, Any] | None = None,
        events: Events | None = None,
        credentials: Mapping[str, Credentials] | None = None,
    ) -> None:
        """`cuts` power cuts for each board, spread over `seconds`; the last `series` boards store
        their measurements as samples of series; `settings` for settings.json; `credentials` by
        board name.

        Raises ToolError.
        """
        self.command, self.interpreter = interpreter.choose()
        self.root = source_tree.repository()
        self.directory = directory.resolve()
        self.events = events or Events()
        self._stop_file = self.directory / "stop"
        self._tasks: list[asyncio.Task] = []
        self._credentials = credentials or {}
        given = settings or {}
        # as `outpost provision` does: "queued" is for brokers that refuse RETAIN
        says = {"say_state": given.get("confirmation") != "queued"}
        self._settings = {**_FAST, **says, "interval_ms": interval_ms, **given}
        self._first_series = count - series + 1
        self._cuts = cuts
        plan = {"cuts": cuts, "seconds": seconds, "interval_ms": interval_ms}
        self.boards = [
            self._board(n, Proxy(*broker), Orders(f"{seed}/board-{n}", **plan))
            for n in range(1, count + 1)
        ]

    def _board(self, number: int, proxy: Proxy, orders: Orders) -> Board:
        device = f"board-{number}"
        found = self._credentials.get(device)
        kind = _SERIES if number >= self._first_series else {}
        own = {"device_id": device, "broker_host": "127.0.0.1", **kind}
        return Board(
            self.directory / device,
            {**own, **self._settings, **_login(found)},
            ca=found.ca if found else "",
            command=[*self.command, str(self.root / "firmware" / "main.py")],
            env=source_tree.firmware_environment(self.root),
            proxy=proxy,
            orders=orders,
            stop_file=self._stop_file,
            report=self.events.report,
        )

    async def __aenter__(self) -> Self:
        self._stop_file.unlink(missing_ok=True)
        for board in self.boards:
            board.prepare()
            await board.proxy.start()
        self._tasks = [asyncio.create_task(board.run()) for board in self.boards]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for board in self.boards:
            await board.proxy.close()

    @property
    def published(self) -> int:
        return sum(board.published for board in self.boards)

    @property
    def power_cuts(self) -> int:
        return sum(board.power_cuts for board in self.boards)

    @property
    def cuts_to_come(self) -> int:
        """Over all boards: a slow machine may have some left when the time is over."""
        return sum(max(self._cuts - board.power_cuts, 0) for board in self.boards)

    @property
    def online(self) -> int:
        """How many boards have a connection that answers."""
        return sum(board.proxy.meter.is_online for board in self.boards)

    @property
    def fault(self) -> str:
        """Why the broker cannot be reached; "" while it can, or when nobody has tried."""
        return next((board.proxy.fault for board in self.boards if board.proxy.fault), "")

    @property
    def failures(self) -> list[str]:
        """The errors of boards that failed; waiting for a fleet with a failed board is useless."""
        # Not strict: before the start there are boards and no tasks.
        tasks = zip(self.boards, self._tasks, strict=False)
        crashed = [f"{board.device}: {task.exception()}" for board, task in tasks if _crashed(task)]
        return [board.failure for board in self.boards if board.failure] + crashed

    def cut_link(self, number: int, how: str) -> None:
        """Cut the link of board `number` (from 0); see Proxy.cut()."""
        self.boards[number].proxy.cut(how)
        self.events.report("link cut", self.boards[number].device)

    def restore_link(self, number: int) -> None:
        if self.boards[number].proxy.is_cut:
            self.boards[number].proxy.restore()
            self.events.report("link up", self.boards[number].device)

    async def drain(self, timeout_s: float) -> list[str]:
        """Boards stop measuring and send what they hold. Returns the devices that did not finish in
        time."""
        for number, board in enumerate(self.boards):
            board.orders.no_more_cuts()
            self.restore_link(number)
        self._stop_file.touch()
        await asyncio.wait(self._tasks, timeout=timeout_s)
        return [board.device for board in self.boards if not board.drained]

    def longest_offline_s(self) -> dict[str, float]:
        now = time.monotonic()
        return {board.device: board.proxy.meter.longest_s(now) for board in self.boards}


def _login(found: Credentials | None) -> dict[str, Any]:
    """The board connects to its relay on loopback, but checks the broker's own name."""
    if found is None:
        return {}
    return {
        "user": found.user,
        "password": found.password,
        "topic_prefix": found.topic_prefix,
        "tls": True,
        "server_name": found.host,
        "ca_file": CA_FILE,
    }


def _crashed(task: asyncio.Task) -> bool:
    with contextlib.suppress(asyncio.CancelledError):
        return task.done() and task.exception() is not None
    return False
