"""The data for the page's script: the thinned series as compact JSON, compressed, for a <script>
element.

{"origin", "width" (ms), "bins", "metrics": [[name, unit]],
 "delays": {device: [first bin, medians, longest]},
 "values": {device: {metric: [first bin, means, lowest or null, highest or null]}},
 "fleet": [first bin, medians, 99 %, longest],
 "outages": [[begin, end, letter, kind, device or -1]],
 "gaps": {device: [[stream, first, last, state]]}}

Devices and metrics are given by index. Lists are dense from their first bin on; null where nothing
was read.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pandas as pd

from outpost_tools.readings.report.data import Binned, Outage, Report
from outpost_tools.text.words import LETTERS, OTHER, unit_text

_STEPS = 1000  # a chart is about 150 pixels high: a thousandth of its range is invisible
_GAPS_OF_DEVICE = 20


def compressed(data: bytes) -> str:
    """gzip in base64; the same input yields the same text."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


def details(report: Report, devices: list[str]) -> str:
    """`devices`: in the order of the page's rows."""
    content = _content(report, report.binned, {name: index for index, name in enumerate(devices)})
    return compressed(json.dumps(content, separators=(",", ":"), allow_nan=False).encode())


def _content(report: Report, binned: Binned, index: dict[str, int]) -> dict[str, Any]:
    return {
        "origin": _ms(binned.origin),
        "width": round(binned.width_s * 1000),
        "bins": binned.bins,
        "metrics": [[name, unit_text(unit)] for name, unit in binned.metrics],
        "values": _values(binned, index),
        "delays": {
            index[device]: _dense(rows, ["p50", "max"], 1.0)
            for device, rows in binned.active.groupby("device")
            if device in index
        },
        "fleet": _dense(binned.delays, ["p50", "p99", "max"], 1.0),
        "outages": [_outage(outage, index) for outage in report.outages],
        "gaps": {
            index[device]: rows[["stream", "first", "last", "state"]]
            .head(_GAPS_OF_DEVICE)
            .to_numpy()
            .tolist()
            for device, rows in report.gaps.groupby("device")
            if device in index
        },
    }


def _outage(outage: Outage, index: dict[str, int]) -> list:
    """Device -1: all; -2: one that is not in the tables."""
    place = -1 if outage.device is None else index.get(outage.device, -2)
    return [_ms(outage.begin), _ms(outage.end), LETTERS.get(outage.kind, OTHER), outage.kind, place]


def _ms(time: pd.Timestamp) -> int:
    return round(time.timestamp() * 1000)


def _values(binned: Binned, index: dict[str, int]) -> dict[int, dict[int, list]]:
    found: dict[int, dict[int, list]] = {place: {} for place in index.values()}
    values = binned.values
    for number, (name, unit) in enumerate(binned.metrics):
        rows = values[(values["name"] == name) & (values["unit"] == unit)]
        step = _step(rows["max"].max() - rows["min"].min())
        for device, own in rows.groupby("device"):
            if device in index:  # during a run, silver may be a batch ahead of gold
                first, mean, low, high = _dense(own, ["mean", "min", "max"], step)
                found[index[device]][number] = [
                    first,
                    mean,
                    *((None, None) if mean == low == high else (low, high)),
                ]
    return found


def _step(extent: float) -> float:
    return (
        10.0 ** np.floor(np.log10(extent / _STEPS)) if np.isfinite(extent) and extent > 0 else 0.0
    )


def _dense(rows: pd.DataFrame, columns: list[str], step: float) -> list:
    first, last = int(rows["bin"].min()), int(rows["bin"].max())
    dense = rows.set_index("bin").reindex(range(first, last + 1))
    return [first, *(_rounded(dense[name], step) for name in columns)]


def _rounded(column: pd.Series, step: float) -> list:
    """None where there is no value; integers without a fraction, which halves the JSON."""
    digits = max(0, -int(np.floor(np.log10(step)))) if step else 15
    return [
        None if not np.isfinite(v) else _short(round(v, digits) if step else v)
        for v in column.tolist()
    ]


def _short(value: float) -> float | int:
    return int(value) if value == int(value) and abs(value) < 1e15 else value
