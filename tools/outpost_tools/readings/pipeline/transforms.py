"""From decoded frames to silver: an engine groups, Arrow functions do the rest.

This is where exactness comes from. For each (device, stream), the numbers already in silver are
known as ranges. A micro-batch is grouped with them, the first copy of each new number is kept, and
the ranges grow. A copy with different contents is not a duplicate: it is kept as a conflict
(conflicts.py). There is no watermark: a replay of last year's outbox is as good as today's reading,
and the state grows with gaps, not with messages. Rejected: dropDuplicates (state of every key), a
join with silver (scans all of it as soon as an old replay widens the range).

The group that a function sees is a bucket of many streams: a Python call takes a millisecond
whatever it processes, and calls for a thousand boards would take a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import (
    clocks,
    conflicts,
    delta,
    displaced,
    fingerprints,
    foreign_marks,
    foreign_rows,
    marked,
    moves,
    packed,
    parts,
    promises,
    quarantine,
    schemas,
    tables,
)
from outpost_tools.readings.pipeline.logs import Log
from outpost_tools.readings.pipeline.marked import Marked
from outpost_tools.readings.pipeline.number_ranges import SEQ_BITS, grown, in_ranges
from outpost_tools.store.base import Store

_HEADS = ["code", *schemas.KEY, "seq", "boot", *schemas.PLACE]
Stored = Callable[[set[tuple[str, str, int]]], pa.Table]


def nothing_stored(wanted: set[tuple[str, str, int]]) -> pa.Table:
    return schemas.READING.empty_table()


@dataclass(frozen=True)
class Sources:
    """What a batch's tasks read besides it, all as it was before the batch: the log, the tables,
    the files of the state and of the known fingerprints by bucket, the versions of silver and of
    quarantine, the time before which readings were deleted, and the text of the mapping for other
    people's messages, if there is one. A batch that is repeated because its driver died between the
    commits of two tables must find what it found the first time."""

    log: Log
    tables_dir: Store
    state_files: dict[int, list[dict]]
    print_files: dict[int, list[dict]]
    silver_version: int
    quarantine_version: int
    deleted_us: int
    mapping: str = ""

    def bytes_of(self, collector: str, number: int) -> bytes:
        """A segment of the log, or the frames that a replay has freed. Raises FileNotFoundError."""
        if collector != schemas.REPLAY:
            return self.log.read(collector, number)
        return quarantine.segment(self.tables_dir / "quarantine", number, self.quarantine_version)

    def stored(self, wanted: set[tuple[str, str, int]]) -> pa.Table:
        """The rows that silver has for these messages."""
        return displaced.stored(self.tables_dir / "readings", wanted, self.silver_version)

    def refused(self, wanted: set[tuple[str, str, int]]) -> pa.Table:
        """The rows of these messages in quarantine, which conflict with others."""
        return quarantine.conflicting(
            self.tables_dir / "quarantine", wanted, self.quarantine_version
        )

    def states(self, readings: pa.Table) -> pa.Table:
        """The state before the batch, for the streams in all buckets of these readings."""
        files = _of_buckets(self.state_files, readings)
        return tables.read_files(
            self.tables_dir / "streams", map(delta.name_of, files), schemas.STREAM
        )

    def known(self, readings: pa.Table) -> fingerprints.Known:
        """The fingerprints of all messages in the buckets of these readings, before the batch."""
        names = map(delta.name_of, _of_buckets(self.print_files, readings))
        return fingerprints.Known(place=self.tables_dir / fingerprints.TABLE, files=names)


def _of_buckets(files: dict[int, list[dict]], readings: pa.Table) -> list[dict]:
    buckets = np.unique(packed.buckets_of(readings)).tolist()
    return [one for bucket in buckets for one in files.get(bucket, [])]


@dataclass(frozen=True)
class Marker:
    """Marks a group of a batch's rows and writes its files: rows of moves.RESULT, the files and
    what moves in silver."""

    sources: Sources

    def __call__(self, group: int, rows: pa.Table) -> pa.Table:
        sources, (readings, refused) = self.sources, packed.unpack(rows)
        found = self._marked(readings)
        more = [conflicts.refused(found.conflicts, sources.bytes_of, found.displaced)]
        for reason, origins in found.refused.items():
            more.append(conflicts.refused(origins, sources.bytes_of, reason=reason))
        written = [*self._written(found, pa.concat_tables([refused, *more]))]
        written += self._prints(found)
        lost = [found.displaced, found.outgrown]
        return moves.result(written, [found.clocks], lost, [found.freed])

    def _marked(self, readings: pa.Table) -> Marked:
        sources = self.sources
        state, known = sources.states(readings), sources.known(readings)
        ours, theirs = _apart(readings, promises.are_foreign(readings))
        of_ours, of_theirs = _apart(state, foreign_marks.is_state(state))
        more = (sources.stored, sources.refused, sources.deleted_us)
        boards = mark_streams(ours, of_ours, known, *more)
        if not theirs.num_rows:
            return replace(boards, state=pa.concat_tables([boards.state, of_theirs]))
        limits = foreign_rows.mapping_of(sources.mapping).limits
        return marked.joined(
            boards, foreign_marks.mark(theirs, of_theirs, known, sources.stored, limits)
        )

    def _written(self, found: Marked, refused: pa.Table) -> Iterator[dict]:
        """The files of what is new, and of the state of each bucket."""
        tables_dir = self.sources.tables_dir
        yield from tables.write_readings(tables_dir, found.readings)
        if refused.num_rows:
            yield delta.write(tables_dir / "quarantine", refused)
        for bucket, states in packed.split(found.state, packed.BUCKETS):
            yield delta.write(tables_dir / "streams", states, str(bucket), "bucket")

    def _prints(self, found: Marked) -> Iterator[dict]:
        """The files of fingerprints of each bucket, and those that they replace."""
        sources, of_row = self.sources, packed.buckets_of(found.devices)
        place = sources.tables_dir / fingerprints.TABLE
        for bucket in np.unique(of_row).tolist():
            files = sources.print_files.get(bucket, [])
            new = found.fingerprints[of_row == bucket]
            made, gone = fingerprints.added(place, files, bucket, new)
            yield from made
            yield from (moves.gone(one) for one in gone)


def _apart(rows: pa.Table, is_foreign: np.ndarray) -> tuple[pa.Table, pa.Table]:
    """(of boards, of other people's messages)"""
    if not is_foreign.any():
        return rows, rows.slice(0, 0)
    return rows.filter(pa.array(~is_foreign)), rows.filter(pa.array(is_foreign))


def mark_streams(
    rows: pa.Table,
    state: pa.Table,
    known: fingerprints.Known,
    stored: Stored = nothing_stored,
    refused: Stored = nothing_stored,
    deleted_us: int = 0,
) -> Marked:
    """Mark `rows` of this batch, given the `state` of their streams (others are passed on)."""
    names, row_codes, state_codes = _coded(rows, state)
    rows = marked.in_order(rows.append_column("code", row_codes))
    code = rows["code"].to_numpy()
    old = _bounds(state, state_codes)
    first_copy, copies = marked.first_copies(rows)
    begins = np.flatnonzero(copies)
    key = (code[begins] << SEQ_BITS) + rows["seq"].to_numpy()[begins]
    is_old, lengths = in_ranges(key, old), np.diff(begins, append=len(code))
    prints = fingerprints.of_messages(rows, begins)
    fresh = first_copy[begins] & ~is_old
    differs = _differing(prints, fresh, known)
    heads = rows.select(_HEADS).take(begins)
    latest = _latest(state, state_codes, len(names))
    is_early = is_old & (_received(heads) <= latest[code[begins]])
    contested = np.isin(key, key[differs | is_early])
    all_rows, at = rows.select(schemas.READING.names), np.flatnonzero(contested)
    found = parts.settle(all_rows, begins, at, differs, is_old, stored, refused, deleted_us)
    kept, lost, taking = _chosen(found, begins)
    kept |= fresh & ~contested
    clock = _clocks(state, rows.filter(pa.array(np.repeat(kept | lost, lengths))))
    after = _next_state(names, grown(old, key[fresh]), clock)
    changed, after["open_boots"] = _open_boots(rows, state, state_codes, clock, names)
    after |= _sums(state, state_codes, rows, begins, len(names)) | _arrived(latest, code, rows)
    heads = heads.append_column("conflicts", pa.array(lost | taking))
    said, more = heads.filter(pa.array(kept | lost)), _more_conflicts(found.more, names)
    after |= conflicts.next_state(state, state_codes, said, len(names), more)
    states = pa.table([after[one.name] for one in schemas.STREAM], schema=schemas.STREAM)
    new = rows.filter(pa.array(np.repeat(kept, lengths))).select(schemas.READING.names)
    readings = clocks.place(parts.joined([new, *found.taken], schemas.READING), clock)
    moved = (_origins(heads, lost), *parts.moved(found), changed)
    return Marked(readings, *moved, states, prints[kept | lost], said.select(["device"]))


def _origins(heads: pa.Table, which: np.ndarray) -> pa.Table:
    return heads.select(schemas.ORIGIN).filter(pa.array(which))


def _chosen(found: parts.Settled, begins: np.ndarray) -> list[np.ndarray]:
    return [_which(at, begins) for at in (found.kept, found.refused, found.taking)]


def _which(places: list[int], begins: np.ndarray) -> np.ndarray:
    found = np.zeros(len(begins), dtype=bool)
    found[places] = True
    return found


def _more_conflicts(more: Counter[parts.Name], names: pa.Array) -> np.ndarray:
    """How many conflicts each stream has got."""
    found = np.zeros(len(names), np.int64)
    for (device, stream, _), count in more.items():
        found[pc.index(names, f"{device}/{stream}").as_py()] += count
    return found


def _clocks(state: pa.Table, rows: pa.Table) -> pa.Table:
    """The clocks known after the batch; from all messages, so that they do not depend on which of
    two conflicting messages came in which batch."""
    return clocks.lowest(pa.concat_tables([clocks.from_state(state), clocks.from_readings(rows)]))


def _received(rows: pa.Table) -> np.ndarray:
    return rows["received"].cast(pa.int64()).to_numpy()


def _latest(state: pa.Table, codes: np.ndarray, streams: int) -> np.ndarray:
    """When each stream's last message before the batch arrived; microseconds."""
    latest = np.full(streams, -1)
    latest[codes] = pc.fill_null(state["received_max"], np.iinfo(np.int64).max).to_numpy()
    return latest


def _arrived(latest: np.ndarray, code: np.ndarray, rows: pa.Table) -> dict[str, pa.Array]:
    np.maximum.at(latest, code, _received(rows))
    return {"received_max": pa.array(latest)}


def _open_boots(
    rows: pa.Table, state: pa.Table, codes: np.ndarray, clock: pa.Table, names: pa.Array
) -> tuple[pa.Table, pa.Array]:
    """(clocks that are new, for boots of which silver has readings without a time of their own; for
    each stream, the boots with such readings after the batch)."""
    before = clocks.boots_of_state(state)
    after = clocks.with_open_boots(rows, before)
    at = pc.index_in(_names(after), value_set=names).to_numpy().astype(np.int64)
    return clocks.changed(clock, clocks.from_state(state), before), clocks.boots_to_state(
        after, len(names), at
    )


def _differing(prints: np.ndarray, fresh: np.ndarray, known: fingerprints.Known) -> np.ndarray:
    """Which copies are neither fresh nor equal in contents to another copy of their message."""
    repeats = np.ones(len(prints), dtype=bool)
    repeats[np.unique(prints, return_index=True)[1]] = False
    differs = ~repeats & ~fresh
    differs[differs] = ~known.contains(prints[differs])
    return differs


def _coded(rows: pa.Table, state: pa.Table) -> tuple[pa.Array, pa.Array, np.ndarray]:
    """(distinct "device/stream", their index for each row, for each state)."""
    all_names = pa.chunked_array(
        [*_names(rows).chunks, *_names(state).chunks], pa.string()
    ).combine_chunks()
    encoded = all_names.dictionary_encode()
    codes = encoded.indices.cast(pa.int64())
    return (
        encoded.dictionary,
        codes[: rows.num_rows],
        codes[rows.num_rows :].to_numpy(zero_copy_only=False),
    )


def _names(table: pa.Table) -> pa.ChunkedArray:
    parts = (table[name] for name in schemas.KEY)  # neither has a slash
    return pc.binary_join_element_wise(*parts, "/")


def _bounds(state: pa.Table, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(firsts, lasts) of the ranges of all streams, ascending, with the stream's code above the
    number."""
    lists = state["ranges"].combine_chunks()
    flat = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    keys = (codes[parents] << SEQ_BITS) + flat
    order = np.argsort(keys[0::2], kind="stable")
    return keys[0::2][order], keys[1::2][order]


def _next_state(
    names: pa.Array, bounds: tuple[np.ndarray, np.ndarray], known: pa.Table
) -> dict[str, pa.Array]:
    keys = np.stack(bounds, axis=1).ravel()
    codes = bounds[0] >> SEQ_BITS
    offsets = np.concatenate([[0], np.cumsum(2 * np.bincount(codes, minlength=len(names)))])
    ranges = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys & ((1 << SEQ_BITS) - 1))
    )
    clock_codes = pc.index_in(_names(known), value_set=names).to_numpy().astype(np.int64)
    parts = pc.split_pattern(names, "/")
    device, stream = (pc.list_element(parts, index) for index in (0, 1))
    return {
        "device": device,
        "stream": stream,
        "ranges": ranges,
        "clocks": clocks.to_state(known, len(names), clock_codes),
        "names": pa.nulls(len(names), schemas.STREAM.field("names").type),
    }


def _sums(
    state: pa.Table, state_codes: np.ndarray, rows: pa.Table, begins: np.ndarray, streams: int
) -> dict:
    """copies, held_min and held_max of every stream, old and new combined."""
    code, held = rows["code"].to_numpy(), rows["held"].to_numpy()
    counts = np.bincount(code[begins], minlength=streams)
    lowest, highest = np.full(len(counts), np.iinfo(np.int64).max), np.full(len(counts), -1)
    np.minimum.at(lowest, code, held)
    np.maximum.at(highest, code, held)
    if state.num_rows:
        counts[state_codes] += state["copies"].to_numpy()
        lowest[state_codes] = np.minimum(lowest[state_codes], state["held_min"].to_numpy())
        highest[state_codes] = np.maximum(highest[state_codes], state["held_max"].to_numpy())
    return {"copies": pa.array(counts), "held_min": pa.array(lowest), "held_max": pa.array(highest)}
