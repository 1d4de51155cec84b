"""A pseudo-terminal as a board's serial port, with real MicroPython behind it (`raw_repl.py`).
CPython only.

Without a board (`command` empty) the port exists and is silent. What the board sends passes through
`spoil`, which may damage it. While the port is closed, it is dropped, as USB does.
"""

import contextlib
import errno
import os
import pty
import select
import signal
import socket
import subprocess
import threading
import time
import tty
from pathlib import Path

from raw_repl import FRIENDLY_RESET, RAW_RESET

CONSOLE = Path(__file__).with_name("raw_repl.py")
_NEXT = {RAW_RESET: "raw", FRIENDLY_RESET: "main"}
_UNREAD_S = 60  # who has the port open and reads nothing for this long loses what does not fit
_CLOSED_S = 0.01  # between two looks at a closed port
_LOOKS, _LOOK_S = 200, 0.001  # to find a moment at which a program may be interrupted


class PtyBoard:
    """A context manager. `port`: its name; `starts`: how the board was started, one word per (soft)
    reset.
    """

    def __init__(self, command, folder, path, program, spoil=lambda data: data, console=CONSOLE):
        self._command, self._folder, self._program, self.spoil = command, folder, program, spoil
        self._console = console
        self._environment = {**os.environ, "MICROPYPATH": path}
        self.starts = []
        self._child = None
        self._told = None  # our end of the board's stderr: for its reports, and our answers
        self._running = False  # a program, not the console
        self._starting = False  # its program will run, but does not yet
        self._interrupts = False  # a Ctrl-C came meanwhile: kept, as by a port
        self._stop = threading.Event()
        self._pump_thread = threading.Thread(target=self._pump, daemon=True)

    def __enter__(self):
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        os.set_blocking(self._master, False)
        self.port = os.ttyname(slave)
        os.close(slave)  # from here on, a hang-up of the master means that the port is closed
        if self._command:
            self._start("main")
            self._pump_thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self._command:
            self._pump_thread.join()
            self._end()
        os.close(self._master)

    @property
    def is_running_its_program(self):
        return self._running

    def power_cut(self):
        """Cut the power and switch it on again: the board restarts, the port stays."""
        self._child.kill()

    def _start(self, how):
        self._told, told = socket.socketpair()
        self._child = subprocess.Popen(
            [*self._command, str(self._console), how, str(self._program)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            bufsize=0,
        )
        told.close()
        self._starting, self._interrupts = how == "main", False
        # now: until the new process runs, it may hold a port that this process has open
        self.starts.append(how)

    def _end(self):
        self._child.kill()
        status = self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._told):
            stream.close()
        return status

    def _pump(self):
        while not self._stop.is_set():
            told, out = self._told, self._child.stdout
            ready, _, _ = select.select([told, out, self._master], [], [], 0.05)
            if told in ready:  # first, because it says what a Ctrl-C means
                self._note(self._hear())
            elif out in ready:
                self._from_board(os.read(out.fileno(), 4096))
            elif self._master in ready:
                self._to_board(self._typed())

    def _hear(self):
        """Returns the board's report; nothing when the board has ended."""
        try:
            return self._told.recv(4096)
        except ConnectionResetError:  # it ended before it read an answer
            return b""

    def _note(self, text):
        if text:
            for word in text.split():
                self._take(word)
        elif not select.select([self._child.stdout], [], [], 0)[0] or not self._drain():
            self._restart()

    def _take(self, word):
        """Take `run` or `idle` with a digit, which is the answer. Anything decided earlier is sent
        before it.
        """
        self._running = word.startswith(b"run")
        self._starting = False
        if self._running and self._interrupts:
            _interrupt(self._child)
        self._interrupts = False
        with contextlib.suppress(OSError):  # it has ended meanwhile
            self._told.send(word[-1:])

    def _drain(self):
        """Send what the board wrote before it ended. False when that is all."""
        data = os.read(self._child.stdout.fileno(), 4096)
        self._from_board(data)
        return bool(data)

    def _restart(self):
        status = self._child.wait()
        self._end()
        self._running = False
        self._start(_NEXT.get(status, "main"))

    def _from_board(self, data):
        self.send(self.spoil(data.replace(b"\n", b"\r\n")))  # as boards do

    def send(self, data):
        """Send to the reader of the port, at the speed at which it reads."""
        until = time.monotonic() + _UNREAD_S
        while data and time.monotonic() < until and self._is_open():
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self._master, data) :]
                until = time.monotonic() + _UNREAD_S
                continue
            select.select([], [self._master], [], 0.05)

    def _is_open(self):
        """True while a reader has the port open; false also when the board is to end."""
        poll = select.poll()
        poll.register(self._master, select.POLLOUT)
        return not self._stop.is_set() and not any(
            events & select.POLLHUP for _, events in poll.poll(0)
        )

    def _typed(self):
        """Returns what was written to the port, or nothing."""
        try:
            return os.read(self._master, 256)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EAGAIN):  # closed, or just opened
                raise
            time.sleep(_CLOSED_S)
            return b""

    def _to_board(self, data):
        if b"\x03" in data and (self._running or self._starting):
            if self._running:
                _interrupt(self._child)
            else:
                self._interrupts = True
            data = data.replace(b"\x03", b"")
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(data)


def _interrupt(child):
    """Interrupt as a Ctrl-C does on a board. MicroPython on Unix raises from whatever it is doing
    when the signal comes, and its locks at that moment (heap, names) stay locked. So the signal is
    sent while it is in a system call. A program that makes none is interrupted anyway."""
    for _ in range(_LOOKS):
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if _is_in_a_system_call(child.pid):
            break
        child.send_signal(signal.SIGCONT)
        time.sleep(_LOOK_S)
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGCONT)


def _is_in_a_system_call(pid):
    """True also when the process has ended, or Linux does not say."""
    try:
        return not Path(f"/proc/{pid}/syscall").read_text().startswith("-1")
    except OSError:
        return True
