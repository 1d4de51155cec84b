"""`outpost report` by the history in the tables: seconds, CPU time and peak memory for the newest
week, and for all there is.

    python host_tests/bench/report_memory.py [--days 10 100 400]

Twenty devices, a message of four readings every five minutes, a file per day, a refused payload
each hour.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(REPOSITORY / part) for part in ("host_tests/bench", "host_tests/tools/readings/report")
]
sys.path.insert(0, str(REPOSITORY / "tools"))

import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402

import export_rates  # noqa: E402
import report_fleet  # noqa: E402
from outpost_tools.readings.pipeline import delta, schemas, tables  # noqa: E402

_DEVICES = 20


def make(folder: Path, days: int) -> Path:
    """Repeats the day of report_fleet.py."""
    report_fleet.make(folder, _DEVICES)
    readings = tables.read_table(folder, "readings", schemas.READING.names).to_pandas()
    devices = tables.read_table(folder, "devices").to_pandas()
    files, refused = [], []
    for day in range(days):
        shift = pd.Timedelta(days=day)
        moved = readings.assign(
            time=readings["time"] + shift, received=readings["received"] + shift
        )
        rows = pa.Table.from_pandas(moved, schema=schemas.READING, preserve_index=False)
        place = folder / "readings"
        files += tables.write_by_day(place, rows, rows["time"].cast(pa.date32()))
        refused.append(delta.write(folder / "quarantine", _refused(report_fleet.BEGIN + shift)))
    place = folder / "readings"
    delta.rewrite(delta.Opened(folder), place.name, lambda table: (files, delta.files_of(table)))
    delta.commit(folder / "quarantine", refused)
    devices["last_seen"] += pd.Timedelta(days=days - 1)
    report_fleet.put(folder, "devices", pa.Table.from_pandas(devices, preserve_index=False))
    return folder


def _refused(begin: pd.Timestamp) -> pa.Table:
    rows = [
        {
            "reason": "not JSON", "topic": "outpost/a/data", "payload": bytes(4096),
            "received": begin + datetime.timedelta(hours=hour),
            "collector": "c1", "segment": 0, "offset": hour,
        }
        for hour in range(24)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schemas.QUARANTINE_TABLE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, nargs="+", default=[10, 100, 400])
    args = parser.parse_args()
    print("days   readings   shown      s   CPU s   MiB", flush=True)
    for days in args.days:
        with tempfile.TemporaryDirectory() as folder:
            made = make(Path(folder) / "tables", days)
            count = tables.open_dataset(made, "readings").count_rows()
            for last in ("7d", "all"):
                line = ["report", "--tables", str(made), "--last", last]
                seconds, cpu, mib = export_rates.measured(line, Path(folder) / "report.html")
                figures = f"{days:4} {count:10,}   {last:>5} {seconds:6.1f} {cpu:7.1f} {mib:5}"
                print(figures, flush=True)


if __name__ == "__main__":
    main()
