#!/usr/bin/env python3
"""What a broker killed with SIGKILL loses: collector mode beside plain mode, simulated boards on
real MicroPython.

    .venv/bin/python host_tests/fuzz/hunt_collector_loss.py [--boards 3] [--seconds 8] [--seed 1]
        [--json]

Each mode has its own broker. In the middle of the run the collectors are killed, so that the
brokers hold what they acknowledged; then the brokers are killed, too. All restart, the boards
drain, and each journal (the messages for which publish() returned OK) is compared with the logs.
Collector mode must lose nothing. What plain mode loses must be visible as gaps in the sequence
numbers, except at the end of a stream.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import outpost_command
from outpost_tools.log import segments
from outpost_tools.loopback.broker import ANY_USER, Broker
from outpost_tools.machine import children
from outpost_tools.servers.collect.log import frame_key
from outpost_tools.trying.simulate.fleet import Fleet
from outpost_tools.trying.simulate.journal import read_journal

MODES = ("collector", "broker")
INTERVAL_MS = 20
DRAIN_S = 240.0  # long enough for a busy machine
LIMIT_S = 120.0


class Side:
    """One mode: its broker, its fleet, its collector, its log."""

    def __init__(self, mode: str, folder: Path, args: argparse.Namespace) -> None:
        self.mode, self.log = mode, folder / "log"
        self.broker = broker = Broker("mosquitto", folder / "broker")
        self._output = folder / "collector.txt"
        self._command = outpost_command.line("collect", "--broker", f"127.0.0.1:{broker.port}")
        self._command += ["--log", str(self.log), "--id", "c1", "--user", ANY_USER]
        self._process = None
        settings = {"user": ANY_USER, "mode": mode}
        plan = {
            "count": args.boards,
            "seconds": args.seconds,
            "seed": args.seed,
            "interval_ms": INTERVAL_MS,
            "cuts": 0,
        }
        self.fleet = Fleet(
            folder / "boards", broker=("127.0.0.1", broker.port), settings=settings, **plan
        )

    async def start(self) -> None:
        before = self._subscribed()
        self._process = children.start(
            self._command, log=self._output, env=children.tools_environment()
        )
        async with asyncio.timeout(LIMIT_S):
            while self._subscribed() <= before:
                await asyncio.sleep(0.05)

    def _subscribed(self) -> int:
        return self._output.read_text().count("subscribed to") if self._output.exists() else 0

    def kill(self) -> None:
        children.kill(self._process)

    def stop(self) -> int | None:
        return children.stop(self._process, grace_s=LIMIT_S)

    def account(self) -> dict:
        """Returns the messages with OK, those lost, and what the gaps of the sequence numbers
        show."""
        numbers: dict[tuple[str, str], set[int]] = {}
        for path in self.log.glob("*/*.seg"):
            for frame in segments.read_segment(path):
                key = frame_key(frame)
                if key is not None:
                    numbers.setdefault((key.device, key.stream), set()).add(key.seq)
        said = {
            (board.device, entry.stream, entry.seq)
            for board in self.fleet.boards
            for entry in read_journal(board.directory / "journal.txt")
            if entry.kind == "ok"
        }
        lost = sorted(one for one in said if one[2] not in numbers.get(one[:2], ()))
        gaps = {key: _gaps(seen) for key, seen in numbers.items()}
        in_gaps = sum(
            any(a <= seq <= b for a, b in gaps.get((device, stream), ()))
            for device, stream, seq in lost
        )
        return {
            "mode": self.mode, "published": len(said),
            "lost": len(lost), "lost_seen_as_gaps": in_gaps,
            "gaps": {device: ranges for (device, _), ranges in sorted(gaps.items()) if ranges},
        }  # fmt: skip


def _gaps(seen: set[int]) -> list[list[int]]:
    """Returns the missing ranges from 0 to the highest number seen."""
    edges = sorted(seen | {-1})
    return [[a + 1, b - 1] for a, b in itertools.pairwise(edges) if b > a + 1]


async def run(folder: Path, args: argparse.Namespace) -> list[dict]:
    """Returns one account for each mode."""
    for mode in MODES:
        (folder / mode).mkdir()
    sides = [Side(mode, folder / mode, args) for mode in MODES]
    try:
        for side in sides:
            side.broker.start()
            await side.start()
        async with sides[0].fleet, sides[1].fleet:
            await _disaster(sides, args.seconds)
            late = [name for side in sides for name in await side.fleet.drain(DRAIN_S)]
            assert not late, f"did not drain: {late}"
            await asyncio.sleep(1)
            assert [side.stop() for side in sides] == [0, 0]
    finally:
        for side in sides:
            side.kill()
            side.broker.kill()
    return [side.account() for side in sides]


async def _published(sides: list[Side], count: int) -> None:
    """Wait for that many more messages on each side, with all boards connected; a busy machine
    takes time."""
    wanted = [side.fleet.published + count for side in sides]
    async with asyncio.timeout(LIMIT_S):
        while any(
            side.fleet.published < most or side.fleet.online < len(side.fleet.boards)
            for side, most in zip(sides, wanted, strict=True)
        ):
            await asyncio.sleep(0.05)


async def _disaster(sides: list[Side], seconds: float) -> None:
    await asyncio.sleep(seconds * 0.4)
    await _published(sides, 1)
    for side in sides:
        side.kill()
    await asyncio.gather(asyncio.sleep(seconds * 0.2), _published(sides, 40))
    for side in sides:
        side.broker.kill()
        side.broker.spawn()
    for side in sides:
        await asyncio.to_thread(side.broker.wait_until_ready)
        await side.start()
    await asyncio.sleep(seconds * 0.4)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", type=int, default=3, help="in each mode")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="collector-loss-") as folder:
        rows = asyncio.run(run(Path(folder), args))
    for row in rows:
        text = (
            f"{row['mode']} mode: {row['published']} published, {row['lost']} lost, "
            f"{row['lost_seen_as_gaps']} seen as gaps"
        )
        print(json.dumps(row) if args.json else f"{text} {row['gaps'] or ''}")
    return 1 if rows[0]["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
