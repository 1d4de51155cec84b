# cpython-only: files of the desktop tools
"""The durable log: what a torn tail, a flipped byte and a restart leave of it."""

import errno
import os

import pytest

from outpost_tools.log import segments

FRAMES = [
    segments.encode_frame(
        1_763_694_000_000 + n, f"outpost/board-{n}/data".encode(), bytes(range(n * 7)), dup=n == 2
    )
    for n in range(5)
]
ENDS = [len(segments.MAGIC) + sum(map(len, FRAMES[:n])) for n in range(len(FRAMES) + 1)]
WHOLE = segments.sealed_bytes(FRAMES)[: ENDS[-1]]  # as it stands while it is open


@pytest.mark.parametrize("length", range(len(WHOLE) + 1))
def test_recovery_of_a_log_torn_at_any_byte_keeps_exactly_the_whole_frames(tmp_path, length):
    (tmp_path / "segment-000000000000.open").write_bytes(WHOLE[:length])
    writer = segments.SegmentWriter(tmp_path)
    count = sum(1 for end in ENDS[1:] if end <= length)
    sealed = segments.sealed_segments(tmp_path)
    assert not segments.open_segments(tmp_path)
    assert [path.read_bytes() for path in sealed] == (
        [segments.sealed_bytes(FRAMES[:count])] if count else []
    )
    cut = b"".join(path.read_bytes() for path in tmp_path.glob("*.cut"))
    torn = length - ENDS[count] if count else length * (length > ENDS[0])
    assert cut == WHOLE[length - torn : length]
    assert [told.cut_bytes for told in writer.recovered] == ([torn] if torn else [])


def test_an_open_segment_of_version_1_is_sealed_as_it_is(tmp_path):
    old = segments.MAGIC_1 + b"".join(FRAMES)
    (tmp_path / "segment-000000000000.open").write_bytes(old + b"torn")
    segments.SegmentWriter(tmp_path)
    (path,) = segments.sealed_segments(tmp_path)
    assert path.read_bytes() == old and len(list(segments.read_segment(path))) == len(FRAMES)
    assert segments.contents(path).damage == []


@pytest.mark.parametrize("data", [WHOLE, segments.MAGIC_1 + b"".join(FRAMES)])
def test_a_flipped_byte_of_an_open_segment_costs_its_frame_and_is_told(tmp_path, data):
    for index in range(len(data)):
        directory = tmp_path / str(index)
        directory.mkdir()
        flipped = data[:index] + bytes([data[index] ^ 1 << index % 8]) + data[index + 1 :]
        (directory / "segment-000000000000.open").write_bytes(flipped)
        (told,) = segments.SegmentWriter(directory).recovered
        (path,) = segments.sealed_segments(directory)
        found = segments.contents(path)
        kept = [f.payload for f in found.frames()]
        hit = [n for n in range(5) if ENDS[n] <= index < ENDS[n + 1]]
        assert kept == [bytes(range(n * 7)) for n in range(5) if n not in hit]
        # After the last valid frame it looks like a torn write: cut off, kept, told.
        copies = b"".join(copy.read_bytes() for copy in directory.glob("*.cut"))
        assert bool(copies) == (hit == [4]) == (told.cut is not None)
        assert copies in flipped and str(path) in str(told)
        assert bool(found.damage) == bool(told.damage) == (hit != [4])
        assert told.messages == (len(hit) if hit != [4] else 0)


def test_a_copy_of_what_was_cut_is_never_written_over(tmp_path):
    for torn in (b"first", b"second"):
        (tmp_path / "segment-000000000000.open").write_bytes(segments.MAGIC + torn)
        segments.SegmentWriter(tmp_path)
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("*.cut*")}
    assert kept == {
        "segment-000000000000.cut": segments.MAGIC + b"first",
        "segment-000000000000.cut2": segments.MAGIC + b"second",
    }


def test_a_kill_between_end_and_rename_writes_no_second_end(tmp_path):
    whole = segments.sealed_bytes(FRAMES)
    (tmp_path / "segment-000000000000.open").write_bytes(whole)
    assert segments.SegmentWriter(tmp_path).recovered == []
    assert [path.read_bytes() for path in segments.sealed_segments(tmp_path)] == [whole]


def test_a_file_with_another_magic_is_named(tmp_path):
    path = tmp_path / "segment-000000000000.seg"
    path.write_bytes(b"PAR1....")
    with pytest.raises(ValueError, match="wrong magic"):
        segments.read_segment(path)


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


def test_the_folders_of_a_log_and_the_segments_in_one(tmp_path):
    """A copy beside them stopped every reader; lost+found may not be read."""
    for name in ("c2", "c1", ".readers", "lost+found"):
        (tmp_path / name).mkdir()
    (tmp_path / "notes.txt").touch()
    folder = tmp_path / "c1"
    assert segments.collector_folders(tmp_path) == [folder, tmp_path / "c2"]
    for name in ("segment-000000000002.seg", "segment-000000000001.seg", "segment-x.seg",
                 "segment-000000000001 (copy).seg", "segment-000000000003.open"):  # fmt: skip
        (folder / name).touch()
    assert [segments.segment_number(one) for one in segments.sealed_segments(folder)] == [1, 2]
    assert [segments.segment_number(one) for one in segments.open_segments(folder)] == [3]
    assert segments.sealed_segments(tmp_path / "none") == []
    assert segments.sealed_segments(tmp_path / "notes.txt") == []


def test_a_folder_that_may_not_be_read_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(PermissionError):
        segments.sealed_segments(tmp_path)
