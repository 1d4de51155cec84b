# cpython-only: a pseudo-terminal with MicroPython behind it
"""Neither a Ctrl-C, whenever it comes, nor a slow reader may cost the board's console a byte,
because mpremote would wait for its answer indefinitely.
"""

import contextlib
import os
import select
import time

import pytest

from outpost_tools.machine.interpreters import find_micropython
from pty_board import PtyBoard
from real_broker import wait_for

BANNER = b"raw REPL; CTRL-B to exit\r\n>"
ROUNDS, PROGRAMS = 40, 20
INTERRUPTS = 200
_LIMIT_S = 120  # the limit of every wait


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
    """Send a Ctrl-C around the start of its program, then run programs with a Ctrl-C at their
    end."""
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


@contextlib.contextmanager
def console(folder, program):
    """A board that runs `program`, and its port's name."""
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython i386: run make setup")
    main = folder / "main.py"
    main.write_text(program)
    path = os.path.dirname(__file__)
    with PtyBoard(command, folder, path, main) as board:
        yield board


def enter_raw_repl(port):
    os.write(port, b"\r\x03\r\x01")
    read_until(port, BANNER)


def test_a_slow_reader_gets_every_byte(tmp_path):
    """The output is more than the port holds, and is read late: a busy machine may stop a tool."""
    with console(tmp_path, "") as board, opened(board.port) as port:
        enter_raw_repl(port)
        os.write(port, b"for n in range(2000): print('%09d' % n)\n\x04")
        time.sleep(1)
        said = read_until(port, b"\x04>")
    assert said == b"OK" + b"".join(b"%09d\r\n" % n for n in range(2000)) + b"\x04\x04>"


def test_what_is_said_while_nobody_has_the_port_open_is_dropped(tmp_path):
    """And it does not block the board."""
    with console(tmp_path, "") as board:
        with opened(board.port) as port:
            enter_raw_repl(port)
            os.write(port, b"import time; time.sleep(0.2); print('x' * 100000)\n\x04")
            read_until(port, b"OK")
            wait_for(lambda: board.is_running_its_program, "the program")
        wait_for(lambda: not board.is_running_its_program, "its end")
        with opened(board.port) as port:
            os.write(port, b"print(1)\n\x04")
            assert b"x" not in read_until(port, b"OK1\r\n\x04\x04>")


MAKES_NAMES = """
import time
while True:
    for n in range(200):
        exec("name%d = 1" % n)
    time.sleep_ms(1)
"""


def test_an_interrupt_leaves_nothing_locked(tmp_path):
    """The program's names and its heap have locks, which no interrupt may leave locked."""
    with console(tmp_path, "") as board, opened(board.port) as port:
        enter_raw_repl(port)
        for number in range(INTERRUPTS):
            os.write(port, MAKES_NAMES.encode() + b"\x04")
            wait_for(lambda: board.is_running_its_program, "the program")
            time.sleep(number % 11 * 0.0007)
            os.write(port, b"\x03")
            assert b"KeyboardInterrupt" in read_until(port, b"\x04>")
            os.write(port, b"y%d = bytearray(50); print(y%d[0])\x04" % (number, number))
            assert read_until(port, b"\x04>") == b"OK0\r\n\x04\x04>"


def test_a_late_interrupt_costs_the_console_nothing(tmp_path):
    for number in range(ROUNDS):
        with console(tmp_path, "x = 1\n") as board, opened(board.port) as port:
            one_start(port, number)
            assert board.starts == ["main"], "the board restarted"
