"""What the page shows, as pandas frames: read from the tables and binned in time. No HTML, no charts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from outpost_tools.errors import ToolError
from outpost_tools.pipeline.tables import read_table

BINS = 150  # about one per two pixels of a phone
_NICE_S = (0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
_READING_COLUMNS = ["device", "record", "name", "unit", "value", "time", "received"]
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
class Report:
    """`bin_s` is the width of the bins of `values` and `delays`; times are UTC."""

    devices: pd.DataFrame
    values: pd.DataFrame  # device, name, unit, bin, count, min, mean, max
    delays: pd.DataFrame  # device, bin, p50, max in ms
    gaps: pd.DataFrame
    quarantine: pd.DataFrame
    outages: list[Outage]
    bin_s: float
    begin: pd.Timestamp | None
    end: pd.Timestamp | None


def load(tables: Path, events: Path | None) -> Report:
    """Raises ToolError when the tables are not there or the events file is no list of events."""
    outages = load_events(events) if events else []
    try:
        readings = read_table(tables, "readings", _READING_COLUMNS).to_pandas()
        frames = {name: read_table(tables, name).to_pandas() for name in ("devices", "latency", "gaps", "quarantine")}
    except FileNotFoundError as error:
        raise ToolError(str(error)) from None
    timed = readings[readings["time"].notna()]
    begin, end = _span(timed)
    bin_s = bin_width((end - begin).total_seconds(), _interval_s(timed)) if begin is not None else 1.0
    timed = timed.assign(bin=timed["time"].dt.floor(f"{round(bin_s * 1000)}ms"))
    devices = frames["devices"].merge(frames["latency"].drop(columns="count"), on="device", how="left")
    return Report(
        devices=worst_first(devices),
        values=binned_values(timed),
        delays=binned_delays(timed),
        gaps=frames["gaps"].sort_values(["state", "device", "stream", "first"]),
        quarantine=by_reason(frames["quarantine"]),
        outages=outages,
        bin_s=bin_s,
        begin=begin,
        end=end,
    )


def _span(timed: pd.DataFrame) -> tuple[pd.Timestamp | None, pd.Timestamp | None]:
    return (None, None) if timed.empty else (timed["time"].min(), timed["time"].max())


def _interval_s(timed: pd.DataFrame) -> float:
    """Seconds from one message of a device to the next: the usual one of the usual device."""
    messages = timed[timed["record"] == 0].sort_values("time")
    return messages.groupby("device")["time"].agg(lambda times: times.diff().dt.total_seconds().median()).median()


def bin_width(span_s: float, interval_s: float) -> float:
    """The finest round width that makes at most BINS bins and has some messages in each: else silence is seen where
    the board only waits for its next reading."""
    least = max(span_s / BINS, 3 * interval_s if interval_s == interval_s else 0)
    return next((width for width in _NICE_S if width >= least), max(least, 1.0))


def natural(name: str) -> list:
    """Sorts board-2 before board-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def binned_values(timed: pd.DataFrame) -> pd.DataFrame:
    groups = timed.groupby(["device", "name", "bin"])
    return groups.agg(
        unit=("unit", "last"),
        count=("value", "size"),
        min=("value", "min"),
        mean=("value", "mean"),
        max=("value", "max"),
    ).reset_index()


def binned_delays(timed: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds from reading to first arrival, one figure per message."""
    messages = timed[timed["record"] == 0]
    delay = (messages["received"] - messages["time"]).dt.total_seconds() * 1000
    groups = messages.assign(delay=delay).groupby(["device", "bin"])["delay"]
    return groups.agg(p50="median", max="max").reset_index()


def worst_first(devices: pd.DataFrame) -> pd.DataFrame:
    """Devices with losses first, then by what was redelivered, then by name."""
    order = {name: place for place, name in enumerate(sorted(devices["device"], key=natural))}
    devices = devices.assign(place=devices["device"].map(order))
    return devices.sort_values(
        ["missing_closed", "missing_open", "redelivered", "place"], ascending=[False, False, False, True]
    ).reset_index(drop=True)


def by_reason(quarantine: pd.DataFrame) -> pd.DataFrame:
    """One row per reason: how many, from which topics, the newest time and one payload."""
    groups = quarantine.sort_values(["received", "collector", "segment", "offset"]).groupby("reason")
    found = groups.agg(
        count=("reason", "size"), topics=("topic", "unique"), last=("received", "last"), example=("payload", "last")
    )
    return found.sort_values("count", ascending=False, kind="stable").reset_index()


def load_events(path: Path) -> list[Outage]:
    """Raises ToolError that names what is wrong."""
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
        events = [
            (pd.Timestamp(int(item["time_ms"]), unit="ms", tz="UTC"), str(item["kind"]), item.get("device")) for item in items
        ]
    except OSError as error:
        raise ToolError(f"{path}: cannot read the events: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ToolError(f'{path}: not a JSON list of {{"time_ms", "kind", "device"}}: {error!r}') from None
    return outages(sorted(events, key=lambda event: event[0]))


def outages(events: list[tuple[pd.Timestamp, str, str | None]]) -> list[Outage]:
    """Each beginning paired with the next end of its kind and device; one without an end lasts to the last event."""
    found, last = [], events[-1][0] if events else None
    for index, (begin, kind, device) in enumerate(events):
        if kind in _ENDS.values():
            continue
        ends = (time for time, other, who in events[index:] if other == _ENDS.get(kind) and who == device)
        end = next(ends, last) if kind in _ENDS else begin
        found.append(Outage(kind, begin, end, device))
    return found
