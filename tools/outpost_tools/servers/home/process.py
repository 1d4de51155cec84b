"""A child process that is restarted when it ends, after growing pauses. Each end is reported.

It dies with us. Its output goes line by line to `say`, with its name. Start children from the main
thread, because the kernel ends them with the thread that started them.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO

from outpost_tools.machine import children

_FIRST_S, _LAST_S = 1.0, 60.0
_STEADY_S = 60.0  # a process that ran this long is restarted after the shortest pause
_LINE_BYTES = 2000
_KEPT_LINES = 3
_SECONDS = re.compile(r"\A\d{9,}: ")  # mosquitto's timestamp; the line already has ours
# mosquitto's lines about each connection are left out, because the page shows that better; its
# lines about refused connections are kept
_ROUTINE = re.compile(
    r"New connection from|New client connected|Client \S+ disconnected\.|"
    r"Client \S+ closed its connection|Saving in-memory database|mosquitto version|"
    r"Note: It is recommended to replace"
)


def pause_s(failures: int) -> float:
    """The pause before the next start, after that many ends in a row."""
    return min(_FIRST_S * 2 ** min(failures - 1, 10), _LAST_S)


def spawn(command: list[str], output: IO[bytes] | int) -> subprocess.Popen:
    """Starts one of our subcommands, or mosquitto. Our subcommands do not buffer their output."""
    return children.spawn(command, output, env=children.tools_environment(PYTHONUNBUFFERED="1"))


class Process:
    """Call start(), then turn() regularly, then stop()."""

    def __init__(
        self, name: str, command: list[str], say: Callable[[str], None], *, grace_s: float = 30.0
    ) -> None:
        self.name, self._command, self._say, self._grace_s = name, command, say, grace_s
        self._process: subprocess.Popen | None = None
        self._reader: threading.Thread | None = None
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)
        self._failures = 0
        self._began_at = self._again_at = 0.0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._began_at = time.monotonic()
        self._last.clear()
        try:
            self._process = spawn(self._command, subprocess.PIPE)
        except OSError as error:  # no process or memory left, or the program was deleted
            self._process = None
            self._tell_end(f"cannot be started: {error.strerror}")
            return
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def turn(self) -> None:
        """Notices that the process has ended, and restarts it after the pause."""
        if self.is_running:
            return
        if self._process is not None:
            status, self._process = self._process.returncode, None
            if self._reader is not None:
                self._reader.join(1.0)
            self._tell_end(f"ended with {_status(status)}")
        elif time.monotonic() >= self._again_at:
            self.start()

    def stop(self) -> None:
        children.stop(self._process, grace_s=self._grace_s)

    def _tell_end(self, how: str) -> None:
        is_steady = time.monotonic() - self._began_at >= _STEADY_S
        self._failures = 1 if is_steady else self._failures + 1
        wait_s = pause_s(self._failures)
        self._again_at = time.monotonic() + wait_s
        self._say(f"{self.name}: {how}; starts again in {wait_s:.0f} s")

    def _read(self, process: subprocess.Popen) -> None:
        for line in iter(lambda: process.stdout.readline(_LINE_BYTES), b""):
            text = _SECONDS.sub("", line.decode("utf-8", "replace").rstrip(), count=1)
            # a line that repeats one of the last few is left out
            if text and not _ROUTINE.match(text) and text not in self._last:
                self._last.append(text)
                self._say(f"{self.name}: {text}")
        process.stdout.close()


def _status(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"status {code}"
