"""One run: round by round, new segments into quarantine and silver; then gold.

A round reads top to bottom: plan, read, mark, commit. plan.py says why it may be repeated after a
kill, and why two drivers may do it at once. The tasks write files that nobody sees yet; then the
commits of quarantine, silver, fingerprints and, last, of the state make them count.

A repeated round finds the state of the round before it, and marks the same messages as new. It
reads silver only where messages conflict, or readings move, in the version before the round; and
silver changes in one commit, so a repeated round has nothing left to do there, or all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from outpost_tools.errors import ToolError
from outpost_tools.messages import labels
from outpost_tools.readings.pipeline import (
    consumed,
    decode,
    delta,
    foreign_rows,
    gold,
    mappings,
    moves,
    packed,
    parked,
    plan,
    quarantine,
    tables,
    takeover,
    transforms,
)
from outpost_tools.readings.pipeline.engines import Engine
from outpost_tools.readings.pipeline.logs import Listing, Log
from outpost_tools.store import probe
from outpost_tools.store.base import Store

# about 800,000 small messages: bounds the memory of one round
DEFAULT_BATCH_BYTES = 128 << 20
_BUNDLE_BYTES = 8 << 20  # of segments, for one task
_OVERTAKEN_MOST = 100  # in a row
Progress = Callable[[str], None]


def run(
    engine: Engine,
    log: Log | delta.Place,
    tables_dir: delta.Place | delta.Opened,
    *,
    window_s: float = 10.0,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    versions: tuple[int, ...] = labels.VERSIONS,
    sources: str | None = None,
    is_all: bool = False,
    progress: Progress = lambda text: None,
) -> int:
    """Process all segments that are sealed now; returns the number of rounds. `versions`: message
    versions that count as understood; messages of others go to quarantine. sources: the text of a
    mapping for other people's messages; None: as in the last round. is_all: also do what is left
    for later. Raises ToolError, OSError, and what the engine raises: retries.py decides
    whether that is transient."""
    opened, segments = delta.Opened.at(tables_dir), Log.at(log)
    listing = _begun(segments, opened)
    given = None if sources is None else mappings.keep(opened.tables_dir, sources)
    done = overtaken = 0  # the latter: in a row
    while overtaken < _OVERTAKEN_MOST:
        try:
            this = plan.next_round(opened, listing, batch_bytes, mappings.chosen(opened, given))
            if this is None:
                break
            files = take(engine, opened, segments, this, versions)
        except plan.Overtaken:
            overtaken += 1
            opened.again()
            continue
        done, overtaken = done + 1, 0
        progress(_line(this, files))
    else:
        raise ToolError(
            f"{opened.tables_dir}: other runs were faster {_OVERTAKEN_MOST} times in a row; run "
            "this again"
        )
    _refine(engine, opened, window_s, progress, is_all)
    return done


def _begun(log: Log, opened: delta.Opened) -> Listing:
    """What there is to do now. Raises ToolError."""
    opened.again()
    opened.check("streams")
    listing = _listed(log, opened)
    if not opened.is_prepared:
        prepare(log, opened)
    return listing


def _listed(log: Log, opened: delta.Opened) -> Listing:
    """Raises ToolError when there is nothing to read."""
    found, streams = Listing(log), opened.find("streams")
    if not log.store.is_there():
        check_places(log, opened.tables_dir)
    for name in found.collectors():
        if found.since(name, -1 if streams is None else plan.taken(streams, name)):
            return found
    check_places(log, opened.tables_dir)
    return found


def check_places(log: Log, tables_dir: Store) -> None:
    """Raises ToolError when there is nothing to read, or the places cannot be used."""
    if not log.store.is_there():
        raise ToolError(
            f"{log.store}: no such directory; give the collector's log directory as --log"
        )
    if not any(log.sealed(name) for name in log.collectors()):
        raise ToolError(
            f"{log.store}: no sealed segment in any <collector>/ below it; has the collector run?"
        )
    tables.check_version(tables_dir)


def prepare(log: Log, opened: delta.Opened) -> None:
    """Once for a process."""
    probe.check(opened.tables_dir)
    tables.create(opened)
    takeover.take_over(opened)
    consumed.register(log, opened.tables_dir)
    opened.is_prepared = True


# --- A round ---


def take(
    engine: Engine, opened: delta.Opened, log: Log, this: plan.Plan, versions: tuple[int, ...]
) -> list[dict]:
    """Do a round. Returns its files as rows of delta.FILES. Raises Overtaken."""
    before = _before(opened, log, this)
    reader = Reader(before, versions, packed.groups(engine.tasks))
    marker = transforms.Marker(before)
    rows = engine.grouped(list(_bundles(this)), reader, marker, moves.RESULT)
    files, moved = moves.of_result(rows)
    _commit(engine, opened, this, files, moved)
    return files


def _before(opened: delta.Opened, log: Log, this: plan.Plan) -> transforms.Sources:
    """What the round's tasks read, as it was at its start. Raises Overtaken."""
    if this.is_in(opened["streams"]):
        raise plan.Overtaken("another driver has done this round")
    versions = {}
    for name in ("quarantine", "readings", "fingerprints"):
        table = opened[name]
        is_done = this.is_in(table)
        versions[name] = delta.version_before(table, this.transactions) if is_done else None
    prints = opened["fingerprints"]
    if versions["fingerprints"] is not None:
        prints = delta.open_table(prints.place, versions["fingerprints"])
    silver, refused = (
        opened[name].version() if versions[name] is None else versions[name]
        for name in ("readings", "quarantine")
    )
    gone = tables.deleted_before(opened["readings"])
    states = (_by_bucket(opened["streams"]), _by_bucket(prints))
    text = mappings.text(opened.tables_dir, this.mapping)
    return transforms.Sources(log, opened.tables_dir, *states, silver, refused, gone, text)


