"""Tables and plots of bench_page.py, as HTML: readable without colour and at phone width."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import plotly.graph_objects as go
import plotly.io

import growth

_INK = "#1a1a1a"
_CONFIG = {"responsive": True, "displaylogo": False, "displayModeBar": False}
_LINES = {  # of the plots of growth: a name of growth.lines(), symbol, dash
    "stored message, by payload": ("flash, payload ", "circle", "solid"),
    "message in RAM through the client, by payload": ("client, payload ", "diamond", "dash"),
    "message in RAM, by payload": ("RAM, payload ", "square", "dot"),
}


def text(value: list[float] | float | str | None) -> str:
    """Returns a cell; empty if there is no figure."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return " / ".join(f"{each:,.0f}" for each in value)
    if isinstance(value, float):
        return f"{value:.4f}" if 0 < value < 1 else f"{value:,.2f}"
    if isinstance(value, str):
        return value
    return f"{value:,}"


def table(heads: Iterable[str], rows: Iterable[tuple]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = []
    for name, *values in rows:
        mark = ' class="ours"' if str(name).startswith("outpost") else ""
        lines.append(
            f"<tr{mark}><td>{escape(str(name))}</td>"
            + "".join(f"<td>{escape(text(v))}</td>" for v in values)
            + "</tr>"
        )
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def chart(figure: go.Figure, height: int) -> str:
    axis = {"gridcolor": "#e4e4e4", "zeroline": False, "linecolor": "#888", "automargin": True}
    figure.update_layout(
        height=height, margin={"l": 8, "r": 12, "t": 12, "b": 40}, dragmode=False,
        paper_bgcolor="white", plot_bgcolor="white",
        font={"family": "system-ui, sans-serif", "size": 12, "color": _INK},
        legend={"orientation": "h", "y": -0.3},
        template={"layout": {"xaxis": axis, "yaxis": axis}},
    )  # fmt: skip
    return plotly.io.to_html(figure, full_html=False, include_plotlyjs=False, config=_CONFIG)


def dots(rows: dict[str, tuple[float, float, float]], unit: str) -> str:
    """One line per name: median, and the middle half as a bar; Outpost is filled, the others
    hollow."""
    names = list(rows)[::-1]
    middle = [rows[name][1] for name in names]
    figure = go.Figure()
    figure.add_scatter(
        x=middle, y=names, mode="markers", showlegend=False,
        hovertemplate="%{y}<br>%{x:,.4~g} " + unit + "<extra></extra>",
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
    return (
        "circle"
        if name.startswith("outpost")
        else "diamond-open"
        if name.startswith("raw")
        else "circle-open"
    )


def payload_lines(section: dict[str, int], lines: dict[str, growth.Line]) -> str:
    figure = go.Figure()
    for name, (start, symbol, dash) in _LINES.items():
        counts = growth.points(section, start)
        sizes, one = sorted(counts), lines.get(name)
        if one is None:
            continue
        figure.add_scatter(
            x=sizes, y=[counts[size] for size in sizes], name=start.removesuffix(", payload "),
            mode="markers", marker={"symbol": symbol, "size": 9, "color": _INK},
        )  # fmt: skip
        figure.add_scatter(
            x=sizes, y=[one.base + one.slope * size for size in sizes], mode="lines",
            showlegend=False, hoverinfo="skip",
            line={"color": _INK, "dash": dash, "width": 1.5},
        )  # fmt: skip
    copy, ends = lines["one copy of memory"], [256, 16359]
    figure.add_scatter(
        x=ends,
        y=[copy.base + copy.slope * size for size in ends],
        name="one copy",
        mode="lines",
        line={"color": "#999", "width": 1},
    )
    figure.update_xaxes(title="bytes of payload", type="log", dtick=1)
    figure.update_yaxes(title="instructions", type="log", dtick=1)
    return chart(figure, 380)


def flat_bars(section: dict[str, int]) -> str:
    """Each figure beside the others of its kind: they should be equal."""
    figure = go.Figure()
    for start, symbol, name in (
        ("flash, blocks ", "circle", "blocks"),
        ("flash, backlog ", "square", "backlog"),
        ("window, PUBACK of the oldest of ", "diamond", "window, the PUBACK alone"),
    ):
        counts = growth.points(section, start)
        sizes = [size for size in sorted(counts) if size]
        figure.add_scatter(
            x=sizes, y=[counts[size] for size in sizes], name=name, mode="lines+markers",
            line={"color": _INK, "width": 1}, marker={"symbol": symbol, "size": 9, "color": _INK},
        )  # fmt: skip
    figure.update_xaxes(title="how many", type="log", dtick=1)
    figure.update_yaxes(title="instructions", rangemode="tozero")
    return chart(figure, 300)
