# cpython-only: runs a desktop tool as a process, against real mosquitto
"""A flipped bit in what the collector has stored: it costs its message, and every one that looks
is told.
"""

import json

from collector_load import Publisher
from collector_process import TOPIC, Process, mosquitto, payload, wait_until
from outpost_tools.log import segments
from outpost_tools.servers.collect.disk_log import DiskLog as Log

_ = mosquitto  # a fixture
COUNT = 20


def stored(collector, port, numbers):
    """They are on disk, in the open segment, and all but the last are acknowledged."""
    publisher = Publisher(port)
    for part in (numbers[:-1], numbers[-1:]):
        publisher.publish([(TOPIC.encode(), payload(seq)) for seq in part])
        wait_until(lambda: payload(part[-1]) in collector.payloads())  # noqa: B023
    publisher.close()


def flip(path, number):
    """A bit in the payload of the message of this number."""
    frame = list(segments.read_segment(path))[number]
    data = bytearray(path.read_bytes())
    data[frame.end - 3] ^= 16
    path.write_bytes(data)


def test_a_flipped_bit_in_the_open_segment_and_a_kill(tmp_path, mosquitto):
    """Nothing behind it is lost; stderr, the metrics' counters and the exit status tell."""
    with Process(tmp_path, mosquitto.port, options=["--segment-seconds", "600"]) as collector:
        collector.wait_subscribed()
        stored(collector, mosquitto.port, range(COUNT))
        collector.kill()
        (path,) = segments.open_segments(collector.directory)
        flip(path, 7)
        collector.start()
        collector.wait_subscribed(2)
        stored(collector, mosquitto.port, range(COUNT, COUNT + 5))
        assert collector.terminate() == 1
        assert {json.loads(data)[0]["seq"] for data in collector.payloads()} == (
            set(range(COUNT + 5)) - {7}
        )
        assert collector.text().count("damaged segment") == 1
        assert "segment-000000000000.seg: damaged segment" in collector.text()
        # What is told once needs no second look: the snapshot holds the rest.
        collector.start()
        collector.wait_subscribed(3)
        assert collector.terminate() == 0


def test_every_flipped_byte_of_a_log_is_told_and_costs_its_message(tmp_path):
    """The open segment at a restart: what is confirmed afterwards is what can be read."""
    encoded = [segments.encode_frame(1, TOPIC.encode(), payload(seq)) for seq in range(3)]
    whole = segments.sealed_bytes(encoded)
    ends = [8 + sum(map(len, encoded[:n])) for n in range(4)]
    for suffix, size in (("open", ends[3]), ("seg", len(whole))):
        for index in range(size):
            directory = tmp_path / f"{suffix}{index}" / "c1"
            directory.mkdir(parents=True)
            data = bytearray(whole[:size])
            data[index] ^= 1 << index % 8
            (directory / f"segment-000000000000.{suffix}").write_bytes(data)
            log = Log(directory.parent, "c1", segment_bytes=1 << 20)
            kept = [n for n in range(3) if not ends[n] <= index < ends[n + 1]]
            first_lost = next((n for n in range(3) if n not in kept), 3)
            expected = b"0badcafe %d" % (first_lost - 1) if first_lost else None
            assert log.durable.confirmation("b1") == expected
            (told,) = log.take_recovered()
            assert told.damage or told.cut
            log.close()
