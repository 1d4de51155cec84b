"""`outpost outbox show`."""

from __future__ import annotations

import argparse
import sys

from outpost_tools.boards.outbox.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "print an outbox block by block; status 1 if it is not an outbox"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "show", SUMMARY, run)
    options.add_source(parser)
    options.add_alignment(parser)
    parser.add_argument("--records", action="store_true", help="print every record, too")
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def run(args: argparse.Namespace) -> int:
    """0; 1 when it is not an outbox. Raises ToolError."""
    import json

    from outpost_tools.boards.outbox import faults, show, source
    from outpost_tools.boards.outbox.image import Status

    image, findings = source.examined(args)
    if args.json:
        records = args.records
        print(
            json.dumps(
                show.as_json(args.image.name, image, findings, with_records=records), indent=1
            )
        )
    else:
        for line in show.sector_lines(image, with_records=args.records):
            print(line)
        faults.write(findings, sys.stdout)
        print(show.summary(image))
    return 0 if image.status is Status.OUTBOX else 1
