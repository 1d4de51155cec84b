"""`outpost fetch`."""

from __future__ import annotations

import argparse

from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command

SUMMARY = "download MicroPython, mosquitto and Java to a private folder, if they are missing"
_DESCRIPTION = """\
Download the programs that other subcommands need, if this machine lacks them: MicroPython (for
simulated boards), mosquitto (the broker of the demo), Java (for Spark). They come from Debian's
archive, as apt on this machine is configured, and are unpacked into
${XDG_CACHE_HOME:-~/.cache}/outpost. This needs no root, installs nothing on the system and starts
no service. Programs that are already there are left alone. Chromium (174 MB, unpacked 550 MB)
comes only if it is named: Outpost's own tests look at their pages with it.
"""
_EXAMPLES = """\
examples:
  outpost fetch            MicroPython, mosquitto and Java
  outpost fetch java       needed by `outpost pipeline`
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "fetch", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "programs",
        nargs="*",
        metavar="PROGRAM",
        help="micropython, mosquitto, java or chromium; default: the first three",
    )
    parser.add_argument(
        "--private",
        action="store_true",
        help="also download programs that are installed on this machine",
    )


def run(args: argparse.Namespace) -> int:
    """0, or 1 if a program could not be fetched. Raises ToolError."""
    from outpost_tools.machine import interpreters
    from outpost_tools.trying.fetch import programs

    unknown = [name for name in args.programs if name not in programs.KINDS]
    if unknown:
        raise ToolError(f"{unknown[0]}: no such program; choose from {', '.join(programs.KINDS)}")
    kinds = tuple(args.programs or programs.OF_USERS)
    there = programs.ensure(kinds, interpreters.DEFAULT_ARCHITECTURES, private=args.private)
    missing = {name for name in there if not there[name]}
    return 1 if missing - set(interpreters.OPTIONAL_ARCHITECTURES) else 0
