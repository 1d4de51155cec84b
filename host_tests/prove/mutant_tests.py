"""The unit tests as killers of mutants, all in one process: they are collected once, and each
mutant gets a fork of it, in which its function's code replaces the original's. A mutant is tried
with the tests that enter its function, the quick ones first.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

import paths
from mutant_changes import Mutant

OUTPOST = paths.FIRMWARE / "outpost"
_TESTS = paths.HOST_TESTS / "firmware" / "outpost"
_CPU_S = 900  # of a mutant: its tests together take 40, the scopes that may follow 60 each
# CPU of a test: it is endless if it takes this many times as long as without a mutant.
_LEAST_S, _TIMES = 2, 10
_HEAP_BYTES = 4 << 30

# They take long, or run mutants or another interpreter themselves.
_LEFT_OUT = (
    "test_100_000_messages", "test_images_are_identical", "test_each_mutant_is_caught",
    "test_mutants_are_caught", "test_a_server_that_is_silent_for_a_day",
)  # fmt: skip


class Suite:
    """The tests, collected and measured. collected() makes it."""

    def __init__(self, items: list[pytest.Item], processes: int) -> None:
        self._processes = processes
        self._by_function: dict[str, list[tuple[float, pytest.Item]]] = {}
        for item, (seconds, functions) in self._measured(items):
            for function in functions:
                self._by_function.setdefault(function, []).append((seconds, item))

    def _measured(self, items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, Any]]:
        """Returns _measure() of each. Cached, because it takes a minute."""
        read = {*OUTPOST.rglob("*.py"), *paths.FAKES.glob("*.py"), *(item.path for item in items)}
        texts = [path.read_bytes() for path in sorted(read)]
        digest = hashlib.sha256(b"".join(texts)).hexdigest()[:12]
        kept = paths.REPOSITORY / "build" / "mutants" / f"tests-{digest}.json"
        if not kept.exists():
            found = {item.nodeid: of for item, of in self._forked(items, _measure)}
            if failed := [name for name, of in found.items() if isinstance(of, str)]:
                raise SystemExit(f"fails without a mutant: {failed[0]}")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found), encoding="utf-8")
        found = json.loads(kept.read_text(encoding="utf-8"))
        return ((item, found[item.nodeid]) for item in items)

    def killers(
        self, mutants: Iterable[Mutant], killer: Callable[[Mutant], str]
    ) -> Iterator[tuple[Mutant, str]]:
        """Yields (mutant, what `killer` says about it; "": nothing kills it)."""
        return self._forked(mutants, killer)

    def killer(self, mutant: Mutant) -> str:
        """Returns the first test that fails with the mutant; "": none. Call it in a fork, because
        the mutant stays."""
        try:
            _replace(mutant)
        except Exception as error:  # a module that cannot be imported
            return f"{type(error).__name__} at import"
        signal.signal(signal.SIGVTALRM, _stop)
        tests = self._by_function.get(mutant.place, [])
        for seconds, item in sorted(tests, key=lambda one: (one[0], one[1].nodeid)):
            signal.setitimer(signal.ITIMER_VIRTUAL, _LEAST_S + _TIMES * seconds)
            passes = _passes(item)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if not passes:
                return item.nodeid.rsplit("/", 1)[-1]
        return ""

    def _forked(self, work: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
        """Yields (one of work, function(it)) for each, run in separate processes, in the order in
        which they end. For a process that dies it yields the signal, or "does not end" if the time
        was up."""
        running: dict[int, tuple[Any, int]] = {}
        for one in work:
            pid, pipe = _fork(function, one)
            running[pid] = one, pipe
            if len(running) == self._processes:
                yield _ended(running)
        while running:
            yield _ended(running)


def collected(files: Iterable[str], work: Callable[[Suite], None], processes: int) -> int:
    """Collect the tests, and call work(suite). Returns the exit status of pytest."""
    arguments = [
        "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly",
        "-k", " and ".join(f"not {name}" for name in _LEFT_OUT),
        *(f"{_TESTS / file}.py" for file in files),
    ]  # fmt: skip
    return int(pytest.main(arguments, plugins=[_Loop(work, processes)]))


class _Loop:
    def __init__(self, work: Callable[[Suite], None], processes: int) -> None:
        self._work, self._processes = work, processes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.config.pluginmanager.getplugin("capturemanager").suspend_global_capture()
        self._work(Suite(session.items, self._processes))
        return True


def _fork(function: Callable[[Any], Any], one: Any) -> tuple[int, int]:
    """Returns (process, the pipe from which its answer is read)."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    os.close(reader)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_HEAP_BYTES, _HEAP_BYTES))
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    try:
        answer = function(one)
    except BaseException as error:
        answer = f"{type(error).__name__} outside of a test"
    try:
        os.write(writer, json.dumps(answer).encode())
    finally:
        os._exit(0)  # nothing of the parent is done twice


def _ended(running: dict[int, tuple[Any, int]]) -> tuple[Any, Any]:
    pid, status = os.wait()
    one, pipe = running.pop(pid)
    with open(pipe, "rb") as answer:
        data = answer.read()
    if data:
        return one, json.loads(data)
    ended_by = os.waitstatus_to_exitcode(status)
    if ended_by >= 0:  # proves nothing
        raise RuntimeError(f"a fork ended with {ended_by} and without an answer: {one}")
    return one, "does not end" if ended_by == -signal.SIGXCPU else f"ends with {ended_by}"


def _measure(item: pytest.Item) -> tuple[float, list[str]]:
    """Returns the seconds of CPU, and the functions of outpost that it enters
    ("module.function")."""
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code)

    start = time.process_time()
    sys.setprofile(note)
    try:
        passes = _passes(item)
    finally:
        sys.setprofile(None)
    if not passes:
        raise RuntimeError(f"fails without a mutant: {item.nodeid}")
    ours = [code for code in entered if Path(code.co_filename).is_relative_to(OUTPOST)]
    names = {f"{Path(code.co_filename).stem}.{code.co_name}" for code in ours}
    return time.process_time() - start, sorted(names)


class _Endless(BaseException):
    pass


def _stop(signum: int, frame: object) -> None:
    raise _Endless


def _passes(item: pytest.Item) -> bool:
    try:
        reports = runtestprotocol(item, log=False, nextitem=None)
    except (_Endless, TypeError):  # its time was up while pytest was at work, or between two lines,
        return False  # where CPython 3.11 has no number for pytest's report
    return not any(report.failed for report in reports)


def _replace(mutant: Mutant) -> None:
    """Replace permanently, in this process: the loaded code of the mutant's module gets the
    mutant's code, and so does what is loaded again after unload()."""
    path = paths.library_module(mutant.module)
    code = compile(mutant.tree(), str(path), "exec")
    sys.meta_path.insert(0, _Finder(paths.dotted(path), code))
    fresh = ModuleType(paths.dotted(path))
    exec(code, vars(fresh))
    new = {_place(one): one for one in _functions(path) if one.__globals__ is vars(fresh)}
    for old in _functions(path):
        if old.__globals__ is not vars(fresh):
            better = new[_place(old)]
            old.__code__, old.__defaults__ = better.__code__, better.__defaults__


def _functions(path: Path) -> list[FunctionType]:
    found = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
    return [one for one in found if one.__code__.co_filename == str(path)]


def _place(function: FunctionType) -> tuple[str, int]:
    return function.__code__.co_name, function.__code__.co_firstlineno


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and runs this code for it."""

    def __init__(self, module: str, code: CodeType) -> None:
        self._name, self._code = module, code

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        is_it = name == self._name
        return importlib.util.spec_from_loader(name, self) if is_it else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, vars(module))
