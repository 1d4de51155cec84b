"""Plain SenML of others (RFC 8428, in JSON): records without Outpost's labels.

The base name is the device, and a record's own name the metric. If the topic names the device, the
base name is dropped, unless it changes within the pack. Base values apply from their record on. A
time below 2^28 is relative to the arrival (section 4.5.3); it needs one. Values that are not
numbers are left out, and so are records with only a sum; a boolean is 1 or 0.

messages/senml.py reads Outpost's own packs, which never have relative times.
"""

from __future__ import annotations

import math
from typing import Any

from outpost_tools.messages.labels import MAX_VALUE, MIN_TIME_S, SENML_VERSION, VALUES
from outpost_tools.readings.sources.bounds import MAX_READINGS, is_name
from outpost_tools.readings.sources.paths import SWITCH
from outpost_tools.readings.sources.result import Reading
from outpost_tools.readings.sources.times import Unreadable, plausible_us

_ENDS = "/:.-_"  # what separates a base name from a name
_UNNAMED = "value"  # of a record that has only its base name


class Odd(ValueError):
    """str(): the reason to refuse the pack."""


class Pack:
    """The readings of a pack. device: from the topic, or the first base name. has_time: all of them
    have a time of the sender's. note: what is wrong with a time."""

    def __init__(self, records: Any, device: str | None, received_ms: int | None) -> None:
        """Raises Odd."""
        if not isinstance(records, list) or not records:
            raise Odd("not a SenML pack")
        if len(records) > MAX_READINGS:
            raise Odd(f"more than {MAX_READINGS} values")
        self._received_ms = received_ms
        self._base: dict[str, Any] = {"bn": "", "bt": 0.0, "bu": None, "bv": 0.0}
        self.readings: list[Reading] = []
        self.left_out: list[str] = []
        self.note, self.has_time = "", True
        first = records[0].get("bn") if isinstance(records[0], dict) else None
        self._prefix = first if isinstance(first, str) else ""
        self.device = device or self._prefix.rstrip(_ENDS)
        for index, record in enumerate(records):
            self._take(index, record)

    def _take(self, index: int, record: Any) -> None:
        if not isinstance(record, dict):
            raise Odd("not a SenML pack")
        self._check(index, record)
        for label in ("bn", "bu"):
            if isinstance(record.get(label), str):
                self._base[label] = record[label]
        for label in ("bt", "bv"):
            if record.get(label) is not None:
                self._base[label] = _number(index, record, label)
        name = self._name(record)
        value, is_switch = self._value(index, record)
        if value is None or not is_name(name):
            self.left_out.append(name if is_name(name) else f"record {index}")
            return
        unit = record.get("u", self._base["bu"])
        if not isinstance(unit, str):
            unit = SWITCH if is_switch else None
        self.readings.append(Reading(name, unit, value, self._time_us(index, record)))

    @staticmethod
    def _check(index: int, record: dict[str, Any]) -> None:
        version = record.get("bver")
        if version is not None and (type(version) is not int or version > SENML_VERSION):
            raise Odd(f"record {index}: bver is not 1 to {SENML_VERSION}")
        if any(label.endswith("_") for label in record):
            raise Odd(f"record {index}: a label that must be understood")

    def _name(self, record: dict[str, Any]) -> str:
        name = record.get("n", "")
        base = self._base["bn"]
        if base != self._prefix:  # another device, or part, in the same pack
            name = f"{base}{name}"
        return name or _UNNAMED if isinstance(name, str) else ""

    def _value(self, index: int, record: dict[str, Any]) -> tuple[float | None, bool]:
        """(the number or None, whether it was a boolean)."""
        if sum(record.get(label) is not None for label in VALUES) > 1:
            raise Odd(f"record {index}: several values")
        if isinstance(record.get("vb"), bool):
            return float(record["vb"]), True
        has_number = record.get("v") is not None
        if not has_number and (any(label in record for label in (*VALUES, "s"))):
            return None, False
        value = (_number(index, record, "v") if has_number else 0.0) + self._base["bv"]
        return (value if abs(value) < MAX_VALUE else None), False

    def _time_us(self, index: int, record: dict[str, Any]) -> int | None:
        time_s = self._base["bt"] + _number(index, record, "t")
        received_us = None if self._received_ms is None else self._received_ms * 1000
        if abs(time_s) >= MIN_TIME_S:
            try:
                return plausible_us(round(time_s * 1e6), self._received_ms)
            except Unreadable as error:
                self.note = f"record {index}: {error}"
        self.has_time = False
        is_relative = abs(time_s) < MIN_TIME_S
        if received_us is None:
            return None
        return received_us + round(time_s * 1e6) if is_relative else received_us


def _number(index: int, record: dict[str, Any], label: str) -> float:
    """0 if it is missing. Raises Odd."""
    value = record.get(label, 0.0)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or abs(value) > MAX_VALUE or not math.isfinite(value):
        raise Odd(f"record {index}: bad label {label}")
    return float(value)
