"""`outpost outbox wear`."""

from __future__ import annotations

import argparse

from outpost_tools.boards.outbox.arguments import options
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command, between

SUMMARY = "show the erases so far, or estimate the remaining years"
_DESCRIPTION = """\
With an IMAGE, show the erases so far. Without one, estimate the wear for a message rate, a message
size and a number of blocks.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    from outpost_tools.boards.outbox.wear import ENDURANCE

    parser = add_command(subparsers, "wear", SUMMARY, run, description=_DESCRIPTION)
    options.add_source(parser)
    parser.add_argument(
        "--table", action="store_true", help="print typical loads as a Markdown table"
    )
    parser.add_argument(
        "--endurance",
        type=between(int, 1, 10**9),
        default=ENDURANCE,
        metavar="N",
        help="erases that a block survives, default %(default)s (NOR flash); "
        "see the chip's data sheet",
    )
    _add_load(parser.add_argument_group("the load"))


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--blocks", type=between(int, 2, 4096), metavar="N", help="blocks of 4,096 bytes, 2 to 4096"
    )
    group.add_argument(
        "--rate", type=between(float, 1e-9, 1e6), metavar="R", help="messages per second, or ..."
    )
    group.add_argument(
        "--interval",
        type=between(float, 1e-6, 1e9),
        metavar="S",
        help="... seconds between two messages",
    )
    group.add_argument(
        "--topic-bytes", type=between(int, 0, 255), default=24, metavar="N", help="default 24"
    )
    group.add_argument(
        "--payload-bytes", type=between(int, 0, 4048), default=200, metavar="N", help="default 200"
    )
    group.add_argument(
        "--saves",
        type=between(float, 0, 1),
        metavar="F",
        help=(
            "state records per message: default 0, or 1 if messages are over 10 minutes apart; "
            "give 1 if a board sleeps after each"
        ),
    )
    group.add_argument("--align", choices=options.ALIGNMENTS, default="4", help="default 4")


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.boards.outbox import source, wear

    if args.table:
        lines = wear.table(args.endurance, int(args.align))
    elif args.image is not None or args.live is not None:
        args.align = "auto"
        image, _ = source.examined(args)
        if not image.chain:
            raise ToolError(
                f"{args.image}: there is no outbox here ({image.status.value}), so there is no "
                "wear to report"
            )
        lines = wear.image_report(image, args.endurance)
    else:
        lines = wear.report(_load(args), args.endurance)
    print("\n".join(lines))
    return 0


def _load(args: argparse.Namespace):
    """The load that the arguments describe. Raises ToolError."""
    from outpost_tools.boards.outbox import wear

    if args.blocks is None or (args.rate is None) == (args.interval is None):
        raise ToolError(
            "wear: give an IMAGE or --live PORT, or --table, or --blocks with one of --rate and "
            "--interval"
        )
    interval_s = args.interval if args.interval is not None else 1 / args.rate
    saves = args.saves if args.saves is not None else wear.saves_of(interval_s)
    sizes = args.topic_bytes, args.payload_bytes
    load = wear.Load(args.blocks, interval_s, *sizes, int(args.align), saves)
    if load.messages_per_block == 0:
        raise ToolError(
            f"wear: a record of {load.record_bytes} bytes does not fit into a block: send less at "
            "a time"
        )
    return load
