"""`outpost outbox new`."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_command, between

SUMMARY = "a new, empty outbox on a board: after its files were lost, say"
_DESCRIPTION = """\
A new, empty outbox on a board, with a new stream: when files that reserve its blocks were deleted
or overwritten, when the board's filesystem was made again, or for another number of blocks
(`outbox_blocks` of the settings). The next start of the board makes it; that takes 10 s for 64
blocks. What the old one holds is given up, so it is refused while there is something, unless you
say --yes. Save that first: outpost outbox export --live PORT --segments log --id rescue-1, with
--raw when the board does not find its outbox any more.
Status 0: done. 2: refused, nothing was changed.
"""
_EXAMPLES = """\
examples:
  outpost outbox export --live /dev/ttyACM0 --raw --segments log --id rescue-1
  outpost outbox new --live /dev/ttyACM0 --yes
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "new", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--live", metavar="PORT", required=True, help="the board's serial port, /dev/ttyACM0 say"
    )
    parser.add_argument("--yes", action="store_true", help="give up what the old one holds")
    parser.add_argument(
        "--timeout",
        type=between(float, 0.1, 600),
        metavar="S",
        default=10.0,
        help="seconds that the board has for each answer, default 10",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.outbox import board

    found = board.make_new(args.live, args.timeout, is_sure=args.yes)
    given_up = "" if found.is_nothing else f" ({found} was given up)"
    print(f"{args.live}: the board makes a new outbox now{given_up}")
    return 0
