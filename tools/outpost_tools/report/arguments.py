"""`outpost report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.common.command_line import add_command

SUMMARY = "write one self-contained HTML page about the tables"
_DESCRIPTION = """\
Write one HTML page: which device needs attention, readings, gaps, latency, flash wear, quarantine.
"""
_EXAMPLES = """\
examples:
  outpost report --tables tables --out report.html      open it in any browser; it needs no network
  outpost report --tables tables --out report.html --events events.json \\
                 --title "Greenhouse, week 47"

One file serves four devices or hundreds: devices that need attention come first, and a device's
charts are drawn when it is chosen. For a board that sends the metrics `erases` and `outbox_blocks`
the page estimates how long its flash will last.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "report", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--tables", type=Path, required=True, help="what `outpost pipeline run` wrote"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="the page to write, for example report.html"
    )
    events = 'JSON list of {"time_ms", "kind", "device"}: marks on the time axis'
    parser.add_argument("--events", type=Path, help=events)
    parser.add_argument("--title", default="Outpost report")


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError when tables or events cannot be read."""
    from outpost_tools.common import needs

    needs.check("report")
    from outpost_tools.report import data, page

    content = page.render(data.load(args.tables, args.events), args.title)
    page.write(args.out, content)
    print(f"report: {args.out} ({len(content) / 1e6:.1f} MB)", file=sys.stderr)
    return 0
