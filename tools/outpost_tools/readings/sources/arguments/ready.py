"""`outpost sources ready`."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_command

SUMMARY = "list the ready files, or print one"
_EXAMPLES = """\
examples:
  outpost sources ready                             their names
  outpost sources ready tasmota > sources.toml      one of them; its head says what to set
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "ready", SUMMARY, run, examples=_EXAMPLES)
    parser.add_argument("name", nargs="?", metavar="NAME", help="default: list them")


def run(args: argparse.Namespace) -> int:
    """Returns 0. Raises ToolError."""
    from outpost_tools.machine import needs

    needs.check("sources")
    from outpost_tools.readings.sources import ready_files

    if args.name is not None:
        print(ready_files.text(args.name), end="")
        return 0
    for name in ready_files.names():
        first = ready_files.text(name).partition("\n")[0]
        print(f"{name:15} {first.removeprefix('# ')}")
    return 0
