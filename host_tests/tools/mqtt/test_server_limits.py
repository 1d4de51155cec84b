# cpython-only: tests the desktop tools
"""What a broker's CONNACK does not allow is not done, and said once: collector, republisher,
monitor, send, against mosquitto with limits and against a scripted broker of MQTT 5.0."""

import socket
import threading
import time
from contextlib import contextmanager

import paho.mqtt.client as mqtt
import pytest

from collector_process import TOPIC, Process, connect, payload, wait_until
from outpost_tools.boards.monitor import following
from outpost_tools.boards.send.line import Access, Line
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.mqtt import server_limits
from outpost_tools.servers.collect.link import Link
from outpost_tools.servers.collect.shares import ShareQuestion
from outpost_tools.servers.republish import link as republish_link
from outpost_tools.servers.republish.topics import Topics
from outpost_tools.terminal.ending import Ending
from real_broker import need_mosquitto

HOST = "127.0.0.1"
TOPICS = Topics("outpost")
NO_RETAIN, NO_QOS = "retain_available false\n", "max_qos 0\n"


@contextmanager
def limited(folder, line):
    """mosquitto with one more line: for all listeners, or for the one that it names."""
    need_mosquitto()
    port = children.free_port()
    listener = f"listener {port} {HOST}\nallow_anonymous true\n"
    lines = listener + line if line == NO_QOS else line + listener
    with Broker("mosquitto", folder, more_listeners=lines) as broker:
        broker.limited = port
        yield broker


