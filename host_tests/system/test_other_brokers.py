# cpython-only: starts real brokers, lets MicroPython talk to them, with paho as the other end
"""Brokers beside mosquitto: amqtt, NATS with one node and with three. What is exact over which;
tools/BROKERS.md has the table, and names these tests.
"""

import importlib.util
import time
import uuid

import pytest

from exact_fleet import Run, assert_exact
from outpost_tools.common.broker import ANY_USER, open_broker
from outpost_tools.common.interpreters import find_nats
from real_broker import Observer, device, micropython, run, wait_for

COUNT = 40  # more than the window, and than the identifiers that QoS 2 keeps
ARCHITECTURE = "i386"


def missing(kind: str) -> bool:
    return importlib.util.find_spec("amqtt") is None if kind == "amqtt" else find_nats() is None


def opened(kind, folder):
    if missing(kind):
        pytest.skip(f"missing: {kind}; run `make setup`")
    micropython(ARCHITECTURE)
    return open_broker(kind, folder)


@pytest.fixture(scope="module", params=["amqtt", "nats", "nats3"])
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
    steps = [["connect"], ["subscribe", [[name, qos]]], ["take", COUNT], ["close"]]
    with observer(broker) as other:
        with board(broker, tmp_path / name, steps) as one:
            one.wait_line("filters")
            other.publish(name, [str(number) for number in range(COUNT)], qos)
            lines = one.finish()
    assert [payload for _, payload, _, _ in lines[2]["messages"]] == [str(n) for n in range(COUNT)]
