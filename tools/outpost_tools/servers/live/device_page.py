"""One device's page: its state, what to do about it, and each sensor's readings over an hour to a
year, as a chart and as a table.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from outpost_tools.servers.live import card, charts, page, words
from outpost_tools.servers.live.device import Device
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.history import SPANS, Bin
from outpost_tools.servers.live.sensor import Sensor
from outpost_tools.text.words import count, escape, natural, number, unit_text

_ROWS = 48  # at most per table: if there are more bins, neighbours are combined


def render(fleet: Fleet, board: Device, span: str, cursor: str) -> str:
    name = escape(board.name)
    what = "devices" if fleet.others is not None else "boards"
    body = (
        f'<header><p class="back"><a href="/">All {what}</a></p><h1>{name}</h1>'
        '<p id="link" class="link" role="status">values as of the loading of this page</p>'
        f'</header><main id="main">{_todo(board)}'
        f'<div id="cards">{card.card(fleet, board, is_alone=True)}</div>'
        f'{_spans(board, span)}<div id="charts" data-span="{span}">'
        f"{all_charts(fleet, board, span)}</div>{page.footer()}</main>"
    )
    return page.document(f"{board.name} – Outpost", body, fleet, cursor, board.ident)


def _todo(board: Device) -> str:
    found = [one for one in board.findings if one.kind.needs_attention]
    rows = "".join(
        f"<dt>{one.kind.sign} {escape(one.text)}</dt><dd>{one.kind.todo}</dd>" for one in found
    )
    return (
        f'<section class="todo" aria-label="what to do"><dl>{rows}</dl></section>' if rows else ""
    )


def _spans(board: Device, chosen: str) -> str:
    at = quote(board.ident, safe=":")
    links = "".join(
        f'<a href="/board/{at}?span={name}"{_current(name == chosen)}>{span.title}</a>'
        for name, span in SPANS.items()
    )
    return f'<h2>History</h2><nav class="spans" aria-label="span of time">{links}</nav>'


def _current(is_it: bool) -> str:
    return ' aria-current="page"' if is_it else ""


def all_charts(fleet: Fleet, board: Device, span: str) -> str:
    now_ms = fleet.clock()
    measured = words.is_measured
    sensors = sorted(_drawn(board), key=lambda one: (not measured(board, one), natural(one.name)))
    begin_ms = _begin_ms(board, sensors, span, now_ms)
    figures = "".join(
        _figure(sensor, span, begin_ms, now_ms)
        for sensor in sensors
        if measured(board, sensor) or len(sensor.history.bins(span, now_ms)) > 1
    )
    return figures + _reach(fleet)


def _begin_ms(board: Device, sensors: list[Sensor], name: str, now_ms: int) -> int:
    """Where the charts begin: at the span's start, or at the first reading of a newer board."""
    begin_ms = now_ms - SPANS[name].seconds * 1000
    if board.first_seen_ms <= begin_ms:
        return begin_ms
    found = [bins[0].begin_ms for one in sensors if (bins := one.history.bins(name, now_ms))]
    return max(begin_ms, min(found, default=begin_ms))


def _drawn(board: Device) -> list[Sensor]:
    """The sensors that get a chart: those that measure, and the board's battery, signal, memory."""
    own = (board.battery, board.signal, board.sensors.get("memory"))
    return [one for one in board.sensors.values() if one in own or words.is_measured(board, one)]


def _figure(sensor: Sensor, name: str, begin_ms: int, now_ms: int) -> str:
    span, bins = SPANS[name], sensor.history.bins(name, now_ms)
    unit = escape(unit_text(sensor.unit))
    title = f"{escape(words.label(sensor.name))}{f' <small>{unit}</small>' if unit else ''}"
    if not bins:
        text = f"No reading in the last {span.title}."
        return f'<figure class="chart"><figcaption>{title}</figcaption><p>{text}</p></figure>'
    return (
        f'<figure class="chart"><figcaption>{title}</figcaption>'
        f"{charts.chart(sensor, bins, span, begin_ms, now_ms)}{_table(sensor, bins)}</figure>"
    )


def _table(sensor: Sensor, bins: list[Bin]) -> str:
    step = -(-len(bins) // _ROWS)
    groups = [bins[at : at + step] for at in range(0, len(bins), step)]
    rows = "".join(_table_row(group) for group in reversed(groups))
    return (
        f"<details><summary>{escape(sensor.name)} as a table</summary><table><thead><tr>"
        '<th scope="col">from</th><th scope="col">least</th><th scope="col">mean</th>'
        f'<th scope="col">greatest</th><th scope="col">readings</th></tr></thead><tbody>{rows}'
        "</tbody></table></details>"
    )


def _table_row(group: list[Bin]) -> str:
    readings = sum(one.count for one in group)
    mean = sum(one.mean * one.count for one in group) / readings
    least = min(one.least for one in group)
    most = max(one.greatest for one in group)
    begin_ms = group[0].begin_ms
    moment = datetime.fromtimestamp(begin_ms / 1000, UTC)
    cells = (number(least), number(mean), number(most), f"{readings:,}")
    return (
        f'<tr><th scope="row"><time data-ms="{begin_ms}" data-as="moment">'
        f"{moment:%Y-%m-%d %H:%M} UTC</time></th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>"
    )


def _reach(fleet: Fleet) -> str:
    if fleet.reading is not None:
        return '<p class="note">The history is still being read.</p>'
    if not fleet.is_complete:
        return '<p class="note">The log\'s older part is deleted, or was not read.</p>'
    return f'<p class="note">All of the log was read: {count(fleet.frames, "message")}.</p>'
