"""Delta Lake without Spark's connector: tasks write Parquet files, the driver commits their list.

A file counts from the commit that names it, together with all others of that commit; what a killed
task or driver left behind is in no commit. A commit carries the number of its batch, under the name
of the query, as an app transaction: committed() returns the last batch that a table has, and a
batch that comes twice is skipped. Delta does not refuse it by itself.

A commit that removes files (because their rows were moved or changed) is valid only if nobody else,
a compaction for instance, has committed since the list was made: the library does not check that
the files are still there. Otherwise the commit is repeated on the new version (rewrite()).

A commit, and before it the files that it names, are synced to the disk: a power cut leaves neither
a commit without its files nor a table that lacks what another table already relies on.

Knows neither Spark nor what is in the tables.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import math
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the folder of a null, by Hive's convention
# What a task returns for each file that it wrote; `table`: the name of the table.
FILES = pa.schema(
    [("table", pa.string()), ("path", pa.string()), ("size", pa.int64())]
    + [("partition", pa.string()), ("stats", pa.string())]
)
_NEWEST_CHECKPOINT = "_last_checkpoint"  # the library replaces it, beside the new file of a commit
_GROUP_ROWS = 1 << 16  # a reader that wants a few rows reads a few groups
_LONGEST = 64  # the longest text in the statistics
TRIES = 20  # of a rewrite beside a compaction: each failure takes one commit of another writer


class Batch(NamedTuple):
    """The name of the query and the number of its batch."""

    query: str
    number: int


def exists(place: Path) -> bool:
    return DeltaTable.is_deltatable(str(place))


def create(place: Path, schema: pa.Schema, partition_by: str | None, **settings: str) -> None:
    """Create the table; if it exists, add the columns and settings that it lacks. settings:
    Delta's, without `delta.`."""
    names = {f"delta.{name}": value for name, value in settings.items()}
    if exists(place):
        _widen(place, schema, names)
        return
    partitions = [partition_by] if partition_by else None
    DeltaTable.create(
        str(place), schema, mode="ignore", partition_by=partitions, configuration=names
    )
    log = place / "_delta_log"
    sync([*log.iterdir(), log, place, place.parent])


def _widen(place: Path, schema: pa.Schema, settings: dict[str, str]) -> None:
    """For a table that an older version made. In its rows a new column is null."""
    table = open_table(place)
    known = {field.name for field in table.schema().fields}
    missing = [field for field in Schema.from_arrow(schema).fields if field.name not in known]
    if missing:
        table.alter.add_columns(missing)
    lacking = settings.items() - table.metadata().configuration.items()
    if lacking:
        with synced(place / "_delta_log"):
            table.alter.set_table_properties(dict(lacking))


def open_table(place: Path, version: int | None = None) -> DeltaTable:
    """version None: the newest."""
    return DeltaTable(str(place), version=version)


def committed(place: Path, query: str) -> int:
    """The number of the last batch of that query in the table; -1 before the first."""
    found = open_table(place).transaction_version(query) if exists(place) else None
    return -1 if found is None else found


class Opened:
    """The tables of a folder, each opened once: to read a table's log is what opening costs."""

    def __init__(self, tables_dir: Path) -> None:
        self.tables_dir = tables_dir
        self._tables: dict[str, DeltaTable] = {}

    def __getitem__(self, name: str) -> DeltaTable:
        """That table as it was when it was first asked for."""
        if name not in self._tables:
            self._tables[name] = open_table(self.tables_dir / name)
        return self._tables[name]

    def committed(self, name: str, query: str) -> int:
        """As committed(), of that table."""
        found = self[name].transaction_version(query)
        return -1 if found is None else found

    def renew(self, name: str) -> None:
        """After a commit."""
        self._tables.pop(name, None)


def version_before(place: Path, batch: Batch) -> int | None:
    """The version that this batch was committed on top of; None where the table does not have the
    batch, or its log no longer shows it."""
    if committed(place, batch.query) < batch.number:
        return None
    for version in range(open_table(place).version(), 0, -1):
        try:
            actions = _actions(place, version)
        except FileNotFoundError:
            return None
        known = [one["txn"] for one in actions if "txn" in one]
        if any((one["appId"], one["version"]) == batch for one in known):
            return version - 1
    return None


