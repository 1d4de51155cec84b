# cpython-only: it starts mosquitto with what `outpost broker` made
"""A rogue with a board's valid credentials at a real mosquitto, over TLS: everything that is not
its own is refused, and those who belong work."""

import contextlib
import json
import socket
import threading
from dataclasses import replace
from types import SimpleNamespace

import paho.mqtt.client as mqtt
import pytest

from exact_fleet import Run, assert_exact
from made_broker import AclBroker, MadeBroker, Peer
from outpost_tools.boards.broker import security_file
from outpost_tools.boards.outbox import publishing
from outpost_tools.boards.send.line import Line, operators_access
from outpost_tools.errors import ToolError
from outpost_tools.mqtt import credentials
from outpost_tools.servers.collect.rights import RightsQuestion
from outpost_tools.terminal.ending import Ending
from real_broker import wait_for

NOT_AUTHORIZED_3 = 135  # paho's name for CONNACK 5, as for MQTT 5's 0x87
REFUSED = 0x80
MARKER = b"\xffmarker"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One for all: each test uses boards of its own."""
    names = ("rogue", "cellar", "garden", "board-1", "board-2")
    with MadeBroker(tmp_path_factory.mktemp("made"), *names) as made:
        for name in ("collector-2", "test-collector", "absent-collector"):
            made.outpost("add", "--collector", name)
        yield made


@pytest.fixture
def rogue(broker):
    with broker.peer("rogue") as peer:
        assert peer.is_connected
        yield peer


@pytest.fixture
def collector(broker):
    """On a session of its own, with all that a collector may read."""
    with broker.peer("test-collector", "collector") as peer:
        for name in ("outpost/+/data", "outpost/+/durable", "outpost/collectors/#"):
            assert peer.subscribe(name) in (0, 1)
        yield peer


def all_until_marker(collector, topic="outpost/nobody/durable"):
    """What the collector received; a marker shows that nothing is still on its way."""
    collector.publish(topic, MARKER)
    collector.until(lambda: (topic, MARKER) in collector.received, "the marker")
    return [one for one in collector.received if one[1] != MARKER]


# --- The rogue ---


@pytest.mark.parametrize(
    "name",
    [
        "outpost/cellar/data",
        "outpost/+/data",
        "outpost/#",
        "#",
        "outpost/cellar/durable",
        "outpost/+/durable",
        "outpost/rogue/data",
        "outpost/cellar/command",
        "outpost/+/command",
        "outpost/rogue/answer",
        "$share/{group}/outpost/+/data",
        "$share/{group}/outpost/rogue/durable",
        "$share/mine/outpost/+/data",
        "outpost/collectors/#",
        "$CONTROL/#",
        "$CONTROL/dynamic-security/v1/response",
        "$SYS/#",
    ],
)
def test_a_board_may_not_subscribe_to_what_is_not_its_own(broker, rogue, name):
    group = broker.credentials("collector-1", "collector").share
    assert rogue.subscribe(name.format(group=group)) == REFUSED


def test_a_board_may_subscribe_to_its_own_confirmations(rogue):
    assert rogue.subscribe("outpost/rogue/durable") == 1


@pytest.mark.parametrize("version", [mqtt.MQTTv311, mqtt.MQTTv5])
@pytest.mark.parametrize(
    "topic",
    [
        "outpost/cellar/data",
        "outpost/cellar/durable",
        "outpost/rogue/durable",
        "outpost/cellar/command",
        "outpost/rogue/command",
        "outpost/cellar/answer",
        "outpost/collectors/fleet/collector-1",
        "outpost/collectors/.segments/collector-1",
        "$CONTROL/dynamic-security/v1",
    ],
)
def test_a_board_may_not_publish_on_what_is_not_its_own(broker, collector, topic, version):
    """MQTT 3.1.1 acknowledges it and delivers nothing; 5 says that it is not authorized."""
    with broker.peer("rogue", version=version) as rogue:
        code = rogue.publish(topic, b"evil", retain=True)
        assert code == (0x87 if version == mqtt.MQTTv5 else 0)
    assert all_until_marker(collector) == []


@pytest.mark.parametrize("version", [mqtt.MQTTv311, mqtt.MQTTv5])
def test_a_denied_publish_is_acknowledged_and_the_connection_stays(broker, collector, version):
    """With `max_queued_messages 0`, mosquitto 2.0 would close it after each such PUBACK, and the
    board would get no further."""
    with broker.peer("rogue", version=version) as rogue:
        for n in range(50):
            rogue.publish("outpost/cellar/data", b"denied %d" % n)
            rogue.publish("outpost/rogue/data", b"own %d" % n)
        assert rogue.is_connected and rogue.connections == 1
    own = [("outpost/rogue/data", b"own %d" % n) for n in range(50)]
    assert all_until_marker(collector) == own


def test_more_is_queued_for_an_absent_collector_than_mosquitto_would_by_itself(broker):
    """1,000 by default; and a larger number than 2147483647 would wrap."""
    name = "absent-collector"
    with broker.peer(name, "collector", clean=False) as peer:
        peer.subscribe("outpost/+/data")
    with broker.peer("cellar") as board:
        board.client.loop_start()
        sent = [board.client.publish("outpost/cellar/data", b"%d" % n, qos=1) for n in range(3000)]
        wait_for(lambda: all(one.is_published() for one in sent), "all PUBACKs")
    with broker.peer(name, "collector", clean=False) as peer:
        peer.client.loop_start()
        wait_for(lambda: len(peer.received) >= 3000, "all messages")
        assert [data for _, data in peer.received] == [b"%d" % n for n in range(3000)]
    broker.peer(name, "collector").client.disconnect()


def test_an_operator_commands_a_board_and_nothing_else(broker, collector):
    """Its commands reach the one board; a monitor's and a collector's reach none."""
    broker.outpost("add", "--operator", "desk")
    with broker.peer("cellar") as board, broker.peer("rogue") as other:
        assert board.subscribe("outpost/cellar/command") == 1
        assert other.subscribe("outpost/rogue/command") == 1
        for name, role in (("monitor-1", "monitor"), ("collector-1", "collector")):
            with broker.peer(name, role) as peer:
                peer.publish("outpost/cellar/command", b"evil")
        for topic in ("outpost/cellar/data", "outpost/cellar/durable"):
            with broker.peer("desk", "operator") as desk:
                desk.publish(topic, b"evil")
        with broker.peer("desk", "operator") as desk:
            for name in ("outpost/+/data", "outpost/cellar/answer"):
                assert desk.subscribe(name) == 1
            for name in ("outpost/+/command", "outpost/+/durable", "outpost/#"):
                assert desk.subscribe(name) == REFUSED
            desk.publish("outpost/cellar/command", b"report")
            board.until(lambda: board.received, "the command")
            board.publish("outpost/cellar/answer", b"done")
            desk.until(lambda: desk.received, "the answer")
            assert desk.received == [("outpost/cellar/answer", b"done")]
        assert board.received == [("outpost/cellar/command", b"report")] and not other.received
    assert all_until_marker(collector) == []


def test_an_older_folder_learns_what_an_operator_is(tmp_path):
    """Its broker's file knows neither the role nor its folder."""
    with MadeBroker(tmp_path, "cellar") as made:
        made.stop()
        document = json.loads((made.folder / "server" / "dynamic-security.json").read_text())
        document["roles"] = [one for one in document["roles"] if one["rolename"] != "operator"]
        (made.folder / "server" / "dynamic-security.json").write_text(json.dumps(document))
        (made.folder / "operators").rmdir()
        made.start()
        assert made.outpost("add", "--operator", "desk") == 0
        with made.peer("desk", "operator") as desk:
            assert desk.subscribe("outpost/+/answer") == 1


