"""Reads all of other people's messages again, after a mapping was wrong: the log has their bytes.

Law: from one commit of quarantine to another, no round begins or ends; in between, the readings of
other people's messages leave the tables; the first commit holds the frames of all that the tables
have read, marked for the next round as replay() marks them. So a command that is killed is repeated
and goes on, and each message is read once by the mapping that was given.

Refused where segments that were read are deleted: their readings would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.readings.pipeline import (
    changes,
    delta,
    fingerprints,
    foreign_marks,
    foreign_rows,
    mappings,
    packed,
    plan,
    schemas,
    tables,
    upkeep,
)
from outpost_tools.readings.pipeline.logs import Log
from outpost_tools.readings.sources import belongs, guarantee
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.store.base import Store

_REASON = "to be read again"
_IS_FOREIGN = pc.field("guarantee") != guarantee.OUTPOST
_PART_BYTES = 32 << 20  # of frames that a task of the next round reads at once
_HEADS = ["device", "stream", "seq", "record", "time", "guarantee"]
Progress = Callable[[str], None]


def reread(log: Log, tables_dir: Store, sources: str, progress: Progress = lambda _: None) -> int:
    """How many frames the next round reads again, by the mapping with that text. Raises ToolError,
    OSError."""
    opened = delta.Opened(tables_dir)
    if not plan.is_rereading(opened["quarantine"]):
        _begin(log, tables_dir, sources, progress)
    devices = _devices(tables_dir)
    _delete(tables_dir, devices)
    table = delta.open_table(tables_dir / "quarantine")
    delta.commit(
        tables_dir / "quarantine", [], delta.Batch(plan.REREAD, delta.reached(table, plan.REREADS))
    )
    return _count(tables_dir / "quarantine")


def _begin(log: Log, tables_dir: Store, sources: str, progress: Progress) -> None:
    """The first commit."""
    mapping, place = foreign_rows.mapping_of(sources), tables_dir / "quarantine"
    number = mappings.keep(tables_dir, sources)
    for left in reversed(range(delta.TRIES)):
        table, last = delta.open_table(place), delta.open_table(tables_dir / "streams")
        upkeep.check_nothing_is_under_way(tables_dir)
        if plan.mark(table) != plan.mark(last):
            continue  # a round has ended meanwhile
        _check_complete(log, tables_dir, last)
        stays, gone = _without_foreign(table, mapping)
        first = delta.reached(table, plan.REPLAYS) + 1
        made, replays = _staged(log, last, mapping, place, first, progress)
        reread = max(delta.reached(table, plan.REREADS), 0) + 1
        said = {plan.REPLAYS: first + replays - 1, plan.MAPPING: number, plan.REREADS: reread}
        batches = [delta.Batch(*one) for one in said.items()]
        try:
            delta.commit(place, [*stays, *made], *batches, gone=gone, of=table)
            return
        except CommitFailedError:
            if not left:
                raise
    raise ToolError(f"{place}: a run changes it all the time; repeat this when it has ended")


def _read_of(log: Log, last: delta.Table) -> list[str]:
    """The collectors whose segments the tables have read."""
    return [name for name in log.collectors() if plan.taken(last, name) >= 0]


def _check_complete(log: Log, tables_dir: Store, last: delta.Table) -> None:
    """Raises ToolError."""
    names = {*_read_of(log, last), *_foreign(tables_dir, ["collector"])["collector"].to_pylist()}
    for name in sorted(names - {plan.REPLAY}):
        first, there = plan.first(last, name), log.sealed(name)
        if not there or there[0].number > max(first, 0):
            raise ToolError(
                f"{log.store / name}: segments that the tables have read are deleted, with the "
                "bytes of other people's messages: nothing is changed. `outpost pipeline run "
                "--sources FILE` reads new messages by this mapping"
            )


def _staged(
    log: Log, last: delta.Table, mapping: Mapping, place: Store, first: int, progress: Progress
) -> tuple[list[dict], int]:
    """(files with the frames, of how many calls of replay)."""
    made, held, size, number = [], [], 0, first
    for row in _frames(log, last, mapping, progress):
        row["replay"] = number
        held.append(row)
        size += len(row["payload"])
        if size >= _PART_BYTES:
            made.append(_written(place, held))
            held, size, number = [], 0, number + 1
    if held or number == first:
        made.append(_written(place, held))
        number += 1
    return made, number - first


def _written(place: Store, rows: list[dict]) -> dict:
    return delta.write(place, pa.Table.from_pylist(rows, schemas.QUARANTINE_TABLE))


def _frames(log: Log, last: delta.Table, mapping: Mapping, progress: Progress) -> Iterator[dict]:
    for name in _read_of(log, last):
        found = [one for one in log.sealed(name) if one.number <= plan.taken(last, name)]
        for at, one in enumerate(found):
            if at % 100 == 0:
                progress(f"reading segment {at + 1} of {len(found)} of {name}")
            for frame in segments.Contents(log.read(name, one.number)).frames():
                if belongs.is_foreign(mapping, frame.topic, frame.payload):
                    yield _row(frame, name, one.number)


def _row(frame: segments.Frame, collector: str, number: int) -> dict[str, Any]:
    said = {"reason": _REASON, "topic": frame.topic.decode("utf-8", "replace")}
    said |= {"payload": frame.payload, "retained": frame.retained}
    said["original_length"] = frame.original_length
    origin = schemas.origin_of(frame, collector, number)
    return said | dict(zip([*schemas.PLACE, "clock_unset"], origin, strict=True))


def _without_foreign(table: delta.Table, mapping: Mapping) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) of quarantine without frames of the mapping: the log has
    them."""
    made, gone, place = [], [], table.place
    for one in delta.files_of(table):
        rows = tables.read_files(place, [delta.name_of(one)], schemas.QUARANTINE_TABLE)
        topics, payloads = (rows[name].to_pylist() for name in ("topic", "payload"))
        stays = [
            not belongs.is_foreign(mapping, topic.encode(), payload)
            for topic, payload in zip(topics, payloads, strict=True)
        ]
        if not all(stays):
            gone.append(one)
            if any(stays):
                made.append(delta.write(place, rows.filter(pa.array(stays))))
    return made, gone


