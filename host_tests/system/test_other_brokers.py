# cpython-only: starts real brokers, lets MicroPython talk to them, with paho as the other end
"""Brokers beside mosquitto: amqtt, NATS with one node and with three. What is exact over which;
tools/BROKERS.md has the table. With BROKERS=all (`make brokers`) the three nodes too, which take
two minutes. The other rows and columns of that table:

- mosquitto: test_real_broker.py (each QoS both ways, session, retained messages, will, levels);
  a killed broker in collector mode: test_collect_loss.py
- MQTT 5.0: test_level5_broker.py, test_collect_level5.py; `make demo LEVEL=5`
- shared subscriptions: test_collect_kills.py
- broker mode, broker killed: host_tests/bench/broker_drops.py
- amqtt's corrections: test_simulate_broker.py; mosquitto's share after a restart, and an ACL file:
  test_broker_rights.py
"""

import importlib.util
import os
import signal
import time
import uuid

import pytest

from collector_process import Process
from exact_fleet import Run, assert_exact
from outpost_tools.loopback.broker import ANY_USER
from outpost_tools.loopback.brokers import open_broker
from outpost_tools.machine.interpreters import find_mosquitto, find_nats
from real_broker import Observer, device, micropython, run, wait_for

KINDS = ["amqtt", "nats", *(["nats3"] if os.environ.get("BROKERS") == "all" else [])]
COUNT = 40  # more than the window
AT_ONCE = 32  # identifiers of QoS 2 that a board keeps; amqtt does not send again what is beyond
ARCHITECTURE = "i386"


def missing(kind: str) -> bool:
    if kind == "amqtt":
        return importlib.util.find_spec("amqtt") is None
    return (find_mosquitto if kind == "mosquitto" else find_nats)() is None


def opened(kind, folder):
    if missing(kind):
        pytest.skip(f"missing: {kind}; run `make setup`")
    micropython(ARCHITECTURE)
    return open_broker(kind, folder)


@pytest.fixture(scope="module", params=KINDS)
def broker(request, tmp_path_factory):
    """For the tests that leave it alone."""
    with opened(request.param, tmp_path_factory.mktemp(request.param)) as broker:
        yield broker


@pytest.fixture
def name():
    """A client id and topic of this test alone: the broker is shared."""
    return f"board-{uuid.uuid4().hex[:12]}"


def observer(broker, *filters, name="o", **options):
    return Observer(broker.port, f"{uuid.uuid4().hex}-{name}", *filters, user=ANY_USER, **options)


def board(broker, folder, steps, **client):
    settings = {"broker_port": broker.port}
    return device(ARCHITECTURE, folder, settings, steps, user=ANY_USER, **client)


def run_board(broker, folder, steps, **client):
    settings = {"broker_port": broker.port}
    return run(ARCHITECTURE, folder, settings, steps, user=ANY_USER, **client)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_out(broker, name, tmp_path, qos):
    steps = [["connect"], ["publish", name, COUNT, qos], ["close"]]
    with observer(broker, (name, 1)) as other:
        counters = run_board(broker, tmp_path / name, steps)[-1]
        other.wait(COUNT)
        time.sleep(0.1)
    assert other.numbers() == list(range(COUNT))
    assert (counters["connects"], counters["redelivered"], counters["held"]) == (1, 0, 0)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_in(broker, name, tmp_path, qos):
    """The board is slow, so that the broker may send all of them at once; amqtt does."""
    count = AT_ONCE if qos == 2 else COUNT
    steps = [["connect"], ["subscribe", [[name, qos]]], ["take", count], ["close"]]
    with observer(broker) as other:
        with board(broker, tmp_path / name, steps) as one:
            one.wait_line("filters")
            one.process.send_signal(signal.SIGSTOP)
            other.publish(name, [str(number) for number in range(count)], qos)
            time.sleep(0.1)
            one.process.send_signal(signal.SIGCONT)
            lines = one.finish()
    assert [payload for _, payload, _, _ in lines[2]["messages"]] == [str(n) for n in range(count)]


@pytest.mark.parametrize("kind", ["mosquitto", *(["nats", "nats3"] if "nats3" in KINDS else [])])
def test_a_backlog_of_qos_2_is_taken_once_each(kind, tmp_path):
    """All of it is handed out at once. What the client passes over NATS sends again after
    `ack_wait`.
    """
    count = 100
    with opened(kind, tmp_path / "broker") as broker:
        run_board(broker, tmp_path / "board", [["connect"], ["subscribe", [["t", 2]]], ["close"]])
        with observer(broker) as other:
            other.publish("t", [str(number) for number in range(count)], 2)
        lines = run_board(broker, tmp_path / "board", [["connect"], ["take", count], ["close"]])
    payloads = [payload for _, payload, _, _ in lines[1]["messages"]]
    assert sorted(payloads, key=int) == [str(number) for number in range(count)]


