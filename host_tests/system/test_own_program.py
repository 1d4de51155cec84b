# cpython-only: starts a broker and interpreters
"""Programs of one's own on a board that the ready program used: each says what is wrong, and ends
with another status than 0. 32-bit MicroPython on the UNIX board; a real broker with users."""

from __future__ import annotations

import json
import ssl
import subprocess

import pytest

from made_broker import HOST, MadeBroker
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from paths import FIRMWARE, PRODUCT, REPOSITORY, joined
from real_broker import environment, micropython, wait_for

LIMIT_S = 180
ASLEEP = 75  # board.sleep() of a desktop board ends the process with it
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
EXAMPLES = {path.stem: path.read_text() for path in (FIRMWARE / "examples").glob("*.py")}
PROGRAMS = EXAMPLES | {"readme": README.split("```python\n")[1].split("```")[0]}
WITH_OUTBOX = sorted({*PROGRAMS} - {"plain_client"})
SETTINGS = {"device_id": "kitchen", "broker_host": HOST, "broker_port": 1, "outbox_blocks": 4}


def prepare(folder, **more):
    (folder / "settings.json").write_text(json.dumps(SETTINGS | more))
    (folder / "simulation.json").write_text('{"sleeps": false}')


def run(folder, name):
    """(status, what it said). One that sleeps starts again: its fourth wake connects."""
    (folder / "program.py").write_text(PROGRAMS[name])
    return run_there(folder)


def run_there(folder):
    for _ in range(4):
        done = subprocess.run(
            [*micropython("i386"), "program.py"], cwd=folder,
            env={**environment(), "MICROPYPATH": joined(*PRODUCT, ".frozen")},  # asyncio
            capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        if done.returncode != ASLEEP:
            break
    print(done.returncode, done.stdout, done.stderr)
    return done.returncode, done.stdout + done.stderr


def run_station(folder, **settings):
    """The ready program stores a few messages; nothing is at its broker's port."""
    prepare(folder, **settings)
    command = [*micropython("i386"), str(FIRMWARE / "main.py")]
    process = children.start(command, log=folder / "main.log", cwd=folder, env=environment())
    journal = folder / "journal.txt"
    try:
        wait_for(
            lambda: journal.exists() and journal.read_bytes().count(b"\n") > 3, "readings stored"
        )
    finally:
        children.kill(process)


@pytest.mark.parametrize("name", WITH_OUTBOX)
def test_series_in_the_outbox(tmp_path, name):
    run_station(tmp_path, series=True, interval_ms=20, sensors=["load"])
    before = (tmp_path / "flash.img").read_bytes()
    prepare(tmp_path)
    status, said = run(tmp_path, name)
    assert status == 1 and "Stuck: outbox: cannot mount, status -12: it holds series" in said
    assert (tmp_path / "flash.img").read_bytes() == before


@pytest.mark.parametrize("name", WITH_OUTBOX)
def test_something_else_in_the_flash(tmp_path, name):
    prepare(tmp_path)
    (tmp_path / "flash.img").write_bytes(b"else" * 4096)
    status, said = run(tmp_path, name)
    assert status == 1 and "status -11: the flash holds something else" in said
    assert (tmp_path / "flash.img").read_bytes() == b"else" * 4096


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_settings(tmp_path, name):
    status, said = run(tmp_path, name)
    assert status == 1 and "settings.json: not found" in said


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    micropython("i386")
    with MadeBroker(tmp_path_factory.mktemp("made"), "kitchen") as made:
        yield made


def prepare_for(broker, folder, **more):
    """As `outpost flash --credentials` does."""
    found = broker.credentials("kitchen")
    (folder / "ca.der").write_bytes(ssl.PEM_cert_to_DER_cert(found.ca))
    user = {"user": found.user, "password": found.password}
    prepare(folder, broker_port=broker.port, tls=True, ca_file="ca.der", **user, **more)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_user_where_the_broker_wants_one(broker, tmp_path, name):
    prepare_for(broker, tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    del settings["user"], settings["password"]
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    status, said = run(tmp_path, name)
    refusal = ": the broker refuses this board, return code 5: 'user' or 'password'"
    assert status == 1 and refusal in said


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {"own_sensor"}))
def test_no_right_to_the_topic(broker, tmp_path, name):
    prepare_for(broker, tmp_path)
    status, said = run(tmp_path, name)
    assert status == 1 and "Stuck: home/kitchen" in said and "outpost/kitchen/data" in said
    flash = tmp_path / "flash.img"
    assert not flash.exists() or not flash.read_bytes().strip(b"\xff"), "nothing was stored"


