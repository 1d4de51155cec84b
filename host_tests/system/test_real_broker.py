# cpython-only: starts mosquitto and lets MicroPython talk to it, with paho as the other end
"""What no scripted server can vouch for: a real broker, a real other end, and real MicroPython on
each processor.
"""

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.children import free_port
from real_broker import (
    Link,
    Message,
    Observer,
    device,
    every_architecture,
    need_mosquitto,
    password_line,
    run,
)

EACH_WAY = 500
THROUGH_RESTARTS = 2000
IN_FLIGHT = 16

pytestmark = every_architecture


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """For the tests that leave it alone."""
    need_mosquitto()
    with Broker("mosquitto", tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def password_port(tmp_path_factory):
    """A broker of its own: with settings for each listener, mosquitto 2.0 queues nothing for a
    client that is away.
    """
    need_mosquitto()
    folder = tmp_path_factory.mktemp("passwords")
    (folder / "passwords").write_text(password_line("board", "right"))
    (folder / "passwords").chmod(0o600)
    port = free_port()
    listeners = f"""
per_listener_settings true
listener {port} 127.0.0.1
allow_anonymous false
password_file {folder}/passwords
"""
    with Broker("mosquitto", folder, more_listeners=listeners):
        yield port


@pytest.fixture
def name():
    """A client id and topic of this test alone: the broker is shared."""
    return f"board-{uuid.uuid4().hex[:12]}"


def settings(port: int) -> dict:
    return {"broker_port": port}


# --- Protocol levels, names and passwords ---


@pytest.mark.parametrize("level", [3, 4, 5])
def test_each_protocol_level_connects_and_delivers(architecture, broker, name, tmp_path, level):
    with Observer(broker.port, f"{name}-o", (name, 2)) as observer:
        steps = [["connect"], ["publish", name, 10, 1], ["publish", name, 10, 2], ["close"]]
        run(architecture, tmp_path / name, settings(broker.port), steps, level=level)
        observer.wait(20)
    assert observer.numbers() == [*range(10), *range(10)]


@pytest.mark.parametrize("level", [3, 4])
@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"user": "board", "password": "right"}, 0),
        ({"user": "board", "password": "wrong"}, (4, 5)),
        ({"user": "nobody", "password": "right"}, (4, 5)),
        ({"user": "board"}, (4, 5)),
        ({}, (4, 5)),
    ],
    ids=["right", "wrong password", "unknown user", "no password", "anonymous"],
)
def test_user_name_and_password(architecture, password_port, name, tmp_path, level, given, code):
    steps = [["connect"]] if code == 0 else [["fail"]]
    said = run(architecture, tmp_path / name, settings(password_port), steps, level=level, **given)[
        0
    ]
    if code == 0:
        assert said == {"connected": True, "session_present": False}
    else:
        assert (said["last_error"], said["connects"]) == (-21, 0)
        assert said["return_code"] in code


# --- Will, retained messages, subscriptions ---


@pytest.mark.parametrize(("qos", "retain"), [(0, False), (1, True), (2, True)])
def test_the_will_comes_when_the_process_is_killed(
    architecture, broker, name, tmp_path, qos, retain
):
    with Observer(broker.port, f"{name}-o", (name, 2)) as observer:
        steps = [["connect"], ["idle", 60_000]]
        with device(
            architecture,
            tmp_path / name,
            settings(broker.port),
            steps,
            will=[name, "gone", qos, retain],
        ) as one:
            one.wait_line("connected")
            assert observer.messages == []
            one.kill()
            observer.wait(1)
        assert observer.messages == [Message(name, "gone", qos, False)]
    with Observer(broker.port, f"{name}-p", (name, 2)) as late:
        if retain:
            late.wait(1)
            late.publish(name, [""], 1, retain=True)
        assert late.messages[:1] == [Message(name, "gone", qos, True)] * retain


def test_the_will_does_not_come_after_close(architecture, broker, name, tmp_path):
    with Observer(broker.port, f"{name}-o", (name, 2)) as observer:
        steps = [["connect"], ["publish", name, 1, 1], ["close"]]
        run(
            architecture,
            tmp_path / name,
            settings(broker.port),
            steps,
            will=[name, "gone", 1, False],
        )
        observer.wait(1)
        time.sleep(0.3)
    assert [message.payload for message in observer.messages] == ["0"]


