"""Takes frames out of quarantine after a fix, exactly once into silver.

Replay picks the refused frames that can be read now, or whose arrival has been disproved since
(common/arrival.py), and writes them into a sealed segment that belongs to the tables; the next run
reads it like a collector's (source.REPLAY). Silver stays exact because the same rules apply to
these frames as to any other. Then the frames leave the quarantine table; a list `segment-N.json`
names them. The next start, of a replay or of a run, repairs what a kill in between left: the list
exists already, under a temporary name, and an app transaction of the table shows the last list
whose frames have left it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from outpost_tools.common import arrival, labels, message, segments
from outpost_tools.pipeline import delta, displaced, exact, schemas, tables
from outpost_tools.pipeline.exact import DAMAGE

CONFLICT = "conflict: another message has its number"  # a reason


def reasons(tables_dir: Path) -> Counter[str]:
    """How many frames are in quarantine, by reason."""
    if not tables.exists(tables_dir, "quarantine"):
        return Counter()
    return Counter(tables.read_table(tables_dir, "quarantine", ["reason"])["reason"].to_pylist())


def damage(tables_dir: Path) -> int:
    """How many pieces of segments could not be read."""
    return sum(n for reason, n in reasons(tables_dir).items() if reason.startswith(DAMAGE))


def conflicts(tables_dir: Path) -> int:
    """How many messages have a number that another one has."""
    return reasons(tables_dir)[CONFLICT]


def by_arrival(tables_dir: Path) -> int:
    """How many frames were refused because of their arrival."""
    return sum(n for reason, n in reasons(tables_dir).items() if arrival.is_refusal(reason))


def frame(row: dict) -> segments.Frame:
    """The frame of a row, as it was in its segment."""
    flags = segments.FLAG_RETAIN if row["retained"] else 0
    flags |= segments.FLAG_CLOCK_UNSET if row.get("clock_unset") else 0
    topic, payload = row["topic"].encode(), row["payload"]
    return segments.Frame(
        _ms(row["received"]), flags, row["original_length"], topic, payload, row["offset"], 0
    )


def conflicting(place: Path, wanted: set[tuple[str, str, int]], version: int | None) -> pa.Table:
    """The rows of these messages as conflicts in quarantine, the table in `place`. Reads the
    payloads of these boards' conflicts alone."""
    if not wanted:
        return schemas.READING.empty_table()
    table = delta.open_table(place, version)
    devices, found = {name[0] for name in wanted}, []
    topics = f"/({'|'.join(map(re.escape, sorted(devices)))})/data$"
    is_conflict = pc.field("reason") == CONFLICT
    is_conflict &= pc.match_substring_regex(pc.field("topic"), topics)
    data = table.to_pyarrow_dataset(schema=tables.schema("quarantine"))
    try:
        rows = data.to_table(filter=is_conflict).to_pylist()
    except FileNotFoundError:
        if version is None:
            raise
        return conflicting(place, wanted, None)
    for row in rows:
        key = message.key_of(row["topic"].encode(), row["payload"])
        if key is not None and tuple(key[:3]) in wanted:
            found += exact.frame_rows(frame(row), row["collector"], row["segment"])
    batches = [one for one in exact.arrow_batches(iter(found)) if one.num_rows]
    every = pa.Table.from_batches(batches, schemas.FRAME)
    return every.filter(pc.is_null(every["reason"])).select(schemas.READING.names)


def replay(
    tables_dir: Path, reason: str, *, versions: tuple[int, ...] = labels.VERSIONS
) -> tuple[int, int]:
    """(frames on their way to silver, frames that are still not messages) among those whose reason
    begins with `reason`."""
    folder = tables_dir / tables.REPLAY
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        return _replay(tables_dir, folder, reason, versions)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits for another replay, or for a run that finishes one: two would use the same segment
    number, and the frames of one would be in neither the table nor a segment."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replay(
    tables_dir: Path, folder: Path, reason: str, versions: tuple[int, ...]
) -> tuple[int, int]:
    _finish_all(tables_dir)
    readable, origins, refused, now_s = [], [], 0, time.time()
    for row in tables.read_table(tables_dir, "quarantine").to_pylist():
        if not _is_meant(row["reason"], reason):
            continue
        if _is_message(row, versions, now_s):
            readable.append(row)
            origins.append((row["collector"], row["segment"], row["offset"]))
        else:
            refused += 1
    if readable:
        _write(folder, readable, origins)
        _finish_all(tables_dir)
    return len(readable), refused


