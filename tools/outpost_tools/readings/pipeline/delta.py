"""Delta Lake without Spark's connector: tasks write Parquet files, the driver commits their list.

A file counts from the commit that names it, together with all others of that commit; what a killed
task or driver left behind is in no commit. A commit carries the number of its batch, under the name
of the query, as an app transaction: committed() returns the last batch that a table has, and a
batch that comes twice is skipped. Delta does not refuse it by itself.

A commit that removes files (because their rows were moved or changed) is valid only if nobody else,
a compaction for instance, has committed since the list was made. Otherwise the commit is repeated
on the new version (rewrite()).

A commit, and before it the files that it names, are durable: a power cut leaves neither a commit
without its files nor a table that lacks what another table already relies on.

A table is a folder of a Store; where one is expected, its path or URL will do. Files are named by
their path below it. Knows neither Spark nor what is in the tables; delta_log.py has the log.
"""

from __future__ import annotations

import datetime
import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from outpost_tools.readings.pipeline import delta_log
from outpost_tools.readings.pipeline.delta_log import FOLDER, NEWEST_CHECKPOINT, File, Table
from outpost_tools.readings.pipeline.rows import Rows
from outpost_tools.store.at import Place, at
from outpost_tools.store.base import Store

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the folder of a null, by Hive's convention
# What a task returns for each file that it wrote; `table`: the name of the table.
FILES = pa.schema(
    [("table", pa.string()), ("path", pa.string()), ("size", pa.int64())]
    + [("partition", pa.string()), ("stats", pa.string())]
)
_GROUP_ROWS = 1 << 16  # a reader that wants a few rows reads a few groups
_LONGEST = 64  # the longest text in the statistics
TRIES = 20  # of a rewrite beside a compaction: each failure takes one commit of another writer
_AT_ONCE = 8  # tables that are opened together


class Batch(NamedTuple):
    """The name of the query and the number of its batch."""

    query: str
    number: int


def exists(place: Place) -> bool:
    """Raises UnicodeEncodeError for a path that Delta's library cannot take."""
    log = at(place) / FOLDER
    log.uri.encode()
    return log.exists(NEWEST_CHECKPOINT) or log.exists(f"{0:020}.json")


def create(place: Place, schema: pa.Schema, partition_by: str | None, **settings: str) -> Table:
    """Create the table; if it exists, add the columns and settings that it lacks. settings:
    Delta's, without `delta.`."""
    store = at(place)
    names = {f"delta.{name}": value for name, value in settings.items()}
    try:
        return widened(open_table(store), schema, **settings)
    except TableNotFoundError:
        pass
    with store.settled():
        DeltaTable.create(
            store.uri,
            schema,
            mode="ignore",
            partition_by=[partition_by] if partition_by else None,
            configuration=names,
            storage_options=store.options,
        )
    return open_table(store)


def widened(table: Table, schema: pa.Schema, **settings: str) -> Table:
    """With the columns and settings that one of an older version lacks. In its rows a new column is
    null."""
    names = {f"delta.{name}": value for name, value in settings.items()}
    lacking = dict(names.items() - table.configuration.items())
    missing = [one for one in Schema.from_arrow(schema).fields if one.name not in table.columns]
    if missing:
        delta_log.of_library(table.place).alter.add_columns(missing)
    if lacking:
        set_properties(table.place, lacking)
    return delta_log.renewed(table) if missing or lacking else table


def set_properties(place: Place, properties: dict[str, str]) -> None:
    """Also names that Delta does not know."""
    store = at(place)
    with (store / FOLDER).settled(always=NEWEST_CHECKPOINT):
        table = delta_log.of_library(store)
        table.alter.set_table_properties(properties, raise_if_not_exists=False)


def open_table(place: Place, version: int | None = None) -> Table:
    """version None: the newest. Raises TableNotFoundError."""
    return delta_log.opened(at(place), version)


def committed(place: Place, query: str) -> int:
    """The number of the last batch of that query in the table; -1 before the first."""
    return reached(open_table(place), query) if exists(place) else -1


def reached(table: Table, query: str) -> int:
    """As committed(), of that version of a table."""
    return table.transactions.get(query, -1)


class Opened:
    """The tables of a folder, each read once. Others' commits show after again() and newest(),
    which ask for what is new."""

    def __init__(self, tables_dir: Place) -> None:
        self.tables_dir = at(tables_dir)
        self._tables: dict[str, Table] = {}
        self._looked: set[str] = set()
        self.is_prepared = False  # see job.prepare()

    @classmethod
    def at(cls, place: Place | Opened) -> Opened:
        return place if isinstance(place, cls) else cls(place)

    def __getitem__(self, name: str) -> Table:
        """That table as it was when it was first asked for since again(). Raises
        TableNotFoundError."""
        return self._tables[name] if name in self._looked else self.newest(name)

    def find(self, name: str) -> Table | None:
        """None: there is no such table."""
        try:
            return self[name]
        except TableNotFoundError:
            return None

    def find_all(self, names: Iterable[str]) -> list[Table | None]:
        """At once: in a bucket, what takes time is to wait for answers."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(self.find, names))

    def newest(self, name: str) -> Table:
        known = self._tables.get(name)
        table = open_table(self.tables_dir / name) if known is None else delta_log.renewed(known)
        self.note(name, table)
        return table

    def note(self, name: str, table: Table) -> None:
        """After a commit."""
        self._tables[name] = table
        self._looked.add(name)

    def again(self) -> None:
        """All may have changed."""
        self._looked.clear()

    def check(self, name: str) -> None:
        """Forget all if that table was deleted, or recreated."""
        if name in self._tables and not delta_log.is_there(self._tables[name]):
            self.forget()

    def forget(self) -> None:
        self._tables.clear()
        self._looked.clear()
        self.is_prepared = False

    def committed(self, name: str, query: str) -> int:
        """As committed(), of that table."""
        return reached(self[name], query)


def version_before(table: Table, batches: Iterable[Batch]) -> int:
    """The version on top of which these batches were committed, of a table that has them; the
    table's own where its log no longer shows that."""
    found = version_with(table, batches)
    return table.version() if found is None else found - 1


