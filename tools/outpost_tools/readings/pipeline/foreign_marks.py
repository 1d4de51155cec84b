"""Which of other people's messages are new: the same question as in transforms.py, for messages
without numbers.

Law: of the messages with one identity, the one received first is in silver, whatever batches they
came in; one without an identity is in silver once for each place in the log.

The identities seen before are fingerprints (foreign_rows.py). The state of a stream says how many
messages it has, as a range from 0, and the names of its metrics. What the limits of the mapping do
not allow (sources.bounds) is refused, with its bytes, until the limits are raised and it is
replayed. A task sees one bucket of a source's devices, so each bucket has its share of the limit,
and four standard deviations: a source whose devices are within the limit does not notice.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import (
    fingerprints,
    foreign_rows,
    marked,
    packed,
    parts,
    schemas,
)
from outpost_tools.readings.pipeline.schemas import ORIGIN, PLACE
from outpost_tools.readings.sources.bounds import Names
from outpost_tools.readings.sources.schema import Limits

_HEAD = ["code", *schemas.KEY, "seq", "guarantee", "time", *PLACE]
_Streams = list[tuple[str, str]]


def is_state(state: pa.Table) -> np.ndarray:
    """Which rows of schemas.STREAM are of other people's messages."""
    return pc.is_valid(state["names"]).to_numpy()


def mark(
    rows: pa.Table, state: pa.Table, known: fingerprints.Known, stored: parts.Rows, limits: Limits
) -> marked.Marked:
    """Mark `rows` of this batch, given the `state` of their streams (others are passed on). stored:
    the rows of silver for such (device, stream, seq)."""
    streams, row_codes, state_codes = _coded(rows, state)
    rows = marked.in_order(rows.append_column("code", row_codes))
    first_copy, copies = marked.first_copies(rows)
    begins = np.flatnonzero(copies)
    heads, lengths = rows.select(_HEAD).take(begins), np.diff(begins, append=rows.num_rows)
    first, prints = first_copy[begins], foreign_rows.fingerprints(heads)
    is_old = foreign_rows.identified(heads) & first
    is_old[is_old] = known.contains(prints[is_old])
    names = _Seen(streams, state, state_codes, limits)
    refusals = names.take(rows, np.repeat(first & ~is_old, lengths), begins)
    is_taken = _of_whole_messages(refusals == "", first)
    new = first & ~is_old & is_taken
    earlier, outgrown = _earlier(heads, is_old, _latest(state, state_codes, len(streams)), stored)
    keep = pa.array(np.repeat(new | earlier, lengths))
    said = new & foreign_rows.identified(heads)
    return marked.Marked(
        readings=rows.filter(keep).select(schemas.READING.names).cast(schemas.READING),
        outgrown=outgrown,
        state=_state(state, state_codes, heads, new, is_taken, names),
        fingerprints=prints[said],
        devices=heads.filter(pa.array(said)).select(["device"]),
        refused=_by_reason(heads, refusals),
        **marked.nothing(),
    )


def _coded(rows: pa.Table, state: pa.Table) -> tuple[_Streams, pa.Array, np.ndarray]:
    """(distinct (device, stream), their index for each row, for each state)."""
    of_both = [
        chunk
        for table in (rows, state)
        for chunk in pc.binary_join_element_wise(
            *(table[name] for name in schemas.KEY), schemas.BETWEEN
        ).chunks
    ]
    encoded = pa.chunked_array(of_both, pa.string()).combine_chunks().dictionary_encode()
    codes = encoded.indices.cast(pa.int64())
    streams = [tuple(name.split(schemas.BETWEEN)) for name in encoded.dictionary.to_pylist()]
    return streams, codes[: rows.num_rows], codes[rows.num_rows :].to_numpy()


def _micros(column: pa.ChunkedArray) -> np.ndarray:
    return column.cast(pa.int64()).to_numpy()


def _latest(state: pa.Table, codes: np.ndarray, streams: int) -> np.ndarray:
    latest = np.full(streams, -1)
    latest[codes] = state["received_max"].to_numpy()
    return latest


def _earlier(
    heads: pa.Table, is_old: np.ndarray, latest: np.ndarray, stored: parts.Rows
) -> tuple[np.ndarray, pa.Table]:
    """(which copies were received before the one in silver, its rows)."""
    code, found = heads["code"].to_numpy(), np.zeros(len(is_old), dtype=bool)
    may_be = np.flatnonzero(is_old & (_micros(heads["received"]) <= latest[code]))
    if not len(may_be):
        return found, schemas.READING.empty_table()
    asked = {_key(row): at for at, row in zip(may_be, heads.take(may_be).to_pylist(), strict=True)}
    there = stored(set(asked))
    keep = np.zeros(there.num_rows, dtype=bool)
    for at, row in enumerate(there.select([*schemas.KEY, "seq", *PLACE]).to_pylist()):
        mine = asked[_key(row)]
        head = heads.slice(mine, 1).to_pylist()[0]
        keep[at] = [head[name] for name in PLACE] < [row[name] for name in PLACE]
        found[mine] |= keep[at]
    return found, there.filter(pa.array(keep))


