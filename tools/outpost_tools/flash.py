"""`outpost flash`: puts Outpost on a board with stock MicroPython, or brings it up to date."""

from __future__ import annotations

import argparse
from pathlib import Path

_DESCRIPTION = """\
Put Outpost on a board with stock MicroPython, or bring it up to date: the firmware compiled for its processor, main.py, and
settings if given. Only what differs is copied (SHA-256, computed on the board). The outbox is pinned when it is not yet, and
otherwise left alone: messages in it stay. Then the board tests itself, and its program starts.

The board's program is interrupted meanwhile. Should the cable come off: the same command again.
Exit status 1: installed, but a self-test failed (no link, say).
"""
_EXAMPLES = """\
examples:
  outpost devices                                                     which port it is
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --settings kitchen.toml
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0                a new version, the settings stay
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --dry-run      what would be done
  outpost provision --example > kitchen.toml                          settings to begin with
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "flash", help="put Outpost on a board", description=_DESCRIPTION, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_board_arguments(parser)
    parser.add_argument("--settings", metavar="TOML", type=Path, help="settings to write, too: see `outpost provision --help`")
    parser.add_argument("--replace", action="store_true", help="a main.py or board.py of your own there is renamed, not refused")
    parser.add_argument("--no-link", action="store_true", help="do not let the board try to reach the broker")
    parser.add_argument("--link-timeout", metavar="S", type=_seconds, default=60.0, help="how long it may try; default 60")
    parser.set_defaults(func=run)


def add_board_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Those of `outpost provision`, too."""
    parser.add_argument(
        "--board", metavar="BOARD", required=required, help="a folder of boards/, as RPI_PICO_W, or a path of one"
    )
    parser.add_argument("--port", metavar="PORT", required=required, help="the board's serial port, as /dev/ttyACM0")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing on the board")
    parser.add_argument("--timeout", metavar="S", type=_seconds, default=10.0, help="wait so long for an answer; default 10")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r}: seconds, above 0 and up to 3600")
    return value


def run(args: argparse.Namespace) -> int:
    """0; 1 when a self-test failed. Raises ToolError."""
    from outpost_tools.device import flashing, kinds, settings_file, table
    from outpost_tools.simulate.interpreter import repository

    root = repository()
    kind = kinds.load(root, args.board)
    settings = settings_file.load(args.settings, kind) if args.settings else None
    link_s = 0.0 if args.no_link else args.link_timeout
    job = flashing.Job(root, kind, args.port, settings, args.dry_run, args.replace, args.timeout, link_s)
    report = flashing.flash(job)
    print(table.text(report.rows))
    return 0 if report.is_good else 1
