"""The plausible times of a reading, given its arrival: labels.time_limits_s() for whole columns.

Used where a time is read (decode.py) and where one is computed (clocks.py): a clock can be right
and an uptime wrong. gold.py has the same rule as a Spark expression.
"""

from __future__ import annotations

import numpy as np

from outpost_tools.common import labels


def limits(received: np.ndarray, per_second: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(earliest, latest), both inclusive, for readings that arrived at `received`; since 1970, in
    units of 1 / `per_second` seconds."""
    lowest, highest = labels.MIN_TIME_S * per_second, labels.MAX_TIME_S * per_second
    known = received >= lowest
    earliest = np.maximum(received - labels.MAX_AGE_S * per_second, lowest)
    latest = np.minimum(received + labels.MAX_AHEAD_S * per_second, highest)
    return np.where(known, earliest, lowest), np.where(known, latest, highest)
