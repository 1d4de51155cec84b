# cpython-only: files of the desktop tools
"""The durable log: what a torn tail, a flipped bit and a restart leave of it."""

import itertools

import pytest

from outpost_tools.common import segments

FRAMES = [
    segments.encode_frame(
        1_763_694_000_000 + n, f"outpost/board-{n}/data".encode(), bytes(range(n * 7)), dup=n == 2
    )
    for n in range(5)
]
WHOLE = segments.MAGIC + b"".join(FRAMES)
ENDS = [len(segments.MAGIC) + sum(map(len, FRAMES[:n])) for n in range(len(FRAMES) + 1)]


def test_frames_come_back_as_they_were_written():
    frames = list(segments.scan(WHOLE))
    assert [f.payload for f in frames] == [bytes(range(n * 7)) for n in range(5)]
    assert [f.topic for f in frames] == [f"outpost/board-{n}/data".encode() for n in range(5)]
    assert [f.received_ms for f in frames] == [1_763_694_000_000 + n for n in range(5)]
    assert [(f.offset, f.end) for f in frames] == list(itertools.pairwise(ENDS))
    assert [f.flags for f in frames] == [0, 0, segments.FLAG_DUP, 0, 0]


@pytest.mark.parametrize("length", range(len(WHOLE) + 1))
def test_recovery_of_a_log_torn_at_any_byte_keeps_exactly_the_whole_frames(tmp_path, length):
    (tmp_path / "segment-000000000000.open").write_bytes(WHOLE[:length])
    segments.SegmentWriter(tmp_path)
    whole = max((end for end in ENDS if end <= length), default=0)
    sealed = segments.sealed_segments(tmp_path)
    assert not segments.open_segments(tmp_path)
    assert [path.read_bytes() for path in sealed] == ([WHOLE[:whole]] if whole > ENDS[0] else [])


@pytest.mark.parametrize("index", range(len(segments.MAGIC), len(WHOLE)))
def test_a_flipped_bit_ends_the_scan_before_its_frame(index):
    data = bytearray(WHOLE)
    data[index] ^= 1 << (index % 8)
    intact = sum(1 for end in ENDS[1:] if end <= index)
    assert len(list(segments.scan(bytes(data)))) == intact


def test_a_length_field_that_points_far_away_ends_the_scan():
    assert not list(segments.scan(segments.MAGIC + b"\xff\xff\xff\xff" + FRAMES[0][4:]))


def test_a_file_with_another_magic_is_named(tmp_path):
    path = tmp_path / "segment-000000000000.seg"
    path.write_bytes(b"PAR1....")
    with pytest.raises(ValueError, match="wrong magic"):
        segments.read_segment(path)


def test_an_oversize_payload_is_cut_and_its_true_length_kept():
    size = segments.MAX_PAYLOAD_BYTES
    (frame,) = segments.scan(segments.MAGIC + segments.encode_frame(1, b"t", b"x" * (size + 5)))
    assert (frame.truncated, frame.original_length, len(frame.payload)) == (True, size + 5, size)


def test_retain_is_remembered():
    (frame,) = segments.scan(segments.MAGIC + segments.encode_frame(1, b"t", b"x", retain=True))
    assert frame.retained


def test_numbers_go_on_after_a_restart(tmp_path):
    for number in range(3):
        writer = segments.SegmentWriter(tmp_path)
        writer.append(FRAMES[0])
        writer.commit()
        assert segments.segment_number(writer.seal()) == number


def test_a_segment_is_sealed_when_it_has_reached_its_size(tmp_path):
    writer = segments.SegmentWriter(tmp_path, max_bytes=100)
    for frame in FRAMES:
        writer.append(frame)
        writer.commit()
    writer.seal()
    found = [
        f.payload
        for path in segments.sealed_segments(tmp_path)
        for f in segments.read_segment(path)
    ]
    assert len(segments.sealed_segments(tmp_path)) > 1
    assert found == [bytes(range(n * 7)) for n in range(5)]


def test_sealing_nothing_makes_no_segment(tmp_path):
    assert segments.SegmentWriter(tmp_path).seal() is None
    assert not list(tmp_path.iterdir())
