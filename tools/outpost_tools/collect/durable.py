"""What is durable of each stream, and the confirmation that follows from it. Pure: no files, no network, no clock.

A stream's state is one number and the ranges above it: `next` is the first sequence number that is neither durable nor
below the highest `held` that a durable message carried (a board that says held=100 will not send 0..99 any more).
The board may free everything below `next`. State grows with the gaps, not with the messages.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from outpost_tools.message import MAX_SEQ

_DEVICE = re.compile(rb"[A-Za-z0-9_.-]{1,32}\Z")
_STREAM = re.compile(r"[0-9a-f]{8}\Z")


class Key(NamedTuple):
    """Where a message stands: who, which stream, which number, and the oldest number its board still held."""

    device: str
    stream: str
    seq: int
    held: int


def key_of(topic: bytes, payload: bytes) -> Key | None:
    """The key in a payload on `<prefix>/<device>/data`; None when there is none to confirm.

    Looser than message.decode() on purpose: a message with a good key and a bad reading goes to quarantine with its
    bytes, and its board must be told that it is durable, or it sends that message for ever.
    """
    parts = topic.split(b"/")
    if len(parts) < 2 or not _DEVICE.match(parts[-2]):
        return None
    try:
        first = json.loads(payload)[0]
        stream, seq, held = first["sid"], first["seq"], first["held"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if not isinstance(stream, str) or not _STREAM.match(stream):
        return None
    if type(seq) is not int or type(held) is not int or not 0 <= held <= seq <= MAX_SEQ:
        return None
    return Key(parts[-2].decode("ascii"), stream, seq, held)


@dataclass(slots=True)
class Stream:
    """The durable numbers of one stream. `ranges` are [first, last], ascending, apart, all above `next`."""

    next: int = 0
    ranges: list[list[int]] = field(default_factory=list)

    def add(self, seq: int, held: int) -> None:
        """Take in one durable message."""
        self.next = max(self.next, held)
        if seq == self.next:
            self.next = seq + 1
        elif seq > self.next:
            self._insert(seq)
        while self.ranges and self.ranges[0][0] <= self.next:
            self.next = max(self.next, self.ranges.pop(0)[1] + 1)

    def _insert(self, seq: int) -> None:
        at = bisect_right(self.ranges, seq, key=lambda r: r[0])
        before = self.ranges[at - 1] if at else None
        after = self.ranges[at] if at < len(self.ranges) else None
        if before is not None and seq <= before[1] + 1:
            before[1] = max(before[1], seq)
        else:
            before = [seq, seq]
            self.ranges.insert(at, before)
        if after is not None and after[0] == seq + 1:
            before[1] = after[1]
            self.ranges.remove(after)


class Durable:
    """All streams of all devices. The stream that a device sent on last is the one that gets confirmed."""

    def __init__(self) -> None:
        self._streams: dict[str, dict[str, Stream]] = {}
        self._latest: dict[str, str] = {}

    def add(self, key: Key) -> None:
        """Take in the key of a message that is on disk."""
        streams = self._streams.setdefault(key.device, {})
        if key.stream not in streams:
            streams[key.stream] = Stream()
        streams[key.stream].add(key.seq, key.held)
        self._latest[key.device] = key.stream

    def devices(self) -> list[str]:
        """Every device that can be confirmed."""
        return list(self._latest)

    def confirmation(self, device: str) -> bytes | None:
        """`<stream> <n>`: every seq <= n is durable or will never come. None before there is such a number."""
        stream = self._latest.get(device)
        if stream is None or self._streams[device][stream].next == 0:
            return None
        return b"%s %d" % (stream.encode(), self._streams[device][stream].next - 1)

    def to_json(self) -> dict[str, Any]:
        streams = {d: {s: [state.next, state.ranges] for s, state in of.items()} for d, of in self._streams.items()}
        return {"streams": streams, "latest": self._latest}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Durable:
        """The reverse of to_json(). Raises LookupError, TypeError or ValueError when `data` is something else."""
        durable = cls()
        for device, streams in data["streams"].items():
            durable._streams[device] = {
                stream: Stream(int(following), [[int(a), int(b)] for a, b in ranges])
                for stream, (following, ranges) in streams.items()
            }
        for device, stream in data["latest"].items():
            if stream not in durable._streams[device]:
                raise ValueError(f"stream {stream} of {device} is unknown")
            durable._latest[device] = stream
        return durable
