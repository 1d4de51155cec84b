"""`outpost report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.store.at import argument
from outpost_tools.terminal.command_line import add_command

SUMMARY = "write one self-contained HTML page about the tables"
_DESCRIPTION = """\
Write one HTML page: the devices that need attention, and for each device its newest values, charts,
gaps, latency and flash wear; also the quarantine.
"""
_EXAMPLES = """\
examples:
  outpost report --tables tables --out report.html      open it in a browser; needs no network
  outpost report --tables tables --out november.html --since 2026-11-01 --until 2026-12-01 \\
                 --title "Greenhouse, November"
  outpost report --tables tables --out all.html --last all

The command reads only the readings and the refused frames of the chosen time, so its memory does
not grow with the history. The counts of a device (messages, gaps, boots) start at its first
message.

The page works for four devices as well as for hundreds: devices that need attention come first, and
the charts of a device are drawn when you choose it. If a board sends the metrics `erases` and
`outbox_blocks`, the page estimates how long its flash will last.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "report", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--tables", type=argument, required=True, help="what `outpost pipeline run` writes"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="the page to write, for example report.html"
    )
    _add_range(parser.add_argument_group("time range (default: --last 7d)"))
    events = 'JSON list of {"time_ms", "kind", "device"}, shown as marks on the time axis'
    parser.add_argument("--events", type=Path, help=events)
    parser.add_argument("--title", default="Outpost report")
    parser.add_argument(
        "--headline", default="", metavar="TEXT", help="a sentence that the page opens with"
    )


def _add_range(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--since",
        metavar="TIME",
        help="readings from this time on: 2026-11-22, 2026-11-22T10:30; UTC, or with an offset",
    )
    group.add_argument("--until", metavar="TIME", help="only readings before this time")
    group.add_argument(
        "--last",
        metavar="SPAN",
        help="instead of --since: 90m, 24h or 7d before --until, or before the newest arrival; "
        "or all",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError when tables or events cannot be read."""
    from outpost_tools.machine import needs

    needs.check("report")
    from outpost_tools.readings.report import data, page, reading

    wanted = reading.wish(args.since, args.until, args.last)
    report = data.load(args.tables, args.events, wanted)
    content = page.render(report, args.title, args.headline)
    page.write(args.out, content)
    if report.begin is None:
        print("report: no reading in that time; --last all shows what there is", file=sys.stderr)
    print(f"report: {args.out} ({len(content) / 1e6:.1f} MB)", file=sys.stderr)
    return 0
