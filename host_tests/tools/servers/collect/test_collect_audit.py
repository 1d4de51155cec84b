# cpython-only: reads a desktop tool, and runs it against real mosquitto
"""Damage in sealed segments that the snapshot covers, in several logs: each collector tells its
own, once, with its exit status."""

import pytest

from collector_process import TOPIC, Process, mosquitto, payload
from outpost_tools.log import segments
from outpost_tools.servers.collect.disk_log import DiskLog as Log

_ = mosquitto  # a fixture


def sealed(root, name, count=3):
    """A log with that many sealed segments, which its snapshot covers."""
    log = Log(root, name, segment_bytes=1 << 20)
    for seq in range(count):
        log.store([segments.encode_frame(1, TOPIC.encode(), payload(seq))])
        log.seal_when_older(0)
    log.close()
    return segments.sealed_segments(root / name)


def flip(path, at=-40):
    data = bytearray(path.read_bytes())
    data[at] ^= 16
    path.write_bytes(data)


def checked(root, name):
    """What a start and all that follows tells."""
    log = Log(root, name, segment_bytes=1 << 20)
    while not log.is_checked:
        log.check_one()
    told = log.take_recovered()
    log.close()
    return [one.segment.name for one in told]


@pytest.mark.parametrize("damage", [flip, lambda path: path.write_bytes(b"\0" * 100)])
def test_damage_that_the_start_does_not_read_is_told_once(tmp_path, damage):
    paths = sealed(tmp_path, "c1")
    assert checked(tmp_path, "c1") == []
    damage(paths[1])
    assert checked(tmp_path, "c1") == [paths[1].name]
    assert checked(tmp_path, "c1") == []
    damage(paths[0])
    assert checked(tmp_path, "c1") == [paths[0].name]


def test_a_segment_that_was_pruned_meanwhile_is_no_damage(tmp_path):
    paths = sealed(tmp_path, "c1")
    log = Log(tmp_path, "c1", segment_bytes=1 << 20)
    paths[0].unlink()
    while not log.is_checked:
        log.check_one()
    assert log.take_recovered() == []
    log.close()


def test_each_collector_of_several_ends_with_1_for_its_own_log(tmp_path, mosquitto):
    """Only the one whose snapshot broke did; the others ended with 0."""
    collectors = [Process(tmp_path, mosquitto.port, name=f"c{n}") for n in range(3)]
    for number, one in enumerate(collectors):
        paths = sealed(one.directory.parent, one.directory.name)
        if number != 1:
            flip(paths[number % 2])
    statuses = []
    for one in collectors:
        with one:
            one.wait_subscribed()
            statuses.append(one.terminate())
    assert statuses == [1, 0, 1]
