# cpython-only: tests a desktop tool
"""A board that holds messages gets another name or broker: `outpost flash` and `provision` say
which messages, and none is lost in any of the ways. The real mpremote, real MicroPython over
littlefs."""

import json
import os
import pty
import re
import subprocess
import time

import pytest

import make_certificates
import outpost_command
from flash_rig import SETTINGS, Rig
from outpost_tools.boards.outbox.image import read_image
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from paths import REPOSITORY, RIGS
from real_broker import Observer, need_mosquitto

pytestmark = pytest.mark.timeout(600)
OLD, NEW = "rig-1", "kitchen"
LEAST = 5


@pytest.fixture
def port():
    return children.free_port()


@pytest.fixture
def rig(tmp_path, tree, port, monkeypatch):
    """A board of the name OLD that holds messages; nothing is at its broker's port."""
    monkeypatch.chdir(tmp_path)
    with Rig(tmp_path / "rig", tree) as made:
        settings = settings_file(made, device_id=OLD, broker_port=port)
        assert made.outpost("flash", "--settings", settings, "--no-link") == 0, made.err + made.out
        wait_until_held(made, OLD, LEAST)
        yield made


def wait_until_held(rig, name, count):
    """Its program stands still afterwards."""
    for _ in range(30):
        time.sleep(2)
        if held(rig).get(f"outpost/{name}/data", 0) >= count:
            return
        rig.power_cut()
    raise AssertionError(f"{name} holds less than {count} messages: {held(rig)}")


def settings_file(rig, **more):
    path = rig.folder / "settings.toml"
    given = {**SETTINGS, "outbox_blocks": 16, "interval_ms": 100, **more}
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items()))
    return path


COUNT = """
from outpost.outbox import Outbox
from station.settings import load
from board import Board
b = Board().open(load("settings.json"))
o = Outbox(b.device, align=b.align, page_bytes=b.page_bytes)
print(o.mount())
seq = o.oldest_seq
while o.load(seq) == 0:
    print(bytes(o.buffer[o.topic_at:o.topic_at + o.topic_length]).decode())
    seq = o.loaded_seq + 1
"""


def held(rig):
    """{topic: messages}, read without the tool under test. The board's program stays stopped."""
    status, *topics = rig.mpremote("exec", COUNT).split()
    assert status in ("0", "-10")  # blank: the program has not started yet
    return {topic: topics.count(topic) for topic in topics}


def on_board(rig):
    return json.loads(rig.mpremote("cat", ":/settings.json"))


def numbers(observer):
    return [json.loads(one.payload)[0]["seq"] for one in observer.messages]


@pytest.mark.parametrize("command", ["flash", "provision"])
def test_without_a_word_it_is_refused_with_what_is_held_and_the_flags(rig, port, command):
    before = held(rig)
    renamed = settings_file(rig, device_id=NEW, broker_port=port)
    words = (
        ["flash", "--settings", renamed, "--no-link"] if command == "flash" else [command, renamed]
    )
    assert rig.outpost(*words) == 2
    said = re.search(r"the board holds messages: (\d+) of outpost/rig-1/data\. ", rig.err)
    assert said and int(said[1]) >= before[f"outpost/{OLD}/data"]
    assert "change device_id" in rig.err and rig.err.count("\n") <= 20
    assert all(f"--held {one}" in rig.err for one in ("send", "keep", "aside"))
    assert "--held move" not in rig.err
    assert on_board(rig)["device_id"] == OLD
    assert rig.outpost(*words, "--held", "move") == 2
    assert "only the broker" in rig.err and on_board(rig)["device_id"] == OLD


def test_dry_run_tells_and_the_same_name_asks_nothing(rig, port):
    renamed = settings_file(rig, device_id=NEW, broker_port=port)
    assert rig.outpost("provision", renamed, "--dry-run") == 0
    assert "of outpost/rig-1/data" in rig.row("held") and "--held send" in rig.row("held")
    same = settings_file(rig, device_id=OLD, broker_port=port, keep_alive_s=30)
    assert rig.outpost("provision", same) == 0
    assert "held" not in rig.out


def test_sent_first_all_arrive_under_the_old_name_then_those_of_the_new(rig, port, tmp_path):
    need_mosquitto()
    renamed = settings_file(rig, device_id=NEW, broker_port=port)
    with Broker("mosquitto", tmp_path / "broker", port=port) as broker:
        with Observer(broker.port, "observer", ("outpost/+/data", 1)) as observer:
            assert rig.outpost("provision", renamed, "--held", "send") == 0, rig.err
            assert rig.row("held").endswith("sent before the change")
            observer.wait(int(rig.row("held").split()[0]) + 3)
            topics = [one.topic for one in observer.messages]
            seen = numbers(observer)
    assert list(dict.fromkeys(topics)) == [f"outpost/{OLD}/data", f"outpost/{NEW}/data"]
    assert seen == list(range(len(seen))), "none is missing, none came twice"


