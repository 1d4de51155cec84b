# cpython-only: it tests the desktop command against a real broker
"""`outpost monitor` at the broker: who may read follows; who may not is told so, and what to do."""

import contextlib
import json
import socket
import ssl
import threading
from dataclasses import replace

import paho.mqtt.client as mqtt
import pytest

from collector_process import payload
from made_broker import HOST, AclBroker, MadeBroker
from outpost_tools import cli
from outpost_tools.attention import silence
from outpost_tools.boards.broker import certificates
from outpost_tools.boards.monitor import following


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with MadeBroker(tmp_path_factory.mktemp("made"), "kitchen", "cellar") as broker:
        yield broker


@pytest.fixture(scope="module")
def acl_broker(tmp_path_factory):
    """As BROKERS.md recommended it once: a board may write its data and read its confirmation."""
    rights = "pattern write outpost/%u/data\npattern read outpost/%u/durable\nuser all\ntopic #\n"
    with AclBroker(tmp_path_factory.mktemp("acl"), ("kitchen", "all"), rights) as broker:
        yield broker


def settings(folder, **values):
    path = folder / "kitchen.toml"
    values = {"device_id": "kitchen", "broker_host": HOST, **values}
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    path.chmod(0o600)
    return path


def monitor(capsys, *words):
    capsys.readouterr()
    status = cli.main(["monitor", *map(str, words)])
    said = capsys.readouterr()
    return status, said.out, said.err


class Talker:
    """Publishes the same messages time and again in a thread, until the test has seen one."""

    def __init__(self, client, messages):
        self._client, self._messages = client, messages
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._talk)

    def __enter__(self):
        self._client.loop_start()
        self._thread.start()

    def __exit__(self, *_):
        self._ending.set()
        self._thread.join()
        self._client.disconnect()
        self._client.loop_stop()

    def _talk(self):
        while not self._ending.wait(0.05):
            for topic, data in self._messages:
                self._client.publish(topic, data)


def followed(source, is_done, monkeypatch):
    """Until is_done(); what it told. Its clock is the condition, not time."""
    told = []
    monkeypatch.setattr(following, "ended", lambda _until: is_done(told))
    following.follow(source, None, told.append)
    return told


def test_a_monitor_with_its_credentials_sees_all_boards_and_one_alone(made, monkeypatch):
    found = made.credentials("monitor-1", "monitor")
    boards = [made.peer(name) for name in ("kitchen", "cellar")]
    messages = [
        [(f"outpost/{name}/data", payload(7, device=name))] for name in ("kitchen", "cellar")
    ]
    talkers = [Talker(board.client, one) for board, one in zip(boards, messages, strict=True)]
    with talkers[0], talkers[1]:
        source = following.of_credentials(found, None)
        told = followed(source, lambda told: len({*told}) == 2, monkeypatch)
        assert {line.partition(",")[0] for line in told} == {
            "kitchen: message 7",
            "cellar: message 7",
        }
        source = following.of_credentials(found, "cellar")
        told = followed(source, lambda told: len(told) > 3, monkeypatch)
        assert {line.partition(",")[0] for line in told} == {"message 7"}


def test_a_boards_own_credentials_are_refused_by_a_made_broker_and_the_way_out_is_named(
    made, tmp_path, capsys
):
    found = made.credentials("kitchen")
    (tmp_path / "ca.pem").write_text(found.ca)
    words = {"user": found.user, "password": found.password, "tls": True, "ca_file": "ca.pem"}
    path = settings(tmp_path, broker_port=made.port, **words)
    status, _, err = monitor(capsys, "--settings", path)
    assert status == 2 and "refused user 'kitchen'" in err and "use --credentials" in err
    assert found.password not in err


def test_a_wrong_password_ends_it(acl_broker, tmp_path, capsys):
    path = settings(tmp_path, broker_port=acl_broker.port, user="kitchen", password="guess")
    status, _, err = monitor(capsys, "--settings", path)
    assert status == 2 and "refused user 'kitchen': Not authorized" in err


def test_a_subscription_that_is_refused_ends_it(made, capsys):
    """A monitor's user, and topics that are not its own."""
    found = made.credentials("monitor-1", "monitor")
    source = replace(following.of_credentials(found, "kitchen"), prefix="elsewhere")
    with pytest.raises(following.ToolError, match="may not read elsewhere/kitchen/data"):
        following.follow(source, None)


def test_messages_that_an_acl_keeps_back_are_told_by_their_confirmations(
    acl_broker, tmp_path, capsys, monkeypatch
):
    """The subscription was granted, and nothing would ever come."""
    monkeypatch.setattr(following, "_SETTLED_S", 0.0)
    path = settings(tmp_path, broker_port=acl_broker.port, user="kitchen", password="kitchen")
    source = following.of_settings(following_settings(path), tmp_path)
    collector = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    collector.username_pw_set("all", "all")
    collector.connect(HOST, acl_broker.port)
    said = []

    def is_said(_told):
        said.append(capsys.readouterr().err)
        return "none of them arrives here" in "".join(said)

    with Talker(collector, [("outpost/kitchen/durable", b"0badcafe 5")]):
        assert followed(source, is_said, monkeypatch) == []
    assert "may user 'kitchen' read outpost/kitchen/data" in "".join(said)
    assert "outpost monitor --credentials DIR" in "".join(said)


