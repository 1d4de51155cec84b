# cpython-only: a pseudo-terminal with MicroPython behind it
"""A Ctrl-C that comes as a program ends must not cost the board's console a byte: mpremote would
wait for its answer for ever.
"""

import contextlib
import os
import select
import time

import pytest

from outpost_tools.common.interpreters import find_micropython
from pty_board import PtyBoard

BANNER = b"raw REPL; CTRL-B to exit\r\n>"
ROUNDS, PROGRAMS = 40, 20
_LIMIT_S = 30  # in vain


@contextlib.contextmanager
def opened(port):
    descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_until(descriptor, ending):
    data, until = b"", time.monotonic() + _LIMIT_S
    while not data.endswith(ending):
        assert time.monotonic() < until, f"no {ending!r} after {data!r}"
        if select.select([descriptor], [], [], 0.1)[0]:
            data += os.read(descriptor, 1)
    return data


def one_start(port, number):
    """Ctrl-C as its program runs, or just before or after; then programs with one at their end."""
    time.sleep(number * 0.0005)
    os.write(port, b"\r\x03")
    time.sleep(number % 7 * 0.0005)
    os.write(port, b"\r\x01")
    read_until(port, BANNER)
    for program in range(PROGRAMS):
        os.write(port, b"x = 1\x04")
        time.sleep(number % 11 * 0.0001)
        os.write(port, b"\x03" * (program % 2))
        assert b"OK" in read_until(port, b"\x04>"), "the console lost the program"


def test_a_late_interrupt_costs_the_console_nothing(tmp_path):
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython i386: run make setup")
    program = tmp_path / "main.py"
    program.write_text("x = 1\n")
    path = os.path.dirname(__file__)
    for number in range(ROUNDS):
        with PtyBoard(command, tmp_path, path, program) as board, opened(board.port) as port:
            one_start(port, number)
            assert board.starts == ["main"], "the board restarted"
