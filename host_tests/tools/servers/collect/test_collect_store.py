# cpython-only: runs a desktop tool as a process, against real mosquitto and a real S3 server
"""A collector without a disk: what it acknowledges is in the bucket."""

import json
import time

import pytest

from collector_load import Publisher, fleet, topic_of
from collector_process import LIMIT_S, TOPIC, Process, mosquitto, payload, wait_until
from outpost_tools import cli
from outpost_tools.log import segments
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.follow import Follower
from outpost_tools.store import at
from test_collect_robust import session_is_present

_ = mosquitto  # a fixture


def collector_of(tmp_path, mosquitto, bucket_url, **more):
    return Process(tmp_path, mosquitto.port, log=at.at(f"{bucket_url}/log"), **more)


def load_of(messages, devices=50):
    return [(topic_of(device), data) for device, _, data in fleet(devices, messages)]


@pytest.mark.parametrize("level", ["4", "5"])
def test_messages_of_a_second_share_a_put(tmp_path, mosquitto, bucket_url, level):
    packets = load_of(3000)
    with collector_of(tmp_path, mosquitto, bucket_url, options=["--level", level]) as collector:
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


def test_messages_wait_at_the_broker_while_the_service_is_away(
    tmp_path, mosquitto, bucket_url, faulty_store
):
    """It says so once, acknowledges nothing, and goes on; a lost answer repeats nothing."""
    packets = load_of(2000)
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        collector.wait_subscribed()
        faulty_store.refuse("AccessDenied", kinds={"PUT"})
        publisher = Publisher(mosquitto.port)
        publisher.publish(packets)
        wait_until(lambda: "acknowledging nothing" in collector.text())
        time.sleep(2.5)
        assert segments.sealed_segments(collector.directory) == []
        faulty_store.clear()
        faulty_store.cut_after(kinds={"PUT"}, times=2, part="segment-")
        wait_until(lambda: "writing again" in collector.text())
        wait_until(lambda: len(collector.payloads()) == len(packets))
        publisher.close()
        assert collector.terminate() == 0
        assert collector.text().count("acknowledging nothing") == 1
        assert sorted(collector.payloads()) == sorted(data for _, data in packets)


def test_a_collector_that_ends_while_the_service_is_away_says_what_waits(
    tmp_path, mosquitto, bucket_url, faulty_store
):
    packets = load_of(300)
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        collector.wait_subscribed()
        faulty_store.refuse("InternalError", kinds={"PUT"})
        publisher = Publisher(mosquitto.port)
        publisher.publish(packets)
        publisher.close()
        wait_until(lambda: "acknowledging nothing" in collector.text())
        assert collector.terminate() == 1
        assert f"{len(packets)} messages neither stored nor acknowledged" in collector.text()
        faulty_store.clear()
        collector.start()
        wait_until(lambda: len(collector.payloads()) == len(packets))
        assert collector.terminate() == 0


def test_a_start_at_a_service_that_refuses_is_tried_again_by_the_service_manager(
    tmp_path, mosquitto, bucket_url, faulty_store
):
    faulty_store.refuse("AccessDenied")
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        wait_until(lambda: not collector.alive)
        assert collector.status == 1
        assert "the keys have no right to do this" in collector.text()


def test_a_bucket_without_conditional_writes_is_refused(
    tmp_path, mosquitto, bucket_url, faulty_store
):
    faulty_store.ignores_conditions = True
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        wait_until(lambda: not collector.alive)
        assert collector.status == 2
        assert "use one with conditional writes" in collector.text()


def test_a_retired_collector_leaves_nothing_at_the_broker(tmp_path, mosquitto, bucket_url):
    packets = load_of(2000)
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        collector.wait_subscribed()
        collector.kill()
    publisher = Publisher(mosquitto.port)
    publisher.publish(packets)
    publisher.close()
    with collector_of(tmp_path, mosquitto, bucket_url, options=["--retire"]) as retiring:
        wait_until(lambda: not retiring.alive)
        assert retiring.status == 0
        assert sorted(retiring.payloads()) == sorted(data for _, data in packets)
    assert not session_is_present(mosquitto.port, b"c1")