def _is_meant(reason: str, wanted: str) -> bool:
    """Also "time", without the record that it is about."""
    return reason.startswith(wanted) or (
        arrival.is_refusal(reason) and reason.partition(": ")[2].startswith(wanted)
    )


def _is_message(row: dict, versions: tuple[int, ...], now_s: float) -> bool:
    """Whether the frame can be read now. If it was read in part, that part is in silver already. A
    conflict stays: its number is still taken."""
    if row["reason"] == CONFLICT or row["reason"].startswith(message.LEFT_OUT):
        return False
    length = row["original_length"]
    if length is not None and length > len(row["payload"]):  # it was cut: the rest is lost
        return False
    one = frame(row)
    how = {"retained": one.retained, "versions": versions}
    try:
        found = message.decode(row["topic"], row["payload"], **how)
        message.decode(row["topic"], row["payload"], received_ms=one.arrival_ms, **how)
    except message.Malformed as error:
        if not arrival.is_refusal(str(error)):
            return False
        row["clock_unset"] = True  # if it is a message, its arrival is no evidence
        newest_s = max((r.time_s or 0.0 for r in found.readings), default=None)
        return arrival.is_disproved(one.received_ms / 1000, newest_s, now_s)
    return True


def _next_number(folder: Path) -> int:
    """Above all segments that ever existed, also those consumed and deleted: their lists stay."""
    names = [*folder.glob("segment-*.seg"), *folder.glob("segment-*.json")]
    return max((segments.segment_number(path) for path in names), default=-1) + 1


def _write(folder: Path, rows: list[dict], origins: list[tuple]) -> None:
    number = _next_number(folder)
    making = folder / f"segment-{number:012d}.making"
    _write_durably(making, json.dumps(origins).encode())
    frames = [
        segments.encode_frame(
            _ms(row["received"]),
            row["topic"].encode(),
            row["payload"],
            clock_unset=bool(row.get("clock_unset")),
        )
        for row in rows
    ]
    unsealed = folder / f"segment-{number:012d}.open"
    _write_durably(unsealed, segments.sealed_bytes(frames))
    unsealed.rename(unsealed.with_suffix(".seg"))
    segments.sync_directory(folder)


def _ms(time) -> int:
    return round(time.timestamp() * 1000)


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def finish_replay(tables_dir: Path) -> None:
    """Completes a replay that has begun: the frames of sealed segments leave the table."""
    if (folder := tables_dir / tables.REPLAY).exists():
        with _alone(folder):
            _finish_all(tables_dir)


def _finish_all(tables_dir: Path) -> None:
    folder, place = tables_dir / tables.REPLAY, tables_dir / "quarantine"
    _finish(folder)
    for path in sorted(folder.glob("segment-*.json")):
        number = segments.segment_number(path)
        if number > delta.committed(place, tables.REPLAY):
            origins = json.loads(path.read_text(encoding="utf-8"))
            gone = pa.Table.from_pylist(
                [dict(zip(schemas.ORIGIN, one, strict=True)) for one in origins]
            )
            batch = delta.Batch(tables.REPLAY, number)
            delta.rewrite(place, lambda table: without(table, gone), [], batch)  # noqa: B023


def without(table: DeltaTable, gone: pa.Table) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) without the frames of these ORIGINs."""
    made, replaced = [], []
    for one in delta.files_of(table):
        path = delta.path_of(table, one)
        rows = tables.read_files([path], schemas.QUARANTINE_TABLE)
        kept = displaced.without(rows, gone)
        if kept.num_rows < rows.num_rows:
            replaced.append(one)
            if kept.num_rows:
                made.append(delta.write(delta.place_of(table), kept))
    return made, replaced


def _finish(folder: Path) -> None:
    """Lists whose segment was sealed become valid; the remains of others are deleted."""
    for making in folder.glob("segment-*.making"):
        if making.with_suffix(".seg").exists():
            making.rename(making.with_suffix(".json"))
        else:
            making.unlink()
            making.with_suffix(".open").unlink(missing_ok=True)
