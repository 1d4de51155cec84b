"""`outpost report`: one self-contained HTML page about the tables, by pyarrow, pandas and plotly; no Spark.

data.py       the tables, thinned to bins in time
attention.py  which device needs a look, and why; the order of everything
page.py       the page and its sections; fleet.py the devices
pack.py       the series for report.js, which draws, sorts and filters in the browser; report.css its looks
words.py      numbers and times as a person reads them
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.errors import ToolError

_EXAMPLES = """\
examples:
  outpost report --tables tables --out report.html                     open it in any browser; it needs no network
  outpost report --tables tables --out report.html --events events.json --title "Greenhouse, week 47"

One file for four devices or for hundreds: the list comes with those first that need attention, a device's charts are
drawn when it is chosen. A board that sends the metrics `erases` and `outbox_blocks` is told how long its flash lasts.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    text = "one HTML page: which device needs attention, readings, gaps, latency, flash wear, quarantine"
    parser = subparsers.add_parser(
        "report", help=text, description=text, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, required=True, help="what `outpost pipeline run` wrote")
    parser.add_argument("--out", type=Path, required=True, help="the page to write, for example report.html")
    parser.add_argument("--events", type=Path, help='JSON list of {"time_ms", "kind", "device"}: marks on the time axis')
    parser.add_argument("--title", default="Outpost report")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError when tables or events cannot be read."""
    try:
        from outpost_tools.report import data, page
    except ImportError as error:
        raise ToolError(f"{error.name} is missing; install it by: pip install 'outpost[pipeline]'") from None
    content = page.render(data.load(args.tables, args.events), args.title)
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ToolError(f"{args.out}: cannot write the page: {error.strerror}") from None
    print(f"report: {args.out} ({len(content) / 1e6:.1f} MB)", file=sys.stderr)
    return 0
