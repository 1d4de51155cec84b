# cpython-only: runs a desktop tool as a process
"""`outpost live --alerts` and `outpost run` with an alerts.toml, as processes: killed between
sending and recording, ended and started again, with a receiver that hangs.
"""

import os
import signal
import threading

import pytest

from alerts_rig import WAIT_S, Hook, toml
from collector_process import wait_until
from home_run import Board, Home
from live_server import Server, Writer
from outpost_tools import cli
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto

RULE = '[[reading]]\nsensor = "temperature"\nabove = 8\n'


def live(folder, hook, more=""):
    path = toml(folder, f'[[webhook]]\nurl = "{hook.url}"\n{more}{RULE}')
    return Server(folder / "log", folder, "--alerts", str(path))


def test_a_reading_is_told_once_and_once_when_it_is_over_and_not_after_a_restart(tmp_path, capsys):
    writer = Writer(tmp_path / "log")
    with Hook() as hook:
        with live(tmp_path, hook) as server:
            writer.store("fridge", ("temperature", "Cel", 9.5))
            wait_until(lambda: len(hook.requests) == 1)
            server.wait_for("<b>9.5</b> °C<")
        with live(tmp_path, hook) as server:
            server.wait_for("<b>9.5</b> °C<")
            assert cli.main(["alerts", "status", str(tmp_path / "alerts.toml")]) == 0
            writer.store("fridge", ("temperature", "Cel", 5))
            wait_until(lambda: len(hook.requests) == 2)
        said = server.output.read_text()
    assert hook.alerts() == [
        ("begin", "fridge: temperature 9.5 °C, above 8 °C"),
        ("end", "fridge: temperature 5 °C, no longer above 8 °C"),
    ]
    first, last = hook.documents()
    assert (
        first["alerts"][0]["id"] == last["alerts"][0]["id"] and first["alerts"][0]["value"] == 9.5
    )
    assert "alerts: webhook 127.0.0.1: sent: fridge: temperature 9.5 °C" in said
    assert "secret-path" not in said and "hidden" not in said and "Traceback" not in said
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("fridge: temperature 9.5 °C, above 8 °C")
    assert lines[1] == "webhook 127.0.0.1: nothing waits"


def test_killed_between_sending_and_recording_it_is_told_twice_and_not_never(tmp_path):
    """The receiver has it, and the page dies before it knows. The two have one key, by which a
    receiver that looks at it takes them for one."""
    writer = Writer(tmp_path / "log")
    running = []

    def kill(request):
        if len(hook.requests) == 1:
            os.kill(running[0].process.pid, signal.SIGKILL)
            running[0].process.wait(WAIT_S)
        request.status(200)

    with Hook(answer=kill) as hook:
        with live(tmp_path, hook) as server:
            running.append(server)
            writer.store("fridge", ("temperature", "Cel", 9.5))
            wait_until(lambda: server.process.poll() is not None)
        with live(tmp_path, hook):
            wait_until(lambda: len(hook.requests) == 2)
        with live(tmp_path, hook) as server:
            writer.store("fridge", ("temperature", "Cel", 5))
            wait_until(lambda: len(hook.requests) == 3)
    states = [state for state, _ in hook.alerts()]
    assert states == ["begin", "begin", "end"]
    keys = [headers["Idempotency-Key"] for _, headers, _ in hook.requests]
    assert keys[0] == keys[1] != keys[2]


def test_a_receiver_that_hangs_holds_up_neither_page_nor_the_other_nor_the_end(tmp_path):
    writer, leaving = Writer(tmp_path / "log"), threading.Event()
    with Hook(answer=lambda _: leaving.wait(WAIT_S)) as stuck, Hook() as hook:
        more = f'[[webhook]]\nurl = "{stuck.url}"\n'
        with live(tmp_path, hook, more) as server:
            for number in range(3):
                writer.store("fridge", ("temperature", "Cel", 9 + number))
                server.wait_for(f"<b>{9 + number}</b> °C<")
                writer.store("fridge", ("temperature", "Cel", 5))
                wait_until(lambda number=number: ends(hook) > number)
            wait_until(lambda: stuck.requests)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(WAIT_S) == 0
        leaving.set()
    assert len(stuck.requests) == 1 and "Traceback" not in server.output.read_text()


def ends(hook):
    return sum(state == "end" for state, _ in hook.alerts())


@pytest.mark.skipif(find_mosquitto() is None, reason="missing: mosquitto; run `make setup`")
@pytest.mark.long
def test_outpost_run_tells_a_reading_and_a_collector_that_stores_nothing(tmp_path):
    home = Home(tmp_path)
    home.state.mkdir()
    with Hook() as hook:
        toml(home.state, f'[[webhook]]\nurl = "{hook.url}"\n[attention]\nfor = "1s"\n')
        home.start()
        try:
            home.wait_for("ready")
            assert "alerts   webhook 127.0.0.1; rules: 1" in home.text()
            with Board(home.add_board("kitchen"), 20) as board:
                board.wait_until_confirmed()
            os.kill(home.child("collect"), signal.SIGSTOP)
            wait_until(lambda: ("begin", "collector: it does not answer") in hook.alerts())
            os.kill(home.child("collect"), signal.SIGCONT)
            wait_until(lambda: ends(hook) == 1)
            assert home.terminate() == 0
        finally:
            children.kill(home.process)
    assert "page: alerts: webhook 127.0.0.1: sent: collector: it does not answer" in home.text()
    assert (home.state / "alerts.state.json").exists() and "Traceback" not in home.text()


def test_without_a_file_nobody_is_told_and_the_page_says_how(tmp_path):
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    home = Home(tmp_path)
    home.start()
    try:
        home.wait_for("ready")
        assert "alerts   none; `outpost alerts example > " in home.text()
        assert home.terminate() == 0
    finally:
        children.kill(home.process)
    assert not list(home.state.glob("alerts*"))
