# cpython-only: runs a desktop tool as a process, against real mosquitto
"""`outpost mq bridge` as a process: the demo's messages, kills at random moments, refused messages,
segments, storage.

OUTPOST_MQ_KILLS=50 runs the long form of the kills (a minute and a half); OUTPOST_MQ_SEED repeats
its moments.
"""

import base64
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import outpost_command
import series_writer
from made_broker import MadeBroker
from mq_bridge import (
    BridgeProcess,
    by_topic,
    connect,
    disconnect,
    publish_all,
    put_by_fake,
    record,
    retained_in,
    retained_state,
    through_queue_manager,
    wait_until,
)
from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_micropython, find_mosquitto
from outpost_tools.mqtt import credentials
from outpost_tools.servers.mq import mapping, psc, sources, storage
from outpost_tools.servers.mq.bridge import Bridge, Incoming
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.header import parse
from outpost_tools.servers.mq.mapping import Options, Outgoing, Publication
from paths import FAKES

KILLS = int(os.environ.get("OUTPOST_MQ_KILLS", "6"))
SEED = int(os.environ.get("OUTPOST_MQ_SEED", "7"))
FAKE = FAKES / "fake_ibmmq"


def need(program, found):
    if found is None:
        pytest.skip(f"missing: {program}; run `make setup`")


@pytest.fixture
def broker(tmp_path):
    need("mosquitto", find_mosquitto())
    with Broker("mosquitto", tmp_path / "broker") as running:
        yield running


def bridge(tmp_path, broker, *options, **more):
    address = f"127.0.0.1:{broker.port}"
    return BridgeProcess(
        tmp_path, "--broker", address, "--lines", str(tmp_path / "publish.jsonl"), *options, **more
    )


def packets_of(commands):
    """(topic, payload) of each command, as MQTT."""
    found = [
        packet for command in commands for packet in mapping.to_mqtt(command.md, command.data)[0]
    ]
    return [(packet.topic.decode(), packet.payload) for packet in found]


def run_outpost(*words, **more):
    return outpost_command.run(*words, check=True, text=False, **more)


def test_the_demos_messages_into_mq_and_out_again(tmp_path, broker):
    """Boards, with power cuts, a collector and the bridge at one broker; then everything through
    the queue manager.
    """
    need("MicroPython", find_micropython("amd64") or find_micropython("i386"))
    address = f"127.0.0.1:{broker.port}"
    collector = [sys.executable, *"-m outpost_tools.cli collect --id c1 --broker".split(), address]
    collector += ["--log", str(tmp_path / "log")]
    collecting = children.start(collector, log=tmp_path / "c.log", env=children.tools_environment())
    try:
        with bridge(tmp_path, broker, "--seq-num", "--pub-time", "reading", "--usr") as running:
            wait_until(
                lambda: (
                    "subscribed" in running.text()
                    and "subscribed" in (tmp_path / "c.log").read_text()
                )
            )
            boards = "--boards 2 --seconds 3 --interval-ms 20 --cuts 2 --seed 3".split()
            run_outpost("simulate", "--broker", address, "--out", str(tmp_path / "boards"), *boards)
            assert children.stop(collecting, grace_s=120) == 0
            collected = packets_in(tmp_path / "log" / "c1")
            due = set(collected) | set(retained_state(broker.port).items())
            wait_until(lambda: due <= set(packets_of(running.commands())))
            assert running.terminate() == 0
            commands = running.commands()
    finally:
        children.kill(collecting)
    check_demo(tmp_path, broker, commands, collected)


