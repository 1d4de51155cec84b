"""The charts, by plotly. Readable in grey: what differs, differs in shape, dash or letter, never in colour alone.

Names of metrics and units come from messages: plotly reads a subset of HTML in texts, so they are escaped.
"""

from __future__ import annotations

from html import escape

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from outpost_tools.report.data import Outage, Report, natural

DEVICES_SHOWN = 12  # small multiples beyond this are no longer read; the fleet picture shows all
METRICS_SHOWN = 8
LETTERS = {"power cut": "▼", "broker killed": "B", "collector killed": "C", "link cut": "L"}
OTHER = "•"  # an event of a kind that is not known here; the list at the end names it
_INK = "#1a1a1a"
_BAND = "rgba(70,70,70,0.28)"
_SHADE = "rgba(120,120,120,0.22)"
_MARGIN = {"l": 8, "r": 8, "t": 22, "b": 30}
_ROW_HEIGHT, _ROW_GAP = 70, 34  # of small multiples, in pixels; the gap holds the name and the marks
_DASHES = ("solid", "dot", "dash", "dashdot")


def _base(height: int) -> dict:
    axis = {"gridcolor": "#e4e4e4", "zeroline": False, "linecolor": "#888", "automargin": True}
    return {
        "height": height,
        "margin": _MARGIN,
        "dragmode": False,  # else a finger that scrolls the page zooms the chart
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": _INK},
        "showlegend": False,
        "hoverlabel": {"bgcolor": "white", "font": {"color": _INK}},
        "template": {"layout": {"xaxis": axis, "yaxis": axis}},
    }


def short(name: str, length: int = 14) -> str:
    """A name that fits beside a chart on a phone; the middle goes."""
    if len(name) > length:
        name = f"{name[: length // 2 - 1]}…{name[-(length // 2) :]}"
    return escape(name)


def fleet(report: Report) -> go.Figure:
    """One line per device, darker where more readings were taken; white is silence."""
    counts = report.values.groupby(["device", "bin"], as_index=False)["count"].sum()
    names = sorted({*report.devices["device"], *report.values["device"]}, key=natural, reverse=True)
    bins = _bins(report)
    grid = counts.pivot(index="device", columns="bin", values="count").reindex(index=names, columns=bins)
    heat = go.Heatmap(
        x=bins,
        y=list(range(len(names))),
        z=grid.to_numpy(),
        zmin=0,
        colorscale=[[0, "#d5d5d5"], [1, "#202020"]],
        showscale=False,
        ygap=1 if len(names) < 100 else 0,
        customdata=[[name] * len(bins) for name in names],
        hovertemplate="%{customdata}<br>%{x}<br>%{z} readings<extra></extra>",
    )
    row_height = 34 if len(names) <= 12 else 16 if len(names) <= 60 else 4
    figure = go.Figure(heat, layout=_base(70 + row_height * len(names)))
    labelled = len(names) <= 60
    figure.update_yaxes(
        tickvals=list(range(len(names))) if labelled else [],
        ticktext=[short(name) for name in names] if labelled else [],
        range=[-0.5, len(names) - 0.5],
        showgrid=False,
    )
    figure.update_xaxes(range=_time_range(report))
    _fleet_marks(figure, report.outages, names if labelled else [])
    return figure


def _bins(report: Report) -> pd.DatetimeIndex:
    """All bins and an empty one behind them: a single column would have no width."""
    width = pd.Timedelta(milliseconds=round(report.bin_s * 1000))
    return pd.date_range(report.begin.floor(width), report.end + width, freq=width)


def _fleet_marks(figure: go.Figure, outages: list[Outage], names: list[str]) -> None:
    """Outages of all devices as bands over the whole picture; those of one of `names` on its own line."""
    for outage in outages:
        if outage.device is None:
            figure.add_vrect(x0=outage.begin, x1=outage.end, fillcolor=_SHADE, line={"width": 1, "dash": "dot"})
            _letter(figure, outage, 1.0, "paper", above=True)
        elif outage.device in names:
            row = names.index(outage.device)
            if outage.end > outage.begin:
                box = {"x0": outage.begin, "x1": outage.end, "y0": row - 0.5, "y1": row + 0.5}
                figure.add_shape(type="rect", **box, line={"width": 2, "color": "white"})
            _letter(figure, outage, row, "y")


def _letter(figure: go.Figure, outage: Outage, y: float, yref: str, *, above: bool = False) -> None:
    figure.add_annotation(
        x=outage.begin,
        y=y,
        xanchor="center" if outage.begin == outage.end else "left",
        yref=yref,
        yanchor="bottom" if above else "middle",
        text=f"<b>{LETTERS.get(outage.kind, OTHER)}</b>",
        hovertext=f"{escape(outage.kind)} {escape(outage.device or '')} {outage.begin:%H:%M:%S.%f}"[:-4],
        showarrow=False,
        font={"size": 12, "color": _INK},
        bgcolor=None if above else "white",
        borderpad=0,
    )


def _time_range(report: Report) -> list[pd.Timestamp]:
    edge = pd.Timedelta(seconds=report.bin_s)
    return [report.begin - edge, report.end + 2 * edge]


def _height(rows: int) -> int:
    return rows * (_ROW_HEIGHT + _ROW_GAP) + 40


