"""What the page shows: read from the tables, and thinned to bins in time. No HTML.

Columns that older or newer tables lack read as 0 or as nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.common import attention
from outpost_tools.common.collector_notes import REASONS, TAKEN_OVER
from outpost_tools.common.errors import ToolError
from outpost_tools.common.words import natural
from outpost_tools.pipeline import health
from outpost_tools.pipeline.quarantine import DAMAGE
from outpost_tools.pipeline.tables import read_table

BINS = 150  # about one per two pixels of a phone
FEWEST_BINS = 48
POINTS = 100_000  # of all devices and metrics together: what a phone should load
METRICS = 8  # charts of one device
ERASES, BLOCKS = "erases", "outbox_blocks"  # the metrics by which a board reports on its flash
_NICE_S = (
    0.25,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
)
_READING_COLUMNS = ["device", "record", "name", "unit", "value", "time", "received"]
_COUNTS = (
    "messages",
    "readings",
    "missing_closed",
    "missing_open",
    "redelivered",
    "boots",
    "backlog_last",
    "backlog_max",
)
_CONFLICTS = ("conflicts", "two_boards", "went_back")
_DEVICE_COUNTS = (*_COUNTS, *_CONFLICTS, "readings_without_time", *health.NAMES)
_DELAYS = ("p50_ms", "p95_ms", "p99_ms", "max_ms")
_VALUES = (*_DELAYS, "battery", "reset_cause")
# What goes down and what ends it; any other kind is a moment.
_ENDS = {"broker killed": "broker up", "collector killed": "collector up", "link cut": "link up"}


@dataclass
class Outage:
    """Something was down from `begin` to `end` (equal: a moment); `device` None concerns all."""

    kind: str
    begin: pd.Timestamp
    end: pd.Timestamp
    device: str | None


@dataclass
class Binned:
    """Thinned readings. `bin` counts from `origin` in steps of `width_s`; all times UTC."""

    origin: pd.Timestamp
    width_s: float
    bins: int
    metrics: list[str]  # most readings first
    units: dict[str, str]
    values: pd.DataFrame  # device, name, bin, count, min, mean, max; the shown metrics only
    active: pd.DataFrame  # device, bin, count of messages; with p50 and max of their delay in ms
    delays: pd.DataFrame  # bin, p50, p99, max in ms: of all devices together


@dataclass
class Report:
    devices: pd.DataFrame
    binned: Binned | None  # None: no reading has a time
    delay_ms: dict[str, float]  # p50, p95, p99, max of all messages; empty without any
    gaps: pd.DataFrame
    quarantine: pd.DataFrame
    outages: list[Outage]
    wear: pd.DataFrame
    damaged: int = 0  # pieces of the collectors' segments that could not be read
    taken_over: int = 0  # notes of collectors that another client uses their id
    begin: pd.Timestamp | None = None
    end: pd.Timestamp | None = None
    # from one message to the next, per device
    intervals_s: dict[str, float] = field(default_factory=dict)


def load(tables: Path, events: Path | None) -> Report:
    """Raises ToolError when the tables are not there or the events file is no list of events."""
    outages = load_events(events) if events else []
    try:
        readings = read_table(tables, "readings", _READING_COLUMNS)
        frames = {
            name: read_table(tables, name).to_pandas()
            for name in ("devices", "latency", "gaps", "quarantine")
        }
    except FileNotFoundError as error:
        raise ToolError(str(error)) from None
    timed = readings.filter(pc.is_valid(readings["time"]))
    messages = _messages(timed)
    intervals = _intervals_s(messages)
    report = Report(
        devices=_devices(frames["devices"], frames["latency"]),
        binned=None,
        delay_ms=_percentiles(messages["delay"].to_numpy()),
        gaps=_gaps(frames["gaps"]),
        quarantine=by_reason(frames["quarantine"]),
        outages=outages,
        wear=wear(timed),
        taken_over=int((frames["quarantine"]["reason"] == REASONS[TAKEN_OVER]).sum()),
        damaged=int(frames["quarantine"]["reason"].str.startswith(DAMAGE).sum()),
        intervals_s=intervals,
    )
    if timed.num_rows:
        report.begin, report.end = (
            pd.Timestamp(end.as_py()) for end in pc.min_max(timed["time"]).values()
        )
        report.binned = _binned(report, timed, messages)
    return report


def _gaps(gaps: pd.DataFrame) -> pd.DataFrame:
    """Lost ones first, long ones first."""
    gaps = gaps.assign(place=gaps["device"].map(places(gaps["device"])))
    return gaps.sort_values(
        ["state", "count", "place", "first"], ascending=[True, False, True, True]
    )


def _messages(timed: pa.Table) -> pa.Table:
    """One row per message: device, time, delay in ms until its first arrival."""
    first = timed.filter(pc.equal(timed["record"], 0))
    delay_us = pc.subtract(first["received"].cast(pa.int64()), first["time"].cast(pa.int64()))
    # negative: the board's clock is ahead; it took some time all the same
    delay = pc.max_element_wise(pc.divide(delay_us.cast(pa.float64()), 1000.0), 0.0)
    return pa.table({"device": first["device"], "time": first["time"], "delay": delay})


def _intervals_s(messages: pa.Table) -> dict[str, float]:
    """The usual (median) time from one message of a device to its next."""
    frame = pd.DataFrame(
        {
            "device": messages["device"].to_pandas(),
            "time": messages["time"].cast(pa.int64()).to_numpy(),
        }
    )
    frame = frame.sort_values(["device", "time"], kind="stable")
    steps = frame["time"].diff().where(frame["device"] == frame["device"].shift())
    return (steps.groupby(frame["device"]).median() / 1e6).dropna().to_dict()


def _percentiles(delays: np.ndarray) -> dict[str, float]:
    if not len(delays):
        return {}
    return dict(
        zip(
            ("p50", "p95", "p99", "max"),
            map(float, np.percentile(delays, (50, 95, 99, 100))),
            strict=True,
        )
    )


def _devices(devices: pd.DataFrame, latency: pd.DataFrame) -> pd.DataFrame:
    """One row per device, with every column that the page asks for."""
    known = [name for name in _DELAYS if name in latency]
    devices = devices.merge(latency[["device", *known]], on="device", how="left")
    devices[known] = devices[known].clip(lower=0)  # a clock that is ahead
    for name in _DEVICE_COUNTS:
        devices[name] = devices[name].fillna(0).astype("int64") if name in devices else 0
    for name in _VALUES:
        devices[name] = devices[name].astype("float64") if name in devices else np.nan
    return devices


def _binned(report: Report, timed: pa.Table, messages: pa.Table) -> Binned:
    counts = timed.group_by("name").aggregate([("value", "count"), ("unit", "max")]).to_pandas()
    counts = counts[~counts["name"].isin([ERASES, BLOCKS, *health.NAMES])].sort_values(
        ["value_count", "name"], ascending=[False, True]
    )
    names = counts["name"].tolist()[:METRICS]
    units = {row.name: row.unit_max or "" for row in counts.itertuples(index=False)}
    devices = pc.count_distinct(timed["device"]).as_py()
    most = min(BINS, max(FEWEST_BINS, POINTS // (devices * max(len(names), 1))))
    usual_s = float(np.median(list(report.intervals_s.values()))) if report.intervals_s else 0.0
    width_s = bin_width((report.end - report.begin).total_seconds(), usual_s, most)
    origin = report.begin.floor(f"{round(width_s * 1000)}ms")
    shown = timed.filter(pc.is_in(timed["name"], pa.array(names, pa.string())))
    shown, messages = _with_bin(shown, origin, width_s), _with_bin(messages, origin, width_s)
    values = shown.group_by(["device", "name", "bin"]).aggregate(
        [("value", how) for how in ("count", "min", "mean", "max")]
    )
    bins = int((report.end - origin).total_seconds() // width_s) + 1
    return Binned(
        origin,
        width_s,
        bins,
        names,
        units,
        _plain(values, "value_"),
        *_delays(messages),
    )


def _with_bin(table: pa.Table, origin: pd.Timestamp, width_s: float) -> pa.Table:
    since_us = pc.subtract(table["time"].cast(pa.int64()), round(origin.timestamp() * 1e6))
    return table.append_column("bin", pc.divide(since_us, round(width_s * 1e6)))


def _plain(table: pa.Table, prefix: str) -> pd.DataFrame:
    frame = table.to_pandas()
    return frame.rename(columns={name: name.removeprefix(prefix) for name in frame})


def _delays(messages: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Per device and bin, and of all devices per bin.

    Percentiles within a bin are Arrow's approximations, maxima exact.
    """
    by_device = messages.group_by(["device", "bin"]).aggregate(
        [("delay", "count"), ("delay", "approximate_median"), ("delay", "max")]
    )
    ends = [("delay", "tdigest", pc.TDigestOptions(q=[0.5, 0.99])), ("delay", "max")]
    fleet = messages.group_by("bin").aggregate(ends).sort_by("bin").to_pandas()
    parts = np.array(fleet["delay_tdigest"].tolist(), dtype=float).reshape(-1, 2)
    fleet = pd.DataFrame(
        {"bin": fleet["bin"], "p50": parts[:, 0], "p99": parts[:, 1], "max": fleet["delay_max"]}
    )
    return _plain(by_device, "delay_").rename(columns={"approximate_median": "p50"}), fleet


