# cpython-only: tests a desktop tool
"""The collector's directory: state after a kill, torn tails, a disk that refuses, one owner."""

import errno
import json
import os

import pytest

from outpost_tools.log import segments
from outpost_tools.servers.collect.disk_log import DiskLog as Log
from outpost_tools.servers.collect.log import LogBusyError

STREAM = "0badcafe"


def frame(seq, *, held=0, retain=False, device="b1"):
    payload = json.dumps(
        [{"bn": f"{device}/", "sid": STREAM, "seq": seq, "held": held, "ver": 1}]
    ).encode()
    return segments.encode_frame(1, f"outpost/{device}/data".encode(), payload, retain=retain)


def open_log(tmp_path, **more):
    return Log(tmp_path, "c1", **{"segment_bytes": 1 << 20, **more})


def kill(log):
    """What SIGKILL leaves: the lock is gone, nothing is sealed or saved."""
    os.close(log._lock)


def stored(directory):
    files = segments.sealed_segments(directory) + segments.open_segments(directory)
    return [json.loads(f.payload)[0]["seq"] for path in files for f in segments.read_segment(path)]


def test_state_is_rebuilt_after_a_kill_without_a_snapshot(tmp_path):
    log = open_log(tmp_path)
    log.store([frame(n) for n in (0, 1, 2, 5)])
    kill(log)
    again = open_log(tmp_path)
    assert again.durable.confirmation("b1") == b"0badcafe 2"
    assert stored(again.directory) == [0, 1, 2, 5]


def test_state_is_snapshot_plus_later_segments(tmp_path):
    log = open_log(tmp_path, segment_bytes=1)  # each commit seals
    for n in range(3):
        log.store([frame(n)])
        log.durable.add(log_key(n))
        log.seal_when_older(60)
    log.store([frame(3)])  # sealed, but killed before the snapshot
    kill(log)
    # What snapshot and changes cover is not read again.
    for path in segments.sealed_segments(log.directory)[:3]:
        path.unlink()
    again = open_log(tmp_path)
    assert again.durable.confirmation("b1") == b"0badcafe 3"
    assert again.sealed_through == 3


def log_key(n):
    from outpost_tools.messages.message import Key

    return Key("b1", STREAM, n, 0)


def test_segment_numbers_are_never_given_twice(tmp_path):
    log = open_log(tmp_path)
    log.store([frame(0)])
    log.close()
    for path in segments.sealed_segments(log.directory):
        path.unlink()
    again = open_log(tmp_path)
    again.store([frame(1)])
    again.close()
    assert [p.name for p in segments.sealed_segments(log.directory)] == ["segment-000000000001.seg"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 9}', '{"version": 1, "sealed_through": 0, "streams": 3}']
)
def test_damaged_snapshot_costs_only_time(tmp_path, text):
    log = open_log(tmp_path)
    log.store([frame(0), frame(1)])
    log.close()
    (log.directory / "state.json").write_text(text)
    assert open_log(tmp_path).durable.confirmation("b1") == b"0badcafe 1"


def test_torn_tail_is_cut_at_every_length(tmp_path):
    whole = [frame(n) for n in range(3)]
    data = segments.MAGIC_1 + b"".join(whole)
    for cut in range(len(data) + 1):
        directory = tmp_path / str(cut) / "c1"
        directory.mkdir(parents=True)
        (directory / "segment-000000000000.open").write_bytes(data[:cut])
        log = open_log(tmp_path / str(cut))
        complete = max(0, cut - len(segments.MAGIC)) // len(whole[0])
        assert stored(directory) == list(range(complete))
        assert log.durable.confirmation("b1") == (
            b"0badcafe %d" % (complete - 1) if complete else None
        )
        os.close(log._lock)


def test_retained_and_keyless_frames_are_stored_but_confirm_nothing(tmp_path):
    log = open_log(tmp_path)
    log.store([frame(0, retain=True), segments.encode_frame(1, b"outpost/b1/data", b"\xff")])
    kill(log)
    again = open_log(tmp_path)
    assert again.durable.devices() == []
    assert (
        sum(1 for p in segments.sealed_segments(again.directory) for _ in segments.read_segment(p))
        == 2
    )


@pytest.mark.parametrize("fault", ["write", "fsync"])
def test_a_disk_that_refuses_loses_and_doubles_nothing(tmp_path, monkeypatch, fault):
    log = open_log(tmp_path)
    log.store([frame(0)])
    failing = [True, True]
    real_fsync = os.fsync

    def fsync(handle):
        if failing and os.readlink(f"/proc/self/fd/{handle}").endswith(".open"):
            failing.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        real_fsync(handle)

    if fault == "fsync":
        monkeypatch.setattr(os, "fsync", fsync)
    else:
        log._writer._file = Full(log._writer._file)
        failing.pop()
    frames = [frame(n) for n in range(1, 2000)]
    while failing:  # the second failure comes while the new writer seals what the first one left
        with pytest.raises(OSError, match="No space"):
            log.store(frames)
        failing[:] = failing if fault == "fsync" else []
    monkeypatch.undo()
    log.store(frames)
    log.close()
    assert stored(log.directory) == list(range(2000))


class Full:
    """A segment file on a disk that takes half of a write and then no more."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        self._file.write(data[: len(data) // 2])
        self._file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")


def test_second_collector_on_the_directory_is_refused(tmp_path):
    log = open_log(tmp_path)
    with pytest.raises(LogBusyError, match="in use by another collector"):
        open_log(tmp_path)
    log.close()
    open_log(tmp_path).close()


def test_directory_of_another_collector_is_refused(tmp_path):
    open_log(tmp_path).close()
    (tmp_path / "c1").rename(tmp_path / "c2")
    with pytest.raises(LogBusyError, match="written by collector 'c1'"):
        Log(tmp_path, "c2", segment_bytes=1 << 20)
    # The refusal lets go of the lock.
    (tmp_path / "c2").rename(tmp_path / "c1")
    open_log(tmp_path).close()


def test_foreign_file_is_named(tmp_path):
    (tmp_path / "c1").mkdir()
    (tmp_path / "c1" / "segment-000000000000.seg").write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a segment"):
        open_log(tmp_path)
