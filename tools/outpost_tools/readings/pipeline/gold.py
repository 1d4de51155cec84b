"""Gold: answers to what people ask about the readings. A round costs what its new data costs.

What silver has got since the last time gold was made follows from its log: files of new readings,
and files in which readings have moved. The engine brings the new readings of a bucket of devices
together, as it does for silver (packed.py), and an Arrow function recomputes the bucket's tables
where they change:

- A new window is computed from the new readings. An existing one continues, if they are later than
  all it has. Otherwise it is recomputed from all its readings in silver. A round reads a limited
  number of silver's files for that, each once (stored.py), and leaves the other windows for later
  rounds (left.py).
- `totals` is added to (totals.py); boots that are closed stay unread (closing.py). The small tables
  of the bucket follow from it and from the state of its streams (summaries.py).
- A device whose readings changed in another way than getting their first time (a clock that
  replaced another, a displaced message) is recomputed from all its readings. That is rare.

Each table is replaced in one commit that records how far silver and state were read. They are
written in the order of ORDER. So after a kill `totals`, which must count each reading once, shows
what is missing, and the others can be recomputed: each notes which commit of `totals` it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from outpost_tools.readings.pipeline import (
    boot_files,
    changes,
    clocks,
    closing,
    delta,
    gold_schemas,
    left,
    packed,
    schemas,
    stored,
    summaries,
    tables,
    totals,
    window_files,
    windows,
)
from outpost_tools.readings.pipeline.engines import Engine
from outpost_tools.store.base import Store

ORDER = ("windows", "totals", "boots", "latency", "gaps", "devices")
_COUNTED = ORDER[1:]  # their commits note which commit of `totals` they follow from
_COUNT, _WAITING = "commits of totals", "buckets with waiting boots"
_WIDTH = "width of windows"  # in microseconds, noted by `totals`
_NEEDED = list(dict.fromkeys([*windows.NEEDED, *totals.NEEDED]))
_READ = pa.schema([schemas.READING.field(name) for name in _NEEDED])
_GROUP = "group "  # an item that is no file
# Names under which a task returns what it leaves: the windows, in `rows`; how many boots of each
# bucket, as `size`.
_LEFT, _BOOTS_LEFT = ".left", ".boots left"
_RESULT = pa.schema([*delta.FILES, ("gone", pa.bool_()), ("rows", pa.binary())])
Progress = Callable[[str], None]


def write(
    engine: Engine,
    tables_dir: delta.Place | delta.Opened,
    window_s: float,
    *,
    progress: Progress,
) -> int:
    """Compute gold from silver and state as they are now, for this length of window. Returns the
    number of windows that are left for the next call."""
    opened = delta.Opened.at(tables_dir)
    for tries in reversed(range(delta.TRIES)):
        try:
            return _write(engine, opened, window_s, progress)
        except CommitFailedError:  # a compaction committed meanwhile
            if not tries:
                raise
            opened.again()
    raise AssertionError("unreachable")


class _Plan(NamedTuple):
    """What a round does. query: the name under which tables note the version of silver that they
    have read; state: the version of `streams`, for the last step. buckets: those whose streams
    changed (None: all). waiting: windows that earlier rounds left. only_left: nothing is new.
    is_apart: a rebuild that counts once its last step is done, with the list of `left`. Until then
    its tables say that they have read nothing."""

    query: str
    state: delta.Batch
    steps: list[changes.Step]
    buckets: set[str | None] | None
    waiting: pa.Table
    only_left: bool
    is_apart: bool

    def is_last(self, step: changes.Step) -> bool:
        return step is self.steps[-1]

    def reached(self, step: changes.Step) -> list[delta.Batch]:
        """What the tables note after this step."""
        has_read = step.version >= 0 or self.is_apart
        found = [delta.Batch(self.query, step.version)] if has_read else []
        return [*found, self.state] if self.is_last(step) else found


def _write(engine: Engine, opened: delta.Opened, window_s: float, progress: Progress) -> int:
    plan = _planned(opened, window_s)
    if plan is None:
        progress("no new segments; tables unchanged")
        return 0
    progress("computing windows, gaps, latency, devices and boots")
    waiting, boots, number = plan.waiting, 0, left.number(opened, window_s)
    for step in plan.steps:
        maker = Maker(opened.tables_dir, window_s, step, waiting=waiting)
        files = _made(engine, opened, maker, _visited(opened, plan, step))
        boots = sum(one["size"] for one in _of(_BOOTS_LEFT, files)[0])
        boots = boots or _waiting_after(opened, files).bit_count()
        waiting = _commit_step(opened, plan, maker, files)
    now = left.read(opened, window_s)
    if now is not None and now.number > number:
        left.prune(opened.tables_dir, now.number)
    return _told(now, boots, progress)


def _commit_step(opened: delta.Opened, plan: _Plan, maker: Maker, files: list[dict]) -> pa.Table:
    """Commit files, rows of _RESULT, in each table that does not have the step yet. Returns the
    windows that are left after it."""
    step, waiting = maker.step, maker.waiting
    reached = plan.reached(step)
    count = opened.committed("totals", _COUNT)
    for name in ORDER:
        new, gone = _of(name, files)
        is_due = plan.is_apart or (name == "windows" and plan.only_left)
        is_due |= name == "totals" and bool(new or gone)
        is_due |= name in _COUNTED and opened.committed(name, _COUNT) < count
        if not is_due and _has(opened, name, reached):
            continue
        more = []
        if name == "windows":
            waiting = left.unpack(one["rows"] for one in _of(_LEFT, files)[0])
            if plan.is_last(step) or not plan.is_apart:
                more = _list(opened, maker.window_s, waiting)
        if name == "totals":
            count += 1
            more = [delta.Batch(_WAITING, _waiting_after(opened, files))]
            more += [delta.Batch(_WIDTH, windows.width_us(maker.window_s))]
        if name in _COUNTED:
            more.append(delta.Batch(_COUNT, count))
        of, notes = opened[name], (*reached, *more)
        opened.note(name, delta.commit(of.place, new, *notes, gone=gone, of=of))
    return waiting


def _waiting_boots(opened: delta.Opened) -> int:
    """The buckets with boots that wait (closing.py), a bit for each."""
    return max(opened.committed("totals", _WAITING), 0)


def _waiting_after(opened: delta.Opened, files: list[dict]) -> int:
    found = _waiting_boots(opened)
    for one in _of(_BOOTS_LEFT, files)[0]:
        bit = 1 << int(one["partition"])
        found = found | bit if one["size"] else found & ~bit
    return found


def _planned(opened: delta.Opened, window_s: float) -> _Plan | None:
    """None: nothing to do."""
    query, state = (f"{window_s:g} s of {name}" for name in ("readings", "streams"))
    now = tuple(opened[name].version() for name in ("readings", "streams"))
    before = left.read(opened, window_s)
    # The tables have windows of one width: those of another one are replaced.
    is_other = opened.committed("totals", _WIDTH) not in (-1, windows.width_us(window_s))
    is_lost = before is None or is_other
    since = -1 if is_lost else opened.committed("totals", query)
    ended, since_state = (opened.committed(ORDER[-1], name) for name in (query, state))
    counts = [opened.committed(name, _COUNT) for name in ("totals", ORDER[-1])]
    # with `totals` written, and tables that follow from it not
    was_killed = ended < since or counts[1] < counts[0]
    is_new = (since, since_state) != now or was_killed
    is_left = is_lost or before.keys.num_rows or _waiting_boots(opened)
    if not is_new and not is_left:
        return None
    steps = changes.of_silver(opened["readings"], since)
    buckets = None if was_killed else delta.changed(opened["streams"], since_state)
    waiting = left.KEYS.empty_table() if is_lost or steps[0].is_whole else before.keys
    # Such a rebuild finds its version in every table.
    is_apart = is_lost or (steps[0].is_whole and len(steps) > 1)
    new_state = delta.Batch(state, now[1])
    return _Plan(query, new_state, steps, buckets, waiting, not is_new, is_apart)


def _list(opened: delta.Opened, window_s: float, keys: pa.Table) -> list[delta.Batch]:
    """Write the list of the windows that are left, if there are or were any."""
    known = left.read(opened, window_s)
    if known is not None and keys.equals(known.keys):
        return []
    return [left.write(opened, window_s, keys)]


def _told(now: left.Left | None, boots: int, progress: Progress) -> int:
    if now is None:
        return 0
    if now.keys.num_rows:
        boards = pc.count_distinct(now.keys["device"]).as_py()
        progress(
            f"{now.keys.num_rows:,} windows of {boards} boards are left for the next round: a "
            f"round opens at most {stored.MOST_FILES} files of readings in each of its parts"
        )
    if boots:
        progress(
            f"readings of {boots:,} older boots wait for the next round: a round opens at most "
            f"{boot_files.MOST_FILES} files of closed boots in each of its parts"
        )
    return now.keys.num_rows + boots


def _has(opened: delta.Opened, name: str, reached: list[delta.Batch]) -> bool:
    """Whether a killed run has already written this step to that table."""
    return all(opened.committed(name, one.query) >= one.number for one in reached)


def _visited(opened: delta.Opened, plan: _Plan, step: changes.Step) -> set[int]:
    """The buckets to look at in addition to those of new readings."""
    states = plan.buckets if plan.is_last(step) else set()
    if states is None or step.is_whole or not _is_confirmed(opened):
        return set(range(packed.BUCKETS))
    moved = [name for _, boots in step.placed for name in boots["device"].to_pylist()]
    moved += step.again
    found = {int(one) for one in states if one} | {packed.bucket(name) for name in moved}
    if plan.is_last(step):
        mask = _waiting_boots(opened)
        found |= {bucket for bucket in range(packed.BUCKETS) if mask >> bucket & 1}
    return found


def _is_confirmed(opened: delta.Opened) -> bool:
    """Whether `boots` has what the last commit of `totals` closed."""
    return opened.committed("boots", _COUNT) == opened.committed("totals", _COUNT)


def _of(name: str, files: list[dict]) -> tuple[list[dict], list[dict]]:
    """(new files of that table, those that they replace), of rows of _RESULT."""
    mine = [one for one in files if one["table"] == name]
    return [one for one in mine if not one["gone"]], [one for one in mine if one["gone"]]


def _made(engine: Engine, opened: delta.Opened, maker: Maker, visited: set[int]) -> list[dict]:
    """Compute the step's buckets in tasks. Returns rows of _RESULT."""
    maker.visited = visited
    visited = visited | maker.of_left
    maker.groups = packed.groups(engine.tasks)
    maker.know(opened)
    items = list(maker.step.fresh)
    items += [f"{_GROUP}{group}" for group in {one % maker.groups for one in visited}]
    return engine.grouped(items, maker.packed, maker.revised, _RESULT) if items else []


