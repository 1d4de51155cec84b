# cpython-only: tests the desktop tools
"""What is waited for is said with its address and what to do; the same again ever more rarely."""

import time

import pytest

import outpost_command
from outpost_tools import cli
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_micropython, find_mosquitto
from outpost_tools.servers.collect import metrics
from outpost_tools.terminal import notices
from outpost_tools.trying.simulate import run as simulate_run
from real_broker import need_mosquitto


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(notices.time, "monotonic", lambda: now[0])
    return now


def test_a_night_without_a_broker_takes_a_few_lines(clock):
    said = []
    folded = notices.Folded(said.append)
    began = clock[0]
    while clock[0] < began + 12 * 3600:
        folded.tell("refused")
        clock[0] += 5
    assert said[0] == "refused" and said[1].startswith("refused (for 60 s now, 12 tries)")
    assert len(said) < 20 and "for 11." in said[-1]
    assert folded.over() == " after 12.0 h"
    assert folded.over() == ""


def test_what_is_new_is_said_at_once(clock):
    said = []
    folded = notices.Folded(said.append)
    for text in ("refused", "refused", "no answer", "refused"):
        folded.tell(text)
        clock[0] += 1
    assert said == ["refused", "no answer", "refused"]


def test_the_collector_says_once_what_it_waits_for(tmp_path):
    need_mosquitto()
    port = children.free_port()
    words = ["--broker", f"127.0.0.1:{port}", "--log", str(tmp_path / "log"), "--id", "c1"]
    output = tmp_path / "output"
    collector = children.start(
        outpost_command.line("collect", *words),
        log=output,
        env=children.tools_environment(),
    )
    try:
        until = time.monotonic() + 120
        while "trying again" not in children.tail(output) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(2)  # five more tries
    finally:
        children.stop(collector)
    mosquitto = " ".join(find_mosquitto())
    waiting = [line for line in output.read_text().splitlines() if line.startswith("broker ")]
    assert waiting == [
        f"broker 127.0.0.1:{port}: nothing listens there: "
        f"start the broker ({mosquitto} -p {port}), or correct the address; trying again until it "
        "answers; Ctrl-C stops"
    ]


def test_the_collectors_figures_are_not_repeated_while_nothing_happens(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    counted = metrics.Metrics("c1")
    for _ in range(100):
        now[0] += metrics.STATS_INTERVAL_S
        counted.sum_up(connected=False, quiet=False)
    assert capsys.readouterr().err.count("\n") == 1
    counted.stored(3, 100, 0.001)
    counted.sum_up(connected=True, quiet=False)
    counted.sum_up(connected=True, quiet=False, last=True)
    assert capsys.readouterr().err.count("3 messages stored") == 2


def test_boards_that_no_collector_confirms_say_what_they_wait_for():
    asked = "; does `outpost collect` run at broker b:1? --mode broker does without"
    assert simulate_run._why("b:1", "", "collector") == asked
    assert simulate_run._why("b:1", "", "broker") == ""


def test_simulated_boards_without_a_broker_say_so_and_come_to_an_end(tmp_path, capsys, monkeypatch):
    if find_micropython("i386") is None and find_micropython("amd64") is None:
        pytest.skip("missing MicroPython: run `make setup`")
    monkeypatch.setattr(simulate_run, "DRAIN_S", 4.0)
    monkeypatch.setattr(simulate_run, "DRAIN_SAY_S", 1.0)
    port = children.free_port()
    words = ["--boards", "1", "--cuts", "0", "--seconds", "3", "--out", str(tmp_path / "out")]
    assert cli.main(["simulate", *words, "--broker", f"127.0.0.1:{port}"]) == 1
    said = capsys.readouterr().err
    reason = f"broker 127.0.0.1:{port}: nothing listens there"
    assert said.count(f"{reason}: start the broker (") == 2, said
    assert said.count(f"mosquitto -p {port})") == 2, said
    assert "store in flash" in said and "1 of 1 boards hold messages, 0 online" in said
    assert said.splitlines()[-1].startswith("simulate: not drained within 4 s: board-1; broker")
