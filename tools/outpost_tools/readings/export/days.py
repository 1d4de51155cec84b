"""One CSV file per day in a folder, for `outpost export --days`.

A board that was offline sends readings of days whose files are already written. So each export
computes a checksum of what the log has for each day. It writes the days whose checksum differs from
what the last export noted (in `.days.json`), or whose file is gone. Today's file follows when the
day is over. Readings without a time have a file of their own until their boot's clock is known.

A row is removed from a file only if the log now has its message with other contents. Rows from
segments that were deleted (`outpost pipeline prune`, a new disk) stay.

Memory: the rows of _ROWS_HELD readings, or of one day with more; and those of their files.
"""

from __future__ import annotations

import datetime
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from outpost_tools.errors import ToolError
from outpost_tools.machine.files import replace_text
from outpost_tools.readings.export import COLUMNS, run, sinks
from outpost_tools.readings.export.log_files import Log
from outpost_tools.readings.export.selection import Selection
from outpost_tools.readings.pipeline import contents, schemas
from outpost_tools.readings.sources.mapping import Mapping

WITHOUT_TIME = "without-time"
_NOTE = ".days.json"
_DAY_US = 86_400_000_000
_EPOCH = datetime.date(1970, 1, 1)
_NO_DAY = -1  # times begin in 1978
_ROWS_HELD = 500_000  # about 300 bytes each
_SCHEMA = run.schema_of(list(COLUMNS))
_KEY = ["device", "stream", "seq"]
_ORDER = [(name, "ascending") for name in ("time", *_KEY, "record")]


class _Sums:
    """A sink that keeps, for each day, the number of its rows and a sum over their contents, which
    does not depend on their order."""

    def __init__(self) -> None:
        self.rows: Counter[int] = Counter()
        self._said: Counter[int] = Counter()

    def write(self, rows: pa.Table) -> None:
        days, at = np.unique(_days(rows), return_inverse=True)
        said = np.zeros(len(days), contents.TYPE)
        np.add.at(said, at, contents.of_columns(rows))
        self._said.update(dict(zip(days.tolist(), said.tolist(), strict=True)))
        self.rows.update(dict(zip(days.tolist(), np.bincount(at).tolist(), strict=True)))

    def close(self) -> None:
        pass

    def of(self, day: int) -> list[int]:
        return [self.rows[day], self._said[day] % 2**64]


class _Held:
    """A sink that keeps the rows of some days, and those `old` rows whose messages do not come
    again."""

    def __init__(self, days: Iterable[int], old: pa.Table) -> None:
        self._days, self._old = np.array(sorted(days)), old
        self._parts: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        self._parts.append(rows.filter(pa.array(np.isin(_days(rows), self._days))))
        if self._old.num_rows:
            comes = pc.is_in(_messages(self._old), value_set=_messages(rows).combine_chunks())
            self._old = self._old.filter(pc.invert(comes))

    def close(self) -> None:
        self._rows = pa.concat_tables([self._old, *self._parts])
        self._at = _days(self._rows)

    def of(self, day: int) -> pa.Table:
        return self._rows.filter(pa.array(self._at == day)).sort_by(_ORDER)


def _messages(rows: pa.Table) -> pa.ChunkedArray:
    """For each row, which message it belongs to."""
    parts = (rows[name].cast(pa.string()) for name in _KEY)
    return pc.binary_join_element_wise(*parts, schemas.BETWEEN)


def _days(rows: pa.Table) -> np.ndarray:
    """For each row, its day since 1970."""
    time = pc.fill_null(rows["time"].cast(pa.int64()), _NO_DAY)
    return time.to_numpy() // _DAY_US


def export(
    log: Log, folder: Path, today: datetime.date, step: run.Step, mapping: Mapping | None = None
) -> tuple[run.Account, int]:
    """(what was found, how many files were written). mapping: for other people's messages. Raises
    ToolError."""
    sums = _Sums()
    account = run.export(log, Selection(), list(COLUMNS), sums, mapping=mapping, step=step)
    known, written = _known(folder), 0
    for days in _portions(_changed(folder, today, sums, known), sums):
        held = _Held(days, _old(log, folder, days))
        run.export(log, Selection(), list(COLUMNS), held, mapping=mapping)
        held.close()
        for day in days:
            _write(_path(folder, day), held.of(day))
            known[_name(day)] = sums.of(day)
        _note(folder, known)
        written += len(days)
    return account, written


def _changed(
    folder: Path, today: datetime.date, sums: _Sums, known: dict[str, list[int]]
) -> list[int]:
    end = (today - _EPOCH).days
    days = {*(day for day in sums.rows if day < end), *map(_number, known)}
    return sorted(
        day
        for day in days
        if sums.of(day) != known.get(_name(day), [0, 0])
        or (sums.rows[day] and not _path(folder, day).exists())
    )


def _portions(days: list[int], sums: _Sums) -> Iterator[list[int]]:
    before = itertools.accumulate((sums.rows[day] for day in days), initial=0)
    numbered = zip((count // _ROWS_HELD for count in before), days, strict=False)
    for _, part in itertools.groupby(numbered, key=lambda one: one[0]):
        yield [day for _, day in part]


def _write(path: Path, rows: pa.Table) -> None:
    with sinks.opened(path, "csv") as stream:
        sink = sinks.sink("csv", stream, rows.schema)
        sink.write(rows)
        sink.close()


def _old(log: Log, folder: Path, days: Iterable[int]) -> pa.Table:
    """The rows in the existing files of these days. A file that cannot be read is set aside."""
    found = [_SCHEMA.empty_table()]
    for path in (_path(folder, day) for day in days):
        try:
            found.append(_read(path))
        except FileNotFoundError:
            continue
        except (KeyError, pa.ArrowInvalid):
            aside = path.with_suffix(f".{time.time_ns()}.old")
            path.rename(aside)
            log.notes.append(f"{path} was changed by another program: kept as {aside.name}")
    return pa.concat_tables(found)


def _read(path: Path) -> pa.Table:
    """Raises OSError, KeyError or ArrowInvalid."""
    options = pyarrow.csv.ConvertOptions(
        column_types=_SCHEMA, strings_can_be_null=True, quoted_strings_can_be_null=False,
        null_values=[""],
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    rows = pyarrow.csv.read_csv(path, parse_options=parse, convert_options=options)
    return sinks.unguarded(rows.select(_SCHEMA.names).cast(_SCHEMA))


# --- Names and the note ---


def _name(day: int) -> str:
    if day == _NO_DAY:
        return WITHOUT_TIME
    return str(_EPOCH + datetime.timedelta(days=day))


def _number(name: str) -> int:
    if name == WITHOUT_TIME:
        return _NO_DAY
    return (datetime.date.fromisoformat(name) - _EPOCH).days


def _path(folder: Path, day: int) -> Path:
    return folder / f"{_name(day)}.csv"


def _known(folder: Path) -> dict[str, list[int]]:
    """What the last export noted; empty if it cannot be read, and then all is written again."""
    try:
        found = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        return {name: said for name, said in found.items() if _number(name) >= _NO_DAY}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _note(folder: Path, known: dict[str, list[int]]) -> None:
    """Raises ToolError."""
    try:
        replace_text(folder / _NOTE, json.dumps(known, sort_keys=True))
    except OSError as error:
        raise ToolError(f"{folder / _NOTE}: {error.strerror}") from None