@dataclass
class Maker:
    """Computes the tables of several buckets at once, a group: a call costs the same as for one.
    waiting: the windows that earlier rounds have left; most_files: of readings to open; `files`:
    those that each table has for each bucket; visited: buckets to look at in any case."""

    tables_dir: Store
    window_s: float
    step: changes.Step
    waiting: pa.Table = field(default_factory=left.KEYS.empty_table)
    most_files: int = field(default_factory=lambda: stored.MOST_FILES)
    files: dict[tuple[str, int], list[dict]] = field(default_factory=dict)
    visited: set[int] = field(default_factory=set)
    groups: int = 1
    is_confirmed: bool = True  # see closing.confirmed()

    def packed(self, item: str) -> Iterator[pa.RecordBatch]:
        """The readings of a file by group; no rows of a group to look at anyway."""
        if item.startswith(_GROUP):
            parts = [(int(item.removeprefix(_GROUP)), _READ.empty_table())]
        else:
            rows = tables.read_files(self.tables_dir / "readings", [item], _READ)
            parts = packed.split(rows, self.groups)
        yield packed.of_parts((number, False, part) for number, part in parts)

    @property
    def of_left(self) -> set[int]:
        """The buckets of the windows that were left."""
        return {packed.bucket(name) for name in self.waiting["device"].unique().to_pylist()}

    def know(self, opened: delta.Opened) -> None:
        self.is_confirmed = _is_confirmed(opened)
        for name in (*ORDER, "streams"):
            for one in _files_of(opened, name):
                self.files.setdefault((name, int(one["partition"])), []).append(one)

    def revised(self, group: int, packed_rows: pa.Table) -> pa.Table:
        rows = packed.unpack_rows(packed_rows)
        buckets = {one for one in self.visited if one % self.groups == group}
        buckets |= {number for number, _ in packed.split(rows, packed.BUCKETS)}
        fresh, placed = self._but_again(rows), self._but_again(self._placed(buckets))
        again = [name for name in self.step.again if packed.bucket(name) in buckets]
        anew = self._silver(again) if again else _READ.empty_table()
        also = {one for one in self.of_left if one % self.groups == group}
        found = self._windows(buckets | also, pa.concat_tables([fresh, placed]), anew)
        found += self._small(buckets, fresh, placed, anew) if buckets else []
        return pa.Table.from_pylist(found, schema=_RESULT)

    def _of(self, name: str, buckets: set[int]) -> list[dict]:
        return [one for bucket in sorted(buckets) for one in self.files.get((name, bucket), [])]

    def _but_again(self, rows: pa.Table) -> pa.Table:
        names = pa.array(self.step.again, pa.string())
        return rows.filter(pc.invert(pc.is_in(rows["device"], value_set=names)))

    def _placed(self, buckets: set[int]) -> pa.Table:
        """Readings of silver that have got their first time."""
        found = [_READ.empty_table()]
        for names, boots in self.step.placed:
            devices = {one for one in boots["device"].to_pylist() if packed.bucket(one) in buckets}
            if devices:
                rows = tables.read_files(self.tables_dir / "readings", names, _READ)
                rows = rows.filter(pc.field("placed"))
                mine = boots.filter(pc.field("device").isin(sorted(devices)))
                found.append(rows.filter(clocks.is_of(rows, mine)))
        return pa.concat_tables(found)

    def _silver(self, devices: list[str]) -> pa.Table:
        """All readings of these devices."""
        ends, silver = (min(devices), max(devices)), delta.open_table(self.tables_dir / "readings")
        files = delta.files_of(silver, lambda one: one.overlaps("device", *ends))
        return tables.read_near(silver.place, files, _READ, pc.field("device").isin(devices))

    # --- windows ---

    def _windows(self, buckets: set[int], rows: pa.Table, anew: pa.Table) -> list[dict]:
        rows, anew = (windows.with_start(part, self.window_s) for part in (rows, anew))
        files = self._of("windows", buckets)
        if self.step.is_whole:
            made = windows.of_rows(pa.concat_tables([rows, anew])).sort_by("start")
            return [*self._written("windows", [made]), *_gone(files)]
        reader = window_files.Reader(
            self.tables_dir, self.window_s, self.step.again, self.most_files
        )
        found = reader.revised(files, rows, anew, self._but_again(self._left_of(buckets)))
        later = [{"table": _LEFT, "gone": False, "rows": left.pack(found.later)}]
        return [*self._written("windows", found.made), *_gone(found.gone), *later]

    def _left_of(self, buckets: set[int]) -> pa.Table:
        names = self.waiting["device"].unique().to_pylist()
        mine = pa.array([one for one in names if packed.bucket(one) in buckets], pa.string())
        return self.waiting.filter(pc.is_in(self.waiting["device"], value_set=mine))

    # --- totals and what follows from them ---

    def _small(
        self, buckets: set[int], fresh: pa.Table, placed: pa.Table, anew: pa.Table
    ) -> list[dict]:
        is_whole = self.step.is_whole
        more = [totals.of_rows(rows) for rows in (fresh, anew) if rows.num_rows]
        more += [totals.of_placed(placed)] if placed.num_rows else []
        head = self._head([] if is_whole else self._of("totals", buckets))
        again = [name for name in self.step.again if packed.bucket(name) in buckets]
        head = closing.without(head, again) if again else head
        files = self._boot_files([] if is_whole else buckets)
        found = []
        if more or again or head.waiting.num_rows or is_whole:
            done = closing.advanced(head, totals.added(more), files.looked_up)
            found += self._replaced("totals", buckets, done.head.table())
            found += _both(files.archived(done.archived, again))
        else:
            done = closing.again(head)
        found += self._replaced("boots", buckets, summaries.boots(done.head.opens))
        gone = done.head.anew["device"].to_pylist()
        found += _both(files.booted(summaries.boots(done.head.closed), done.replaced, gone))
        if is_whole:
            closed = {boot_files.partition(bucket) for bucket in buckets}
            found += _gone([one for name in ("totals", "boots") for one in self._of(name, closed)])
        return found + self._following(buckets, done.head)

    def _head(self, files: list[dict]) -> closing.Head:
        head = closing.head_of(self._read("totals", files, gold_schemas.TOTALS))
        return closing.confirmed(head) if self.is_confirmed else head

    def _boot_files(self, buckets: Iterable[int]) -> boot_files.Files:
        closed = {boot_files.partition(bucket) for bucket in buckets}
        return boot_files.Files(
            self.tables_dir, *(self._of(name, closed) for name in ("totals", "boots"))
        )

    def _following(self, buckets: set[int], head: closing.Head) -> list[dict]:
        """The tables that follow from `totals` alone, and how many boots wait."""
        found, streams = [], self._read("streams", self._of("streams", buckets), schemas.STREAM)
        for name, rows in summaries.made(head.known, streams).items():
            found += self._replaced(name, buckets, rows)
        waiting = dict(packed.split(head.waiting, packed.BUCKETS))
        for bucket in buckets:
            size = waiting[bucket].num_rows if bucket in waiting else 0
            found.append({"table": _BOOTS_LEFT, "partition": str(bucket), "size": size})
            found[-1]["gone"] = False
        return found

    def _read(self, name: str, files: list[dict], schema: pa.Schema) -> pa.Table:
        return tables.read_files(self.tables_dir / name, map(delta.name_of, files), schema)

    def _replaced(self, name: str, buckets: set[int], rows: pa.Table) -> list[dict]:
        """Replaces everything that the table has for the buckets."""
        return [*self._written(name, [rows]), *_gone(self._of(name, buckets))]

    def _written(self, name: str, parts: list[pa.Table]) -> list[dict]:
        place = self.tables_dir / name
        files = [
            delta.write(place, rows, str(bucket), "bucket")
            for part in parts
            for bucket, rows in packed.split(part, packed.BUCKETS)
        ]
        return [one | {"gone": False} for one in files]


def _files_of(opened: delta.Opened, name: str) -> list[dict]:
    if name in ("totals", "boots"):
        return boot_files.files_of(opened[name])
    if name == "windows":
        return window_files.files_of(opened[name])
    return delta.files_of(opened[name])


def _both(found: tuple[list[dict], list[dict]]) -> list[dict]:
    """(new files, those that they replace) as rows of _RESULT."""
    made, gone = found
    return [*(one | {"gone": False} for one in made), *_gone(gone)]


def _gone(files: list[dict]) -> list[dict]:
    return [{key: one.get(key) for key in delta.FILES.names} | {"gone": True} for one in files]
