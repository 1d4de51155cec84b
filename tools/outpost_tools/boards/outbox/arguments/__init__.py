"""`outpost outbox`: a module for each subcommand; options.py has what several of them share."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_group

SUMMARY = "inspect a board's outbox: show, check, health, rescue messages, wear"
DESCRIPTION = """\
Inspect a copy of a board's outbox: the ring of flash blocks in which the board keeps undelivered
messages. IMAGE is a file with the bytes of these blocks, from the first one on: `flash.img` of a
simulated board (outpost simulate), or the output of a flash reader from a dead board. This needs no
board, and the image is only read (except by `aside give-up` and `aside send`).

Instead of IMAGE, --live PORT reads a live board over its serial port:
--live /dev/ttyACM0 --save copy.img. This stops its program for a few seconds and restarts it, and
writes nothing to its flash. As in a reset, the board loses acknowledgements that were only in RAM,
so some messages appear as held although they have arrived. A board whose pinned files are gone
refuses to start, but its blocks can still be read. --raw searches the whole flash, even if the
filesystem was recreated.
"""
EXAMPLES = """\
examples:
  outpost outbox show flash.img                     one line per block, and the held messages
  outpost outbox show flash.img --records           every record, with topic and payload
  outpost outbox check flash.img                    faults; status 1 if there are any
  outpost outbox health flash.img                   room, wear, failed blocks; status 1: check it
  outpost outbox export flash.img --json-lines -    the undelivered messages
  outpost outbox export flash.img --readings rows.csv
                                                    their readings, one per row; of series too
  outpost outbox export flash.img --segments log --id rescue-1
                                 ... into the tables: outpost pipeline run --log log --tables tables
  outpost outbox aside list flash.img               messages that the server refused
  outpost outbox wear flash.img                     how often its blocks were erased
  outpost outbox wear --blocks 64 --interval 10 --topic-bytes 24 --payload-bytes 64
                                                    how long the flash will last
  outpost outbox wear --table                       the same for typical loads, in Markdown
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    members = ("show", "check", "health", "export", "wear", "aside", "new")
    add_group(
        subparsers, "outbox", SUMMARY, __name__, members, description=DESCRIPTION, examples=EXAMPLES
    )
