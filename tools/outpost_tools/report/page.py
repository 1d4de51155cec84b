"""The page: HTML around the charts. Every text that comes from a message or a file goes through `escape`."""

from __future__ import annotations

from html import escape

import pandas as pd
import plotly.io
from plotly.offline import get_plotlyjs

from outpost_tools.report import charts
from outpost_tools.report.data import Report

_GAPS_SHOWN = 200
_EXAMPLE_BYTES = 60
_CONFIG = {"responsive": True, "displaylogo": False, "displayModeBar": False}
_STYLE = """
:root{color-scheme:light} *{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:0 auto;padding:12px;max-width:1100px}
h1{font-size:1.5em;margin:.2em 0} h2{font-size:1.15em;margin:1.8em 0 .2em;border-bottom:2px solid #1a1a1a}
h3{font-size:1em;margin:1em 0 0} p{margin:.3em 0;max-width:70ch} .quiet{color:#555}
.facts{display:flex;flex-wrap:wrap;gap:8px;margin:.8em 0;padding:0;list-style:none}
.facts li{border:1px solid #999;border-radius:4px;padding:4px 10px;min-width:92px}
.facts b{display:block;font-size:1.35em} .facts .bad{border:3px solid #1a1a1a}
.scroll{overflow:auto;max-height:70vh;border-bottom:1px solid #999}
table{border-collapse:collapse;font-size:.9em;width:100%} td,th{padding:3px 8px;text-align:right;white-space:nowrap}
th{position:sticky;top:0;background:#fff;border-bottom:2px solid #1a1a1a;vertical-align:bottom}
td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:#fff} th:first-child{z-index:2}
tr:nth-child(even) td{background:#f3f3f3}
td.text,th.text{text-align:left} td.bad{font-weight:700;outline:2px solid #1a1a1a}
td.wrap{white-space:normal;overflow-wrap:anywhere;min-width:13em;text-align:left} code{font-size:.92em}
.bar{display:inline-block;height:.7em;background:#444}
"""


def render(report: Report, title: str) -> str:
    """The whole page as text."""
    sections = [
        _facts(report),
        _devices(report),
        *_charts(report),
        _gaps(report),
        _quarantine(report),
        _outages(report),
    ]
    # plotly's script before the charts, once; `</` inside it would end the element, and plotly's has none
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>"
        f"<body><h1>{escape(title)}</h1>{''.join(sections)}</body></html>\n"
    )


def _facts(report: Report) -> str:
    devices = report.devices
    missing = int(devices["missing_closed"].sum())
    items = [
        (len(devices), "devices", False),
        (devices["messages"].sum(), "messages", False),
        (devices["readings"].sum(), "readings", False),
        (missing, "lost for good", missing > 0),
        (devices["missing_open"].sum(), "may still come", False),
        (devices["redelivered"].sum(), "redelivered, dropped", False),
        (report.quarantine["count"].sum(), "quarantined", False),
    ]
    facts = "".join(f"<li{' class=bad' if bad else ''}><b>{int(n):,}</b>{label}</li>" for n, label, bad in items)
    period = "no reading with a time" if report.begin is None else f"{_moment(report.begin)} to {_moment(report.end)} UTC"
    return f'<p class="quiet">Readings from {period}.</p><ul class="facts">{facts}</ul>'


def _devices(report: Report) -> str:
    head = (
        "<tr><th>device<th>messages<th>readings<th>lost<th>may still<br>come<th>re-<br>delivered<th>latency<br>median"
        "<th>99 %<th>longest<th>boots<th>backlog<br>longest<th>no clock<th>last seen</tr>"
    )
    rows = "".join(_device_row(row) for row in report.devices.to_dict("records"))
    note = "Messages whose number was seen twice were stored once. Devices with losses come first."
    return f'<h2>Devices</h2><p class="quiet">{note}</p><div class="scroll"><table>{head}{rows}</table></div>'


def _device_row(row: dict) -> str:
    lost = f'<td class="bad">{row["missing_closed"]:,}' if row["missing_closed"] else "<td>0"
    numbers = (row["missing_open"], row["redelivered"])
    delays = (row["p50_ms"], row["p99_ms"], row["max_ms"])
    return (
        f"<tr><td>{escape(row['device'])}<td>{row['messages']:,}<td>{row['readings']:,}{lost}"
        + "".join(f"<td>{number:,}" for number in numbers)
        + "".join(f"<td>{duration(delay)}" for delay in delays)
        + f"<td>{row['boots']:,}<td>{row['backlog_max']:,}<td>{row['readings_without_time']:,}"
        + f"<td>{_moment(row['last_seen'])}</tr>"
    )


