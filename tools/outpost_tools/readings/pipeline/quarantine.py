"""Takes frames out of quarantine after a fix, exactly once into silver.

Replay marks the refused frames that can be read now, or whose arrival has been disproved since
(messages/arrival.py), with the number of its call, in one commit. The next round reads the marked
frames as a segment of a collector named REPLAY, whose number is the call's, and its commit of
quarantine removes them. Silver stays exact because the same rules apply to these frames as to any
other.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.messages import arrival, labels, message
from outpost_tools.readings.pipeline import (
    delta,
    displaced,
    exact,
    foreign_rows,
    mappings,
    plan,
    schemas,
    tables,
)
from outpost_tools.readings.pipeline.schemas import DAMAGE
from outpost_tools.readings.sources import belongs
from outpost_tools.readings.sources.decode import of_frame
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.readings.sources.result import Refused
from outpost_tools.store.at import at

CONFLICT = "conflict: another message has its number"  # a reason


def reasons(tables_dir: delta.Place | delta.Opened) -> Counter[str]:
    """How many frames are in quarantine, by reason, without those on their way to silver."""
    table = delta.Opened.at(tables_dir).find("quarantine")
    if table is None:
        return Counter()
    rows = read(table).filter(pc.field("replay").is_null())
    return Counter(rows["reason"].to_pylist())


def damage(found: Counter[str]) -> int:
    """How many pieces of segments could not be read, of these reasons."""
    return sum(n for reason, n in found.items() if reason.startswith(DAMAGE))


def conflicts(tables_dir: delta.Place) -> int:
    """How many messages have a number that another one has."""
    return reasons(tables_dir)[CONFLICT]


def by_arrival(found: Counter[str]) -> int:
    """How many frames were refused because of their arrival, of these reasons."""
    return sum(n for reason, n in found.items() if arrival.is_refusal(reason))


def read(table: delta.Table) -> pa.Table:
    return tables.read_files(table.place, _names(table), schemas.QUARANTINE_TABLE)


def _names(table: delta.Table) -> list[str]:
    return [delta.name_of(one) for one in delta.files_of(table)]


def frame(row: dict) -> segments.Frame:
    """The frame of a row, as it was in its segment."""
    flags = segments.FLAG_RETAIN if row["retained"] else 0
    flags |= segments.FLAG_CLOCK_UNSET if row.get("clock_unset") else 0
    topic, payload = row["topic"].encode(), row["payload"]
    return segments.Frame(
        _ms(row["received"]), flags, row["original_length"], topic, payload, row["offset"], 0
    )


def conflicting(
    place: delta.Place, wanted: set[tuple[str, str, int]], version: int | None
) -> pa.Table:
    """The rows of these messages as conflicts in quarantine, the table in `place`. Reads the
    payloads of these boards' conflicts alone."""
    if not wanted:
        return schemas.READING.empty_table()
    table = delta.open_table(place, version)
    devices, found = {name[0] for name in wanted}, []
    topics = f"/({'|'.join(map(re.escape, sorted(devices)))})/data$"
    is_conflict = pc.field("reason") == CONFLICT
    is_conflict &= pc.match_substring_regex(pc.field("topic"), topics)
    data = tables.dataset(table.place, _names(table), schemas.QUARANTINE_TABLE)
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


@dataclass(frozen=True)
class _Readable:
    """What a frame must be to leave quarantine. mapping: for other people's messages."""

    now_s: float
    versions: tuple[int, ...] = labels.VERSIONS
    mapping: Mapping | None = None


def replay(
    tables_dir: delta.Place, reason: str, *, versions: tuple[int, ...] = labels.VERSIONS,
    sources: str | None = None,
) -> tuple[int, int]:  # fmt: skip
    """(frames on their way to silver, frames that are still not messages) among those whose reason
    begins with `reason`. Whether other people's are messages says the mapping with the text
    `sources`, or that of the last round; the next round reads them by its own."""
    place = at(tables_dir) / "quarantine"
    text = sources or mappings.text(at(tables_dir), mappings.current(delta.Opened(tables_dir)))
    mapping = foreign_rows.mapping_of(text) if text else None
    readable = _Readable(time.time(), versions, mapping)
    for _ in range(delta.TRIES):
        table = delta.open_table(place)
        number = delta.reached(table, plan.REPLAYS) + 1
        made, gone, taken, refused = _marked(table, reason, readable, number)
        try:
            if taken:
                delta.commit(place, made, delta.Batch(plan.REPLAYS, number), gone=gone, of=table)
            return taken, refused
        except CommitFailedError:  # a run has committed meanwhile
            continue
    raise ToolError(f"{place}: a run changes it all the time; repeat this when it has ended")


