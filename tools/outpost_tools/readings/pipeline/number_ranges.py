"""The known numbers of many streams at once, as ranges in numpy arrays: (firsts, lasts), ascending,
both inclusive.

A number is stored as its stream's code << SEQ_BITS, plus the number. messages/ranges.py has the set
of a single stream. Pure: only numpy.
"""

from __future__ import annotations

import numpy as np

SEQ_BITS = 31  # one more than a number has, so that the ranges of two streams never touch


def in_ranges(keys: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Which numbers lie in one of the ranges (firsts, lasts)."""
    firsts, lasts = bounds
    if not len(firsts):
        return np.zeros(len(keys), dtype=bool)
    index = np.searchsorted(firsts, keys, side="right") - 1
    return (index >= 0) & (keys <= lasts[index])


def grown(bounds: tuple[np.ndarray, np.ndarray], keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ranges after adding ascending numbers (repeats allowed) that lie in none of them;
    adjacent ranges are merged."""
    breaks = np.diff(keys) > 1
    firsts = np.concatenate([bounds[0], keys[:1], keys[1:][breaks]])
    lasts = np.concatenate([bounds[1], keys[:-1][breaks], keys[-1:]])
    order = np.argsort(firsts, kind="stable")
    firsts, lasts = firsts[order], lasts[order]
    apart = firsts[1:] != lasts[:-1] + 1
    return np.concatenate([firsts[:1], firsts[1:][apart]]), np.concatenate(
        [lasts[:-1][apart], lasts[-1:]]
    )
