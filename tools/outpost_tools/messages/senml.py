"""From SenML records to readings, by RFC 8428: base values, kinds of value, times.

A base label (`bn`, `bt`, `bu`, `bv`) applies from its record on, until another one replaces it.
What cannot be read correctly is refused with the label's name: a newer version of SenML, or a label
that ends in an underscore (a reader that does not know it must not use the record, section 4.4).
Other unknown labels are ignored. The tables have no place for a value that is not a number (`vs`,
`vb`, `vd`, or only a sum `s`): its record is left out and its label is reported, and the pack's
other readings are kept.

Knows nothing about bytes, topics or Outpost's own labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

from outpost_tools.messages import arrival, labels

Record = dict[Any, Any]
_Default = TypeVar("_Default", bound=float | None)
_LABEL_CHARACTERS = 40  # how much of an unknown label a reason shows


class Malformed(ValueError):
    """The payload is not an Outpost message; str() is the reason, one short phrase."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured value. `index` is that of its record; `time_s` is seconds since 1970, None if
    the board's clock was not set; `shift_s` is its distance from the pack's `bt` or `up`."""

    index: int
    name: str
    unit: str | None
    value: float
    time_s: float | None
    shift_s: float = 0.0


@dataclass(slots=True)
class _Bases:
    """The base values that apply to a record. `prefix` is what the base name adds to the device's
    name; `first_time_s` is the pack's first base time, which belongs to `up`."""

    device: str
    prefix: str = ""
    unit: str | None = None
    value: float | None = None
    time_s: float | None = None
    first_time_s: float | None = None

    def take(self, index: int, record: Record) -> None:
        base_name, unit = record.get("bn"), record.get("bu")
        if base_name is not None:
            self.prefix = self._prefix(index, base_name)
        if unit is not None:
            if not is_text(unit):
                raise Malformed(f"record {index}: bad label bu")
            self.unit = unit
        self.value = number(record, "bv", self.value)
        self.time_s = number(record, "bt", self.time_s)
        if self.first_time_s is None:
            self.first_time_s = self.time_s

    def _prefix(self, index: int, base_name: Any) -> str:
        start = f"{self.device}/"
        if not is_text(base_name) or not base_name.startswith(start):
            raise Malformed(f"record {index}: bn is not of this device")
        return base_name.removeprefix(start)

    def time_of(self, index: int, shift_s: float) -> tuple[float | None, float]:
        """(seconds since 1970 or None, distance from the pack's time)."""
        if self.time_s is None:  # section 4.5.3: a time this large is absolute, since 1970
            is_absolute = shift_s >= labels.MIN_TIME_S
            return (shift_s, 0.0) if is_absolute else (None, shift_s)
        time_s = self.time_s + shift_s
        if not labels.MIN_TIME_S <= time_s < labels.MAX_TIME_S:
            raise Malformed(f"record {index}: time out of range")
        if self.time_s != self.first_time_s:
            shift_s += self.time_s - (self.first_time_s or 0.0)
        return time_s, shift_s


def read(records: list[Record], device: str) -> tuple[list[Reading], tuple[str, ...]]:
    """(readings, the value's label for each record left out). Raises Malformed."""
    bases, readings, left_out = _Bases(device), [], []
    for index, record in enumerate(records):
        _check_understood(index, record)
        bases.take(index, record)
        kind = _kind(index, record)
        if kind == "v":
            readings.append(_reading(index, record, bases))
        else:
            left_out.append(kind)
    return readings, tuple(left_out)


def _check_understood(index: int, record: Record) -> None:
    version = record.get("bver")
    if version is not None and type(version) is not int:
        raise Malformed("bad label bver")
    if version is not None and not 1 <= version <= labels.SENML_VERSION:
        raise Malformed(f"record {index}: bver is not 1 to {labels.SENML_VERSION}")
    for label in record:
        if isinstance(label, str) and label.endswith("_"):
            raise Malformed(f"record {index}: unknown label {label[-_LABEL_CHARACTERS:]!a}")


def _kind(index: int, record: Record) -> str:
    """The label of the record's value."""
    found = [label for label in labels.VALUES if record.get(label) is not None]
    if len(found) > 1:
        raise Malformed(f"record {index}: both {found[0]} and {found[1]}")
    if found:
        return found[0]
    if record.get("s") is not None:  # a record may have only a sum
        return "s"
    raise Malformed(f"record {index}: no value")


def _reading(index: int, record: Record, bases: _Bases) -> Reading:
    name, unit = record.get("n"), record.get("u")
    if name is None and bases.prefix:
        name = ""
    if not is_text(name) or not (bases.prefix or name):
        raise Malformed(f"record {index}: bad label n")
    if unit is not None and not is_text(unit):
        raise Malformed(f"record {index}: bad label u")
    value = number(record, "v", 0.0)
    if bases.value is not None:
        value += bases.value
    if abs(value) > labels.MAX_VALUE:
        raise Malformed(f"record {index}: bv and v out of range")
    time_s, shift_s = bases.time_of(index, number(record, "t", 0.0) or 0.0)  # no -0.0
    unit = bases.unit if unit is None else unit
    return Reading(index, bases.prefix + name, unit, value, time_s, shift_s)


def is_text(value: Any) -> bool:
    """Whether it is a string that can be stored. JSON's \\u escapes can contain half a character (a
    lone surrogate), which UTF-8 cannot encode."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def number(record: Record, label: str, default: _Default) -> float | _Default:
    """The label's number; `default` if there is none. Raises Malformed if it is no finite
    number, or is out of bounds."""
    value = record.get(label)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed(f"bad label {label}")
    try:
        found = float(value)
    except OverflowError:  # an integer with more than 308 digits
        found = math.inf
    if not math.isfinite(found):
        raise Malformed(f"bad label {label}")
    lowest, highest = labels.LIMITS[label]
    if not lowest <= found <= highest:
        raise Malformed(f"label {label} out of range")
    return found


def check_times(readings: list[Reading], received_s: float | None) -> None:
    """Raises Malformed if the times are too far from each other, or from their arrival."""
    known = [r.time_s for r in readings if r.time_s is not None]
    open_ones = [r.shift_s for r in readings if r.time_s is None]
    if any(max(times) - min(times) > labels.MAX_SPAN_S for times in (known, open_ones) if times):
        raise Malformed("times too far apart")
    earliest_s, latest_s = arrival.limits(received_s)
    for r in readings:
        if r.time_s is not None and r.time_s < earliest_s:
            raise Malformed(f"record {r.index}: {arrival.LONG_BEFORE}")
        if r.time_s is not None and r.time_s > latest_s:
            raise Malformed(f"record {r.index}: {arrival.AFTER}")
