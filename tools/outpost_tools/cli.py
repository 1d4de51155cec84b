"""The `outpost` command: lists the subcommands, loads the chosen one, turns errors into exit
statuses.

Only the arguments of the chosen subcommand are made, and its libraries are imported when it runs:
`outpost simulate` does not wait for Spark. How a subcommand is written: terminal/command_line.py.

Exit status: what the subcommand returns; 2 for bad input (one line on stderr); 130 when
interrupted; 141 when nobody reads stdout any more, as a shell reports it of other programs.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from outpost_tools import DISTRIBUTION
from outpost_tools.errors import ToolError
from outpost_tools.machine.source_tree import place
from outpost_tools.store.base import Store, StoreError
from outpost_tools.terminal.parser import Parser
from outpost_tools.text.visible import guarded

GROUPS = {  # in the order of the list: a group is a folder; name and module of each subcommand
    "trying it: a program of your own, simulated boards": {
        "try": "trying.program.arguments",
        "test": "kit.arguments",
        "simulate": "trying.simulate.arguments",
        "demo": "trying.demo.arguments",
        "fetch": "trying.fetch.arguments",
    },
    "boards, and their broker": {
        "broker": "boards.broker.arguments",
        "setup": "boards.setup.arguments",
        "provision": "boards.flash.arguments.provision",
        "flash": "boards.flash.arguments.flash",
        "selftest": "boards.selftest.arguments",
        "monitor": "boards.monitor.arguments.monitor",
        "devices": "boards.monitor.arguments.devices",
        "send": "boards.send.arguments",
        "update": "boards.update.arguments",
        "outbox": "boards.outbox.arguments",
        "build": "boards.flash.arguments.build",
    },
    "servers: what runs all day": {
        "run": "servers.home.arguments",
        "collect": "servers.collect.arguments",
        "live": "servers.live.arguments",
        "alerts": "servers.alerts.arguments",
        "republish": "servers.republish.arguments",
        "service": "servers.service.arguments",
        "mq": "servers.mq.arguments",
    },
    "readings": {
        "sources": "readings.sources.arguments",
        "export": "readings.export.arguments",
        "pipeline": "readings.pipeline.arguments",
        "report": "readings.report.arguments",
    },
}
SUBCOMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # of a path; C:/ is a drive
_PLACES = str | Path | Store
_DESCRIPTION = "Telemetry from MicroPython boards through flash, MQTT and Spark into a report."
_EXAMPLES = """\
a program of your own, on this machine:
  outpost try hello.py --broker 127.0.0.1:1883

from nothing to a board's values on a page:
  outpost fetch mosquitto              the broker, if it is not installed
  outpost run home                     broker, collector, page; then in another terminal:
  outpost setup home                   asks for a board's settings in the browser; or by hand:
  outpost broker add home/broker kitchen
  outpost provision --example --credentials home/broker/boards/kitchen.json > kitchen.toml
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --settings kitchen.toml \\
                --credentials home/broker

with simulated boards, from a sensor to a report (a broker listens on port 1883):
  outpost collect --broker 127.0.0.1:1883 --log build/log --id collector-1 &
  outpost simulate --boards 4 --broker 127.0.0.1:1883 --seconds 30 --seed 7 --out build/boards
  outpost pipeline run --log build/log --tables build/tables
  outpost report --tables build/tables --out build/report.html

or all of that with power cuts and killed servers:
  outpost demo

`outpost SUBCOMMAND --help` explains one of them. The manuals: {manuals}
"""


class _Groups(argparse.RawDescriptionHelpFormatter):
    """The subcommands under the titles of their groups, each summary beside its name."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = 4 + max(map(len, SUBCOMMANDS))  # argparse forgets the indent

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        summaries = {one.dest: one for one in action._get_subactions()}
        return "\n".join(
            f"  {title}:\n" + "".join(self._summary(summaries[name]) for name in group)
            for title, group in GROUPS.items()
        )

    def _summary(self, action: argparse.Action) -> str:
        self._indent()
        text = super()._format_action(action)
        self._dedent()
        return text


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # run from the source tree without having been installed
        return "unknown"


def _chosen(arguments: Sequence[str]) -> str | None:
    """The subcommand on the command line; None where the list of all may be shown first.

    The main parser's own options take no values and end the command, so only the first word counts.
    """
    return arguments[0] if arguments and arguments[0] in SUBCOMMANDS else None


def module_of(name: str) -> ModuleType:
    """The arguments of a subcommand: SUMMARY and add_parser()."""
    return importlib.import_module(f"outpost_tools.{SUBCOMMANDS[name]}")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """For subcommands that write the words of another, which they check at once: run, service."""
    return build_parser(words[0]).parse_args(words)


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser: with the arguments of `chosen` and the other names, or with all names and their
    summaries."""
    parser = Parser(
        prog="outpost",
        description=_DESCRIPTION,
        epilog=_EXAMPLES.format(manuals=place() / "README.md"),
        formatter_class=_Groups,
        allow_abbrev=False,
    )
    parser.set_defaults(parse=_parse)
    parser.add_argument("--version", action="version", version=f"outpost {_version()}")
    subparsers = parser.add_subparsers(
        title="subcommands", metavar="SUBCOMMAND", dest="subcommand", required=True
    )
    for name in SUBCOMMANDS:
        if name == chosen:
            module_of(name).add_parser(subparsers)
        elif chosen is None:
            subparsers.add_parser(name, help=module_of(name).SUMMARY)
        else:
            subparsers.add_parser(name)
    return parser


def _refuse_urls(parsed: argparse.Namespace) -> None:
    """One place for the paths of all subcommands: s3://bucket/log would become a folder named
    `s3:`. Raises ToolError."""
    for name, value in vars(parsed).items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Path) and _URL.match(str(one)):
                option = f"--{name.replace('_', '-')}"
                url = str(one).replace(":/", "://", 1)
                raise ToolError(
                    f"{url} ({option}): is a URL, and this option takes only files and folders of "
                    "this machine; mount it, or give a local folder"
                )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; see the module's docstring for the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parser = build_parser(_chosen(words))
        if not words:
            parser.print_help()
            return 0
        parsed = parser.parse_args(words)
        with guarded():
            return _run(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def _run(parsed: argparse.Namespace) -> int:
    try:
        _refuse_urls(parsed)
        status = int(parsed.func(parsed) or 0)
        sys.stdout.flush()  # here a full disk is an error in words, later a traceback
    except ToolError as error:
        print(f"outpost: {error}", file=sys.stderr)
        return 2
    except StoreError as error:
        print(f"outpost: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # any path may be too long, a loop of links, another user's
        if error.filename is None and not isinstance(error, PermissionError):
            raise
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        hint = "; as which user?" if isinstance(error, PermissionError) else ""
        print(f"outpost: {what}{hint}", file=sys.stderr)
        return 2
    except UnicodeEncodeError:  # what has to hold it is UTF-8: a URL, a configuration, JSON
        names = [str(value) for value in vars(parsed).values() if isinstance(value, _PLACES)]
        if name := next(filter(_is_undecoded, names), None):
            print(f"outpost: {name}: not UTF-8, which is needed here; rename it", file=sys.stderr)
            return 2
        raise
    return status


def _is_undecoded(name: str) -> bool:
    """Python writes bytes that are no UTF-8 as halves of characters."""
    return any("\ud800" <= character <= "\udfff" for character in name)


if __name__ == "__main__":
    sys.exit(main())
