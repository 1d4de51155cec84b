#!/usr/bin/env python3
"""Runs the firmware's tests under real MicroPython: every test_*.py of host_tests but the
CPython-only.

    python3 host_tests/run_micropython.py       sources on 64-bit, then what ships on 32-bit
    python3 host_tests/run_micropython.py --long    sources on 32-bit, and what that leaves out
    python3 host_tests/run_micropython.py --quick   sources on 64-bit, without the long files
    python3 host_tests/run_micropython.py --arch i386 -k outbox    32-bit sources only, and of the
                                                files those with "outbox" in their path
    python3 host_tests/run_micropython.py --shipped -k outbox      the same over what ships
    python3 host_tests/run_micropython.py --arch armhf     on ARM (after: tools/setup.py --arm)

What ships: `outpost`, every `board` and what it brings are the .mpy files that `outpost flash`
copies, compiled for the 32-bit interpreter of this machine; their sources cannot be imported then.

A first line `# cpython-only: <reason>` keeps a file out of here, `# micropython-only: <reason>`
keeps it out of pytest. A file with a line `# long:` on top runs on 32-bit over what ships, and
on 64-bit with --long; one with `# slow:` runs on both with --long. Each file has its own process,
and imports from its own folder and from those that paths.py lists. The files on disk and the files
that reported a result are compared at the end. A skip prints its reason; one that begins with
"missing" is a failure when CI=true.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import paths

sys.path.extend(paths.ALL)

from outpost_tools.boards.files import firmware_build
from outpost_tools.errors import ToolError
from outpost_tools.machine import interpreters

_MPY = {"i386": "x86", "amd64": "x64", "armhf": "armv7emsp"}  # none for arm64
# the fakes (a whole flash in RAM) are bigger than a board; tests of the heap measure for themselves
_HEAP = "heapsize=16M"
_TIME_LIMIT_S = 1800  # against one that hangs; no measure of its speed


@dataclass(frozen=True, slots=True)
class Target:
    """What runs the tests: an architecture's interpreter over the sources, or over what ships."""

    architecture: str
    is_shipped: bool = False
    takes: tuple[str, ...] = ("short", "long", "slow")

    def takes_file(self, path: Path) -> bool:
        return kind_of(path) in self.takes

    @property
    def title(self) -> str:
        return self.architecture + " shipped" * self.is_shipped


def everything(*, long: bool = False) -> list[Target]:
    """Sources on 64-bit, what ships on 32-bit: on ARM as far as its kernel runs that. long: what
    that leaves out."""
    wide, *narrow = interpreters.REQUIRED_ARCHITECTURES
    narrow = narrow or [
        name for name in interpreters.DEFAULT_ARCHITECTURES if interpreters.find_micropython(name)
    ]
    small = [name for name in narrow if name != wide][:1]
    if long:
        return [
            *(Target(name, takes=("short",)) for name in small),
            *(Target(name, is_shipped=True, takes=("slow",)) for name in small),
            Target(wide, takes=("long", "slow")),
        ]
    shipped = (Target(name, is_shipped=True, takes=("short", "long")) for name in small)
    return [Target(wide, takes=("short",)), *shipped]


@dataclass(frozen=True, slots=True)
class Place:
    """A target made ready. product: where its firmware/ and boards/ are."""

    target: Target
    command: list[str]
    product: Path

    @property
    def check(self) -> str:
        """Executed before a test file: the right form of the firmware must be there, no other."""
        suffix = ".mpy" if self.target.is_shipped else ".py"
        return (
            f"import outpost; assert outpost.__file__.endswith('/__init__{suffix}'), "
            "outpost.__file__; "
        )


@dataclass(slots=True)
class Result:
    """What one file gave under one interpreter. `problem` is "" where all is well."""

    target: str
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
        return f"{word} {self.target:12} {self.file}: {counts} ({self.seconds:.1f} s)"


