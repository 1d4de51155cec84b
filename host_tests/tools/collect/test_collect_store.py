# cpython-only: runs a desktop tool as a process, against real mosquitto and a real S3 server
"""A collector without a disk: what it acknowledges is in the bucket."""

from collector_load import Publisher, fleet, topic_of
from collector_process import Process, mosquitto, wait_until
from outpost_tools.log import segments
from outpost_tools.store import at

_ = mosquitto  # a fixture


def collector_of(tmp_path, mosquitto, bucket_url, **more):
    return Process(tmp_path, mosquitto.port, log=at.at(f"{bucket_url}/log"), **more)


def load_of(messages, devices=50):
    return [(topic_of(device), data) for device, _, data in fleet(devices, messages)]


def test_messages_of_a_second_share_a_put(tmp_path, mosquitto, bucket_url):
    packets = load_of(3000)
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        collector.wait_subscribed()
        publisher = Publisher(mosquitto.port)
        publisher.publish(packets)
        wait_until(lambda: len(collector.payloads()) == len(packets))
        listed = segments.sealed_segments(collector.directory)
        assert len(listed) <= 3
        publisher.close()
        assert collector.terminate() == 0
        assert sorted(collector.payloads()) == sorted(data for _, data in packets)
        assert not (tmp_path / "log").exists()
