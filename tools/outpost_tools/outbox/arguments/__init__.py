"""`outpost outbox`: a module for each of its subcommands; options.py has what several take."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_group

SUMMARY = "look into a board's outbox: show, check, health, rescue the messages, wear"
DESCRIPTION = """\
Look into a copy of a board's outbox, the ring of flash blocks in which it keeps what it has not yet
delivered. IMAGE is a file with the bytes of the region, from its first block on: `flash.img` of a
simulated board (outpost simulate), or what a flash reader took from a dead one. No board is needed,
and the image is only read (but by `aside give-up` and `aside send`, which say so).

In place of IMAGE, --live PORT reads a board that is alive, over its serial port:
--live /dev/ttyACM0 --save copy.img. Its program is stopped for that (a few seconds) and restarted;
nothing is written to its flash. What it held in RAM is lost as in a reset: acknowledgements that
were not yet in flash, so that some messages are shown as held that have arrived. A board whose
pinned files are gone refuses to start; what they held is read all the same. With --raw its whole
flash is searched, also after the filesystem was made again.
"""
EXAMPLES = """\
examples:
  outpost outbox show flash.img                     a line a block, and what is held
  outpost outbox show flash.img --records           every record, with topic and payload
  outpost outbox check flash.img                    what is wrong with it; then status 1
  outpost outbox health flash.img                   room, wear, blocks left out; status 1: look
  outpost outbox export flash.img --json-lines -    the messages not yet delivered
  outpost outbox export flash.img --readings rows.csv
                                                    their readings, one a row; of series too
  outpost outbox export flash.img --segments log --id rescue-1
                                 ... into the tables: outpost pipeline run --log log --tables tables
  outpost outbox aside list flash.img               messages that the server would not take
  outpost outbox wear flash.img                     how often its blocks were erased so far
  outpost outbox wear --blocks 64 --interval 10 --topic-bytes 24 --payload-bytes 64
                                                    how long the flash will last
  outpost outbox wear --table                       the same for typical loads, in Markdown
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    members = ("show", "check", "health", "export", "wear", "aside", "new")
    add_group(
        subparsers, "outbox", SUMMARY, __name__, members, description=DESCRIPTION, examples=EXAMPLES
    )
