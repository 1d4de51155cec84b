"""Messages of which only a part arrived: all its readings are among those of another message with
the same number.

A board sends such a series again after its power was cut while a sector was being erased: the
record had been released, the rest that the erase has left passes its check, and has fewer samples
(`firmware/SERIES_FORMAT.md`). That is not a conflict: the message with the most readings is in
silver, whichever came first, and the others count as its repeats. If two messages each contain a
third, but neither contains the other, silver has the one that was received first. `outpost
export` uses these rules too. If silver has lost readings of a message because their days were
deleted (`outpost pipeline delete --before`), the readings of those days count as present.

Arrow and numpy only; the caller supplies silver's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.pipeline import contents, schemas

_KEY = [*schemas.KEY, "seq"]
_NOTHING = schemas.READING.empty_table()
Stored = Callable[[set[tuple[str, str, int]]], pa.Table]


@dataclass(frozen=True)
class Found:
    """About the copies in a batch: which are only a part of another (is_part); which replace one of
    this batch (is_first) or of silver (is_taking) that is a part of them; and the rows of silver
    that they replace."""

    is_part: np.ndarray
    is_first: np.ndarray
    is_taking: np.ndarray
    outgrown: pa.Table


@dataclass
class _Best:
    """The message with the most readings so far; copy: -1 when it is in silver."""

    copy: int
    readings: Counter


def find(
    rows: pa.Table,
    begins: np.ndarray,
    key: np.ndarray,
    fresh: np.ndarray,
    differs: np.ndarray,
    stored: Stored,
    deleted_us: int = 0,
) -> Found:
    """Classify copies, which begin at `begins` in `rows` and are sorted by `key`, their message's,
    and by arrival. fresh: the first of a new number. differs: its contents differ from all known
    copies; silver is read only for these. deleted_us: silver has no readings from before then."""
    found = Found(*(np.zeros(len(begins), dtype=bool) for _ in range(3)), _NOTHING)
    suspects = np.flatnonzero(differs)
    if not len(suspects):
        return found
    ends = np.append(begins[1:], rows.num_rows)
    first = np.flatnonzero(fresh & np.isin(key, key[suspects]))
    known = suspects[~np.isin(key[suspects], key[first])]
    names = dict(zip(_names(rows.select(_KEY).take(begins[known])), key[known], strict=True))
    there = stored(set(names))
    keys = np.array([names[name] for name in _names(there)], key.dtype)
    cut = set(names.values()).difference(keys[_is_before(there, deleted_us)])

    def readings(copy: int) -> Counter:
        part = rows.slice(begins[copy], ends[copy] - begins[copy])
        if key[copy] in cut:
            part = part.filter(pa.array(~_is_before(part, deleted_us)))
        return Counter(contents.of_readings(part).tolist())

    best = {number: _Best(-1, Counter()) for number in names.values()} | _of_silver(there, keys)
    said = {copy: readings(copy) for copy in (*first.tolist(), *suspects.tolist())}
    best |= {key[copy]: _Best(copy, said[copy]) for copy in first.tolist()}
    for copy in suspects.tolist():  # in order of arrival, as if each were a batch of its own
        if _has_all_and_more(said[copy], best[key[copy]].readings):
            best[key[copy]] = _Best(copy, said[copy])
    _mark(found, key, set(key[first].tolist()), said, best)
    gone = there.filter(pa.array(np.isin(keys, key[found.is_taking])))
    return Found(found.is_part, found.is_first, found.is_taking, gone)


def _has_all_and_more(new: Counter, old: Counter) -> bool:
    """If `old` is empty, what silver had of this number was deleted."""
    return bool(old) and old < new


def _mark(
    found: Found,
    key: np.ndarray,
    fresh: set[int],
    said: dict[int, Counter],
    best: dict[int, _Best],
) -> None:
    """Mark which copies are the best of their number, and which are only parts of it."""
    for copy, readings in said.items():
        its_best = best[key[copy]]
        if copy == its_best.copy:
            (found.is_first if key[copy] in fresh else found.is_taking)[copy] = True
        elif readings <= its_best.readings:
            found.is_part[copy] = True


def _is_before(rows: pa.Table, deleted_us: int) -> np.ndarray:
    return pc.fill_null(rows["time"].cast(pa.int64()), deleted_us).to_numpy() < deleted_us


def _names(rows: pa.Table) -> list[tuple]:
    return list(zip(*(rows[name].to_pylist() for name in _KEY), strict=True))


def _of_silver(there: pa.Table, keys: np.ndarray) -> dict[int, _Best]:
    best: dict[int, _Best] = {}
    for key, reading in zip(keys.tolist(), contents.of_readings(there).tolist(), strict=True):
        best.setdefault(key, _Best(-1, Counter())).readings[reading] += 1
    return best
