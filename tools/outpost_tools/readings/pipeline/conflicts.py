"""Messages that have the same number as another one, with different contents.

A board never uses a number twice. So either two boards send under one identity (a cloned card, or
settings and outbox copied to a second board), or one board went back to numbers that it had used:
its flash was restored from an older image. Silver keeps the message that was received first; the
others go to quarantine with their bytes, as CONFLICT, once for each different contents.

The order of arrival distinguishes the two cases. A restored board goes back once, and continues
from there. Two boards alternate: after a conflict comes a number above all earlier ones that does
not follow the conflict's number, or numbers go back within one boot, which no restart explains. A
message that overtakes another (several collectors) can look like that once or twice, so TWIN_SIGNS
signs are needed to report two boards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from outpost_tools.log import segments
from outpost_tools.readings.pipeline import displaced, schemas
from outpost_tools.readings.pipeline.displaced import ORIGIN
from outpost_tools.readings.pipeline.quarantine import CONFLICT

TWIN_SIGNS = 3
BytesOf = Callable[[str, int], bytes]


def refused(
    origins: pa.Table,
    bytes_of: BytesOf,
    from_silver: pa.Table | None = None,
    reason: str = CONFLICT,
) -> pa.Table:
    """Rows of quarantine for the frames at these ORIGINs; their bytes are read from the log. For
    messages of silver the segment may be deleted; they are then rebuilt from their readings."""
    rows = [*_rows(origins, bytes_of, reason)]
    if from_silver is not None:
        rows += _displaced(from_silver, bytes_of)
    columns = zip(*rows, strict=True) if rows else [[] for _ in schemas.QUARANTINE]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, schemas.REFUSED, strict=True)
    ]
    return pa.table(arrays, schema=schemas.REFUSED)


def _rows(origins: pa.Table, bytes_of: BytesOf, reason: str = CONFLICT) -> Iterator[tuple]:
    by_segment = defaultdict(list)
    for collector, segment, offset in zip(*(origins[n].to_pylist() for n in ORIGIN), strict=True):
        by_segment[collector, segment].append(offset)
    for (collector, segment), offsets in sorted(by_segment.items()):
        found = segments.Contents(bytes_of(collector, segment))
        for offset in offsets:
            frame = next(found.frames(offset))
            said = (frame.topic.decode("utf-8", "replace"), frame.payload, frame.retained)
            origin = schemas.origin_of(frame, collector, segment)
            yield (reason, *said, frame.original_length, *origin)


def _displaced(rows: pa.Table, bytes_of: BytesOf) -> Iterator[tuple]:
    messages = defaultdict(list)
    for row in rows.to_pylist():
        messages[row["collector"], row["segment"], row["offset"]].append(row)
    for origin, readings in sorted(messages.items()):
        try:
            yield from _rows(pa.table([[one] for one in origin], names=ORIGIN), bytes_of)
        except FileNotFoundError:
            payload, received = displaced.rebuilt(readings), readings[0]["received"]
            topic = f"outpost/{readings[0]['device']}/data"
            unset = readings[0]["clock_unset"]
            yield (CONFLICT, topic, payload, False, len(payload), received, *origin, unset)


# --- Two boards, or one that went back ---


def next_state(
    state: pa.Table, codes: np.ndarray, kept: pa.Table, streams: int, more: np.ndarray
) -> dict:
    """The columns about conflicts for `streams` states. codes: of the rows of `state`.

    kept: messages of this batch, `conflicts` among them, with the `code` of their stream. more: how
    many conflicts each stream has got.
    """
    columns = _before(state, codes, streams)
    code, is_conflict = kept["code"].to_numpy(), kept["conflicts"].to_numpy()
    columns["conflicts"] += more
    watched = columns["last_conflicts"].copy()
    watched[code[is_conflict]] = True
    _follow(columns, kept.filter(pa.array(watched[code])))
    _take_last(columns, kept.filter(pa.array(~watched[code])))
    return {name: pa.array(columns[name], schemas.STREAM.field(name).type) for name in _COLUMNS}


_COLUMNS = ("conflicts", "twin_signs", "last_seq", "last_boot", "last_conflicts")


def _before(state: pa.Table, codes: np.ndarray, streams: int) -> dict[str, np.ndarray]:
    """The state before, with the `highest` number of each stream. Older tables have none of it."""
    columns = {name: np.zeros(streams, np.int64) for name in ("conflicts", "twin_signs")}
    columns |= {name: np.full(streams, -1) for name in ("last_seq", "last_boot", "highest")}
    columns["last_conflicts"] = np.zeros(streams, dtype=bool)
    for name in _COLUMNS:
        known = state[name].is_valid().to_numpy()
        columns[name][codes[known]] = state[name].drop_null().to_numpy()
    lists = state["ranges"].combine_chunks()
    if len(lists):
        columns["highest"][codes] = lists.values.to_numpy()[lists.offsets.to_numpy()[1:] - 1]
    return columns


def _take_last(columns: dict[str, np.ndarray], kept: pa.Table) -> None:
    """For streams without a conflict: which message came last. kept: sorted by code."""
    if not kept.num_rows:
        return
    code, received = kept["code"].to_numpy(), kept["received"].cast(pa.int64()).to_numpy()
    begins = np.flatnonzero(np.diff(code, prepend=code[0] - 1))
    latest = np.maximum.reduceat(received, begins)
    at = np.flatnonzero(received == np.repeat(latest, np.diff(begins, append=len(code))))
    for name in ("seq", "boot"):  # if several came at that moment, the last one wins
        columns[f"last_{name}"][code[at]] = kept[name].to_numpy()[at]


def _follow(columns: dict[str, np.ndarray], kept: pa.Table) -> None:
    """Message by message, for streams with conflicts."""
    kept = kept.sort_by([(name, "ascending") for name in ("received", *ORIGIN)])
    rows = (kept[name].to_pylist() for name in ("code", "seq", "boot", "conflicts"))
    for code, seq, boot, is_conflict in zip(*rows, strict=True):
        last_seq, after_conflict = columns["last_seq"][code], columns["last_conflicts"][code]
        highest = columns["highest"][code]
        if is_conflict:
            sign = not after_conflict and seq <= last_seq and boot == columns["last_boot"][code]
        else:
            sign = after_conflict and last_seq < highest < seq
        columns["twin_signs"][code] += sign
        columns["last_seq"][code], columns["last_boot"][code] = seq, boot
        columns["last_conflicts"][code] = is_conflict
        columns["highest"][code] = max(highest, seq)
