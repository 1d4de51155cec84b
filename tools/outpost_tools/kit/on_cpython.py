"""Boots a program in a world under CPython, takes every power cut of it, and follows each.

A program that calls nothing of the world for STUCK_S seconds of this process's CPU hangs. It is
then ended by an exception at each of its lines, which also ends a loop around a bare `except:`.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.kit.importer import Importer
from outpost_tools.kit.virtual_package import module
from outpost_tools.machine import source_tree

STUCK_S = 5.0


class Stuck(BaseException):
    pass


class Program:
    """A program on a kind of board. path: the program; beside it are modules of its own."""

    def __init__(self, path: Path, board: str) -> None:
        self.path, root = path.resolve(), source_tree.repository()
        folders = (self.path.parent, root / "firmware", root / "boards", root / "boards" / board)
        self._roots = tuple(str(folder) for folder in folders)
        self._mine = str(self.path.parent)

    def start(self, world: Any) -> str:
        """One boot: see virtual/boots.py."""
        fakes = module("ports").modules(world)
        importer = Importer(world, fakes, self._roots)
        try:
            with _Watch(world, self.path.parent):
                importer.run(self.path)
            return world.dead or "ended"  # it may have caught the world's end
        except (module("world").Stop, Stuck, SystemExit):
            return world.dead or "ended"
        except Exception as error:
            if not world.dead:
                world.error = self._told(error)
            return world.dead or "error"
        finally:
            importer.clear()

    def _told(self, error: Exception) -> tuple[str, str]:
        """The exception, and the user's line that raised it."""
        lines = [self._named(frame.filename, frame.lineno)
                 for frame in traceback.extract_tb(error.__traceback__)]  # fmt: skip
        text = "".join(traceback.format_exception_only(error)).strip()
        return text, next((line for line in reversed(lines) if line), "")

    def line(self) -> str:
        """Where in the user's own files the program is now."""
        frame: FrameType | None = sys._getframe(1)
        while frame:
            if named := self._named(frame.f_code.co_filename, frame.f_lineno):
                return named
            frame = frame.f_back
        return ""

    def _named(self, file: str, line: int | None) -> str:
        return f"{Path(file).name}:{line}" if str(Path(file).parent) == self._mine else ""


class _Watch:
    """Ends a program that makes no call into the world for long. In the main thread alone, because
    only there a signal can interrupt it; elsewhere nothing is watched."""

    def __init__(self, world: Any, folder: Path) -> None:
        self._world, self._folder, self._calls = world, str(folder), -1
        self._is_main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        if self._is_main:
            self._old = signal.signal(signal.SIGVTALRM, self._look)
            signal.setitimer(signal.ITIMER_VIRTUAL, STUCK_S, STUCK_S)

    def __exit__(self, *error: object) -> None:
        if self._is_main:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, self._old)
            sys.settrace(None)

    def _look(self, _number: int, frame: FrameType | None) -> None:
        if self._world.calls != self._calls:
            self._calls = self._world.calls
            return
        self._world.dead = self._world.dead or "stuck"
        self._world.hurry()
        sys.settrace(self._raise)
        while frame:
            frame.f_trace = self._raise
            frame = frame.f_back
        raise Stuck

    def _raise(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and frame.f_code.co_filename.startswith(self._folder):
            raise Stuck
        return self._raise


class OnCpython:
    """Runs a hunt (virtual/hunt.py) in this process: each cut is kept, and followed when the run
    has ended."""

    def __init__(self, path: Path, scenario: dict) -> None:
        self.program, self._scenario = Program(path, scenario["board"]), scenario

    def cases(self, plan: dict) -> Iterator[dict]:
        """Yields the result of the undisturbed run, then that of each cut. Raises ToolError."""
        waiting: deque[tuple] = deque()
        told: deque[dict] = deque()

        def branch(_: Any, follow: Any, twin: Any, case: dict) -> None:
            waiting.append((follow, twin, case))

        try:
            hunt = module("hunt").Hunt(
                self.program.start, self._scenario, plan, branch, told.append, self.program.line
            )
            hunt.run()
            yield from told
            told.clear()
            while waiting:
                follow, twin, case = waiting.popleft()
                follow(twin, case)
                yield from told
                told.clear()
        except ValueError as error:
            raise ToolError(str(error)) from error
