"""The bytes of a segment: frames, how they are checked, and how reading resumes after damage. Knows
no files and no message format. Layout, with all integers in little endian:

    file    magic "OUTSEGv2", frames, end
    frame   body_length:u32  check:u32  body
    body    received_ms:u64  flags:u8  original_length:u32  topic_length:u16  topic  payload
    end     a frame with flag bit 7, no topic, and as payload frames:u64, the number before it, and
            perhaps a packet identifier, of 2 bytes, for each of them (servers/collect/store_log.py)

check is crc32(body) xor the frame's offset in the file, so a copy of a frame anywhere else, for
example in a payload, is not valid. Only a sealed segment has an end. Together with the offsets, the
end verifies the whole segment: a sealed segment without an end, or with fewer frames than the end
says, is damaged. An open one may simply end in a torn write.

flags: bit 0 the PUBLISH had RETAIN set, bit 1 DUP, bit 2 the payload was cut to `MAX_PAYLOAD_BYTES`
(original_length is its true length), bit 3 the collector did not know that its clock was set, so
received_ms is no evidence (arrival.py). received_ms counts from 1970.

After damage, the next frame is at the next offset where the two lengths in a header agree and the
check is right. Random bytes are mistaken for a frame with a probability below 2^-67 per byte.

Version 1 (magic "OUTSEG01", check is crc32(body), no end) can still be read. In version 1, a
payload may contain a whole frame. So damage is skipped by the damaged frame's own length if its
header still agrees.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

MAGIC = b"OUTSEGv2"
MAGIC_1 = b"OUTSEG01"
MAX_PAYLOAD_BYTES = 64 * 1024
FLAG_RETAIN = 1
FLAG_DUP = 2
FLAG_TRUNCATED = 4
FLAG_CLOCK_UNSET = 8
FLAG_END = 0x80

_FRAME = struct.Struct("<II")
_BODY = struct.Struct("<QBIH")
_COUNT = struct.Struct("<Q")
HEADER = (  # the two structs above combined, for numpy.dtype()
    ("body_length", "<u4"),
    ("check", "<u4"),
    ("received_ms", "<u8"),
    ("flags", "u1"),
    ("original_length", "<u4"),
    ("topic_length", "<u2"),
)
_HEADER_BYTES = _FRAME.size + _BODY.size
_MAX_BODY_BYTES = _BODY.size + 65535 + MAX_PAYLOAD_BYTES
_END_BYTES = _HEADER_BYTES + _COUNT.size
_OFFSET_BITS = 0xFFFFFFFF
# Matches what can be a header (a length of 15 to 0x2ffff, known flags), even if headers overlap. It
# scans ten million offsets per second; matches are then checked in Python.
_MAY_BEGIN = re.compile(
    rb"(?=(?:[\x0f-\xff].[\x00-\x02]|.[\x01-\xff][\x00-\x02]|..[\x01\x02])\x00"
    rb".{12}[\x00-\x0f\x80])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One received PUBLISH.

    `offset` is where its frame begins in the file, `end` where the next one begins.
    """

    received_ms: int
    flags: int
    original_length: int
    topic: bytes
    payload: bytes
    offset: int = 0
    end: int = 0

    @property
    def retained(self) -> bool:
        return bool(self.flags & FLAG_RETAIN)

    @property
    def truncated(self) -> bool:
        return bool(self.flags & FLAG_TRUNCATED)

    @property
    def is_clock_unset(self) -> bool:
        return bool(self.flags & FLAG_CLOCK_UNSET)

    @property
    def arrival_ms(self) -> int | None:
        """None: received_ms comes from a clock that was not known to be set."""
        return None if self.is_clock_unset else self.received_ms


@dataclass(frozen=True, slots=True)
class Damage:
    """Unreadable bytes begin..end of a segment, which contained at least `messages` messages."""

    begin: int
    end: int
    messages: int
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        noun = "message" if self.messages == 1 else "messages"
        return f"damaged segment: {self.end - self.begin} bytes unreadable, {self.messages} {noun}"


def encode_frame(
    received_ms: int,
    topic: bytes,
    payload: bytes,
    *,
    retain: bool = False,
    dup: bool = False,
    clock_unset: bool = False,
) -> bytes:
    """One frame for offset 0; see placed() for others. A payload longer than MAX_PAYLOAD_BYTES is
    cut and flagged."""
    flags = (FLAG_RETAIN if retain else 0) | (FLAG_DUP if dup else 0)
    if clock_unset:
        flags |= FLAG_CLOCK_UNSET
    length = len(payload)
    if length > MAX_PAYLOAD_BYTES:
        flags |= FLAG_TRUNCATED
        payload = payload[:MAX_PAYLOAD_BYTES]
    return _framed(_BODY.pack(received_ms, flags, length, len(topic)) + topic + payload)