def test_sent_first_without_a_broker_changes_nothing(rig, port):
    before = held(rig)
    renamed = settings_file(rig, device_id=NEW, broker_port=port)
    words = ("--settings", renamed, "--no-link", "--link-timeout", "2", "--held", "send")
    assert rig.outpost("flash", *words) == 2
    assert "ECONNREFUSED" in rig.err and "Nothing else was changed" in rig.err
    assert on_board(rig)["device_id"] == OLD
    assert held(rig)[f"outpost/{OLD}/data"] >= before[f"outpost/{OLD}/data"]


def test_kept_the_name_stays_and_the_rest_changes(rig, port):
    before = held(rig)
    renamed = settings_file(rig, device_id=NEW, broker_port=1, interval_ms=300)
    assert rig.outpost("flash", "--settings", renamed, "--no-link", "--held", "keep") == 0, rig.err
    found = on_board(rig)
    assert (found["device_id"], found["broker_port"], found["interval_ms"]) == (OLD, port, 300)
    assert f"it stays {OLD} at 127.0.0.1:{port}" in rig.row("held")
    [topic] = held(rig)
    assert topic == f"outpost/{OLD}/data" and held(rig)[topic] >= before[topic]


def test_kept_the_broker_the_modules_for_it_stay(tmp_path, tree, port, monkeypatch):
    """The new settings are without TLS, and the board stays at a broker with TLS."""
    monkeypatch.chdir(tmp_path)
    made = make_certificates.made_or_skip(tmp_path / "certificates")
    with Rig(tmp_path / "rig", tree) as rig:
        secure = {"broker_host": "localhost", "tls": True, "ca_file": str(made / "ca.pem")}
        settings = settings_file(rig, device_id=OLD, broker_port=port, **secure)
        assert rig.outpost("flash", "--settings", settings, "--no-link") == 0, rig.err + rig.out
        wait_until_held(rig, OLD, 1)
        renamed = settings_file(rig, device_id=NEW, broker_port=port)
        words = "--settings", renamed, "--no-link", "--held", "keep"
        assert rig.outpost("flash", *words) == 0, rig.err
        assert on_board(rig)["tls"] and "/support/tls_link.mpy" in rig.hashes()


def test_aside_they_are_in_a_file_before_they_leave_the_board(rig, port, tmp_path):
    renamed = settings_file(rig, device_id=NEW, broker_port=port)
    assert rig.outpost("provision", renamed, "--held", "aside") == 0, rig.err
    count = int(rig.row("held").split()[0])
    [path] = tmp_path.glob(f"held-{OLD}-*.img")
    saved = read_image(path.read_bytes())
    assert [one.seq for one in saved.held] == list(
        range(saved.next_seq)
    ) and count == saved.next_seq
    assert {one.record.topic for one in saved.held} == {f"outpost/{OLD}/data".encode()}
    wait_until_held(rig, NEW, 1)
    assert [*held(rig)] == [f"outpost/{NEW}/data"]


def test_only_the_broker_changes_and_they_move(rig, tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path / "broker") as broker:
        moved = settings_file(rig, device_id=OLD, broker_port=broker.port)
        assert rig.outpost("provision", moved) == 2
        assert "change broker_port" in rig.err and "--held move" in rig.err
        with Observer(broker.port, "observer", (f"outpost/{OLD}/data", 1)) as observer:
            assert rig.outpost("provision", moved, "--held", "move") == 0
            observer.wait(LEAST + 3)
            assert numbers(observer)[: LEAST + 3] == list(range(LEAST + 3))


def test_at_a_terminal_it_is_asked(rig, port):
    renamed = settings_file(rig, device_id=NEW, broker_port=port)
    ours, theirs = pty.openpty()
    command = outpost_command.line("provision")
    command += ["--board", RIGS / "rig_board", "--port", rig.port, renamed]
    with subprocess.Popen(
        [*map(str, command)], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, cwd=REPOSITORY, env=children.tools_environment(),
    ) as process:  # fmt: skip
        os.write(ours, b"what?\nkeep\n")
        said = process.communicate(timeout=300)[0]
    assert "outpost/rig-1/data" in said and "keep its name and broker" in said
    assert on_board(rig)["device_id"] == OLD
