"""`outpost fetch`."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_command
from outpost_tools.common.errors import ToolError

SUMMARY = "get MicroPython, mosquitto and Java into a private folder, where the machine lacks them"
_DESCRIPTION = """\
Get the programs that other subcommands run, as far as this machine lacks them: MicroPython (which
runs simulated boards), mosquitto (the broker of the demo), Java (Spark runs on it). They come from
Debian's archive, as apt on this machine knows it, and are unpacked into
${XDG_CACHE_HOME:-~/.cache}/outpost: no root, nothing installed, no service started. What is there
already is left alone.
"""
_EXAMPLES = """\
examples:
  outpost fetch            all three
  outpost fetch java       what `outpost pipeline` lacks
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "fetch", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "programs",
        nargs="*",
        metavar="PROGRAM",
        help="micropython, mosquitto or java; default: all of them",
    )
    parser.add_argument(
        "--private", action="store_true", help="fetch also what this machine has of its own"
    )


def run(args: argparse.Namespace) -> int:
    """0, or 1 where one of them could not be had. Raises ToolError."""
    from outpost_tools.common import interpreters
    from outpost_tools.fetch import programs

    unknown = [name for name in args.programs if name not in programs.KINDS]
    if unknown:
        raise ToolError(f"{unknown[0]}: no such program; choose of {', '.join(programs.KINDS)}")
    kinds = tuple(args.programs or programs.KINDS)
    there = programs.ensure(kinds, interpreters.REQUIRED_ARCHITECTURES, private=args.private)
    return 0 if all(there.values()) else 1
