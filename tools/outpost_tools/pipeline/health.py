"""What a board says of its own health, and what the tables make of it.

A state is what it was at last; the others are counted from each start on, so the last of each boot
is added up.
"""

from __future__ import annotations

import pandas as pd

from outpost_tools.common.labels import HEALTH_COUNTS as COUNTS
from outpost_tools.common.labels import HEALTH_STATES as STATES

NAMES = (*STATES, *COUNTS)
_MOST = (1 << 30) - 1  # the firmware counts in integers of 30 bits


def of_devices(rows: pd.DataFrame) -> pd.DataFrame:
    """By device: a column a name, NA where the device never told it.

    rows: `days` flattened, that is NAME.seq and NAME.value of the last that each boot told that
    day.
    """
    columns = {name: _states(rows, name) for name in STATES}
    columns |= {name: _counts(rows, name) for name in COUNTS}
    return pd.DataFrame(columns, index=pd.Index(rows["device"].unique())).astype("Int64")


def _told(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows that tell it. A metric of that name that is no count is somebody's own: left out."""
    value = rows[f"{name}.value"]
    is_count = value.between(0, _MOST) & (value % 1 == 0)
    return rows[is_count].sort_values(["last.received", f"{name}.seq"])


def _states(rows: pd.DataFrame, name: str) -> pd.Series:
    return _told(rows, name).groupby("device")[f"{name}.value"].last()


def _counts(rows: pd.DataFrame, name: str) -> pd.Series:
    boots = _told(rows, name).groupby(["device", "stream", "boot"])[f"{name}.value"].max()
    return boots.groupby("device").sum()
