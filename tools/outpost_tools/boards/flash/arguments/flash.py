"""`outpost flash`: installs Outpost on a board with stock MicroPython, or updates it."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.boards.flash.arguments import options
from outpost_tools.boards.port.options import add_board
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command, seconds

SUMMARY = "install Outpost on a board with stock MicroPython, or update it"
_DESCRIPTION = """\
Install Outpost on a board with stock MicroPython, or update it: of the firmware, what its settings
need, compiled for its processor; main.py, the settings if given, and the drivers for the sensors in
them. The command copies only files that differ (by SHA-256, computed on the board), and removes
what is no longer needed. It pins the blocks of the outbox
if they are not pinned yet; otherwise it leaves the outbox alone, and the messages in it stay. Then
the board tests itself, reads each sensor once and sends a first message, and its program starts.
In collector mode, this test passes only if a collector confirms the message, because without
`outpost collect` the board's flash would fill up and the board would stop storing readings.

This interrupts the board's program. If the cable comes off, run the same command again.
Exit status 1: Outpost is installed, but a self-test failed (no link, no confirmation, or a sensor
that does not answer).
"""
_EXAMPLES = """\
examples:
  outpost devices                                                     shows the port
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --settings kitchen.toml
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0                a new version, same settings
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --dry-run      only print the steps
  outpost provision --example > kitchen.toml                          a settings file to start from
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "flash", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    add_board(parser)
    options.add_writing(parser)
    parser.add_argument(
        "--settings",
        metavar="TOML",
        type=Path,
        help="settings to write too: see `outpost provision --help`",
    )
    options.add_settings_source(parser)
    options.add_held(parser)
    parser.add_argument(
        "--replace",
        action="store_true",
        help="rename a main.py or board.py of your own on the board, instead of refusing",
    )
    parser.add_argument(
        "--for",
        metavar="PROGRAM",
        dest="programs",
        type=Path,
        action="append",
        default=[],
        help="a program of your own: copy the modules that it imports, too; may be repeated",
    )
    parser.add_argument(
        "--no-link",
        action="store_true",
        help="do not let the board connect to the broker or send anything",
    )
    parser.add_argument(
        "--link-timeout",
        metavar="S",
        type=seconds,
        default=60.0,
        help="seconds to try to connect, and then to wait for the confirmation; default 60",
    )


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if a self-test failed. Raises ToolError."""
    from outpost_tools.boards.flash import flashing, held
    from outpost_tools.boards.port import kinds, progress, table
    from outpost_tools.boards.settings import settings_file
    from outpost_tools.machine import source_tree

    root = source_tree.repository()
    kind = kinds.load(root, args.board)
    if args.credentials and not args.settings:
        raise ToolError("--credentials needs --settings: the rest of the board's settings")
    settings = None
    if args.settings:
        settings = settings_file.load(
            args.settings, kind, args.credentials, keep_names=args.keep_names
        )
    if settings:
        settings_file.tell_mode(settings, args.settings.name)
    link_s = 0.0 if args.no_link else args.link_timeout
    job = flashing.Job(
        root,
        kind,
        args.port,
        settings,
        args.dry_run,
        args.replace,
        args.timeout,
        link_s,
        progress.Progress(),
        tuple(args.programs),
        held.Asked(args.held or "", quiet_s=args.link_timeout),
    )
    report = flashing.flash(job)
    print(table.text(report.rows))
    return 0 if report.is_good else 1
