"""The readings that silver has of windows which must be recomputed.

Each file is opened once a call, however many of the windows it has readings of. A call is bounded:
it reads one hour of each device, and beyond that opens at most MOST_FILES files and takes windows
of at most MOST_ROWS readings. The rest waits (left.py). So a board whose readings are spread over
years waits for itself, and nobody waits for it.

The unit of the plan is an hour of a device that has such windows. Files are chosen by
Delta's statistics. Arrow and numpy only; writes nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import delta, schemas, tables, windows
from outpost_tools.store.base import Store

MOST_FILES = 128  # a quarter of a second of CPU
MOST_ROWS = 2_000_000
_HOUR_US = 3_600_000_000
_AT_ONCE = 256  # units compared with all files: bounds the memory of a plan
_ROWS_AT_ONCE = 100_000
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_SCHEMA = pa.schema([schemas.READING.field(name) for name in windows.NEEDED])
_TIME = _SCHEMA.field("time").type


class Files(NamedTuple):
    """Those with readings that have a time: their table and names, the ends of the times in
    microseconds, and the first and last device; None: unknown."""

    place: Store
    names: list[str]
    first: np.ndarray
    last: np.ndarray
    devices: list[tuple[str | None, str | None]]


def files_of(silver: delta.Table) -> Files:
    timed = [one for one in silver.files.values() if one.nulls("time") != one.rows]
    ends = [one.times("time") for one in timed]
    return Files(
        silver.place,
        [delta.name_of({"path": one.path}) for one in timed],
        _micros([first for first, _ in ends], _EARLIEST),
        _micros([last for _, last in ends], _LATEST),
        [one.ends("device") for one in timed],
    )


def _micros(times: list[datetime.datetime | None], unknown: int) -> np.ndarray:
    return pc.fill_null(pa.array(times, _TIME).cast(pa.int64()), unknown).to_numpy()


def read(
    files: Files, wanted: pa.Table, window_s: float, most_files: int = MOST_FILES
) -> tuple[np.ndarray, pa.Table]:
    """(which of these windows are taken, all their readings as of with_start()). wanted: rows of
    WINDOWS in the order of their turn; of each device, the first is taken with all of its hour."""
    units = _Units(wanted, windows.width_us(window_s))
    taken, chosen = _planned(files, units, most_files)
    mine = wanted.filter(pa.array(taken[units.of_window]))
    near = (_near(files, place, units, taken) for place in np.flatnonzero(chosen))
    found = [windows.with_start(_SCHEMA.empty_table(), window_s)]
    for rows in _together(near):
        rows = windows.with_start(rows, window_s)
        found.append(rows.filter(pa.array(windows.is_of(rows, mine))))
    return taken[units.of_window], pa.concat_tables(found)


def _together(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in fewer tables."""
    held, count = [], 0
    for part in parts:
        held.append(part)
        count += part.num_rows
        if count >= _ROWS_AT_ONCE:
            yield pa.concat_tables(held)
            held, count = [], 0
    if held:
        yield pa.concat_tables(held)


class _Units:
    """Arrays of one value for each unit, and of_window: the unit of each window."""

    def __init__(self, wanted: pa.Table, width_us: int) -> None:
        starts = wanted["start"].cast(pa.int64()).to_numpy()
        names = sorted(set(wanted["device"].to_pylist()))
        codes = pc.index_in(wanted["device"], value_set=pa.array(names, pa.string())).to_numpy()
        hours, at_hour = np.unique(starts // _HOUR_US, return_inverse=True)
        keys = codes.astype(np.int64) * len(hours) + at_hour
        _, place, self.of_window = np.unique(keys, return_index=True, return_inverse=True)
        self.names, self.code = names, codes[place]
        self.begin, self.end = np.full(len(place), _LATEST), np.full(len(place), _EARLIEST)
        np.minimum.at(self.begin, self.of_window, starts)
        np.maximum.at(self.end, self.of_window, starts + width_us)
        self.rows = np.bincount(self.of_window, wanted["count"].to_numpy(), len(place))
        turns = _turns(self.code, place)
        self.is_first, self.order = turns == 0, np.lexsort((place, turns))

    def devices_of(self, files: Files) -> tuple[np.ndarray, np.ndarray]:
        """For each file, the first code of a device that it can have, and one after the last."""
        names, last = np.array(self.names, object), len(self.names)
        low = [0 if a is None else np.searchsorted(names, a) for a, _ in files.devices]
        high = [
            last if b is None else np.searchsorted(names, b, side="right") for _, b in files.devices
        ]
        return np.array(low, np.int64), np.array(high, np.int64)


def _turns(code: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The rank of each unit among those of its device."""
    order = np.lexsort((place, code))
    is_first = np.diff(code[order], prepend=-1) != 0
    rank = np.arange(len(code))
    found = np.empty(len(code), np.int64)
    found[order] = rank - np.maximum.accumulate(np.where(is_first, rank, 0))
    return found


def _planned(files: Files, units: _Units, most_files: int) -> tuple[np.ndarray, np.ndarray]:
    """(which units are taken, which files hold their readings)."""
    taken, chosen = np.zeros(len(units.code), bool), np.zeros(len(files.names), bool)
    low, high = units.devices_of(files)
    count = rows = 0
    for at in range(0, len(units.order), _AT_ONCE):
        part = units.order[at : at + _AT_ONCE]
        code, begin, end = (v[part, None] for v in (units.code, units.begin, units.end))
        holds = (low <= code) & (code < high) & (files.first < end) & (files.last >= begin)
        for unit, mine in zip(part, holds, strict=True):
            more = np.count_nonzero(mine & ~chosen)
            is_beyond = count + more > most_files or rows + units.rows[unit] > MOST_ROWS
            if is_beyond and not units.is_first[unit]:
                continue
            taken[unit] = True
            chosen |= mine
            if not units.is_first[unit]:
                count, rows = count + more, rows + units.rows[unit]
    return taken, chosen


def _near(files: Files, place: int, units: _Units, taken: np.ndarray) -> pa.Table:
    """The file's readings of the devices of these units, in the time of those it can hold."""
    near = taken & (files.first[place] < units.end) & (files.last[place] >= units.begin)
    names = [units.names[code] for code in np.unique(units.code[near])]
    ends = (units.begin[near].min(), units.end[near].max())
    first, last = (pa.scalar(int(end), pa.int64()).cast(_TIME) for end in ends)
    wanted = pc.field("device").isin(names)
    wanted &= (pc.field("time") >= first) & (pc.field("time") < last)
    return tables.dataset(files.place, [files.names[place]], _SCHEMA).to_table(filter=wanted)
