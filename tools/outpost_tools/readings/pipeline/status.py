"""What was processed, what waits, and what the tables contain: as a dictionary, and as text for
people. No Spark."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from outpost_tools.readings.pipeline import consumed, delta, quarantine, tables
from outpost_tools.readings.pipeline.logs import Log
from outpost_tools.text.visible import visible


def collect(log: delta.Place, tables_dir: delta.Place) -> dict[str, Any]:
    """Raises ToolError when a registration in the log is damaged."""
    log = Log.at(log)
    offsets, sealed = consumed.offsets(log, tables_dir), log.all_sealed()
    backlog = [
        one for name, found in sealed.items() for one in found if one.number > offsets.get(name, -1)
    ]
    collectors = {
        name: {
            "taken_in": offsets.get(name, -1),
            "sealed": found[-1].number,
            "kept": len(found),
            "open": sum(one.name.endswith(".open") for one in (log.store / name).entries()),
        }
        for name, found in sealed.items()
    }
    return {
        "backlog": {"segments": len(backlog), "bytes": sum(one.size for one in backlog)},
        "collectors": collectors,
        "unread": consumed.unread_lines(log, tables_dir),
        "readers": consumed.readers(log),
        "tables": {name: _table(tables_dir, name) for name in tables.ALL},
        "quarantine": dict(quarantine.reasons(tables_dir).most_common()),
        "replay": _on_their_way(tables_dir),
    }


def _on_their_way(tables_dir: delta.Place) -> int:
    table = delta.Opened(tables_dir).find("quarantine")
    return 0 if table is None else pc.count(quarantine.read(table)["replay"]).as_py()


def _table(tables_dir: delta.Place, name: str) -> dict[str, Any]:
    table = delta.Opened(tables_dir).find(name)
    if table is None:
        return {"version": 0, "rows": 0, "files": 0, "bytes": 0}
    files = delta.files_of(table)
    rows, size = (sum(one[what] for one in files) for what in ("rows", "size"))
    return {"version": table.version(), "rows": rows, "files": len(files), "bytes": size}


def text(state: dict[str, Any]) -> str:
    backlog = state["backlog"]
    lines = [f"waiting: {backlog['segments']} segments, {backlog['bytes']:,} bytes"]
    for name, row in state["collectors"].items():
        lines.append(
            f"  {name}: taken in through {row['taken_in']}, sealed through {row['sealed']}, "
            f"{row['kept']} in the log"
        )
    lines += state["unread"]
    lines.append(f"{'table':12}{'version':>8}{'rows':>14}{'files':>8}{'bytes':>16}")
    for name, row in state["tables"].items():
        lines.append(
            f"{name:12}{row['version']:>8}{row['rows']:>14,}{row['files']:>8,}{row['bytes']:>16,}"
        )
    lines.append(
        f"quarantine: {sum(state['quarantine'].values())} frames; {state['replay']} are read again "
        "by the next run"
    )
    lines += [f"{count:>10}  {visible(reason)}" for reason, count in state["quarantine"].items()]
    if len(state["readers"]) > 1:
        lines.append(f"readers of this log: {', '.join(state['readers'])}")
    return "\n".join(lines)
