"""`outpost flash`: puts Outpost on a board with stock MicroPython, or updates it."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.common.command_line import add_command, seconds
from outpost_tools.common.errors import ToolError
from outpost_tools.device.arguments import options

SUMMARY = "put Outpost on a board with stock MicroPython, or bring it up to date"
_DESCRIPTION = """\
Put Outpost on a board with stock MicroPython, or bring it up to date: the firmware compiled for its
processor, main.py, settings if given, and the drivers of the sensors that they name. Only what
differs is copied (SHA-256, computed on the board). The outbox is pinned if it is not yet, and
otherwise left alone: the messages in it stay. Then the board tests itself, reads each sensor once,
sends a first message, and its program starts. In collector mode the message counts when a collector
has confirmed it: without `outpost collect` the board would fall silent when its flash is full.

The board's program is interrupted meanwhile. If the cable comes off, run the same command again.
Exit status 1: installed, but a self-test failed (no link, no confirmation, a sensor without an
answer).
"""
_EXAMPLES = """\
examples:
  outpost devices                                                     which port it is
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --settings kitchen.toml
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0                a new version, same settings
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --dry-run      what would be done
  outpost provision --example > kitchen.toml                          settings to begin with
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "flash", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_board(parser)
    options.add_writing(parser)
    parser.add_argument(
        "--settings",
        metavar="TOML",
        type=Path,
        help="settings to write as well: see `outpost provision --help`",
    )
    options.add_credentials(parser)
    parser.add_argument(
        "--replace",
        action="store_true",
        help="rename a main.py or board.py of your own on the board, instead of refusing",
    )
    parser.add_argument(
        "--no-link",
        action="store_true",
        help="do not let the board try to reach the broker, or send",
    )
    parser.add_argument(
        "--link-timeout",
        metavar="S",
        type=seconds,
        default=60.0,
        help="seconds that it may try, and then wait for the confirmation; default 60",
    )


def run(args: argparse.Namespace) -> int:
    """0; 1 when a self-test failed. Raises ToolError."""
    from outpost_tools.common import source_tree
    from outpost_tools.device import flashing, kinds, progress, settings_file, table

    root = source_tree.repository()
    kind = kinds.load(root, args.board)
    if args.credentials and not args.settings:
        raise ToolError("--credentials needs --settings: the rest of the board's settings")
    settings = settings_file.load(args.settings, kind, args.credentials) if args.settings else None
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
    )
    report = flashing.flash(job)
    print(table.text(report.rows))
    return 0 if report.is_good else 1
