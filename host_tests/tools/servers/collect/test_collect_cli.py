# cpython-only: runs a desktop tool as a process, against nobody
"""`outpost collect` at the command line: signals, bad arguments, one owner of a directory."""

import subprocess

import pytest

import outpost_command
from collector_process import LIMIT_S, Process, wait_until
from outpost_tools.machine import children


def test_sigint_without_a_broker_ends_at_once(tmp_path):
    with Process(tmp_path, children.free_port()) as collector:
        wait_until(lambda: collector.output.exists() and "trying again" in collector.text())
        assert collector.interrupt() == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--broker", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["--broker", "192.168.1..10:1883"], "'192.168.1..10:1883' is not HOST:PORT"),
        (["--broker", "127.0.0.1:1", "--id", "../x"], "--id '../x'"),
        (["--broker", "127.0.0.1:1", "--prefix", "a/#"], "--prefix 'a/#'"),
        (["--broker", "127.0.0.1:1", "--password-file", "x"], "--password-file needs --user"),
        (
            ["--broker", "127.0.0.1:1", "--user", "u", "--password-file", "/nonexistent"],
            "/nonexistent",
        ),
        (["--broker", "127.0.0.1:1", "--segment-bytes", "0"], "'0' is not a number above 0"),
        (["--broker", "127.0.0.1:1", "--confirm-seconds", "1e300"], "'1e300' is not a number"),
        (["--broker", "127.0.0.1:1", "--segment-seconds", "inf"], "'inf' is not a number"),
    ],
)
def test_bad_arguments(tmp_path, options, complaint):
    done = outpost_command.run("collect", "--log", tmp_path, *options)
    assert done.returncode == 2
    assert complaint in done.stderr and "Traceback" not in done.stderr


def test_second_process_on_the_directory(tmp_path):
    with Process(tmp_path, children.free_port()) as collector:
        wait_until(lambda: collector.output.exists() and "trying again" in collector.text())
        done = subprocess.run(
            collector.command,
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=children.tools_environment(),
        )
        assert done.returncode == 2
        assert "in use by another collector" in done.stderr
