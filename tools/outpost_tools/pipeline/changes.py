"""What silver has got since a version, by its log: the input of a round of gold."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from outpost_tools.pipeline import clocks, delta

NOTE = "outpost_moves"  # in a commit of silver that moved readings: moves.py; or deleted a device
_MOST_ROWS = 8_000_000  # of a step: bounds what a task holds
_OWN = ("DELETE",)  # upkeep.py deletes of gold, too, and names a device that is gone


@dataclass
class Step:
    """Files all of whose readings are new; of each commit that moved readings, the files and the
    boots that have got their first times in them; devices that have changed otherwise. `version`:
    silver's, when it is reached with this step, else -1. is_whole: gold begins anew with it."""

    version: int = -1
    fresh: list[Path] = field(default_factory=list)
    placed: list[tuple[list[Path], pa.Table]] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    is_whole: bool = False


def of_silver(place: Path, since: int) -> list[Step]:
    """From that version (-1: from nothing) to the newest."""
    newest = delta.open_table(place).version()
    commits = delta.commits(place, since) if since >= 0 else None
    if commits is None or any(not _is_known(one) for one in commits):
        return _all(place, newest)
    steps, rows = [Step()], 0
    for one in commits:
        count = sum(file["rows"] for file in one.added)
        if rows and rows + count > _MOST_ROWS:
            steps, rows = [*steps, Step()], 0
        rows += count
        steps[-1].version = one.version
        _add(place, steps[-1], one)
    steps[-1].version = newest
    # A device that is made again is read of silver as it is after all steps.
    is_apart = len(steps) > 1 and any(step.again for step in steps)
    return _all(place, newest) if is_apart or not _are_there(steps) else steps


def _is_known(one: delta.Commit) -> bool:
    """Whether it only added readings, or said what it moved."""
    return not one.has_removed or NOTE in one.info or one.operation in _OWN


def _add(place: Path, step: Step, one: delta.Commit) -> None:
    said = one.info.get(NOTE) or {}
    step.again = sorted({*step.again, *said.get("again", ())})
    if one.operation in _OWN:
        return
    paths = {file["path"]: delta.path_in(place, file) for file in one.added}
    rewritten = [paths.pop(path) for path in said.get("rewritten", ())]
    step.fresh += paths.values()
    boots = [dict(zip(clocks.BOOT, boot, strict=True)) for boot in said.get("placed", ())]
    if boots:
        step.placed.append((rewritten, pa.Table.from_pylist(boots, schema=clocks.BOOTS)))


def _are_there(steps: list[Step]) -> bool:
    """Compaction removes, after a day, what it replaced."""
    moved = [path for step in steps for paths, _ in step.placed for path in paths]
    return all(path.exists() for path in (*moved, *(one for step in steps for one in step.fresh)))


def _all(place: Path, newest: int) -> list[Step]:
    """Everything, from nothing. Only the last step counts: a kill before it begins anew."""
    table = delta.open_table(place)
    steps, rows = [Step(is_whole=True)], 0
    for file in delta.files_of(table):
        if rows and rows + file["rows"] > _MOST_ROWS:
            steps, rows = [*steps, Step()], 0
        rows += file["rows"]
        steps[-1].fresh.append(delta.path_of(table, file))
    steps[-1].version = newest
    return steps
