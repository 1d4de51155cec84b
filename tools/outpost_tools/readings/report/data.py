"""What the page shows: computed from the tables, and thinned to bins in time. No HTML.

Columns that older or newer tables lack read as 0 or as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.attention import attention
from outpost_tools.errors import ToolError
from outpost_tools.log.collector_notes import CLOCK, REASONS, TAKEN_OVER
from outpost_tools.messages import arrival, board_words
from outpost_tools.readings.pipeline import health
from outpost_tools.readings.pipeline.schemas import DAMAGE
from outpost_tools.readings.pipeline.tables import read_table
from outpost_tools.readings.report import newest, outages, reading, starts
from outpost_tools.readings.report.outages import Outage
from outpost_tools.readings.report.reading import TimeRange, Wish
from outpost_tools.store.at import Place
from outpost_tools.text.words import natural

BINS = 150  # about one per two pixels of a phone
FEWEST_BINS = 48
POINTS = 100_000  # of all devices and metrics together: what a phone should load
METRICS = 8  # charts of one device
ERASES, BLOCKS = board_words.WEAR  # the metrics with which a board reports on its flash
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


@dataclass
class Binned:
    """Thinned readings. `bin` counts from `origin` in steps of `width_s`; all times UTC."""

    origin: pd.Timestamp
    width_s: float
    bins: int
    metrics: list[tuple[str, str]]  # name and unit, most readings first: 20 Cel are not 20 degF
    values: pd.DataFrame  # device, name, unit, bin, count, min, mean, max; of the shown names only
    active: pd.DataFrame  # device, bin, count of messages; with p50 and max of their delay in ms
    delays: pd.DataFrame  # bin, p50, p99, max in ms: of all devices together


@dataclass
class Report:
    """Readings, delays, quarantine and outages cover `range`; devices and gaps cover the whole
    history."""

    devices: pd.DataFrame
    binned: Binned | None  # None: no reading has a time
    delay_ms: dict[str, float]  # p50, p95, p99, max of all messages; empty without any
    gaps: pd.DataFrame
    quarantine: pd.DataFrame
    outages: list[Outage]
    wear: pd.DataFrame
    damaged: int = 0  # pieces of the collectors' segments that could not be read
    taken_over: int = 0  # notes of collectors that another client uses their id
    clock_wrong: int = 0  # notes of collectors that their machine's clock is wrong
    begin: pd.Timestamp | None = None
    end: pd.Timestamp | None = None
    # from one message to the next, per device
    intervals_s: dict[str, float] = field(default_factory=dict)
    range: TimeRange = field(default_factory=TimeRange)
    newest: dict[str, list[newest.Value]] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)  # of sensors, in words
    ahead_s: dict[str, float] = field(default_factory=dict)  # of boards whose clock is ahead
    report_s: dict[str, float] = field(default_factory=dict)  # as the boards announced
    unwanted: dict[str, list[int]] = field(default_factory=dict)  # restarts, by their causes


def load(tables: Place, events: Path | None, wish: Wish | None = None) -> Report:
    """wish: by default everything. Raises ToolError when the tables do not exist or the events file
    is not a list of events."""
    found = outages.load_events(events) if events else []
    try:
        devices, gaps = (read_table(tables, name).to_pandas() for name in ("devices", "gaps"))
        wanted = (wish or Wish()).within(_newest(devices["last_seen"]))
        timed = reading.readings(tables, wanted)
        refused = reading.by_reason(reading.refused(tables, wanted))
    except FileNotFoundError as error:
        raise ToolError(str(error)) from None
    messages = _messages(timed)
    ahead_s = _ahead_s(messages)
    if timed.num_rows:
        newest_arrival = pd.Timestamp(pc.max(arrival.seen_of(timed)).as_py())
        timed, messages = (reading.past(rows, newest_arrival) for rows in (timed, messages))
    report = Report(
        devices=_devices(devices, _latency(messages)),
        binned=None,
        delay_ms=_percentiles(messages["delay"].to_numpy()),
        gaps=_gaps(gaps),
        quarantine=refused,
        outages=[one for one in found if _is_in(one, wanted)],
        wear=wear(timed),
        taken_over=_refused(refused, REASONS[TAKEN_OVER]),
        clock_wrong=_refused(refused, REASONS[CLOCK]),
        damaged=_refused(refused, DAMAGE),
        intervals_s=_intervals_s(messages),
        range=wanted,
        ahead_s=ahead_s,
    )
    if timed.num_rows:
        report.newest, report.faults = newest.of_devices(timed)
        report.report_s = starts.announced_s(timed)
        report.unwanted = starts.unwanted(timed, report.outages)
        report.begin, report.end = (
            pd.Timestamp(end.as_py()) for end in pc.min_max(timed["time"]).values()
        )
        report.binned = _binned(report, timed, messages)
    return report


def _newest(seen: pd.Series) -> pd.Timestamp | None:
    """Those after now, which a wrong clock gave, only if there are no others."""
    past = seen[seen <= pd.Timestamp.now(tz="UTC") + pd.Timedelta(days=1)]
    return (past if len(past) else seen).max() if len(seen) else None


def _is_in(outage: Outage, wanted: TimeRange) -> bool:
    return (wanted.since is None or outage.end >= wanted.since) and (
        wanted.until is None or outage.begin < wanted.until
    )


def _refused(quarantine: pd.DataFrame, reason: str) -> int:
    """reason: its beginning."""
    return int(quarantine.loc[quarantine["reason"].str.startswith(reason), "count"].sum())


def _gaps(gaps: pd.DataFrame) -> pd.DataFrame:
    """Lost ones first, then long ones first."""
    gaps = gaps.assign(place=gaps["device"].map(places(gaps["device"])))
    return gaps.sort_values(
        ["state", "count", "place", "first"], ascending=[True, False, True, True]
    )


def _messages(timed: pa.Table) -> pa.Table:
    """One row per message whose arrival is known: device, time, delay in ms until its first
    arrival, and the least that the board's clock was ahead."""
    first = timed.filter(pc.and_(pc.equal(timed["record"], 0), pc.is_null(timed["clock_unset"])))
    delay_us = pc.subtract(first["received"].cast(pa.int64()), first["time"].cast(pa.int64()))
    delay = pc.divide(delay_us.cast(pa.float64()), 1000.0)
    # delivery takes some time even if the clocks say otherwise
    shown = pc.max_element_wise(delay, 0.0)
    ahead = pc.max_element_wise(pc.negate(delay), 0.0)
    return pa.table(
        {"device": first["device"], "time": first["time"], "delay": shown, "ahead": ahead}
    )


