"""`outpost outbox export`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from outpost_tools.boards.outbox.arguments import options
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command

if TYPE_CHECKING:
    from outpost_tools.boards.outbox.image import Message

SUMMARY = "rescue the messages of an outbox"
_DESCRIPTION = """\
Rescue the messages of an outbox. Without --all, export only messages that the board has not
released. Some of them may have arrived already (their acknowledgement was only in the board's RAM).
The tables take each message once, so exporting too much does no harm. After damage, messages are
exported if their own checksum is correct. The status is 1 if the image has faults, although
everything readable was exported.

A series is one message with many samples. Its payload is the one that the board would send, with
every sample whose own check is correct, even from a record that is still open. --readings writes
the samples as rows, like the readings of any other message. Messages without readings (a text, a
state) are named on stderr; only the other forms contain them.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "export", SUMMARY, run, description=_DESCRIPTION)
    options.add_source(parser)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--json-lines", metavar="FILE", help="one JSON object per message; - is standard output"
    )
    target.add_argument(
        "--readings", metavar="FILE", help="CSV, one row per reading; - is standard output"
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
        "--all",
        action="store_true",
        help="also released messages, as far as they are still in flash",
    )


def run(args: argparse.Namespace) -> int:
    """0; 1 if the image has faults, or if --readings meets a message without readings. Raises
    ToolError."""
    _check(args)
    from outpost_tools.boards.outbox import export, faults, source

    image, findings = source.examined(args)
    faults.write(findings, sys.stderr)
    messages = export.chosen(image, with_freed=args.all, prefix=args.prefix)
    is_short = False
    if args.json_lines is not None:
        _write(args.json_lines, export.json_lines(image, messages))
    elif args.readings is not None:
        is_short = _write_readings(args.readings, messages)
    else:
        folder, arrived_ms = args.segments / args.id, source.arrived_ms(args)
        if not export.write_segment(messages, folder, arrived_ms) and messages:
            print(f"outbox: {folder} has them already, nothing was changed", file=sys.stderr)
    left = len(image.messages) - len(messages)
    print(
        f"outbox: {len(messages)} messages exported, {left} left out (released, or not asked for)",
        file=sys.stderr,
    )
    return 1 if findings.faults or is_short else 0


def _write(target: str, text: str) -> None:
    """Writes to a file that must not exist yet, or to standard output. Raises ToolError."""
    from outpost_tools.boards.outbox import export

    if target == "-":
        sys.stdout.write(text)
    else:
        export.write_new(Path(target), text)


def _write_readings(target: str, messages: list[Message]) -> bool:
    """Whether a message has no readings, which is reported. Raises ToolError."""
    from outpost_tools.boards.outbox import readings

    found = readings.rows_of(messages)
    _write(target, readings.csv_text(found.rows))
    for line in found.refused:
        print(f"outbox: {line}; --json-lines has it", file=sys.stderr)
    print(f"outbox: {len(found.rows)} readings", file=sys.stderr)
    return bool(found.refused)


def _check(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    from outpost_tools.messages import name_rules

    if args.segments is not None and not name_rules.is_client(args.id or ""):
        raise ToolError(
            "--segments needs --id, a name of letters, digits, '_', '-', '.': such as --id rescue-1"
        )
    if args.segments is None and args.id is not None:
        raise ToolError("--id goes with --segments")
