"""Memory and CPU time of a program with everything that it starts: JVMs, forked workers, and
processes that outlive their parent.

The program gets its own session (setsid), which its children inherit and which they keep when their
parent or process group changes: everything in that session counts. Memory is PSS: a page that
forked workers share counts once, while a sum of RSS would count it for each of them. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

_SAMPLE_S = 0.2
_END_S = 30
_GONE = (psutil.Error, OSError)  # it has just ended


def members(session: int) -> dict[psutil.Process, float]:
    """Returns {process: its CPU seconds} of the session, including processes that have ended and
    wait for their parent.
    """
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(*_GONE):
            if os.getsid(process.pid) == session:
                found[process] = own_cpu_s(process)
    return found


def own_cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with contextlib.suppress(*_GONE):
            total += process.memory_full_info().pss
    return total


# Spark's daemons ignore the end of their workers, so the kernel drops their times: kept from the
# last look.
_forks: dict[psutil.Process, float] = {}


def roles(root: int) -> dict[str, float]:
    """Returns CPU seconds of a PySpark program's processes so far, by role, including those that
    have ended.
    """
    found = {
        "driver": 0.0,
        "Python workers": 0.0,
        "JVM tasks": 0.0,
        "JIT compilers": 0.0,
        "JVM, rest": 0.0,
    }
    driver = psutil.Process(root)
    found["driver"] = own_cpu_s(driver)
    for process in driver.children(recursive=True):
        with contextlib.suppress(*_GONE):
            if process.name() == "java":
                threads = _threads(process)
                found |= {role: found[role] + threads[role] for role in threads}
                found["JVM, rest"] += max(own_cpu_s(process) - sum(threads.values()), 0.0)
                found["Python workers"] += sum(process.cpu_times()[2:4])  # of those that have ended
            elif "daemon" in " ".join(process.parent().cmdline()):
                _forks[process] = own_cpu_s(process)
            else:
                # its own time, and that of the children it waited for
                found["Python workers"] += sum(process.cpu_times()[:4])
    found["Python workers"] += sum(_forks.values())
    return found


def _threads(process: psutil.Process) -> dict[str, float]:
    found = {"JVM tasks": 0.0, "JIT compilers": 0.0}
    for thread in process.threads():
        with contextlib.suppress(OSError):
            # psutil has no names of threads
            name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text()
            role = "JVM tasks" if name.startswith("Executor task") else "JIT compilers"
            if role == "JVM tasks" or name.startswith(("C1 Comp", "C2 Comp")):
                found[role] += thread.user_time + thread.system_time
    return found


@dataclass
class Outcome:
    """`status`: "ok", "failed (exit N)", "time limit" or "memory limit"."""

    status: str
    wall_s: float
    cpu_s: float
    peak_bytes: int
    output: str


class _Watch(threading.Thread):
    """Samples the session until stop(); a process that ends counts with its last sample."""

    def __init__(self, session: int, memory_limit: int, deadline: float) -> None:
        super().__init__(daemon=True)
        self._session, self._memory_limit, self._deadline = session, memory_limit, deadline
        self._cpu: dict[psutil.Process, float] = {}
        self._ended = threading.Event()
        self.peak_bytes, self.stopped_for = 0, ""

    def run(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self._sample()
            if self.peak_bytes > self._memory_limit:
                self.stopped_for = "memory limit"
            elif time.monotonic() > self._deadline:
                self.stopped_for = "time limit"
            if self.stopped_for:
                end_session(self._session)
                return

    def _sample(self) -> None:
        alive = members(self._session)
        self._cpu |= alive
        self.peak_bytes = max(self.peak_bytes, pss_bytes(alive))

    def stop(self) -> float:
        """Returns the CPU seconds of all processes seen."""
        self._ended.set()
        self.join()
        return sum(self._cpu.values())


def end_session(session: int) -> None:
    """Kill what is left of the session, and wait for its end."""
    deadline = time.monotonic() + _END_S
    while (
        alive := [one for one in members(session) if not has_ended(one)]
    ) and time.monotonic() < deadline:
        for process in alive:
            with contextlib.suppress(*_GONE):
                process.send_signal(signal.SIGKILL)
        time.sleep(0.02)


def has_ended(process: psutil.Process) -> bool:
    try:
        # a zombie has ended, and only waits for its parent
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except _GONE:
        return True


def run(line: list[str], log: Path, *, limit_s: float, memory_limit: int) -> Outcome:
    """Run a program to its end or a limit; its stderr goes to `log`. No process of it survives."""
    begin = time.monotonic()
    with log.open("ab") as errors:
        process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        watch = _Watch(process.pid, memory_limit, begin + limit_s)
        watch.start()
        try:
            output = process.communicate()[0]
        finally:
            wall_s = time.monotonic() - begin
            cpu_s = watch.stop()
            end_session(process.pid)
            process.wait()
    failed = f"failed (exit {process.returncode})" if process.returncode else "ok"
    return Outcome(watch.stopped_for or failed, wall_s, cpu_s, watch.peak_bytes, output)