def test_a_board_of_mqtt_5_is_followed_by_mqtt_5(acl_broker, tmp_path, monkeypatch):
    words = {"user": "all", "password": "all", "level": 5}
    path = settings(tmp_path, broker_port=acl_broker.port, **words)
    source = following.of_settings(following_settings(path), tmp_path)
    assert source.version == mqtt.MQTTv5
    sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    sender.username_pw_set("all", "all")
    sender.connect(HOST, acl_broker.port)
    with Talker(sender, [("outpost/kitchen/data", payload(7, device="kitchen"))]):
        told = followed(source, lambda told: len(told) > 1, monkeypatch)
    assert {line.partition(",")[0] for line in told} == {"message 7"}


def following_settings(path):
    from outpost_tools.boards.settings import settings_file

    return settings_file.load(path).full


def test_a_broker_that_does_not_answer_in_the_time_ends_it(tmp_path, capsys):
    with socket.create_server((HOST, 0)) as listener:
        own = settings(tmp_path, broker_port=listener.getsockname()[1])
        status, _, said = monitor(capsys, "--settings", own, "--seconds", "1")
    assert status == 2 and "the broker has not answered in this time" in said


def test_silence_is_told_once(made, monkeypatch, capsys):
    monkeypatch.setattr(silence, "_SLACK_S", 0.0)
    turns = iter(range(100))
    source = following.of_credentials(made.credentials("monitor-1", "monitor"), "nobody")
    followed(source, lambda _told: next(turns) > 5, monkeypatch)
    assert capsys.readouterr().err.count("nothing on outpost/nobody/data") == 1


@pytest.mark.parametrize(
    ("more", "report_s"),
    [
        ({"interval_ms": 5000}, 5),
        ({"series": True, "interval_ms": 5000}, 600),
        ({"deep_sleep": True, "interval_ms": 900_000, "connect_every": 4}, 3600),
    ],
)
def test_a_report_is_waited_for_as_long_as_the_settings_say(tmp_path, more, report_s):
    source = following.of_settings(following_settings(settings(tmp_path, **more)), tmp_path)
    assert source.report_s == report_s


@pytest.mark.parametrize(
    "words, says",
    [
        (["--settings", "x", "--device", "kitchen"], "--device is for --credentials"),
        (["--credentials", "/nonexistent"], "cannot be read"),
    ],
)
def test_faults(capsys, words, says):
    status, _, err = monitor(capsys, *words)
    assert status == 2 and says in err


@pytest.mark.parametrize(
    ("server_name", "is_let_in"),
    [("broker.home", True), ("Broker.Home.", True), ("127.0.0.1", False)],
)
def test_the_brokers_name_is_that_of_the_settings_as_on_the_board(tmp_path, server_name, is_let_in):
    """Where the certificate has another than broker_host."""
    pair = certificates.authority()
    own = certificates.server(pair, ["broker.home"])
    for name, text in (("ca.pem", pair.certificate), ("own.pem", own.certificate + own.key)):
        (tmp_path / name).write_text(text)
    here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(tmp_path / "own.pem")
    settings = {"ca_file": "ca.pem", "client_cert_file": "", "server_name": server_name}
    there = following.tls_context(settings, tmp_path)
    ours, theirs = socket.socketpair()

    def serve():
        with contextlib.suppress(OSError), here.wrap_socket(theirs, server_side=True) as link:
            link.recv(1)

    server = threading.Thread(target=serve)
    server.start()
    try:  # as paho does: with the address
        with there.wrap_socket(ours, server_hostname="127.0.0.1"):
            found = True
    except ssl.SSLCertVerificationError:
        found = False
    ours.close()
    server.join(120)
    assert found == is_let_in


@pytest.mark.parametrize("name", ["", "a/#", "a/b", "+", "x" * 33, "two words"])
def test_a_device_that_is_no_name_of_a_board_is_told(tmp_path, capsys, name):
    words = ["monitor", "--credentials", str(tmp_path), "--device", name, "--seconds", "1"]
    assert cli.main(words) == 2
    assert f"--device {name!r}: 1 to 32 of" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["nan", "-1", "1e400", "soon"])
def test_seconds_that_never_end_are_told(tmp_path, capsys, seconds):
    with pytest.raises(SystemExit):
        cli.main(["monitor", "--credentials", str(tmp_path), f"--seconds={seconds}"])
    assert "--seconds" in capsys.readouterr().err
