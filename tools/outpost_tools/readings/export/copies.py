"""Which copy of each message counts: silver's rules, in two passes over the log.

The first pass notes the numbers of each (device, stream) as ranges. When it sees a number again, it
notes the copy's place and fingerprint. In the second pass, the first copy of such a number comes
before the noted ones, so it can be compared with all of them. The one received earliest counts (in
the same millisecond, the first by collector, segment and offset), and copies with different
contents are conflicts, unless one has all readings of the other. To find out, the copies of such a
number are read once more, each at its place: the pipeline's parts.py decides which one counts.

Memory: 16 bytes for each gap in the numbers, and about 100 for each repeated copy; none for a
message that came once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline import contents, parts, schemas
from outpost_tools.readings.pipeline.number_ranges import SEQ_BITS, grown, in_ranges

OFFSET_BITS = 40  # of a segment
_GROUPS_READ = 128  # numbers whose copies differ: bounds the rows in memory
_PLACE = ("received", "collector", "segment", "offset")
_COPY = np.dtype([("key", "i8"), *((name, "i8") for name in _PLACE), ("said", "u8")])

ReadAt = Callable[[list[tuple[str, int, int]]], pa.Table]


@dataclass(frozen=True)
class _Heads:
    """The messages in some rows: where the rows of each begin, and its copy without `said`."""

    begins: np.ndarray
    copies: np.ndarray

    def lengths(self, rows: int) -> np.ndarray:
        return np.diff(self.begins, append=rows)


class Copies:
    """Call note() with all rows in the order of the log, settle(), then keep() with the same rows
    in the same order. Rows are those of whole messages of one collector, sorted by segment and
    offset.

    read_at: returns the rows of the messages at these (collector, segment, offset), in this order.

    conflicts: by device, contents with the number of another message, which are not exported.
    """

    def __init__(self, collectors: list[str], read_at: ReadAt) -> None:
        self._collectors, self._read_at = collectors, read_at
        self._streams: dict[str, int] = {}
        self._ranges = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._noted: list[np.ndarray] = []
        self._again = np.zeros(0, _COPY)  # sorted by key and place
        self._wins = np.zeros(0, dtype=bool)
        self.messages = self.repeats = 0
        self.conflicts: Counter[str] = Counter()

    def note(self, rows: pa.Table) -> None:
        heads = self._heads(rows)
        keys = heads.copies["key"]
        order = np.argsort(keys, kind="stable")
        is_first = np.ones(len(keys), dtype=bool)
        is_first[order[1:]] = keys[order[1:]] != keys[order[:-1]]
        is_first &= ~in_ranges(keys, self._ranges)
        self._ranges = grown(self._ranges, np.sort(keys[is_first]))
        self.messages += len(keys)
        self.repeats += int(np.count_nonzero(~is_first))
        if not is_first.all():
            self._noted.append(_with_said(rows, heads, ~is_first))

    def settle(self) -> None:
        again = np.concatenate([self._again, *self._noted])
        self._noted = []
        order = np.lexsort([again[name] for name in (*reversed(_PLACE), "key")])
        self._again = again[order]
        self._wins = np.zeros(len(again), dtype=bool)
        by_place = ("collector", "segment", "offset")
        self._by_place = np.lexsort([self._again[name] for name in reversed(by_place)])
        self._at = 0  # in _by_place

    def keep(self, rows: pa.Table) -> np.ndarray:
        """Which rows count."""
        heads = self._heads(rows)
        noted = self._noted_here(heads)
        is_first = noted < 0
        kept = is_first.copy()
        best = np.searchsorted(self._again["key"], heads.copies["key"])
        came_again = is_first & (best < len(self._again))
        came_again[came_again] = (
            self._again["key"][best[came_again]] == heads.copies["key"][came_again]
        )
        if came_again.any():
            firsts = _with_said(rows, heads, came_again)
            kept[came_again] = self._choose(firsts, best[came_again])
        kept[~is_first] = self._wins[noted[~is_first]]
        return np.repeat(kept, heads.lengths(rows.num_rows))

    def _choose(self, firsts: np.ndarray, best: np.ndarray) -> np.ndarray:
        """Which of these first copies count; otherwise a noted copy of the number wins. best: where
        the noted copies of each one's number begin in _again."""
        loses = _is_earlier(self._again[best], firsts)
        self._wins[best[loses]] = True
        counts = np.searchsorted(self._again["key"], firsts["key"], side="right") - best
        group = np.repeat(np.arange(len(firsts)), counts)
        noted = np.arange(len(group)) + np.repeat(best - np.cumsum(counts) + counts, counts)
        differs = np.unique(group[self._again["said"][noted] != firsts["said"][group]])
        for begin in range(0, len(differs), _GROUPS_READ):
            some = differs[begin : begin + _GROUPS_READ]
            theirs = noted[np.isin(group, some)]
            wins = self._settle_differing(np.concatenate([firsts[some], self._again[theirs]]))
            loses[some], self._wins[theirs] = ~wins[: len(some)], wins[len(some) :]
        return ~loses

    def _settle_differing(self, copies: np.ndarray) -> np.ndarray:
        """Which copies of some numbers count, one for each number; counts the conflicts."""
        order = np.lexsort([copies[name] for name in (*reversed(_PLACE), "key")])
        order = order[np.sort(np.unique(copies["said"][order], return_index=True)[1])]
        once = copies[order]  # each different contents, at its first place
        fresh = np.diff(once["key"], prepend=-1) != 0
        names = [self._collectors[code] for code in once["collector"].tolist()]
        places = zip(names, once["segment"].tolist(), once["offset"].tolist(), strict=True)
        rows = self._read_at(list(places))
        readings, groups = parts.of_messages(rows, _begins(rows)), np.flatnonzero(fresh)
        wins = np.zeros(len(copies), dtype=bool)
        streams = [name.split("/")[0] for name in self._streams]
        for begin, end in zip(groups, [*groups[1:], len(once)], strict=True):
            counts, conflicts = parts.chosen(readings[begin:end])
            wins[order[begin + counts]] = True
            if conflicts:
                self.conflicts[streams[once["key"][begin] >> SEQ_BITS]] += len(conflicts)
        return wins

    def _noted_here(self, heads: _Heads) -> np.ndarray:
        """For each message, its index in _again; -1 for the first copy of its number."""
        found = np.full(len(heads.begins), -1)
        if not len(found) or self._at == len(self._by_place):
            return found
        places = self._again[self._by_place[self._at : self._at + len(found)]]
        last = heads.copies[-1]
        own = (places["collector"] == last["collector"]) & (places["segment"] <= last["segment"])
        here, theirs = _in_order(heads.copies, places[own])
        at = np.minimum(np.searchsorted(here, theirs), len(here) - 1)
        if not np.array_equal(here[at], theirs):
            raise ToolError("the log was changed while it was read; run the export again")
        found[at] = self._by_place[self._at : self._at + len(theirs)]
        self._at += len(theirs)
        return found

    def _heads(self, rows: pa.Table) -> _Heads:
        begins = _begins(rows)
        first = rows.select([*schemas.KEY, "seq", *_PLACE]).take(begins)
        copies = np.zeros(len(begins), _COPY)
        if len(begins):
            copies["key"] = (self._codes(first) << SEQ_BITS) + first["seq"].to_numpy()
            copies["received"] = first["received"].cast(pa.int64()).to_numpy()
            copies["collector"] = self._collectors.index(first["collector"][0].as_py())
            copies["segment"], copies["offset"] = first["segment"], first["offset"]
        return _Heads(begins, copies)

    def _codes(self, rows: pa.Table) -> np.ndarray:
        """A number for each (device, stream)."""
        names = pc.binary_join_element_wise(*(rows[name] for name in schemas.KEY), "/")
        encoded = names.combine_chunks().dictionary_encode()
        known = self._streams
        codes = [known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()]
        return np.array(codes, np.int64)[encoded.indices.to_numpy()]


