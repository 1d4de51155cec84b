"""Finds and deletes segments that nobody needs any more.

Every folder of tables that reads a log registers in `<log>/.readers/`; a segment is deleted only
when each of them has taken it in (plan.py). The newest sealed segment of a collector always stays,
so that no number is used twice. So do those that the collector's own snapshot does not cover,
because it would read them again.

A collector's log is read from the first segment that was there. A segment with a lower number that
is copied in later (from a backup, an old disk) comes before what was taken in: it is not read, each
run reports it, and it is not deleted.
"""

from __future__ import annotations

import hashlib
import json

from outpost_tools.errors import ToolError
from outpost_tools.log.segments import sealed_name
from outpost_tools.readings.pipeline import delta, plan
from outpost_tools.readings.pipeline.logs import Log, Segment
from outpost_tools.store.at import at

READERS = ".readers"


def register(log: Log | delta.Place, tables_dir: delta.Place) -> None:
    """Record that `tables_dir` reads this log. Raises OSError when the log cannot be written."""
    folder, name = Log.at(log).store / READERS, _registration(tables_dir)
    if not folder.exists(name):
        folder.put(name, json.dumps({"tables": at(tables_dir).absolute}).encode())


def forget(log: Log | delta.Place, tables_dir: delta.Place) -> None:
    """Raises ToolError when it is not registered."""
    folder, name = Log.at(log).store / READERS, _registration(tables_dir)
    if not folder.exists(name):
        raise ToolError(
            f"{tables_dir} is not registered as a reader of {log}; see `outpost pipeline status`"
        )
    folder.delete([name])


def _registration(tables_dir: delta.Place) -> str:
    return f"{hashlib.sha256(at(tables_dir).absolute.encode()).hexdigest()[:16]}.json"


def readers(log: Log | delta.Place) -> list[str]:
    """The folders of tables that read this log: paths or URLs.

    Raises ToolError when a registration cannot be read.
    """
    found, folder = [], Log.at(log).store / READERS
    for one in folder.entries():
        if not one.name.endswith(".json"):
            continue
        try:
            found.append(json.loads(folder.get(one.name))["tables"])
        except (ValueError, KeyError, TypeError):
            raise ToolError(
                f"{folder}/{one.name}: not a registration; remove it when nothing reads this log "
                "under that name"
            ) from None
    return found


def offsets(log: Log | delta.Place, tables_dir: delta.Place) -> dict[str, int]:
    """{collector: the last segment that these tables have taken in}."""
    streams = delta.Opened(tables_dir).find("streams")
    if streams is None:
        return {}
    found = {name: plan.taken(streams, name) for name in Log.at(log).collectors()}
    return {name: number for name, number in found.items() if number >= 0}


def unread(
    log: Log | delta.Place, tables_dir: delta.Place | delta.Opened
) -> dict[str, list[Segment]]:
    """{collector: segments older than everything that was taken in}."""
    streams, log = delta.Opened.at(tables_dir).find("streams"), Log.at(log)
    if streams is None:
        return {}
    firsts = sorted((name, first) for name, first in plan.firsts(streams).items() if first > 0)
    older = {name: log.sealed(name, before=first) for name, first in firsts}
    return {name: segments for name, segments in older.items() if segments}


def unread_lines(log: Log | delta.Place, tables_dir: delta.Place | delta.Opened) -> list[str]:
    """unread() as lines for people, with advice."""
    log = Log.at(log)
    return [
        f"{log.store / name}: {_segments(numbers)} arrived after later ones had been processed, "
        f"and {'is' if len(numbers) == 1 else 'are'} not read; move them to a folder of their own, "
        f"as {log.store / name}-older, and run again"
        for name, numbers in unread(log, tables_dir).items()
    ]


def _segments(found: list[Segment]) -> str:
    if len(found) == 1:
        return f"segment {found[0].number}"
    return f"{len(found)} segments, {found[0].number} to {found[-1].number},"


def prune(log: Log | delta.Place) -> tuple[int, int]:
    """(segments, bytes) deleted: what every registered reader has taken in.

    Raises ToolError when one of them cannot be read.
    """
    log = Log.at(log)
    opened = [_streams(log, place) for place in readers(log)]
    if not opened:
        return 0, 0
    gone: list[Segment] = []
    for name in log.collectors():
        through = min(_covered(log, name), *(plan.taken(streams, name) for streams in opened))
        first = max(plan.first(streams, name) for streams in opened)
        mine = [one for one in log.sealed(name)[:-1] if first <= one.number <= through]
        (log.store / name).delete(sealed_name(one.number) for one in mine)
        gone += mine
    return len(gone), sum(one.size for one in gone)


def _streams(log: Log, tables_dir: str) -> delta.Table:
    streams = delta.Opened(tables_dir).find("streams")
    if streams is None:
        raise ToolError(
            f"{tables_dir} is a reader of {log.store} but does not exist; if it was deleted: "
            f"outpost pipeline prune --forget {tables_dir}"
        )
    return streams


def pruned(log: Log | delta.Place) -> str:
    """prune(), and a line about it for people. Raises ToolError."""
    count, size = prune(log)
    return f"{count} consumed segments deleted, {size:,} bytes"


def _covered(log: Log, collector: str) -> float:
    """The last segment that the collector need not read again; a folder without a collector needs
    none."""
    try:
        said = json.loads((log.store / collector).get("state.json"))
        return int(said["sealed_through"])
    except FileNotFoundError:
        return float("inf")
    except (OSError, ValueError, KeyError, TypeError):
        return -1
