# cpython-only: files of the desktop tools
"""The bytes of a segment: what damage costs, that it is reported, and what is no frame."""

import itertools
import random
import struct
import zlib

import pytest

from outpost_tools.log import segment_frames as frames

ENCODED = [
    frames.encode_frame(
        1_763_694_000_000 + n, f"outpost/board-{n}/data".encode(), bytes(range(n * 7)), dup=n == 2
    )
    for n in range(5)
]
MAGIC_BYTES = len(frames.MAGIC)
VERSION_1 = frames.MAGIC_1 + b"".join(ENCODED)
WHOLE = frames.sealed_bytes(ENCODED)
IDS = b"\0\1\0\0\0\2\0\3\0\4"
WITH_IDS = frames.sealed_bytes(ENCODED, IDS)
ENDS = [MAGIC_BYTES + sum(map(len, ENCODED[:n])) for n in range(len(ENCODED) + 1)]
FLIPS = [1 << bit for bit in range(8)] + [0xFF]


def read(data: bytes, **more) -> tuple[list[int], frames.Contents]:
    """(numbers of the frames, what was read)."""
    found = frames.Contents(data, **more)
    return [frame.received_ms % 1000 for frame in found.frames()], found


def flipped(data: bytes, index: int, bits: int) -> bytes:
    return data[:index] + bytes([data[index] ^ bits]) + data[index + 1 :]


@pytest.mark.parametrize("data", [WHOLE, WITH_IDS, VERSION_1])
def test_frames_come_back_as_they_were_written(data):
    found = frames.Contents(data)
    read_back = list(found.frames())
    assert [f.payload for f in read_back] == [bytes(range(n * 7)) for n in range(5)]
    assert [f.topic for f in read_back] == [f"outpost/board-{n}/data".encode() for n in range(5)]
    assert [f.received_ms for f in read_back] == [1_763_694_000_000 + n for n in range(5)]
    assert [(f.offset, f.end) for f in read_back] == list(itertools.pairwise(ENDS))
    assert [f.flags for f in read_back] == [0, 0, frames.FLAG_DUP, 0, 0]
    assert found.damage == []


@pytest.mark.parametrize("data", [WHOLE, WITH_IDS, VERSION_1], ids=["2", "2 with ids", "1"])
def test_any_flipped_byte_costs_at_most_its_frame_and_is_reported(data):
    for index, bits in itertools.product(range(len(data)), FLIPS):
        hit = [n for n in range(5) if ENDS[n] <= index < ENDS[n + 1]]
        numbers, found = read(flipped(data, index, bits))
        assert numbers == [n for n in range(5) if n not in hit], (index, bits)
        assert found.damage, (index, bits)
        assert sum(piece.messages for piece in found.damage) == len(hit), (index, bits)
        assert all(piece.begin <= index < piece.end for piece in found.damage), (index, bits)


def test_any_flipped_byte_of_an_open_segment_costs_at_most_its_frame_and_is_reported():
    data = WHOLE[: ENDS[-1]]
    for index, bits in itertools.product(range(len(data)), FLIPS):
        hit = [n for n in range(5) if ENDS[n] <= index < ENDS[n + 1]]
        numbers, found = read(flipped(data, index, bits), is_open=True)
        assert numbers == [n for n in range(5) if n not in hit], (index, bits)
        assert [piece.messages for piece in found.damage] == [len(hit)], (index, bits)


def test_a_run_of_damaged_bytes_costs_only_the_frames_it_touches():
    rng = random.Random(20251121)
    for _ in range(2000):
        begin = rng.randrange(MAGIC_BYTES, ENDS[-1])
        end = min(begin + rng.randrange(1, 120), ENDS[-1])
        noise = rng.choice(
            [bytes(end - begin), b"\xff" * (end - begin), rng.randbytes(end - begin)]
        )
        data = WHOLE[:begin] + noise + WHOLE[end:]
        hit = [n for n in range(5) if ENDS[n] < end and begin < ENDS[n + 1]]
        numbers, found = read(data)
        assert [n for n in range(5) if n not in hit] == [n for n in numbers if n not in hit]
        assert sum(piece.messages for piece in found.damage) == 5 - len(numbers)


def test_the_end_tells_how_many_messages_were_in_a_piece_of_damage():
    data = WHOLE[: ENDS[1]] + bytes(ENDS[4] - ENDS[1]) + WHOLE[ENDS[4] :]
    numbers, found = read(data)
    assert numbers == [0, 4] and [piece.messages for piece in found.damage] == [3]
    assert str(found.damage[0]) == (
        f"damaged segment: {ENDS[4] - ENDS[1]} bytes unreadable, 3 messages"
    )


