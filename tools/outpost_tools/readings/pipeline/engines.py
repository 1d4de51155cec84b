"""Where the work of a round runs. The functions are the same, and so are the tables.

An engine does two things: it calls a function for each of some items, and it brings rows together:
`read` makes rows of packed.PACKED from each item, `take` gets all rows of one group at once.
Functions and items must be picklable. spark.py has the one that runs on Spark.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any, Protocol

import pyarrow as pa

Read = Callable[[str], Iterable[pa.RecordBatch]]
Take = Callable[[int, pa.Table], pa.Table]


_LOADED = [f"outpost_tools.readings.pipeline.{name}" for name in ("decode", "gold", "transforms")]


class Engine(Protocol):
    @property
    def tasks(self) -> int:
        """How many tasks share a group's work: one for each core or so."""

    def map(self, function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        """The results, in the order of the items."""

    def grouped(self, items: list[str], read: Read, take: Take, schema: pa.Schema) -> list[dict]:
        """The rows of `schema` that take(group, rows) returns for the rows of each group."""


class Local:
    """A pool of processes on this machine, without Java."""

    def __init__(self, processes: int | None = None) -> None:
        self.tasks = processes or len(os.sched_getaffinity(0))
        # Not fork: the libraries have threads. The server has them loaded once.
        context = get_context("forkserver")
        context.set_forkserver_preload(_LOADED)
        self._pool = ProcessPoolExecutor(self.tasks, context, _end_with_parent)

    @property
    def is_broken(self) -> bool:
        """Whether a process of the pool has died, so that nothing runs in it any more."""
        return bool(self._pool._broken)

    def map(self, function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        return list(self._pool.map(function, items))

    def grouped(self, items: list[str], read: Read, take: Take, schema: pa.Schema) -> list[dict]:
        groups: dict[int, list[pa.Table]] = defaultdict(list)
        for rows in self._pool.map(_Reading(read), items):
            for group in rows["bucket"].unique().to_pylist():
                groups[group].append(rows.filter(pa.compute.equal(rows["bucket"], group)))
        calls = [(group, pa.concat_tables(parts)) for group, parts in sorted(groups.items())]
        found = self._pool.map(_Taking(take), calls)
        return [row for rows in found for row in rows.cast(schema).to_pylist()]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """In a process of the pool, which would else wait forever for work of a driver that was
    killed."""

    def wait() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class _Reading:
    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, item: str) -> pa.Table:
        from outpost_tools.readings.pipeline import packed

        return pa.Table.from_batches(self._read(item), packed.PACKED)


class _Taking:
    def __init__(self, take: Take) -> None:
        self._take = take

    def __call__(self, call: tuple[int, pa.Table]) -> pa.Table:
        return self._take(*call)


@contextlib.contextmanager
def local(processes: int | None = None) -> Iterator[Local]:
    engine = Local(processes)
    try:
        yield engine
    finally:
        engine.close()
