"""`outpost outbox check`."""

from __future__ import annotations

import argparse
import sys

from outpost_tools.boards.outbox.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "list the faults of an outbox: status 0 if it is sound, 1 if not"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "check", SUMMARY, run)
    options.add_source(parser)
    options.add_alignment(parser)


def run(args: argparse.Namespace) -> int:
    """0 when it is sound, 1 when not. Raises ToolError."""
    from outpost_tools.boards.outbox import faults, show, source

    image, findings = source.examined(args)
    faults.write(findings, sys.stdout)
    count = len(findings.faults)
    verdict = "sound" if not count else f"{count} fault{'s' if count > 1 else ''}"
    print(f"{args.image}: {verdict}; {show.summary(image)}")
    return 1 if count else 0