def first_lines(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return [file.readline(), file.readline()]


def discover(folder: Path, pattern: str = "") -> list[str]:
    """Paths below `folder` of the test files that must run under MicroPython; `pattern` is a part
    of such a path.
    """
    files = [
        path
        for path in sorted(folder.rglob("test_*.py"))
        if pattern in str(path.relative_to(folder))
    ]
    return [
        str(path.relative_to(folder))
        for path in files
        if not first_lines(path)[0].startswith("# cpython-only:")
    ]


def kind_of(path: Path) -> str:
    """ "short", "long" or "slow"."""
    marked = (re.match(r"# (long|slow):", line) for line in first_lines(path))
    return next((found[1] for found in marked if found), "short")


def unreported(on_disk: Iterable[str], reported: Iterable[str]) -> list[str]:
    """One line per file that is on disk and gave no result, or gave a result and is not on disk."""
    on_disk, reported = set(on_disk), set(reported)
    return [f"{name} is on disk and was not run" for name in sorted(on_disk - reported)] + [
        f"{name} was run and is not on disk" for name in sorted(reported - on_disk)
    ]


def environment(folder: Path, product: Path = paths.REPOSITORY) -> dict[str, str]:
    """folder: of the test file. product: where firmware/ and boards/ are, sources or compiled."""
    parts = [product / path.relative_to(paths.REPOSITORY) for path in paths.PRODUCT]
    path = paths.joined(folder, *parts, *paths.HELPERS, paths.RIGS / "unittest_lite", ".frozen")
    return os.environ | {"MICROPYPATH": path}


def compile_product(folder: Path, architecture: str) -> None:
    """firmware/ and boards/ as `outpost flash` copies them, in their places in the repository.
    Raises ToolError.
    """
    parts = {"firmware": firmware_build.sources(paths.FIRMWARE)}
    parts |= {
        f"boards/{path.parent.name}": firmware_build.board_sources(path.parent)
        for path in paths.REPOSITORY.glob("boards/*/board.py")
    }
    parts["boards/BENCH/virtual"] = firmware_build.world_sources(paths.BENCH_BOARD)
    parts[f"boards/{firmware_build.DRIVERS}"] = firmware_build.driver_sources(paths.BOARDS)
    for place, texts in parts.items():
        firmware_build.write(folder / place, firmware_build.compile_all(texts, _MPY[architecture]))
    shutil.copy(paths.FIRMWARE / firmware_build.MAIN, folder / "firmware")


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


def run_file(place: Place, folder: Path, file: str, options: argparse.Namespace) -> Result:
    """Runs one file in a process and a working folder of its own."""
    result = Result(place.target.title, file)
    code = (
        f"{place.check}import unittest; unittest.run_module({Path(file).stem!r}, {options.verbose})"
    )
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outpost-test-") as work:
        try:
            done = subprocess.run(
                [*place.command, "-X", _HEAP, "-c", code], cwd=work,
                env=environment((folder / file).parent, place.product), timeout=options.time_limit,
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
        print(f"     {result.target} {result.file}: {result.problem}", flush=True)


def run_target(
    target: Target, folder: Path, options: argparse.Namespace
) -> tuple[list[Result], list[str]]:
    """Runs all files on one target. Returns the results and the problems that belong to no file."""
    command = interpreters.find_micropython(target.architecture)
    if command is None:
        return [], [
            f"no MicroPython for {target.architecture}: "
            "run `make setup`, it says what it cannot get"
        ]
    print(
        f"{interpreters.describe(command)}{', what ships' * target.is_shipped}: {command[0]}",
        flush=True,
    )
    if not target.is_shipped:
        return run_files(Place(target, command, paths.REPOSITORY), folder, options)
    with tempfile.TemporaryDirectory(prefix="outpost-shipped-") as product:
        compile_product(Path(product), target.architecture)
        return run_files(Place(target, command, Path(product)), folder, options)


def run_files(
    place: Place, folder: Path, options: argparse.Namespace
) -> tuple[list[Result], list[str]]:
    def wanted() -> list[str]:
        return [
            name for name in discover(folder, options.k) if place.target.takes_file(folder / name)
        ]

    files, results = wanted(), []
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for result in pool.map(lambda file: run_file(place, folder, file, options), files):
            show(result, options.verbose)
            results.append(result)
    problems = unreported(wanted(), [result.file for result in results])
    if not files and len(place.target.takes) > 2:
        problems.append(
            f"{folder} has no test file for MicroPython"
            + f" with {options.k!r} in its path" * bool(options.k)
        )
    return results, problems


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--arch",
        action="append",
        choices=interpreters.KNOWN,
        help="may be given repeatedly",
    )
    parser.add_argument(
        "--shipped", action="store_true", help="what ships, in place of the sources (on i386)"
    )
    parser.add_argument(
        "--long", action="store_true", help="what a run without options leaves out, for its time"
    )
    parser.add_argument(
        "--quick", action="store_true", help="sources on 64-bit alone, without the long files"
    )
    parser.add_argument("-k", default="", metavar="TEXT", help="only files with TEXT in their path")
    parser.add_argument(
        "--verbose", "-v", action="store_true", help="name every test, show all output"
    )
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="files at a time (default: 2)"
    )
    parser.add_argument(
        "--time-limit", type=float, default=_TIME_LIMIT_S, metavar="S", help="per file, seconds"
    )
    parser.add_argument(
        "--folder", type=Path, default=paths.HOST_TESTS, help="where the test files are"
    )
    return parser.parse_args(arguments)


def targets(options: argparse.Namespace) -> list[Target]:
    """Those that were asked for; without a word those of `make test`."""
    if options.shipped:
        chosen = options.arch or [everything()[-1].architecture]
        return [Target(architecture, is_shipped=True) for architecture in chosen]
    if options.arch:
        return [Target(architecture) for architecture in options.arch]
    return everything()[:1] if options.quick else everything(long=options.long)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    results, problems = [], []
    for target in targets(options):
        try:
            found, missing = run_target(target, options.folder.resolve(), options)
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
