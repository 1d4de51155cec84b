"""Which disasters happen when, by seed. Pure: the same seed, length and number of boards yield the
same list.

A run has two acts. Act one: the collector is killed; the broker, now with a backlog for it, is
killed too and restarted; then the collector is restarted. Act two: the collector is killed and
restarted at once; in every second run, act one is repeated instead. Between the acts the link of
one board is cut. Power cuts are not planned here: each board has its own (simulate.orders).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

# Seconds, not fractions of the run: they depend on reconnecting, not on the length of the run.
_BACKLOG_S = (1.5, 2.5)  # messages pile up in the broker
_BROKER_OFF_S = (0.2, 1.0)
_COLLECTOR_LATER_S = (0.5, 1.5)  # after the broker is back
_LINK_OFF_S = (4.0, 7.0)
SHORTEST_RUN_S = 20  # the longest two acts and the link cut need this long


@dataclass(frozen=True, slots=True)
class Disaster:
    """`at_s` seconds into the run, `what` (see stage.Stage) is done, to board number `board` if it
    concerns a single board."""

    at_s: float
    what: str
    board: int | None = None
    how: str = ""


def plan(seed: int, *, seconds: float, boards: int) -> list[Disaster]:
    """Sorted by time; the last one is over after at most 0.9 of the run."""
    rng = random.Random(f"{seed}/disasters")
    disasters = _broker_with_backlog(rng, seconds * rng.uniform(0.10, 0.16))
    disasters += _link(rng, seconds * rng.uniform(0.35, 0.45), rng.randrange(boards))
    second = seconds * rng.uniform(0.66, 0.70)
    if rng.random() < 0.5:
        disasters += _broker_with_backlog(rng, second)
    else:
        disasters += [
            Disaster(second, "kill_collector"),
            Disaster(second + rng.uniform(0.1, 0.5), "start_collector"),
        ]
    return sorted(disasters, key=lambda d: d.at_s)


def _broker_with_backlog(rng: random.Random, at_s: float) -> list[Disaster]:
    broker_dies = at_s + rng.uniform(*_BACKLOG_S)
    broker_back = broker_dies + rng.uniform(*_BROKER_OFF_S)
    collector_back = broker_back + rng.uniform(*_COLLECTOR_LATER_S)
    return [
        Disaster(at_s, "kill_collector"),
        Disaster(broker_dies, "kill_broker"),
        Disaster(broker_back, "start_broker"),
        Disaster(collector_back, "start_collector"),
    ]


def _link(rng: random.Random, at_s: float, board: int) -> list[Disaster]:
    how = rng.choice(("reset", "silence"))
    return [
        Disaster(at_s, "cut_link", board, how),
        Disaster(at_s + rng.uniform(*_LINK_OFF_S), "restore_link", board),
    ]