def bin_width(span_s: float, interval_s: float, bins: int = BINS) -> float:
    """The finest round width that makes at most `bins` bins and has some messages in each: else
    silence is seen where the board only waits for its next reading."""
    least = max(span_s / bins, 3 * interval_s)
    return next((width for width in _NICE_S if width >= least), max(least, 1.0))


def places(names: Iterable[str]) -> dict[str, int]:
    """Name -> its place in the natural order."""
    return {name: place for place, name in enumerate(sorted(set(names), key=natural))}


def wear(timed: pa.Table) -> pd.DataFrame:
    """Of boards that report their erases: device, erases in the time of the tables, blocks (if
    reported), seconds of that time."""
    reported = timed.filter(pc.is_in(timed["name"], pa.array([ERASES, BLOCKS], pa.string())))
    frame = (
        reported.select(["device", "name", "value", "time"])
        .to_pandas()
        .sort_values(["device", "time"], kind="stable")
    )
    blocks = frame[frame["name"] == BLOCKS].groupby("device")["value"].last()
    frame = frame[frame["name"] == ERASES]
    step = frame.groupby("device")["value"].diff().fillna(0)
    # A counter that has fallen restarted at a boot: what it shows has happened since.
    frame = frame.assign(step=step.where(step >= 0, frame["value"]))
    found = frame.groupby("device").agg(
        erases=("step", "sum"), first=("time", "min"), last=("time", "max")
    )
    found["seconds"] = (found["last"] - found["first"]).dt.total_seconds() if len(found) else 0.0
    found["blocks"] = blocks.reindex(found.index)
    return found[found["seconds"] > 0].drop(columns=["first", "last"]).reset_index()


