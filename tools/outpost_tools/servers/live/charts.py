"""Sparklines and charts as paths of SVG, described in words for people who cannot see them. Pure.

Lines are drawn in the units of a view box that is stretched to fit. Labels are HTML beside it, so
no text is stretched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from outpost_tools.servers.live import words
from outpost_tools.servers.live.history import Bin, Span
from outpost_tools.servers.live.sensor import Point, Sensor
from outpost_tools.text.words import number, unit_text

_WIDE, _HIGH = 100, 24  # of a sparkline
WIDE, HIGH = 1000, 200  # of a chart
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


def points(recent: Sequence[Point]) -> str:
    """For live.js."""
    return " ".join([f"{point.time_ms}:{point.value:.6g}" for point in recent])


def sparkline(points: Sequence[Point]) -> str:
    """The attribute `d` of an SVG path, with time on the x axis. live.js draws the same."""
    if len(points) < 2:
        return f"M0,{_HIGH / 2:g}H{_WIDE}" if points else ""
    first, last = points[0].time_ms, points[-1].time_ms
    values = [point.value for point in points]
    least, most = min(values), max(values)
    wide, high = max(last - first, 1), (most - least) or 1.0
    middle = _HIGH / 2 if most == least else 0.0
    places = [
        f"{(p.time_ms - first) * _WIDE / wide:.1f},"
        f"{middle or (_HIGH - 2) - (p.value - least) * (_HIGH - 4) / high:.1f}"
        for p in points
    ]
    return "M" + "L".join(places)


@dataclass(frozen=True, slots=True)
class Chart:
    """A band from the least to the greatest value, a line of the means, and the ticks: their place
    and text. runs: the attributes `d` of both, for each time without a gap."""

    shown: str
    ticks: list[tuple[float, str]]
    runs: list[tuple[str, str]]


def chart(sensor: Sensor, bins: list[Bin], span: Span, begin_ms: int, now_ms: int) -> Chart | None:
    if not bins:
        return None
    least = min(one.least for one in bins)
    most = max(one.greatest for one in bins)
    ticks = _ticks(least, most)
    scale = _Scale(begin_ms, now_ms, min(ticks[0], least), max(ticks[-1], most))
    unit = unit_text(sensor.unit)
    shown = f"least {number(least)}, greatest {number(most)} {unit}, in {len(bins)} steps"
    return Chart(
        shown, [(scale.y(one), words.axis(one)) for one in ticks], _band(bins, span, scale)
    )


class _Scale:
    def __init__(self, begin_ms: int, end_ms: int, low: float, high: float) -> None:
        self._begin, self._wide = begin_ms, max(end_ms - begin_ms, 1)
        self._low, self._high = low, (high - low) or 1.0

    def x(self, time_ms: float) -> float:
        return (time_ms - self._begin) * WIDE / self._wide

    def y(self, value: float) -> float:
        return HIGH - (value - self._low) * HIGH / self._high


def _band(bins: list[Bin], span: Span, scale: _Scale) -> list[tuple[str, str]]:
    half_ms = span.width_s * 500
    parts = []
    for run in _runs(bins, span.width_s * 1000):
        xs = [f"{scale.x(one.begin_ms + half_ms):.1f}" for one in run]
        top = [f"{x},{scale.y(b.greatest):.1f}" for x, b in zip(xs, run, strict=True)]
        low = [f"{x},{scale.y(b.least):.1f}" for x, b in zip(xs, run, strict=True)]
        mean = [f"{x},{scale.y(b.mean):.1f}" for x, b in zip(xs, run, strict=True)]
        if len(run) == 1:  # a path of one point draws nothing
            mean.append(f"{float(xs[0]) + 5:.1f},{scale.y(run[0].mean):.1f}")
        parts.append((f"M{'L'.join(top + low[::-1])}Z", f"M{'L'.join(mean)}"))
    return parts


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