def metric(report: Report, name: str) -> go.Figure:
    """Small multiples of one metric: per device the mean in a band from min to max, broken where nothing was read."""
    rows = report.values[report.values["name"] == name]
    # Silver may be a batch ahead of gold while a run goes on: devices that gold does not know yet come last.
    known = dict.fromkeys([*report.devices["device"], *rows["device"]])
    shown = [device for device in known if device in set(rows["device"])][:DEVICES_SHOWN]
    shown.sort(key=natural)
    figure = make_subplots(rows=len(shown), cols=1, shared_xaxes=True, vertical_spacing=_ROW_GAP / _height(len(shown)))
    figure.update_layout(_base(_height(len(shown))))
    figure.update_layout(margin_t=_ROW_GAP)
    for index, device in enumerate(shown, start=1):
        _multiple(figure, rows[rows["device"] == device], report.bin_s, index)
        _multiple_marks(figure, report.outages, device, index)
        figure.add_annotation(
            text=f"<b>{short(device, 32)}</b>",
            xref="x domain" if index == 1 else f"x{index} domain",
            yref="y domain" if index == 1 else f"y{index} domain",
            x=0,
            y=1.0,
            xanchor="left",
            yanchor="bottom",
            yshift=12,  # above the marks
            showarrow=False,
        )
    figure.update_xaxes(range=_time_range(report))
    figure.update_yaxes(nticks=4, range=_value_range(rows[rows["device"].isin(shown)]))
    return figure


def _value_range(rows: pd.DataFrame) -> list[float]:
    """The same for all devices, so that they compare."""
    low, high = rows["min"].min(), rows["max"].max()
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return [low - room, high + room]


def _multiple(figure: go.Figure, rows: pd.DataFrame, bin_s: float, index: int) -> None:
    """Mean line and min-max band; an empty bin breaks both, so that silence is seen as a hole."""
    width = f"{round(bin_s * 1000)}ms"
    bins = pd.date_range(rows["bin"].min(), rows["bin"].max(), freq=width)
    rows = rows.set_index("bin").reindex(bins)
    run = rows["mean"].isna().cumsum()[rows["mean"].notna()]
    for _, part in rows.loc[run.index].groupby(run):
        band = {"x": [*part.index, *part.index[::-1]], "y": [*part["max"], *part["min"][::-1]]}
        figure.add_scatter(
            **band, fill="toself", fillcolor=_BAND, line={"width": 0}, mode="lines", hoverinfo="skip", row=index, col=1
        )
    figure.add_scatter(
        x=rows.index,
        y=rows["mean"],
        mode="lines+markers",
        marker={"size": 3},
        line={"color": _INK, "width": 1.4},
        hovertemplate="%{x}<br>%{y}<extra></extra>",
        row=index,
        col=1,
    )


def _multiple_marks(figure: go.Figure, outages: list[Outage], device: str, index: int) -> None:
    suffix = "" if index == 1 else str(index)
    for outage in outages:
        if outage.device not in (None, device):
            continue
        place = {"xref": f"x{suffix}", "yref": f"y{suffix} domain"}
        if outage.end > outage.begin:
            box = {"x0": outage.begin, "x1": outage.end, "y0": 0, "y1": 1}
            figure.add_shape(type="rect", **box, **place, fillcolor=_SHADE, line={"width": 0}, layer="below")
        figure.add_annotation(
            x=outage.begin,
            y=1.0,
            xanchor="center" if outage.begin == outage.end else "left",
            yanchor="bottom",
            text=LETTERS.get(outage.kind, OTHER),
            showarrow=False,
            font={"size": 11},
            **place,
        )


def latency(report: Report) -> go.Figure:
    """Longest delay per bin over the time of the reading, logarithmic: few devices one by one, many as a fleet."""
    figure = go.Figure(layout=_base(300))
    if report.devices["device"].nunique() <= len(_DASHES):
        for dash, (device, rows) in zip(_DASHES, report.delays.groupby("device"), strict=False):
            _delay_line(figure, rows, escape(device), dash, "max")
    else:
        fleet_rows = report.delays.groupby("bin", as_index=False).agg(p50=("p50", "median"), max=("max", "max"))
        _delay_line(figure, fleet_rows, "slowest of all devices", "solid", "max")
        _delay_line(figure, fleet_rows, "median of all devices", "dot", "p50")
    ticks = [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 604_800_000]
    texts = ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min", "1 h", "10 h", "1 day", "1 week"]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=texts)
    figure.update_xaxes(range=_time_range(report))
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": -0.15, "itemwidth": 40})
    _delay_marks(figure, report.outages)
    return figure


def _delay_line(figure: go.Figure, rows: pd.DataFrame, name: str, dash: str, column: str) -> None:
    figure.add_scatter(
        x=rows["bin"],
        y=rows[column].clip(lower=1),
        name=name,
        mode="lines+markers",
        marker={"size": 3},
        line={"color": _INK, "width": 1.3, "dash": dash, "shape": "hvh"},
        hovertemplate="%{x}<br>%{y:.0f} ms<extra>" + name + "</extra>",
    )


def _delay_marks(figure: go.Figure, outages: list[Outage]) -> None:
    for outage in outages:
        if outage.end > outage.begin:
            figure.add_vrect(x0=outage.begin, x1=outage.end, fillcolor=_SHADE, line={"width": 0}, layer="below")
            _letter(figure, outage, 1.0, "paper", above=True)