def test_retained_messages_come_on_subscribe_and_the_handler_sees_retain(
    architecture, broker, name, tmp_path
):
    with Observer(broker.port, f"{name}-o") as other:
        other.publish(f"{name}/kept", ["old"], 1, retain=True)
        steps = [
            ["connect"],
            ["subscribe", [[f"{name}/#", 1]]],
            ["take", 2],
            ["publish", f"{name}/mine", 1, 1, True],
            ["close"],
        ]
        with device(architecture, tmp_path / name, settings(broker.port), steps) as one:
            one.wait_line("filters")
            other.publish(f"{name}/kept", ["new"], 1)
            lines = one.finish()
        assert lines[2]["messages"] == [
            [f"{name}/kept", "old", 1, 1],
            [f"{name}/kept", "new", 1, 0],
        ]
    with Observer(broker.port, f"{name}-p", (f"{name}/#", 1)) as late:
        late.wait(2)
        assert Message(f"{name}/mine", "0", 1, True) in late.messages
        late.publish(f"{name}/mine", [""], 1, retain=True)
        late.publish(f"{name}/kept", [""], 1, retain=True)


def test_several_filters_their_codes_and_unsubscribe(architecture, broker, name, tmp_path):
    wanted = [[f"{name}/a/#", 0], [f"{name}/+/b", 1], [f"{name}/c", 2]]
    steps = [
        ["connect"], ["subscribe", wanted], ["take", 3],
        ["subscribe", [[f"{name}/c", -1], [f"{name}/a/#", -1]]], ["take", 4],
    ]  # fmt: skip
    with (
        device(architecture, tmp_path / name, settings(broker.port), steps) as one,
        Observer(broker.port, f"{name}-o") as other,
    ):
        one.wait_line("filters")
        for topic in ("a/x", "y/b", "c"):
            other.publish(f"{name}/{topic}", ["1"], 2)
        while len(one.lines()) < 4:
            time.sleep(0.01)
        for topic in ("c", "a/x", "z/b"):
            other.publish(f"{name}/{topic}", ["2"], 2)
        lines = one.finish()
    assert lines[1]["filters"] == wanted
    assert [message[0::2] for message in lines[2]["messages"]] == [
        [f"{name}/a/x", 0],
        [f"{name}/y/b", 1],
        [f"{name}/c", 2],
    ]
    assert lines[3]["filters"] == [wanted[1]]
    assert lines[4]["messages"][3:] == [[f"{name}/z/b", "2", 1, 0]]


# --- Messages both ways ---


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_each_qos_both_ways(architecture, broker, name, tmp_path, qos):
    steps = [
        ["connect"], ["subscribe", [[f"{name}/down", qos]]],
        ["publish", f"{name}/up", EACH_WAY, qos], ["take", EACH_WAY], ["close"],
    ]  # fmt: skip
    with Observer(broker.port, f"{name}-o", (f"{name}/up", 2)) as other:
        with device(architecture, tmp_path / name, settings(broker.port), steps) as one:
            one.wait_line("filters")
            other.publish(f"{name}/down", [str(number) for number in range(EACH_WAY)], qos)
            lines = one.finish()
        other.wait(EACH_WAY)
    assert lines[3]["messages"] == [
        [f"{name}/down", str(number), qos, 0] for number in range(EACH_WAY)
    ]
    assert other.messages == [
        Message(f"{name}/up", str(number), qos, False) for number in range(EACH_WAY)
    ]
    assert lines[-1]["ignored"] == 0


# --- Sessions ---


@pytest.mark.parametrize("clean", [False, True])
def test_a_persistent_session_keeps_messages_and_a_clean_one_does_not(
    architecture, broker, name, tmp_path, clean
):
    first = run(
        architecture, tmp_path / name, settings(broker.port),
        [["connect"], ["subscribe", [[name, 1]]], ["close"]], clean=clean,
    )  # fmt: skip
    with Observer(broker.port, f"{name}-o") as other:
        other.publish(name, ["while away"], 1)
    steps = [["connect"], ["take", 0 if clean else 1], ["close"]]
    second = run(architecture, tmp_path / name, settings(broker.port), steps, clean=clean)
    assert first[0]["session_present"] is False
    assert second[0]["session_present"] is not clean
    assert second[1]["messages"] == ([] if clean else [[name, "while away", 1, 0]])


