"""Which segments nobody needs any more, and deleting those.

Every tables directory that reads a log registers in `<log>/.readers/`; a segment goes only when
each of them has committed it. What a query has committed is read from Spark's own checkpoint: the
offsets of the newest batch in `commits/`. The newest sealed segment of a collector always stays, so
that no number is given twice, and so do those that the collector's own snapshot does not cover: it
would read them again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from outpost_tools.common import segments
from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import tables

CHECKPOINT = "_checkpoint"
READERS = ".readers"


def register(log: Path, tables_dir: Path) -> None:
    """Say that `tables_dir` reads this log. Raises OSError when the log cannot be written."""
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
    """Spark's name for the query that these tables are made by; "" before the first run."""
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
    """{collector: last segment} that is in these tables for good."""
    number = committed_batch(tables_dir)
    if number < 0:
        return {}
    lines = (
        (tables_dir / CHECKPOINT / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    )
    return json.loads(lines[-1])  # version, metadata, then one line a source: there is one


def prune(log: Path) -> tuple[int, int]:
    """(segments, bytes) deleted: what every registered reader has committed.

    Raises ToolError when one cannot be asked.
    """
    offsets = []
    for tables_dir in readers(log):
        if not tables_dir.is_dir():
            raise ToolError(
                f"{tables_dir} reads {log} but is not there; if for good: outpost pipeline prune "
                f"--forget {tables_dir}"
            )
        offsets.append(committed_offsets(tables_dir))
    if not offsets:
        return 0, 0
    count = size = 0
    for directory in segments.collector_folders(log):
        for path in _deletable(directory, offsets):
            size += path.stat().st_size
            path.unlink()
            count += 1
    return count, size


def pruned(log: Path) -> str:
    """prune(), and a line for people about it. Raises ToolError."""
    count, size = prune(log)
    return f"{count} consumed segments deleted, {size:,} bytes"


def prune_replay(tables_dir: Path) -> None:
    """The replayed segments belong to these tables alone."""
    last = committed_offsets(tables_dir).get(tables.REPLAY, -1)
    for path in segments.sealed_segments(tables_dir / tables.REPLAY):
        if segments.segment_number(path) <= last:
            path.unlink()


def _deletable(directory: Path, offsets: Iterable[dict[str, int]]) -> list[Path]:
    through = min(committed.get(directory.name, -1) for committed in offsets)
    through = min(through, _covered(directory))
    return [
        path
        for path in segments.sealed_segments(directory)[:-1]
        if segments.segment_number(path) <= through
    ]


def _covered(directory: Path) -> float:
    """The last segment that the collector need not read again; a folder without a collector has no
    such need."""
    try:
        return int(
            json.loads((directory / "state.json").read_text(encoding="utf-8"))["sealed_through"]
        )
    except FileNotFoundError:
        return float("inf")
    except (OSError, ValueError, KeyError, TypeError):
        return -1
