"""The log of a Delta table, read and continued through a Store: what a table is at a version.

A log is a file for each commit, numbered without gaps, and now and then a checkpoint that sums up
what precedes it. So a table is read without listing anything: the newest checkpoint, and each
commit after it until one is missing. It is renewed by asking for the next commit, and a commit is
one file, created if nobody else has. What this process commits, it does not read again.

Rejected: deltalake for this. It lists the log to open a table, three times to commit, reads each
commit twice, and all since the checkpoint again to look up a transaction: 112 of the 114 LIST and
most of the 560 GET of a round (host_tests/bench/round_requests.py). It writes the checkpoints.

Knows neither Arrow nor what is in the tables.
"""

from __future__ import annotations

import datetime
import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from outpost_tools.errors import ToolError
from outpost_tools.store.base import Store

FOLDER = "_delta_log"
NEWEST_CHECKPOINT = "_last_checkpoint"  # the library replaces it
# Logs are kept for days. A table that was last looked at before that (a machine that slept) could
# take a commit for missing that was deleted since, and commit in its place.
_TRUSTED_S = 86_400
_RECENT = 64  # commits that a table keeps in memory
_CLEANED_EACH = 10  # checkpoints: old files of the log are then deleted
_INTERVAL, _DEFAULT_INTERVAL = "delta.checkpointInterval", "100"
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_READER, _WRITER = 1, 4  # the newest protocols that name no features
_NAMES_FEATURES = 7
_FEATURES = {"appendOnly", "invariants", "changeDataFeed", "timestampNtz"}


class File:
    """A file of a table, with its statistics. partition: the value of its partition column."""

    __slots__ = ("_stats", "_text", "partition", "path", "size")

    def __init__(self, path: str, size: int, values: dict[str, str | None], text: str | None):
        self.path, self.size = path, size
        self.partition = next(iter(values.values()), None)
        self._text, self._stats = text, None

    @property
    def stats(self) -> dict[str, Any]:
        if self._stats is None:
            self._stats, self._text = json.loads(self._text or "{}"), None
        return self._stats

    @property
    def rows(self) -> int:
        return self.stats.get("numRecords", 0)

    def ends(self, column: str) -> tuple[Any, Any]:
        """The lowest and the highest value, as in JSON; None: unknown."""
        found = (self.stats.get(name, {}) for name in ("minValues", "maxValues"))
        low, high = (one.get(column) for one in found)
        return low, high

    def times(self, column: str) -> tuple[datetime.datetime | None, datetime.datetime | None]:
        """As ends(), of a column of times."""
        low, high = (one and datetime.datetime.fromisoformat(one) for one in self.ends(column))
        return low, high

    def overlaps(self, column: str, low: Any, high: Any) -> bool:
        """Whether it can hold a value between these."""
        first, last = self.ends(column)
        return (first is None or first <= high) and (last is None or last >= low)

    def nulls(self, column: str) -> int | None:
        return self.stats.get("nullCount", {}).get(column)


@dataclass(frozen=True)
class Table:
    """A table at a version. files: by the path that the log has; transactions: the last number of
    each application; columns: their names; recent: the actions of the newest commits; looked_s:
    when it was certainly the newest."""

    place: Store
    number: int = -1
    files: dict[str, File] = field(default_factory=dict, repr=False)
    transactions: dict[str, int] = field(default_factory=dict)
    configuration: dict[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    recent: dict[int, list[dict]] = field(default_factory=dict, repr=False)
    looked_s: float = 0.0

    def version(self) -> int:
        return self.number

    @property
    def log(self) -> Store:
        return self.place / FOLDER

    def actions(self, version: int) -> list[dict]:
        """Of that commit. Raises FileNotFoundError."""
        found = self.recent.get(version)
        return _read(self.log, version) if found is None else found


def _name(version: int) -> str:
    return f"{version:020}.json"


def _read(log: Store, version: int) -> list[dict]:
    """Raises FileNotFoundError."""
    # Not splitlines(): texts in it may have other ends of lines, such as U+2028.
    return [json.loads(line) for line in log.get(_name(version)).split(b"\n") if line.strip()]


# --- Reading ---


def opened(place: Store, version: int | None = None) -> Table:
    """version None: the newest. Raises TableNotFoundError, and ToolError for a table whose format
    is not known."""
    started_s, log = time.time(), place / FOLDER
    try:
        base = _newest_base(place, log) if version is None else _listed_base(place, log, version)
    except FileNotFoundError:  # a note about a checkpoint that is gone, or none beside a short log
        base = _listed_base(place, log, version)
    table = _continued(base, version)
    if version not in (None, table.number):
        raise ToolError(f"{place}: has no version {version} any more")
    return replace(table, looked_s=started_s)


def _newest_base(place: Store, log: Store) -> Table:
    """Raises FileNotFoundError."""
    try:
        said = json.loads(log.get(NEWEST_CHECKPOINT))
    except FileNotFoundError:
        return _applied(Table(place), 0, _read(log, 0))
    if "parts" in said:
        raise ToolError(f"{place}: its checkpoints have parts, which is not known here")
    return _of_checkpoint(place, log, said["version"])


def _listed_base(place: Store, log: Store, version: int | None) -> Table:
    """The newest checkpoint up to that version, or the first commit."""
    names = [one.name for one in log.entries()]
    found = [int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))]
    near = [one for one in found if version is None or one <= version]
    if near:
        return _of_checkpoint(place, log, max(near))
    if _name(0) in names:
        return _applied(Table(place), 0, _read(log, 0))
    if any(name.endswith(".json") for name in names):
        raise ToolError(f"{place}: its log begins in the middle, without a checkpoint")
    raise TableNotFoundError(f"{place}: no Delta table")


