"""Parts for tests of one's own that need no world: a flash, a stream, a server, on CPython, in
memory. Importing this makes `outpost`, `station` and `support` importable.

Each keeps the contract of the real part, and no more:

| part | contract |
|---|---|
| NorFlash | the block device of an Outbox; a program only clears bits, an erase sets a block's |
| FakeStream | the stream of a Client: write() and readinto() return a count or None, or raise |
| ScriptedServer | a link whose server answers each packet as MQTT 3.1.1 says, or as you say |

The fixture `bench` (boards/BENCH/README.md) is for whole programs: virtual time, power cuts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from outpost_tools.common import source_tree
from outpost_tools.kit import virtual_package


def _make_importable() -> None:
    root = source_tree.repository()
    for path in (root / "tools" / "cpython_stubs", root / "boards", root / "firmware"):
        if str(path) not in sys.path:
            sys.path.append(str(path))


_make_importable()
_chip = virtual_package.module("chip")
PowerCut = _chip.PowerCut  # a BaseException: no handler of a program swallows it
NorFlash = _chip.Chip  # NorFlash(blocks); cut_at, cut_way, copy(): see boards/BENCH/virtual/chip.py

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = range(8, 15)


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
        self.is_closed = False
        self._taker, self._incoming, self._end = taker, b"", b""

    def give(self, data: bytes) -> None:
        """What the next calls of readinto() return."""
        self._incoming += data

    def end(self) -> None:
        """The other side closes, once what was given has been read."""
        self._end = "end"

    def break_(self) -> None:
        """The next call raises OSError, as after a reset."""
        self._end, self._incoming = "broken", b""

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
            return 0 if self._end else None
        count = min(len(buf), len(self._incoming))
        buf[:count], self._incoming = self._incoming[:count], self._incoming[count:]
        return count

    def close(self) -> None:
        self.is_closed = True

    def _check(self) -> None:
        if self.is_closed:
            raise ValueError("the stream is closed")
        if self._end == "broken":
            raise OSError(104)


Answer = bytes | None | Callable[[bytes], bytes | None]


class ScriptedServer:
    """Use .link as the link of a Client. came: its messages. packets: (type, bytes) of all that
    came. is_away: link() raises ECONNREFUSED.

    answers: {type: what is sent for such a packet}: bytes, None (nothing), or a function of the
    packet; types that are missing are answered as MQTT 3.1.1 says. "close": the stream ends.
    """

    def __init__(self, answers: dict[int, Answer | str] | None = None) -> None:
        self.answers = dict(answers or {})
        self.came: list[Message] = []
        self.packets: list[tuple[int, bytes]] = []
        self.is_away = False
        self.stream: FakeStream | None = None
        self._pending = b""

    def link(self) -> FakeStream:
        if self.is_away:
            raise OSError(111)
        self._pending = b""
        self.stream = FakeStream(self._take)
        return self.stream

    def send(self, topic: bytes, payload: bytes, retain: bool = False) -> None:
        """A message of QoS 0 to the client."""
        body = len(topic).to_bytes(2, "big") + topic + payload
        self.stream.give(bytes([PUBLISH << 4 | retain]) + _length(len(body)) + body)

    def _take(self, data: bytes) -> None:
        self._pending += data
        while (end := _end_of_packet(self._pending)) is not None:
            packet, self._pending = self._pending[:end], self._pending[end:]
            self._answer(packet)

    def _answer(self, packet: bytes) -> None:
        kind = packet[0] >> 4
        self.packets.append((kind, packet))
        if kind == PUBLISH:
            self.came.append(_message(packet)[0])
        answer = self.answers.get(kind, _by_the_standard)
        answer = answer(packet) if callable(answer) else answer
        if answer == "close":
            self.stream.end()
        elif answer:
            self.stream.give(answer)


def _by_the_standard(packet: bytes) -> bytes | None:
    kind, body = packet[0] >> 4, _body(packet)
    if kind == CONNECT:
        return bytes([CONNACK << 4, 2, 0, 0])
    if kind == PUBLISH:
        message, number = _message(packet)
        return bytes([(PUBACK, PUBREC)[message.qos - 1] << 4, 2]) + number if number else None
    if kind == PUBREL:
        return bytes([PUBCOMP << 4, 2]) + body[:2]
    if kind == SUBSCRIBE:
        granted = _granted(body[2:])
        return bytes([SUBACK << 4, 2 + len(granted)]) + body[:2] + granted
    if kind == UNSUBSCRIBE:
        return bytes([UNSUBACK << 4, 2]) + body[:2]
    return bytes([PINGRESP << 4, 0]) if kind == PINGREQ else None


def _granted(filters: bytes) -> bytes:
    """The QoS asked for, of each filter."""
    found = b""
    while filters:
        end = 2 + int.from_bytes(filters[:2], "big")
        found += filters[end : end + 1]
        filters = filters[end + 1 :]
    return found


def _message(packet: bytes) -> tuple[Message, bytes]:
    """The message, and the two bytes of its number; b"": QoS 0."""
    body, qos = _body(packet), packet[0] >> 1 & 3
    at = 2 + int.from_bytes(body[:2], "big")
    number = body[at : at + 2] if qos else b""
    payload = body[at + len(number) :]
    return Message(body[2:at], payload, qos, bool(packet[0] & 1), bool(packet[0] & 8)), number


def _body(packet: bytes) -> bytes:
    return packet[1 + _length_bytes(packet) :]


def _length_bytes(data: bytes) -> int:
    """How long the remaining length is; 0: not all of it is there."""
    for count, byte in enumerate(data[1:5], 1):
        if byte < 0x80:
            return count
    return 0


def _end_of_packet(data: bytes) -> int | None:
    count = _length_bytes(data)
    if not count:
        return None
    length = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[1 : 1 + count]))
    end = 1 + count + length
    return end if len(data) >= end else None


def _length(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
