"""`outpost simulate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command, address, at_least

SUMMARY = "simulate boards: real MicroPython, flash in a file, power cuts by seed"


_EXAMPLES = """\
examples:
  outpost simulate --broker 127.0.0.1:1883 --out sim           4 boards, 30 s, 4 power cuts each;
                                                               needs a running `outpost collect`
  outpost simulate --broker 127.0.0.1:1883 --out sim --mode broker --cuts 0 --seconds 600 \\
                   --interval-ms 1000 --commands               then: outpost send ... board-1 report
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "simulate", SUMMARY, run, examples=_EXAMPLES)
    _add_broker(parser.add_mutually_exclusive_group(required=True))
    parser.add_argument(
        "--out", required=True, metavar="DIR", type=Path, help="a folder per board, events.json"
    )
    parser.add_argument(
        "--boards", type=at_least(1), default=4, metavar="N", help="number of boards; default 4"
    )
    parser.add_argument(
        "--seconds",
        type=at_least(1),
        default=30,
        metavar="S",
        help="how long the boards publish before they drain; default 30",
    )
    parser.add_argument(
        "--interval-ms",
        type=at_least(1),
        default=50,
        metavar="MS",
        help="time between two messages of a board; default 50",
    )
    parser.add_argument(
        "--cuts",
        type=at_least(0),
        default=4,
        metavar="N",
        help="power cuts of each board; default 4. A slow machine gets up to a minute more",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="K", help="the same seed repeats the power cuts"
    )
    parser.add_argument(
        "--mode",
        choices=("collector", "broker"),
        default="collector",
        help="who releases a stored message; default collector",
    )
    _add_kinds(parser)


def _add_kinds(parser: argparse.ArgumentParser) -> None:
    """Options for what only some boards do."""
    parser.add_argument(
        "--series",
        type=at_least(0),
        default=0,
        metavar="N",
        help="the last N boards store series, with many samples in a message; default 0",
    )
    parser.add_argument(
        "--level", choices=("4", "5"), default="4", help="MQTT level: 4 is 3.1.1; default 4"
    )
    parser.add_argument("--user", default="", help="user name at the broker")
    parser.add_argument(
        "--commands", action="store_true", help="the boards take commands: try `outpost send`"
    )


def _add_broker(group: argparse._MutuallyExclusiveGroup) -> None:
    group.add_argument("--broker", metavar="HOST:PORT", type=address, help="address of the broker")
    group.add_argument(
        "--credentials",
        metavar="DIR",
        type=Path,
        help="the folder of `outpost broker init`, whose users are board-1 to board-N; uses TLS",
    )


def run(args: argparse.Namespace) -> int:
    """0 when every board drained, 1 when one did not; 130 when interrupted. Raises ToolError."""
    import asyncio

    from outpost_tools.trying.simulate import run as simulation

    if args.series > args.boards:
        raise ToolError(f"--series {args.series}: there are {args.boards} boards")
    if args.credentials and args.user:
        raise ToolError("--user: the users are in --credentials; leave one of them out")
    try:
        return asyncio.run(simulation.run(args))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    except OSError as error:  # mostly about a board's files
        raise ToolError(f"{error.filename or args.out}: {error.strerror or error}") from None
