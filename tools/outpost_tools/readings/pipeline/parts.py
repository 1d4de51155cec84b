"""Which of several messages with one number counts. It follows from the messages alone, never from
the batches that they came in or from the order in which logs were read.

- A message is a part of another if all its readings are among the other's. A board sends such a
  series again after its power was cut while a sector was being erased: the record had been
  released, the rest that the erase has left passes its check, and has fewer samples
  (`firmware/SERIES_FORMAT.md`). A part is a repeat, not a conflict.
- Of the others, the one received first counts: it is in silver. The rest are conflicts: in
  quarantine, once each, as their first copies.

So silver and quarantine together hold all that decides, and a later batch comes to the same result:
a part never counts, and of equal messages only the first place does. `outpost export` uses the same
rule. If silver has lost readings of a message because their days were deleted (`outpost pipeline
delete --before`), the readings of those days count as present.

Arrow and numpy only; the caller supplies the rows of silver and quarantine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import contents, schemas
from outpost_tools.readings.pipeline.schemas import ORIGIN, PLACE

_NAME = [*schemas.KEY, "seq"]
# Of more different messages with one number, none is looked at as a part: no board has so many.
_MOST_COMPARED = 100
Name = tuple[str, str, int]
Rows = Callable[[set[Name]], pa.Table]


def chosen(readings: list[Counter]) -> tuple[int, list[int]]:
    """(the message that counts, the conflicts) of these, in the order of their arrival."""
    first: dict[frozenset, int] = {}
    for place, one in enumerate(readings):
        first.setdefault(frozenset(one.items()), place)
    places = list(first.values())
    if len(places) <= _MOST_COMPARED:
        places = [at for at in places if not any(readings[at] < readings[to] for to in places)]
    return places[0], places[1:]


def of_messages(rows: pa.Table, begins: np.ndarray) -> list[Counter]:
    """The readings of each message as a multiset; begins: where its rows begin."""
    said, ends = contents.of_readings(rows).tolist(), np.append(begins[1:], rows.num_rows)
    return [Counter(said[a:b]) for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]


class _One(NamedTuple):
    """A message. copy: of the batch, else -1. rows: of silver or quarantine."""

    place: tuple
    readings: Counter
    copy: int = -1
    rows: pa.Table | None = None
    is_silver: bool = False

    @property
    def is_refused(self) -> bool:
        return self.copy < 0 and not self.is_silver


@dataclass
class Settled:
    """What contested numbers change. kept, refused: copies of the batch that go to silver and to
    quarantine; taken: rows for silver from quarantine; displaced: rows of silver that go to
    quarantine; outgrown: rows of silver for which others come, of the same message or of one that
    they are a part of; freed: ORIGINs that leave quarantine."""

    kept: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    taking: list[int] = field(default_factory=list)  # of `kept`, those that displace another
    taken: list[pa.Table] = field(default_factory=list)
    displaced: list[pa.Table] = field(default_factory=list)
    outgrown: list[pa.Table] = field(default_factory=list)
    freed: list[pa.Table] = field(default_factory=list)
    more: Counter[Name] = field(default_factory=Counter)  # conflicts than before


def settle(
    rows: pa.Table, begins: np.ndarray, copies: np.ndarray, is_new: np.ndarray, is_old: np.ndarray,
    stored: Rows, refused: Rows, deleted_us: int = 0,
) -> Settled:  # fmt: skip
    """copies: of the contested numbers, all that the batch has; they begin at `begins` in `rows`.
    is_new: contents that were never seen. is_old: silver has, or had, the number. stored, refused:
    the rows of silver, and those of conflicts in quarantine, for such names. deleted_us: silver has
    no readings from before then."""
    found = Settled()
    if not len(copies):
        return found
    ends = np.append(begins[1:], rows.num_rows)
    by_name: dict[Name, list[int]] = {}
    for name, copy in zip(_names(rows.take(begins[copies])), copies.tolist(), strict=True):
        by_name.setdefault(name, []).append(copy)
    known = {name for name, mine in by_name.items() if is_old[mine[0]]}
    there, others = _by_message(stored(known)), _by_message(refused(known))
    for name, mine in by_name.items():
        silver = there.get(name, [])
        is_cut = name in known and not any(_is_before(one, deleted_us).any() for one in silver)
        if name in known and not silver:  # all its days were deleted
            mine = [copy for copy in mine if is_new[copy]]
        ones = [
            _one(rows.slice(begins[copy], ends[copy] - begins[copy]), is_cut * deleted_us, copy)
            for copy in mine
        ]
        ones += [_one(one, is_cut * deleted_us, is_silver=True) for one in silver]
        ones += [_one(one, is_cut * deleted_us) for one in others.get(name, [])]
        _settle(found, name, sorted(ones, key=lambda one: one.place), name in known)
    return found


def _settle(found: Settled, name: Name, ones: list[_One], is_known: bool) -> None:
    silver = next((one for one in ones if one.is_silver), None)
    if is_known and silver is None:
        ones = [one for one in ones if one.readings]
    if not ones:
        return
    counts, conflicts = chosen([one.readings for one in ones])
    if is_known and silver is None:
        counts, conflicts = -1, [counts, *conflicts]
    lost = [ones[place] for place in conflicts]
    found.refused += [one.copy for one in lost if one.copy >= 0]
    freed = [one for one in ones if one.is_refused and not any(one is other for other in lost)]
    found.freed += [one.rows.select(ORIGIN).slice(0, 1) for one in freed]
    found.more[name] += sum(not one.is_refused for one in lost) - len(freed)
    if counts >= 0 and ones[counts] is not silver:
        _replace(found, silver, ones[counts], any(one is silver for one in lost))


def _replace(found: Settled, silver: _One | None, best: _One, is_lost: bool) -> None:
    """is_lost: what silver had is a conflict now."""
    if silver is not None:
        (found.displaced if is_lost else found.outgrown).append(silver.rows)
    if best.copy >= 0:
        found.kept.append(best.copy)
        found.taking += [best.copy] * is_lost
    else:
        found.taken.append(best.rows)


def _one(rows: pa.Table, deleted_us: int, copy: int = -1, *, is_silver: bool = False) -> _One:
    first = rows.slice(0, 1)
    place = tuple(first[name][0].as_py() for name in PLACE)
    if deleted_us:
        rows = rows.filter(pa.array(~_is_before(rows, deleted_us)))
    readings = Counter(contents.of_readings(rows).tolist())
    return _One(place, readings, copy, None if copy >= 0 else rows, is_silver)


def _is_before(rows: pa.Table, deleted_us: int) -> np.ndarray:
    return pc.fill_null(rows["time"].cast(pa.int64()), deleted_us).to_numpy() < deleted_us


def _by_message(rows: pa.Table) -> dict[Name, list[pa.Table]]:
    """The rows of each message, by its name."""
    places: dict[tuple, list[int]] = {}
    origins = zip(*(rows[name].to_pylist() for name in ORIGIN), strict=True)
    for row, key in enumerate(zip(_names(rows), origins, strict=True)):
        places.setdefault(key, []).append(row)
    found: dict[Name, list[pa.Table]] = {}
    for (name, _), at in places.items():
        found.setdefault(name, []).append(rows.take(at))
    return found


def _names(rows: pa.Table) -> Iterator[Any]:
    return zip(*(rows[name].to_pylist() for name in _NAME), strict=True)


def joined(parts: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(one.cast(schema) for one in parts)])


def moved(found: Settled) -> tuple[pa.Table, pa.Table, pa.Table]:
    """displaced, outgrown, freed."""
    rows = (joined(some, schemas.READING) for some in (found.displaced, found.outgrown))
    return (*rows, joined(found.freed, schemas.ORIGINS))