def version_with(table: Table, batches: Iterable[Batch]) -> int | None:
    """The newest version that brought one of these batches; None where the log does not show it."""
    wanted = {*batches}
    for version, actions in delta_log.versions_down(table):
        known = [one["txn"] for one in actions if "txn" in one]
        if any((one["appId"], one["version"]) in wanted for one in known):
            return version
    return None


# --- Files, written by tasks ---


def write(
    place: Place,
    rows: pa.Table,
    partition: str | None = None,
    by: str = "",
    **options: Any,
) -> dict:
    """Write a new file of these rows; returns a row of FILES. `partition`: the value of column
    `by`. options: of Parquet."""
    store = at(place)
    folder = f"{by}={NO_VALUE if partition is None else partition}/" if by else ""
    name = f"{folder}part-{uuid.uuid4().hex}.zstd.parquet"
    found: list[pq.FileMetaData] = []
    sink = pa.BufferOutputStream()
    options = {"compression": "zstd", "row_group_size": _GROUP_ROWS} | options
    pq.write_table(rows, sink, metadata_collector=found, **options)
    data = sink.getvalue()
    store.write(name, data)
    return {
        "table": store.name,
        "path": quote(name, safe="/="),
        "size": data.size,
        "partition": partition,
        "stats": statistics(found[0]),
    }


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
    place: Place,
    files: Iterable[dict],
    *batches: Batch,
    gone: Iterable[dict] = (),
    of: Table | None = None,
    note: dict[str, Any] | None = None,
) -> Table:
    """From this commit on the table, which is returned, has `files`, and no longer `gone` (of
    version `of`). note: goes into the table's history. Raises CommitFailedError when `of` is no
    longer the newest version."""
    store, table, files, gone = at(place), of or open_table(place), list(files), list(gone)
    by = table.partition_columns
    actions = [delta_log.added(one, by) for one in files]
    actions += [delta_log.removed(one, by) for one in gone]
    actions += [{"txn": {"appId": one.query, "version": one.number}} for one in batches]
    store.sync(map(name_of, files))
    for left in reversed(range(TRIES)):
        try:
            return delta_log.committed(table, actions, note or {})
        except CommitFailedError:
            if of is not None or gone or not left:
                raise
            table = delta_log.renewed(table)
    raise AssertionError("unreachable")


Change = Callable[[Table], tuple[list[dict], list[dict]]]


def rewrite(
    opened: Opened,
    name: str,
    change: Change,
    batches: Iterable[Batch] = (),
    note: Callable[[list[dict]], dict[str, Any]] | None = None,
) -> None:
    """Commit what `change` makes of that table's newest version: (new files, files that they
    replace). Retries when another writer has committed meanwhile. note: about those new files, if
    any are replaced."""
    table = opened[name]
    for left in reversed(range(TRIES)):
        made, gone = change(table)
        try:
            said = note(made) if note and gone else None
            opened.note(name, commit(table.place, made, *batches, gone=gone, of=table, note=said))
            return
        except CommitFailedError:
            if not left:
                raise
            table = opened.newest(name)


def files_of(table: Table, may_hold: Callable[[File], bool] | None = None) -> list[dict]:
    """Rows of FILES, with `rows`, of the files that `may_hold` rows that are wanted; None: all."""
    found = table.files.values()
    return [row(table, one) for one in found if may_hold is None or may_hold(one)]


def row(table: Table, one: File) -> dict:
    """Of FILES, with `rows`."""
    found = {"table": table.place.name, "path": one.path, "size": one.size}
    return found | {"partition": one.partition, "stats": None, "rows": one.rows}


def dataset(place: Place, where: str | None = None, schema: pa.Schema | None = None) -> Rows:
    """Of the newest version, with the column of its partitions; reads nothing yet. where: SQL that
    selects files, not rows."""
    store = at(place)
    data = delta_log.of_library(store).to_pyarrow_dataset(
        filesystem=store.filesystem, file_pruning_predicate=where, schema=schema
    )
    return Rows(data)


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


def commits(table: Table, since: int) -> list[Commit] | None:
    """Those after version `since`, up to the table's, that changed rows; None when the log is too
    short."""
    found = []
    for number in range(since + 1, table.version() + 1):
        try:
            found.append(_commit_of(table.place, number, table.actions(number)))
        except FileNotFoundError:
            return None
    return [one for one in found if one.partitions]


def _commit_of(place: Store, number: int, actions: list[dict]) -> Commit:
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


def changed(table: Table, since: int) -> set[str | None] | None:
    """The partitions whose rows have changed since that version (-1: never); None when that is not
    known."""
    found = commits(table, since) if since >= 0 else None
    return None if found is None else {value for one in found for value in one.partitions}


def rows_of(made: dict) -> int:
    """How many rows a new file has."""
    return json.loads(made["stats"])["numRecords"]


def name_of(one: dict) -> str:
    """The file of a row of FILES, below its table."""
    return unquote(one["path"])
