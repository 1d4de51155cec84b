# cpython-only: runs a desktop tool as a process, against a scripted broker
"""`outpost collect` on the wire: the order fsync -> PUBACK, a full disk, ids of an old connection,
foreign topics.
"""

from contextlib import closing

import pytest

from collector_process import FULL, GATED, TOPIC, Process, ScriptedBroker, payload, wait_until


@pytest.fixture
def scripted():
    with closing(ScriptedBroker()) as broker:
        yield broker


def test_no_puback_before_fsync(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=GATED) as collector:
        scripted.accept()
        for mid in range(1, 21):
            scripted.publish(mid, payload(mid))
        assert scripted.silent(0.7)
        collector.gate.touch()
        assert scripted.acknowledged(20) == list(range(1, 21))
        # The group that waited was stored before its PUBACK; what followed was, too.
        assert collector.payloads() == [payload(n) for n in range(1, 21)]


def test_no_gap_report_before_fsync(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=GATED) as collector:
        scripted.accept()
        scripted.publish(1, payload(0))
        scripted.publish(2, payload(2))
        assert scripted.silent(0.7)
        collector.gate.touch()
        assert scripted.acknowledged(2) == [1, 2]
        said = [scripted.packet() for _ in range(3)]
        said = said if b"/durable" in said[0][1] else said[1:]  # the place may come before
        topic = b"\0\x12outpost/b1/durable"
        assert said[:2] == [(0x31, topic + b"0badcafe 0"), (0x30, topic + b"0badcafe 0 2-2")]


def test_kill_between_arrival_and_fsync_loses_nothing(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=GATED) as collector:
        scripted.accept()
        scripted.publish(7, payload(0))
        assert scripted.silent(0.5)
        collector.kill()
        collector.gate.touch()
        collector.start()
        scripted.accept(session_present=1)
        scripted.publish(7, payload(0), dup=True)  # not acknowledged, so a broker sends it again
        assert scripted.acknowledged(1) == [7]
        assert payload(0) in collector.payloads()


def test_full_disk_acknowledges_nothing_says_so_and_goes_on(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=FULL) as collector:
        scripted.accept()
        scripted.publish(1, payload(0))
        wait_until(lambda: "acknowledging nothing" in collector.text())
        assert scripted.silent(1.5)
        scripted.publish(2, payload(1))
        assert collector.text().count("No space left") == 1
        assert collector.alive
        collector.gate.touch()
        assert scripted.acknowledged(2) == [1, 2]
        assert collector.terminate() == 0
        assert collector.payloads() == [payload(0), payload(1)]


def test_old_ids_are_not_acknowledged_on_a_new_connection(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=GATED) as collector:
        scripted.accept()
        scripted.publish(1, payload(0))
        assert scripted.silent(0.4)
        scripted._link.close()
        collector.gate.touch()
        scripted.accept()
        scripted.publish(2, payload(1))
        assert scripted.acknowledged(1) == [2]
        assert collector.payloads() == [payload(0), payload(1)]


def test_topics_that_nobody_subscribed_to_are_acknowledged_but_not_stored(tmp_path, scripted):
    with Process(tmp_path, scripted.port) as collector:
        scripted.accept()
        for mid, topic in enumerate(
            ("outpost/b1/durable", "outpost/b1/x/data", "other/b1/data", "data", TOPIC), start=1
        ):
            scripted.publish(mid, payload(0), topic=topic)
        assert sorted(scripted.acknowledged(5)) == [1, 2, 3, 4, 5]
        assert [frame.topic for frame in collector.frames()] == [TOPIC.encode()]
