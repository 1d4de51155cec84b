"""A run of `outpost simulate`: a fleet for some seconds, then draining, and the table at the
end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine import children
from outpost_tools.mqtt import credentials
from outpost_tools.mqtt.credentials import Credentials
from outpost_tools.terminal.notices import Folded
from outpost_tools.trying.simulate.fleet import Fleet

DRAIN_S = 60.0
DRAIN_SAY_S = 5.0
LATE_CUTS_S = 60.0  # beyond `seconds`, for the remaining power cuts


async def run(args: argparse.Namespace) -> int:
    """0 when every board drained, 1 when one did not. Raises ToolError, OSError."""
    children.end_on_signals()
    with _alone_in(args.out):
        return await _run(args)


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Two would write to the flash of the same boards. Raises ToolError, OSError."""
    with contextlib.suppress(FileExistsError):  # a file: the next line says what it is not
        directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"{directory}: another `outpost simulate` runs there; stop it, or give another "
                "folder as --out"
            ) from None
        yield


async def _run(args: argparse.Namespace) -> int:
    """As run()."""
    found = _credentials(args)
    broker = next(iter(found.values())).address if found else args.broker
    fleet = Fleet(
        args.out,
        count=args.boards,
        broker=broker,
        credentials=found,
        seconds=args.seconds,
        interval_ms=args.interval_ms,
        cuts=args.cuts,
        seed=args.seed,
        series=args.series,
        settings={
            "mode": args.mode,
            "user": args.user,
            "commands": args.commands,
            "level": int(args.level),
        },
    )
    kinds = f", {args.series} of them with series" if args.series else ""
    _say(f"{args.boards} boards{kinds} on {fleet.interpreter}, seed {args.seed}")
    async with fleet:
        late = await _run_and_drain(fleet, args.seconds, "{}:{}".format(*broker))
        offline = fleet.longest_offline_s()
    (args.out / "events.json").write_text(
        json.dumps(fleet.events.items, indent=1), encoding="utf-8"
    )
    _show(fleet, offline)
    for text in fleet.failures:
        _say(text)
    if late:
        why = _why("{}:{}".format(*broker), fleet.fault, args.mode)
        _say(f"not drained within {DRAIN_S:.0f} s: {', '.join(late)}{why}")
    return 1 if late or fleet.failures else 0


def _why(broker: str, fault: str | None, mode: str) -> str:
    if fault:
        return f"; broker {broker}: {fault}"
    if mode == "collector":
        return f"; does `outpost collect` run at broker {broker}? --mode broker does without"
    return ""


def _credentials(args: argparse.Namespace) -> dict[str, Credentials]:
    """The credentials of each board, by its name. Raises ToolError."""
    if args.credentials is None:
        return {}
    names = [f"board-{number}" for number in range(1, args.boards + 1)]
    return {name: credentials.find(args.credentials, "board", name) for name in names}


async def _run_and_drain(fleet: Fleet, seconds: float, broker: str) -> list[str]:
    """broker: its address, for people."""
    waiting = Folded(_say)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not fleet.failures:
        await asyncio.sleep(min(left, 2.0))
        _say(f"{max(left - 2.0, 0):.0f} s left, {_how_far(fleet)}")
        _tell(fleet, broker, waiting)
    while fleet.cuts_to_come and time.monotonic() < end + LATE_CUTS_S and not fleet.failures:
        _say(f"{fleet.cuts_to_come} power cuts to come, {_how_far(fleet)}")
        _tell(fleet, broker, waiting)
        await asyncio.sleep(1.0)
    if fleet.failures:
        return await fleet.drain(0.0)
    _say(f"draining: boards send what they hold, at most {DRAIN_S:.0f} s")
    return await _drained(fleet, broker, waiting)


def _how_far(fleet: Fleet) -> str:
    return f"{fleet.published} published, {fleet.power_cuts} power cuts, {fleet.online} online"


async def _drained(fleet: Fleet, broker: str, waiting: Folded) -> list[str]:
    """Reports every few seconds which boards still hold messages."""
    draining = asyncio.create_task(fleet.drain(DRAIN_S))
    try:
        while not (await asyncio.wait([draining], timeout=DRAIN_SAY_S))[0]:
            left = sum(not board.drained for board in fleet.boards)
            _say(f"{left} of {len(fleet.boards)} boards hold messages, {fleet.online} online")
            _tell(fleet, broker, waiting)
        return await draining
    finally:
        draining.cancel()


def _tell(fleet: Fleet, broker: str, waiting: Folded) -> None:
    """Report once why the boards wait; they keep what they measure."""
    if fleet.fault and not fleet.online:
        waiting.tell(
            f"broker {broker}: {fleet.fault}. The boards keep measuring, store in flash and retry"
        )
    elif fleet.online and (after := waiting.over()):
        _say(f"broker {broker}: reached{after}")


def _show(fleet: Fleet, offline: dict[str, float]) -> None:
    print(f"{'device':<10} {'published':>10} {'power cuts':>11} {'longest offline':>16}")
    for board in fleet.boards:
        print(
            f"{board.device:<10} {board.published:>10} {board.power_cuts:>11} "
            f"{offline[board.device]:>14.1f} s"
        )


def _say(text: str) -> None:
    print(f"simulate: {text}", file=sys.stderr, flush=True)
