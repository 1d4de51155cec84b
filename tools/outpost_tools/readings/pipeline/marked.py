"""What the marking of a batch's messages returns, and what both kinds of it begin with: rows in
order, and which are copies (transforms.py: boards; foreign_marks.py: other people's messages)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from outpost_tools.readings.pipeline import clocks, schemas

_ORDER = ("code", "seq", "received", "collector", "segment", "offset", "record")


@dataclass(frozen=True)
class Marked:
    """The results for a batch: new readings, origins of its messages that conflict with another,
    rows of silver that another message displaces, rows of silver of which the whole message or an
    earlier copy has arrived, origins that leave quarantine, clocks that change the times of
    readings in silver, the state after the batch, the fingerprints of what is kept, each with its
    device, and the origins of messages that are refused, by reason."""

    readings: pa.Table
    conflicts: pa.Table
    displaced: pa.Table
    outgrown: pa.Table
    freed: pa.Table
    clocks: pa.Table
    state: pa.Table
    fingerprints: np.ndarray
    devices: pa.Table
    refused: dict[str, pa.Table] = field(default_factory=dict)


def joined(one: Marked, other: Marked) -> Marked:
    """Of different streams."""
    tables = ("readings", "conflicts", "displaced", "outgrown", "freed", "clocks", "state")
    both = [pa.concat_tables([getattr(one, name), getattr(other, name)]) for name in tables]
    prints = np.concatenate([one.fingerprints, other.fingerprints])
    devices = pa.concat_tables([one.devices, other.devices])
    return Marked(*both, prints, devices, one.refused | other.refused)


def nothing() -> dict[str, pa.Table]:
    """The fields of Marked that only boards' messages have."""
    return {
        "conflicts": schemas.ORIGINS.empty_table(),
        "displaced": schemas.READING.empty_table(),
        "freed": schemas.ORIGINS.empty_table(),
        "clocks": clocks.CHANGED.empty_table(),
    }


def in_order(rows: pa.Table) -> pa.Table:
    """By stream, number, arrival, place, record. A batch comes in the order of its logs, in which
    a message's rows are together and copies are rare, so a stable sort by the first two is mostly
    all that there is to do."""
    code, seq = (rows[name].to_numpy() for name in _ORDER[:2])
    rows = rows.take(np.lexsort((seq, code)))
    return rows if _is_in_order(rows) else rows.sort_by([(name, "ascending") for name in _ORDER])


def _is_in_order(rows: pa.Table) -> bool:
    """Whether no row precedes the one before it."""
    ties = np.ones(max(rows.num_rows - 1, 0), dtype=bool)
    for name in _ORDER:
        values = rows[name].combine_chunks()
        if pa.types.is_string(values.type):
            values = values.dictionary_encode()
            ranks = np.argsort(np.argsort(np.array(values.dictionary.to_pylist(), dtype=object)))
            values = ranks[values.indices.to_numpy()]
        else:
            values = values.cast(pa.int64()).to_numpy()
        if (ties & (values[1:] < values[:-1])).any():
            return False
        ties &= values[1:] == values[:-1]
    return True


def first_copies(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """For sorted rows: which belong to the first copy of their message, and which begin a copy."""
    if not rows.num_rows:
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    new_message = _changes(rows, ["code", "seq"])
    new_copy = new_message | _changes(rows, ["collector", "segment", "offset"])
    start_of_copy = np.maximum.accumulate(np.where(new_copy, np.arange(rows.num_rows), 0))
    return new_message[start_of_copy], new_copy


def _changes(rows: pa.Table, names: list[str]) -> np.ndarray:
    changed = np.ones(rows.num_rows, dtype=bool)
    changed[1:] = False
    for name in names:
        column = rows[name].combine_chunks()
        column = column.dictionary_encode().indices if pa.types.is_string(column.type) else column
        values = column.to_numpy(zero_copy_only=False)
        changed[1:] |= values[1:] != values[:-1]
    return changed
