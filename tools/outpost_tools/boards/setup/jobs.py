"""Work on boards, each job in its own process, one at a time on a port. A job continues even if the
browser or this process ends, because a half-flashed board would be worse.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.machine import children
from outpost_tools.text.visible import visible

WORKER = [sys.executable, "-m", "outpost_tools.boards.setup.worker"]
_ENDING_S = 30.0  # until the board's program runs again; a board answers within 10 s
_STILL = "the board does not answer; the work goes on until it times out; then reset the board"
_MOST_LINES = 2000  # kept for each job
_KEPT = 20  # finished jobs

Line = dict[str, Any]


class Job:
    """Starts its process at once. lines: its output, in the form of worker.py."""

    def __init__(self, task: str, port: str, order: dict[str, Any], first: list[str]) -> None:
        self.number = secrets.token_hex(4)
        self.task, self.port = task, port
        self.lines: list[Line] = [{"note": text} for text in first]
        self._is_over = False
        self._process = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=children.tools_environment(PYTHONUNBUFFERED="1"),
            start_new_session=True,  # we pass on Ctrl-C, once
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._tell(order)

    @property
    def is_running(self) -> bool:
        return not self._is_over

    def _tell(self, order: dict[str, Any]) -> None:
        """By a pipe, so that no password is in a command line or a file."""
        with contextlib.suppress(OSError):  # it ended at once, and its output says why
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            found = _line(line)
            if len(self.lines) < _MOST_LINES or "note" not in found:
                self.lines.append(found)
        status = self._process.wait()
        if not any("end" in line for line in self.lines):
            self.lines.append({"end": "error", "text": f"it ended with status {status}"})
        self._is_over = True

    def interrupt(self) -> None:
        """Like Ctrl-C during `outpost flash`: the board's program starts again."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float) -> bool:
        """Whether it has finished."""
        self._reader.join(seconds)
        return self._is_over

    def last_words(self) -> str:
        return next((one["text"] for one in reversed(self.lines) if one.get("text")), "")


def _line(text: bytes) -> Line:
    """A line of the worker, or what a library printed in its process."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return {"note": visible(text.decode("utf-8", "replace").strip())}


class Jobs:
    """All jobs. Thread-safe."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._is_ending = False
        self.were_interrupted = False

    def check_free(self, port: str) -> None:
        """Raises ToolError."""
        if any(job.port == port and job.is_running for job in [*self._jobs.values()]):
            raise ToolError(f"{port}: work on this board is going on; wait until it is done")

    def start(self, task: str, port: str, order: dict[str, Any], first: list[str]) -> Job:
        """first: lines to show before its output. Raises ToolError."""
        with self._lock:
            if self._is_ending:
                raise ToolError("`outpost setup` is ending")
            self.check_free(port)
            job = Job(task, port, order, first)
            self._jobs[job.number] = job
            over = [one.number for one in self._jobs.values() if not one.is_running]
            for number in over[:-_KEPT]:
                del self._jobs[number]
        return job

    def find(self, number: str) -> Job | None:
        return self._jobs.get(number)

    def newest(self) -> Job | None:
        return next(reversed([*self._jobs.values()]), None)

    def end(self) -> None:
        """Interrupts running jobs, and waits until each board's program runs again."""
        with self._lock:
            self._is_ending = True
        running = [job for job in self._jobs.values() if job.is_running]
        for job in running:
            self.were_interrupted = True
            self._say(f"{job.port}: interrupting; the board's program starts again first")
            job.interrupt()
        for job in running:
            is_over = job.wait(_ENDING_S)
            self._say(f"{job.port}: {job.last_words() if is_over else _STILL}")