def _marked(
    table: delta.Table, reason: str, readable: _Readable, number: int
) -> tuple[list[dict], list[dict], int, int]:
    """(new files, files that they replace, frames marked with that number, frames that stay)."""
    place, made, gone, counts = table.place, [], [], Counter[str]()
    for one in delta.files_of(table):
        rows = tables.read_files(place, [delta.name_of(one)], schemas.QUARANTINE_TABLE)
        said = rows.to_pylist()
        for row in said:
            if row["replay"] is None and _is_meant(row["reason"], reason):
                is_taken = _is_message(row, readable)
                counts["taken" if is_taken else "refused"] += 1
                row["replay"] = number if is_taken else None
        if any(row["replay"] == number for row in said):
            made.append(delta.write(place, pa.Table.from_pylist(said, rows.schema)))
            gone.append(one)
    return made, gone, counts["taken"], counts["refused"]


def _is_meant(reason: str, wanted: str) -> bool:
    """Also "time", without the record that it is about."""
    return reason.startswith(wanted) or (
        arrival.is_refusal(reason) and reason.partition(": ")[2].startswith(wanted)
    )


def _is_message(row: dict, readable: _Readable) -> bool:
    """Whether the frame can be read now. If it was read in part, that part is in silver already. A
    conflict stays: its number is still taken."""
    if row["reason"] == CONFLICT or row["reason"].startswith(message.LEFT_OUT):
        return False
    length = row["original_length"]
    if length is not None and length > len(row["payload"]):  # it was cut: the rest is lost
        return False
    one, mapping = frame(row), readable.mapping
    if mapping is not None and belongs.is_foreign(mapping, one.topic, one.payload):
        return type(of_frame(mapping, one)) is not Refused
    how = {"retained": one.retained, "versions": readable.versions}
    try:
        found = message.decode(row["topic"], row["payload"], **how)
        message.decode(row["topic"], row["payload"], received_ms=one.arrival_ms, **how)
    except message.Malformed as error:
        if not arrival.is_refusal(str(error)):
            return False
        row["clock_unset"] = True  # if it is a message, its arrival is no evidence
        newest_s = max((r.time_s or 0.0 for r in found.readings), default=None)
        return arrival.is_disproved(one.received_ms / 1000, newest_s, readable.now_s)
    return True


def _ms(time) -> int:
    return round(time.timestamp() * 1000)


def segment(place: delta.Place, number: int, version: int) -> bytes:
    """The frames that this call of replay has freed, as a segment; of that version of the table.
    Raises FileNotFoundError when they have left it."""
    rows = read(delta.open_table(place, version)).filter(pc.field("replay") == number)
    if not rows.num_rows:
        raise FileNotFoundError(f"{place}: has no frames of replay {number} any more")
    rows = rows.sort_by([(name, "ascending") for name in schemas.ORIGIN])
    return segments.sealed_bytes(map(_encoded, rows.to_pylist()))


def _encoded(row: dict) -> bytes:
    return segments.encode_frame(
        _ms(row["received"]),
        row["topic"].encode(),
        row["payload"],
        retain=bool(row["retained"]),
        clock_unset=bool(row.get("clock_unset")),
    )


def without(
    table: delta.Table, gone: pa.Table, replays: Iterable[int] = ()
) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) without the frames of these ORIGINs, and without those
    that these calls of replay have freed."""
    made, replaced, numbers = [], [], pa.array([*replays], pa.int64())
    place = table.place
    for one in delta.files_of(table):
        rows = tables.read_files(place, [delta.name_of(one)], schemas.QUARANTINE_TABLE)
        kept = displaced.without(rows, gone)
        kept = kept.filter(pc.invert(pc.is_in(kept["replay"], value_set=numbers)))
        if kept.num_rows < rows.num_rows:
            replaced.append(one)
            if kept.num_rows:
                made.append(delta.write(place, kept))
    return made, replaced
