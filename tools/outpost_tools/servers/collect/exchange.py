"""Several collectors on one shared subscription: each reports to the others what it stored.

The rule. A *statement* of collector C says about a stream: "these numbers are in my log, fsynced"
(or below a `held` in it), and "everything below `base` was confirmed". A *confirmation*, "durable
up to N", is sent when base..N lie in the union of what all collectors said (durable.py). The gap
report that may follow it is about the same union, and promises nothing.

Why a confirmation is true: by induction over the confirmations. The base was confirmed by an
earlier one, or is 0. Each number from there to N is in the log of the collector that said so: it
spoke after its fsync, and its log keeps what was fsynced. So each number up to N is in a log.
Delayed, repeated or lost statements, two collectors that both confirm, a killed collector: none of
these can add a number that is in no log. They only delay a confirmation, or send it twice.

Why everything is confirmed in the end: statements are numbered. A collector that misses one asks
for it, and the speaker repeats everything. An empty statement at least every HEARTBEAT_S shows when
the last one was lost. One collector confirms a device (the one with the highest hash among the
living). Another takes over when that one is gone (its will) or silent for LIVE_S. If no collector
knows a number any more (one never came back, its neighbours restarted), a board still has the
message in flash: it is unconfirmed, so it is sent again.

Failure cases:
- A collector is added: it says everything it has, which is nothing, and receives everything from
  the others.
- A collector is removed: what it said stays true as long as its log stays where the pipeline reads
  it. `outpost collect --retire` empties its queue at the broker first; mosquitto keeps giving an
  absent session its share of the messages.
- It comes back with an older disk: each start is a new *life*, and its first statement replaces
  everything that the previous life said and nobody confirmed. What the old disk no longer has is
  not confirmed. What was confirmed before the disk was lost is lost with the disk; the tables show
  a gap. Under the same id the collector is refused (place.py), because it would use segment numbers
  a second time.
- It cannot write: it takes no more messages and sends no statements, so another one confirms.

Trust: a client that may publish on these topics, or on `durable`, can make boards forget messages.
mosquitto.conf denies all other clients this right.

Pure: statements as bytes in and out, time as an argument.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from outpost_tools.messages import labels, name_rules
from outpost_tools.servers.collect.durable import Durable, News

INTERVAL_S = 0.2
HEARTBEAT_S = 2.0
LIVE_S = 7.0
# After the start, the others have this long to say what they know, before we confirm less than they
# did.
SETTLE_S = 1.0
ASK_AGAIN_S = 1.0
# The approximate limit of one statement. AWS IoT closes the connection on more than 128 KiB;
# mosquitto silently drops what exceeds its limit.
STATEMENT_BYTES = 100_000
_STREAM_BYTES = 75  # for a stream without its ranges: names, base, brackets
_RANGE_BYTES = 22


@dataclass(slots=True)
class Other:
    """What we know about another collector: its life, the number of its last statement, and when
    that arrived."""

    life: str = ""
    number: int = -1
    heard_at: float = 0.0
    asked_at: float = float("-inf")
    is_incomplete: bool = True  # we have not received everything it said


@dataclass(slots=True)
class Changes:
    """What a statement changed: devices with news; `everybody` when another collector came or
    went."""

    devices: set[str] = field(default_factory=set)
    everybody: bool = False


class Exchange:
    """The part that one collector, `me`, has in its group."""

    def __init__(self, me: str, durable: Durable) -> None:
        self._me = me
        self._durable = durable
        self._life = os.urandom(4).hex()
        self._number = 0
        self._others: dict[str, Other] = {}
        self._living: tuple[str, ...] = (me,)
        # device -> who confirms; cleared when the living change
        self._speakers: dict[str, str] = {}
        self._say_everything = True
        self._said_at = float("-inf")
        self._settled_at: float | None = None
        self.refused = 0  # statements that were malformed

    @property
    def farewell(self) -> bytes:
        """For the broker to publish when we are gone, and for us at an orderly end."""
        return _encode({"life": self._life, "gone": True})

    def heard(self, collector: str, data: bytes, now: float) -> Changes:
        """Process a statement of another collector."""
        changes = Changes()
        if collector == self._me:
            return changes
        try:
            said = _parse(data)
        except (ValueError, TypeError, LookupError, RecursionError):
            self.refused += 1
            return changes
        other = self._others.setdefault(collector, Other())
        if said["gone"]:
            other.heard_at = float("-inf") if said["life"] == other.life else other.heard_at
        else:
            other.heard_at = now
            self._take_in(collector, other, said, changes)
        changes.everybody = self.look_round(now)
        return changes

    def _take_in(
        self, collector: str, other: Other, said: dict[str, Any], changes: Changes
    ) -> None:
        if said["life"] != other.life:
            self._say_everything = True  # it has just started, and knows nothing about us
        if said["life"] != other.life or said["begins"]:
            self._durable.forget(collector)
            other.is_incomplete = not said["begins"]
        elif said["number"] != other.number + 1:
            other.is_incomplete = True
        other.life, other.number = said["life"], said["number"]
        if self._me in said["ask"]:
            self._say_everything = True
        for news in said["streams"]:
            if self._durable.add_news(collector, news, is_fresh=said["fresh"]) or said["fresh"]:
                changes.devices.add(news.device)

    def say_everything(self) -> None:
        """The next statement replaces all that we said, because some of it no longer holds."""
        self._say_everything = True

    def look_round(self, now: float) -> bool:
        """Update who is alive; True when that changed, because a collector may then have to confirm
        other devices than before."""
        living = tuple(
            sorted(
                [
                    self._me,
                    *(
                        name
                        for name, other in self._others.items()
                        if now - other.heard_at < LIVE_S
                    ),
                ]
            )
        )
        is_new = living != self._living
        if is_new:
            self._living = living
            self._speakers.clear()
        return is_new or self._has_just_settled(now)

    def _has_just_settled(self, now: float) -> bool:
        if self._settled_at is None or now < self._settled_at:
            return False
        was_settled, self._settled_at = self._settled_at == float("-inf"), float("-inf")
        return not was_settled

    def is_ours(self, device: str) -> bool:
        """Do we confirm this device?"""
        if self._settled_at != float("-inf"):
            return False
        speaker = self._speakers.get(device)
        if speaker is None:
            speaker = max(self._living, key=lambda name: zlib.crc32(f"{name}/{device}".encode()))
            self._speakers[device] = speaker
        return speaker == self._me

    def due(self, now: float, *, everything: bool = False) -> Iterator[bytes]:
        """Statements to publish now.

        `everything`: send the news at once, without waiting for the interval (at the end of a run).
        """
        if self._settled_at is None:
            self._settled_at = now + SETTLE_S
        if now - self._said_at < INTERVAL_S and not everything:
            return
        news = self._durable.take_news()
        full, self._say_everything = self._say_everything, False
        if full:
            news = list(self._durable.everything())
        ask = self._ask(now)
        if not (news or full or ask or now - self._said_at >= HEARTBEAT_S):
            return
        self._said_at = now
        for number, part in enumerate(_parts(news)):
            yield self._statement(part, begins=full and number == 0, fresh=not full, ask=ask)

    def wait_s(self, now: float) -> float:
        """Seconds until due() may have something to say."""
        return max(0.0, self._said_at + INTERVAL_S - now)

    def _ask(self, now: float) -> list[str]:
        """Collectors of which we missed something."""
        names = [
            n
            for n, o in self._others.items()
            if o.is_incomplete and n in self._living and now - o.asked_at >= ASK_AGAIN_S
        ]
        for name in names:
            self._others[name].asked_at = now
        return names

    def _statement(self, news: list[News], **more: Any) -> bytes:
        """begins: it replaces everything said before. fresh: about messages that just arrived."""
        streams = [
            [n.device, n.stream, n.base, [number for pair in n.ranges for number in pair]]
            for n in news
        ]
        number, self._number = self._number, self._number + 1
        return _encode({"life": self._life, "number": number, **more, "streams": streams})


def _parts(news: list[News]) -> Iterator[list[News]]:
    """Split the news into one part per statement, at least one; a stream may be in several."""
    part: list[News] = []
    room = STATEMENT_BYTES
    for one in news:
        ranges = one.ranges
        while True:
            count = max((room - _STREAM_BYTES) // _RANGE_BYTES, 0)
            if count >= len(ranges) or room == STATEMENT_BYTES:
                part.append(one._replace(ranges=ranges[:count]))
                room -= _STREAM_BYTES + _RANGE_BYTES * min(count, len(ranges))
                ranges = ranges[count:]
                if not ranges:
                    break
            yield part
            part, room = [], STATEMENT_BYTES
    yield part


def _encode(statement: dict[str, Any]) -> bytes:
    return json.dumps(statement, separators=(",", ":")).encode()


_TYPES = {"life": str, "number": int, "begins": bool, "fresh": bool, "ask": list, "streams": list}


def _parse(data: bytes) -> dict[str, Any]:
    """Raises ValueError, TypeError, LookupError or RecursionError when it is not a statement: a
    confirmation must not rest on garbage."""
    said = json.loads(data)
    if type(said) is not dict:
        raise TypeError("no object")
    if said.get("gone") is True and type(said["life"]) is str:
        return {"life": said["life"], "gone": True}
    for name, kind in _TYPES.items():
        if type(said[name]) is not kind:
            raise TypeError(name)
    return {**said, "gone": False, "streams": [_news(*one) for one in said["streams"]]}


def _news(device: str, stream: str, base: int, numbers: list[int]) -> News:
    if not name_rules.is_device(device) or not labels.is_stream(stream):
        raise ValueError("device or stream")
    for number in (base, *numbers):
        if type(number) is not int or not 0 <= number <= labels.MAX_SEQ + 1:
            raise ValueError("number")
    ranges = [[first, last] for first, last in zip(numbers[::2], numbers[1::2], strict=True)]
    if any(first > last for first, last in ranges):
        raise ValueError("range")
    return News(device, stream, base, ranges)