def test_a_series_goes_into_mq_and_out_again_byte_for_byte(tmp_path, broker):
    """As bytes of no text; with the number and the first sample's time of an Outpost message."""
    topic = "outpost/board-1/data"
    rows = series_writer.climate(60)
    payloads = [
        series_writer.payload(rows, seq=seq, start_ms=series_writer.START_MS + 600_000 * seq)
        for seq in range(1200, 1205)
    ]
    options = "--seq-num", "--pub-time", "reading"
    with bridge(tmp_path, broker, *options) as running:
        wait_until(lambda: "subscribed" in running.text())
        publish_all(broker.port, [Publication(topic.encode(), one, 1) for one in payloads])
        wait_until(lambda: len(running.commands()) == len(payloads))
        assert running.terminate() == 0
        commands = running.commands()
    assert packets_of(commands) == [(topic, payload) for payload in payloads]
    for seq, command in zip(range(1200, 1205), commands, strict=True):
        said = psc.read(parse(command.data, encoding=command.md.encoding).folders()[0].text)
        start_s = (series_writer.START_MS + 600_000 * seq) / 1000
        assert said.values("SeqNum") == [str(seq)]
        assert said.values("PubTime") == [psc.pub_time(start_s)]
    _, packets = through_queue_manager(commands)
    assert [packet.payload for packet in packets] == payloads


@pytest.fixture
def made(tmp_path):
    """A broker with TLS and rights, as `outpost broker` makes it."""
    need("mosquitto", find_mosquitto())
    with MadeBroker(tmp_path / "made", "cellar") as running:
        assert running.outpost("add", "--monitor", "mq") == 0
        yield running


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_from_a_made_broker_with_a_monitors_credentials(tmp_path, made, version):
    file = credentials.place(made.folder, "monitor", "mq")
    assert [command.data for command in bridged(tmp_path, made, file, "--mqtt", version)]


def test_what_came_while_the_bridge_was_away_comes_over_tls_too(tmp_path, made):
    """The session at the broker is the credentials' client identifier's, and lasts."""
    file = credentials.place(made.folder, "monitor", "mq")
    with BridgeProcess(tmp_path, "--credentials", file, *lines_of(tmp_path)) as running:
        wait_until(lambda: "subscribed to outpost/+/data" in running.text())
        assert running.terminate() == 0
    made_publish(made)
    with BridgeProcess(tmp_path, "--credentials", file, *lines_of(tmp_path)) as running:
        wait_until(lambda: packets_of(running.commands()) == [("outpost/cellar/data", b"21")])
        assert running.terminate() == 0


def test_an_authority_and_a_password_in_place_of_a_credentials_file(tmp_path, made):
    found = made.credentials("mq", "monitor")
    authority, secret = tmp_path / "ca.pem", tmp_path / "password"
    authority.write_text(found.ca)
    secret.touch(0o600)
    secret.write_text(found.password)
    where = ("--broker", f"{found.host}:{found.port}", "--id", "mq", "--user", "mq")
    options = (*where, "--password-file", secret, "--filter", "outpost/+/data")
    with BridgeProcess(
        tmp_path, *map(str, options), "--ca-file", str(authority), *lines_of(tmp_path)
    ) as running:
        wait_until(lambda: "subscribed to outpost/+/data" in running.text())
        made_publish(made)
        wait_until(lambda: packets_of(running.commands()))
        assert "plain text" not in running.text() and running.terminate() == 0


def lines_of(tmp_path):
    return "--lines", str(tmp_path / "publish.jsonl")


def made_publish(made):
    with made.peer("cellar") as board:
        board.publish("outpost/cellar/data", b"21")


def bridged(tmp_path, made, file, *options):
    """The commands that one message of a board's becomes."""
    with BridgeProcess(
        tmp_path, "--credentials", str(file), *lines_of(tmp_path), *options
    ) as running:
        wait_until(lambda: "subscribed to outpost/+/data" in running.text())
        made_publish(made)
        wait_until(lambda: packets_of(running.commands()) == [("outpost/cellar/data", b"21")])
        assert running.terminate() == 0
        return running.commands()


def packets_in(log):
    """(topic, payload) of each frame that a collector stored."""
    frames = [
        frame for path in segments.sealed_segments(log) for frame in segments.read_segment(path)
    ]
    return [(frame.topic.decode(), frame.payload) for frame in frames]