def test_a_session_keeps_messages_and_retained_ones_come_on_subscribe(broker, name, tmp_path):
    """amqtt sends a retained message more than once."""
    steps = [["connect"], ["subscribe", [[f"{name}/+", 1]]], ["close"]]
    run_board(broker, tmp_path / name, steps)
    with observer(broker) as other:
        other.publish(f"{name}/away", [str(number) for number in range(COUNT)], 1)
        other.publish(f"{name}/kept", ["old", "new"], 1, retain=True)
    second = run_board(broker, tmp_path / name, [["connect"], ["take", COUNT + 2], ["close"]])
    assert second[0]["session_present"] is True
    away = [payload for topic, payload, _, _ in second[1]["messages"] if topic.endswith("away")]
    assert away == [str(number) for number in range(COUNT)]
    with observer(broker, (f"{name}/kept", 1)) as late:
        late.wait(1)
    assert {(one.payload, one.retain) for one in late.messages} == {("new", True)}


def test_the_will_comes_when_the_process_is_killed(broker, name, tmp_path):
    with observer(broker, (name, 1)) as other:
        will = [name, "gone", 1, False]
        with board(broker, tmp_path / name, [["connect"], ["idle", 60_000]], will=will) as one:
            one.wait_line("connected")
            one.kill()
            wait_for(lambda: name in [message.topic for message in other.messages], "the will")
    # amqtt sends the retained messages of other topics as well
    assert [one.payload for one in other.messages if one.topic == name] == ["gone"]


def collector_and_broker_away(broker):
    """As disasters of the demo: the broker has a backlog for the collector when it dies."""

    def disaster(run):
        run.collectors[0].kill()
        time.sleep(0.5)
        broker.strike()
        broker.start()
        run.collectors[0].start()

    return disaster


@pytest.mark.parametrize("kind", KINDS)
def test_collector_mode_is_exact_over_a_broker_that_is_killed(kind, tmp_path):
    """Of nats3 one node of three."""
    with opened(kind, tmp_path / "broker") as broker:
        account = Run(tmp_path, broker.port).play((1.5, collector_and_broker_away(broker)))
    assert_exact(account)


@pytest.mark.parametrize("kind", KINDS if "nats3" in KINDS else ["nats"])
def test_collector_mode_is_exact_without_retained_messages(kind, tmp_path):
    with opened(kind, tmp_path / "broker") as broker:
        run = Run(
            tmp_path,
            broker.port,
            settings={"confirmation": "queued"},
            options=("--confirmation", "queued"),
        )
        account = run.play((1.5, collector_and_broker_away(broker)))
    assert_exact(account)


@pytest.mark.parametrize("kind", ["nats", *(["nats3"] if "nats3" in KINDS else [])])
def test_broker_mode_loses_nothing_where_the_broker_keeps_its_queue(kind, tmp_path):
    """NATS killed while a board publishes to a subscriber with a session; what was on its way may
    come twice, and later than what follows it. Not QoS 2: NATS was seen to send PUBREC, to be
    killed while it had PUBREL, and to answer the next PUBREL with PUBCOMP, for messages that it did
    not deliver.
    """
    count = 600
    with opened(kind, tmp_path / "broker") as broker:
        steps = [["connect"], ["publish", "up", count, 1], ["close"]]
        with (
            observer(broker, ("up", 1), name="kill", clean=False) as other,
            board(broker, tmp_path / "board", steps) as one,
        ):
            other.wait(100)
            broker.strike()
            broker.start()
            counters = one.finish()[-1]
            until = time.monotonic() + 60
            while len(set(other.numbers())) < count and time.monotonic() < until:
                time.sleep(0.1)
        assert sorted(set(range(count)) - set(other.numbers())) == []
    assert (counters["acknowledged"], counters["held"]) == (count, 0)


def test_a_collector_says_that_nats_has_no_shared_subscriptions(tmp_path):
    """It grants them like any topic, and nothing comes."""
    with opened("nats", tmp_path / "broker") as broker:
        with Process(tmp_path, broker.port, options=("--share", "fleet")) as collector:
            wait_for(lambda: "subscribed to" in collector.text(), "a subscription")
            assert "nothing came back on a shared subscription" in collector.text()
            assert "leave --share out" in collector.text()
