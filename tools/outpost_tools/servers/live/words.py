"""Distinguishes measured readings from those in which a board describes itself, and puts both in
words. Pure.
"""

from __future__ import annotations

from outpost_tools.attention import restarts, silence
from outpost_tools.messages import board_words, sensor_notes
from outpost_tools.servers.live.device import Device
from outpost_tools.servers.live.sensor import Sensor
from outpost_tools.text.words import duration, natural, number, with_unit

_OWN = frozenset((*board_words.DIAGNOSTIC, "memory"))
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
_LABELS = {
    "erases": "flash erases", "outbox_blocks": "blocks of the outbox", "memory": "free memory",
    "report_s": "reports", "reset_cause": "last start", "no_memory": "times without memory",
}  # fmt: skip


def parted(board: Device) -> tuple[list[Sensor], list[Sensor]]:
    """The sensors that measure, and those with which the device describes itself, by name."""
    battery, signal = board.battery, board.signal  # each looks at all names
    measured, own = [], []
    for one in sorted(board.sensors.values(), key=lambda one: natural(one.name)):
        if board.is_foreign:
            is_own = one in (battery, signal)
        else:
            is_own = one.name in _OWN or sensor_notes.is_note(one.name) or one is battery
        (own if is_own else measured).append(one)
    return measured, own


def label(sensor: Sensor) -> str:
    name = sensor.name
    if sensor.is_foreign:
        return name
    return _LABELS.get(name, name.replace("_", " ") if name in _OWN else name)


def text(sensor: Sensor, value: float) -> str:
    """A value in words: "0.1.0", "every 10 min", "24.1 GB" or "21.5 °C"."""
    name = "" if sensor.is_foreign else sensor.name
    if name == "firmware" and value >= 0:
        whole = int(value)
        return f"{whole // 10_000}.{whole // 100 % 100}.{whole % 100}"
    if name == silence.REPORT_S:
        return f"every {duration(value * 1000)}"
    if name == restarts.CAUSE:
        return restarts.cause_words(value)
    if sensor.unit in _BYTES:
        return _size(value * _BYTES[sensor.unit])
    return with_unit(value, sensor.unit)


def axis(value: float) -> str:
    """A short number, for the labels of a chart."""
    for divisor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= divisor:
            return f"{value / divisor:.4g} {letter}"
    return number(value)


def _size(count: float) -> str:
    for divisor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= divisor:
            return f"{count / divisor:.3g} {unit}"
    return f"{count:.0f} B"
