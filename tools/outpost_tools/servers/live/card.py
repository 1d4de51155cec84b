"""A device's card, as HTML: its state, its newest values, what it says about itself. All text from
others goes through escape(). Knows the fleet, no network.
"""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from outpost_tools.attention import attention
from outpost_tools.readings.sources.guarantee import MEANING
from outpost_tools.servers.live import charts, words
from outpost_tools.servers.live.device import Device
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.foreign_device import ForeignDevice
from outpost_tools.servers.live.sensor import Sensor
from outpost_tools.store.base import Store
from outpost_tools.text.words import escape, natural

_GONE = ("silent", "quiet", "offline", "waiting", "known")  # findings of a device that may be gone


def card(fleet: Fleet, board: Device, *, is_alone: bool = False) -> str:
    """An article about the device. is_alone: it is on the device's own page, which already has its
    name. data-s is a sensor's number, for live.js."""
    name = escape(board.name)
    sensors = sorted(board.sensors.values(), key=lambda one: natural(one.name))
    measured = "".join(_tile(one) for one in sensors if words.is_measured(board, one))
    own = [one for one in sensors if not words.is_measured(board, one)]
    needs = "yes" if board.needs_attention else "no"
    nothing = '<p class="note">It has sent no measurement yet.</p>'
    values = f'<ul class="values" aria-label="newest values of {name}">{measured}</ul>'
    return (
        f'<article class="card" id="b{board.number}" data-needs="{needs}" data-name="{name}" '
        f'aria-labelledby="n{board.number}"><div class="top">{_heading(board, is_alone)}'
        f"{facts(board)}</div>{states(board)}{values if measured else nothing}"
        f"{_itself(board, own)}{forgetting(fleet, board)}</article>"
    )


def _heading(board: Device, is_alone: bool) -> str:
    if is_alone:
        return f'<h2 id="n{board.number}">Now</h2>'
    return f'<h3 id="n{board.number}">{link(board)}</h3>'


def states(board: Device) -> str:
    findings = board.findings or [attention.Finding("fine", "fine")]
    chips = "".join(
        f'<li class="chip {one.key} {"needs" if one.kind.needs_attention else "calm"}">'
        f'<span aria-hidden="true">{one.kind.sign}</span> {escape(one.text)}</li>'
        for one in findings
    )
    return f'<ul class="states" aria-label="state">{chips}</ul>'


def facts(board: Device) -> str:
    """When the device was last seen, what is said about its connection, its battery and signal."""
    items = []
    if board.last_seen_ms:
        items.append(("seen", f"{_time(board.last_seen_ms)}", f' data-seen="{board.number}"'))
    if isinstance(board, ForeignDevice) and board.state:
        items.append(("state", board.state, ""))
    for label, sensor in (("battery", board.battery), ("signal", board.signal)):
        if sensor is not None:
            text = escape(words.text(sensor, sensor.newest.value))
            label += " (last known)" if sensor.is_last_known else ""
            items.append((label, text, f' data-v="{sensor.number}"'))
    return (
        '<dl class="facts">'
        + "".join(f"<div><dt>{label}</dt><dd{at}>{text}</dd></div>" for label, text, at in items)
        + "</dl>"
    )


def _itself(board: Device, own: list[Sensor]) -> str:
    """What the device reports about itself, folded away."""
    rows = [
        f'<div data-s="{one.number}"><dt class="name">{escape(_label(one))}</dt>'
        f'<dd class="value" data-v="{one.number}">{escape(words.text(one, one.newest.value))}</dd>'
        f'<dd class="age">{_age(one)}</dd></div>'
        for one in own
    ]
    rows += _promised(board) if isinstance(board, ForeignDevice) else [_waiting(board)]
    if board.hidden_sensors:
        text = f"{board.hidden_sensors:,} of sensors beyond the limit for one device"
        rows.append(f"<div><dt>readings not shown</dt><dd>{text}</dd></div>")
    what = "device" if board.is_foreign else "board"
    return (
        f'<details class="itself"><summary>About the {what}</summary>'
        f"<dl>{''.join(rows)}</dl></details>"
    )


def _label(sensor: Sensor) -> str:
    return sensor.name if sensor.is_foreign else words.label(sensor.name)


def _waiting(board: Device) -> str:
    return (
        f'<div><dt>waiting on the board</dt><dd data-backlog="{board.number}">{board.backlog:,}'
        "</dd></div>"
    )


def _promised(device: ForeignDevice) -> list[str]:
    """What is promised for its messages: no gaps, no confirmation, but this."""
    return [
        f'<div class="promise"><dt>{escape(source)}</dt><dd>{escape(MEANING[word])}</dd></div>'
        for source, word in sorted(device.guarantees.items())
    ]


def _tile(sensor: Sensor) -> str:
    newest = sensor.newest
    value, _, unit = words.text(sensor, newest.value).partition(" ")
    points = " ".join(f"{point.time_ms}:{point.value:.6g}" for point in sensor.recent)
    spark = (
        f'<svg class="spark" data-p="{points}" viewBox="0 0 100 24" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(charts.recent_words(sensor))}">'
        f'<path d="{charts.sparkline(sensor.recent)}"/></svg>'
    )
    return (
        f'<li data-s="{sensor.number}"><span class="name">{escape(sensor.name)}</span>'
        f'<span class="value" data-v="{sensor.number}"><b>{escape(value)}</b> {escape(unit)}</span>'
        f'{spark if sensor.recent else ""}<span class="age">{_age(sensor)}</span></li>'
    )


def _age(sensor: Sensor) -> str:
    """When the newest value was measured. Of a last known value that is known only if its device
    says so: it arrived when the collector subscribed."""
    newest = sensor.newest
    if not sensor.is_last_known:
        return _time(newest.time_ms, is_arrival=sensor.is_arrival)
    return f"last known, {_time(newest.time_ms)}" if sensor.is_known_dated else "last known"


def _time(time_ms: int, *, is_arrival: bool = False) -> str:
    """The moment, which live.js replaces by its age."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    arrival = ' data-arrival="yes"' if is_arrival else ""
    return (
        f'<time data-ms="{time_ms}" data-as="age" datetime="{moment:%Y-%m-%dT%H:%M:%SZ}"{arrival}>'
        f"{moment:%Y-%m-%d %H:%M:%S} UTC</time>"
    )


def link(board: Device) -> str:
    return f'<a href="/board/{quote(board.ident, safe=":")}">{escape(board.name)}</a>'


def command(line: str) -> str:
    """A command line as HTML. The span keeps an option on one line; a browser would break it after
    a hyphen."""
    text = re.sub(r"(?<= )--\S+", r"<span>\g<0></span>", escape(line))
    return f'<pre class="command" tabindex="0"><code>{text}</code></pre>'


def path(folder: Path) -> str:
    return shlex.quote(str(folder.absolute()))


def place(log: Store) -> str:
    return shlex.quote(log.absolute)


def forgetting(fleet: Fleet, board: Device) -> str:
    """For a silent device: the command line that takes it off the page, folded away."""
    is_gone = any(one.key in _GONE for one in board.findings)
    if not is_gone or fleet.log is None:
        return ""
    line = f"outpost live --log {place(fleet.log)} --forget {shlex.quote(board.ident)}"
    return (
        '<details class="forget"><summary>Forget this device</summary><p>It is taken off the page '
        "until it sends again; the log keeps all of it:</p>"
        f"{command(line)}</details>"
    )
