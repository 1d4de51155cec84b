"""What log and tables must hold of the devices of foreign_fleet.py, computed plainly from what they
sent and from the frames of the log, one at a time and in the order of their arrival.

The broker's own share: killed with SIGKILL, mosquitto forgets what happened since its last save,
moments before. A message that it had acknowledged then is lost, and one that it had delivered is
delivered again as a new one. Nothing else may be lost, or come more often than it was sent.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from foreign_devices import Said
from foreign_fleet import Key, Senders
from outpost_tools.log import segments
from outpost_tools.readings.pipeline import tables

FORGOTTEN_S = 2.0  # before a kill: mosquitto saves twice a second, on a busy machine later
LATE_S = 0.2  # after a kill: for a PUBACK that was on its way
OUTPOST = "exactly once, gaps named"
COLUMNS = ("device", "stream", "name", "unit", "value", "time", "guarantee", "received")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stored(NamedTuple):
    received_ms: int
    segment: str
    offset: int
    topic: str
    payload: bytes
    is_retained: bool
    is_clock_unset: bool  # then its arrival is no time

    @property
    def key(self) -> Key:
        return self.topic, self.payload

    @property
    def is_boards(self) -> bool:
        return self.topic.startswith("outpost/")


def stored(directory: Path) -> list[Stored]:
    """The frames of a collector that has ended. Each segment must be whole."""
    found = []
    for path in segments.sealed_segments(directory):
        contents = segments.contents(path)
        for one in contents.frames():
            place = one.received_ms, path.name, one.offset
            found.append(Stored(*place, one.topic.decode(), one.payload, one.retained,
                                one.is_clock_unset))  # fmt: skip
        assert contents.damage == []
    return sorted(found)


def assert_log_is_what_was_sent(
    frames: list[Stored], senders: Senders, kills: list[float]
) -> tuple[int, int]:
    """kills: of the broker, in s since 1970. Returns (lost by the broker, copies by the broker)."""
    arrivals: dict[Key, list[float]] = defaultdict(list)
    for one in frames:
        if not one.is_boards and not one.is_retained:
            arrivals[one.key].append(one.received_ms / 1000)
    assert arrivals.keys() <= senders.said.keys(), "nobody sent it"

    def forgotten(times: list[float]) -> int:
        return sum(any(-LATE_S <= kill - at <= FORGOTTEN_S for kill in kills) for at in times)

    lost = copied = 0
    for key, attempts in senders.attempts.items():
        there, acked = arrivals[key], senders.acked.get(key, [])
        missing, more = len(acked) - len(there), len(there) - attempts
        assert missing <= forgotten(acked), (key, acked, there, kills)
        assert more <= forgotten(there), (key, attempts, there, kills)
        lost, copied = lost + max(missing, 0), copied + max(more, 0)
    return lost, copied


def expected(frames: list[Stored], said: dict[Key, Said]) -> tuple[Counter, Counter]:
    """(rows of COLUMNS, reasons in quarantine)."""
    rows, refused, first = Counter(), Counter(), set()
    for one in frames:
        if one.is_boards or one.is_retained:
            continue
        meant = said[one.key]
        if meant.refused:
            refused[meant.refused] += 1
        elif meant.identity not in first:
            first |= {meant.identity} - {None}
            rows += Counter(_rows(meant, one))
    return rows, refused


def _rows(meant: Said, frame: Stored) -> list[tuple]:
    received = _EPOCH + timedelta(milliseconds=frame.received_ms)
    time = None if frame.is_clock_unset else received
    if meant.time_us is not None:
        time = _EPOCH + timedelta(microseconds=meant.time_us)
    head = (meant.device, meant.source)
    return [(*head, *one, time, meant.guarantee, received) for one in meant.readings]


def found(place: Path) -> Counter:
    rows = tables.read_table(place, "readings", [*COLUMNS]).to_pylist()
    return Counter(tuple(row.values()) for row in rows if row["guarantee"] != OUTPOST)


# --- Boards ---


def of_boards(payloads: set[bytes]) -> Counter:
    """(device, stream, number, name, unit, value, time) of each reading."""
    rows = Counter()
    for head, *more in map(json.loads, payloads):
        for one in (head, *more):
            time = _EPOCH + timedelta(microseconds=round(head["bt"] * 1_000_000))
            key = (head["bn"].strip("/"), head["sid"], head["seq"])
            rows[(*key, one["n"], one.get("u"), float(one["v"]), time)] += 1
    return rows


def boards_found(place: Path) -> Counter:
    columns = ["device", "stream", "seq", "name", "unit", "value", "time", "guarantee"]
    rows = tables.read_table(place, "readings", columns).to_pylist()
    return Counter(tuple(row.values())[:-1] for row in rows if row["guarantee"] == OUTPOST)