def _ahead_s(messages: pa.Table) -> dict[str, float]:
    """The boards whose clock was ahead of the collector's by more than clocks usually differ."""
    found = messages.group_by("device").aggregate([("ahead", "max")]).to_pylist()
    return {
        one["device"]: one["ahead_max"] / 1000
        for one in found
        if one["ahead_max"] > attention.CLOCK_AHEAD_S * 1000
    }


def _latency(messages: pa.Table) -> pd.DataFrame:
    """device, p50_ms, p95_ms, p99_ms, max_ms."""
    frame = pd.DataFrame(
        {
            "device": messages["device"].combine_chunks().dictionary_encode().to_pandas(),
            "delay": messages["delay"].to_numpy(),
        }
    )
    parts = frame.groupby("device", observed=True)["delay"].quantile([0.5, 0.95, 0.99, 1.0])
    found = parts.unstack().reindex(columns=[0.5, 0.95, 0.99, 1.0])
    found.columns = list(_DELAYS)
    found.index = found.index.astype("object")
    return found.reset_index(names="device")


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
    devices[known] = devices[known].clip(lower=0)  # negative when a clock is ahead
    for name in _DEVICE_COUNTS:
        devices[name] = devices[name].fillna(0).astype("int64") if name in devices else 0
    for name in _VALUES:
        devices[name] = devices[name].astype("float64") if name in devices else np.nan
    return devices