def check_demo(tmp_path, broker, commands, collected):
    """Nothing lost against the collector and the boards' journals, order kept, retained state
    equal, at each station.
    """
    ours = packets_of(commands)
    data = [packet for packet in ours if packet[0].endswith("/data")]
    assert len(collected) > 100 and by_topic(data) == by_topic(collected)
    for journal in (tmp_path / "boards").glob("*/journal.txt"):
        said_ok = [
            line.split(" ", 2)[2].encode()
            for line in journal.read_text().splitlines()
            if line.startswith("ok ")
        ]
        assert said_ok and set(said_ok) <= {payload for _, payload in data}
    check_numbers(commands)
    manager, packets = through_queue_manager(commands)
    assert [(packet.topic.decode(), packet.payload) for packet in packets] == ours
    before = retained_state(broker.port)
    assert before and retained_in(manager) == before
    with Broker("mosquitto", tmp_path / "second") as second:
        client, seen = record(second.port, "end")
        publish_all(second.port, packets)
        wait_until(lambda: len(seen) == len(packets))
        disconnect(client)
        assert by_topic((topic, payload) for topic, payload, _ in seen) == by_topic(ours)
        assert retained_state(second.port) == before


def check_numbers(commands):
    """SeqNum is the outbox's sequence number, PubTime the first reading's time."""
    for command in commands:
        message = parse(command.data)
        found = psc.read(message.folders()[0].text)
        if found.topics[0].endswith("/data"):
            record = json.loads(message.body)[0]
            assert found.first("SeqNum") == str(record["seq"])
            assert found.first("PubTime") == (
                psc.pub_time(record["bt"]) if "bt" in record else None
            )


class Publisher(threading.Thread):
    """Publishes numbered payloads on three topics, one of them retained, until told to end."""

    def __init__(self, port):
        super().__init__()
        self.sent = []
        self._client = connect(port, "publisher")
        self._ending = threading.Event()

    def run(self):
        number = 0
        while not self._ending.is_set():
            for topic, retain in (
                ("k/plain", False),
                ("k/kept", True),
                (f"k/{number % 7}", number % 3 == 0),
            ):
                payload = b"%s %d" % (topic.encode(), number)
                self._client.publish(topic, payload, 1, retain)
                self.sent.append((topic, payload))
            number += 1
            time.sleep(0.003)

    def end(self):
        """Clears one retained topic last, and returns when the broker has everything."""
        self._ending.set()
        self.join()
        self.sent.append(("k/0", b""))
        self._client.publish("k/0", b"", 1, True).wait_for_publish(120)
        disconnect(self._client)


def kill_often(running, publisher):
    """SIGKILL at random moments: most in the middle of the work, some while it starts."""
    chance = random.Random(SEED)
    for _ in range(KILLS):
        before = len(running.text())
        running.start()
        if chance.random() < 0.8:
            wait_until(lambda before=before: ": connected" in running.text()[before:])
        time.sleep(chance.uniform(0, 0.4))
        running.kill()
    running.start()
    publisher.end()


@pytest.mark.long
def test_kills_at_random_moments_lose_nothing_and_keep_the_order(tmp_path, broker):
    print(f"seed {SEED}, {KILLS} kills")
    with bridge(tmp_path, broker, "--filter", "k/#", "--usr", "--on-clear", "delete") as running:
        wait_until(lambda: "subscribed" in running.text())
        running.kill()  # the subscription is there, so from now on nothing may be missing
        publisher = Publisher(broker.port)
        publisher.start()
        kill_often(running, publisher)
        wait_until(lambda: ("k/0", b"") in packets_of(running.commands()[-600:]))
        wait_until(lambda: set(publisher.sent) <= set(packets_of(running.commands())))
        assert running.terminate() == 0
        commands = running.commands()
    got = packets_of(commands)
    # nothing lost, nothing invented, order kept per topic
    assert by_topic(got) == by_topic(publisher.sent)
    assert len(got) >= len(publisher.sent) > 100
    manager, packets = through_queue_manager(commands)
    before = retained_state(broker.port)
    assert retained_in(manager) == before and "k/0" not in before and "k/kept" in before
    with Broker("mosquitto", tmp_path / "second") as second:
        publish_all(second.port, packets)
        assert retained_state(second.port) == before


