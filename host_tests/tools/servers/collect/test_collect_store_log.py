# cpython-only: tests a desktop tool
"""The log in a bucket: what commit() returns is there, whatever the store does; numbers are used
once; a start needs no snapshot."""

import json
import random
import time

import pytest

from collector_process import wait_until
from faulty_folder import Faults, FaultyFolder
from outpost_tools.log import segments
from outpost_tools.messages.message import Key
from outpost_tools.servers.collect import store_log
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.log import LogBusyError
from outpost_tools.servers.collect.store_log import StoreLog
from outpost_tools.store.base import StoreError

STREAM = "0badcafe"
SNAPSHOT_OF_NOBODY = ["", "{", "[]", '{"version": 9}', '{"version": 1, "sealed_through": 0}']


def batch_of(*numbers, retain=False):
    made = Batch(1)
    for seq in numbers:
        data = json.dumps([{"bn": "b1/", "sid": STREAM, "seq": seq, "held": 0, "ver": 1}]).encode()
        frame = segments.encode_frame(1, b"outpost/b1/data", data, retain=retain)
        made.frames.append(frame)
        made.frame_bytes += len(frame)
        made.keys.append(Key("b1", STREAM, seq, 0))
        made.packet_ids.append(b"%2d" % seq)
    return made


@pytest.fixture
def folder(tmp_path):
    return FaultyFolder(tmp_path / "log", Faults())


def open_log(folder, **more):
    return StoreLog(folder, "c1", **{"segment_bytes": 1 << 20, "segment_seconds": 0.0, **more})


def committed(log, *, at_once=True):
    """The numbers in what commit() returns, once it returns something; as the loop does, their keys
    are in `durable` then."""
    found = []
    wait_until(lambda: found.append(log.commit(at_once=at_once)) or found[-1] is not None, 10)
    for batch in found[-1].batches:
        log.durable.add_all(batch.keys)
    return [key.seq for batch in found[-1].batches for key in batch.keys]


def stored(folder):
    return [
        json.loads(frame.payload)[0]["seq"]
        for segment in segments.sealed_segments(folder / "c1")
        for frame in segments.read_segment(segment)
    ]


def put_is_over(log):
    wait_until(lambda: log._put is None or log._put.is_over, 10)


def refused(log):
    with pytest.raises(StoreError):
        while True:
            log.commit(at_once=True)
            time.sleep(0.001)


def test_nothing_is_returned_before_it_is_there(folder):
    log = open_log(folder)
    folder.faults.gate.clear()
    log.add(batch_of(0, 1))
    for _ in range(5):
        assert log.commit(at_once=True) is None
        time.sleep(0.01)
    assert stored(folder) == [] and log.held_messages == 2 and log.stored_through == -1
    folder.faults.gate.set()
    assert committed(log) == stored(folder) == [0, 1]
    assert log.held == [] and log.stored_through == 0


def test_what_comes_during_a_put_is_the_next_segment(folder):
    log = open_log(folder, segment_bytes=500)
    folder.faults.gate.clear()
    log.add(batch_of(0))
    log.commit(at_once=True)
    assert not log.is_full
    for seq in range(1, 8):
        log.add(batch_of(seq))
        log.commit()
    assert log.is_full  # takes no more until the first is there
    folder.faults.gate.set()
    assert committed(log) + committed(log) == list(range(8))
    assert folder.faults.created == [segments.sealed_name(0), segments.sealed_name(1)]


def test_messages_are_gathered_until_they_are_old_or_many(folder):
    log = open_log(folder, segment_seconds=0.2)
    began = time.monotonic()
    for seq in range(3):
        log.add(batch_of(seq))
        assert log.commit() is None
    assert committed(log, at_once=False) == [0, 1, 2]
    assert time.monotonic() - began >= 0.2
    log = open_log(folder, segment_seconds=60, segment_bytes=1)
    log.add(batch_of(3))
    assert committed(log, at_once=False) == [3]
    assert len(folder.faults.created) == 2


def test_a_broker_that_waits_for_pubacks_gets_them_before_the_second_is_over(folder):
    """It has its limit of messages in flight; the first segment shows how many that is."""
    log = open_log(folder, segment_seconds=0.3)
    for begin, most_s in ((0, 10), (20, 0.25), (40, 0.25)):
        began = time.monotonic()
        log.add(batch_of(*range(begin, begin + 20)))
        assert committed(log, at_once=False) == list(range(begin, begin + 20))
        assert time.monotonic() - began < most_s


def test_a_store_that_refuses_loses_and_repeats_nothing(folder):
    log = open_log(folder)
    folder.faults.before = 2
    log.add(batch_of(0, 1))
    refused(log)
    assert log.held_messages == 2
    log.add(batch_of(2))
    refused(log)
    assert committed(log) == [0, 1] and committed(log) == [2]
    assert stored(folder) == [0, 1, 2]


