# cpython-only: tests a desktop tool
"""--upload: the same names and bytes in the bucket, whatever it does meanwhile."""

import threading

import pytest

from collector_process import wait_until
from faulty_folder import Faults, FaultyFolder
from outpost_tools.log import segments
from outpost_tools.servers.collect import upload
from outpost_tools.servers.collect.upload import Upload
from outpost_tools.store import at


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(upload, "_RETRY_S", 0.02)


@pytest.fixture
def source(tmp_path):
    return at.at(tmp_path / "log" / "c1")


@pytest.fixture
def target(tmp_path):
    return FaultyFolder(tmp_path / "bucket" / "c1", Faults())


def seal(source, *numbers):
    for number in numbers:
        frame = segments.encode_frame(1, b"outpost/b1/data", b"%d" % number)
        source.put(segments.sealed_name(number), segments.sealed_bytes([frame]))


def files(store):
    return {one.name: store.get(one.name) for one in store.entries()}


def begun(source, target, through):
    made = Upload(source, target)
    made.sealed(through)
    return made


def test_what_was_sealed_before_and_later_is_copied_in_order(source, target):
    seal(source, 0, 1, 2)
    made = begun(source, target, 2)
    wait_until(lambda: made.waiting == 0, 10)
    seal(source, 3)
    made.sealed(3)
    made.close()
    assert made.waiting == 0 and files(target) == files(source)
    assert target.faults.created == sorted(files(source))


def test_a_later_start_copies_what_is_missing(source, target):
    seal(source, 0, 1, 2, 3)
    target.put(segments.sealed_name(1), source.get(segments.sealed_name(1)))
    begun(source, target, 3).close()
    assert files(target) == files(source)
    assert segments.sealed_name(1) not in target.faults.created


def test_a_segment_that_was_deleted_meanwhile_is_left_out(source, target):
    seal(source, 0, 2)
    begun(source, target, 2).close()
    made = begun(source, target, 2)
    made.sealed(4)  # 3 and 4 were deleted at once
    made.close()
    assert made.waiting == 0 and files(target) == files(source)


def test_a_service_that_is_away_is_told_once_and_tried_again(source, target, capsys):
    target.faults.before, target.faults.after = 3, 2
    seal(source, 0, 1)
    made = begun(source, target, 1)
    wait_until(lambda: made.waiting == 0, 10)
    wait_until(lambda: made.trouble is None, 10)
    made.close()
    assert files(target) == files(source)
    assert capsys.readouterr().err.count("failed before the work; trying again") == 1


def test_what_waits_is_counted_and_the_end_does_not_wait_for_a_service_that_is_away(
    source, target, capsys
):
    target.faults.before = 10**9
    seal(source, 0, 1)
    made = begun(source, target, 1)
    wait_until(lambda: made.trouble is not None, 10)
    assert made.waiting == 2
    made.close()
    assert "2 segments are not copied yet; the next start goes on" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"another's", b"?" * 78])
@pytest.mark.parametrize("is_there", [True, False])
def test_another_logs_segment_is_never_replaced_and_ends_the_copying(
    source, target, capsys, data, is_there
):
    seal(source, 0, 1)
    if not is_there:  # when the copying begins
        target.faults.gate = threading.Event()
        made = begun(source, target, 1)
    target.put(segments.sealed_name(0), data)
    target.faults.gate.set()
    if is_there:
        made = begun(source, target, 1)
    wait_until(lambda: made.trouble is not None, 10)
    assert "has other contents: is it another log's?; nothing more is copied" in made.trouble
    made.close()
    assert files(target) == {segments.sealed_name(0): data}
