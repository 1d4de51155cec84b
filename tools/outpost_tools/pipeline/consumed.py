"""Finds and deletes segments that nobody needs any more.

Every tables directory that reads a log registers in `<log>/.readers/`; a segment is deleted only
when each of them has committed it. What a query has committed is read from Spark's own checkpoint:
the offsets of the newest batch in `commits/`. The newest sealed segment of a collector always
stays, so that no number is used twice. So do those that the collector's own snapshot does not
cover, because it would read them again.

A collector's log is read from the first segment that was there. A segment with a lower number that
is copied in later (from a backup, an old disk) comes before what was taken in: it is not read, each
run reports it, and it is not deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from outpost_tools.common import segments
from outpost_tools.common.errors import ToolError
from outpost_tools.common.files import replace_text
from outpost_tools.pipeline import tables

CHECKPOINT = "_checkpoint"
READERS = ".readers"
_FIRST = "_first_segments.json"


def register(log: Path, tables_dir: Path) -> None:
    """Record that `tables_dir` reads this log. Raises OSError when the log cannot be written."""
    path = _registration(log, tables_dir)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps({"tables": str(tables_dir.resolve())}), encoding="utf-8")
        temporary.rename(path)


def forget(log: Path, tables_dir: Path) -> None:
    """Raises ToolError when it is not registered."""
    try:
        _registration(log, tables_dir).unlink()
    except FileNotFoundError:
        raise ToolError(
            f"{tables_dir} is not registered as a reader of {log}; see `outpost pipeline status`"
        ) from None


def _registration(log: Path, tables_dir: Path) -> Path:
    return (
        log
        / READERS
        / f"{hashlib.sha256(str(tables_dir.resolve()).encode()).hexdigest()[:16]}.json"
    )


def readers(log: Path) -> list[Path]:
    """The tables directories that read this log.

    Raises ToolError when a registration cannot be read.
    """
    found = []
    for path in sorted((log / READERS).glob("*.json")):
        try:
            found.append(Path(json.loads(path.read_text(encoding="utf-8"))["tables"]))
        except (ValueError, KeyError, TypeError):
            raise ToolError(
                f"{path}: not a registration; remove it when nothing reads this log under that name"
            ) from None
    return found


def query(tables_dir: Path) -> str:
    """Spark's name for the query that makes these tables; "" before the first run."""
    try:
        text = (tables_dir / CHECKPOINT / "metadata").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    return json.loads(text)["id"]


def committed_batch(tables_dir: Path) -> int:
    """The newest batch that Spark has committed, -1 when there is none."""
    done = [int(path.name) for path in (tables_dir / CHECKPOINT / "commits").glob("[0-9]*")]
    return max(done, default=-1)


def committed_offsets(tables_dir: Path) -> dict[str, int]:
    """{collector: last segment} that these tables have committed."""
    number = committed_batch(tables_dir)
    if number < 0:
        return {}
    path = tables_dir / CHECKPOINT / "offsets" / str(number)
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines:
        raise ToolError(f"{path} is empty: a power cut, or a bad disk")
    return json.loads(lines[-1])  # version, metadata, then one line per source: there is one


def first_segments(tables_dir: Path) -> dict[str, int]:
    """{collector: the first segment that was taken in}, where noted. Raises ToolError."""
    path = tables_dir / _FIRST
    try:
        return {name: int(number) for name, number in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError):
        raise ToolError(f"{path}: cannot be read; remove it, and the next run notes it") from None


def note_first(log: Path, tables_dir: Path) -> None:
    """Call before a run: notes the first segment of each collector, for what this run takes in and
    for what earlier versions took in without a note. Raises ToolError, OSError."""
    known, taken = first_segments(tables_dir), committed_offsets(tables_dir)
    there = {name: numbers[0] for name, numbers in _sealed(log).items()}
    found = there | {name: known[name] for name in taken if name in known}
    if found != known:
        replace_text(tables_dir / _FIRST, json.dumps(found, sort_keys=True))


def unread(log: Path, tables_dir: Path) -> dict[str, list[int]]:
    """{collector: segments older than everything that was taken in}. Raises ToolError."""
    first = first_segments(tables_dir)
    older = {
        name: [number for number in numbers if number < first.get(name, 0)]
        for name, numbers in _sealed(log).items()
    }
    return {name: numbers for name, numbers in older.items() if numbers}


def _sealed(log: Path) -> dict[str, list[int]]:
    """As source.available(), without Spark's classes."""
    found = {
        folder.name: [segments.segment_number(path) for path in segments.sealed_segments(folder)]
        for folder in segments.collector_folders(log)
    }
    return {name: numbers for name, numbers in found.items() if numbers}


def unread_lines(log: Path, tables_dir: Path) -> list[str]:
    """unread() as lines for people, with advice. Raises ToolError."""
    return [
        f"{log / name}: {_segments(numbers)} arrived after later ones had been processed, and "
        f"{'is' if len(numbers) == 1 else 'are'} not read; move them to a folder of their own, as "
        f"{log / name}-older, and run again"
        for name, numbers in unread(log, tables_dir).items()
    ]


def _segments(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"segment {numbers[0]}"
    return f"{len(numbers)} segments, {numbers[0]} to {numbers[-1]},"


def prune(log: Path) -> tuple[int, int]:
    """(segments, bytes) deleted: what every registered reader has committed.

    Raises ToolError when one of them cannot be read.
    """
    offsets, firsts = [], []
    for tables_dir in readers(log):
        if not tables_dir.is_dir():
            raise ToolError(
                f"{tables_dir} is a reader of {log} but does not exist; if it was deleted: outpost "
                f"pipeline prune --forget {tables_dir}"
            )
        offsets.append(committed_offsets(tables_dir))
        firsts.append(first_segments(tables_dir))
    if not offsets:
        return 0, 0
    count = size = 0
    for directory in segments.collector_folders(log):
        first = max(one.get(directory.name, 0) for one in firsts)
        for path in _deletable(directory, first, offsets):
            size += path.stat().st_size
            path.unlink()
            count += 1
    return count, size


def pruned(log: Path) -> str:
    """prune(), and a line about it for people. Raises ToolError."""
    count, size = prune(log)
    return f"{count} consumed segments deleted, {size:,} bytes"


def prune_replay(tables_dir: Path) -> None:
    """Delete the replayed segments that are committed; only these tables use them."""
    last = committed_offsets(tables_dir).get(tables.REPLAY, -1)
    for path in segments.sealed_segments(tables_dir / tables.REPLAY):
        if segments.segment_number(path) <= last:
            path.unlink()


def _deletable(directory: Path, first: int, offsets: Iterable[dict[str, int]]) -> list[Path]:
    through = min(committed.get(directory.name, -1) for committed in offsets)
    through = min(through, _covered(directory))
    return [
        path
        for path in segments.sealed_segments(directory)[:-1]
        if first <= segments.segment_number(path) <= through
    ]


def _covered(directory: Path) -> float:
    """The last segment that the collector need not read again; a folder without a collector needs
    none."""
    try:
        return int(
            json.loads((directory / "state.json").read_text(encoding="utf-8"))["sealed_through"]
        )
    except FileNotFoundError:
        return float("inf")
    except (OSError, ValueError, KeyError, TypeError):
        return -1
