# cpython-only: starts a broker
"""MQTT 5.0 against a real mosquitto: its limits, its sessions over a board's reset, an alias; over
power cuts, boards and a collector.
"""

import uuid

import pytest

from exact_fleet import Run, assert_exact
from outpost_tools.loopback.broker import Broker
from real_broker import Observer, need_mosquitto, run

LIMITS = "max_packet_size 200\n"
ARCHITECTURE = "i386"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """mosquitto tells its longest packet and its aliases in CONNACK, and no receive maximum."""
    need_mosquitto()
    with Broker("mosquitto", tmp_path_factory.mktemp("limits"), more_listeners=LIMITS) as broker:
        yield broker


class OneAtATime(Broker):
    """Takes one unanswered message at a time, and says so: receive maximum 1."""

    def _command(self):
        command = super()._command()
        path = self.directory / "mosquitto.conf"
        text = path.read_text()
        assert "max_inflight_messages 0" in text
        path.write_text(text.replace("max_inflight_messages 0", "max_inflight_messages 1"))
        return command


@pytest.fixture(scope="module")
def narrow_broker(tmp_path_factory):
    need_mosquitto()
    folder = tmp_path_factory.mktemp("narrow")
    with OneAtATime("mosquitto", folder, more_listeners=LIMITS) as broker:
        yield broker


@pytest.fixture
def name():
    return f"board-{uuid.uuid4().hex[:12]}"


def said(broker, folder, steps, **client):
    return run(ARCHITECTURE, folder, {"broker_port": broker.port}, steps, level=5, **client)


def test_limits_are_obeyed_and_all_arrives(broker, name, tmp_path):
    with Observer(broker.port, f"{name}-o", (name, 2)) as observer:
        steps = [["connect"], ["publish", name, 40, 1], ["publish", name, 40, 2], ["told"]]
        lines = said(broker, tmp_path / name, [*steps, ["close"]], aliases=[name])
        observer.wait(80)
    told = next(line for line in lines if "packet_size" in line)
    assert (told["packet_size"], told["failures"]) == (200, 0)
    assert told["aliases"] == 1
    assert observer.numbers() == [*range(40), *range(40)]


def test_a_buffer_of_8_bytes(broker, name, tmp_path):
    """CONNACK is longer, and SUBACK of these filters would be. Eight bytes of PUBLISH arrive."""
    filters = [[f"{name}/{number}", 1] for number in range(12)]
    with Observer(broker.port, f"{name}-o", (name, 2)) as observer:
        steps = [
            ["connect"], ["subscribe", filters], ["publish", name, 20, 1], ["publish", name, 5, 2],
            ["subscribe", [[one, -1] for one, _ in filters]], ["told"], ["close"],
        ]  # fmt: skip
        lines = said(broker, tmp_path / name, steps, rx_bytes=8)
        observer.wait(25)
    found = [line["filters"] for line in lines if "filters" in line]
    assert found == [[[one, 1] for one, _ in filters], []]
    told = next(line for line in lines if "packet_size" in line)
    assert (told["packet_size"], told["failures"]) == (200, 0)
    assert observer.numbers() == [*range(20), *range(5)]


@pytest.mark.parametrize("aliases", [True, False])
def test_receive_maximum_1_packet_size_200_and_alias_together(
    narrow_broker, name, tmp_path, aliases
):
    with Observer(narrow_broker.port, f"{name}-o", (name, 2)) as observer:
        steps = [["connect"], ["publish", name, 40, 1], ["publish", name, 10, 2], ["told"]]
        options = {"aliases": [name]} if aliases else {}
        lines = said(narrow_broker, tmp_path / name, [*steps, ["close"]], **options)
        observer.wait(50)
    told = next(line for line in lines if "packet_size" in line)
    assert (told["packet_size"], told["receive_maximum"], told["failures"]) == (200, 1, 0)
    assert told["window"] == 1 and told["aliases"] == aliases
    assert observer.numbers() == [*range(40), *range(10)]


def test_too_long_for_the_broker_is_refused_at_publish(broker, name, tmp_path):
    lines = said(broker, tmp_path / name, [["connect"], ["refused", name, 200], ["told"]])
    assert lines[1]["status"] == -2
    assert lines[2]["failures"] == 0


@pytest.mark.parametrize(("expiry_s", "is_present"), [(3600, True), (0, False)])
def test_session_over_a_reset(broker, name, tmp_path, expiry_s, is_present):
    """With an expiry the subscription, and what came meanwhile, are there after the reset."""
    folder = tmp_path / name
    steps = [["connect"], ["subscribe", [[f"{name}/in", 1]]], ["publish", name, 1, 1]]
    first = said(broker, folder, steps, session_expiry_s=expiry_s)
    assert first[0]["session_present"] is False
    with Observer(broker.port, f"{name}-o", (name, 1)) as observer:
        observer.publish(f"{name}/in", ["a"], 1)
    steps = [["connect"], *([["take", 1]] if is_present else [])]
    lines = said(broker, folder, steps, session_expiry_s=expiry_s)
    assert lines[0]["session_present"] is is_present
    if is_present:
        assert [payload for _, payload, _, _ in lines[1]["messages"]] == ["a"]


@pytest.mark.parametrize("confirmation", ["retained", "queued"])
def test_boards_are_exact_over_power_cuts_and_a_killed_collector(tmp_path, confirmation):
    need_mosquitto()

    def kill_collector(run):
        run.collectors[0].kill()
        run.collectors[0].start()

    with Broker("mosquitto", tmp_path / "broker") as broker:
        run = Run(
            tmp_path,
            broker.port,
            settings={"level": 5, "confirmation": confirmation},
            options=("--confirmation", confirmation),
            cuts=3,
        )
        account = run.play((0.8, kill_collector), (2.0, kill_collector))
    assert account["power_cuts"] > 1
    assert_exact(account)