def _actions(place: Path, version: int) -> list[dict]:
    """Raises FileNotFoundError."""
    text = (place / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


# --- Files, written by tasks ---


def write(place: Path, rows: pa.Table, partition: str | None = None, by: str = "") -> dict:
    """Write a new file of these rows; returns a row of FILES. `partition`: the value of column
    `by`."""
    folder = place / f"{by}={NO_VALUE if partition is None else partition}" if by else place
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{uuid.uuid4().hex}.zstd.parquet"
    found: list[pq.FileMetaData] = []
    pq.write_table(
        rows, path, compression="zstd", row_group_size=_GROUP_ROWS, metadata_collector=found
    )
    name = quote(str(path.relative_to(place)), safe="/=")
    size, stats = path.stat().st_size, statistics(found[0])
    return {"table": place.name, "path": name, "size": size, "partition": partition, "stats": stats}


def statistics(metadata: pq.FileMetaData) -> str:
    """Delta's statistics for the plain columns of a file, by which engines skip files."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()  # Parquet keeps no min and max for a group with a text above 4 KiB
    for name, found in _column_statistics(metadata):
        nulls[name] = nulls.get(name, 0) + found.null_count
        if found.has_min_max:
            lowest[name] = min(lowest.get(name, found.min), found.min)
            highest[name] = max(highest.get(name, found.max), found.max)
        elif found.num_values:
            unknown.add(name)
    known = [name for name in lowest if _is_usable(lowest[name]) and _is_usable(highest[name])]
    known = [name for name in known if name not in unknown]
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": {name: _in_json(lowest[name], up=False) for name in known},
            "maxValues": {name: _in_json(highest[name], up=True) for name in known},
            "nullCount": nulls,
        }
    )


def _column_statistics(metadata: pq.FileMetaData) -> Iterator[tuple[str, pq.Statistics]]:
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if "." not in column.path_in_schema and column.is_stats_set:
                yield column.path_in_schema, column.statistics


def _is_usable(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST
    return not isinstance(value, bool | bytes) and not (
        isinstance(value, float) and not math.isfinite(value)
    )


def _in_json(value: Any, *, up: bool) -> Any:
    """Times are rounded outwards to the millisecond, which all engines read."""
    if not isinstance(value, datetime.datetime):
        return value
    if up and value.microsecond % 1000:
        value += datetime.timedelta(milliseconds=1)
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"


# --- Commits, by the driver ---


def commit(
    place: Path,
    files: Iterable[dict],
    *batches: Batch,
    gone: Iterable[dict] = (),
    of: DeltaTable | None = None,
    note: dict[str, Any] | None = None,
) -> None:
    """From this commit on the table has `files`, and no longer `gone` (of version `of`). note: goes
    into the table's history. Raises CommitFailedError when `of` is no longer the newest version."""
    table, files = of or open_table(place), list(files)
    by = table.metadata().partition_columns
    now_ms = int(time.time() * 1000)
    actions: list[Any] = [_added(one, by, now_ms) for one in files]
    actions += [RemoveAction(one["path"], True, now_ms, one["size"], _partition(one, by))
                for one in gone]  # fmt: skip
    known = [Transaction(batch.query, batch.number) for batch in batches]
    properties = CommitProperties(
        custom_metadata=note,
        app_transactions=known or None,
        max_commit_retries=0 if of is not None else None,
    )
    log, made = place / "_delta_log", [path_in(place, one) for one in files]
    sync([*made, *{path.parent for path in made}, place])
    before = set(os.listdir(log))
    table.create_write_transaction(
        actions, "append", table.schema(), by, commit_properties=properties
    )
    made_now = sorted({*os.listdir(log)} - before)
    sync([*(log / name for name in made_now), log / _NEWEST_CHECKPOINT, log])


@contextlib.contextmanager
def synced(place: Path) -> Iterator[None]:
    """Files and commits that the library makes by itself inside this block are durable after it."""
    before = set(place.rglob("*"))
    yield
    made = {*place.rglob("*")} - before | {*place.rglob(_NEWEST_CHECKPOINT)}
    sync([*sorted(made), *sorted({path.parent for path in made})])


def sync(paths: Iterable[Path]) -> None:
    """Make files, and the names in folders, durable. Files that are gone are skipped, and so are
    folders whose filesystem cannot sync them. Raises OSError."""
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(handle)


def _added(one: dict, by: list[str], now_ms: int) -> AddAction:
    return AddAction(one["path"], one["size"], _partition(one, by), now_ms, True, one["stats"])


def _partition(one: dict, by: list[str]) -> dict[str, str | None]:
    return dict.fromkeys(by, one["partition"])


def rewrite(
    place: Path,
    change: Callable[[DeltaTable], tuple[list[dict], list[dict]]],
    files: list[dict] | None = None,
    batch: Batch | None = None,
    note: Callable[[list[dict]], dict[str, Any]] | None = None,
) -> None:
    """Commit `files` together with what `change` makes of the newest version: (new files, files
    that they replace). Retries when another writer has committed meanwhile. note: about those new
    files."""
    for left in reversed(range(TRIES)):
        table = open_table(place)
        made, gone = change(table)
        try:
            said = note(made) if note and gone else None
            batches = [batch] if batch else []
            commit(place, [*(files or []), *made], *batches, gone=gone, of=table, note=said)
            return
        except CommitFailedError:
            if not left:
                raise


def files_of(table: DeltaTable, condition: str | None = None, *, ends_of: str = "") -> list[dict]:
    """Rows of FILES, with `rows`, of the files that can hold rows for which `condition` (SQL) is
    true. ends_of: a column whose lowest and highest values are added as `first` and `last`."""
    by = table.metadata().partition_columns
    found = pa.table(table.get_add_actions(flatten=True))
    columns = {"path": found["path"], "size": found["size_bytes"], "rows": found["num_records"]}
    if by:
        columns["partition"] = found[f"partition.{by[0]}"].cast(pa.string())
    if ends_of and f"min.{ends_of}" in found.column_names:
        columns |= {"first": found[f"min.{ends_of}"], "last": found[f"max.{ends_of}"]}
    same = {"table": place_of(table).name, "partition": None, "stats": None}
    files = [same | one for one in pa.table(columns).to_pylist()]
    if condition is None:
        return files
    # The library percent-encodes the folder's name: a space is %20.
    uris = table.file_uris(file_pruning_predicate=condition)
    wanted = {Path(unquote(one.removeprefix("file://"))) for one in uris}
    return [one for one in files if path_of(table, one) in wanted]


class Commit(NamedTuple):
    """A change of a table's rows: what the history says about it, the files it added (rows of
    FILES, with `rows`), whether it removed any, and the partitions of both."""

    version: int
    info: dict[str, Any]
    added: list[dict]
    has_removed: bool
    partitions: set[str | None]

    @property
    def operation(self) -> str:
        return self.info.get("operation", "")


def commits(table: DeltaTable, since: int) -> list[Commit] | None:
    """Those after version `since`, up to the table's, that changed rows; None when the log is too
    short."""
    place, found = place_of(table), []
    for number in range(since + 1, table.version() + 1):
        try:
            found.append(_commit_of(place, number, _actions(place, number)))
        except FileNotFoundError:
            return None
    return [one for one in found if one.partitions]


def _commit_of(place: Path, number: int, actions: list[dict]) -> Commit:
    info = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
    added, removed = (
        [one[kind] for one in actions if kind in one and one[kind]["dataChange"]]
        for kind in ("add", "remove")
    )
    files = [
        {"table": place.name, "path": one["path"], "size": one["size"], "partition": _value(one)}
        | {"stats": None, "rows": json.loads(one.get("stats") or "{}").get("numRecords", 0)}
        for one in added
    ]
    partitions = {_value(one) for one in (*added, *removed)}
    return Commit(number, info, files, bool(removed), partitions)


def _value(action: dict) -> str | None:
    return next(iter((action.get("partitionValues") or {}).values()), None)


def changed(table: DeltaTable, since: int) -> set[str | None] | None:
    """The partitions whose rows have changed since that version (-1: never); None when that is not
    known."""
    found = commits(table, since) if since >= 0 else None
    return None if found is None else {value for one in found for value in one.partitions}


def path_of(table: DeltaTable, one: dict) -> Path:
    return path_in(place_of(table), one)


def path_in(place: Path, one: dict) -> Path:
    """The path of a row of FILES."""
    return place / unquote(one["path"])


def place_of(table: DeltaTable) -> Path:
    return Path(unquote(table.table_uri.removeprefix("file://")))


def time_text(value: datetime.datetime) -> str:
    """A time as an SQL literal, to the microsecond."""
    return text(value.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"