def test_kills_between_put_and_puback_of_a_queue_manager(tmp_path, broker):
    """The live path, with the fake ibmmq: what was acknowledged is committed."""
    file = tmp_path / "put.jsonl"
    path = os.pathsep.join([str(FAKE), children.tools_environment()["PYTHONPATH"]])
    options = [
        "--broker",
        f"127.0.0.1:{broker.port}",
        "--filter",
        "k/#",
        "--put",
        "QM1",
        "--on-clear",
        "delete",
    ]
    options += ["--refused", str(tmp_path / "refused.jsonl")]
    environment = {"PYTHONPATH": path, "OUTPOST_FAKE_MQ": str(file)}
    # without the fake: refused at once, nothing taken
    with BridgeProcess(tmp_path, *options) as running:
        assert running.wait() == 2 and "ibmmq is not installed" in running.text()
    with BridgeProcess(tmp_path, *options, environment=environment) as running:
        wait_until(lambda: "subscribed" in running.text())
        publisher = Publisher(broker.port)
        publisher.start()
        for pause in (0.3, 0.5, 0.2):
            time.sleep(pause)
            running.kill()
            cut_torn_line(file)
            running.start()
        publisher.end()
        wait_until(lambda: set(publisher.sent) <= set(fake_packets(file)))
        assert running.terminate() == 0
    assert by_topic(fake_packets(file)) == by_topic(publisher.sent)


def cut_torn_line(file):
    """A queue manager would roll back half a commit."""
    if file.exists():
        data = file.read_bytes()
        file.write_bytes(data[: data.rfind(b"\n") + 1])


def fake_packets(file):
    return packets_of([Outgoing(queue, Descriptor(), data) for queue, data in put_by_fake(file)])


def test_a_stop_and_a_start_resume_the_session(tmp_path, broker):
    client = connect(broker.port, "p")
    with bridge(tmp_path, broker, "--filter", "a/#") as running:
        wait_until(lambda: "subscribed" in running.text())
        client.publish("a/1", b"one", 1, True).wait_for_publish(120)
        wait_until(lambda: len(running.commands()) == 1)
        assert running.terminate() == 0
        client.publish("a/1", b"two", 1, True).wait_for_publish(120)
        running.start()
        wait_until(lambda: len(running.commands()) == 2)
        time.sleep(0.3)
        assert "session resumed" in running.text() and packets_of(running.commands()) == [
            ("a/1", b"one"),
            ("a/1", b"two"),
        ]
    disconnect(client)


def test_what_mq_cannot_hold_is_set_aside_and_the_rest_goes_on(tmp_path, broker):
    client = connect(broker.port, "p")
    with bridge(tmp_path, broker, "--filter", "a/#") as running:
        wait_until(lambda: "subscribed" in running.text())
        client.publish("a/\U0001f600", b"smile", 1)
        client.publish("a/kept", b"x", 1, True)
        client.publish("a/kept", b"", 1, True)
        client.publish("a/last", b"\x00\xff", 1)
        wait_until(lambda: ("a/last", b"\x00\xff") in packets_of(running.commands()))
        assert running.terminate() == 0
    disconnect(client)
    refused = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert [(line["name"], line["topic"]) for line in refused] == [
        ("topic-character", "a/\U0001f600"),
        ("retained-empty", "a/kept"),
    ]
    assert "2 messages put, 2 refused" in running.text()


