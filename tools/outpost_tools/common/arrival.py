"""What an arrival shows about the times of readings: the one rule of tables, export, live page and
republisher.

An arrival is evidence, not truth: it limits the times of readings only if the clock that it was
taken from was known to be set. A frame says whether it was (`segment_frames.FLAG_CLOCK_UNSET`), and
machine_clock.py decides it. So a clock that is wrong costs a place in time, never a reading.
An arrival from before 1978 says nothing either.

Readings that an arrival refused wrongly, because its clock was believed to be set, are freed by
`outpost pipeline replay`: is_disproved() says when. limits() is for one message, limits_of() for
whole columns; a test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpost_tools.common import labels

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

LONG_BEFORE, AFTER = "time long before its arrival", "time after its arrival"  # in reasons
_DAY_S = 86_400


def limits(received_s: float | None) -> tuple[float, float]:
    """(earliest, latest) time of readings that arrived then, both inclusive. None: at an unknown
    time."""
    if received_s is None or received_s < labels.MIN_TIME_S:
        return labels.MIN_TIME_S, labels.MAX_TIME_S
    earliest = max(labels.MIN_TIME_S, received_s - labels.MAX_AGE_S)
    return earliest, min(labels.MAX_TIME_S, received_s + labels.MAX_AHEAD_S)


def limits_of(
    received: np.ndarray, is_unset: np.ndarray, per_second: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The same for columns, in units of 1 / `per_second` seconds. is_unset: the clock of the
    arrival was not known to be set."""
    import numpy as np  # late: commands that read single messages start sooner

    lowest, highest = labels.MIN_TIME_S * per_second, labels.MAX_TIME_S * per_second
    known = (received >= lowest) & ~is_unset
    earliest = np.maximum(received - labels.MAX_AGE_S * per_second, lowest)
    latest = np.minimum(received + labels.MAX_AHEAD_S * per_second, highest)
    return np.where(known, earliest, lowest), np.where(known, latest, highest)


def is_refusal(reason: str) -> bool:
    """Whether a frame went to quarantine because of its arrival."""
    return reason.endswith((LONG_BEFORE, AFTER))


def is_disproved(received_s: float, newest_s: float | None, now_s: float) -> bool:
    """Whether the arrival of a frame that was refused because of it is, or may be, wrong by what is
    known at `now_s`: it has not come yet; or the newest reading, which was later, has come. A board
    whose clock is ahead of now stays refused."""
    tomorrow_s = now_s + _DAY_S
    is_past = newest_s is not None and received_s < newest_s <= tomorrow_s
    return received_s > tomorrow_s or is_past


def seen_ms(received_ms: int, now_ms: int, newest_s: float | None, *, is_unset: bool) -> int:
    """When a message arrived, as far as can be told: not after now, and not before its newest
    reading if the clock of its arrival was not known to be set."""
    if is_unset and newest_s is not None:
        received_ms = max(received_ms, round(newest_s * 1000))
    return min(received_ms, now_ms)


def seen_of(rows: pa.Table) -> pa.ChunkedArray:
    """When readings arrived, as far as can be told: at their own time if the clock of the arrival
    was not known to be set. rows: received, time, placed, clock_unset of schemas.READING."""
    import pyarrow.compute as pc

    is_own = pc.and_(pc.is_valid(rows["time"]), pc.is_null(rows["placed"]))
    return pc.if_else(
        pc.and_(is_own, pc.is_valid(rows["clock_unset"])), rows["time"], rows["received"]
    )