def test_it_subscribes_again_after_the_broker_lost_its_session(architecture, name, tmp_path):
    need_mosquitto()
    steps = [["connect"], ["subscribe", [[f"{name}/#", 1]]], ["take", 1], ["close"]]
    with Broker("mosquitto", tmp_path / "broker") as broker:
        with device(architecture, tmp_path / name, settings(broker.port), steps) as one:
            one.wait_line("filters")
            broker.kill()
            (broker.directory / "mosquitto.db").unlink(missing_ok=True)
            broker.start()
            with Observer(broker.port, "other") as other:
                while one.process.poll() is None:
                    other.publish(f"{name}/x", ["back"], 1)
                    time.sleep(0.1)
            lines = one.finish()
    assert lines[2]["messages"][0] == [f"{name}/x", "back", 1, 0]
    assert lines[-1]["connects"] == 2


def test_an_idle_connection_stands_for_three_times_the_keep_alive(
    architecture, broker, name, tmp_path
):
    """The broker drops who is silent for 1.5 times that."""
    steps = [["connect"], ["idle", 3300], ["close"]]
    lines = run(architecture, tmp_path / name, settings(broker.port), steps, keep_alive_s=1)
    assert lines[1] == {"connected": True, "connects": 1, "failures": 0}


# --- A broker that is restarted, a link that is cut ---


def through_restarts(
    architecture: str, folder: Path, qos: int, restart: Callable[[Broker], None]
) -> tuple[list[int], dict]:
    """2,000 messages, two cuts of the link, two restarts of the broker; what the observer got, and
    the client's counters.

    The observer asks for QoS 0: it gets what the broker hands on, when it does. With QoS 2
    mosquitto 2.0 repeats a PUBLISH after a restart that it had sent PUBREL for. The link stays cut
    until the observer is back, so that it misses nothing.
    """
    need_mosquitto()
    with Broker("mosquitto", folder / "broker") as broker, Link(broker.port) as link:
        steps = [["connect"], ["publish", "up", THROUGH_RESTARTS, qos], ["close"]]
        with (
            Observer(broker.port, "observer", ("up", 0)) as observer,
            device(architecture, folder / "board", settings(link.port), steps) as one,
        ):
            for number, action in enumerate((None, restart, None, restart), 1):
                observer.wait(THROUGH_RESTARTS * number // 5)
                link.cut()
                if action:
                    observer.forget_ready()
                    action(broker)
                    observer.wait_ready()
                link.restore()
            counters = one.finish()[-1]
            observer.wait_numbers(THROUGH_RESTARTS)
            time.sleep(0.2)
            return observer.numbers(), counters


def restart_in_order(broker: Broker) -> None:
    broker.stop()
    broker.start()


def kill_and_lose_everything(broker: Broker) -> None:
    broker.kill()
    (broker.directory / "mosquitto.db").unlink(missing_ok=True)
    broker.start()


@pytest.mark.parametrize("qos", [1, 2])
def test_restarts_of_a_broker_that_keeps_its_sessions(architecture, tmp_path, qos):
    """All arrive, in order; with QoS 1 what was in flight at a break may come twice, with QoS 2
    nothing does.
    """
    got, counters = through_restarts(architecture, tmp_path, qos, restart_in_order)
    assert list(dict.fromkeys(got)) == list(range(THROUGH_RESTARTS))
    assert len(got) - THROUGH_RESTARTS <= (counters["redelivered"] if qos == 1 else 0)
    assert (counters["held"], counters["acknowledged"]) == (0, THROUGH_RESTARTS)
    # A cut comes too late for a board that is done, where this process had to wait for its turn.
    assert 2 <= counters["connects"] <= 5


@pytest.mark.parametrize("qos", [1, 2])
def test_a_killed_broker_without_its_sessions_loses_nothing_but_repeats(
    architecture, tmp_path, qos
):
    """Killed, its sessions gone: what was in flight goes again, QoS 2 too ("rather twice than
    never").
    """
    got, counters = through_restarts(architecture, tmp_path, qos, kill_and_lose_everything)
    assert list(dict.fromkeys(got)) == list(range(THROUGH_RESTARTS))
    assert len(got) - THROUGH_RESTARTS <= 4 * IN_FLIGHT
    assert (counters["held"], counters["acknowledged"]) == (0, THROUGH_RESTARTS)
    # A cut comes too late for a board that is done, where this process had to wait for its turn.
    assert 2 <= counters["connects"] <= 5