def as_of_an_earlier_version(made):
    """Its users, but for boards and monitors, were bound to no client identifier; it made no second
    users."""
    path = made.folder / "server" / "dynamic-security.json"
    document = json.loads(path.read_text())
    others = [one for one in document["clients"] if not one["username"].endswith("~2")]
    for one in others:
        if one["username"] not in ("cellar", "monitor-1"):
            del one["clientid"]
    path.write_text(json.dumps(document | {"clients": others}))


@pytest.mark.parametrize("is_running", [True, False])
def test_add_binds_the_users_of_an_earlier_folder_and_says_so(tmp_path, capsys, is_running):
    with MadeBroker(tmp_path, "cellar") as made:
        made.outpost("add", "--reader", "wall")
        made.stop()
        as_of_an_earlier_version(made)
        if is_running:
            made.start()
            with made.peer("wall", "reader", client_id="collector-1") as thief:
                assert thief.is_connected  # what is to be mended
        capsys.readouterr()
        assert made.outpost("list") == 1
        assert "accepted under any name" in capsys.readouterr().out
        assert made.outpost("add", "cellar") == 0
        said = capsys.readouterr().out
        for name in ("collector collector-1", "reader wall", "admin admin"):
            assert f"{name}: from now on the broker accepts it with the client identifier" in said
        assert "client ID" in said and "monitor-1" not in said
        assert made.outpost("list") == 0
        assert made.outpost("add", "cellar") == 0
        assert "from now on" not in capsys.readouterr().out
        if not is_running:
            made.start()
        with made.peer("wall", "reader", client_id="collector-1") as thief:
            assert not thief.is_connected
        for name, role in (("wall", "reader"), ("collector-1", "collector")):
            with made.peer(name, role) as peer:
                assert peer.is_connected
        with Peer(made.credentials("collector-1", "collector").second) as second:
            assert second.is_connected
        made.outpost("add", "--operator", "desk")  # the administrator's connection works as well
        made.outpost("revoke", "--collector", "collector-1")
        assert not [one for one in bound(made) if one.startswith("collector-1")]


