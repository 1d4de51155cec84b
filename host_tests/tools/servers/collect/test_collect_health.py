# cpython-only: runs a desktop tool as a process, against a scripted broker
"""What /healthz and a service manager are told."""

import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from collector_process import FULL, LIMIT_S, Process, ScriptedBroker, payload, wait_until
from outpost_tools.machine import children
from outpost_tools.servers.collect.health import STUCK_S, Health, notify


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """Service manager: what it was told until now."""
    path = tmp_path / "notify"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as link:
        link.bind(str(path))
        link.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        told = []

        def read():
            try:
                while True:
                    told.append(link.recv(1000).decode())
            except BlockingIOError:
                return told

        yield read


def test_the_reasons_are_told_until_they_are_over(manager):
    now = [100.0]
    health = Health(lambda: now[0])
    assert "starting" in health.reason
    health.ready()
    assert health.reason is None
    health.tell("disk", "cannot write x")
    health.tell("broker", "not connected")
    health.tell("disk", "cannot write x")
    assert health.reason == "cannot write x; not connected"
    health.tell("disk", None)
    health.tell("broker", None)
    assert health.reason is None
    assert manager() == [
        "STATUS=connected, storing", "READY=1", "STATUS=cannot write x",
        "STATUS=cannot write x; not connected", "STATUS=not connected", "STATUS=connected, storing",
    ]  # fmt: skip


def test_a_loop_that_does_not_turn_is_not_well_and_the_watchdog_is_not_fed(manager):
    now = [100.0]
    health = Health(lambda: now[0])
    health.ready()
    health.turned()
    now[0] += STUCK_S + 1
    assert health.reason == "no turn for 61 s"
    for _ in range(3):
        health.turned()
    assert health.reason is None and manager().count("WATCHDOG=1") == 2


def test_without_a_manager_or_with_one_that_is_gone_nothing_happens(monkeypatch, tmp_path):
    for value in ("", str(tmp_path / "none"), "@outpost-test-none"):
        monkeypatch.setenv("NOTIFY_SOCKET", value)
        notify("READY=1")


def test_an_abstract_socket_is_reached(monkeypatch):
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as link:
        link.bind("")  # the kernel chooses an abstract name
        link.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + link.getsockname()[1:].decode())
        notify("STATUS=a\nREADY=1")
        assert link.recv(100) == b"STATUS=a READY=1"  # one message is one line


def test_healthz_says_why(tmp_path, manager):
    port = children.free_port()

    def healthz():
        try:
            address = f"http://127.0.0.1:{port}/healthz"
            with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    options = ["--metrics-port", str(port)]
    with (
        closing(ScriptedBroker()) as broker,
        Process(tmp_path, broker.port, program=FULL, options=options) as collector,
    ):
        wait_until(lambda: healthz()[0] == 503)
        assert "the broker has not answered" in healthz()[1] and "READY=1" not in manager()
        broker.accept()
        wait_until(lambda: healthz() == (200, "ok\n"))
        assert "READY=1" in manager() and "WATCHDOG=1" in manager()
        broker.publish(1, payload(0))
        wait_until(lambda: healthz()[0] == 503)
        assert "cannot write" in healthz()[1] and "No space left" in healthz()[1]
        collector.gate.touch()
        wait_until(lambda: healthz() == (200, "ok\n"))
        broker.close()
        wait_until(lambda: healthz() == (503, "not connected to the broker\n"))
