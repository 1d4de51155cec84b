"""What a board says of its own health, and what the tables make of it.

A state is what it was at last; the others are counted from each start on, so the last of each boot
is added up.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from outpost_tools.common.labels import HEALTH_COUNTS as COUNTS
from outpost_tools.common.labels import HEALTH_STATES as STATES

NAMES = (*STATES, *COUNTS)
_MOST = (1 << 30) - 1  # the firmware counts in integers of 30 bits


def of_devices(rows: pa.Table) -> dict[str, pa.Table]:
    """By name: `device` and the name, of the devices that have told it.

    rows: `totals` flattened, that is NAME.seq and NAME.value of the last that each boot told.
    """
    return {name: _of_name(_told(rows, name), name) for name in NAMES}


def _told(rows: pa.Table, name: str) -> pa.Table:
    """device, received, seq, value of the boots that tell it. A metric of that name that is no
    count is somebody's own: left out."""
    value = rows[f"{name}.value"].to_numpy()  # NaN: not told
    is_count = (value >= 0) & (value <= _MOST) & (value % 1 == 0)
    names = ["device", "last.received", f"{name}.seq", f"{name}.value"]
    found = rows.select(names).filter(pa.array(is_count))
    return found.rename_columns(["device", "received", "seq", "value"])


def _of_name(told: pa.Table, name: str) -> pa.Table:
    if name in STATES:
        told = told.sort_by([("received", "ascending"), ("seq", "ascending")])
    how = "last" if name in STATES else "sum"
    found = told.group_by("device", use_threads=False).aggregate([("value", how)])
    counts = found[f"value_{how}"].to_numpy().astype(np.int64)
    return pa.table({"device": found["device"], name: counts})
