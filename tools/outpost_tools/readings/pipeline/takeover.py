"""Takes over tables of a version that kept its place in Spark's checkpoint, beside the tables.

What such tables have read becomes transactions of theirs (plan.py), the fingerprints a table, and
frames on their way out of quarantine go back into it, marked. The old files are then removed. After
a kill, the next run takes over what is left.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from outpost_tools.errors import ToolError
from outpost_tools.log import segment_frames
from outpost_tools.readings.pipeline import delta, fingerprints, plan, schemas, tables
from outpost_tools.store.base import Store

_CHECKPOINT, _FIRST, _DELETED = "_checkpoint", "_first_segments.json", "deleted-before"
_SEGMENT = re.compile(r"segment-([0-9]{12,})\.seg")


def take_over(opened: delta.Opened) -> None:
    """Does nothing with tables that need it no more. Raises ToolError where a batch was interrupted
    under the old version, which must finish it."""
    checkpoint = opened.tables_dir / _CHECKPOINT
    if not checkpoint.exists("metadata"):
        _recreate_prints(opened)
        return
    try:
        _take_over(opened.tables_dir)
    except FileNotFoundError:
        if checkpoint.exists("metadata"):  # else another driver has done it
            raise
    opened.again()


def _take_over(tables_dir: Store) -> None:
    taken = _offsets(tables_dir)
    if taken:
        _take_back_replays(tables_dir, taken.pop(schemas.REPLAY, -1))
        _note_offsets(tables_dir, taken)
        _note_deleted(tables_dir)
        _recreate_prints(delta.Opened(tables_dir))
    _remove(tables_dir)


def _offsets(tables_dir: Store) -> dict[str, int]:
    """{collector: the last segment that the tables have}, {} before the first batch."""
    checkpoint = tables_dir / _CHECKPOINT
    query = json.loads(checkpoint.get("metadata"))["id"]
    opened = delta.Opened(tables_dir)
    done = {name: opened.committed(name, query) for name in ("quarantine", "readings", "streams")}
    if len({*done.values()}) > 1:
        raise ToolError(
            f"{tables_dir}: a batch was interrupted; run `outpost pipeline run` of the version "
            "that made these tables once more, or move them away: the tables are then recreated "
            "from the segments"
        )
    number = done["streams"]
    if number < 0:
        return {}
    lines = (checkpoint / "offsets").get(str(number)).decode().splitlines()
    return json.loads(lines[-1])


def _note_offsets(tables_dir: Store, taken: dict[str, int]) -> None:
    firsts = json.loads(tables_dir.get(_FIRST)) if tables_dir.exists(_FIRST) else {}
    done = plan.Plan({}, taken, -1, 0, firsts=firsts)
    for name in tables.SILVER_TABLES:
        if name != "fingerprints":
            _commit_once(tables_dir / name, done.transactions, [])


def _commit_once(place: Store, batches: list[delta.Batch], made: list[dict]) -> None:
    """Unless the table knows the last query: another driver has been here, and may have gone on."""
    for left in reversed(range(delta.TRIES)):
        table = delta.open_table(place)
        if delta.reached(table, batches[-1].query) >= 0:
            return
        try:
            delta.commit(place, made, *batches, of=table)
            return
        except CommitFailedError:
            if not left:
                raise


def _note_deleted(tables_dir: Store) -> None:
    if tables_dir.exists(_DELETED):
        day = datetime.date.fromisoformat(tables_dir.get(_DELETED).decode().strip())
        tables.note_deleted_before(tables_dir, day)


def _recreate_prints(opened: delta.Opened) -> None:
    """Where the table of fingerprints has never been written, and the others have."""
    table, mark = opened["fingerprints"], plan.mark(opened["streams"])
    if mark >= 0 and plan.mark(table) < 0:
        _commit_once(table.place, [plan.marked(mark)], fingerprints.of_tables(opened))
        opened.newest("fingerprints")


def _take_back_replays(tables_dir: Store, consumed: int) -> None:
    """Frames that have left quarantine in files which no batch has read."""
    folder, place = tables_dir / schemas.REPLAY, tables_dir / "quarantine"
    left = delta.committed(place, schemas.REPLAY)
    rows = []
    for one in folder.entries():
        match = _SEGMENT.fullmatch(one.name)
        if match and consumed < int(match[1]) <= left:
            rows += _freed(folder, one.name)
    if rows:
        made = delta.write(place, pa.Table.from_pylist(rows, schemas.QUARANTINE_TABLE))
        _commit_once(place, [delta.Batch(plan.REPLAYS, 0)], [made])


def _freed(folder: Store, name: str) -> Iterator[dict]:
    """Rows of quarantine, marked for the first call of replay."""
    origins = json.loads(folder.get(name.replace(".seg", ".json")))
    frames = segment_frames.scan(folder.get(name))
    for frame, (collector, segment, offset) in zip(frames, origins, strict=True):
        received = datetime.datetime.fromtimestamp(frame.received_ms / 1000, datetime.UTC)
        yield {
            "reason": "replayed under an earlier version",
            "topic": frame.topic.decode(),
            "payload": frame.payload,
            "retained": frame.retained,
            "original_length": frame.original_length,
            "received": received,
            "collector": collector,
            "segment": segment,
            "offset": offset,
            "clock_unset": frame.is_clock_unset or None,
            "replay": 0,
        }


def _remove(tables_dir: Store) -> None:
    """The checkpoint last: without it, nothing is taken over."""
    for name in (fingerprints.TABLE, schemas.REPLAY):
        folder = tables_dir / name
        folder.delete(one.name for one in folder.entries())
    tables_dir.delete([_FIRST, _DELETED])
    for name in ("offsets", "commits", "sources/0", "sources"):
        folder = tables_dir / _CHECKPOINT / name
        folder.delete(one.name for one in folder.entries())
    (tables_dir / _CHECKPOINT).delete(["metadata"])
