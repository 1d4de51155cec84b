"""Parts for tests of one's own that need no world: a flash, a stream, a server, on CPython, in
memory. Importing this makes `outpost`, `station` and `support` importable.

Each keeps the contract of the real part, and no more:

| part | contract |
|---|---|
| NorFlash | the block device of an Outbox; a program only clears bits, an erase sets a block's |
| FakeStream | the stream of a Client: write() and readinto() return a count or None, or raise |
| ScriptedServer | a link whose server answers as MQTT (3.1 to 5.0) says, or as you say |

The fixture `bench` (boards/BENCH/README.md) is for whole programs: virtual time, power cuts.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from outpost_tools.kit import virtual_package
from outpost_tools.machine import source_tree


def _make_importable() -> None:
    root = source_tree.repository()
    for path in (root / "tools" / "cpython_stubs", root / "boards", root / "firmware"):
        if str(path) not in sys.path:
            sys.path.append(str(path))


_make_importable()
_chip, _packets = virtual_package.module("chip"), virtual_package.module("packets")
PowerCut = _chip.PowerCut  # a BaseException: no handler of a program swallows it
NorFlash = _chip.Chip  # NorFlash(blocks); cut_at, cut_way, copy(): see boards/BENCH/virtual/chip.py

encode = _packets.encode  # encode("CONNACK", code=5): see boards/BENCH/virtual/packets.py
Fields = dict[str, Any]  # of a packet, as that module has them


class Message(NamedTuple):
    """A PUBLISH that came."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    dup: bool


class FakeStream:
    """What a link returns. sent: all bytes that were written. room: how many write() takes until
    somebody gives more; None: any number. taker: called with what was written."""

    def __init__(self, taker: Callable[[bytes], None] | None = None) -> None:
        self.sent, self.room = b"", None
        self.is_closed = self._is_broken = self._has_ended = False
        self._taker, self._incoming = taker, b""

    def give(self, data: bytes) -> None:
        """What the next calls of readinto() return."""
        self._incoming += data

    def end(self) -> None:
        """The other side closes, once what was given has been read."""
        self._has_ended = True

    def break_(self) -> None:
        """The next call raises OSError, as after a reset."""
        self._is_broken, self._incoming = True, b""

    def write(self, buf, offset: int, length: int) -> int | None:
        self._check()
        count = length if self.room is None else min(length, self.room)
        if not count:
            return None
        if self.room is not None:
            self.room -= count
        data = bytes(memoryview(buf)[offset : offset + count])
        self.sent += data
        if self._taker:
            self._taker(data)
        return count

    def readinto(self, buf) -> int | None:
        self._check()
        if not self._incoming:
            return 0 if self._has_ended else None
        count = min(len(buf), len(self._incoming))
        buf[:count], self._incoming = self._incoming[:count], self._incoming[count:]
        return count

    def close(self) -> None:
        self.is_closed = True

    def _check(self) -> None:
        if self.is_closed:
            raise ValueError("the stream is closed")
        if self._is_broken:
            raise OSError(errno.ECONNRESET)


Answer = bytes | str | None | Callable[[Fields], bytes | str | None]


class ScriptedServer:
    """Use .link as the link of a Client. came: its messages. packets: (kind, fields) of all that
    came. is_away: link() raises ECONNREFUSED.

    answers: {kind: what is sent for such a packet}, as {"PUBLISH": None}: bytes, None (nothing),
    "close" (the stream ends), or a function of the packet's fields that returns one of these. Kinds
    that are missing are answered as MQTT says. What no client may send raises Malformed.
    """

    def __init__(self, answers: dict[str, Answer] | None = None) -> None:
        self.answers = dict(answers or {})
        self.came: list[Message] = []
        self.packets: list[tuple[str, Fields]] = []
        self.is_away = False
        self.stream: FakeStream | None = None
        self._pending, self._level = b"", 5

    def link(self) -> FakeStream:
        if self.is_away:
            raise OSError(errno.ECONNREFUSED)
        self._pending, self._level = b"", 5  # CONNECT says which
        self.stream = FakeStream(self._take)
        return self.stream

    def send(self, topic: bytes, payload: bytes, retain: bool = False) -> None:
        """A message of QoS 0 to the client."""
        self.stream.give(
            encode("PUBLISH", self._level, topic=topic, payload=payload, retain=retain)
        )

    def _take(self, data: bytes) -> None:
        self._pending += data
        while step := _packets.decode(self._pending, self._level):
            kind, fields, self._pending = step
            self._level = fields.get("level", self._level)
            self._answer(kind, fields)

    def _answer(self, kind: str, fields: Fields) -> None:
        self.packets.append((kind, fields))
        if kind == "PUBLISH":
            self.came.append(Message(*(fields[name] for name in Message._fields)))
        answer = self.answers.get(kind, self._by_the_standard(kind, fields))
        answer = answer(fields) if callable(answer) else answer
        if answer == "close":
            self.stream.end()
        elif answer:
            self.stream.give(answer)

    def _by_the_standard(self, kind: str, fields: Fields) -> bytes | None:
        answer, more = _ANSWERS.get(kind, ""), {}
        if kind == "PUBLISH":
            answer = ("", "PUBACK", "PUBREC")[fields["qos"]]
        elif kind == "SUBSCRIBE":
            more["codes"] = [options & 3 for _, options in fields["filters"]]
        elif kind == "UNSUBSCRIBE":
            more["codes"] = [0] * len(fields["filters"])
        number = {"packet_id": fields["packet_id"]} if fields.get("packet_id") else {}
        return encode(answer, self._level, **number, **more) if answer else None


_ANSWERS = {
    "CONNECT": "CONNACK", "PUBREL": "PUBCOMP", "SUBSCRIBE": "SUBACK", "UNSUBSCRIBE": "UNSUBACK",
    "PINGREQ": "PINGRESP",
}  # fmt: skip