def test_mqtt_3_1_1_is_served_too_without_retained_as_published(tmp_path, broker):
    client = connect(broker.port, "p")
    client.publish("a/old", b"kept", 1, True).wait_for_publish(120)
    with bridge(tmp_path, broker, "--filter", "a/#", "--mqtt", "3.1.1") as running:
        wait_until(lambda: len(running.commands()) == 1)
        client.publish("a/new", b"kept", 1, True).wait_for_publish(120)
        wait_until(lambda: len(running.commands()) == 2)
    disconnect(client)
    found = [mapping.to_mqtt(command.md, command.data)[0][0] for command in running.commands()]
    assert [(packet.topic, packet.retain) for packet in found] == [
        (b"a/old", True),
        (b"a/new", False),
    ]


def test_a_second_bridge_on_the_same_output_is_refused(tmp_path, broker):
    with bridge(tmp_path, broker) as running:
        wait_until(lambda: "connected" in running.text())
        other = BridgeProcess(
            tmp_path / "broker",
            "--broker",
            f"127.0.0.1:{broker.port}",
            "--lines",
            str(running.lines),
        )
        with other:
            assert other.wait() == 2 and "in use by another bridge" in other.text()


def test_a_broker_that_is_away_and_comes_back(tmp_path, broker):
    with bridge(tmp_path, broker, "--filter", "a/#") as running:
        wait_until(lambda: "subscribed" in running.text())
        broker.kill()
        wait_until(lambda: "connection lost" in running.text())
        broker.start()
        wait_until(lambda: running.text().count("subscribed") >= 2)
        client = connect(broker.port, "p")
        client.publish("a", b"x", 1).wait_for_publish(120)
        client.publish("a/1", b"x", 1).wait_for_publish(120)
        wait_until(lambda: ("a/1", b"x") in packets_of(running.commands()))
        disconnect(client)


def write_log(folder, count, start=0):
    writer = segments.SegmentWriter(folder, max_bytes=4000)
    for number in range(start, start + count):
        retain = number % 10 == 0
        writer.append(
            segments.encode_frame(
                1763694000000 + number, b"a/%d" % (number % 3), b"%d" % number, retain=retain
            )
        )
        writer.commit()
    writer.seal()


def drain(source):
    """Everything, acknowledged as it comes."""
    payloads = []
    while True:
        received = source.take(0)
        if not received:
            return payloads
        payloads += [incoming.publication.payload for incoming in received]
        source.ack(received)


def test_segments_are_bridged_from_where_the_last_run_ended(tmp_path):
    write_log(tmp_path / "log", 300)
    words = [
        "mq",
        "bridge",
        "--segments",
        str(tmp_path / "log"),
        "--lines",
        str(tmp_path / "publish.jsonl"),
        "--pub-time",
        "receive",
    ]
    for total in (300, 300, 450):
        if total == 450:
            write_log(tmp_path / "log", 150, 300)
        run_outpost(*words)
        commands = [
            storage.from_line(line)
            for line in (tmp_path / "publish.jsonl").read_text().splitlines()
        ]
        assert [payload for _, payload in packets_of(commands)] == [
            b"%d" % number for number in range(total)
        ]
    retained = [mapping.to_mqtt(command.md, command.data)[0][0].retain for command in commands]
    assert retained == [number % 10 == 0 for number in range(450)]
    assert (
        psc.read(parse(commands[12].data).folders()[0].text).first("PubTime") == "2025112103000001"
    )


def test_a_batch_of_segments_that_was_not_acknowledged_comes_again(tmp_path):
    write_log(tmp_path / "log", 700)
    source = sources.Segments(tmp_path / "log", tmp_path / "position", follow=False)
    first = source.take(0)
    again = sources.Segments(tmp_path / "log", tmp_path / "position", follow=False)
    assert [i.publication for i in again.take(0)] == [i.publication for i in first]
    assert drain(again) == [b"%d" % number for number in range(700)] and again.is_finished


