"""The samples of a series, in the room after its record (`firmware/SERIES_FORMAT.md`): each is
checked, and moved into the message that the board would send.

Shares no code with the firmware, so that each checks the other. A sample counts only if its own
check proves it; one that contains differences, only if the sample before it is there too.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from outpost_tools.messages.series import FIXED_BYTES, MOST_BITS, MOST_COLUMNS

KIND = 3
_MASK = (1 << 30) - 1


class Gathered(NamedTuple):
    """payload: the message. samples: how many, including the first one in the record itself.
    used_bytes: of the room, up to its last byte that is not erased. bad_bytes: of those, from the
    first one that is not a sample to the last, or to where samples continue. lost: valid samples
    among them that contain differences from an invalid one."""

    payload: bytes
    samples: int
    room_bytes: int
    used_bytes: int
    bad_bytes: int
    lost: int


def room_bytes(payload: bytes) -> int:
    """The size of the room according to a header; 0 if the header is invalid."""
    return int.from_bytes(payload[18:20], "little") if len(payload) >= FIXED_BYTES else 0


def gather(payload: bytes, crc: int, room: bytes) -> Gathered:
    """payload, crc: of a valid record. room: the bytes after it."""
    used = len(room.rstrip(b"\xff"))
    codes = _codes(payload)
    start = 8 * payload[2] if codes else 0
    text = _bits(payload)
    first = codes.length(text, start, len(text)) if codes else None
    if codes is None or first is None:  # a valid CRC, but no series: nothing is guessed
        return Gathered(payload, 0, len(room), used, used, 0)
    return _Room(codes, crc, room, used).gathered(text[: start + first[0]])


def _bits(data: bytes) -> str:
    return f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}" if data else ""


class _Codes(NamedTuple):
    """Lengths of samples. k: of the time's code; ks: of each column's."""

    k: int
    ks: list[int]

    def length(self, text: str, at: int, end: int) -> tuple[int, bool] | None:
        """(bits, whether it is a restart) of the sample at bit `at`; None: there is none."""
        start, count = at, len(self.ks)
        mark = f"{(1 << self.k) + 1:b}" if self.k else "010"
        chosen: list[int | None] = [self.k, *self.ks]
        if text.startswith(mark, at):
            at += len(mark)
            shape = text[at : at + count + 1]
            at += count + 1
            is_restart = shape[:1] == "1"
            if "1" not in shape[1:] or (not is_restart and text.startswith(mark, at)):
                return None
            there = [k for k, bit in zip(self.ks, shape[1:], strict=False) if bit == "1"]
            chosen = [None] * (1 + len(there)) if is_restart else [self.k, *there]
        else:
            is_restart = False
        for k in chosen:
            at = _after_whole(text, at) if k is None else _after_code(text, at, k)
            if not 0 < at <= end:
                return None
        return at - start, is_restart


def _after_code(text: str, at: int, k: int) -> int:
    """Where an Exp-Golomb code of order k ends; 0: it has too many bits."""
    one = text.find("1", at, at + MOST_BITS)
    return 0 if one < 0 or one - at + 1 + k > MOST_BITS else 2 * one - at + 1 + k


def _after_whole(text: str, at: int) -> int:
    """Where a number that is preceded by its length ends."""
    length = int(text[at : at + 5].ljust(5, "1"), 2)
    return 0 if length > MOST_BITS else at + 5 + length


def _codes(payload: bytes) -> _Codes | None:
    """None if the header is invalid."""
    if len(payload) < FIXED_BYTES or payload[0] != 0xF5 or not 0 < payload[29] <= MOST_COLUMNS:
        return None
    at, ks = FIXED_BYTES + payload[30], []
    for _ in range(payload[29]):
        if at + 3 > len(payload):
            return None
        ks.append(payload[at + 1] & 15)
        at += 3 + payload[at + 2] + (payload[at + 1] >> 4)
    return _Codes(payload[28], ks) if at <= payload[2] <= len(payload) else None


class _Room:
    def __init__(self, codes: _Codes, crc: int, room: bytes, used: int) -> None:
        self._codes, self._crc, self._room, self._used = codes, crc, room, used
        self._text = _bits(room)

    def gathered(self, text: str) -> Gathered:
        """text: the bits of the header and of the first sample; the others are appended."""
        parts, at, bad, lost = [text], 0, 0, 0
        while at < self._used:
            found = self._sample(at)
            if found is None:
                resumed = self._resumed(at)
                bad, lost = bad + resumed - at, lost + self._lost(at, resumed)
                at = resumed
                continue
            bits, end, _ = found
            parts.append(self._text[8 * at : 8 * at + bits])
            at = end
        text = "".join(parts)
        text += "0" * (-len(text) % 8)
        payload = int(text, 2).to_bytes(len(text) // 8, "big")
        return Gathered(payload, len(parts), len(self._room), self._used, bad, lost)

    def _sample(self, at: int) -> tuple[int, int, bool] | None:
        """(bits, where its check ends, whether it is a restart) of the sample at byte `at`."""
        found = self._codes.length(self._text, 8 * at, len(self._text))
        if found is None:
            return None
        bits, is_restart = found
        end = at + (bits + 7) // 8
        after = end + (4 if is_restart else 2)
        sample = self._room[at:end]
        crc = zlib.crc32(sample, self._crc ^ at) & _MASK
        zeros = sum(8 - byte.bit_count() for byte in sample) & 0xFF
        check = crc.to_bytes(4, "little") if is_restart else bytes((zeros, crc & 0x7F))
        return (bits, after, is_restart) if self._room[end:after] == check else None

    def _resumed(self, bad_at: int) -> int:
        """Where a restart follows invalid bytes; if none does, the end of the used bytes."""
        for at in range(bad_at, self._used):
            found = self._sample(at)
            if found is not None and found[2]:
                return at
        return self._used

    def _lost(self, bad_at: int, end: int) -> int:
        """How many consecutive valid samples end at `end`, after the one at bad_at."""
        for start in range(bad_at + 1, end):
            at, count = start, 0
            while at < end and (found := self._sample(at)) is not None:
                at, count = found[1], count + 1
            if at == end:
                return count
        return 0