def bound(made):
    path = made.folder / "server" / "dynamic-security.json"
    return security_file.bound(json.loads(path.read_text()))


def test_a_collector_asks_a_broker_of_an_earlier_version_too(tmp_path, capsys):
    """Which has no second user: the questions go by the first, and it says how that is mended."""
    with MadeBroker(tmp_path, "cellar") as made:
        made.stop()
        as_of_an_earlier_version(made)
        made.start()
        found = made.credentials("collector-1", "collector")
        question = RightsQuestion(
            found.address, "collector-1", "outpost", credentials=found.login, tls=found.tls(),
            second=found.second,
        )  # fmt: skip
        assert question.ask(Ending()) == 1
        assert "outpost broker add DIR --collector collector-1" in capsys.readouterr().err


def test_two_commands_with_one_operators_credentials_wait_for_each_other(broker, capsys):
    broker.outpost("add", "--operator", "busy")
    access = operators_access(credentials.place(broker.folder, "operator", "busy"))
    first, second = (Line(access, [], lambda: None, lambda *_: None) for _ in range(2))
    first.open()
    waiting = threading.Thread(target=second.open)
    waiting.start()
    wait_for(lambda: "waiting: another command is connected" in capsys.readouterr().err, "the word")
    assert waiting.is_alive()
    first.close()
    waiting.join(10)
    assert not waiting.is_alive()
    second.close()


def test_a_boards_own_messages_arrive(rogue, collector):
    rogue.publish("outpost/rogue/data", b"mine")
    collector.until(lambda: collector.received, "the message")
    assert collector.received == [("outpost/rogue/data", b"mine")]


@pytest.mark.parametrize("client_id", ["cellar", "collector-1", "monitor-1", "other", ""])
@pytest.mark.parametrize("name, role", [("rogue", "board"), ("monitor-1", "monitor")])
def test_another_client_identifier_is_refused(broker, client_id, name, role):
    if client_id == name:
        return
    victim = ("cellar", "board") if client_id == "cellar" else ("collector-1", "collector")
    with broker.peer(*victim) as peer:
        with broker.peer(name, role, client_id=client_id) as thief:
            assert thief.connack == NOT_AUTHORIZED_3 and not thief.is_connected
        topic = "outpost/cellar/data" if client_id == "cellar" else "outpost/nobody/durable"
        assert peer.publish(topic) == 0 and peer.is_connected


