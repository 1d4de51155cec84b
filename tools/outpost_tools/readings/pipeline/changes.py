"""The changes of silver since a version, read from its log: the input of a round of gold."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from outpost_tools.readings.pipeline import clocks, delta

NOTE = "outpost_moves"  # in a commit of silver that moved readings (moves.py) or deleted a device
_MOST_ROWS = 8_000_000  # per step: bounds what a task holds
DELETE = "DELETE"  # an operation: upkeep.py deletes from gold itself, and names the device


@dataclass
class Step:
    """Files of silver whose readings are all new; for each commit that moved readings, the files
    and the boots that have got their first times in them; devices that changed in another way.
    `version`: silver's version when this step completes it, else -1. is_whole: gold is rebuilt from
    it."""

    version: int = -1
    fresh: list[str] = field(default_factory=list)
    placed: list[tuple[list[str], pa.Table]] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    is_whole: bool = False


def of_silver(silver: delta.Table, since: int) -> list[Step]:
    """The steps from that version (-1: from nothing) to the table's."""
    newest = silver.version()
    commits = delta.commits(silver, since) if since >= 0 else None
    if commits is None or any(not _is_known(one) for one in commits):
        return _all(silver)
    steps, rows = [Step()], 0
    for one in commits:
        count = sum(file["rows"] for file in one.added)
        if rows and rows + count > _MOST_ROWS:
            steps, rows = [*steps, Step()], 0
        rows += count
        steps[-1].version = one.version
        _add(steps[-1], one)
    steps[-1].version = newest
    # A device that is recomputed is read from silver as it is after all steps.
    is_apart = len(steps) > 1 and any(step.again for step in steps)
    return _all(silver) if is_apart or not _are_there(silver, steps) else steps


def _is_known(one: delta.Commit) -> bool:
    """Whether the commit only added readings, or recorded what it moved."""
    return not one.has_removed or NOTE in one.info or one.operation == DELETE


def _add(step: Step, one: delta.Commit) -> None:
    said = one.info.get(NOTE) or {}
    step.again = sorted({*step.again, *said.get("again", ())})
    if one.operation == DELETE:
        return
    paths = {file["path"]: delta.name_of(file) for file in one.added}
    rewritten = [paths.pop(path) for path in said.get("rewritten", ())]
    step.fresh += paths.values()
    boots = [dict(zip(clocks.BOOT, boot, strict=True)) for boot in said.get("placed", ())]
    if boots:
        step.placed.append((rewritten, pa.Table.from_pylist(boots, schema=clocks.BOOTS)))


def _are_there(silver: delta.Table, steps: list[Step]) -> bool:
    """Whether the files still exist: compaction removes, after a day, the files it replaced."""
    wanted = {one for step in steps for one in step.fresh}
    wanted |= {one for step in steps for names, _ in step.placed for one in names}
    now = {delta.name_of(one) for one in delta.files_of(silver)}
    return all(silver.place.exists(one) for one in wanted - now)


def _all(table: delta.Table) -> list[Step]:
    """Everything, from nothing. Only the last step counts: after a kill before it, all restarts."""
    steps, rows = [Step(is_whole=True)], 0
    for file in delta.files_of(table):
        if rows and rows + file["rows"] > _MOST_ROWS:
            steps, rows = [*steps, Step()], 0
        rows += file["rows"]
        steps[-1].fresh.append(delta.name_of(file))
    steps[-1].version = table.version()
    return steps
