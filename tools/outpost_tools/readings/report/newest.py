"""The newest value of each metric of a device, and the faults of its sensors."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from outpost_tools.messages import board_words, sensor_notes
from outpost_tools.text.words import natural

_FIRMWARE, _SIGNAL = "firmware", "signal"


class Value(NamedTuple):
    name: str
    unit: str
    value: float
    time: pd.Timestamp


def is_of_the_board(name: str) -> bool:
    """Whether it describes the board itself and need not be drawn."""
    return (name in board_words.DIAGNOSTIC and name != _SIGNAL) or sensor_notes.is_note(name)


def of_devices(timed: pa.Table) -> tuple[dict[str, list[Value]], dict[str, list[str]]]:
    """(device -> values, device -> faults of its sensors in words), each sorted by name; values
    that describe the board come last."""
    key = ["device", "name"]
    times = timed.group_by(key).aggregate([("time", "max")]).rename_columns([*key, "time"])
    columns = timed.select([*key, "time", "seq", "unit", "value"])
    rows = columns.join(times, [*key, "time"], join_type="inner")
    frame = rows.to_pandas().sort_values([*key, "seq"], kind="stable")
    frame = frame.drop_duplicates(key, keep="last")
    values: dict[str, list[Value]] = {}
    faults: dict[str, list[str]] = {}
    for row in frame.itertuples(index=False):
        if words := sensor_notes.words(row.name, row.value):
            faults.setdefault(row.device, []).append(words)
        elif row.name == _FIRMWARE or not is_of_the_board(row.name):
            found = Value(row.name, row.unit or "", row.value, row.time)
            values.setdefault(row.device, []).append(found)
    for found in values.values():
        found.sort(key=lambda one: (one.name in board_words.DIAGNOSTIC, natural(one.name)))
    return values, faults
