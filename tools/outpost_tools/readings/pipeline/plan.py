"""What one round takes in, fixed by the first table that it commits.

Law: every table of SILVER_TABLES is at the start or at the end of the one round that is open, and a
round ends before another one begins.

How far a table has read each collector's log is an app transaction of its commits. All tables at
the same place: no round is open, and the next one may be planned. Otherwise the first table is
ahead of the last: what lies between is the open round, whoever planned it, and must be repeated
from the state at its start until the last table has it. Segments never change, so a repetition
marks the same messages. So there is nothing to lock and nothing to lose besides the tables: drivers
that meet do the same round, and of each table's commit one of them wins.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field

from outpost_tools.readings.pipeline import delta, schemas
from outpost_tools.readings.pipeline.logs import Behind, Listing, Log, Segment

REPLAY = schemas.REPLAY
_TAKEN, _FIRST, _ROUND = "log:", "first of log:", "round"
_IDENTITY = "identity of log:"  # see outpost_tools.log.identity
_CHECK_BITS = 32
MAPPING = "mapping"  # of other people's messages: a number made of its text, see mappings.py
REPLAYS = "replays"  # the number of the last call of `replay`, in quarantine
REREADS, REREAD = "rereads", "reread"  # of reread.py, in quarantine: begun, and done


REREAD_FIRST = (
    "other people's messages are about to be read again; `outpost pipeline replay --sources` was "
    "interrupted: repeat it first"
)


class Overtaken(Exception):
    """Another driver has gone on, or somebody has deleted rows: plan anew."""


def taken(table: delta.Table, collector: str) -> int:
    """The last segment of that collector in the table; -1: none."""
    return delta.reached(table, _TAKEN + collector)


def first(table: delta.Table, collector: str) -> int:
    """The first segment that was ever taken in; -1: not known."""
    return delta.reached(table, _FIRST + collector)


def firsts(table: delta.Table) -> dict[str, int]:
    """first(), of all collectors of which it is known."""
    found = table.transactions.items()
    return {
        query.removeprefix(_FIRST): number for query, number in found if query.startswith(_FIRST)
    }


def identity(table: delta.Table, collector: str) -> int:
    """Of the log whose segments were taken in; -1: it had none when they were."""
    return delta.reached(table, _IDENTITY + collector)


def is_open(opened: delta.Opened) -> bool:
    """Whether the first table is ahead of the last."""
    return mark(opened["quarantine"]) != mark(opened["streams"])


def is_replaying(opened: delta.Opened) -> bool:
    """Whether a call of `replay` has freed frames that no round has taken in."""
    return delta.reached(opened["quarantine"], REPLAYS) > taken(opened["streams"], REPLAY)


def is_rereading(quarantine: delta.Table) -> bool:
    """Whether other people's messages are leaving the tables (reread.py)."""
    return delta.reached(quarantine, REREADS) > max(delta.reached(quarantine, REREAD), 0)


def mark(table: delta.Table) -> int:
    """What the table notes of the last round that it has; -1: none."""
    return delta.reached(table, _ROUND)


def number(table: delta.Table) -> int:
    """How many rounds the table has."""
    return (mark(table) >> _CHECK_BITS) + 1 if mark(table) >= 0 else 0


def marked(number: int) -> delta.Batch:
    """mark(), for a commit."""
    return delta.Batch(_ROUND, number)