def test_segments_that_are_deleted_before_they_were_put_are_told_once(tmp_path, capsys):
    """As by `outpost pipeline prune`; between the listing and the reading it was a traceback."""
    writer = segments.SegmentWriter(tmp_path / "log")
    for number in range(5):
        writer.append(segments.encode_frame(1, b"a", b"%d" % number))
        writer.commit()
        writer.seal()
    source = sources.Segments(tmp_path / "log", tmp_path / "position", follow=True)
    listed = segments.sealed_segments(tmp_path / "log")
    source.ack(source.take(0))
    for path in listed[1:3]:
        path.unlink()
    assert source._frames(listed[1], 1, len(segments.MAGIC)) == []
    for _ in range(2):
        (found,) = source.take(0)
        assert found.publication.payload == b"3"
    told = capsys.readouterr().err
    assert told.count("segments 1 to 2 are no longer there") == 1
    source.ack([found])
    assert source.take(0)[0].publication.payload == b"4"
    assert capsys.readouterr().err == ""


def test_segments_that_cannot_be_read_are_named(tmp_path):
    write_log(tmp_path / "log", 3)
    path = tmp_path / "log" / "segment-000000000000.seg"
    path.write_bytes(b"nonsense")
    source = sources.Segments(tmp_path / "log", tmp_path / "position", follow=False)
    with pytest.raises(ToolError, match="wrong magic"):
        drain(source)
    (tmp_path / "position").write_text("[]")
    with pytest.raises(ToolError, match="contains no position"):
        sources.Segments(tmp_path / "log", tmp_path / "position", follow=False)


@pytest.mark.parametrize("version", [1, 2])
def test_damage_in_a_segment_costs_its_message_and_is_told(tmp_path, version):
    """The bytes are kept in the list of refused messages; the exit status is 1."""
    write_log(tmp_path / "log", 3)
    path = tmp_path / "log" / "segment-000000000000.seg"
    if version == 1:
        encoded = [segments.encode_frame(n, b"a/0", b"%d" % n) for n in range(3)]
        path.write_bytes(segments.MAGIC_1 + b"".join(encoded))
    first, second, _ = segments.read_segment(path)
    data = bytearray(path.read_bytes())
    data[second.offset + 20] ^= 4
    path.write_bytes(data)
    words = ("--segments", tmp_path / "log", "--lines", tmp_path / "publish.jsonl")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run_outpost("mq", "bridge", *map(str, words))
    assert failed.value.returncode == 1 and b"1 message" in failed.value.stderr
    lines = (tmp_path / "publish.jsonl").read_text().splitlines()
    sent = packets_of([storage.from_line(line) for line in lines])
    assert [payload for _, payload in sent] == [b"0", b"2"]
    (refused,) = map(json.loads, (tmp_path / "refused.jsonl").read_text().splitlines())
    copy = base64.b64decode(refused["payload_base64"])
    assert refused["name"] == "damaged" and copy == data[first.end : second.end]
    run_outpost("mq", "bridge", *map(str, words))  # told once


def test_a_segment_whose_end_is_missing_is_told_once(tmp_path):
    write_log(tmp_path / "log", 3)
    path = tmp_path / "log" / "segment-000000000000.seg"
    path.write_bytes(path.read_bytes()[: list(segments.read_segment(path))[-1].end])
    source = sources.Segments(tmp_path / "log", tmp_path / "position", follow=False)
    received = source.take(0)
    assert [i.fault is None for i in received] == [True, True, True, False]
    assert "end is missing" in received[-1].fault.fault.text
    source.ack(received)
    assert source.take(0) == []


def test_a_payload_that_the_collector_cut_is_refused(tmp_path):
    writer = segments.SegmentWriter(tmp_path / "log")
    writer.append(segments.encode_frame(0, b"a", b"x" * 70_000))
    writer.seal()
    run_outpost(
        "mq", "bridge", "--segments", str(tmp_path / "log"), "--files", str(tmp_path / "out")
    )
    (refused,) = [
        json.loads(line) for line in (tmp_path / "out" / "refused.jsonl").read_text().splitlines()
    ]
    assert refused["name"] == "truncated" and list((tmp_path / "out").glob("*.mq")) == []


