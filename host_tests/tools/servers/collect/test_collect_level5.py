# cpython-only: runs a desktop tool as a process, against real mosquitto
"""`outpost collect --level 5`: kills, what messages say of themselves, a group, brokers without."""

import json
import socket
from contextlib import closing

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from collector_process import (
    TOPIC,
    Process,
    Watcher,
    connect,
    disconnect,
    mosquitto,
    payload,
    wait_until,
)
from outpost_tools.log import collector_notes, segments
from outpost_tools.mqtt.packets import MalformedError
from outpost_tools.readings.pipeline import exact
from outpost_tools.servers.collect.link import BATCH, Link
from outpost_tools.servers.collect.oddities import Oddities
from packets5 import carried, frame, sample

_ = mosquitto  # a fixture
LEVEL_5 = ["--level", "5"]
USER = b"\x26\x00\x04site\x00\x05north"
EXPIRY = b"\x02\x00\x00\x00\x3c"


def started(collector):
    collector.wait_subscribed()


def board_5(broker):
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, client_id="boards-5", protocol=mqtt.MQTTv5
    )
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    return client


def said(**values):
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


def test_kills_lose_nothing_and_the_session_waits(tmp_path, mosquitto):
    """What boards publish while it is dead comes after the restart: session expiry."""
    with Process(tmp_path, mosquitto.port, options=LEVEL_5) as collector:
        started(collector)
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        for seq in range(200):
            board.publish(TOPIC, payload(seq), qos=1)
            if seq in (50, 120):
                collector.kill()
            if seq in (90, 180):
                collector.start()
        wait_until(lambda: watcher.numbers("b1")[-1:] == [199])
        assert collector.terminate() == 0
        assert set(collector.payloads()) == {payload(seq) for seq in range(200)}
        assert "session resumed" in collector.text()
        disconnect(watcher.client, board)


def test_what_messages_say_of_themselves(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port, options=LEVEL_5) as collector:
        started(collector)
        board, watcher = board_5(mosquitto), Watcher(mosquitto)
        board.publish(TOPIC, payload(0), 1, properties=said(UserProperty=("site", "north")))
        odd = said(UserProperty=("site", "north"), ContentType="text/plain")
        board.publish(TOPIC, b"no message", 1, properties=odd)
        board.publish(TOPIC, payload(1), 1, properties=said(MessageExpiryInterval=60))
        board.publish(TOPIC, payload(2), 1, properties=said(MessageExpiryInterval=60))
        wait_until(lambda: watcher.numbers("b1")[-1:] == [2])
        assert collector.terminate() == 0
        assert collector.text().count("messages expire, this one in") == 1
        frames = collector.frames()
        disconnect(watcher.client)
        board.disconnect()
    assert [f.payload for f in frames if f.topic == TOPIC.encode()] == [
        payload(0), b"no message", payload(1), payload(2),
    ]  # fmt: skip
    rows = [row for one in frames for row in exact.frame_rows(one, "c1", 0)]
    notes = [row for row in rows if collector_notes.REASONS[collector_notes.PROPERTIES] in row]
    assert len(notes) == 1, "of the one that names no number"
    note = json.loads(next(one for one in notes[0] if isinstance(one, bytes)))
    assert note["topic"] == TOPIC and note["user"] == [["site", "north"]]
    assert note["others"] == {"0x03": "text/plain"}


def test_a_group_shares_and_one_retires(tmp_path, mosquitto):
    share = [*LEVEL_5, "--share", "fleet"]
    with (
        Process(tmp_path, mosquitto.port, options=share) as first,
        Process(tmp_path, mosquitto.port, options=share, name="c2") as second,
    ):
        started(first), started(second)
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        for seq in range(100):
            board.publish(TOPIC, payload(seq), qos=1)
        wait_until(lambda: watcher.numbers("b1")[-1:] == [99])
        assert second.terminate() == 0
        stored = first.payloads() + second.payloads()
        assert {payload(seq) for seq in range(100)} <= set(stored)
        assert second.payloads(), "it had its part"
        retiring = Process(tmp_path, mosquitto.port, options=[*share, "--retire"], name="c2")
        with retiring:
            wait_until(lambda: not retiring.alive)
            assert retiring.status == 0, retiring.text()
        disconnect(watcher.client, board)


@pytest.fixture
def ends():
    """(a link of MQTT 5 that believes to be connected, the server's end)."""
    ours, theirs = socket.socketpair()
    link = Link("127.0.0.1", 1, "c1", "outpost", version=mqtt.MQTTv5)
    ours.setblocking(False)
    link._client._begin_with(b"", 0)
    link._client._sock, link.connected = ours, True
    link._connection += 1
    theirs.settimeout(10)
    with closing(theirs):
        yield link, theirs
    link._drop()


def message(properties, data=b"no message"):
    topic = TOPIC.encode()
    head = len(topic).to_bytes(2, "big") + topic + b"\0\7"
    return frame(0x32, head + bytes((len(properties),)) + properties + data)


def test_payloads_are_stored_without_their_properties(ends):
    link, server = ends
    server.sendall(message(b"") + message(USER + EXPIRY))
    batch = link.take(1)
    frames = list(segments.scan(segments.sealed_bytes(batch.frames)))
    assert [one.payload for one in frames[:2]] == [b"no message"] * 2
    assert len(frames) == 3 and b"north" in frames[2].payload
    assert link.oddities.expiring == 1 and len(batch.packet_ids) == 2
    link.publish([("outpost/b1/durable", b"word")])
    link._client.loop_write()
    assert server.recv(100) == b"\x31\x19\0\x12outpost/b1/durable\0word"


@pytest.mark.parametrize("properties", [b"\x26\x00\x09x", b"\x11\x00\x00\x00\x00", b"\x04\x00"])
def test_what_no_server_may_say_ends_the_connection(ends, properties):
    link, server = ends
    server.sendall(message(properties))
    assert not link.take(1) and not link.connected


def test_topics_that_are_not_stored_are_no_oddities():
    found = Oddities("outpost", "c1")
    found.add(b"outpost/collectors/fleet/c2", b"x", EXPIRY)
    assert (found.expiring, found.take()) == (0, [])
    with pytest.raises(MalformedError):
        found.add(TOPIC.encode(), b"x", EXPIRY[:3])


def test_connect_asks_for_a_batch_at_most_and_a_session_that_stays():
    link = Link("127.0.0.1", 1, "c1", "outpost", version=mqtt.MQTTv5)
    found = link._session()
    assert found["clean_start"] is False
    assert found["properties"].ReceiveMaximum == BATCH.messages
    assert found["properties"].SessionExpiryInterval == 0xFFFFFFFF


def test_a_broker_that_speaks_no_5_is_named(capsys):
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        link = Link("127.0.0.1", port, "c1", "outpost", version=mqtt.MQTTv5)
        link.take(0.1)
        theirs, _address = server.accept()
        with closing(theirs):
            theirs.sendall(b"\x20\x02\x00\x01")
            link.take(1)
            link.take(1)
        assert "leave --level 5 out" in capsys.readouterr().err
        link._drop()


def test_the_samples_are_what_a_server_sends():
    assert carried("PUBLISH", sample(0x26))[0] == 0x32
