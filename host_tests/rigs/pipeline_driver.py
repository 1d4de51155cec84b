"""`outpost pipeline run --continuous --engine local` as a process that a test kills."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

import outpost_command
from outpost_tools.machine import children
from outpost_tools.readings.pipeline import delta, plan, tables
from outpost_tools.store.base import Store

LIMIT_S = 300  # of a step, on a busy machine


def rounds(place: Store) -> int:
    """How many the tables have."""
    is_there = tables.exists(place, "streams")
    return plan.number(delta.open_table(place / "streams")) if is_there else 0


def open_round(place: Store) -> str:
    """Which tables have the round that is open; "": none is."""
    if not tables.exists(place, "streams"):
        return ""
    opened = delta.Opened(place)
    marks = [plan.mark(opened[name]) for name in tables.SILVER_TABLES]
    have = [name for name, mark in zip(tables.SILVER_TABLES, marks, strict=True)
            if mark != marks[-1]]  # fmt: skip
    return " ".join(have)


class Driver:
    """It lives until it is killed. said: the file of its output; options: more of the command's."""

    def __init__(
        self, log: Store, place: Store, said: Path, lives_s: float = 0.0,
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        line = outpost_command.line("pipeline", "run", "--log", log)
        line += ["--tables", str(place), "--continuous", "--interval", "0.2", "--engine", "local"]
        self._said = said
        with said.open("ab") as out:
            self._process = subprocess.Popen(
                [*line, *options], stdout=out, stderr=out, env=children.tools_environment()
            )
        self._place, self._before = place, rounds(place)
        self._lives_s, self._dies_at = lives_s, float("inf")
        self._ends_by_itself = time.monotonic() + LIMIT_S

    @property
    def has_pool(self) -> bool:
        """The pool's server, its tracker and at least one process."""
        return len(psutil.Process(self._process.pid).children(recursive=True)) > 2

    def is_due(self, *, starts: bool) -> bool:
        """starts: also while it starts."""
        self.check()
        now = time.monotonic()
        if self._dies_at == float("inf") and (starts or self.is_at_work()):
            self._dies_at = now + self._lives_s
        assert now < self._ends_by_itself, "a driver does not start"
        return now > self._dies_at

    def is_at_work(self) -> bool:
        """Somebody has done a round since it was started."""
        self.check()
        return self.has_pool and rounds(self._place) > self._before

    def check(self) -> None:
        """It must not end by itself."""
        status = self._process.poll()
        assert status is None, (status, self._said.read_text(errors="replace")[-3000:])

    def kill(self) -> list[psutil.Process]:
        """Its pool's processes, which must end by themselves."""
        self.check()
        with contextlib.suppress(psutil.NoSuchProcess):
            pool = psutil.Process(self._process.pid).children(recursive=True)
            self.close()
            return pool
        return []

    def close(self) -> None:
        """SIGKILL, also if it has ended."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        while not self.has_pool:
            self.check()
            time.sleep(0.1)
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(LIMIT_S) in (0, 1), self._said.read_text(errors="replace")[-3000:]
