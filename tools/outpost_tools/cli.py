"""The `outpost` command: names the subcommands, loads the one that was chosen, turns errors into exit statuses.

Each subcommand is a module with `add_parser(subparsers)` that sets `func=run`, and `run(arguments) -> int`. Only the
chosen module is imported: `outpost simulate` must not wait for Spark. So the summaries of the list stand here.

Exit status: what the subcommand returns; 2 for bad input (one line on stderr); 130 when interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from outpost_tools.errors import ToolError

SUBCOMMANDS = {
    "flash": "put Outpost on a board with stock MicroPython, or bring it up to date",
    "provision": "write a board's settings: Wi-Fi, broker, certificates, sensors",
    "selftest": "let a board prove itself: heap, flash, link, messages, watchdog; a report to attach to an issue",
    "monitor": "watch a board: what it prints, how full its outbox is",
    "devices": "what is plugged in",
    "simulate": "run N simulated boards: real MicroPython, flash in a file, power cuts by seed",
    "collect": "store messages from the broker on disk, and tell the boards what is durable",
    "pipeline": "turn the collector's segments into tables: silver, quarantine, gold, gaps",
    "report": "write one self-contained HTML page about the tables",
    "outbox": "look into a copy of a board's outbox: show, check, rescue the messages, wear",
    "mq": "IBM MQ Publish command messages: build, parse, check, bridge from MQTT",
    "build": "compile the firmware to .mpy files, as flash copies them",
    "demo": "all of it for half a minute, with disasters, and a table of what was lost",
}

_DESCRIPTION = "Telemetry from MicroPython boards through flash, MQTT and Spark into a report."
_EXAMPLES = """\
examples, from a sensor to a report (a broker listens on port 1883):
  outpost collect --broker 127.0.0.1:1883 --log build/log --id collector-1 &
  outpost simulate --boards 4 --broker 127.0.0.1:1883 --seconds 30 --seed 7 --out build/boards
  outpost pipeline run --log build/log --tables build/tables
  outpost report --tables build/tables --out build/report.html

or all of that with power cuts and killed servers:
  outpost demo

`outpost SUBCOMMAND --help` explains one of them.
"""


class _Columns(argparse.RawDescriptionHelpFormatter):
    """Each summary beside its subcommand: argparse forgets how far they are indented."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = 4 + max(map(len, SUBCOMMANDS))


def _version() -> str:
    try:
        return version("outpost")
    except PackageNotFoundError:  # run from the source tree without having been installed
        return "unknown"


def _chosen(arguments: Sequence[str]) -> str | None:
    """The subcommand on the command line: the main parser has no options with values, so it is the first plain word."""
    return next((word for word in arguments if not word.startswith("-")), None)


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser, with the arguments of `chosen` filled in by its module and the others as bare names."""
    parser = argparse.ArgumentParser(
        prog="outpost",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=_Columns,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"outpost {_version()}")
    subparsers = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", dest="subcommand", required=True)
    for name, summary in SUBCOMMANDS.items():
        if name != chosen:
            subparsers.add_parser(name, help=summary)
    if chosen in SUBCOMMANDS:
        importlib.import_module(f"outpost_tools.{chosen}").add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; see the module's docstring for the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parser = build_parser(_chosen(words))
        if not words:
            parser.print_help()
            return 0
        parsed = parser.parse_args(words)
        return int(parsed.func(parsed) or 0)
    except ToolError as error:
        print(f"outpost: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
