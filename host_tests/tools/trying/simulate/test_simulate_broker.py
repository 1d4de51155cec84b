# cpython-only: tests a desktop tool
"""The brokers of tests and demo: all keep an absent collector's messages, and come back on their
port; three nodes of NATS are one broker.
"""

import importlib.util
import os
import socket

import paho.mqtt.client as mqtt
import pytest

from collector_process import LIMIT_S, wait_until
from outpost_tools.loopback import nats
from outpost_tools.loopback.broker import ANY_USER, Broker, BrokerError
from outpost_tools.loopback.brokers import open_broker
from outpost_tools.machine.interpreters import find_mosquitto, find_nats
from scripted_server import encode


def opened(kind, folder):
    here = {"mosquitto": find_mosquitto, "nats": find_nats, "nats3": find_nats}.get(
        kind, lambda: importlib.util.find_spec("amqtt")
    )
    if not here():
        pytest.skip(f"missing: {kind}; run `make setup`")
    return open_broker(kind, folder)


@pytest.fixture(params=["mosquitto", "amqtt", "nats"])
def broker(request, tmp_path):
    with opened(request.param, tmp_path / "broker") as broker:
        yield broker


def test_three_nodes_answer_while_one_of_them_is_dead(tmp_path):
    """Each is struck in its turn, and start() brings it back."""
    if os.environ.get("BROKERS") != "all":
        pytest.skip("optional: three nodes take half a minute; `make brokers` runs them")
    with opened("nats3", tmp_path) as cluster:
        assert [node.is_running for node in cluster.nodes] == [True] * 3
        for dead in (0, 1):
            cluster.strike()
            assert [node.is_running for node in cluster.nodes].index(False) == dead
            disconnect(connect(cluster, f"someone-{dead}"))
            cluster.start()
        assert all(node.is_running for node in cluster.nodes)
    assert not any(node.is_running for node in cluster.nodes)


def test_the_recommended_configuration_of_nats_is_what_runs(tmp_path):
    """With other names and addresses; one node has nothing of a cluster."""
    recommended = nats.RECOMMENDED.read_text()
    one = nats.configuration(tmp_path, "nats-1", 1884, [])
    three = nats.configuration(tmp_path, "nats-2", 1884, [7001, 7002, 7003])
    for line in ('ack_wait: "5s"', "max_ack_pending: 1024", 'sync_interval: "2m"'):
        assert line in recommended and line in one and line in three
    assert 'listen: "127.0.0.1:1884"' in one and f'store_dir: "{tmp_path}"' in one
    assert "  stream_replicas: 3" in three and "  stream_replicas: 3" not in one
    assert "cluster {" in three and "cluster {" not in one
    assert 'routes: ["nats-route://127.0.0.1:7002", "nats-route://127.0.0.1:7003"]' in three


def connect(broker, name, received=None):
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=received is None
    )
    client.username_pw_set(ANY_USER)
    client.max_inflight_messages_set(500)
    if received is not None:
        client.on_message = lambda _c, _u, message: received.append(message.payload)
        client.on_connect = lambda c, _u, _f, _r, _p: c.subscribe("a/#", qos=1)
        client.on_subscribe = lambda *_: received.append("subscribed")
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    return client


def disconnect(client):
    client.disconnect()
    client.loop_stop()


def test_more_than_the_default_queue_is_kept_for_an_absent_subscriber(broker):
    received = []
    subscriber = connect(broker, "absent", received)
    wait_until(lambda: received == ["subscribed"])
    disconnect(subscriber)
    publisher = connect(broker, "publisher")
    sent = [b"%d" % n for n in range(1500)]  # mosquitto's default keeps 1,000
    for payload in sent:
        last = publisher.publish("a/b", payload, qos=1)
    last.wait_for_publish(LIMIT_S)
    subscriber = connect(broker, "absent", received)
    # NATS sends again, and so out of order, what a slow machine has not acknowledged in time
    wait_until(lambda: {*sent} <= {*received})
    assert {*received} == {*sent, "subscribed"}
    disconnect(subscriber)
    disconnect(publisher)