def _framed(body: bytes) -> bytes:
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def placed(frame: bytes, offset: int) -> bytes:
    """An encoded frame for `offset` in a file."""
    length, check = _FRAME.unpack_from(frame)
    return _FRAME.pack(length, check ^ offset & _OFFSET_BITS) + frame[_FRAME.size :]


def all_placed(frames: list[bytes], offset: int) -> bytes:
    """Consecutive encoded frames, placed from `offset` in a file on."""
    parts, unpack, pack, header_bytes = [], _FRAME.unpack_from, _FRAME.pack, _FRAME.size
    for frame in frames:
        length, check = unpack(frame)
        parts += (pack(length, check ^ offset & _OFFSET_BITS), frame[header_bytes:])
        offset += len(frame)
    return b"".join(parts)


def end_frame(frames: int, offset: int, packet_ids: bytes = b"") -> bytes:
    """The end of a segment of `frames` frames, at `offset`."""
    payload = _COUNT.pack(frames) + packet_ids
    return placed(_framed(_BODY.pack(0, FLAG_END, len(payload), 0) + payload), offset)


def sealed_bytes(encoded: Iterable[bytes], packet_ids: bytes = b"") -> bytes:
    """A whole segment of encoded frames. packet_ids: one for each of them, or none."""
    frames = list(encoded)
    data = MAGIC + all_placed(frames, len(MAGIC))
    return data + end_frame(len(frames), len(data), packet_ids)


def decoded(data: bytes, begin: int, end: int) -> Frame:
    """The valid frame data[begin:end]."""
    received_ms, flags, original_length, topic_length = _BODY.unpack_from(data, begin + _FRAME.size)
    topic_at = begin + _HEADER_BYTES
    payload_at = min(topic_at + topic_length, end)
    return Frame(
        received_ms,
        flags,
        original_length,
        data[topic_at:payload_at],
        data[payload_at:end],
        begin,
        end,
    )


def following(data: bytes, offset: int) -> list[Frame]:
    """The frames at the start of `data`, which is a segment's bytes from `offset` on. Stops at the
    first invalid frame, and at the end frame. For readers that follow a growing segment; only
    version 2."""
    found, at = [], 0
    while at + _FRAME.size <= len(data):
        length, check = _FRAME.unpack_from(data, at)
        end = at + _FRAME.size + length
        if not _BODY.size <= length <= _MAX_BODY_BYTES or end > len(data):
            break
        is_whole = zlib.crc32(data[at + _FRAME.size : end]) ^ (offset + at) & _OFFSET_BITS == check
        if not is_whole or data[at + 16] & FLAG_END:
            break
        found.append(replace(decoded(data, at, end), offset=offset + at, end=offset + end))
        at = end
    return found


def is_end(data: bytes) -> bool:
    """Whether `data` is just the end frame. Its check is not verified."""
    if len(data) < _END_BYTES or not data[16] & FLAG_END:
        return False
    return _FRAME.size + _FRAME.unpack_from(data)[0] == len(data)


