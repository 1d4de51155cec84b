"""Which copy of each message counts: silver's rules, in two readings of the log.

The first reading notes the numbers of each (device, stream) as ranges, and of a number that it has
seen before the copy's place and fingerprint. In the second reading the first copy of such a number
comes by before the noted ones, so it can be compared with all of them: the one received earliest
counts (of one millisecond, the first by collector, segment and offset), and copies that say
something else are conflicts.

Memory: 16 bytes for each gap in the numbers, and about 100 for each repeated copy; none for a
message that came once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import contents, schemas
from outpost_tools.pipeline.number_ranges import SEQ_BITS, grown, in_ranges

_OFFSET_BITS = 40  # of a segment
_PLACE = ("received", "collector", "segment", "offset")
_COPY = np.dtype([("key", "i8"), *((name, "i8") for name in _PLACE), ("said", "u8")])


@dataclass(frozen=True)
class _Heads:
    """The messages of some rows: where each one's rows begin, and its copy without `said`."""

    begins: np.ndarray
    copies: np.ndarray

    def lengths(self, rows: int) -> np.ndarray:
        return np.diff(self.begins, append=rows)


class Copies:
    """note() all rows in the order of the log, settle(), then keep() the same rows in the same
    order. Rows are those of whole messages of one collector, sorted by segment and offset."""

    def __init__(self, collectors: list[str]) -> None:
        self._collectors = collectors
        self._streams: dict[str, int] = {}
        self._ranges = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._noted: list[np.ndarray] = []
        self._again = np.zeros(0, _COPY)  # sorted by key and place
        self._wins = np.zeros(0, dtype=bool)
        self._said: list[np.ndarray] = []  # by the first copies of messages that came again
        self.messages = self.repeats = 0

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
            firsts, best = _with_said(rows, heads, came_again), best[came_again]
            self._said.append(firsts)
            loses = _is_earlier(self._again[best], firsts)
            kept[np.flatnonzero(came_again)[loses]] = False
            self._wins[best[loses]] = True
        kept[~is_first] = self._wins[noted[~is_first]]
        return np.repeat(kept, heads.lengths(rows.num_rows))

    def conflicts(self) -> Counter[str]:
        """By device: contents that have the number of another message and are not exported."""
        copies = np.concatenate([self._again, *self._said])
        copies = copies[np.lexsort([copies["said"], copies["key"]])]
        is_same = copies["key"][1:] == copies["key"][:-1]
        is_same &= copies["said"][1:] != copies["said"][:-1]  # each contents once
        extra = copies["key"][1:][is_same] >> SEQ_BITS
        names = list(self._streams)
        return Counter(names[code].split("/")[0] for code in extra.tolist())

    def _noted_here(self, heads: _Heads) -> np.ndarray:
        """Of each message its index in _again; -1 for the first copy of its number."""
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
        segment, offset = (rows[name].to_numpy() for name in ("segment", "offset"))
        is_new = np.ones(rows.num_rows, dtype=bool)
        is_new[1:] = (segment[1:] != segment[:-1]) | (offset[1:] != offset[:-1])
        begins = np.flatnonzero(is_new)
        first = rows.select([*schemas.KEY, "seq", *_PLACE]).take(begins)
        copies = np.zeros(len(begins), _COPY)
        if len(begins):
            copies["key"] = (self._codes(first) << SEQ_BITS) + first["seq"].to_numpy()
            copies["received"] = first["received"].cast(pa.int64()).to_numpy()
            copies["collector"] = self._collectors.index(first["collector"][0].as_py())
            copies["segment"], copies["offset"] = segment[begins], offset[begins]
        return _Heads(begins, copies)

    def _codes(self, rows: pa.Table) -> np.ndarray:
        """A number for each (device, stream)."""
        names = pc.binary_join_element_wise(*(rows[name] for name in schemas.KEY), "/")
        encoded = names.combine_chunks().dictionary_encode()
        known = self._streams
        codes = [known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()]
        return np.array(codes, np.int64)[encoded.indices.to_numpy()]


def _in_order(*copies: np.ndarray) -> list[np.ndarray]:
    """One number for each copy of one collector, that grows with segment and offset."""
    known = np.unique(copies[0]["segment"])
    return [
        (np.searchsorted(known, some["segment"]) << _OFFSET_BITS) + some["offset"]
        for some in copies
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
