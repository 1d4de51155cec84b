"""Sparklines and charts as SVG, with a description in words for people who cannot see them. Pure.

Lines are drawn in the units of a view box that is stretched to fit. Labels are HTML beside it, so
no text is stretched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from outpost_tools.servers.live import words
from outpost_tools.servers.live.history import Bin, Span
from outpost_tools.servers.live.sensor import Point, Sensor
from outpost_tools.text.words import escape, number, unit_text

_WIDE, _HIGH = 100, 24  # of a sparkline
_CHART_WIDE, _CHART_HIGH = 1000, 200
_GAP_BINS = 3  # a longer silence breaks the line


def recent_words(sensor: Sensor) -> str:
    """The sparkline in words."""
    values = [point.value for point in sensor.recent]
    if not values:
        return "no reading yet"
    if len(values) == 1:
        return "one reading so far"
    least, most = number(min(values)), words.text(sensor, max(values))
    return f"last {len(values)} readings: {least} to {most}"


def sparkline(points: Sequence[Point]) -> str:
    """The attribute `d` of an SVG path, with time on the x axis. live.js draws the same."""
    if len(points) < 2:
        return f"M0,{_HIGH / 2:g}H{_WIDE}" if points else ""
    first, last = points[0].time_ms, points[-1].time_ms
    values = [point.value for point in points]
    least, most = min(values), max(values)
    wide, high = max(last - first, 1), (most - least) or 1.0
    middle = _HIGH / 2 if most == least else 0.0
    places = (
        f"{(p.time_ms - first) * _WIDE / wide:.1f},"
        f"{middle or (_HIGH - 2) - (p.value - least) * (_HIGH - 4) / high:.1f}"
        for p in points
    )
    return "M" + "L".join(places)


def chart(sensor: Sensor, bins: list[Bin], span: Span, begin_ms: int, now_ms: int) -> str:
    """A chart: a band from the least to the greatest value, a line of the means, and the axes."""
    least = min(one.least for one in bins)
    most = max(one.greatest for one in bins)
    ticks = _ticks(least, most)
    low, high = min(ticks[0], least), max(ticks[-1], most)
    scale = _Scale(begin_ms, now_ms, low, high)
    name, unit = escape(sensor.name), escape(unit_text(sensor.unit))
    shown = (
        f"{name}, the last {span.title}: least {number(least)}, greatest {number(most)} {unit}, "
        f"in {len(bins)} steps"
    )
    lines = "".join(f'<path class="grid" d="M0,{scale.y(t):.1f}H{_CHART_WIDE}"/>' for t in ticks)
    labels = "".join(
        f'<span style="--y:{scale.y(t) / _CHART_HIGH:.4f}">{words.axis(t)}</span>' for t in ticks
    )
    return (
        f'<div class="plot"><div class="y" aria-hidden="true">{labels}</div>'
        f'<svg viewBox="0 0 {_CHART_WIDE} {_CHART_HIGH}" preserveAspectRatio="none" role="img" '
        f'aria-label="{shown}">{lines}{_band(bins, span, scale)}</svg></div>'
        f'<div class="x" aria-hidden="true">{_times(begin_ms, now_ms)}</div>'
    )


class _Scale:
    def __init__(self, begin_ms: int, end_ms: int, low: float, high: float) -> None:
        self._begin, self._wide = begin_ms, max(end_ms - begin_ms, 1)
        self._low, self._high = low, (high - low) or 1.0

    def x(self, time_ms: float) -> float:
        return (time_ms - self._begin) * _CHART_WIDE / self._wide

    def y(self, value: float) -> float:
        return _CHART_HIGH - (value - self._low) * _CHART_HIGH / self._high


def _band(bins: list[Bin], span: Span, scale: _Scale) -> str:
    half_ms = span.width_s * 500
    parts = []
    for run in _runs(bins, span.width_s * 1000):
        xs = [f"{scale.x(one.begin_ms + half_ms):.1f}" for one in run]
        top = [f"{x},{scale.y(b.greatest):.1f}" for x, b in zip(xs, run, strict=True)]
        low = [f"{x},{scale.y(b.least):.1f}" for x, b in zip(xs, run, strict=True)]
        mean = [f"{x},{scale.y(b.mean):.1f}" for x, b in zip(xs, run, strict=True)]
        if len(run) == 1:  # a path of one point draws nothing
            mean.append(f"{float(xs[0]) + 5:.1f},{scale.y(run[0].mean):.1f}")
        parts.append(f'<path class="band" d="M{"L".join(top + low[::-1])}Z"/>')
        parts.append(f'<path class="mean" d="M{"L".join(mean)}"/>')
    return "".join(parts)


def _runs(bins: list[Bin], width_ms: int) -> list[list[Bin]]:
    runs: list[list[Bin]] = []
    for one in bins:
        if runs and one.begin_ms - runs[-1][-1].begin_ms <= _GAP_BINS * width_ms:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _ticks(least: float, most: float) -> list[float]:
    """Three to six round numbers that enclose the values."""
    wide = (most - least) or abs(most) * 0.1 or 1.0
    step = 10 ** math.floor(math.log10(wide / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if wide / (step * factor) <= 4)
    first, last = math.floor(least / step), math.ceil(most / step)
    if least == most:  # a line on the edge of the chart would be invisible
        first, last = first - 1, last + 1
    return [round(index * step, 12) for index in range(first, last + 1)]


def _times(begin_ms: int, end_ms: int) -> str:
    """Five moments, which live.js writes in the reader's time zone."""
    moments = [begin_ms + (end_ms - begin_ms) * part // 4 for part in range(5)]
    return "".join(f'<time data-ms="{ms}" data-as="axis"></time>' for ms in moments)