def _by_bucket(table: delta.Table) -> dict[int, list[dict]]:
    found: dict[int, list[dict]] = {}
    for one in delta.files_of(table):
        found.setdefault(int(one["partition"]), []).append(one)
    return found


@dataclass(frozen=True)
class Reader:
    """Decodes segments: rows of packed.PACKED. buckets: into how many groups."""

    sources: transforms.Sources
    versions: tuple[int, ...]
    buckets: int

    def __call__(self, bundle: str) -> Iterator[pa.RecordBatch]:
        text = self.sources.mapping
        mapping = foreign_rows.mapping_of(text) if text else None
        for collector, number in json.loads(bundle):
            data = self.sources.bytes_of(collector, number)
            batches = decode.segment_batches(data, collector, number, self.versions, mapping)
            yield from packed.pack(batches, self.buckets)


def _bundles(this: plan.Plan) -> Iterator[str]:
    """The round's segments, bundled so that many small ones make few tasks."""
    names, size = [(plan.REPLAY, number) for number in this.replays], 0
    for one in this.segments:
        if size >= _BUNDLE_BYTES:
            yield json.dumps(names)
            names, size = [], 0
        names.append((one.collector, one.number))
        size += one.size
    if names:
        yield json.dumps(names)


def _commit(
    engine: Engine, opened: delta.Opened, this: plan.Plan, files: list[dict], moved: moves.Moves
) -> None:
    """Commit what the round's tasks wrote, in each table that does not have the round yet."""
    place, streams = opened.tables_dir, opened["streams"]

    def refused(table: delta.Table) -> tuple[list[dict], list[dict]]:
        _check_states(streams, opened.newest("streams"))
        if plan.is_rereading(table):
            raise plan.Overtaken(plan.REREAD_FIRST)
        has_gone = moved.freed.num_rows or this.replays
        return quarantine.without(table, moved.freed, this.replays) if has_gone else ([], [])

    def changed(table: delta.Table) -> tuple[list[dict], list[dict]]:
        return moves.rewritten(engine, place, table, moved) if moved else ([], [])

    def merged(table: delta.Table) -> tuple[list[dict], list[dict]]:
        return [], [one for one in files if one["gone"]]

    def replaced(table: delta.Table) -> tuple[list[dict], list[dict]]:
        _check_states(streams, table)
        mine = {one["partition"] for one in _of("streams", files)}
        return [], [one for one in delta.files_of(table) if one["partition"] in mine]

    changes = (refused, changed, merged, replaced)
    for name, change in zip(tables.SILVER_TABLES, changes, strict=True):
        _commit_in(opened, name, this, change, _of(name, files), moved)


def _check_states(before: delta.Table, now: delta.Table) -> None:
    """Raises Overtaken. Where nothing is committed yet, it is called after quarantine was opened:
    a deletion changes the states before that table (upkeep.py), so it is seen in one of them."""
    if delta.commits(now, before.version()) != []:
        raise plan.Overtaken("another driver has done this round, or a device was deleted")


def _of(name: str, files: Iterable[dict]) -> list[dict]:
    return [one for one in files if one["table"] == name and not one["gone"]]


def _commit_in(
    opened: delta.Opened,
    name: str,
    this: plan.Plan,
    change: delta.Change,
    files: list[dict],
    moved: moves.Moves,
) -> None:
    """`files` and what `change` makes of the table, unless it has the round. Raises Overtaken."""
    table = opened[name]
    for left in reversed(range(delta.TRIES)):
        if this.is_in(table):
            return
        made, gone = change(table)
        note = moved.note(made) if gone and moved else None
        try:
            how = {"gone": gone, "of": table, "note": note}
            now = delta.commit(table.place, [*files, *made], *this.transactions, **how)
            opened.note(name, now)
            return
        except CommitFailedError:  # a compaction, or another driver
            if not left:
                raise
            table = opened.newest(name)


def _line(this: plan.Plan, files: list[dict]) -> str:
    rows = {name: 0 for name in tables.SILVER_TABLES}
    for one in files:
        rows[one["table"]] += 0 if one["gone"] else delta.rows_of(one)
    return (
        f"round {this.number}: {rows['readings']} new readings, {rows['quarantine']} frames to "
        f"quarantine, of {rows['streams']} streams"
    )


# --- What follows the rounds ---


def _refine(
    engine: Engine, opened: delta.Opened, window_s: float, progress: Progress, is_all: bool
) -> None:
    """A call's part of it, or all."""
    while _file_some(opened, progress) and is_all:
        pass
    while gold.write(engine, opened, window_s, progress=progress) and is_all:
        pass


def _file_some(opened: delta.Opened, progress: Progress) -> int:
    if left := parked.file(opened):
        progress(
            f"{left:,} readings, of days with few, are without a file of their day until a later "
            f"round: a round files those of {parked.MOST_DAYS} days"
        )
    return left
