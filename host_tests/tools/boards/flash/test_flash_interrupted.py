# cpython-only: tests a desktop tool
"""Ctrl-C while a tool has a board at its port: the board's program, which the tool stopped, runs
again. A station that stands at its prompt collects nothing, and nobody is told."""

import contextlib

import pytest
from mpremote.transport_serial import SerialTransport

from outpost_tools.boards.files import install, payload
from outpost_tools.boards.port import console, kinds
from real_broker import wait_for

pytestmark = pytest.mark.timeout(900)


def interrupt_before(monkeypatch, owner, name):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


def interrupt_after_writes(monkeypatch, count):
    """While the board is on its way into the raw REPL."""
    write = console.Limited.write

    def counted(port, data):
        nonlocal count
        written = write(port, data)
        count -= 1
        if not count:
            raise KeyboardInterrupt
        return written

    monkeypatch.setattr(console.Limited, "write", counted)


@contextlib.contextmanager
def restarted(rig):
    before = len(rig.starts)
    yield
    wait_for(lambda: "main" in rig.starts[before:], "the board's program starts again")


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_an_interrupt_while_the_board_is_being_stopped_starts_its_program_again(
    rig, monkeypatch, writes
):
    interrupt_after_writes(monkeypatch, writes)
    with restarted(rig):
        assert rig.outpost("flash", "--no-link") == 130


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (kinds, "ask"),
        (payload, "build"),
        (install, "_verify"),
        (install, "_commit"),
    ],
)
def test_an_interrupt_at_any_step_starts_its_program_again(rig, monkeypatch, owner, name):
    interrupt_before(monkeypatch, owner, name)
    with restarted(rig):
        assert rig.outpost("flash", "--no-link") == 130
    monkeypatch.undo()


def test_who_insists_is_told_that_the_board_stands_still(rig, monkeypatch):
    interrupt_before(monkeypatch, SerialTransport, "enter_raw_repl")
    assert rig.outpost("flash", "--no-link") == 130
    assert "the board's program did not start again: reset the board" in rig.err
