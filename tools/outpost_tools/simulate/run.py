"""A run of `outpost simulate`: a fleet for some seconds, then its drain, and the table at the
end."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

from outpost_tools.common import children
from outpost_tools.simulate.fleet import Fleet

DRAIN_S = 60.0


async def run(args: argparse.Namespace) -> int:
    """0 when every board drained, 1 when one did not. Raises ToolError."""
    children.end_on_signals()
    fleet = Fleet(
        args.out,
        count=args.boards,
        broker=args.broker,
        seconds=args.seconds,
        interval_ms=args.interval_ms,
        cuts=args.cuts,
        seed=args.seed,
        settings={"mode": args.mode, "user": args.user},
    )
    _say(f"{args.boards} boards on {fleet.interpreter}, seed {args.seed}")
    async with fleet:
        late = await _run_and_drain(fleet, args.seconds)
        offline = fleet.longest_offline_s()
    (args.out / "events.json").write_text(
        json.dumps(fleet.events.items, indent=1), encoding="utf-8"
    )
    _show(fleet, offline)
    for text in fleet.failures:
        _say(text)
    if late:
        _say(f"not drained within {DRAIN_S:.0f} s: {', '.join(late)}")
    return 1 if late or fleet.failures else 0


async def _run_and_drain(fleet: Fleet, seconds: float) -> list[str]:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not fleet.failures:
        await asyncio.sleep(min(left, 2.0))
        _say(
            f"{max(left - 2.0, 0):.0f} s left, {fleet.published} published, {fleet.power_cuts} "
            f"power cuts, {fleet.online} online"
        )
    _say("draining")
    return await fleet.drain(0.0 if fleet.failures else DRAIN_S)


def _show(fleet: Fleet, offline: dict[str, float]) -> None:
    print(f"{'device':<10} {'published':>10} {'power cuts':>11} {'longest offline':>16}")
    for board in fleet.boards:
        print(
            f"{board.device:<10} {board.published:>10} {board.power_cuts:>11} "
            f"{offline[board.device]:>14.1f} s"
        )


def _say(text: str) -> None:
    print(f"simulate: {text}", file=sys.stderr, flush=True)
