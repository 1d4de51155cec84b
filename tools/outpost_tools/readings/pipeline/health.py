"""What a board reports about its own health, and what the tables make of it.

A state has the value that was reported last. The others are counted from each start of the board,
so the last values of all boots are summed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.messages.labels import HEALTH_COUNTS as COUNTS
from outpost_tools.messages.labels import HEALTH_STATES as STATES

NAMES = (*STATES, *COUNTS)
_MOST = (1 << 30) - 1  # the firmware counts in integers of 30 bits


def is_count(values: np.ndarray) -> np.ndarray:
    """NaN is none."""
    return (values >= 0) & (values <= _MOST) & (values % 1 == 0)


def of_devices(rows: pa.Table) -> dict[str, pa.Table]:
    """By name: a table of `device` and the name, for the devices that have reported it.

    rows: `totals` flattened: NAME.seq and NAME.value of the last report of each boot; in the rows
    of folded boots, of the last of all for a state, and the sum of the values for a count.
    """
    return {name: _of_name(_told(rows, name), name) for name in NAMES}


def _told(rows: pa.Table, name: str) -> pa.Table:
    """device, received, stream, seq, value of the rows that report it."""
    is_folded = pc.is_valid(rows["closed"]).to_numpy()
    value = rows[f"{name}.value"].to_numpy()  # NaN: not told
    # Those of boots may come from a version that took any metric with the name for a report.
    is_told = np.where(is_folded, ~np.isnan(value), is_count(value))
    found = rows.filter(pa.array(is_told))
    received = found["last.received"]
    if name in STATES:
        received = pc.coalesce(found[f"{name}_received"], received)
    columns = [found["device"], received, *(found[n] for n in _told_names(name))]
    return pa.table(columns, names=["device", "received", "stream", "seq", "value"])


def _told_names(name: str) -> tuple[str, ...]:
    return "stream", f"{name}.seq", f"{name}.value"


def _of_name(told: pa.Table, name: str) -> pa.Table:
    if name in STATES:
        told = told.sort_by([(one, "ascending") for one in ("received", "seq", "stream")])
    how = "last" if name in STATES else "sum"
    found = told.group_by("device", use_threads=False).aggregate([("value", how)])
    counts = found[f"value_{how}"].to_numpy().astype(np.int64)
    return pa.table({"device": found["device"], name: counts})
