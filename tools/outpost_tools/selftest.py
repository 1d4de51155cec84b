"""`outpost selftest`: a board with Outpost on it proves itself, and leaves a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DESCRIPTION = """\
Let a board that `outpost flash` installed prove itself, with its own flash, radio, broker and
watchdog. Each check passes or fails with its figures:

  board      what it is, and which versions are on it
  space      free heap and its largest piece, free room in the filesystem
  locked     messages stored, sent and acknowledged with the heap locked
  outbox     it opens; how many messages it holds
  link       the broker of the board's settings lets it in
  messages   readings stored in flash, sent, acknowledged by the broker
  flash      time of each program and erase that the outbox did meanwhile
  loop       its main loop leaves no garbage on the heap
  watchdog   switched on, and fed in time for more than its 8 s
  crash      no crash.txt is left from an earlier run

The messages are real readings in the board's own stream, so a collector takes them like any
others. No block of flash is written for the test. The board's program is interrupted, and starts
again at the end. It takes half a minute, and up to two when the broker does not answer.

The report holds figures and versions, not the values of the settings: names, addresses and
passwords are taken out. Read it before you attach it to an issue all the same.
Exit status: 0 all passed; 1 a check failed; 2 not done, with one line that says why.
"""
_EXAMPLES = """\
examples:
  outpost selftest --board RPI_PICO_W --port /dev/ttyACM0
  outpost selftest --board RPI_PICO_W --port /dev/ttyACM0 --report kitchen
                                   writes kitchen.json and kitchen.txt
  outpost selftest --board ESP32_GENERIC --port /dev/pts/3 --no-link
                                   without a network: in an emulator, say
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "selftest", help="let a board prove itself", description=_DESCRIPTION, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--board", metavar="BOARD", required=True, help="a folder of boards/, as RPI_PICO_W, or a path of one")
    parser.add_argument("--port", metavar="PORT", required=True, help="the board's serial port, as /dev/ttyACM0")
    parser.add_argument("--report", metavar="FILE", type=Path, help="write FILE.json, and FILE.txt with the table")
    parser.add_argument("--messages", metavar="N", type=_count, default=10, help="readings to store and send; default 10")
    parser.add_argument(
        "--seconds", metavar="S", type=_count, default=20,
        help="how long its program runs, at least; default 20: two periods of the watchdog",
    )  # fmt: skip
    parser.add_argument("--no-link", action="store_true", help="do not let it try to reach the broker: nothing is sent")
    parser.add_argument("--link-timeout", metavar="S", type=_count, default=60, help="how long the link may take; default 60")
    parser.add_argument("--timeout", metavar="S", type=_count, default=10, help="wait so long for an answer; default 10")
    parser.set_defaults(func=run)


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number, 1 to 3600")
    return value


def run(args: argparse.Namespace) -> int:
    """0; 1 when a check failed. Raises ToolError."""
    from outpost_tools.device import health, health_report, kinds
    from outpost_tools.simulate.interpreter import repository

    if args.report:
        health_report.check_writable(args.report)
    kind = kinds.load(repository(), args.board)
    link_s = 0.0 if args.no_link else float(args.link_timeout)
    job = health.Job(kind, args.port, args.messages, args.seconds, link_s, float(args.timeout))
    checks = []
    with _signs() as sign:
        for check in health.examine(job, sign):
            checks.append(check)
            print(health_report.row(check), flush=True)
    print(f"{'selftest':<10} {health_report.verdict(checks)}")
    if args.report:
        written = health_report.write(args.report, checks)
        print(f"{'report':<10} {', '.join(map(str, written))}")
    return 1 if any(check.result == health.FAIL for check in checks) else 0


@contextmanager
def _signs() -> Iterator:
    """A clock on stderr while the program runs on the board, when that is a terminal."""
    from tqdm import tqdm

    form = "{desc}: {elapsed}"
    with tqdm(desc="its program runs", bar_format=form, disable=None, leave=False, file=sys.stderr) as bar:
        yield lambda: bar.update(1) and None