@pytest.mark.long
def test_each_publishers_order_is_kept_for_an_absent_subscriber(broker):
    """amqtt lets what is new overtake what is queued."""
    received = []
    subscriber = connect(broker, "absent", received)
    wait_until(lambda: received == ["subscribed"])
    disconnect(subscriber)
    publishers = [connect(broker, f"publisher-{n}") for n in range(16)]
    sent = [[b"%d %d" % (who, n) for n in range(300)] for who in range(len(publishers))]
    for payloads in zip(*sent, strict=True):
        pairs = zip(publishers, payloads, strict=True)
        last = [publisher.publish("a/b", payload, qos=1) for publisher, payload in pairs]
    for one in last:
        one.wait_for_publish(LIMIT_S)
    subscriber = connect(broker, "absent", received)
    wait_until(lambda: len(received) >= 2 + 16 * 300)
    by_publisher = [[] for _ in sent]
    for payload in received:
        if payload != "subscribed":
            by_publisher[int(payload.split()[0])].append(payload)
    assert by_publisher == sent
    for client in (subscriber, *publishers):
        disconnect(client)


def send_and_leave(broker, packets, keep_alive_s=60):
    """All in one piece, as a board that reports and closes; nothing is acknowledged. A client need
    not wait for CONNACK [MQTT 3.1.1 §3.1.4]."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=LIMIT_S) as link:
        user = ANY_USER.encode()
        hello = encode("CONNECT", client_id=b"leaves", user=user, keep_alive=keep_alive_s)
        link.sendall(hello + b"".join(packets))
        link.shutdown(socket.SHUT_WR)
        while link.recv(4096):
            pass


SENT = [b"%d" % n for n in range(40)]


def publishes(qos):
    return [
        encode("PUBLISH", topic=b"a/b", payload=payload, qos=qos, packet_id=packet_id)
        for packet_id, payload in enumerate(SENT, 1)
    ]


@pytest.mark.parametrize("goodbye", [[], ["DISCONNECT"]], ids=["end", "DISCONNECT"])
@pytest.mark.parametrize("keep_alive_s", [0, 60])
@pytest.mark.parametrize("qos", [0, 1])
def test_what_a_client_sent_before_it_left_is_delivered(broker, qos, keep_alive_s, goodbye):
    """amqtt delivered one message, with Python 3.12 and newer or without a keep alive."""
    received = []
    subscriber = connect(broker, "stays", received)
    wait_until(lambda: received == ["subscribed"])
    send_and_leave(broker, [*publishes(qos), *map(encode, goodbye)], keep_alive_s)
    wait_until(lambda: len(received) > len(SENT))
    assert received[1:] == SENT
    disconnect(subscriber)


def test_what_a_client_sent_is_delivered_though_it_acknowledges_nothing(broker):
    """amqtt waits for PUBACK of a retained message before it passes on what comes meanwhile."""
    received = []
    subscriber = connect(broker, "stays", received)
    wait_until(lambda: received == ["subscribed"])
    subscriber.publish("kept", b"retained", qos=1, retain=True).wait_for_publish(LIMIT_S)
    subscribe = encode("SUBSCRIBE", packet_id=100, filters=[(b"kept", 1)])
    send_and_leave(broker, [subscribe, *publishes(1), encode("DISCONNECT")])
    wait_until(lambda: len(received) > len(SENT))
    assert received[1:] == SENT
    disconnect(subscriber)


def test_a_killed_broker_comes_back_on_its_port(broker):
    port = broker.port
    broker.kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    broker.start()
    assert broker.port == port
    disconnect(connect(broker, "someone"))


def test_only_loopback_is_listened_on(broker):
    listening = f"{broker.port:04X}"
    with open("/proc/net/tcp") as table:
        addresses = [line.split()[1] for line in table if line.split()[1].endswith(":" + listening)]
    assert {address.split(":")[0] for address in addresses} == {"0100007F"}


def test_a_broker_that_ends_at_once_is_reported_with_its_words(tmp_path):
    broker = Broker("mosquitto", tmp_path, executable=["sh", "-c", "echo no such thing; exit 3"])
    with pytest.raises(BrokerError, match="mosquitto ended with status 3:\nno such thing"):
        broker.start()


def test_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(BrokerError, match="choose one of: mosquitto, amqtt"):
        Broker("rabbit", tmp_path)
