"""What was processed, what waits, and what the tables contain: as a dictionary, and as text for
people. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outpost_tools.common import segments
from outpost_tools.common.visible import visible
from outpost_tools.pipeline import consumed, delta, quarantine, tables
from outpost_tools.pipeline.source import available, segment_path, waiting


def collect(log: Path, tables_dir: Path) -> dict[str, Any]:
    """Raises ToolError when a registration in the log is damaged."""
    offsets = consumed.committed_offsets(tables_dir)
    replay = tables_dir / tables.REPLAY
    backlog = waiting(log, offsets, replay)
    sizes = [
        segment_path(log, collector, number, replay).stat().st_size for collector, number in backlog
    ]
    collectors = {
        name: {
            "taken_in": offsets.get(name, -1),
            "sealed": numbers[-1],
            "kept": len(numbers),
            "open": len(segments.open_segments(log / name)) if name != tables.REPLAY else 0,
        }
        for name, numbers in available(log, replay).items()
    }
    return {
        "batch": consumed.committed_batch(tables_dir),
        "backlog": {"segments": len(backlog), "bytes": sum(sizes)},
        "collectors": collectors,
        "unread": consumed.unread_lines(log, tables_dir),
        "readers": [str(path) for path in consumed.readers(log)],
        "tables": {name: _table(tables_dir, name) for name in tables.ALL},
        "quarantine": dict(quarantine.reasons(tables_dir).most_common()),
        "replayed": tables.replayed(tables_dir),
    }


def _table(tables_dir: Path, name: str) -> dict[str, Any]:
    if not tables.exists(tables_dir, name):
        return {"version": 0, "rows": 0, "files": 0, "bytes": 0}
    table = delta.open_table(tables.directory(tables_dir, name))
    sizes = [one["size"] for one in delta.files_of(table)]
    facts = {"version": table.version(), "rows": table.count()}
    return facts | {"files": len(sizes), "bytes": sum(sizes)}


def text(state: dict[str, Any]) -> str:
    backlog = state["backlog"]
    lines = [
        f"batch {state['batch']}; waiting: {backlog['segments']} segments, {backlog['bytes']:,} "
        "bytes"
    ]
    for name, row in state["collectors"].items():
        lines.append(
            f"  {name}: taken in through {row['taken_in']}, sealed through {row['sealed']}, "
            f"{row['kept']} on disk"
        )
    lines += state["unread"]
    lines.append(f"{'table':12}{'version':>8}{'rows':>14}{'files':>8}{'bytes':>16}")
    for name, row in state["tables"].items():
        lines.append(
            f"{name:12}{row['version']:>8}{row['rows']:>14,}{row['files']:>8,}{row['bytes']:>16,}"
        )
    lines.append(
        f"quarantine: {sum(state['quarantine'].values())} frames, {state['replayed']} replayed"
    )
    lines += [f"{count:>10}  {visible(reason)}" for reason, count in state["quarantine"].items()]
    if len(state["readers"]) > 1:
        lines.append(f"readers of this log: {', '.join(state['readers'])}")
    return "\n".join(lines)