# --- What leaves the tables ---


def _devices(tables_dir: Store) -> list[str]:
    """Of other people's messages, in silver and in the states."""
    found = delta.dataset(tables_dir / "streams", None, tables.schema("streams"))
    rows = found.to_table(["device"], filter=pc.field("names").is_valid())
    more = _foreign(tables_dir, ["device"])
    return sorted({*rows["device"].to_pylist(), *more["device"].to_pylist()})


def _foreign(tables_dir: Store, columns: list[str]) -> pa.Table:
    """Those rows of silver."""
    data = delta.dataset(tables_dir / "readings", None, tables.schema("readings"))
    return data.to_table(columns, filter=_IS_FOREIGN)


def _delete(tables_dir: Store, devices: list[str]) -> None:
    """In an order that a repetition can go on with: the fingerprints follow from silver."""
    if not devices:
        return
    note = {changes.NOTE: {"again": devices}}
    opened = delta.Opened(tables_dir)
    delta.rewrite(opened, "streams", _states)
    delta.rewrite(opened, fingerprints.TABLE, lambda table: _prints(tables_dir, table))
    upkeep.deleted(tables_dir, "readings", _IS_FOREIGN, note)
    for name in (*tables.GOLD_TABLES, "totals"):
        upkeep.deleted(tables_dir, name, pc.field("device").isin(devices), note)


def _states(table: delta.Table) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) of `streams` without theirs."""
    made, gone, place = [], [], table.place
    for one in delta.files_of(table):
        rows = tables.read_files(place, [delta.name_of(one)], schemas.STREAM)
        is_foreign = foreign_marks.is_state(rows)
        if is_foreign.any():
            gone.append(one)
            if not is_foreign.all():
                ours = rows.filter(pa.array(~is_foreign))
                made.append(delta.write(place, ours, one["partition"], "bucket"))
    return made, gone


def _prints(tables_dir: Store, table: delta.Table) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) without the fingerprints of what silver has of them."""
    heads = _foreign(tables_dir, _HEADS).filter(pc.field("record") == 0)
    heads = heads.filter(pa.array(foreign_rows.identified(heads)))
    prints, buckets = foreign_rows.fingerprints(heads).view(np.int64), packed.buckets_of(heads)
    return fingerprints.without(table, {n: prints[buckets == n] for n in np.unique(buckets)})


def _count(place: Store) -> int:
    rows = delta.dataset(place, None, schemas.QUARANTINE_TABLE).to_table(
        ["reason"], filter=(pc.field("reason") == _REASON) & pc.field("replay").is_valid()
    )
    return rows.num_rows