def _of_checkpoint(place: Store, log: Store, version: int) -> Table:
    """Raises FileNotFoundError."""
    from outpost_tools.readings.pipeline import delta_checkpoint  # late: only here, Arrow is needed

    data = log.get(f"{version:020}.checkpoint.parquet")
    found = _applied(Table(place), version, [*delta_checkpoint.actions(data)])
    return replace(found, recent={})


def _continued(table: Table, version: int | None = None) -> Table:
    while table.number != version:
        try:
            found = _read(table.log, table.number + 1)
        except FileNotFoundError:
            break
        table = _applied(table, table.number + 1, found)
    return table


def renewed(table: Table) -> Table:
    """As it is now; costs one request if nothing is new."""
    now_s = time.time()
    if not 0 <= now_s - table.looked_s < _TRUSTED_S:
        return opened(table.place)
    return replace(_continued(table), looked_s=now_s)


def is_there(table: Table) -> bool:
    """Whether its version still is: not if somebody has deleted the table, or recreated it."""
    return table.log.exists(_name(table.number))


def _applied(table: Table, version: int, actions: list[dict]) -> Table:
    files, transactions, changed = {**table.files}, {**table.transactions}, {}
    for one in actions:
        (kind, said), *_ = one.items()
        if kind == "add":
            values = said.get("partitionValues") or {}
            files[said["path"]] = File(said["path"], said["size"], values, said.get("stats"))
        elif kind == "remove":
            files.pop(said["path"], None)
        elif kind == "txn":
            transactions[said["appId"]] = said["version"]
        elif kind == "metaData":
            changed = _of_metadata(said)
        elif kind == "protocol":
            _check_protocol(table.place, said)
    recent = {version: actions} | {n: a for n, a in table.recent.items() if version - n < _RECENT}
    state = {"files": files, "transactions": transactions, "recent": recent} | changed
    return replace(table, number=version, **state)


def _of_metadata(said: dict) -> dict[str, Any]:
    fields = json.loads(said["schemaString"])["fields"]
    return {
        "configuration": {**(said.get("configuration") or {})},
        "partition_columns": tuple(said["partitionColumns"]),
        "columns": tuple(one["name"] for one in fields),
    }


def _check_protocol(place: Store, said: dict) -> None:
    features = {*(said.get("readerFeatures") or ()), *(said.get("writerFeatures") or ())}
    is_plain = said["minReaderVersion"] <= _READER and said["minWriterVersion"] <= _WRITER
    if features - _FEATURES or not (is_plain or said["minWriterVersion"] == _NAMES_FEATURES):
        what = ", ".join(sorted(features - _FEATURES)) or "column mapping"
        raise ToolError(f"{place}: somebody has switched on what is not known here: {what}")


# --- Writing ---


def committed(table: Table, actions: list[dict], info: dict[str, Any]) -> Table:
    """The table with a commit more. Raises CommitFailedError when it is not the newest version."""
    now_s, version = time.time(), table.number + 1
    if not 0 <= now_s - table.looked_s < _TRUSTED_S:
        raise CommitFailedError(f"{table.place}: looked at too long ago")
    said = {"timestamp": int(now_s * 1000), "operation": "WRITE", "txnId": uuid.uuid4().hex}
    said |= {"operationParameters": {"mode": "Append"}, "engineInfo": "Outpost"}
    actions = [{"commitInfo": said | info}, *actions]
    data = "\n".join(map(_line, actions)).encode()
    if not table.log.create(_name(version), data):
        raise CommitFailedError(f"{table.place}: another writer has committed version {version}")
    found = replace(_applied(table, version, actions), looked_s=now_s)
    interval = int(found.configuration.get(_INTERVAL, _DEFAULT_INTERVAL))
    if (version + 1) % interval == 0:
        _sum_up(found, is_cleaned=(version + 1) // interval % _CLEANED_EACH == 0)
    return found


def _line(action: dict) -> str:
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False)


def _sum_up(table: Table, *, is_cleaned: bool) -> None:
    """Write a checkpoint. is_cleaned: and delete what is older than the log must be."""
    with table.log.settled(always=NEWEST_CHECKPOINT):
        library = of_library(table.place, table.number)
        library.create_checkpoint()
        if is_cleaned:
            library.cleanup_metadata()


def of_library(place: Store, version: int | None = None) -> DeltaTable:
    """The table for deltalake, which lists its log."""
    return DeltaTable(place.uri, version=version, storage_options=place.options)


def added(one: dict, by: Iterable[str]) -> dict:
    """The action that adds a file, a row of delta.FILES. by: the partition columns."""
    said = {"path": one["path"], "partitionValues": dict.fromkeys(by, one["partition"])}
    said |= {"size": one["size"], "modificationTime": _now_ms(), "dataChange": True}
    return {"add": said | {"stats": one["stats"]}}


def removed(one: dict, by: Iterable[str]) -> dict:
    said = {"path": one["path"], "deletionTimestamp": _now_ms(), "dataChange": True}
    said |= {"extendedFileMetadata": True, "partitionValues": dict.fromkeys(by, one["partition"])}
    return {"remove": said | {"size": one["size"]}}


def _now_ms() -> int:
    return int(time.time() * 1000)


def versions_down(table: Table) -> Iterator[tuple[int, list[dict]]]:
    """The commits, the newest first, as far as the log shows them."""
    for version in range(table.number, -1, -1):
        try:
            yield version, table.actions(version)
        except FileNotFoundError:
            return
