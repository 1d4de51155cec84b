"""How the instructions of a message grow: lines fitted through the counts of instructions.py, and
verdicts in words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STEPS = ("publish", "send", "PUBACK")
FLAT = 0.01  # share of the count: what is still called flat
# How far a count may lie from the line, as a share of it: pages have 256 bytes, and a record may
# begin anywhere in one.
LINEAR = 0.05
SAME_SLOPE = 1.05  # times a copy's slope
IN_RAM = ("message in RAM, by payload", "message in RAM through the client, by payload")
STORED = "stored message, by payload"
Counts = dict[str, int]


@dataclass(frozen=True)
class Line:
    """instructions = base + slope x bytes, by least squares; worst: the largest distance of a count
    from the line, as a share of that count.
    """

    base: float
    slope: float
    worst: float


@dataclass(frozen=True)
class Verdict:
    what: str
    says: str
    holds: bool


def whole(found: Counts, kind: str) -> int:
    """Returns the count of one QoS 1 message with its acknowledgement."""
    return sum(found[f"{kind} {step}"] for step in STEPS)


def points(found: Counts, start: str) -> dict[int, int]:
    """Returns {number: count} for the names that consist of `start` and a number."""
    names = [name for name in found if name.startswith(start) and name[len(start) :].isdigit()]
    return {int(name[len(start) :]): found[name] for name in names}


def fit(counts: dict[int, int]) -> Line:
    """Fit a line, weighted so that the relative distance of each count is minimised: otherwise the
    long messages alone would decide.
    """
    sizes, values = list(counts), list(counts.values())
    slope, base = map(float, np.polyfit(sizes, values, 1, w=[1 / value for value in values]))
    return Line(
        base, slope, max(abs(base + slope * size - count) / count for size, count in counts.items())
    )


def lines(found: Counts) -> dict[str, Line]:
    """Returns the lines by what grows; the first two are the reference: one copy, one CRC, in the
    same interpreter."""
    named = {
        "one copy of memory": "copy of bytes, ",
        "one CRC": "CRC of bytes, ",
        "message in RAM, by payload": "RAM, payload ",
        "message in RAM through the client, by payload": "client, payload ",
        "stored message, by payload": "flash, payload ",
        "stored message, by topic": "flash, topic ",
    }
    return {
        what: fit(counts)
        for what, start in named.items()
        if len(counts := points(found, start)) > 1
    }


def flat(found: Counts) -> list[Verdict]:
    # without a backlog nothing is read from flash
    backlog = {held: count for held, count in points(found, "flash, backlog ").items() if held}
    return [
        _flat("backlog", backlog, "held"),
        _flat("blocks", points(found, "flash, blocks "), "blocks"),
        _flat("window", points(found, "window, PUBACK of the oldest of "), "in flight"),
    ]


def linear(found: Counts, names: tuple[str, ...]) -> list[Verdict]:
    """True when it is a line, and its slope no more than a copy's."""
    fitted = lines(found)
    copy, crc = fitted["one copy of memory"].slope, fitted["one CRC"].slope
    result = []
    for name in names:
        one = fitted[name]
        says = (
            f"{one.slope:.1f} instructions a byte: {one.slope / copy:.2f} copies "
            f"({one.slope / crc:.2f} CRCs); within {one.worst:.1%} of a line"
        )
        result.append(Verdict(name, says, one.slope <= copy * SAME_SLOPE and one.worst <= LINEAR))
    return result


def verdicts(found: Counts) -> list[Verdict]:
    return flat(found) + linear(found, (*IN_RAM, STORED))


def _flat(what: str, counts: dict[int, int], unit: str) -> Verdict:
    if not counts:
        return Verdict(what, "not counted", False)
    low, high = min(counts.values()), max(counts.values())
    says = f"{low:,} .. {high:,} from {min(counts):,} to {max(counts):,} {unit}"
    return Verdict(what, says, high - low <= FLAT * high)