@pytest.mark.parametrize("length", range(MAGIC_BYTES + 1, len(WHOLE)))
def test_a_sealed_segment_that_has_become_shorter_is_reported(length):
    numbers, found = read(WHOLE[:length])
    assert numbers == [n for n in range(5) if ENDS[n + 1] <= length]
    assert len(found.damage) == 1
    assert ("end is missing" in str(found.damage[0])) == (length in ENDS)


def test_a_frame_in_a_payload_is_none():
    """A board's message that holds a segment, with its header destroyed."""
    inner = frames.encode_frame(1_763_694_000_009, b"outpost/other/data", b"invented")
    outer = frames.encode_frame(1_763_694_000_001, b"outpost/board/data", inner * 20 + WHOLE)
    data = frames.sealed_bytes([ENCODED[0], outer, ENCODED[2]])
    at = MAGIC_BYTES + len(ENCODED[0])
    for count in range(1, 24):
        numbers, found = read(data[:at] + bytes([0xA5] * count) + data[at + count :])
        assert numbers == [0, 2] and [piece.messages for piece in found.damage] == [1]


@pytest.mark.parametrize("index", [4, 8, 30], ids=["check", "time", "topic"])
def test_version_1_skips_a_frame_in_a_payload_where_the_damaged_header_agrees(index):
    inner = frames.encode_frame(1_763_694_000_009, b"outpost/other/data", b"invented")
    outer = frames.encode_frame(1_763_694_000_001, b"outpost/board/data", inner)
    data = frames.MAGIC_1 + ENCODED[0] + outer + ENCODED[2]
    numbers, _ = read(flipped(data, MAGIC_BYTES + len(ENCODED[0]) + index, 1))
    assert numbers == [0, 2]


def test_a_frame_at_another_place_is_none():
    first, second = WHOLE[ENDS[3] : ENDS[4]], WHOLE[ENDS[4] : ENDS[5]]
    numbers, found = read(WHOLE[: ENDS[3]] + second + first + WHOLE[ENDS[5] :])
    assert numbers == [0, 1, 2] and found.damage[0].messages == 2


def test_a_length_field_that_points_far_away_costs_one_frame():
    far = struct.pack("<I", 0xFFFFFFFF)
    numbers, _ = read(WHOLE[: ENDS[1]] + far + WHOLE[ENDS[1] + 4 :])
    assert numbers == [0, 2, 3, 4]


def test_bytes_that_are_no_segment_are_one_piece():
    numbers, found = read(b"PAR1 and more of it")
    assert numbers == [] and [str(piece) for piece in found.damage] == [
        "not a segment: wrong magic"
    ]


def test_what_looks_like_headers_is_none():
    plausible = struct.pack("<IIQBIH", 15 + 40, 0, 0, 0, 40, 0)
    for filler in (bytes(1 << 21), plausible * (1 << 16)):
        data = WHOLE[: ENDS[2]] + filler + b"x" + WHOLE[ENDS[2] :]
        numbers, _ = read(data)
        assert numbers == [0, 1]


def test_an_oversize_payload_is_cut_and_its_true_length_kept():
    size = frames.MAX_PAYLOAD_BYTES
    data = frames.sealed_bytes([frames.encode_frame(1, b"t", b"x" * (size + 5)), ENCODED[1]])
    (frame, _) = frames.scan(data)
    assert (frame.truncated, frame.original_length, len(frame.payload)) == (True, size + 5, size)
    assert len(list(frames.scan(flipped(data, MAGIC_BYTES + 2, 1)))) == 1


def test_retain_is_remembered():
    (frame,) = frames.scan(frames.sealed_bytes([frames.encode_frame(1, b"t", b"x", retain=True)]))
    assert frame.retained


def test_the_end_may_have_packet_identifiers():
    _, found = read(WITH_IDS)
    assert found.packet_ids == IDS and found.is_ended
    assert read(WHOLE)[1].packet_ids == b""
    end = WITH_IDS[ENDS[-1] :]
    assert frames.is_end(end) and frames.is_end(WHOLE[ENDS[-1] :])
    assert not frames.is_end(end[:-1]) and not frames.is_end(end + end)
    assert len(frames.following(WITH_IDS[MAGIC_BYTES:], MAGIC_BYTES)) == len(ENCODED)


def test_the_layout_is_what_the_page_says():
    body = struct.pack("<QBIH", 7, 0, 2, 3) + b"a/b" + b"xy"
    frame = struct.pack("<II", len(body), zlib.crc32(body) ^ 8) + body
    end_body = struct.pack("<QBIH", 0, 0x80, 8, 0) + struct.pack("<Q", 1)
    end = struct.pack("<II", len(end_body), zlib.crc32(end_body) ^ (8 + len(frame))) + end_body
    data = frames.sealed_bytes([frames.encode_frame(7, b"a/b", b"xy")])
    assert data == b"OUTSEGv2" + frame + end
