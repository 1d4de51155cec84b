"""`outpost selftest`: tests a board that has Outpost, and writes a report."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.boards.port import options
from outpost_tools.terminal.command_line import add_command, between

SUMMARY = (
    "test a board: heap, flash, link, messages, watchdog; writes a report to attach to an issue"
)
_DESCRIPTION = """\
Test a board that was installed by `outpost flash`, with its own flash, radio, broker and watchdog.
Each check passes or fails, and prints its figures:

  board      the kind of board and the versions on it
  space      free heap and its largest piece, free space in the filesystem
  locked     messages are stored, sent and acknowledged with the heap locked
  outbox     it opens; the number of messages that it holds
  sensors    each is read once: its values, or its fault and what to do
  link       the broker in the board's settings accepts it
  messages   readings are stored in flash, sent, and acknowledged by the broker
  flash      the time of each program and erase of the outbox during the test
  loop       its main loop leaves no garbage on the heap
  watchdog   switched on, and fed in time for more than its 8 s
  wake       ms of each step, from the import to the acknowledgement of a reading; mAs where the
             data sheet of the chip has the currents
  crash      no crash.txt is left from an earlier run

The messages are real readings in the board's own stream, so a collector treats them like any
others. The test writes to no other block of flash. It interrupts the board's program and restarts
it at the end. It takes half a minute, or up to two minutes if the broker does not answer.

The report contains figures and versions, but not the values of the settings: names, addresses and
passwords are removed. Still, read it before you attach it to an issue.
Exit status: 0 all passed; 1 a check failed; 2 not done, with one line that says why.
"""
_EXAMPLES = """\
examples:
  outpost selftest --board RPI_PICO_W --port /dev/ttyACM0
  outpost selftest --board RPI_PICO_W --port /dev/ttyACM0 --report kitchen
                                   writes kitchen.json and kitchen.txt
  outpost selftest --board ESP32_GENERIC --port /dev/pts/3 --no-link
                                   without a network, for example in an emulator
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "selftest", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    count = between(int, 1, 3600)
    options.add_board(parser)
    parser.add_argument(
        "--report", metavar="FILE", type=Path, help="write FILE.json, and FILE.txt with the table"
    )
    parser.add_argument(
        "--messages",
        metavar="N",
        type=count,
        default=10,
        help="readings to store and send; default 10",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=count,
        default=20,
        help="minimum time that its program runs; default 20, two periods of the watchdog",
    )
    parser.add_argument(
        "--no-link",
        action="store_true",
        help="do not let the board connect to the broker: nothing is sent",
    )
    parser.add_argument(
        "--link-timeout",
        metavar="S",
        type=count,
        default=60,
        help="seconds that the link may take; default 60",
    )
    options.add_timeout(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if a check failed. Raises ToolError."""
    from outpost_tools.boards.port import kinds
    from outpost_tools.boards.selftest import health, health_report
    from outpost_tools.machine import source_tree

    kind = kinds.load(source_tree.repository(), args.board)
    link_s = 0.0 if args.no_link else float(args.link_timeout)
    job = health.Job(kind, args.port, args.messages, args.seconds, link_s, args.timeout)
    return 0 if health_report.examine(job, args.report) else 1
