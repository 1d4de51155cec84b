"""`outpost provision`: checks a board's settings on the desktop, and writes them to the board."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.flash import add_board_arguments

_DESCRIPTION = """\
Write settings to a board: settings.json, and the certificates it names (made DER, which boards read). From a TOML file, or
asked for here when none is given. All is checked before the board is touched; a fault is one line that names the key.
Written under other names and renamed when all has arrived: a board has the old settings or the new ones. Secrets are never shown.
"""
_EXAMPLES = """\
examples:
  outpost provision --example > kitchen.toml           edit it, then:
  outpost provision --board RPI_PICO_W kitchen.toml    only check it
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 kitchen.toml
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 --save kitchen.toml    asks, and keeps the answers
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "provision", help="write settings to a board", description=_DESCRIPTION, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("file", metavar="TOML", type=Path, nargs="?", help="the settings; without it they are asked for")
    add_board_arguments(parser, required=False)
    parser.add_argument("--save", metavar="TOML", type=Path, help="keep the answers in a new file, which then holds passwords")
    parser.add_argument("--example", action="store_true", help="print a settings file to begin with")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.device import ask, flashing, kinds, settings_file, table
    from outpost_tools.simulate.interpreter import repository

    if args.example:
        sys.stdout.write(settings_file.EXAMPLE)
        return 0
    if not args.board:
        raise ToolError("--board is missing: it says which sensors and which network there are, as --board RPI_PICO_W")
    root = repository()
    kind = kinds.load(root, args.board)
    settings = settings_file.load(args.file, kind) if args.file else ask.ask(kind)
    if args.save:
        ask.save(args.save, settings)
    print(*settings.lines(), sep="\n")
    if not args.port:
        print("checked; nothing was written, since no --port was given")
        return 0
    report = flashing.provision(flashing.Job(root, kind, args.port, settings, args.dry_run, answer_s=args.timeout))
    print(table.text(report.rows))
    return 0
