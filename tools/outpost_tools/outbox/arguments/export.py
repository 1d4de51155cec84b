"""`outpost outbox export`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.common.command_line import add_command, is_name
from outpost_tools.common.errors import ToolError
from outpost_tools.outbox.arguments import options

SUMMARY = "rescue the messages"
_DESCRIPTION = """\
Rescue the messages. Without --all: those that the board has not freed. Some of them may have
arrived already (their acknowledgement was in the board's RAM); the tables take each message once,
so exporting too much does no harm. Messages after damage are exported where their own checksum
proves them. Status 1 when the image has faults, although all that could be read was exported.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "export", SUMMARY, run, description=_DESCRIPTION)
    options.add_source(parser)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--json-lines", metavar="FILE", help="one JSON object a message; - is standard output"
    )
    target.add_argument(
        "--segments",
        metavar="DIR",
        type=Path,
        help="a collector's log: a sealed segment goes to DIR/ID",
    )
    parser.add_argument(
        "--id", help="with --segments: a name that no collector has, such as rescue-1"
    )
    parser.add_argument("--prefix", metavar="TOPIC", help="only topics below TOPIC/")
    parser.add_argument(
        "--all", action="store_true", help="freed messages too, as far as they are still there"
    )


def run(args: argparse.Namespace) -> int:
    """0; 1 when the image has faults. Raises ToolError."""
    _check(args)
    from outpost_tools.outbox import export, faults, source

    image, findings = source.examined(args)
    faults.write(findings, sys.stderr)
    messages = export.chosen(image, with_freed=args.all, prefix=args.prefix)
    if args.json_lines == "-":
        sys.stdout.write(export.json_lines(messages))
    elif args.json_lines is not None:
        export.write_new(Path(args.json_lines), export.json_lines(messages))
    else:
        folder, arrived_ms = args.segments / args.id, source.arrived_ms(args)
        if not export.write_segment(messages, folder, arrived_ms) and messages:
            print(f"outbox: {folder} holds them already, nothing was changed", file=sys.stderr)
    left = len(image.messages) - len(messages)
    print(
        f"outbox: {len(messages)} messages exported, {left} left out (freed, or not asked for)",
        file=sys.stderr,
    )
    return 1 if findings.faults else 0


def _check(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    if args.segments is not None and not is_name(args.id or ""):
        raise ToolError(
            "--segments needs --id, a name of letters, digits, '_', '-', '.': such as --id rescue-1"
        )
    if args.segments is None and args.id is not None:
        raise ToolError("--id goes with --segments")
