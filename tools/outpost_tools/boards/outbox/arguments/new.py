"""`outpost outbox new`."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_command, between

SUMMARY = "make a new, empty outbox on a board, for example after its files were lost"
_DESCRIPTION = """\
Make a new, empty outbox with a new stream on a board. Use it if files that reserve its blocks were
deleted or overwritten, if the board's filesystem was recreated, or to change the number of blocks
(`outbox_blocks` in the settings). The next start of the board makes the outbox; that takes 10 s for
64 blocks. The messages in the old outbox are discarded, so if there are any, the command refuses
unless you add --yes. Save them first: outpost outbox export --live PORT --segments log --id
rescue-1, with --raw if the board no longer finds its outbox.
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
        "--live",
        metavar="PORT",
        required=True,
        help="the board's serial port, such as /dev/ttyACM0",
    )
    parser.add_argument("--yes", action="store_true", help="discard the messages in the old outbox")
    parser.add_argument(
        "--timeout",
        type=between(float, 0.1, 600),
        metavar="S",
        default=10.0,
        help="seconds to wait for each answer of the board, default 10",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.boards.outbox import board

    found = board.make_new(args.live, args.timeout, is_sure=args.yes)
    given_up = "" if found.is_nothing else f" ({found} was given up)"
    print(f"{args.live}: the board makes a new outbox now{given_up}")
    return 0
