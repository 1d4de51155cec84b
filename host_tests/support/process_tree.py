"""Memory and CPU time of a program with all that it starts: JVMs, forked workers, what outlives its parent.

The program gets a session of its own (setsid), which its children inherit and which a change of parent or process group
does not end: everything in that session counts. Memory is PSS from /proc: a page that forked workers share counts once,
where a sum of RSS would count it for each of them. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.2
_END_S = 30


def members(session: int) -> dict[tuple[int, str], tuple[str, float]]:
    """{(pid, start time): (name, CPU seconds)} of the session's live processes."""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            name, fields = _stat(entry) if entry.isdigit() else ("", [])
        except OSError:  # it has just ended
            continue
        if fields and int(fields[3]) == session:
            found[int(entry), fields[19]] = (name, (int(fields[11]) + int(fields[12])) / _TICKS)
    return found


def _stat(pid: str) -> tuple[str, list[str]]:
    """(name, the fields behind it): the name may hold spaces and brackets."""
    head, _, tail = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return head.partition("(")[2], tail.split()


def roles(root: int) -> dict[str, float]:
    """CPU seconds of a PySpark program's processes so far, by what they do; those that have ended and were waited for count."""
    found = {"driver": 0.0, "Python workers": 0.0, "JVM tasks": 0.0, "JIT compilers": 0.0, "JVM, rest": 0.0}
    for pid in _descendants(root):
        try:
            name, fields = _stat(str(pid))
        except OSError:  # it has just ended
            continue
        spent = sum(map(int, fields[11:13])) / _TICKS
        if name == "java":
            threads = _threads(pid)
            found |= {role: found[role] + threads[role] for role in threads}
            found["JVM, rest"] += max(spent - sum(threads.values()), 0.0)
        elif pid == root:
            found["driver"] += spent
        else:
            found["Python workers"] += spent + sum(map(int, fields[13:15])) / _TICKS
    return found


def _tasks(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def _threads(pid: int) -> dict[str, float]:
    found = {"JVM tasks": 0.0, "JIT compilers": 0.0}
    for task in _tasks(pid):
        try:
            name, fields = _stat(f"{pid}/task/{task}")
        except OSError:
            continue
        role = "JVM tasks" if name.startswith("Executor task") else "JIT compilers"
        if role == "JVM tasks" or name.startswith(("C1 Comp", "C2 Comp")):
            found[role] += sum(map(int, fields[11:13])) / _TICKS
    return found


def _descendants(root: int) -> list[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit():
                parents[int(entry)] = int(_stat(entry)[1][1])
        except OSError:
            continue
    found = [root]
    for pid in found:  # grows while it runs
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def pss_bytes(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


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
        self._cpu: dict[tuple[int, str], float] = {}
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
        self._cpu |= {process: cpu_s for process, (_, cpu_s) in alive.items()}
        self.peak_bytes = max(self.peak_bytes, pss_bytes([pid for pid, _ in alive]))

    def stop(self) -> float:
        """CPU seconds of all that was seen."""
        self._ended.set()
        self.join()
        return sum(self._cpu.values())


def end_session(session: int) -> None:
    """Kills what is left of it, and waits for its end."""
    deadline = time.monotonic() + _END_S
    while (alive := [pid for pid, _ in members(session) if not _has_ended(pid)]) and time.monotonic() < deadline:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _has_ended(pid: int) -> bool:
    try:
        return _stat(str(pid))[1][0] in "ZX"  # it only waits for its parent to take notice
    except OSError:
        return True


def run(line: list[str], log: Path, *, limit_s: float, memory_limit: int) -> Outcome:
    """Run a program to its end or a limit; its stderr goes to `log`. Nothing of it is left running."""
    begin = time.monotonic()
    with log.open("ab") as errors:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
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