def test_two_collectors_with_one_name(tmp_path, mosquitto, bucket_url):
    """The broker lets in one at a time, the bucket has each number once: the one that comes second
    ends, and what it had taken goes to the other."""
    packets = load_of(4000)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    one, two = (collector_of(folder, mosquitto, bucket_url) for folder in folders)
    with one, two:
        one.wait_subscribed()
        publisher = Publisher(mosquitto.port)
        until = time.monotonic() + LIMIT_S
        sent = []
        while one.alive and two.alive:
            assert time.monotonic() < until, "neither was told"
            part, packets = packets[:20], packets[20:] or load_of(4000)
            publisher.publish(part)
            sent += [data for _, data in part]
            time.sleep(0.1)
        (told,) = [each for each in (one, two) if not each.alive]
        assert told.status == 2 and "in use by another collector" in told.text()
        (left,) = [each for each in (one, two) if each.alive]
        wait_until(lambda: set(left.payloads()) == set(sent))
        publisher.close()
        assert left.terminate() == 0


def test_a_slow_service_takes_few_puts_and_keeps_the_connection(
    tmp_path, mosquitto, bucket_url, faulty_store
):
    packets = load_of(30_000)
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        collector.wait_subscribed()
        faulty_store.delay_s = 2.0
        publisher = Publisher(mosquitto.port)
        publisher.publish(packets)
        publisher.close()
        wait_until(lambda: len(segments.sealed_segments(collector.directory)) >= 2)
        faulty_store.delay_s = 0.0
        assert collector.terminate() == 0
        assert "connection lost" not in collector.text()
        assert sorted(collector.payloads()) == sorted(data for _, data in packets)
        assert len(segments.sealed_segments(collector.directory)) <= 6


def test_segments_of_a_disk_are_uploaded_as_they_are(tmp_path, mosquitto, bucket_url, faulty_store):
    """Also those from before, after kills, and while the service was away."""
    target = at.at(f"{bucket_url}/copy") / "c1"
    packets = load_of(3000)
    options = ["--segment-seconds", "0.2", "--upload", f"{bucket_url}/copy"]
    with Process(tmp_path, mosquitto.port, options=options[:2]) as collector:
        collector.wait_subscribed()
        publisher = Publisher(mosquitto.port)
        publisher.publish(packets[:500])
        wait_until(lambda: len(collector.payloads()) == 500)
        assert collector.terminate() == 0
    with Process(tmp_path, mosquitto.port, options=options) as collector:
        collector.wait_subscribed()
        publisher.publish(packets[500:1000])
        wait_until(lambda: len(collector.payloads()) == 1000)
        faulty_store.refuse("SlowDown", kinds={"PUT"})
        publisher.publish(packets[1000:2000])
        wait_until(lambda: len(collector.payloads()) == 2000)
        collector.kill()
        faulty_store.clear()
        collector.start()
        collector.wait_subscribed(times=2)
        for begin, end in ((2000, 2500), (2500, len(packets))):  # mosquitto queues 1,000 at most
            publisher.publish(packets[begin:end])
            # A set: killed between fsync and PUBACK, it stores a message once more.
            sent = {data for _, data in packets[:end]}
            wait_until(lambda sent=sent: set(collector.payloads()) == sent)
        publisher.close()
        assert collector.terminate() == 0
    here = segments.sealed_segments(collector.directory)
    there = segments.sealed_segments(target)
    assert [one.name for one in here] == [one.name for one in there]
    assert [one.read_bytes() for one in here] == [one.read_bytes() for one in there]


def test_export_and_the_live_page_read_a_log_in_a_bucket(tmp_path, mosquitto, bucket_url, capfd):
    packets = load_of(500)
    with collector_of(tmp_path, mosquitto, bucket_url) as collector:
        collector.wait_subscribed()
        publisher = Publisher(mosquitto.port)
        publisher.publish(packets)
        made = Fleet()
        follower = Follower(f"{bucket_url}/log", made, history_bytes=1 << 20)
        wait_until(lambda: follower.turn() or len(made.boards) == 50)
        before = sum(one.messages for one in made.boards.values())
        publisher.publish([(TOPIC.encode(), payload(0))])
        wait_until(lambda: follower.turn() or "b1" in made.boards)
        assert before and made.is_collected is None
        publisher.close()
        assert collector.terminate() == 0
    assert cli.main(["export", "--log", f"{bucket_url}/log", "--format", "jsonl"]) == 0
    names = {json.loads(line)["device"] for line in capfd.readouterr().out.splitlines()}
    assert len(names) == 51


@pytest.mark.parametrize("command", ["collect --broker 127.0.0.1:1", "export", "live"])
@pytest.mark.parametrize("place", ["hdfs://host/log", "s3:/bucket"])
def test_a_place_that_is_not_known_is_refused_everywhere(command, place, capsys):
    with pytest.raises(SystemExit) as refused:
        cli.main([*command.split(), "--log", place])
    assert refused.value.code == 2
    assert place in capsys.readouterr().err