def test_segments_are_followed(tmp_path):
    write_log(tmp_path / "log", 3)
    source = sources.Segments(tmp_path / "log", tmp_path / "position", follow=True)
    assert len(drain(source)) == 3 and not source.is_finished
    write_log(tmp_path / "log", 2, 3)
    assert drain(source) == [b"3", b"4"]


class Noted:
    """A source of one batch, that notes its acknowledgement."""

    def __init__(self, events, *payloads):
        self._events = events
        self._batch = [
            Incoming(Publication(b"a", payload, 1, retain=not payload), 0, None)
            for payload in payloads
        ]
        self.is_finished = False

    def take(self, wait_s):
        batch, self._batch = self._batch, []
        self.is_finished = not batch
        return batch

    def ack(self, received):
        self._events.append("acknowledged")

    def idle(self):
        pass

    def close(self):
        pass


@pytest.mark.parametrize("kind", ["lines", "files"])
def test_fsync_comes_before_the_acknowledgement_also_of_what_is_refused(
    tmp_path, monkeypatch, kind
):
    events = []
    sink = (
        storage.JsonLines(tmp_path / "lines")
        if kind == "lines"
        else storage.Files(tmp_path / "files")
    )
    refused = storage.Lines(tmp_path / "refused")
    real = os.fsync

    def fsync(handle):
        real(handle)
        events.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)

    monkeypatch.setattr(os, "fsync", fsync)
    assert Bridge(Noted(events, b"1", b""), sink, refused, Options()).run() == 0
    wanted = {"lines": ["lines"], "files": ["000000000001.md.json", "000000000001.part", "files"]}[
        kind
    ]
    assert events == [*wanted, "refused", "acknowledged"]


def outgoing(*payloads):
    return [mapping.to_mq(Publication(b"a", payload, 1), Options()) for payload in payloads]


def test_lines_cut_what_a_kill_tore_and_go_on(tmp_path):
    path = tmp_path / "lines"
    sink = storage.JsonLines(path)
    sink.put(outgoing(b"1", b"2"))
    sink.close()
    whole = path.read_bytes()
    for torn in (b'{"queue"', b"x" * 200_000):
        path.write_bytes(whole + torn)
        sink = storage.JsonLines(path)
        sink.close()
        assert path.read_bytes() == whole
    path.write_bytes(b"x" * 100)
    sink = storage.JsonLines(path)
    sink.put(outgoing(b"3"))
    sink.close()
    assert [storage.from_line(line) for line in path.read_text().splitlines()] == outgoing(b"3")


def test_a_write_that_fails_is_undone_and_said(tmp_path, monkeypatch):
    sink = storage.JsonLines(tmp_path / "lines")
    sink.put(outgoing(b"1"))
    monkeypatch.setattr(
        os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(storage.SinkError, match="No space left"):
        sink.put(outgoing(b"2"))
    monkeypatch.undo()
    sink.put(outgoing(b"3"))
    sink.close()
    found = [storage.from_line(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert found == outgoing(b"1", b"3")


def test_files_are_numbered_on_and_whole(tmp_path):
    for payloads in ((b"1", b"2"), (b"3",)):
        (tmp_path / "000000000009.part").write_bytes(b"torn")
        sink = storage.Files(tmp_path)
        sink.put(outgoing(*payloads))
        sink.close()
    names = sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".mq", ".part"))
    assert names == ["000000000001.mq", "000000000002.mq", "000000000003.mq"]
    third = outgoing(b"3")[0]
    assert (tmp_path / "000000000003.mq").read_bytes() == third.data
    described = json.loads((tmp_path / "000000000003.md.json").read_text())
    assert described == {"queue": third.queue, "md": third.md.to_json()}
