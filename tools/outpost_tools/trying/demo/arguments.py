"""`outpost demo`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.store.at import argument
from outpost_tools.terminal.command_line import add_command

SUMMARY = "run everything for half a minute, with disasters, and print what was lost"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    from outpost_tools.loopback.broker import KINDS
    from outpost_tools.trying.demo.disasters import SHORTEST_RUN_S

    parser = add_command(subparsers, "demo", SUMMARY, run)
    parser.add_argument(
        "--seed",
        default=os.environ.get("SEED") or "1",
        help="the same seed repeats the disasters (environment: SEED)",
    )
    parser.add_argument(
        "--broker",
        default=os.environ.get("BROKER") or None,
        help=(f"{' or '.join(KINDS)}; default: mosquitto if it is installed (environment: BROKER)"),
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        help=f"how long the boards publish, then they drain; at least {SHORTEST_RUN_S}, default 30",
    )
    parser.add_argument(
        "--boards",
        type=int,
        default=4,
        help="number of boards, default 4; half of them store series",
    )
    _add_places(parser)
    parser.add_argument(
        "--level",
        default=os.environ.get("LEVEL") or "4",
        help="MQTT level of boards and collector: 4 (3.1.1, the default) or 5 (environment: LEVEL)",
    )


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/demo"),
        metavar="DIR",
        help="output folder, recreated for each run; default build/demo",
    )
    parser.add_argument(
        "--store",
        type=argument,
        metavar="PLACE",
        help="log and tables in a new folder there, as s3://bucket; default: in the output folder",
    )
    parser.add_argument("--master", help="Spark master, as of `outpost pipeline run`")


def run(args: argparse.Namespace) -> int:
    """0 when nothing was lost, duplicated or invented; 1 when something was, or a part failed.

    130 when interrupted. Raises ToolError.
    """
    _check(args)
    from outpost_tools.trying.demo import run as demo

    return demo.run(args)


def _check(args: argparse.Namespace) -> None:
    """Also fills in the broker. Raises ToolError, also for what is needed only at the end."""
    from outpost_tools.loopback.broker import KINDS, KINDS_OF_5
    from outpost_tools.machine import needs
    from outpost_tools.machine.interpreters import find_mosquitto
    from outpost_tools.trying.demo.disasters import SHORTEST_RUN_S

    try:
        args.seed = int(args.seed)
    except ValueError:
        raise ToolError(f"--seed (SEED) {args.seed!r} is not a whole number") from None
    if args.broker is None:
        args.broker = "mosquitto" if find_mosquitto() else "amqtt"
    if args.broker not in KINDS:
        raise ToolError(f"--broker (BROKER) {args.broker!r}: choose one of {', '.join(KINDS)}")
    if args.level not in ("4", "5"):
        raise ToolError(f"--level (LEVEL) {args.level!r}: choose 4 or 5")
    if args.level == "5" and args.broker not in KINDS_OF_5:
        raise ToolError(f"--level 5: {args.broker} speaks MQTT 3.1.1 only; try --broker mosquitto")
    if not SHORTEST_RUN_S <= args.seconds <= 86400:
        raise ToolError(f"--seconds {args.seconds:g}: give {SHORTEST_RUN_S} or more")
    if not 1 <= args.boards <= 100:
        raise ToolError(f"--boards {args.boards}: give 1 to 100")
    needs.check_spark("pipeline", "report", *(["broker"] if args.broker == "amqtt" else []))
