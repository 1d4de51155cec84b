# cpython-only: runs the collector as a process, against real brokers
"""The collector says which right is missing, that another client has its id, that its session is
gone, and who could read its password."""

import json
import socket

import pytest

from collector_process import (
    Process,
    mosquitto,  # noqa: F401 - a fixture
    wait_until,
)
from made_broker import ACL, HOST, AclBroker, MadeBroker
from outpost_tools.log.collector_notes import REASONS, TAKEN_OVER, reason_of
from outpost_tools.loopback.broker import Broker
from outpost_tools.mqtt.takeover import ENOUGH, SOON_S, Takeovers
from real_broker import need_mosquitto


@pytest.fixture(scope="module")
def acl_broker(tmp_path_factory):
    """`deaf` is a collector that may not write confirmations."""
    rights = ACL + (
        "user deaf\n"
        "topic read outpost/+/data\n"
        "topic read outpost/+/durable\n"
        "topic readwrite outpost/collectors/#\n"
    )
    users = ("kitchen", "collector", "deaf")
    with AclBroker(tmp_path_factory.mktemp("acl"), users, rights) as broker:
        yield broker


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with MadeBroker(tmp_path_factory.mktemp("made"), "kitchen") as broker:
        yield broker


def started(tmp_path, broker, user, *options):
    password = tmp_path / "password"
    password.write_text(user + "\n")
    password.chmod(0o600)
    words = ["--user", user, "--password-file", str(password), *options]
    return Process(tmp_path, broker.port, options=words)


def says(collector, *texts):
    wait_until(lambda: collector.output.exists() and all(t in collector.text() for t in texts))


@pytest.mark.parametrize("user", ["deaf", "kitchen"])
def test_a_collector_that_may_not_write_confirmations_says_so(tmp_path, acl_broker, user):
    """MQTT 3.1.1 acknowledges what the broker throws away."""
    with started(tmp_path, acl_broker, user) as collector:
        says(collector, f"user '{user}' may not write outpost/+/durable")
        assert "until its flash is full" in collector.text()


def test_a_collector_with_all_its_rights_complains_of_none(tmp_path, acl_broker):
    with started(tmp_path, acl_broker, "collector", "--share", "fleet") as collector:
        says(collector, "subscribed to")
        assert "may not" not in collector.text() and "no answer" not in collector.text()
        assert collector.terminate() == 0


def test_a_subscription_that_is_refused_is_named_with_its_user(tmp_path, made):
    """Those of another group, with a collector's own credentials."""
    own = json.loads((made.folder / "collectors" / "collector-1.json").read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**own, "share": "other"}))
    other.chmod(0o600)
    with Process(
        tmp_path, 0, name="collector-1", credentials=other, options=["--share"]
    ) as collector:
        says(
            collector,
            "refused to let us subscribe to $share/other/outpost/+/data",
            "user 'collector-1' may not read it",
        )


def test_a_user_of_ours_without_its_file_is_told_to_bring_it(tmp_path, made):
    """Its second user, for the questions at the start, is known from the file alone."""
    found = made.credentials("collector-1", "collector")
    password = tmp_path / "password"
    password.write_text(found.password)
    password.chmod(0o600)
    words = ["--user", found.user, "--password-file", str(password)]
    words += ["--ca-file", str(made.folder / "ca.pem")]
    with Process(tmp_path, made.port, name=found.user, options=words) as collector:
        says(collector, "refused: Not authorized", "users of `outpost broker` need --credentials")


def test_a_user_that_is_not_let_in_is_told_what_to_check(tmp_path, made):
    """Revoked, a wrong password, or another's client identifier: CONNACK 5 for each."""
    made.outpost("add", "--collector", "collector-9")
    old = made.folder / "collectors" / "collector-9.json"
    kept = tmp_path / "kept.json"
    kept.write_text(old.read_text())
    kept.chmod(0o600)
    made.outpost("revoke", "--collector", "collector-9")
    with Process(tmp_path, 0, name="collector-9", credentials=kept) as collector:
        says(collector, "refused: Not authorized", "has this user been revoked")
        assert "connected," not in collector.text()


