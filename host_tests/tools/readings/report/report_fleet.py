"""Tables of a fleet, as the pipeline writes them but without Spark: N devices of which some have
each kind of trouble.

.venv/bin/python host_tests/tools/readings/report/report_fleet.py DIR 400
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from outpost_tools.readings.pipeline import delta, health, schemas, tables

BEGIN = pd.Timestamp("2025-11-21 03:00", tz="UTC")
SPAN_S = 24 * 3600
METRICS = {
    "temperature": ("Cel", 21.0, 4.0),
    "humidity": ("%RH", 45.0, 12.0),
    "battery": ("V", 3.7, 0.2),
    "erases": (None, 0, 0),
}
BLOCKS = 16
TROUBLES = (
    "lost", "silent", "open", "behind", "restarts", "noclock",
    "pins", "refused", "aside", "worn", "mended", "takeover", "twins", "restored",
    "notpassed",
)  # fmt: skip
# What a board with such a trouble tells of its health.
TOLD = {
    "pins": {"pins_lost": 2, "left_out": 2},
    "refused": {"not_published": 318},
    "aside": {"aside": 3},
    "worn": {"left_out": 1, "mended": 4},
    "mended": {"mended": 1, "torn": 2},
    "takeover": {"takeovers": 12},
    "notpassed": {"aside": 4, "not_passed": 4, "takeovers": 3},
}
CONFLICTS = {
    "twins": {"conflicts": 131, "two_boards": 1},
    "restored": {"conflicts": 12, "went_back": 1},
}
TROUBLED_OF = 4  # with 4 devices one in 4 has trouble, with 400 one in 20
DISASTER_S = 6 * 3600, 8 * 3600  # the broker was down: nothing arrived


def trouble_of(index: int, devices: int) -> str:
    """The last of 4, or each 20th; the kinds in turn."""
    each = TROUBLED_OF if devices <= 20 else 20
    return TROUBLES[index // each % len(TROUBLES)] if index % each == each - 1 else ""


def make(directory: Path, devices: int, *, messages: int = 288) -> Path:
    """Tables of `devices` devices with `messages` messages each, four readings a message, over one
    day.
    """
    rng = np.random.default_rng(devices)
    parts = [_device(rng, index, devices, messages) for index in range(devices)]
    readings = pd.concat([part for part, _, _ in parts], ignore_index=True)
    readings["clock_unset"] = readings["guarantee"] = None
    rows = pa.Table.from_pandas(readings, schema=schemas.READING, preserve_index=False)
    put(directory, "readings", rows)
    put(
        directory,
        "devices",
        pa.Table.from_pandas(pd.DataFrame([row for _, row, _ in parts]), preserve_index=False),
    )
    put(directory, "latency", pa.Table.from_pandas(_latency(readings), preserve_index=False))
    put(directory, "gaps", _gaps([gap for _, _, gaps in parts for gap in gaps]))
    put(
        directory,
        "quarantine",
        pa.Table.from_pylist(_refused(devices), schema=schemas.QUARANTINE_TABLE),
    )
    return directory


def put(directory: Path, name: str, rows: pa.Table) -> None:
    """A table of these rows, in place of what it had; columns that they lack are null."""
    tables.create(directory)
    place = tables.directory(directory, name)
    names = [field.name for field in tables.schema(name) if field.name in rows.column_names]
    fields = pa.schema([tables.schema(name).field(one) for one in names])
    rows = rows.select(names).cast(fields)
    days = rows["time"].cast(pa.date32()) if name == "readings" else None
    made = [delta.write(place, rows)] if days is None else tables.write_by_day(place, rows, days)
    opened = delta.Opened(directory)
    delta.rewrite(opened, name, lambda table: (made, delta.files_of(table)))


def _device(
    rng: np.random.Generator, index: int, devices: int, messages: int
) -> tuple[pd.DataFrame, dict, list[dict]]:
    name, trouble = (
        f"{('greenhouse', 'cellar', 'roof', 'pump')[index % 4]}-{index + 1}",
        trouble_of(index, devices),
    )
    seqs = np.arange(messages)
    at_s = (seqs + rng.random()) * SPAN_S / messages
    keep = np.ones(messages, bool)
    gap = None
    if trouble in ("lost", "open"):
        begin = messages // 3 if trouble == "lost" else messages - 6
        gap = (begin, begin + (24 if trouble == "lost" else 3))
        keep[gap[0] : gap[1]] = False
    if trouble == "silent":
        keep[int(messages * rng.uniform(0.4, 0.9)) :] = False
    seqs, at_s = seqs[keep], at_s[keep]
    frame = _readings(rng, name, index, seqs, at_s, _arrival_s(rng, at_s, trouble))
    if trouble == "noclock":
        frame.loc[frame["seq"] < 5, "time"] = pd.NaT
    if trouble == "restarts":
        frame["boot"] = 1 + frame["seq"] * 17 // messages
    gaps = (
        [] if gap is None else [_gap(name, index, gap, "closed" if trouble == "lost" else "open")]
    )
    return frame, _row(name, frame, trouble, len(seqs), gap), gaps


def _arrival_s(rng: np.random.Generator, at_s: np.ndarray, trouble: str) -> np.ndarray:
    arrival = at_s + rng.lognormal(-2.5, 0.8, len(at_s))
    down = (at_s > DISASTER_S[0]) & (at_s < DISASTER_S[1])
    arrival[down] = DISASTER_S[1] + rng.uniform(0, 60, down.sum())
    if trouble == "behind":
        arrival += 3600
    return arrival


def _readings(
    rng, name: str, index: int, seqs: np.ndarray, at_s: np.ndarray, arrival: np.ndarray
) -> pd.DataFrame:
    columns = {name: [] for name in ("record", "name", "unit", "value")}
    for record, (metric, (unit, middle, swing)) in enumerate(METRICS.items()):
        values = (
            middle
            + swing * np.sin(at_s / SPAN_S * 2 * np.pi + index / 9)
            + rng.normal(0, swing / 12, len(at_s))
        )
        values = np.round(values, 2) if metric != "erases" else seqs // 38 + index
        for column, one in zip(columns, (record, metric, unit, values), strict=True):
            columns[column] += values.tolist() if column == "value" else [one] * len(seqs)
    for column, one in zip(columns, (len(METRICS), "outbox_blocks", None, BLOCKS), strict=True):
        columns[column].append(one)

    def repeated(column: np.ndarray) -> np.ndarray:
        return np.append(np.tile(column, len(METRICS)), column[0])

    frame = pd.DataFrame(columns | {"seq": repeated(seqs)})
    for column, second in (("time", at_s), ("received", arrival)):
        frame[column] = BEGIN + pd.to_timedelta(repeated(second), unit="s").round("ms")
    fixed = {
        "device": name,
        "stream": f"{index:08x}",
        "boot": 1,
        "held": 0,
        "uptime_s": None,
        "shift_s": 0.0,
        "version": 1,
    }
    fixed |= {"placed": False, "collector": "c1", "segment": 0, "offset": 0}
    return frame.assign(**fixed)


def _row(
    name: str, frame: pd.DataFrame, trouble: str, messages: int, gap: tuple[int, int] | None
) -> dict:
    lost = gap[1] - gap[0] if gap else 0
    return {
        "device": name,
        "first_seen": frame["received"].min(),
        "last_seen": frame["received"].max(),
        "boots": 17 if trouble == "restarts" else 1,
        "last_boot": 17 if trouble == "restarts" else 1,
        "readings": len(frame),
        "readings_without_time": int(frame["time"].isna().sum()),
        "backlog_last": 1204 if trouble == "behind" else 2,
        "backlog_max": 1204 if trouble == "behind" else 31,
        "streams": 1,
        "received": messages + 3,
        "messages": messages,
        "redelivered": 3,
        "missing_closed": lost if trouble == "lost" else 0,
        "missing_open": lost if trouble == "open" else 0,
        "battery": 3.71,
        "reset_cause": 1.0,
        **dict.fromkeys(health.NAMES, 0),
        **TOLD.get(trouble, {}),
        **dict.fromkeys(("conflicts", "two_boards", "went_back"), 0),
        **CONFLICTS.get(trouble, {}),
    }


def _gap(name: str, index: int, gap: tuple[int, int], state: str) -> dict:
    row = {"device": name, "stream": f"{index:08x}", "first": gap[0], "last": gap[1] - 1}
    return row | {"count": gap[1] - gap[0], "state": state}


def _gaps(rows: list[dict]) -> pa.Table:
    numbers = [(name, pa.int64()) for name in ("first", "last", "count")]
    return pa.Table.from_pylist(
        rows,
        schema=pa.schema(
            [("device", pa.string()), ("stream", pa.string()), *numbers, ("state", pa.string())]
        ),
    )


def _latency(readings: pd.DataFrame) -> pd.DataFrame:
    first = readings[(readings["record"] == 0) & readings["time"].notna()]
    delay = (first["received"] - first["time"]).dt.total_seconds() * 1000
    found = delay.groupby(first["device"]).quantile([0.5, 0.95, 0.99, 1.0]).unstack()
    found.columns = ["p50_ms", "p95_ms", "p99_ms", "max_ms"]
    return found.assign(count=first.groupby("device").size()).reset_index()


def _refused(devices: int) -> list[dict]:
    kinds = [
        ("not JSON", b'[{"bn":"pump-4/","bt":17636'),
        ("unknown version 2", b'[{"ver":2}]'),
        ("empty", b""),
    ]
    rows = []
    for kind, (reason, payload) in enumerate(kinds):
        for number in range(1 + (devices // 10) // (kind + 1)):
            row = {
                "reason": reason,
                "topic": f"outpost/pump-{4 * number + 4}/data",
                "payload": payload,
                "retained": False,
            }
            received = BEGIN + datetime.timedelta(minutes=number)
            rows.append(
                row | {"received": received, "collector": "c1", "segment": 0, "offset": len(rows)}
            )
    return rows


def events() -> list[dict]:
    """For `--events`: what TROUBLES and DISASTER_S did."""
    start = int(BEGIN.timestamp() * 1000)
    moments = zip(DISASTER_S, ("broker killed", "broker up"), strict=True)
    return [
        {"time_ms": start + second * 1000, "kind": kind, "device": None} for second, kind in moments
    ]


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]))
