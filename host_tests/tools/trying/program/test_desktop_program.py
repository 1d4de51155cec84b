# cpython-only: starts processes
"""`outpost try`: settings that are there stay, and a sleep is followed by a start. The README's
program against a broker: system/test_readme_program.py."""

import json
import os
import signal
import subprocess

import pytest

import outpost_command
from outpost_tools import cli
from real_broker import wait_for

WRITTEN = {"device_id": "kitchen", "broker_host": "127.0.0.1", "broker_port": 1883}
SLEEPS_TWICE = """
import sys
with open("starts", "a") as file:
    file.write("x")
with open("starts") as file:
    sys.exit(75 if len(file.read()) < 3 else 4)
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("")
    return tmp_path


def said(words, capfd):
    status = cli.main(["try", *words])
    captured = capfd.readouterr()
    return status, captured.out + captured.err


def test_no_settings_says_how_to_get_them(capfd):
    status, text = said(["program.py"], capfd)
    assert status == 2 and "settings.json: not in this folder; --broker HOST:PORT" in text


def test_no_program_is_named_before_anything_is_written(here, capfd):
    status, text = said(["hello.py", "--broker", "127.0.0.1:1883"], capfd)
    assert status == 2 and "hello.py: no such file" in text
    assert not (here / "settings.json").exists()


def test_a_program_may_have_the_name_of_an_option(here, capfd):
    (here / "-c.py").write_text("print('ran')")
    status, text = said(["--broker", "127.0.0.1:1883", "--", "-c.py"], capfd)
    assert status == 0 and "ran" in text


def test_broker_writes_settings_once(here, capfd):
    for wanted in ("settings.json: written; this board is 'kitchen'", ""):
        status, text = said(["program.py", "--broker", "127.0.0.1:1883"], capfd)
        assert status == 0 and wanted in text
    assert json.loads((here / "settings.json").read_text()) == WRITTEN


@pytest.mark.parametrize("text", ["{", "[]", json.dumps(WRITTEN | {"broker_port": 1884})])
def test_other_settings_stay(here, capfd, text):
    (here / "settings.json").write_text(text)
    status, told = said(["program.py", "--broker", "127.0.0.1:1883"], capfd)
    assert status == 2 and "there already, with other settings" in told
    assert (here / "settings.json").read_text() == text


def test_settings_with_more_in_them_name_the_broker_too(here, capfd):
    (here / "settings.json").write_text(json.dumps(WRITTEN | {"outbox_blocks": 4}))
    assert said(["program.py", "--broker", "127.0.0.1:1883"], capfd)[0] == 0


@pytest.mark.parametrize("python", ["c", "m"])
def test_a_sleep_is_followed_by_a_start_and_the_status_is_the_programs(here, capfd, python):
    (here / "settings.json").write_text(json.dumps(WRITTEN))
    (here / "program.py").write_text(SLEEPS_TWICE)
    status, text = said(["program.py", "--python", python], capfd)
    assert status == 4 and (here / "starts").read_text() == "xxx"
    assert text.count("the board has slept") == 2


def test_a_program_ends_with_the_command_that_started_it(here):
    """Also when that is killed."""
    (here / "settings.json").write_text(json.dumps(WRITTEN))
    (here / "program.py").write_text(
        "import os, time\nwith open('new', 'w') as file:\n    file.write(str(os.getpid()))\n"
        "os.rename('new', 'number')\ntime.sleep(3600)\n"
    )
    words = outpost_command.line("try", "program.py")
    command = subprocess.Popen(words, cwd=here)
    try:
        wait_for((here / "number").exists, "the program runs")
        number = int((here / "number").read_text())
    finally:
        command.send_signal(signal.SIGKILL)
        command.wait()
    wait_for(lambda: not _runs(number), "it has ended")


def _runs(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{number}/stat") as file:  # a zombie that nobody has waited for
        return file.read().rpartition(")")[2].split()[0] != "Z"