@dataclass(frozen=True)
class Plan:
    """From `start` to `end` ({collector: last segment}). before, mark: what tables note that are at
    the start, and at the end: a number that grows, and a check of the plan. segments: of the log,
    in the order in which they are read; firsts: of logs that begin; identities: of logs of which
    none is noted yet. mapping: the number of the mapping by which other people's messages are read,
    -1: there is none."""

    start: dict[str, int]
    end: dict[str, int]
    before: int
    mark: int
    segments: list[Segment] = field(default_factory=list)
    firsts: dict[str, int] = field(default_factory=dict)
    mapping: int = -1
    identities: dict[str, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.mark >> _CHECK_BITS

    @property
    def replays(self) -> range:
        """The calls of `replay` whose frames are read."""
        return range(self.start.get(REPLAY, -1) + 1, self.end.get(REPLAY, -1) + 1)

    @property
    def transactions(self) -> list[delta.Batch]:
        found = {_TAKEN + name: number for name, number in self.end.items()}
        found |= {_FIRST + name: number for name, number in self.firsts.items()}
        found |= {_IDENTITY + name: number for name, number in self.identities.items()}
        if self.mapping >= 0:
            found[MAPPING] = self.mapping
        return [*(delta.Batch(*one) for one in found.items()), marked(self.mark)]

    def is_in(self, table: delta.Table) -> bool:
        """Whether the table is at the end, not at the start. Raises Overtaken where it is at
        neither."""
        found = mark(table)
        if found not in (self.before, self.mark):
            raise Overtaken(f"{table.place}: another driver has read further")
        return found == self.mark


def next_round(
    opened: delta.Opened, log: Listing, most_bytes: int, mapping: int = -1
) -> Plan | None:
    """The round that is open, or the next one: at most `most_bytes` of the segments that are
    listed, and one more, read by that mapping. None: nothing is left to do. Raises Behind and
    Overtaken."""
    last, ahead = opened["streams"], opened["quarantine"]
    if is_rereading(ahead):
        raise Behind(REREAD_FIRST)
    if is_open(opened):  # the driver that planned it may have listed more
        log = Listing(log.log)
    names = log.collectors()
    start = {name: taken(last, name) for name in (*names, REPLAY)}
    found = {name: log.after(name, start[name]) for name in names}
    if is_open(opened):
        end = {name: taken(ahead, name) for name in start}
        chosen = [one for name in names for one in found[name] if one.number <= end[name]]
        mapping = delta.reached(ahead, MAPPING)
    else:
        chosen = _some(found, start, most_bytes)
        end = start | {one.collector: one.number for one in chosen}
        end[REPLAY] = max(end[REPLAY], delta.reached(ahead, REPLAYS))
    new = sorted(name for name in end if end[name] != start[name])
    if is_open(opened):
        ends = {name: end[name] for name in new}
        _check_open(mark(last), mark(ahead), ends, mapping)
    if not new:
        return None
    _check_complete(chosen, start, end)
    begins = {name: found[name][0].number for name in new if name != REPLAY and start[name] < 0}
    identities = _identities(last, log.log, {name: start[name] for name in new if name != REPLAY})
    end, start = ({name: ends[name] for name in new} for ends in (end, start))
    before, after = mark(last), mark(ahead)
    if not is_open(opened):
        after = _mark_after(before, end, mapping)
    return Plan(start, end, before, after, chosen, begins, mapping, identities)


def _identities(last: delta.Table, log: Log, start: dict[str, int]) -> dict[str, int]:
    """Those to note. None of a log that the tables cannot have read: they have a segment of that
    number, and did not note the identity that the log had by then."""
    found = {}
    for name in (one for one in start if identity(last, one) < 0):
        said = log.identity(name)
        if said is not None and start[name] < said.since:
            found[name] = said.number
    return found


def _check_open(before: int, after: int, end: dict[str, int], mapping: int) -> None:
    """Raises Overtaken where the round has ended since the last table was read, Behind where the
    log lacks the folder of a collector that the round has read."""
    if after == _mark_after(before, end, mapping):
        return
    if after >> _CHECK_BITS != _number_after(before):
        raise Overtaken("another driver has finished the round that was open")
    raise Behind(
        "the log lacks the folder of a collector whose segments are being taken in, or a round "
        "was interrupted with another log; give that log, or put the folder back"
    )


def _number_after(before: int) -> int:
    return (before >> _CHECK_BITS) + 1 if before >= 0 else 0


def _mark_after(before: int, end: dict[str, int], mapping: int) -> int:
    number, said = _number_after(before), json.dumps(end, sort_keys=True)
    if mapping >= 0:
        said += str(mapping)
    return (number << _CHECK_BITS) + zlib.crc32(said.encode())


def _some(found: dict[str, list[Segment]], start: dict[str, int], most_bytes: int) -> list[Segment]:
    """The lowest numbers first, alternating between collectors."""
    waiting = [one for segments in found.values() for one in segments]
    first = {name: segments[0].number for name, segments in found.items() if segments}

    def turn(one: Segment) -> tuple[int, str]:
        before = start[one.collector] if start[one.collector] >= 0 else first[one.collector] - 1
        return one.number - before, one.collector

    chosen, size = [], 0
    for one in sorted(waiting, key=turn):
        if size >= most_bytes:
            break
        chosen.append(one)
        size += one.size
    return chosen


def _check_complete(chosen: list[Segment], start: dict[str, int], end: dict[str, int]) -> None:
    """Raises Behind when a number between start and end is missing."""
    present = {(one.collector, one.number) for one in chosen}
    for name, last in end.items():
        if name == REPLAY or last == start[name]:
            continue
        known = [one.number for one in chosen if one.collector == name]
        begin = start[name] + 1 if start[name] >= 0 else min(known, default=last)
        for number in range(begin, last + 1):
            if (name, number) not in present:
                raise Behind(
                    f"segment {number} of collector {name} is missing from the log directory"
                )
