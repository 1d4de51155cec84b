"""Delta Lake without Spark's connector: tasks write Parquet files, the driver commits their list.

A file counts from the commit that names it, together with all others of that commit; what a killed
task or driver left behind is in no commit. A commit carries the number of its batch, under the name
of the query, as an app transaction: committed() returns the last batch that a table has, and a
batch that comes twice is skipped. Delta does not refuse it by itself.

A commit that removes files (because their rows were moved or changed) is valid only if nobody else,
a compaction for instance, has committed since the list was made: the library does not check that
the files are still there. Otherwise the commit is repeated on the new version (rewrite()).

A commit, and before it the files that it names, are durable: a power cut leaves neither a commit
without its files nor a table that lacks what another table already relies on.

A table is a folder of a Store; where one is expected, its path or URL will do. Files are named by
their path below it. Knows neither Spark nor what is in the tables.
"""

from __future__ import annotations

import datetime
import json
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from outpost_tools.pipeline.rows import Rows
from outpost_tools.store.at import Place, at
from outpost_tools.store.base import Store

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the folder of a null, by Hive's convention
# What a task returns for each file that it wrote; `table`: the name of the table.
FILES = pa.schema(
    [("table", pa.string()), ("path", pa.string()), ("size", pa.int64())]
    + [("partition", pa.string()), ("stats", pa.string())]
)
_LOG = "_delta_log"
NEWEST_CHECKPOINT = "_last_checkpoint"  # the library replaces it, beside the new file of a commit
_GROUP_ROWS = 1 << 16  # a reader that wants a few rows reads a few groups
_LONGEST = 64  # the longest text in the statistics
TRIES = 20  # of a rewrite beside a compaction: each failure takes one commit of another writer


class Batch(NamedTuple):
    """The name of the query and the number of its batch."""

    query: str
    number: int


def exists(place: Place) -> bool:
    store = at(place)
    return DeltaTable.is_deltatable(store.uri, storage_options=store.options)


def create(place: Place, schema: pa.Schema, partition_by: str | None, **settings: str) -> None:
    """Create the table; if it exists, add the columns and settings that it lacks. settings:
    Delta's, without `delta.`."""
    store = at(place)
    names = {f"delta.{name}": value for name, value in settings.items()}
    if exists(store):
        _widen(store, schema, names)
        return
    with store.settled():
        DeltaTable.create(
            store.uri,
            schema,
            mode="ignore",
            partition_by=[partition_by] if partition_by else None,
            configuration=names,
            storage_options=store.options,
        )


def _widen(store: Store, schema: pa.Schema, settings: dict[str, str]) -> None:
    """For a table that an older version made. In its rows a new column is null."""
    table = open_table(store)
    known = {field.name for field in table.schema().fields}
    missing = [field for field in Schema.from_arrow(schema).fields if field.name not in known]
    if missing:
        table.alter.add_columns(missing)
    lacking = settings.items() - table.metadata().configuration.items()
    if lacking:
        set_properties(table, dict(lacking))


def set_properties(table: DeltaTable, properties: dict[str, str]) -> None:
    """Also names that Delta does not know."""
    with (place_of(table) / _LOG).settled(always=NEWEST_CHECKPOINT):
        table.alter.set_table_properties(properties, raise_if_not_exists=False)


def open_table(place: Place, version: int | None = None) -> DeltaTable:
    """version None: the newest."""
    store = at(place)
    return DeltaTable(store.uri, version=version, storage_options=store.options)


def committed(place: Place, query: str) -> int:
    """The number of the last batch of that query in the table; -1 before the first."""
    return reached(open_table(place), query) if exists(place) else -1


def reached(table: DeltaTable, query: str) -> int:
    """As committed(), of that version of a table."""
    found = table.transaction_version(query)
    return -1 if found is None else found


class Opened:
    """The tables of a folder, each opened once: to read a table's log is what opening costs."""

    def __init__(self, tables_dir: Place) -> None:
        self.tables_dir = at(tables_dir)
        self._tables: dict[str, DeltaTable] = {}

    def __getitem__(self, name: str) -> DeltaTable:
        """That table as it was when it was first asked for."""
        if name not in self._tables:
            self._tables[name] = open_table(self.tables_dir / name)
        return self._tables[name]

    def committed(self, name: str, query: str) -> int:
        """As committed(), of that table."""
        return reached(self[name], query)

    def renew(self, name: str) -> None:
        """After a commit."""
        self._tables.pop(name, None)


