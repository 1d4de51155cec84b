"""Compares what a session makes of bytes with an independent parser: in the given segments, byte by
byte, and in one piece.
"""

from __future__ import annotations

from typing import Any

from fuzz_facts import BadLength, next_packet, require
from fuzz_program import Program

_BUFFER_BYTES = 32
_MOST = 140  # bytes per segment, so that the first length of two bytes occurs
Packet = tuple[int, int, bytes]  # first byte, length, the part that the buffer keeps


def parsed(data: bytes) -> tuple[list[Packet], bool]:
    """Returns the packets in data; True if they end in a length of more than four bytes."""
    found, at = [], 0
    while True:
        try:
            packet = next_packet(data, at, len(data))
        except BadLength:
            return found, True
        if packet is None or packet[1] + packet[2] > len(data):
            return found, False
        first, body, length = packet
        at = body + length
        found.append((first, length, data[body : min(at, body + _BUFFER_BYTES)]))


def read(classes: dict[str, Any], segments: list[bytes]) -> tuple[list[Packet], bool]:
    """Returns the same, by a session's feed()."""
    outbox = classes["RamOutbox"](1, 1)
    reader, found = classes["Session"](outbox, b"dev", rx_bytes=_BUFFER_BYTES), []
    for segment in segments:
        at = 0
        while at < len(segment):
            before, at = at, reader.feed(segment, at, len(segment))
            require(
                len(reader.buffer) == _BUFFER_BYTES, "the buffer has %d bytes", len(reader.buffer)
            )
            if at < 0:
                return found, True
            require(
                before < at <= len(segment), "feed from %d to %d of %d", before, at, len(segment)
            )
            if reader.is_between:
                found.append(
                    (
                        reader.first,
                        reader.length,
                        bytes(reader.buffer[: min(reader.length, _BUFFER_BYTES)]),
                    )
                )
    return found, False


def run_reader(classes: dict[str, Any], program: Program) -> None:
    segments = [data[:_MOST] for _, _, data in program[:4]]
    whole = b"".join(segments)
    expected = parsed(whole)
    for cut in (segments, [whole], [whole[at : at + 1] for at in range(len(whole))]):
        found = read(classes, cut)
        require(found == expected, "read %r, expected %r", found, expected)
