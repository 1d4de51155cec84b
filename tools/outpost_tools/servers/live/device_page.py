"""One device's page: its state, what to do about it, and each sensor's readings over an hour to a
year, as a chart and as a table.
"""

from __future__ import annotations

from markupsafe import Markup

from outpost_tools.servers.live import charts, words
from outpost_tools.servers.live.card import TEMPLATES, card, utc
from outpost_tools.servers.live.device import Device
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.history import SPANS, Bin
from outpost_tools.servers.live.sensor import Sensor
from outpost_tools.text.words import number, unit_text

_ROWS = 48  # at most per table: if there are more bins, neighbours are combined
_GIVEN = {"number": number, "unit_text": unit_text, "utc": utc, "label": words.label}
_PAGE = TEMPLATES.get_template("device.html")
_CHARTS = TEMPLATES.get_template("charts.html", globals=_GIVEN)


def render(fleet: Fleet, board: Device, span: str, cursor: str) -> str:
    return _PAGE.render(
        title=f"{board.name} – Outpost",
        cursor=cursor,
        board=board,
        fleet=fleet,
        has_report=False,
        card=card(fleet, board, is_alone=True),
        spans=SPANS,
        chosen=span,
        charts=all_charts(fleet, board, span),
    )


def all_charts(fleet: Fleet, board: Device, span: str) -> Markup:
    """Of the sensors that measure, and of the board's battery, signal and memory."""
    now_ms = fleet.clock()
    measured, own = words.parted(board)
    drawn = (board.battery, board.signal, board.sensors.get("memory"))
    own = [one for one in own if one in drawn]
    begin_ms = _begin_ms(board, measured + own, span, now_ms)
    figures = [(one, one.history.bins(span, now_ms)) for one in measured + own]
    made = _CHARTS.render(
        fleet=fleet,
        span=SPANS[span],
        begin_ms=begin_ms,
        now_ms=now_ms,
        wide=charts.WIDE,
        high=charts.HIGH,
        figures=[
            (one, charts.chart(one, bins, SPANS[span], begin_ms, now_ms), _table(bins))
            for one, bins in figures
            if one in measured or len(bins) > 1
        ],
    )
    return Markup(made)


def _begin_ms(board: Device, sensors: list[Sensor], name: str, now_ms: int) -> int:
    """Where the charts begin: at the span's start, or at the first reading of a newer board."""
    begin_ms = now_ms - SPANS[name].seconds * 1000
    if board.first_seen_ms <= begin_ms:
        return begin_ms
    found = [bins[0].begin_ms for one in sensors if (bins := one.history.bins(name, now_ms))]
    return max(begin_ms, min(found, default=begin_ms))


def _table(bins: list[Bin]) -> list[Bin]:
    """The newest first."""
    step = -(-len(bins) // _ROWS)
    return [_combined(bins[at : at + step]) for at in range(0, len(bins), step or 1)][::-1]


def _combined(group: list[Bin]) -> Bin:
    readings = sum(one.count for one in group)
    mean = sum(one.mean * one.count for one in group) / readings
    least, greatest = min(one.least for one in group), max(one.greatest for one in group)
    return Bin(group[0].begin_ms, least, mean, greatest, readings)