def version_before(table: DeltaTable, batches: Iterable[Batch]) -> int:
    """The version on top of which these batches were committed, of a table that has them; the
    table's own where its log no longer shows that."""
    found = version_with(table, batches)
    return table.version() if found is None else found - 1


def version_with(table: DeltaTable, batches: Iterable[Batch]) -> int | None:
    """The newest version that brought one of these batches; None where the log does not show it."""
    store, wanted = place_of(table), {*batches}
    for version in range(table.version(), 0, -1):
        try:
            actions = _actions(store, version)
        except FileNotFoundError:
            break
        known = [one["txn"] for one in actions if "txn" in one]
        if any((one["appId"], one["version"]) in wanted for one in known):
            return version
    return None


def _actions(store: Store, version: int) -> list[dict]:
    """Raises FileNotFoundError."""
    text = (store / _LOG).get(f"{version:020}.json").decode()
    return [json.loads(line) for line in text.splitlines()]


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
    of: DeltaTable | None = None,
    note: dict[str, Any] | None = None,
) -> None:
    """From this commit on the table has `files`, and no longer `gone` (of version `of`). note: goes
    into the table's history. Raises CommitFailedError when `of` is no longer the newest version."""
    store, table, files = at(place), of or open_table(place), list(files)
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
    store.sync(map(name_of, files))
    with (store / _LOG).settled(always=NEWEST_CHECKPOINT):
        table.create_write_transaction(
            actions, "append", table.schema(), by, commit_properties=properties
        )


def _added(one: dict, by: list[str], now_ms: int) -> AddAction:
    return AddAction(one["path"], one["size"], _partition(one, by), now_ms, True, one["stats"])


def _partition(one: dict, by: list[str]) -> dict[str, str | None]:
    return dict.fromkeys(by, one["partition"])


Change = Callable[[DeltaTable], tuple[list[dict], list[dict]]]


def rewrite(
    place: Place,
    change: Change,
    batches: Iterable[Batch] = (),
    note: Callable[[list[dict]], dict[str, Any]] | None = None,
) -> None:
    """Commit what `change` makes of the newest version: (new files, files that they replace).
    Retries when another writer has committed meanwhile. note: about those new files, if any are
    replaced."""
    for left in reversed(range(TRIES)):
        table = open_table(place)
        made, gone = change(table)
        try:
            said = note(made) if note and gone else None
            commit(place, made, *batches, gone=gone, of=table, note=said)
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
    uris = table.file_uris(file_pruning_predicate=condition)
    wanted = {_below(table, one) for one in uris}
    return [one for one in files if name_of(one) in wanted]


def _below(table: DeltaTable, uri: str) -> str:
    """The name of a file, from its URI, which the library may have percent-encoded."""
    root = place_of(table).uri
    return unquote(uri).removeprefix("file://").removeprefix(root).lstrip("/")


def dataset(table: DeltaTable, where: str | None = None, schema: pa.Schema | None = None) -> Rows:
    """Reads nothing yet. where: SQL that selects files, not rows."""
    data = table.to_pyarrow_dataset(
        filesystem=place_of(table).filesystem, file_pruning_predicate=where, schema=schema
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


def changed(table: DeltaTable, since: int) -> set[str | None] | None:
    """The partitions whose rows have changed since that version (-1: never); None when that is not
    known."""
    found = commits(table, since) if since >= 0 else None
    return None if found is None else {value for one in found for value in one.partitions}


def name_of(one: dict) -> str:
    """The file of a row of FILES, below its table."""
    return unquote(one["path"])


def place_of(table: DeltaTable) -> Store:
    return at(unquote(table.table_uri.removeprefix("file://")).rstrip("/"))


def time_text(value: datetime.datetime) -> str:
    """A time as an SQL literal, to the microsecond."""
    return text(value.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"
