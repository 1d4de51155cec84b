"""A device's card: its state, its newest values, what it says about itself. Knows the fleet, no
network.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from markupsafe import Markup

from outpost_tools.attention import attention
from outpost_tools.pages import templates
from outpost_tools.readings.sources.guarantee import MEANING
from outpost_tools.servers.live import charts, words
from outpost_tools.servers.live.device import Device
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.sensor import Sensor
from outpost_tools.text.words import moment

_GONE = ("silent", "quiet", "offline", "waiting", "known")  # findings of a device that may be gone


def address(board: Device) -> str:
    return f"/board/{quote(board.ident, safe=':')}"


def utc(time_ms: int) -> str:
    return moment(datetime.fromtimestamp(time_ms / 1000, UTC))


TEMPLATES = templates.of_room(__package__)
TEMPLATES.filters["address"] = address
_CARD = TEMPLATES.get_template(
    "card.html", globals={"meaning": MEANING, "utc": utc, "text": words.text}
)


@dataclass(slots=True)
class _Reading:
    """A sensor's newest value, as the card shows it. time_ms: 0: not known."""

    id: int
    name: str
    text: str
    age: str
    time_ms: int
    utc: str
    is_arrival: bool
    number: str = ""
    unit: str = ""
    points: str = ""
    points_in_words: str = ""
    line: str = ""


def card(fleet: Fleet, board: Device, *, is_alone: bool = False) -> Markup:
    """An article about the device. is_alone: it is on the device's own page, which already has its
    name."""
    measured, own = words.parted(board)
    made = _CARD.render(
        board=board,
        is_alone=is_alone,
        findings=board.findings or [attention.Finding("fine", "fine")],
        measured=[_measured(one) for one in measured],
        own=[_reading(one, words.label(one)) for one in own],
        forget=_forgetting(fleet, board),
    )
    return Markup(made)


def _measured(sensor: Sensor) -> _Reading:
    made = _reading(sensor, sensor.name)
    made.number, _, made.unit = made.text.partition(" ")
    if sensor.recent:
        made.points = charts.points(sensor.recent)
        made.points_in_words = charts.recent_words(sensor)
        made.line = charts.sparkline(sensor.recent)
    return made


def _reading(sensor: Sensor, name: str) -> _Reading:
    """When a last known value was measured is known only if its device says so: it arrived when the
    collector subscribed."""
    newest, is_last_known = sensor.newest, sensor.is_last_known
    time_ms = newest.time_ms if not is_last_known or sensor.is_known_dated else 0
    return _Reading(
        sensor.number,
        name,
        words.text(sensor, newest.value),
        ("last known, " if time_ms else "last known") if is_last_known else "",
        time_ms,
        utc(time_ms) if time_ms else "",
        sensor.is_arrival and not is_last_known,
    )


def _forgetting(fleet: Fleet, board: Device) -> str:
    """For a silent device: the command line that takes it off the page."""
    is_gone = any(one.key in _GONE for one in board.findings)
    if not is_gone or fleet.log is None:
        return ""
    log = shlex.quote(fleet.log.absolute)
    return f"outpost live --log {log} --forget {shlex.quote(board.ident)}"