@pytest.mark.parametrize("level", [(), ("--level", "5")])
def test_a_broker_with_a_lower_limit_of_the_keep_alive_is_served(tmp_path, level):
    """mosquitto refuses MQTT 3.1.1 with code 2, as for a bad client identifier, and in a session
    that exists with session present set."""
    need_mosquitto()
    broker = Broker("mosquitto", tmp_path / "broker", more_listeners="max_keepalive 20\n")
    with broker, Process(tmp_path, broker.port, options=level) as collector:
        says(collector, "subscribed to")
        collector.kill()
        collector.start()
        says(collector, "session resumed")
        assert collector.terminate() == 0
        text = collector.text()
        assert ("next with a keep alive of 10 s" in text) is (not level), text


def test_another_client_with_the_collectors_id_is_named(tmp_path, mosquitto):  # noqa: F811
    """Two collectors with one id throw each other off; both are told, and the storm ends."""
    one, two = Process(tmp_path / "1", mosquitto.port), Process(tmp_path / "2", mosquitto.port)
    for collector in (one, two):
        collector.log.parent.mkdir()
    with one:
        says(one, "subscribed to")
        with two:
            says(one, "another client uses the id 'c1', says the broker")
            says(two, "another client uses the id 'c1', says the broker")
            assert one.text().count("another client uses") == 1  # not at each turn
            assert one.terminate() == two.terminate() == 0
    for collector in (one, two):  # for the report
        (note,) = collector.frames()
        assert reason_of(note.topic.decode(), note.payload) == REASONS[TAKEN_OVER]


def test_a_session_that_the_broker_lost_is_told_as_possible_loss(tmp_path, mosquitto):  # noqa: F811
    """Somebody came with its id and a clean session; or the broker lost its state. At the first
    start there was none, and nothing is said."""
    with Process(tmp_path, mosquitto.port) as collector:
        says(collector, "new session", "subscribed to")
        assert "may be lost" not in collector.text()
        with socket.create_connection((HOST, mosquitto.port), 10) as thief:
            thief.sendall(b"\x10\x0e\0\4MQTT\4\2\0\x3c\0\2c1")
            assert thief.recv(4) == b"\x20\2\0\0"
            says(collector, "connection lost")
        says(collector, "no longer has the session of 'c1'", "may be lost")


def test_a_session_that_is_there_again_is_no_loss(tmp_path, mosquitto):  # noqa: F811
    with Process(tmp_path, mosquitto.port) as collector:
        says(collector, "subscribed to")
        assert collector.terminate() == 0
        collector.start()
        says(collector, "session resumed")
        assert "may be lost" not in collector.text()


def test_who_could_read_the_password_is_said(tmp_path, acl_broker):
    with started(tmp_path, acl_broker, "collector") as collector:
        says(collector, "subscribed to")
        assert "warning" not in collector.text()  # 0600, and loopback
    (tmp_path / "password").chmod(0o644)
    collector.start()
    says(collector, "others can read it, and it holds a password; chmod 600")
    collector.kill()
    # an address that answers nobody: TEST-NET-1
    words = ["--user", "u", "--password-file", str(tmp_path / "password")]
    with Process(tmp_path, 1, host="192.0.2.1", options=words, name="c9") as far:
        says(far, "the password goes to 192.0.2.1:1 in plain text")


# --- The pattern of a takeover ---


def test_ends_are_counted_as_takeovers_only_where_the_broker_says_so():
    seen = Takeovers()
    for _ in range(ENOUGH + 2):
        seen.ended(1.0)
    assert seen.is_unsteady and seen.count == 0
    seen.ended(2 * SOON_S, is_said=True)
    assert not seen.is_unsteady and seen.count == 1


def test_a_broker_that_restarts_and_a_connection_that_lasted_are_not_unsteady():
    seen = Takeovers()
    for _ in range(10):
        seen.ended(1.0)
        assert not seen.is_unsteady
        seen.failed()  # refused while it starts
    for _ in range(10):
        seen.ended(SOON_S)
        assert not seen.is_unsteady