def _binned(report: Report, timed: pa.Table, messages: pa.Table) -> Binned:
    place = timed.schema.get_field_index("unit")
    timed = timed.set_column(place, "unit", pc.fill_null(timed["unit"], ""))
    metrics = _metrics(timed)
    devices = pc.count_distinct(timed["device"]).as_py()
    most = min(BINS, max(FEWEST_BINS, POINTS // (devices * max(len(metrics), 1))))
    usual_s = float(np.median(list(report.intervals_s.values()))) if report.intervals_s else 0.0
    width_s = bin_width((report.end - report.begin).total_seconds(), usual_s, most)
    origin = report.begin.floor(f"{round(width_s * 1000)}ms")
    names = pa.array([name for name, _ in metrics], pa.string())
    shown = timed.filter(pc.is_in(timed["name"], names))
    shown, messages = _with_bin(shown, origin, width_s), _with_bin(messages, origin, width_s)
    values = shown.group_by(["device", "name", "unit", "bin"]).aggregate(
        [("value", how) for how in ("count", "min", "mean", "max")]
    )
    bins = int((report.end - origin).total_seconds() // width_s) + 1
    return Binned(
        origin,
        width_s,
        bins,
        metrics,
        _plain(values, "value_"),
        *_delays(messages),
    )


def _metrics(timed: pa.Table) -> list[tuple[str, str]]:
    counts = timed.group_by(["name", "unit"]).aggregate([("value", "count")]).to_pandas()
    counts = counts[~counts["name"].map(newest.is_of_the_board)].sort_values(
        ["value_count", "name", "unit"], ascending=[False, True, True]
    )
    pairs = zip(counts["name"], counts["unit"], strict=True)
    return list(pairs)[:METRICS]


def _with_bin(table: pa.Table, origin: pd.Timestamp, width_s: float) -> pa.Table:
    since_us = pc.subtract(table["time"].cast(pa.int64()), round(origin.timestamp() * 1e6))
    return table.append_column("bin", pc.divide(since_us, round(width_s * 1e6)))


def _plain(table: pa.Table, prefix: str) -> pd.DataFrame:
    frame = table.to_pandas()
    return frame.rename(columns={name: name.removeprefix(prefix) for name in frame})


def _delays(messages: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(per device and bin, per bin over all devices).

    Percentiles within a bin are Arrow's approximations, maxima are exact.
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
    """The finest round width that makes at most `bins` bins with some messages in each: narrower
    bins would show silence where the board only waits for its next reading."""
    least = max(span_s / bins, 3 * interval_s)
    return next((width for width in _NICE_S if width >= least), max(least, 1.0))


def places(names: Iterable[str]) -> dict[str, int]:
    """Name -> its rank in natural order."""
    return {name: place for place, name in enumerate(sorted(set(names), key=natural))}


def wear(timed: pa.Table) -> pd.DataFrame:
    """For boards that report their erases: device, erases in the time of the tables, blocks (if
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
    # A counter that fell was restarted by a boot; its value counts what happened since.
    frame = frame.assign(step=step.where(step >= 0, frame["value"]))
    found = frame.groupby("device").agg(
        erases=("step", "sum"), first=("time", "min"), last=("time", "max")
    )
    found["seconds"] = (found["last"] - found["first"]).dt.total_seconds() if len(found) else 0.0
    found["blocks"] = blocks.reindex(found.index)
    return found[found["seconds"] > 0].drop(columns=["first", "last"]).reset_index()


def findings(report: Report) -> list[tuple[dict, list[attention.Finding]]]:
    """(row of `devices`, its findings: at least `fine`) for each device, the worst first."""
    newest = report.devices["last_seen"].max()
    found = []
    for row in report.devices.to_dict("records"):
        silent_s = (newest - row["last_seen"]).total_seconds()
        usual_s = report.intervals_s.get(row["device"]) or _mean_interval_s(row)
        known = row | {
            "sensor_faults": report.faults.get(row["device"], []),
            "clock_ahead_s": report.ahead_s.get(row["device"], 0.0),
            "report_s": report.report_s.get(row["device"], 0.0),
            "unwanted": report.unwanted.get(row["device"], []),
        }
        found.append((row, attention.of_device(known, silent_s=silent_s, usual_s=usual_s)))
    return attention.in_order(found)


def _mean_interval_s(row: dict) -> float:
    """For a board that sent fewer than two messages in the range."""
    steps = row["messages"] - 1
    return (row["last_seen"] - row["first_seen"]).total_seconds() / steps if steps > 0 else 0.0
