"""`outpost sources learn`."""

from __future__ import annotations

import argparse
import sys

from outpost_tools.readings.sources.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "listen to a broker, and write a first draft of a file"
_DESCRIPTION = """\
Listen to a broker, and print a file of sources for what was heard: the ready sources whose topics
and payloads fit, and drafts for other objects and numbers, with units guessed by their names, the
time field if there is one, and an example of each kind. The zone of local times follows from the
arrival of messages. Read the draft: a guess is not knowledge. Notes about it go to stderr.

Topics of Outpost's own boards (outpost/#) are left out, and so are texts, images and other payloads
without numbers.
"""
_EXAMPLES = """\
examples:
  outpost sources learn --broker 127.0.0.1:1883 > sources.toml
  outpost sources learn --broker 127.0.0.1:1883 --seconds 600 --topic 'tele/#' > sources.toml
  outpost sources check sources.toml --broker 127.0.0.1:1883

Exit status: 0; 1 if nothing was heard that could be read; 2 if the broker cannot be reached.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "learn", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_broker(parser, 60, is_required=True)


def run(args: argparse.Namespace) -> int:
    """0; 1 if there is nothing to write. Raises ToolError."""
    from outpost_tools.machine import needs

    needs.check("sources")
    from outpost_tools.readings.sources import draft, listen

    heard = options.heard(args)
    made = draft.of(heard, listen.machine_zone())
    for note in made.notes:
        print(f"outpost: {note}", file=sys.stderr)
    if not made.readers:
        print("outpost: nothing was heard that could be read", file=sys.stderr)
        return 1
    print(made.text, end="")
    return 0
