"""The time of a message: from a field of it, or its arrival.

A wrong or unset clock costs a reading its time, never the reading: a time that cannot be read, or
is too far from the arrival (messages/arrival.py), gives way to the arrival, and a note says so.

    any        a number of seconds or milliseconds since 1970, by its size; or as rfc3339
    epoch-s    seconds since 1970, also with a fraction
    epoch-ms   milliseconds since 1970
    rfc3339    2026-01-15T10:00:00Z, or with an offset
    local      2026-01-15T10:00:00 without an offset, in the zone that the source names

Of the two times that a local one may mean when clocks are set back, the one nearer to the arrival
is taken. Pure: a zone's rules come from the machine's zoneinfo, and nothing reads its clock.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from outpost_tools.messages import arrival

FORMATS = ("any", "epoch-s", "epoch-ms", "rfc3339", "local")
ABSENT = "no time"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_MOST_S = 1e11  # the year 5138 in seconds, 1973 in milliseconds
_SHOWN = 40  # characters of an unreadable time that a note shows

Read = Callable[[Any, int | None], int]  # (field, arrival in µs or None) -> µs since 1970


class Unreadable(ValueError):
    """str(): a short phrase."""


def reader(form: str, zone: str | None) -> Read:
    """The function that reads this format. It raises Unreadable. zone: for local."""
    if form == "local":
        return functools.partial(_local, zone=ZoneInfo(zone or "UTC"))
    return {"any": _any, "epoch-s": _seconds, "epoch-ms": _milliseconds, "rfc3339": _text}[form]


def _number(field: Any) -> float:
    if isinstance(field, bool) or not isinstance(field, int | float) or not math.isfinite(field):
        raise Unreadable(f"{str(field)[:_SHOWN]!r} is no number")
    return field


def _seconds(field: Any, _received_us: int | None) -> int:
    return round(_bounded(_number(field)) * 1e6)


def _milliseconds(field: Any, _received_us: int | None) -> int:
    return round(_bounded(_number(field), 1e3) * 1e3)


def _bounded(number: float, per_second: float = 1.0) -> float:
    if abs(number) > _MOST_S * per_second:
        raise Unreadable(f"{number:g} is no time")
    return number


def _any(field: Any, received_us: int | None) -> int:
    if isinstance(field, str):
        return _text(field, received_us)
    number = _number(field)
    return (_seconds if abs(number) < _MOST_S else _milliseconds)(number, received_us)


def _moment(field: Any) -> datetime:
    try:
        return datetime.fromisoformat(field)
    except (ValueError, TypeError):
        raise Unreadable(f"{str(field)[:_SHOWN]!r} is no time") from None


def _text(field: Any, _received_us: int | None) -> int:
    moment = _moment(field)
    if moment.tzinfo is None:
        raise Unreadable(f'{field!r} has no offset; use format = "local" and a zone')
    return (moment - _EPOCH) // _MICROSECOND


def _local(field: Any, received_us: int | None, *, zone: ZoneInfo) -> int:
    moment = _moment(field)
    if moment.tzinfo is not None:
        return (moment - _EPOCH) // _MICROSECOND
    first, second = _offsets(zone, moment.replace(second=0, microsecond=0))
    local_us = (moment - _LOCAL_EPOCH) // _MICROSECOND
    if first == second or received_us is None:
        return local_us - first
    return min(local_us - first, local_us - second, key=lambda one: abs(received_us - one))


@functools.lru_cache(maxsize=1024)
def _offsets(zone: ZoneInfo, minute: datetime) -> tuple[int, int]:
    """Offsets from UTC in µs that a local time may have. They differ where clocks are set back, and
    where a time does not exist because they are set forward."""
    offsets = [minute.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)]
    first, second = ((one or timedelta()) // _MICROSECOND for one in offsets)
    return first, second


def plausible_us(time_us: int, received_ms: int | None) -> int:
    """The time itself. Raises Unreadable if it is too far from its arrival."""
    earliest_s, latest_s = arrival.limits(None if received_ms is None else received_ms / 1000)
    if time_us < earliest_s * 1e6:
        raise Unreadable(arrival.LONG_BEFORE)
    if time_us > latest_s * 1e6:
        raise Unreadable(arrival.AFTER)
    return time_us
