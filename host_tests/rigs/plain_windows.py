"""The table `windows`, and the same computed plainly from what silver holds."""

from __future__ import annotations

import math

from outpost_tools.readings.pipeline import tables


def windows_of(tables_dir) -> list[dict]:
    rows = tables.read_table(tables_dir, "windows").to_pylist()
    return sorted(rows, key=lambda row: (row["device"], row["name"], row["start"]))


def recomputed_windows(tables_dir) -> list[dict]:
    """From what silver holds, plainly."""
    groups = {}
    for row in tables.read_table(tables_dir, "readings").to_pylist():
        if row["time"] is not None:
            start = row["time"].replace(microsecond=0, second=row["time"].second // 10 * 10)
            groups.setdefault((row["device"], row["name"], row["unit"], start), []).append(row)
    result = []
    for (device, name, unit, start), rows in groups.items():
        values = [row["value"] for row in rows]
        last = max(rows, key=lambda row: (row["time"], row["stream"], row["seq"], row["record"]))
        facts = {
            "count": len(values),
            "min": min(values),
            "max": max(values),
            "sum": sum(values),
            "mean": sum(values) / len(values),
            "last": last["value"],
            "last_time": last["time"],
        }
        result.append({"device": device, "name": name, "unit": unit, "start": start, **facts})
    return sorted(result, key=lambda row: (row["device"], row["name"], row["start"]))


def assert_windows_are_plain(tables_dir) -> None:
    """Also where values were not added in the same order."""
    for one, other in zip(windows_of(tables_dir), recomputed_windows(tables_dir), strict=True):
        near = all(math.isclose(one[n], other[n], rel_tol=1e-9) for n in ("sum", "mean"))
        assert near and one | {"sum": 0, "mean": 0} == other | {"sum": 0, "mean": 0}
