# cpython-only: tests a desktop tool
"""`outpost simulate` with real boards: MicroPython, the firmware, power cuts, mosquitto and the
collector.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import outpost_command
from collector_process import LIMIT_S
from outpost_tools.log import segments
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_micropython, find_mosquitto
from outpost_tools.servers.collect.log import frame_key
from outpost_tools.trying.simulate import interpreter
from outpost_tools.trying.simulate.fleet import Fleet
from outpost_tools.trying.simulate.journal import read_journal


@pytest.fixture
def broker(tmp_path):
    if find_mosquitto() is None or find_micropython("i386") is None:
        pytest.skip("missing: mosquitto or MicroPython for i386; run `make setup`")
    with Broker("mosquitto", tmp_path / "broker") as broker:
        yield broker


def simulate(tmp_path, broker, *options):
    command = outpost_command.line("simulate", "--broker", f"127.0.0.1:{broker.port}")
    return [*command, "--out", str(tmp_path / "boards"), *options]


def still_running(folder: Path):
    """Processes whose current folder lies in `folder`: boards."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink().is_relative_to(folder):
                found.append(link.parent.name)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("level, spoken", [("4", "p2"), ("5", "p5")])
def test_boards_with_power_cuts_publish_and_drain(level, spoken, tmp_path, broker):
    log = tmp_path / "log"
    env = children.tools_environment()
    collect = [sys.executable, *"-m outpost_tools.cli collect --broker".split()]
    collect += [f"127.0.0.1:{broker.port}", "--log", str(log)]
    collector = children.start(collect, log=tmp_path / "collector.log", env=env)
    try:
        options = f"--boards 2 --seconds 5 --cuts 3 --interval-ms 20 --level {level}".split()
        command = simulate(tmp_path, broker, *options)
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
    finally:
        assert children.stop(collector, grace_s=LIMIT_S) == 0
    assert "MicroPython" in done.stderr and "32-bit" in done.stderr
    said = "".join(path.read_text() for path in (tmp_path / "broker").glob("*.log"))
    assert re.search(rf"as board-1 \({spoken}, ", said), "mosquitto's name of the level"
    frames = [
        f
        for path in segments.sealed_segments(log / "collector-1")
        for f in segments.read_segment(path)
    ]
    stored = {(key.device, key.seq): frame.payload for frame in frames if (key := frame_key(frame))}
    events = json.loads((tmp_path / "boards" / "events.json").read_text())
    for device in ("board-1", "board-2"):
        journal = read_journal(tmp_path / "boards" / device / "journal.txt")
        published = [entry for entry in journal if entry.kind == "ok"]
        assert len(published) > 30
        assert all(stored[device, entry.seq] == entry.payload for entry in published)
        cuts = sum(entry.kind == "cut" for entry in journal)
        assert cuts == sum(e["kind"] == "power cut" and e["device"] == device for e in events) == 3
    assert still_running(tmp_path) == []


def test_boards_that_are_too_slow_for_their_power_cuts_get_more_time(tmp_path, broker):
    """What they are told to store in a second takes longer, as on a machine with other work."""
    command = simulate(tmp_path, broker, *"--boards 2 --mode broker --cuts 2".split())
    command += "--seconds 1 --interval-ms 1".split()
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=children.tools_environment()
    )
    assert done.returncode == 0, done.stderr
    assert "power cuts to come" in done.stderr
    assert [line.split()[2] for line in done.stdout.splitlines()] == ["power", "2", "2"]


def test_boards_that_cannot_drain_are_named_and_nothing_stays_behind(tmp_path, broker):
    """No collector: nothing is ever confirmed. SIGINT while it waits ends everything."""
    command = simulate(tmp_path, broker, "--boards", "2", "--seconds", "1", "--cuts", "0")
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=children.tools_environment()
    )
    try:
        for line in process.stderr:
            if "draining" in line:
                break
        assert len(still_running(tmp_path)) == 2
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 130
    finally:
        process.kill()
        process.stderr.close()
    assert still_running(tmp_path) == []


def test_a_fleet_that_is_left_has_no_process_any_more(tmp_path, broker):
    """Killed is not gone: what lies in its folder may be used at once."""

    async def left_early():
        async with Fleet(
            tmp_path / "boards", count=4, broker=("127.0.0.1", broker.port), seconds=60
        ) as fleet:
            while not all(board.boots for board in fleet.boards):
                await asyncio.sleep(0.01)
        return [board._process.returncode for board in fleet.boards]

    assert asyncio.run(left_early()) == [-signal.SIGKILL] * 4


def test_a_board_that_fails_is_shown_with_its_words(tmp_path, broker):
    command = simulate(tmp_path, broker, "--boards", "1", "--seconds", "20", "--user", "x" * 65)
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=children.tools_environment(),
    )
    assert done.returncode == 1
    assert "board-1 ended with status 1" in done.stderr and "key 'user'" in done.stderr


def test_the_interpreter_is_named_also_when_it_is_cpython(monkeypatch):
    monkeypatch.setattr(interpreter.interpreters, "find_micropython", lambda _architecture: None)
    command, name = interpreter.choose()
    assert command[0] == sys.executable
    assert name.startswith("CPython") and "no MicroPython here" in name


def send(broker, *words):
    return outpost_command.run("send", "--broker", f"127.0.0.1:{broker.port}", *words)


def test_boards_take_commands_where_that_is_asked_for(tmp_path, broker):
    """report, a set that stays, a set that is taken back, restart; a run later nothing is left."""
    options = "--boards 2 --seconds 3600 --interval-ms 500 --cuts 0 --mode broker".split()
    env = children.tools_environment()
    line = simulate(tmp_path, broker, *options, "--commands")
    process = children.start(line, log=tmp_path / "simulate.log", env=env)
    try:
        found = send(broker, "board-1,board-2", "report")
        assert found.returncode == 0, found.stderr
        assert "board-1" in found.stdout and "board-2" in found.stdout
        found = send(broker, "board-1", "set", "interval_ms=700")
        assert found.returncode == 0, found.stderr
        settings = json.loads((tmp_path / "boards" / "board-1" / "settings.json").read_text())
        assert settings["interval_ms"] == 700
        port = str(settings["broker_port"] ^ 1)  # nobody listens
        found = send(broker, "board-2", "set", f"broker_port={port}", "--within", "3s")
        assert found.returncode == 1 and "taken back" in found.stdout + found.stderr
        assert send(broker, "board-2", "restart").returncode == 0
        assert (tmp_path / "boards" / "board-2" / "commands.bin").exists()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)
    line = simulate(tmp_path, broker, *"--boards 2 --seconds 1 --cuts 0 --mode broker".split())
    assert subprocess.run(line, env=env, check=False, timeout=300).returncode == 0
    assert not (tmp_path / "boards" / "board-2" / "commands.bin").exists()
