"""Numbers, times and bytes in readable form, for the pages: report and live."""

from __future__ import annotations

import math
import re
from datetime import datetime

EXAMPLE_BYTES = 60
LETTERS = {"power cut": "▼", "broker killed": "B", "collector killed": "C", "link cut": "L"}
OTHER = "•"  # an event of an unknown kind; the list at the end names it


def duration(milliseconds: float | None) -> str:
    """For example 12 ms, 3.4 s, 50 s, 1.5 min, 15 min, 36 h or 7 days; a dash if it is not known.
    live.js writes the same."""
    if _is_unknown(milliseconds):
        return "-"
    if abs(milliseconds) < 999.5:
        return f"{milliseconds:.0f} ms"
    for limit, divisor, unit in ((60, 1e3, "s"), (60, 60e3, "min"), (48, 3600e3, "h")):
        value = milliseconds / divisor
        if abs(value) < limit - 0.5:
            return f"{_short(value)} {unit}"
    days = _short(milliseconds / 86400e3)
    return f"{days} day{'' if days == '1' else 's'}"


def _short(value: float) -> str:
    """With tenths below ten; 3.0 becomes 3."""
    return f"{value:.1f}".removesuffix(".0") if abs(value) < 9.95 else f"{value:.0f}"


def _is_unknown(value: object) -> bool:
    """None, NaN, or pandas' value for a missing number."""
    try:
        return value is None or math.isnan(value)  # pyright: ignore
    except TypeError:
        return True


_UNITS = {
    "Cel": "°C", "%RH": "%", "%EL": "%", "/": "", "Ohm": "Ω", "degL": "°", "ug/m3": "µg/m³",
}  # fmt: skip


def number(value: float) -> str:
    """With seven digits, but always with all digits before the point."""
    if abs(value) < 1e15 and (value == int(value) or abs(value) >= 1e7):
        return f"{round(value)}"
    return f"{value:.7g}"


def unit_text(senml: str) -> str:
    """A SenML unit as people write it."""
    return _UNITS.get(senml, senml)


def with_unit(value: float, senml_unit: str) -> str:
    """For example 21.38 °C."""
    return f"{number(value)} {unit_text(senml_unit)}".rstrip()


def moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"


def printable(payload: bytes) -> str:
    text = repr(payload[:EXAMPLE_BYTES])[2:-1]
    return text + (f" … {len(payload):,} bytes" if len(payload) > EXAMPLE_BYTES else "")


def count(number: int, one: str, many: str | None = None) -> str:
    """For example "1 gap" or "2 gaps"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def natural(name: str) -> list:
    """A key that sorts board-2 before board-10."""
    parts = re.split(r"([0-9]+)", name)  # every second one is a number
    return [int(part) if at % 2 else part for at, part in enumerate(parts)]