def _charts(report: Report) -> list[str]:
    if report.begin is None:
        return ["<p>No reading carries a time: no charts.</p>"]
    marks = "▼ power cut · B broker down · C collector down · L link down. " if report.outages else ""
    many = len(report.devices) > charts.DEVICES_SHOWN
    which = f"The {charts.DEVICES_SHOWN} devices with most trouble. " if many else ""
    parts = [
        _section(
            "When readings were taken",
            f"One line per device; each cell {duration(report.bin_s * 1000)} wide, darker with more readings, white"
            f" with none. {marks}Readings taken while something was down are here too: they waited in flash.",
            charts.fleet(report),
        ),
        f'<h2>Readings</h2><p class="quiet">{which}Line: mean; band: lowest to highest. {marks}</p>',
    ]
    names = report.values.groupby("name")["count"].sum().sort_values(ascending=False, kind="stable").index
    for name in names[: charts.METRICS_SHOWN]:
        units = sorted({unit for unit in report.values[report.values["name"] == name]["unit"] if unit})
        heading = escape(name + (f" ({', '.join(units)})" if units else ""))
        parts.append(f"<h3>{heading}</h3>{_figure(charts.metric(report, name))}")
    if len(names) > charts.METRICS_SHOWN:
        parts.append(f'<p class="quiet">{len(names) - charts.METRICS_SHOWN} more metrics are in the tables.</p>')
    text = f"Longest time from reading to arrival, by when the reading was taken. {marks}"
    return [*parts, _section("Delivery latency", text, charts.latency(report))]


def _section(heading: str, text: str, figure) -> str:
    return f'<h2>{heading}</h2><p class="quiet">{text}</p>{_figure(figure)}'


def _figure(figure) -> str:
    return plotly.io.to_html(figure, full_html=False, include_plotlyjs=False, config=_CONFIG)


def _gaps(report: Report) -> str:
    if report.gaps.empty:
        return "<h2>Gaps</h2><p>None: every sequence number of every stream is there.</p>"
    head = "<tr><th>device<th>stream<th>first<th>last<th>count<th class=text>will it come?</tr>"
    words = {"closed": "no: the board holds it no more", "open": "it may: the board may still hold it"}
    rows = "".join(
        f"<tr><td>{escape(g['device'])}<td><code>{escape(g['stream'])}</code><td>{g['first']:,}<td>{g['last']:,}"
        f"<td>{g['count']:,}<td class=text>{words[g['state']]}</tr>"
        for g in report.gaps.head(_GAPS_SHOWN).to_dict("records")
    )
    rest = len(report.gaps) - _GAPS_SHOWN
    more = f'<p class="quiet">{rest:,} more are in the table <code>gaps</code>.</p>' if rest > 0 else ""
    return (
        '<h2>Gaps</h2><p class="quiet">Missing sequence numbers of each stream.</p>'
        f'<div class="scroll"><table>{head}{rows}</table></div>{more}'
    )


def _quarantine(report: Report) -> str:
    if report.quarantine.empty:
        return "<h2>Quarantine</h2><p>Empty: everything that arrived was a message.</p>"
    most = report.quarantine["count"].max()
    rows = "".join(_quarantine_row(row, most) for row in report.quarantine.to_dict("records"))
    head = "<tr><th>reason<th>count<th class=text><th class=text>topics<th>last<th class=text>one payload</tr>"
    return (
        '<h2>Quarantine</h2><p class="quiet">Received, but no message; kept as bytes in the table.</p>'
        f'<div class="scroll"><table>{head}{rows}</table></div>'
    )


def _quarantine_row(row: dict, most: int) -> str:
    bar = f'<span class="bar" style="width:{max(3, round(80 * row["count"] / most))}px"></span>'
    topics = ", ".join(escape(topic[:80]) for topic in row["topics"][:3]) + (" …" if len(row["topics"]) > 3 else "")
    return (
        f"<tr><td>{escape(row['reason'][:100])}<td>{row['count']:,}<td class=text>{bar}<td class=wrap>{topics}"
        f"<td>{_moment(row['last'])}<td class=wrap><code>{escape(_printable(row['example']))}</code></tr>"
    )


def _printable(payload: bytes) -> str:
    text = repr(payload[:_EXAMPLE_BYTES])[2:-1]
    return text + (f" … {len(payload):,} bytes" if len(payload) > _EXAMPLE_BYTES else "")


def _outages(report: Report) -> str:
    if not report.outages:
        return ""
    head = "<tr><th>time, UTC<th class=text>what<th class=text>device<th>lasted</tr>"
    rows = "".join(
        f"<tr><td>{_moment(o.begin)}<td class=text>{charts.LETTERS.get(o.kind, charts.OTHER)} {escape(o.kind)}"
        f"<td class=text>{escape(str(o.device)) if o.device else 'all'}"
        f"<td>{duration((o.end - o.begin).total_seconds() * 1000) if o.end > o.begin else ''}</tr>"
        for o in report.outages
    )
    return f'<h2>Disasters</h2><div class="scroll"><table>{head}{rows}</table></div>'


def duration(milliseconds: float | None) -> str:
    """12 ms, 3.4 s, 5.0 min, 2.1 h, 7.0 days; a dash when it is not known."""
    if milliseconds is None or pd.isna(milliseconds):
        return "-"
    for limit, divisor, unit in ((1e3, 1, "ms"), (60e3, 1e3, "s"), (3600e3, 60e3, "min"), (86400e3, 3600e3, "h")):
        if abs(milliseconds) < limit:
            value = milliseconds / divisor
            return f"{value:.0f} {unit}" if unit == "ms" else f"{value:.3g} {unit}"
    return f"{milliseconds / 86400e3:.3g} days"


def _moment(time: pd.Timestamp) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"
