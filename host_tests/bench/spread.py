"""The spread of a figure with noise, and what it says about a second run.

A figure is measured in blocks: each has its own processes, broker and sockets, and yields one value
(a ratio is taken within the block, of things measured in turns). `make bench` distributes the
blocks of a figure evenly over its whole run, so that slow changes of the machine are in the spread,
too. `low` and `high` are order statistics of the blocks: the narrowest pair for which the median of
a second run of as many blocks lies between them with probability HOLDS or more. That probability is
counted, not estimated: all orders of the two runs' blocks are equally likely if nothing has
changed, however the values are distributed. It does not cover differences between the runs as a
whole: another machine or interpreter, or a machine that is busy in one and idle in the other. HOLDS
is high for that reason: it leaves room for differences of two runs on a quiet machine that are not
between their blocks. Five blocks would hold in 83 of 100 cases only.
"""

from __future__ import annotations

import statistics
from math import comb

BLOCKS = 21  # odd, so that the median is a measured value
# For one figure. With 50 figures, one or more is outside in fewer than one second run of twenty.
HOLDS = 0.999


def probability(blocks: int, rank: int) -> float:
    """Returns the probability that the median of a second run of as many (odd) blocks lies from the
    rank-th lowest to the rank-th highest of this run.
    """
    place, most = blocks + 1 - rank, blocks // 2
    orders = sum(
        comb(place - 1 + below, below) * comb(2 * blocks - place - below, blocks - below)
        for below in range(most + 1)
    )
    return 1 - 2 * orders / comb(2 * blocks, blocks)


def rank(blocks: int) -> int:
    """Returns the highest rank that holds; 1, the whole range, if none does."""
    return max(
        (each for each in range(1, blocks // 2 + 1) if probability(blocks, each) >= HOLDS),
        default=1,
    )


def spread(values: list[float]) -> dict[str, float]:
    """Returns low, median, high, the number of blocks, and the probability that a second run's
    median lies from low to high.
    """
    ordered, blocks = sorted(values), len(values)
    place = rank(blocks)
    found = (ordered[place - 1], statistics.median(ordered), ordered[-place])
    low, median, high = (float(f"{value:.6g}") for value in found)
    holds = round(probability(blocks, place), 4) if blocks % 2 else 0.0
    return {"low": low, "median": median, "high": high, "blocks": blocks, "holds": holds}


def ratio(rates: list[float], limits: list[float]) -> float:
    """Returns a block's ratio: the median over its rounds, each divided by the limit of the same
    round."""
    return statistics.median(rate / limit for rate, limit in zip(rates, limits, strict=True))