def _of_whole_messages(is_it: np.ndarray, first: np.ndarray) -> np.ndarray:
    """For each copy, what is said of the first one of its message."""
    return is_it[first][np.cumsum(first) - 1] if len(first) else is_it


def _key(row: dict) -> parts.Name:
    return row["device"], row["stream"], row["seq"]


def _by_reason(heads: pa.Table, refusals: np.ndarray) -> dict[str, pa.Table]:
    return {
        reason: heads.select(ORIGIN).filter(pa.array(refusals == reason)).cast(schemas.ORIGINS)
        for reason in np.unique(refusals).tolist()
        if reason
    }


class _Seen:
    """The names of each stream's metrics, and what the limits refuse."""

    def __init__(
        self, streams: _Streams, state: pa.Table, codes: np.ndarray, limits: Limits
    ) -> None:
        self.streams, self._names = streams, Names(_share(limits.devices), limits.metrics)
        self._of: dict[int, set[str]] = {}
        for code, names in zip(codes.tolist(), state["names"].to_pylist(), strict=True):
            self._of[code] = self._know(code, names)

    def _know(self, code: int, names: list[str]) -> set[str]:
        device, source = self.streams[code]
        return self._names.know(source, device, names)

    def of(self, code: int) -> list[str]:
        return sorted(self._of[code])

    def take(self, rows: pa.Table, is_new: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """For each copy, the reason to refuse it, or "". is_new: rows of messages that come for the
        first time; begins: where the copies begin."""
        refusals = np.full(len(begins), "", dtype=object)
        for copy, (code, names) in self._with_new_names(rows, is_new, begins):
            device, source = self.streams[code]
            refusals[copy] = self._names.refuses(source, device, names)
            if not refusals[copy]:
                self._of.setdefault(code, self._know(code, []))
        return refusals

    def _with_new_names(self, rows: pa.Table, is_new: np.ndarray, begins: np.ndarray) -> list:
        """(copy, (code, names)), in the order of arrival."""
        which = np.flatnonzero(is_new)
        some = rows.select(["code", "name", *PLACE]).take(which)
        pairs = some.group_by(["code", "name"], use_threads=False).aggregate([]).to_pydict()
        unknown = {
            (code, name)
            for code, name in zip(pairs["code"], pairs["name"], strict=True)
            if name not in self._of.get(code, ())
        }
        if not unknown:
            return []
        found: dict[int, tuple[int, set[str]]] = defaultdict(lambda: (-1, set()))
        copies = (np.searchsorted(begins, which, side="right") - 1).tolist()
        columns = (some[name].to_pylist() for name in ("code", "name"))
        for copy, code, name in zip(copies, *columns, strict=True):
            if (code, name) in unknown:
                names = found[copy][1] | {name}
                found[copy] = (code, names)
        place = {copy: at for at, copy in enumerate(_arrival(rows.take(begins)).tolist())}
        return sorted(found.items(), key=lambda one: place[one[0]])


def _arrival(heads: pa.Table) -> np.ndarray:
    """The copies in the order of their arrival."""
    return pc.sort_indices(heads, sort_keys=[(name, "ascending") for name in PLACE]).to_numpy()


def _share(devices: int) -> int:
    mean = devices / packed.BUCKETS
    return math.ceil(mean + 4 * math.sqrt(mean))


def _state(
    state: pa.Table, codes: np.ndarray, heads: pa.Table, new: np.ndarray, counts: np.ndarray,
    names: _Seen,
) -> pa.Table:  # fmt: skip
    """counts: which copies do: those of messages that are not refused."""
    streams = names.streams
    code = heads["code"].to_numpy()
    messages, copies = np.zeros(len(streams), np.int64), np.zeros(len(streams), np.int64)
    if state.num_rows:
        ends = pc.list_flatten(state["ranges"].combine_chunks()).to_numpy()[1::2]
        messages[codes], copies[codes] = ends + 1, state["copies"].to_numpy()
    np.add.at(messages, code[new], 1)
    np.add.at(copies, code[counts], 1)
    latest = _latest(state, codes, len(streams))
    np.maximum.at(latest, code[counts], _micros(heads["received"])[counts])
    there = np.flatnonzero(messages).tolist()
    rows = [
        dict(zip(schemas.KEY, streams[one], strict=True))
        | {"ranges": [0, int(messages[one]) - 1], "copies": int(copies[one])}
        | {"held_min": 0, "held_max": 0, "clocks": [], "open_boots": []}
        | {"received_max": int(latest[one]), "names": names.of(one)}
        for one in there
    ]
    return pa.Table.from_pylist(rows, schema=schemas.STREAM)