def test_with_its_user_and_on_its_topic_it_works(broker, tmp_path):
    prepare_for(broker, tmp_path, interval_ms=200)
    status, said = run(tmp_path, "own_sensor")
    assert status == 0 and ": connected\ndelivered: 3 acknowledged\n" in said


def test_no_room(tmp_path):
    prepare(tmp_path, outbox_blocks=2)
    fill = """
from board import Board
from station.settings import load
from station.own_program import open_outbox
outbox = open_outbox(Board().open(load("settings.json")))
while outbox.append(b"t", b"x" * 400, 400) == 0:
    pass
while outbox.append(b"t", b"x", 1) == 0:
    pass
"""
    subprocess.run([*micropython("i386"), "-c", fill], cwd=tmp_path, env=environment(), check=True)
    status, said = run(tmp_path, "publish")
    assert status == 1 and "Stuck: not stored, status -1: the outbox is full" in said


def test_what_may_pass_is_told_and_tried_again(tmp_path):
    port = children.free_port()
    prepare(tmp_path, broker_port=port)
    (tmp_path / "program.py").write_text(PROGRAMS["publish"])
    log = tmp_path / "log"
    command = [*micropython("i386"), "program.py"]
    process = children.start(command, log=log, cwd=tmp_path, env=environment())
    try:
        cause = "no connection, status 111: nothing listens there"
        wait_for(lambda: cause in log.read_text(), "it is told")
        with Broker("mosquitto", tmp_path / "broker", port=port):
            assert process.wait(LIMIT_S) == 0
    finally:
        children.kill(process)
    assert log.read_text().count("\n") == 3, "the cause once, then connected, delivered"


def test_a_message_that_the_broker_does_not_accept_ends_the_program(tmp_path):
    """Not "delivered": it stays in the outbox."""
    limit = "max_packet_size 60"
    with Broker("mosquitto", tmp_path / "broker", more_listeners=limit) as server:
        prepare(tmp_path, broker_port=server.port)
        longer = PROGRAMS["publish"].replace("% number", "% number + bytes(number // 9 * 60)")
        (tmp_path / "program.py").write_text(longer)
        status, said = run_there(tmp_path)
    assert status == 1 and "Stuck: messages that the broker does not accept: 1." in said


NOTHING = """
import gc
from board import Board
from station.own_program import Program
program = Program(Board(), TOPIC)
def used(work, times):
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    for _ in range(times):
        work()
    return gc.mem_alloc() - before
def publish():
    program.publish(TOPIC, PAYLOAD)
publish()
first = used(publish, 9)
while not program.session.connects or not program.client.is_drained():
    program.turn()
print("took", first, used(program.poll, 50), used(program.turn, 20))
while program.client.failures < FAILURES:
    program.turn()  # the broker goes now
print("away", used(program.poll, 50), program.publish(TOPIC, PAYLOAD, 0))
""".replace("TOPIC", 'b"home/kitchen"').replace("PAYLOAD", 'b"21.5"')


def test_publish_poll_and_turn_take_no_heap_while_a_connection_stands_or_is_away(tmp_path):
    """Away: the third attempt failed like the second, so there was nothing to tell."""
    (tmp_path / "program.py").write_text(NOTHING.replace("FAILURES", "3"))
    log, command = tmp_path / "log", [*micropython("i386"), "program.py"]
    with Broker("mosquitto", tmp_path / "broker") as server:
        prepare(tmp_path, broker_port=server.port)
        process = children.start(command, log=log, cwd=tmp_path, env=environment())
        wait_for(lambda: "took" in log.read_text(), "the first figures")
    try:
        assert process.wait(LIMIT_S) == 0
    finally:
        children.kill(process)
    assert "took 0 0 0\n" in log.read_text() and log.read_text().endswith("away 0 False\n")
