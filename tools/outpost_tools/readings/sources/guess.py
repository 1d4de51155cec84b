"""Guesses about unknown payloads, by their looks: what kind they are, units by names, the field of
the time, the zone of local times. Pure. A guess is for a draft that a person reads, never for
decoding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from outpost_tools.readings.sources import times

Shape = Literal["object", "number", "senml", "other"]
UNITS = {  # by the end of a name, longest first where one contains another
    "temperature": "Cel",
    "humidity": "%RH",
    "pressure": "hPa",
    "illuminance": "lx",
    "co2": "ppm",
    "pm25": "ug/m3",
    "voltage": "V",
    "current": "A",
    "power": "W",
    "energy": "kWh",
    "frequency": "Hz",
    "battery": "%EL",
    "rssi": "dBm",
    "uptime": "s",
}
_TIME_KEYS = ("time", "timestamp", "ts", "datetime", "last_seen", "time_stamp", "date", "t")
_DEVICE_KEYS = ("node", "device", "device_id", "deviceid", "dev_id", "sensor_id", "id")
_DAY_US = 86_400 * 1_000_000
_QUARTER = timedelta(minutes=15)  # all offsets from UTC are multiples of it
_DELAY = timedelta(minutes=3)  # between a reading and its arrival, while offsets are guessed
_NUMBER = re.compile(rb'\s*"?-?\d+(\.\d*)?([eE][-+]?\d+)?"?\s*\Z')
_from_json = msgspec.json.Decoder().decode


def document(payload: bytes) -> Any:
    """The JSON in it; None if it is none."""
    try:
        return _from_json(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def shape(payload: bytes) -> Shape:
    if _NUMBER.match(payload):
        return "number"
    found = document(payload)
    if isinstance(found, list) and found and all(isinstance(one, dict) for one in found):
        is_pack = any({"n", "bn"} & one.keys() and {"v", "vb"} & one.keys() for one in found)
        return "senml" if is_pack else "other"
    return "object" if isinstance(found, dict) and any(numbers(found)) else "other"


def numbers(found: Any, depth: int = 0) -> Iterator[str]:
    """The last keys of all numbers in a document."""
    if isinstance(found, dict) and depth < 8:
        for key, value in found.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            yield from [key] if is_number else numbers(value, depth + 1)
    elif isinstance(found, list) and depth < 8:
        for value in found:
            yield from numbers(value, depth + 1)


def units(names: Iterable[str]) -> dict[str, str]:
    """Patterns for `units` that fit some of the names."""
    lower = [name.lower() for name in names]
    return {
        f"*{end}" if any(one != end for one in lower if one.endswith(end)) else end: unit
        for end, unit in UNITS.items()
        if any(one.endswith(end) for one in lower)
    }


def time_key(found: dict[str, Any], received_ms: int) -> tuple[str, times.Read | None] | None:
    """(path, None for the format `any`, or a function for local time); None if no field is a time
    near the arrival."""
    for key in sorted(found, key=_rank):
        if key.lower() not in _TIME_KEYS:
            continue
        try:
            at = times.reader("any", None)(found[key], received_ms * 1000)
        except (times.Unreadable, OverflowError):
            if local_time(found[key]) is not None:
                return key, times.reader("local", "UTC")
            continue
        if abs(at - received_ms * 1000) < _DAY_US:
            return key, None
    return None


def _rank(key: str) -> int:
    return _TIME_KEYS.index(key.lower()) if key.lower() in _TIME_KEYS else len(_TIME_KEYS)


def device_key(found: dict[str, Any]) -> str | None:
    """The key of a text that may name the device."""
    for key in found:
        if key.lower() in _DEVICE_KEYS and isinstance(found[key], str) and found[key]:
            return key
    return None


def local_time(field: Any) -> datetime | None:
    """A time without an offset; None if it is none."""
    if not isinstance(field, str) or len(field) < len("2026-01-15T12:00"):
        return None
    try:
        moment = datetime.fromisoformat(field)
    except ValueError:
        return None
    return moment if moment.tzinfo is None else None


def offset(pairs: Iterable[tuple[datetime, int]]) -> timedelta | None:
    """The offset from UTC that most (local time, arrival in ms) agree on. None: no evidence."""
    found: Counter[timedelta] = Counter()
    for moment, received_ms in pairs:
        arrival = datetime.fromtimestamp(received_ms / 1000, UTC).replace(tzinfo=None)
        ahead = moment - arrival
        nearest = round(ahead / _QUARTER) * _QUARTER
        if abs(ahead - nearest) <= _DELAY and abs(nearest) <= timedelta(hours=15):
            found[nearest] += 1
    return found.most_common(1)[0][0] if found else None


def zone(ahead: timedelta, machine: str | None, now_ms: int) -> str | None:
    """The name of a zone with this offset now: this machine's, UTC, or one without a place. None:
    there is none with whole hours."""
    whole, rest = divmod(ahead, timedelta(hours=1))
    fixed = f"Etc/GMT{-whole:+d}" if whole and not rest else None
    for name in (machine, "UTC", fixed):
        if name is not None and _offset_of(name, now_ms) == ahead:
            return name
    return None


def _offset_of(name: str, now_ms: int) -> timedelta | None:
    try:
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(name)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