def served(connection, condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        connection.take(0.1)


# --- mosquitto ---


@pytest.mark.parametrize("options", [(), ("--level", "5")])
def test_a_broker_without_retain_is_served_and_the_way_out_is_named(tmp_path, options):
    """Without the mend: 13 connections in 20 s, and "another client seems to use the id"."""
    with (
        limited(tmp_path / "broker", NO_RETAIN) as broker,
        Process(tmp_path, broker.limited, options=options) as collector,
    ):
        collector.wait_subscribed()
        told = connect(broker, "watcher")
        words = []
        told.on_message = lambda _client, _data, one: words.append(one.payload)
        told.subscribe("outpost/+/durable")
        board = connect(broker, "board")
        for seq in range(5):
            board.publish(TOPIC, payload(seq), qos=1)
        wait_until(lambda: words and words[-1].endswith(b" 4"))
        wait_until(lambda: "it takes no retained messages" in collector.text())
        assert collector.terminate() == 0
        text = collector.text()
    assert "--confirmation queued" in text and text.count("no retained messages") == 1
    assert "another client" not in text and text.count("connection lost") <= 4, text


def republisher(port):
    return republish_link.Link((HOST, port), "republisher", TOPICS, "homeassistant")


@pytest.mark.parametrize("line", [NO_RETAIN, NO_QOS])
def test_a_will_that_is_refused_goes_out_as_the_broker_takes_it(tmp_path, line, capsys):
    """Without the mend: refused for ever, over 3.1.1 without any line."""
    with limited(tmp_path / "broker", line) as broker:
        one = republisher(broker.limited)
        served(one, lambda: one.connected)
        heard = []
        watcher = connect(broker, "watcher")
        watcher.on_message = lambda _client, _data, found: heard.append(found.payload)
        watcher.subscribe("outpost/#")
        time.sleep(0.2)
        one.publish([("outpost/kitchen/latest/x", b"1")])
        served(one, lambda: heard)
        assert heard == [b"1"] and one.connected
        one.close()
    said = capsys.readouterr().err
    assert ("no retained messages" in said) is (line == NO_RETAIN)
    assert ("allow RETAIN there" in said) is (line == NO_RETAIN)


def test_what_is_longer_than_the_brokers_limit_is_not_sent_and_said(tmp_path, capsys):
    with limited(tmp_path / "broker", "max_packet_size 200\n") as broker:
        one = Link(HOST, broker.limited, "c1", "outpost", version=mqtt.MQTTv5)
        served(one, lambda: one.connected)
        for _ in range(3):
            one.publish([("outpost/kitchen/durable", b"x" * 300), ("outpost/b/durable", b"1")])
        for _ in range(5):
            one.take(0.1)
        assert one.connected
        one.close()
    said = capsys.readouterr().err
    assert said.count("maximum packet size is 200 bytes") == 1 and "kitchen/durable" in said


def test_a_subscription_of_qos_0_is_said(tmp_path, capsys):
    with limited(tmp_path / "broker", NO_QOS) as broker:
        one = Link(HOST, broker.limited, "c1", "outpost")
        said = []
        served(one, lambda: said.append(capsys.readouterr().err) or "QoS 0 alone" in "".join(said))
        one.close()


# --- A scripted broker of 5.0 ---


class Limited:
    """Accepts any client with these properties in its CONNACK, and keeps what it sends."""

    def __init__(self, properties):
        self._connack = bytes((0x20, 3 + len(properties), 0, 0, len(properties))) + properties
        self._server = socket.create_server((HOST, 0))
        self.port = self._server.getsockname()[1]
        self.received = b""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            threading.Thread(
                target=self._serve, args=self._server.accept()[:1], daemon=True
            ).start()

    def _serve(self, link):
        link.recv(1000)
        link.sendall(self._connack)
        while data := link.recv(10_000):
            self.received += data


def level_5(connection):
    """As after a broker that closed on 3.1.1."""
    connection._speak(mqtt.MQTTv5)
    return connection


NO_WILDCARD, NO_SHARED = b"\x28\x00", b"\x2a\x00"


def test_a_collector_of_a_broker_without_wildcards_subscribes_to_nothing(capsys):
    server = Limited(NO_WILDCARD)
    one = Link(HOST, server.port, "c1", "outpost", version=mqtt.MQTTv5)
    served(one, lambda: one.connected)
    one.take(0.2)
    assert "no wildcard subscriptions" in capsys.readouterr().err
    assert b"outpost/+/data" not in server.received and one.refused == 1
    one._drop()


def test_a_collector_of_a_broker_without_shared_subscriptions_says_leave_share_out(capsys):
    server = Limited(NO_SHARED)
    words = (HOST, server.port), "c1", "outpost"
    question = ShareQuestion(*words, version=mqtt.MQTTv5)
    began = time.monotonic()
    assert question.ask(Ending()) is None and time.monotonic() - began < ShareQuestion.answer_s + 2
    assert "leave --share out" in capsys.readouterr().err and b"$share" not in server.received


def test_a_republisher_and_a_monitor_obey_the_wildcards(capsys):
    server = Limited(NO_WILDCARD)
    one = level_5(republisher(server.port))
    served(one, lambda: one.connected)
    one.take(0.2)
    assert b"outpost/+" not in server.received and not one._asked
    source = following.Source((HOST, server.port), "outpost", "+", "", None, None, mqtt.MQTTv5)
    other = following.Follower(source, print)
    served(other, lambda: other.connected)
    other.take(0.2)
    assert b"outpost/+" not in server.received
    assert capsys.readouterr().err.count("no wildcard subscriptions") == 2


def test_no_more_messages_are_in_flight_than_the_broker_takes():
    server = Limited(b"\x21\x00\x02")
    one = Link(HOST, server.port, "c1", "outpost", version=mqtt.MQTTv5, is_queued=True)
    served(one, lambda: one.connected)
    one.publish([(f"outpost/b{n}/durable", b"%d" % n) for n in range(6)])
    served(one, lambda: server.received.count(b"/durable") >= 2)
    one.take(0.3)
    assert server.received.count(b"/durable") == 2
    one._drop()


def test_queued_confirmations_of_a_broker_with_qos_0_go_out_as_such(capsys):
    server = Limited(b"\x24\x00")
    one = Link(HOST, server.port, "c1", "outpost", version=mqtt.MQTTv5, is_queued=True)
    served(one, lambda: one.connected)
    one.publish([("outpost/b1/durable", b"1")])
    served(one, lambda: b"/durable" in server.received)
    at = server.received.index(b"outpost/b1/durable")
    assert server.received[at - 4] == 0x30 and one.everything_written
    assert "maximum QoS is 0" in capsys.readouterr().err
    one._drop()


def test_a_command_longer_than_the_brokers_limit_is_not_sent_and_ends_it(capsys):
    server = Limited(b"\x27\x00\x00\x00\x64")
    one = level_5(Line(Access((HOST, server.port)), ["b1"], lambda: None, print))
    one.open()
    served(one, lambda: one.connected)
    one.publish("b1", b"x" * 200)
    with pytest.raises(ToolError, match="nothing was sent"):
        one.turn()
    assert b"xxx" not in server.received
    assert "maximum packet size is 100 bytes" in capsys.readouterr().err


def test_a_server_of_3_1_1_states_no_limits():
    assert server_limits.of(None) == server_limits.ServerLimits()