def test_a_put_whose_answer_is_lost_is_our_own(folder):
    log = open_log(folder)
    log.add(batch_of(0))
    assert committed(log) == [0]
    folder.faults.after = 1
    log.add(batch_of(1))
    refused(log)
    log.add(batch_of(2))  # the segment whose answer was lost does not change
    assert committed(log) == [1] and committed(log) == [2]
    assert stored(folder) == [0, 1, 2]


def test_a_second_collector_with_the_name_is_told_and_nothing_is_acknowledged(folder):
    one, two = open_log(folder), open_log(folder)
    one.add(batch_of(0))
    assert committed(one) == [0]
    two.add(batch_of(1))
    assert committed(two) == [1]  # the first number of a life may be taken
    one.add(batch_of(2, 3))
    with pytest.raises(LogBusyError, match="in use by another collector.* 2 messages neither"):
        committed(one)
    assert stored(folder) == [0, 1]


def test_the_last_put_of_a_killed_collector_may_arrive_after_the_next_start(folder):
    killed = open_log(folder)
    folder.faults.is_late = True
    killed.add(batch_of(0))
    refused(killed)
    folder.faults.is_late = False
    log = open_log(folder)
    assert log.durable.confirmation("b1") is None
    folder.faults.land()
    log.add(batch_of(1))
    assert committed(log) == [1]
    assert stored(folder) == [0, 1]
    assert log.durable.confirmation("b1") == b"0badcafe 1"  # 0 is there, so it counts


@pytest.mark.parametrize("text", [None, *SNAPSHOT_OF_NOBODY])
def test_a_start_needs_no_snapshot(folder, text, capsys):
    log = open_log(folder)
    for seq in (0, 1, 3):
        log.add(batch_of(seq))
        committed(log)
    if text is None:
        assert not (folder / "c1").exists("state.json")  # killed before there was one
    else:
        (folder / "c1").put("state.json", text.encode())
    again = open_log(folder)
    assert again.durable.confirmation("b1") == b"0badcafe 1"
    assert again.stored_through == 2
    assert ("not usable" in capsys.readouterr().err) == bool(text)


def test_a_start_reads_what_is_above_the_snapshot_alone(folder):
    log = open_log(folder)
    for seq in range(3):
        log.add(batch_of(seq))
        committed(log)
    log.close()
    log = open_log(folder)
    log.add(batch_of(3))
    committed(log)  # and killed
    (folder / "c1").delete(segments.sealed_name(number) for number in range(3))
    again = open_log(folder)
    assert again.durable.confirmation("b1") == b"0badcafe 3"
    again.add(batch_of(4))
    committed(again)
    names = [one.name for one in segments.sealed_segments(folder / "c1")]
    assert names == [segments.sealed_name(3), segments.sealed_name(4)]


def test_a_snapshot_is_saved_now_and_then_and_its_failure_costs_time_alone(folder, monkeypatch):
    monkeypatch.setattr(store_log.Whole, "is_due", lambda self, through: through > self.through)
    log = open_log(folder)
    log.add(batch_of(0))
    committed(log)
    folder.faults.before = 1
    log.tidy()
    with pytest.raises(StoreError):
        wait_until(lambda: log.tidy() or False, 10)
    log.add(batch_of(1))
    committed(log)
    log.tidy()
    wait_until(lambda: log.tidy() or (folder / "c1").exists("state.json"), 10)
    assert json.loads((folder / "c1").get("state.json"))["sealed_through"] == 1


def test_a_retained_message_is_stored_and_confirms_nothing(folder):
    log = open_log(folder)
    batch = batch_of(0, retain=True)
    batch.keys.clear()
    log.add(batch)
    committed(log)
    assert open_log(folder).durable.devices() == []


def test_packets_without_a_message_are_returned_and_store_nothing(folder):
    log = open_log(folder)
    log.add(Batch(1, packet_ids=[b"12"]))
    assert committed(log) == [] and folder.faults.created == []


@pytest.mark.parametrize("seed", range(8))
def test_by_chance_everything_returned_is_there_once(folder, seed):
    """Faults, and kills that drop what the log has in memory."""
    rng, faults = random.Random(seed), folder.faults
    log, seq, acknowledged = open_log(folder), 0, []
    for _ in range(150):
        if rng.random() < 0.05:
            put_is_over(log)
            faults.before = faults.after = 0
            log = open_log(folder)
        if rng.random() < 0.5:
            count = rng.randrange(1, 5)
            log.add(batch_of(*range(seq, seq + count)))
            seq += count
        faults.before, faults.after = int(rng.random() < 0.1), int(rng.random() < 0.1)
        try:
            found = log.commit(at_once=rng.random() < 0.5)
            put_is_over(log)
        except StoreError:
            continue
        if found:
            acknowledged += [key.seq for batch in found.batches for key in batch.keys]
    there = stored(folder)
    assert set(acknowledged) <= set(there) and len(there) == len(set(there))
    assert len(acknowledged) == len(set(acknowledged)) > 50