def test_a_wrong_password_is_refused(broker):
    with Peer(replace(broker.credentials("rogue"), password="guessed")) as peer:
        assert peer.connack == NOT_AUTHORIZED_3 and not peer.is_connected


def test_nobody_is_let_in_without_tls(broker):
    """The listener speaks nothing else: no CONNACK, and no password on the way."""
    with socket.create_connection(("127.0.0.1", broker.port), 10) as link:
        link.sendall(b"\x10\x0f\0\4MQTT\4\2\0\x3c\0\3abc")
        with contextlib.suppress(ConnectionResetError):
            assert link.recv(4)[:1] != b"\x20"  # an alert of TLS, or the end


@pytest.mark.parametrize(
    "topic, arrives",
    [
        ("outpost/cellar/data", False),
        ("outpost/cellar/durable", False),
        ("outpost/rogue/data", True),
    ],
)
def test_a_will_is_published_on_a_topic_of_ones_own_alone(broker, collector, topic, arrives):
    rogue = broker.peer("rogue", will=(topic, b"will"))
    assert rogue.is_connected
    rogue.vanish()
    with broker.peer("rogue") as again:  # its CONNACK comes when the broker is done with the first
        assert again.is_connected
    assert all_until_marker(collector) == ([(topic, b"will")] if arrives else [])


def test_under_an_acl_file_the_same_rogue_takes_half_of_the_messages(tmp_path):
    """Why the made broker has none: mosquitto grants the shared subscription, chooses the rogue for
    each second message, and drops it there. Should this fail with a newer mosquitto: good."""
    rights = """
        pattern write outpost/%u/data
        user collector
        topic read outpost/+/data
    """
    with AclBroker(tmp_path, ("rogue", "cellar", "collector"), rights) as broker:
        collector, rogue, cellar = (broker.peer(name) for name in ("collector", "rogue", "cellar"))
        with collector, rogue, cellar:
            for peer in (collector, rogue):
                assert peer.subscribe("$share/fleet/outpost/+/data") == 1
            for number in range(20):
                cellar.publish("outpost/cellar/data", b"%d" % number)
            collector.subscribe("outpost/cellar/end")  # its answer comes after all that came
            assert len(collector.received) == 10 and rogue.received == []


# --- Revocation ---


def test_a_revoked_board_is_thrown_off_at_once_and_stays_out_until_it_is_added_again(
    broker, capsys
):
    """The broker is not restarted; a neighbour stays connected."""
    old = broker.credentials("garden")
    with broker.peer("cellar") as neighbour, Peer(old) as board:
        assert board.publish("outpost/garden/data") == 0
        assert broker.outpost("revoke", "garden") == 0
        assert "has disconnected it" in capsys.readouterr().out
        board.until(lambda: not board.is_connected, "the revoked board's end")
        assert neighbour.publish("outpost/cellar/data") == 0 and neighbour.is_connected
    with Peer(old) as board:
        assert board.connack == NOT_AUTHORIZED_3
    assert broker.outpost("add", "garden") == 0
    with Peer(old) as board, broker.peer("garden") as new:
        assert board.connack == NOT_AUTHORIZED_3
        assert new.publish("outpost/garden/data") == 0 and new.is_connected


def test_another_password_ends_what_the_old_one_opened(broker):
    old = broker.credentials("garden")
    with Peer(old) as board:
        assert broker.outpost("add", "garden", "--new-password") == 0
        board.until(lambda: not board.is_connected, "the end of the old password's connection")
    with Peer(old) as board, broker.peer("garden") as new:
        assert board.connack == NOT_AUTHORIZED_3 and new.is_connected


# --- Those who belong ---


