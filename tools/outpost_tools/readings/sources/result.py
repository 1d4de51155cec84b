"""What a message becomes: readings, a device's state, nothing, or a reason. Values only."""

from __future__ import annotations

from typing import Literal

import msgspec

TimeFrom = Literal["device", "arrival", "unknown"]


class Reading(msgspec.Struct, frozen=True, gc=False):
    """One value. time_us: microseconds since 1970; None if neither the device nor the arrival says
    when."""

    name: str
    unit: str | None
    value: float
    time_us: int | None


class Message(msgspec.Struct, frozen=True):
    """The readings of one message.

    guarantee: a word of guarantee.py. native_id: what the sender calls this message, if it does.
    is_last_known: it was retained, so it is the last known value and not a new reading.
    left_out: the names, or paths, of values that could not be taken. note: what was wrong with its
    time; the readings then have the arrival's.
    """

    source: str
    device: str
    readings: list[Reading]
    time_from: TimeFrom
    guarantee: str
    native_id: str | None = None
    is_last_known: bool = False
    left_out: tuple[str, ...] = ()
    note: str = ""


class State(msgspec.Struct, frozen=True):
    """A device came, or went: the will of its connection, or its broker's word for it."""

    source: str
    device: str
    is_online: bool
    is_last_known: bool = False


class Ignored(msgspec.Struct, frozen=True):
    """The mapping says that this is not a reading. source: "" if a topic of `ignore`."""

    source: str
    why: str


class Refused(msgspec.Struct, frozen=True):
    """It cannot be read. reason: a short phrase, which quarantine shows beside the bytes. source:
    "" if no topic of the mapping matches."""

    reason: str
    source: str = ""
    device: str = ""


Result = Message | State | Ignored | Refused
