"""`outpost simulate`: run a fleet against any broker."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path

SUMMARY = "run N simulated boards: real MicroPython, flash in a file, power cuts by seed"
DRAIN_S = 60.0


def add_parser(subparsers) -> None:
    from outpost_tools.collect.cli import address

    parser = subparsers.add_parser("simulate", help=SUMMARY, description=SUMMARY)
    parser.add_argument("--broker", required=True, metavar="HOST:PORT", type=address)
    parser.add_argument("--out", required=True, metavar="DIR", type=Path, help="a folder per board, and events.json")
    parser.add_argument("--boards", type=_at_least(1), default=4, metavar="N")
    parser.add_argument("--seconds", type=_at_least(1), default=30, metavar="S", help="then the boards drain")
    parser.add_argument("--interval-ms", type=_at_least(1), default=50, metavar="MS", help="between two messages of a board")
    parser.add_argument("--cuts", type=_at_least(0), default=4, metavar="N", help="power cuts of each board")
    parser.add_argument("--seed", type=int, default=1, metavar="K", help="the same seed gives the same power cuts")
    parser.add_argument("--mode", choices=("collector", "broker"), default="collector", help="who frees a stored message")
    parser.add_argument("--user", default="")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0 when every board drained, 1 when one did not."""
    try:
        return asyncio.run(_simulate(args))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130


async def _simulate(args: argparse.Namespace) -> int:
    from outpost_tools.simulate.fleet import Fleet

    end_on_signals()
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
    (args.out / "events.json").write_text(json.dumps(fleet.events.items, indent=1), encoding="utf-8")
    _show(fleet, offline)
    for text in fleet.failures:
        _say(text)
    if late:
        _say(f"not drained within {DRAIN_S:.0f} s: {', '.join(late)}")
    return 1 if late or fleet.failures else 0


async def _run_and_drain(fleet, seconds: float) -> list[str]:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not fleet.failures:
        await asyncio.sleep(min(left, 2.0))
        _say(
            f"{max(left - 2.0, 0):.0f} s left, {fleet.published} published, {fleet.power_cuts} power cuts, {fleet.online} online"
        )
    _say("draining")
    return await fleet.drain(0.0 if fleet.failures else DRAIN_S)


def end_on_signals() -> None:
    """SIGTERM and SIGINT cancel the current task, so that `finally` and `async with` end what was started."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, task.cancel)


def _show(fleet, offline: dict[str, float]) -> None:
    print(f"{'device':<10} {'published':>10} {'power cuts':>11} {'longest offline':>16}")
    for board in fleet.boards:
        print(f"{board.device:<10} {board.published:>10} {board.power_cuts:>11} {offline[board.device]:>14.1f} s")


def _at_least(minimum: int):
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {minimum} on")
        return value

    return convert


def _say(text: str) -> None:
    print(f"simulate: {text}", file=sys.stderr, flush=True)
