#!/usr/bin/env python3
"""Runs the firmware's tests under real MicroPython, 64-bit and 32-bit: every host_tests/test_*.py but the CPython-only.

    python3 host_tests/run_micropython.py                          all files on amd64 and i386
    python3 host_tests/run_micropython.py --arch i386 -k outbox    the files with "outbox" in their name, 32-bit only
    python3 host_tests/run_micropython.py --arch armhf             on ARM (after: python3 tools/setup.py --arm)

A first line `# cpython-only: <reason>` keeps a file out of here, `# micropython-only: <reason>` keeps it out of pytest.
Each file has its own process. The files on disk and the files that reported a result are compared at the end.
A skip prints its reason; one that begins with "missing" is a failure when CI=true.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent
REPOSITORY = HOST_TESTS.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

from outpost_tools import interpreters  # noqa: E402 - the path must be set first
from outpost_tools.errors import ToolError  # noqa: E402

_PATHS = ("firmware", "boards/UNIX", "host_tests", "host_tests/support", "host_tests/support/unittest_lite")
_HEAP = "heapsize=16M"  # the fakes (a whole flash in RAM) are bigger than a board; tests of the heap measure for themselves
_TIME_LIMIT_S = 300


@dataclass(slots=True)
class Result:
    """What one file gave under one interpreter. `problem` is "" where all is well."""

    architecture: str
    file: str
    passed: int = 0
    failed: int = 0
    skips: list[str] = field(default_factory=list)
    problem: str = ""
    output: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        word = "FAIL" if self.problem else "ok  "
        counts = f"{self.passed} passed, {self.failed} failed, {len(self.skips)} skipped"
        return f"{word} {self.architecture:5} {self.file}: {counts} ({self.seconds:.1f} s)"


def first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline()


def discover(folder: Path, pattern: str = "") -> list[str]:
    """Names of the test files that must run under MicroPython; `pattern` is a part of the name."""
    files = sorted(folder.glob("test_*.py"))
    return [path.name for path in files if pattern in path.name and not first_line(path).startswith("# cpython-only:")]


def unreported(on_disk: Iterable[str], reported: Iterable[str]) -> list[str]:
    """One line per file that is on disk and gave no result, or gave a result and is not on disk."""
    on_disk, reported = set(on_disk), set(reported)
    return [f"{name} is on disk and was not run" for name in sorted(on_disk - reported)] + [
        f"{name} was run and is not on disk" for name in sorted(reported - on_disk)
    ]


def _environment(folder: Path) -> dict[str, str]:
    paths = [str(REPOSITORY / path) for path in _PATHS]
    return os.environ | {"MICROPYPATH": ":".join([str(folder), *paths, ".frozen"])}


def _judge(result: Result, status: int) -> None:
    """Fills the counts from the output, and `problem` where the file did not end as it should."""
    lines = result.output.splitlines()
    result.skips = [line for line in lines if line.startswith("SKIP ")]
    ends = [line.split()[1:] for line in lines if line.startswith("RESULT ")]
    if len(ends) != 1:
        result.problem = f"ended with status {status} without a result"
        return
    result.passed, result.failed, skipped = (int(word) for word in ends[0])
    missing = [line for line in result.skips if line.partition(": ")[2].startswith("missing")]
    if result.failed or status:
        result.problem = f"{result.failed} failed, status {status}"
    elif result.passed + skipped == 0:
        result.problem = "holds no test"
    elif missing and os.environ.get("CI") == "true":
        result.problem = "a skip for want of something is a failure when CI=true"


def run_file(architecture: str, command: list[str], folder: Path, file: str, options: argparse.Namespace) -> Result:
    """Runs one file in a process and a working folder of its own."""
    result = Result(architecture, file)
    code = f"import unittest; unittest.run_module({file.removesuffix('.py')!r}, {options.verbose})"
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outpost-test-") as work:
        try:
            done = subprocess.run(
                [*command, "-X", _HEAP, "-c", code], cwd=work, env=_environment(folder), timeout=options.time_limit,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            result.output = done.stdout.decode(errors="replace")
            _judge(result, done.returncode)
        except subprocess.TimeoutExpired as error:
            result.output = (error.stdout or b"").decode(errors="replace")
            result.problem = f"ran longer than {options.time_limit} s"
    result.seconds = time.monotonic() - started
    return result


def show(result: Result, verbose: bool) -> None:
    print(result.line(), flush=True)
    for line in result.output.splitlines() if verbose or result.problem else result.skips:
        print(f"     {line}")
    if result.problem:
        print(f"     {result.architecture} {result.file}: {result.problem}", flush=True)


def run_architecture(architecture: str, folder: Path, options: argparse.Namespace) -> tuple[list[Result], list[str]]:
    """Runs all files on one interpreter. Returns the results and the problems that belong to no file."""
    command = interpreters.find_micropython(architecture)
    if command is None:
        return [], [f"no MicroPython for {architecture}: run `make setup`, it says what it cannot get"]
    print(f"{interpreters.describe(command)}: {command[0]}", flush=True)
    files = discover(folder, options.k)
    results = []
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for result in pool.map(lambda file: run_file(architecture, command, folder, file, options), files):
            show(result, options.verbose)
            results.append(result)
    problems = unreported(discover(folder, options.k), [result.file for result in results])
    if not files:
        problems.append(f"{folder} has no test file for MicroPython" + f" with {options.k!r} in its name" * bool(options.k))
    return results, problems


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=interpreters.ARCHITECTURES, help="may be given repeatedly")
    parser.add_argument("-k", default="", metavar="TEXT", help="only files with TEXT in their name")
    parser.add_argument("--verbose", "-v", action="store_true", help="name every test, show all output")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="files at a time (default: 2)")
    parser.add_argument("--time-limit", type=float, default=_TIME_LIMIT_S, metavar="S", help="per file, seconds")
    parser.add_argument("--folder", type=Path, default=HOST_TESTS, help="where the test files are")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    results, problems = [], []
    for architecture in options.arch or interpreters.REQUIRED_ARCHITECTURES:
        try:
            found, missing = run_architecture(architecture, options.folder.resolve(), options)
        except ToolError as error:
            found, missing = [], [str(error)]
        results += found
        problems += missing
    for problem in problems:
        print(f"run_micropython: {problem}", file=sys.stderr, flush=True)
    skipped = sum(len(result.skips) for result in results)
    failed = sum(result.failed or bool(result.problem) for result in results)
    print(f"{sum(result.passed for result in results)} passed, {failed} failed, {skipped} skipped")
    return 1 if problems or any(result.problem for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