class Contents:
    """The frames in a segment's bytes. `damage` is what was skipped so far. It is complete, with
    the numbers of messages, when the frames have been read to their end.

    is_open: the segment was not sealed, so it need not have an end.
    """

    def __init__(self, data: bytes, *, is_open: bool = False) -> None:
        self.data = data
        self.damage: list[Damage] = []
        self.frame_count = 0
        self.readable_bytes = 0  # where the last frame ends, the end frame included
        self.is_ended = False
        self.packet_ids = b""  # what its end says
        self._is_open = is_open
        self._promised = 0
        self.has_magic = data[: len(MAGIC)] in (MAGIC, MAGIC_1)
        self._bits = self._offset_bits()

    @property
    def is_version_1(self) -> bool:
        return not self._bits

    def _offset_bits(self) -> int:
        """The bits of a frame's offset that its check contains: all in version 2, none in version
        1. If the magic is damaged, the next valid frame shows the version."""
        if self.has_magic:
            return _OFFSET_BITS if self.data.startswith(MAGIC) else 0
        nearest = {}
        for bits in (_OFFSET_BITS, 0):
            self._bits = bits
            nearest[bits] = self._next_frame(len(MAGIC) - 1)
        return min(nearest, key=nearest.__getitem__)

    def frames(self, begin: int = len(MAGIC)) -> Iterator[Frame]:
        for offset, ends in self.runs(begin):
            for end in ends:
                yield decoded(self.data, offset, end)
                offset = end

    def runs(
        self, begin: int = len(MAGIC), *, most: int = sys.maxsize, most_bytes: int = sys.maxsize
    ) -> Iterator[tuple[int, list[int]]]:
        """Runs of consecutive frames: (where the first begins, where each ends).

        A run has at most `most` frames, and none that begins after `most_bytes` of it.
        """
        size, at = len(self.data), begin
        if not self.has_magic and begin == len(MAGIC):
            self._skip(0, min(at, size), messages=0)
        while at < size:
            ends = self._ends(at, most, at + most_bytes)
            if not ends:
                following = self._next_frame(at)
                self._skip(at, following, messages=int(not self._may_be_end(at, following)))
                at = following
                continue
            first, at = at, ends[-1]
            self.readable_bytes = at
            self._take_end(first, ends)
            self.frame_count += len(ends)
            if ends:
                yield first, ends
        self._sum_up(begin)

    def _ends(self, offset: int, most: int, full_at: int) -> list[int]:
        """Where each frame from `offset` on ends; stops at the first invalid frame."""
        data, bits, size = self.data, self._bits, len(self.data)
        view, unpack, crc32 = memoryview(data), _FRAME.unpack_from, zlib.crc32
        ends = []
        while offset + _FRAME.size <= size and offset < full_at and len(ends) < most:
            length, check = unpack(data, offset)
            begin = offset + _FRAME.size
            end = begin + length
            if (
                not _BODY.size <= length <= _MAX_BODY_BYTES
                or end > size
                or crc32(view[begin:end]) ^ offset & bits != check
            ):
                break
            ends.append(end)
            offset = end
        return ends

    def _take_end(self, first: int, ends: list[int]) -> None:
        """Removes the end frame from `ends`, if it is there, and notes what it says."""
        at = ends[-2] if len(ends) > 1 else first
        if ends[-1] - at >= _END_BYTES and self.data[at + 16] & FLAG_END and self._bits:
            (self._promised,) = _COUNT.unpack_from(self.data, at + _HEADER_BYTES)
            self.packet_ids = self.data[at + _END_BYTES : ends[-1]]
            self.is_ended = True
            ends.pop()

    def _may_be_end(self, begin: int, end: int) -> bool:
        """Whether the damage has the length of the end."""
        with_ids = _END_BYTES + 2 * self.frame_count
        return end - begin == _END_BYTES or (end == len(self.data) and end - begin == with_ids)

    def _next_frame(self, damaged_at: int) -> int:
        """Where the next frame begins; the end of the file if there is none."""
        if not self._bits and (end := self._end_by_lengths(damaged_at)) is not None:
            return end
        for match in _MAY_BEGIN.finditer(self.data, damaged_at + 1):
            offset = match.start()
            if self._claimed_end(offset) is not None and self._ends(offset, 1, sys.maxsize):
                return offset
        return len(self.data)

    def _end_by_lengths(self, offset: int) -> int | None:
        """For version 1: skips damaged frames by the lengths in their headers. Returns where the
        next valid frame, or the file's end, is; None if the lengths of a header disagree."""
        end = self._claimed_end(offset)
        while end is not None and end < len(self.data) and not self._ends(end, 1, sys.maxsize):
            end = self._claimed_end(end)
        return end

    def _claimed_end(self, offset: int) -> int | None:
        """Where the frame ends according to its header; None if the header's two lengths disagree,
        or the frame would end beyond the file."""
        if offset + _HEADER_BYTES > len(self.data):
            return None
        (length,) = struct.unpack_from("<I", self.data, offset)
        _, _, original, topic = _BODY.unpack_from(self.data, offset + _FRAME.size)
        end = offset + _FRAME.size + length
        agree = length == _BODY.size + topic + min(original, MAX_PAYLOAD_BYTES)
        return end if agree and end <= len(self.data) else None

    def _skip(self, begin: int, end: int, *, messages: int) -> None:
        self.damage.append(Damage(begin, end, messages))

    def _sum_up(self, begin: int) -> None:
        """Adds to `damage` what is missing beyond the skipped bytes."""
        if begin == len(MAGIC) and not (self.has_magic or self.frame_count or self.is_ended):
            reason = "not a segment: wrong magic"
            self.damage[:] = [Damage(0, len(self.data), 0, reason)]
        elif self.is_ended and begin == len(MAGIC):
            missing = self._promised - self.frame_count - sum(d.messages for d in self.damage)
            self._add_missing(missing)
        elif self._bits and not (self.is_ended or self._is_open or self._ends_in_damage()):
            size = len(self.data)
            reason = "damaged segment: its end is missing, with an unknown number of messages"
            self.damage.append(Damage(size, size, 0, reason))

    def _ends_in_damage(self) -> bool:
        return bool(self.damage) and self.damage[-1].end == len(self.data)

    def _add_missing(self, messages: int) -> None:
        """Adds messages to the longest damaged piece, which most probably held more than one."""
        if messages > 0 and self.damage:
            index = max(
                range(len(self.damage)), key=lambda i: self.damage[i].end - self.damage[i].begin
            )
            longest = self.damage[index]
            self.damage[index] = replace(longest, messages=longest.messages + messages)


def scan(data: bytes, offset: int = len(MAGIC)) -> Iterator[Frame]:
    """The valid frames of a segment's bytes from `offset`, for callers that do not need the
    damage."""
    return Contents(data).frames(offset)
