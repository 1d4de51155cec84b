"""`outpost sources check`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.readings.sources.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "run the examples of a file, and say which message of a live broker matches what"
_DESCRIPTION = """\
Run the examples of a file: what each message becomes, beside what the file says it must become.
With --broker or --credentials, also listen, and print for each source how many messages it read, of
which devices, and the newest readings; then what no source matches, and what a source refused, with
the reason. Nothing is published, and nothing is stored.
"""
_EXAMPLES = """\
examples:
  outpost sources check sources.toml
  outpost sources check sources.toml --broker 127.0.0.1:1883 --seconds 300
  outpost sources check sources.toml --broker broker.home:8883 --ca-file ca.pem \\
                        --user monitor --password-file password.txt --topic 'tele/#'

Exit status: 0; 1 if an example becomes something else, or a source refused a message; 2 for a fault
in the file or an unreachable broker.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "check", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="a file of sources")
    options.add_broker(parser, 10, is_required=False)


def run(args: argparse.Namespace) -> int:
    """0; 1 if an example or a message is not what the file says. Raises ToolError."""
    from outpost_tools.machine import needs

    needs.check("sources")
    from outpost_tools.readings.sources import examples, ready_files, survey

    is_live = args.broker is not None or args.credentials is not None
    if not is_live and (args.topic or args.user or args.tls or args.ca_file):
        raise ToolError("--topic, --user, --tls and --ca-file go with --broker HOST:PORT")
    mapping = ready_files.load(args.file)
    faults = list(examples.faults(mapping))
    for fault in faults:
        print(f"{args.file}: {fault}", file=sys.stderr)
    count = examples.count(mapping)
    outcome = f"{len(faults)} differences" if faults else "as they must be"
    print(f"{args.file}: {len(mapping.readers)} sources and states, {count} examples: {outcome}")
    if not is_live:
        return int(bool(faults))
    found = survey.of(mapping, options.heard(args))
    print(*survey.lines(found, mapping), sep="\n")
    return int(bool(faults) or found.is_refused)