def by_reason(quarantine: pd.DataFrame) -> pd.DataFrame:
    """One row per reason: how many, from which topics, the newest time and one payload."""
    groups = quarantine.sort_values(["received", "collector", "segment", "offset"]).groupby(
        "reason"
    )
    found = groups.agg(
        count=("reason", "size"),
        topics=("topic", "unique"),
        last=("received", "last"),
        example=("payload", "last"),
    )
    return found.sort_values("count", ascending=False, kind="stable").reset_index()


def load_events(path: Path) -> list[Outage]:
    """Raises ToolError that names what is wrong."""
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
        events = [
            (
                pd.Timestamp(int(item["time_ms"]), unit="ms", tz="UTC"),
                str(item["kind"]),
                item.get("device"),
            )
            for item in items
        ]
    except OSError as error:
        raise ToolError(f"{path}: cannot read the events: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ToolError(
            f'{path}: not a JSON list of {{"time_ms", "kind", "device"}}: {error!r}'
        ) from None
    return outages(sorted(events, key=lambda event: event[0]))


def outages(events: list[tuple[pd.Timestamp, str, str | None]]) -> list[Outage]:
    """Each beginning paired with the next end of its kind and device; one without an end lasts to
    the last event."""
    found, last = [], events[-1][0] if events else None
    for index, (begin, kind, device) in enumerate(events):
        if kind in _ENDS.values():
            continue
        ends = (
            time
            for time, other, who in events[index:]
            if other == _ENDS.get(kind) and who == device
        )
        end = next(ends, last) if kind in _ENDS else begin
        found.append(Outage(kind, begin, end, device))
    return found


def findings(report: Report) -> list[tuple[dict, list[attention.Finding]]]:
    """(row of `devices`, what was found: at least `fine`) of each device, the worst first."""
    newest = report.devices["last_seen"].max()
    found = []
    for row in report.devices.to_dict("records"):
        silent_s = (newest - row["last_seen"]).total_seconds()
        usual_s = report.intervals_s.get(row["device"], 0.0)
        found.append((row, attention.of_device(row, silent_s=silent_s, usual_s=usual_s)))
    return attention.in_order(found)
