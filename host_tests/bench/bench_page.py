#!/usr/bin/env python3
"""build/bench.html from build/bench.json: one page that needs no other file, readable without colour and at phone width.

.venv/bin/python host_tests/bench/bench_page.py [--from build/bench.json] [--out build/bench.html]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path

import plotly.graph_objects as go
import plotly.io
from plotly.offline import get_plotlyjs

REPOSITORY = Path(__file__).resolve().parent.parent.parent
_INK = "#1a1a1a"
_STYLE = """
:root{color-scheme:light} *{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:0 auto;padding:12px;max-width:900px}
h1{font-size:1.5em;margin:.2em 0} h2{font-size:1.15em;margin:1.8em 0 .2em;border-bottom:2px solid #1a1a1a}
h3{font-size:1em;margin:1.2em 0 0} p{margin:.3em 0;max-width:70ch} .quiet{color:#555}
.scroll{overflow:auto} table{border-collapse:collapse;font-size:.88em}
td,th{padding:3px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid #ccc}
td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:#fff;white-space:normal;min-width:8em}
th{border-bottom:2px solid #1a1a1a;vertical-align:bottom} tr.ours td{font-weight:700}
"""
_STEPS = ("publish", "send", "PUBACK")
_CONFIG = {"responsive": True, "displaylogo": False, "displayModeBar": False}
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up")
_CELLS = {
    "qos0_heap": "QoS 0 heap, net / gross B",
    "qos1_heap": "QoS 1 heap, net / gross B",
    "qos1_locked": "QoS 1 with the heap locked",
    "qos1_writes": "writes per QoS 1 publish",
    "idle_heap": "idle heap a second, net / gross B",
    "reconnect_ms": "reconnect ms",
    "reconnect_heap": "reconnect heap, net / gross B",
}


def text(value: list[float] | float | None) -> str:
    """A cell; empty where there is no figure."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return " / ".join(f"{each:,.0f}" for each in value)
    if isinstance(value, float):
        return f"{value:.4f}" if 0 < value < 1 else f"{value:,.2f}"
    return f"{value:,}"


def table(heads: Iterable[str], rows: Iterable[tuple]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = []
    for name, *values in rows:
        mark = ' class="ours"' if str(name).startswith("outpost") else ""
        lines.append(f"<tr{mark}><td>{escape(str(name))}</td>" + "".join(f"<td>{escape(text(v))}</td>" for v in values) + "</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def chart(figure: go.Figure, height: int) -> str:
    axis = {"gridcolor": "#e4e4e4", "zeroline": False, "linecolor": "#888", "automargin": True}
    figure.update_layout(
        height=height, margin={"l": 8, "r": 12, "t": 12, "b": 40}, dragmode=False, paper_bgcolor="white", plot_bgcolor="white",
        font={"family": "system-ui, sans-serif", "size": 12, "color": _INK}, legend={"orientation": "h", "y": -0.3},
        template={"layout": {"xaxis": axis, "yaxis": axis}},
    )  # fmt: skip
    return plotly.io.to_html(figure, full_html=False, include_plotlyjs=False, config=_CONFIG)


def dots(rows: dict[str, tuple[float, float, float]], unit: str) -> str:
    """One line a name: median, and the middle half as a bar; Outpost filled, the others hollow."""
    names = list(rows)[::-1]
    middle = [rows[name][1] for name in names]
    figure = go.Figure()
    figure.add_scatter(
        x=middle, y=names, mode="markers", showlegend=False, hovertemplate="%{y}<br>%{x:,.4~g} " + unit + "<extra></extra>",
        marker={"size": 11, "color": _INK, "symbol": [_symbol(name) for name in names]},
        error_x={
            "type": "data", "symmetric": False, "color": "#666", "thickness": 2,
            "array": [rows[name][2] - rows[name][1] for name in names],
            "arrayminus": [rows[name][1] - rows[name][0] for name in names],
        },
    )  # fmt: skip
    figure.update_xaxes(type="log", title=unit, dtick=1)
    return chart(figure, 90 + 26 * len(names))


def _symbol(name: str) -> str:
    return "circle" if name.startswith("outpost") else "diamond-open" if name.startswith("raw") else "circle-open"


def render(results: dict) -> str:
    """The whole page as text; a section that was not run is not on it."""
    sections = [
        _environment(results.get("environment", {})),
        _peers(results.get("peers", {})),
        _sizes(results.get("peer_sizes", {})),
        _instructions(results.get("instructions", {})),
        _flash(results.get("outbox_vs_littlefs", []), results.get("mount", [])),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Outpost: benchmarks</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>"
        f"<body><h1>Outpost: benchmarks</h1>{''.join(sections)}</body></html>\n"
    )


def _environment(environment: dict) -> str:
    return f"<p class=quiet>{escape('; '.join(f'{name}: {value}' for name, value in environment.items()))}</p>"


def _peers(section: dict) -> str:
    if not section:
        return ""
    rows = ((name, *(row.get(key) for key in _CELLS)) for name, row in section["cells"].items())
    parts = ["<h2>Beside other clients</h2><p>32-bit MicroPython, one mosquitto, 24 bytes of topic, 64 of payload.</p>"]
    parts.append(table(["", *_CELLS.values()], rows))
    for qos in (1, 0):
        speed = {name: row[f"qos{qos}"] for name, row in section["rates"].items()}
        parts.append(
            f"<h3>QoS {qos}, publishes/s over loopback</h3><p class=quiet>Median of {section['rounds']} rounds, bar: the middle "
            "half. + : TCP_NODELAY set by hand. Filled: Outpost; diamond: a bare socket loop, the limit.</p>"
        )
        parts.append(dots({name: (row["low"], row["median"], row["high"]) for name, row in speed.items()}, "publishes/s"))
        heads = ("", "publishes/s", "ratio to raw", "low", "high")
        keys = ("ratio_median", "ratio_low", "ratio_high")
        parts.append(table(heads, ((name, round(row["median"]), *(row[key] for key in keys)) for name, row in speed.items())))
    return "".join(parts) + _missing(section["missing"])


def _missing(reasons: dict[str, str]) -> str:
    return "".join(f"<p class=quiet>Empty: {escape(name)}: {escape(why)}</p>" for name, why in reasons.items())


def _sizes(section: dict) -> str:
    if not section:
        return ""
    note = "<h2>Size</h2><p>Heap after import and one instance, 32-bit, from .mpy. Compact: private names are renamed.</p>"
    return note + table(("", "heap B", ".mpy B"), ((name, row["heap"], row["mpy"]) for name, row in section.items()))


def _instructions(section: dict[str, int]) -> str:
    """What a message takes where no noise is; how it grows."""
    if "flash publish" not in section:
        return ""
    steps = [(f"outpost, {kind}", *(section[f"{kind} {step}"] for step in _STEPS)) for kind in ("RAM", "flash")]
    rows = [(name, *values, sum(values)) for name, *values in steps]
    rows += [(name, None, None, None, section[name]) for name in ("simple", "robust", "raw") if name in section]
    parts = [
        "<h2>Machine instructions</h2><p>Counted by single steps, 32-bit MicroPython for x86; one QoS 1 message with its PUBACK, "
        "24 bytes of topic, 64 of payload. raw: a bare socket loop. The kernel's part is left out.</p>",
        table(("", *_STEPS, "in all"), rows),
        "<h3>By length of the payload</h3><p class=quiet>Outbox alone: append, load, discard.</p>",
        _payload_lines(section),
        "<h3>By outbox and backlog</h3><p class=quiet>A larger outbox or a longer backlog costs a message nothing more. With a "
        "backlog the oldest is read from flash; without, the new one stands in the buffer yet.</p>",
        table(("", "instructions"), [row for row in section.items() if row[0].startswith(("flash, blocks", "flash, backlog"))]),
        "<h3>What a stored message is made of</h3>",
        table(("", "instructions"), [row for row in section.items() if row[0].startswith("in append")]),
    ]  # fmt: skip
    return "".join(parts)


def _payload_lines(section: dict[str, int]) -> str:
    figure = go.Figure()
    for kind, symbol, dash in (("flash", "circle", "solid"), ("RAM", "square", "dot")):
        start = f"{kind}, payload "
        points = [(int(name.removeprefix(start)), value) for name, value in section.items() if name.startswith(start)]
        figure.add_scatter(
            x=[size for size, _ in points], y=[value for _, value in points], name=kind, mode="lines+markers",
            line={"color": _INK, "dash": dash}, marker={"symbol": symbol, "size": 9},
        )  # fmt: skip
    figure.update_xaxes(title="bytes of payload")
    figure.update_yaxes(title="instructions", rangemode="tozero")
    return chart(figure, 320)


def _flash(stores: list[dict], mounts: list[dict]) -> str:
    parts = []
    if stores:
        names = ("erases", "programs", "bytes_programmed", "heap_net", "heap_gross")
        rows = ((f"{row['store']}, unit {row['unit_bytes']}", *(row[name] for name in names)) for row in stores)
        parts.append("<h2>Flash traffic per message</h2>" + table(("", *names), rows))
    if mounts:
        names = ("held", "reads", "reads_to_first_message", "heap", "microseconds")
        parts.append("<h2>Mount</h2>" + table(("blocks", *names), ((row["blocks"], *(row[n] for n in names)) for row in mounts)))
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="source", type=Path, default=REPOSITORY / "build" / "bench.json")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "bench.html")
    args = parser.parse_args()
    try:
        page = render(json.loads(args.source.read_text(encoding="utf-8")))
        args.out.write_text(page, encoding="utf-8")
    except (OSError, ValueError, KeyError) as error:
        print(f"bench page: {args.source}: {error!r}; run `make bench` first", file=sys.stderr)
        return 2
    print(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