def test_a_monitor_reads_and_writes_nothing(broker, rogue, collector):
    with broker.peer("monitor-1", "monitor") as monitor:
        for name in ("outpost/+/data", "outpost/rogue/data", "outpost/+/durable"):
            assert monitor.subscribe(name) == 1
        for name in ("outpost/#", "$share/mine/outpost/+/data", "outpost/collectors/#"):
            assert monitor.subscribe(name) == REFUSED
        rogue.publish("outpost/rogue/data", b"seen")
        monitor.until(lambda: monitor.received, "the message")
    for topic in ("outpost/rogue/durable", "outpost/rogue/data", "outpost/monitor-1/data"):
        with broker.peer("monitor-1", "monitor") as monitor:
            monitor.publish(topic, b"evil")
    assert all_until_marker(collector) == [("outpost/rogue/data", b"seen")]


def test_boards_and_two_collectors_are_exact_with_what_was_made(broker, tmp_path):
    """Simulated boards on MicroPython over TLS, with power cuts, and a shared subscription."""
    run = Run(
        tmp_path, broker.port, made=broker.folder, collectors=("collector-1", "collector-2"),
        seconds=3.0, options=("--share",),
    )  # fmt: skip
    assert_exact(run.play())
    said = "".join(collector.text() for collector in run.collectors)
    assert "may not" not in said and "refused" not in said, said


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_comes_while_a_collector_is_away_is_kept_over_a_restart_of_the_broker(
    broker, is_shared
):
    """The rights of a session that nobody uses just then: the plugin has them by its user. With a
    shared subscription mosquitto queues nothing more until one of its clients is back, without the
    plugin too: BROKERS.md says so."""
    group = broker.credentials("collector-1", "collector").share
    name = f"$share/{group}/outpost/+/data" if is_shared else "outpost/+/data"
    with broker.peer("collector-1", "collector", clean=False) as away:
        assert away.subscribe(name) == 1
    with broker.peer("cellar") as board:
        board.publish("outpost/cellar/data", b"before")
    broker.stop()
    broker.start()
    with broker.peer("cellar") as board:
        board.publish("outpost/cellar/data", b"after")
    with broker.peer("collector-1", "collector", clean=False) as back:
        assert back.session_present and back.subscribe(name) == 1
        with broker.peer("cellar") as board:
            board.publish("outpost/cellar/data", b"end")
        back.until(lambda: ("outpost/cellar/data", b"end") in back.received, "what was kept")
        came = [payload for _, payload in back.received]
    broker.peer("collector-1", "collector").client.disconnect()  # a clean session: nothing stays
    assert came == [b"before", b"end"] if is_shared else [b"before", b"after", b"end"]


def test_messages_set_aside_are_sent_by_the_boards_user_all_the_same(broker, collector):
    """`outpost outbox aside send` has a name of its own, which this broker does not let in."""
    found = broker.credentials("cellar")
    (broker.folder / "boards" / "ca.pem").write_text(found.ca)
    settings = {
        "device_id": "cellar", "broker_host": found.host, "broker_port": found.port, "tls": True,
        "user": found.user, "password": found.password, "ca_file": "ca.pem",
        "client_cert_file": "", "client_key_file": "", "server_name": found.host, "level": 4,
        "mode": "collector",
    }  # fmt: skip
    aside = SimpleNamespace(
        topic=b"outpost/cellar/data", payload=b"late", qos=1, retain=False, seq=3
    )
    with publishing.connected(settings, broker.folder / "boards") as way:
        way.send(aside)
        aside.topic = b"outpost/garden/data"  # its earlier name: acknowledged, and denied
        with pytest.raises(ToolError, match="refuses message 3: Not authorized; it stays set"):
            way.send(aside)
        aside.topic, aside.payload = b"outpost/cellar/data", bytes((1 << 20) + 1)
        with pytest.raises(ToolError, match="message 3"):  # longer than message_size_limit
            way.send(aside)
    came = [one for one in all_until_marker(collector) if one[0].endswith("/data")]
    assert came == [("outpost/cellar/data", b"late")]
    with pytest.raises(ToolError, match="has the board's user been revoked"):
        with publishing.connected(settings | {"password": "guessed"}, broker.folder / "boards"):
            pass
