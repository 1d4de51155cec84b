"""Periodic work, one job at a time, in parallel with the permanent processes: tables, report,
compaction, export. The schedule uses the monotonic clock, so setting the machine's clock neither
delays nor repeats a job.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from outpost_tools.machine import children
from outpost_tools.servers.home import job_notes
from outpost_tools.servers.home.process import spawn
from outpost_tools.text.words import duration

_NICE = ["nice", "-n", "10"]
_AGAIN_S = 30.0  # after a turn with nothing to do, so the first tables follow the first data soon


# A job's next command runs after these exit statuses. 1: the command did its work and found damage
# or conflicts in the log, which the report must show. If it failed outright, the others do no harm.
_GOES_ON_AFTER = (0, 1)


@dataclass
class Job:
    """commands: called when the job is due; an empty list means that there is nothing new to do. A
    command that ends with a status above 1 is the last one to run. again: the commands of the last
    run, if one of them failed; they run again even if there is nothing new."""

    name: str
    every_s: float
    commands: Callable[[], list[list[str]]]
    first_s: float = 30.0
    due_at: float = field(default=0.0, init=False)
    said: str = field(default="", init=False)
    again: list[list[str]] = field(default_factory=list, init=False)


class Jobs:
    """Call turn() regularly: it starts the job that is due, and reports how a job ended, but not
    the same result twice in a row. The jobs that failed last time are also listed in a file beside
    the jobs' logs (servers/home/job_notes.py)."""

    def __init__(self, jobs: list[Job], logs: Path, say: Callable[[str], None]) -> None:
        self._jobs, self._logs, self._say = jobs, logs, say
        for job in jobs:
            job.due_at = time.monotonic() + job.first_s
        self._running: Job | None = None
        self._rest: list[list[str]] = []
        self._process: subprocess.Popen | None = None
        self._began_at = 0.0
        self._trouble: tuple[int, str] | None = None  # status, last line: of the first that failed
        names = {job.name for job in jobs}
        self._failed = {name: why for name, why in job_notes.read(logs).items() if name in names}

    def turn(self) -> None:
        try:
            if self._running is None:
                self._begin()
            elif self._process is not None and self._process.poll() is not None:
                self._continue(self._process.returncode)
        except OSError as error:  # a full disk or too many processes: it may work the next time
            job, self._running, self._process = self._running, None, None
            self._say(f"{job.name if job else 'jobs'}: {error}; tried again at its next time")

    def stop(self) -> None:
        """Ends the running job. Its next run continues where it stopped."""
        children.stop(self._process)

    def _begin(self) -> None:
        now = time.monotonic()
        job = next((one for one in self._jobs if one.due_at <= now), None)
        if job is None:
            return
        self._rest = job.commands() or job.again
        job.again = list(self._rest)
        job.due_at = now + (job.every_s if self._rest else min(job.every_s, _AGAIN_S))
        if self._rest:
            self._running, self._began_at, self._trouble = job, now, None
            self._log(job).unlink(missing_ok=True)
            self._next()

    def _continue(self, status: int) -> None:
        job = self._running
        assert job is not None
        if status and self._trouble is None:
            self._trouble = status, children.tail(self._log(job), 1)
        if status in _GOES_ON_AFTER and self._rest:
            self._next()
            return
        self._tell(job)
        if self._trouble is None:
            job.again = []
        self._running = self._process = None
        job.due_at = time.monotonic() + job.every_s  # counted from its end, so runs never overlap

    def _tell(self, job: Job) -> None:
        self._note(job)
        took = duration(1000 * (time.monotonic() - self._began_at))
        text, more = f"{job.name}: done", f" in {took}, next in {duration(1e3 * job.every_s)}"
        if self._trouble is not None:
            status, line = self._trouble
            text = f"{job.name}: failed (status {status})"
            more = f": {line}; its full output is in {self._log(job)}"
        if text != job.said:
            job.said = text
            self._say(text + more)

    def _note(self, job: Job) -> None:
        before = dict(self._failed)
        self._failed.pop(job.name, None)
        if self._trouble is not None:
            self._failed[job.name] = f"status {self._trouble[0]}: {self._trouble[1]}"
        if self._failed != before:
            with contextlib.suppress(OSError):  # a full disk, which the supervisor reports
                job_notes.write(self._logs, self._failed)

    def _next(self) -> None:
        assert self._running is not None
        command = self._rest.pop(0)
        with self._log(self._running).open("ab") as output:
            self._process = spawn([*_NICE, *command], output)

    def _log(self, job: Job) -> Path:
        return self._logs / f"{job.name}.txt"