def _begins(rows: pa.Table) -> np.ndarray:
    """Where the rows of each message begin."""
    is_new = np.ones(rows.num_rows, dtype=bool)
    is_new[1:] = False
    names = rows["collector"].combine_chunks().dictionary_encode().indices
    for values in (names, rows["segment"], rows["offset"]):
        numbers = values.to_numpy()
        is_new[1:] |= numbers[1:] != numbers[:-1]
    return np.flatnonzero(is_new)


def _in_order(*copies: np.ndarray) -> list[np.ndarray]:
    """A number for each copy of one collector that increases with segment and offset."""
    known = np.unique(copies[0]["segment"])
    return [
        (np.searchsorted(known, some["segment"]) << OFFSET_BITS) + some["offset"] for some in copies
    ]


def _with_said(rows: pa.Table, heads: _Heads, chosen: np.ndarray) -> np.ndarray:
    """The copies of the chosen messages, with their fingerprints."""
    copies, lengths = heads.copies[chosen].copy(), heads.lengths(rows.num_rows)
    theirs = rows.filter(pa.array(np.repeat(chosen, lengths)))
    begins = np.cumsum(lengths[chosen]) - lengths[chosen]
    copies["said"] = contents.of_messages(theirs, begins)
    return copies


def _is_earlier(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    earlier, same = np.zeros(len(one), dtype=bool), np.ones(len(one), dtype=bool)
    for name in _PLACE:
        earlier |= same & (one[name] < other[name])
        same &= one[name] == other[name]
    return earlier
