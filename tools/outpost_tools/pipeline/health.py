"""What a board reports about its own health, and what the tables make of it.

A state has the value that was reported last. The others are counted from each start of the board,
so the last values of all boots are summed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from outpost_tools.common.labels import HEALTH_COUNTS as COUNTS
from outpost_tools.common.labels import HEALTH_STATES as STATES

NAMES = (*STATES, *COUNTS)
_MOST = (1 << 30) - 1  # the firmware counts in integers of 30 bits


def of_devices(rows: pa.Table) -> dict[str, pa.Table]:
    """By name: a table of `device` and the name, for the devices that have reported it.

    rows: `totals` flattened, that is NAME.seq and NAME.value of the last report of each boot.
    """
    return {name: _of_name(_told(rows, name), name) for name in NAMES}


def _told(rows: pa.Table, name: str) -> pa.Table:
    """device, received, seq, value of the boots that report it. A value that is not a count comes
    from a metric of a user with the same name, and is left out."""
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
