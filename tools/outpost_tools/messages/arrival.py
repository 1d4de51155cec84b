"""What a message's arrival shows about the times of its readings. Tables, export, live page and
republisher all use this rule.

An arrival is evidence, not truth: it limits the times of readings only if the clock that measured
it was known to be set. machine_clock.py decides whether it was, and each frame records the answer
(`segment_frames.FLAG_CLOCK_UNSET`). So a wrong clock may cost a reading its time, but never the
reading itself. An arrival before July 1978 (labels.MIN_TIME_S) sets no limit either.

If readings were refused because a wrong clock was believed to be set, `outpost pipeline replay`
releases them; is_disproved() decides when. limits() is for one message, limits_of() for whole
columns; a test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpost_tools.messages import labels

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

LONG_BEFORE, AFTER = "time long before its arrival", "time after its arrival"  # ends of reasons
_DAY_S = 86_400


def limits(received_s: float | None) -> tuple[float, float]:
    """(earliest, latest) possible time of readings that arrived at `received_s`, both inclusive, in
    seconds since 1970. None: the arrival is not known."""
    if received_s is None or received_s < labels.MIN_TIME_S:
        return labels.MIN_TIME_S, labels.MAX_TIME_S
    earliest = max(labels.MIN_TIME_S, received_s - labels.MAX_AGE_S)
    return earliest, min(labels.MAX_TIME_S, received_s + labels.MAX_AHEAD_S)


def limits_of(
    received: np.ndarray, is_unset: np.ndarray, per_second: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """limits() for columns, in units of 1 / `per_second` seconds. is_unset: whether the clock of
    the arrival was not known to be set."""
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
    """Whether the arrival that caused a refusal is, or may be, wrong, judged at `now_s`: the
    arrival is still in the future; or the newest reading is later than the arrival, and its time
    has come. Both allow for a day. If a board's clock is ahead of `now_s`, the refusal stands."""
    tomorrow_s = now_s + _DAY_S
    is_past = newest_s is not None and received_s < newest_s <= tomorrow_s
    return received_s > tomorrow_s or is_past


def seen_ms(received_ms: int, now_ms: int, newest_s: float | None, *, is_unset: bool) -> int:
    """The best estimate of a message's arrival, in ms: not after `now_ms`, and not before its
    newest reading if the clock of the arrival was not known to be set."""
    if is_unset and newest_s is not None:
        received_ms = max(received_ms, round(newest_s * 1000))
    return min(received_ms, now_ms)


def seen_of(rows: pa.Table) -> pa.ChunkedArray:
    """The best estimate of the arrival of readings: their own time if the clock of the arrival was
    not known to be set. rows: received, time, placed, clock_unset of schemas.READING."""
    import pyarrow.compute as pc

    is_own = pc.and_(pc.is_valid(rows["time"]), pc.is_null(rows["placed"]))
    return pc.if_else(
        pc.and_(is_own, pc.is_valid(rows["clock_unset"])), rows["time"], rows["received"]
    )
