#!/usr/bin/env python3
"""How much CPU each test takes, and the list of those that `make test` leaves out for it.

    .venv/bin/python host_tests/rigs/cpu_times.py [--write]      eleven minutes

Runs everything but the tests marked `long`, and prints CPU seconds by folder, then the functions
that take SLOW_S or more, all their cases together, with the processes that they waited for.
--write makes that list slow_tests.txt, from which conftest.py marks them `slow`: `make test-long`
runs them. So the list is measured, and nobody keeps it by hand.

It is also the plugin of pytest that measures, in each of its processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pytest

HOST_TESTS = Path(__file__).resolve().parent.parent
LIST = HOST_TESTS / "slow_tests.txt"
SLOW_S = 0.7
GUARDS = "repository/"  # never slow: what breaks a rule is to be told by `make test`
_FOLDER = "OUTPOST_CPU_TIMES"  # of the environment: where each process writes what it measured
_spent: dict[str, float] = defaultdict(float)


def name_of(node: str) -> str:
    """Of a function, whatever its case: tools/store/test_x.py::test_y."""
    return node.partition("[")[0].removeprefix("host_tests/")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    cpu_s, begin = sum(os.times()[:4]), time.monotonic()
    result = yield
    # Never more than the time by the clock: else it is of a child that an earlier test left.
    spent = min(sum(os.times()[:4]) - cpu_s, time.monotonic() - begin)
    _spent[name_of(item.nodeid)] += spent
    return result


def pytest_sessionfinish():
    if _spent:
        Path(os.environ[_FOLDER], f"{os.getpid()}.json").write_text(json.dumps(_spent), "utf-8")


def measured() -> dict[str, float]:
    """CPU seconds of each function."""
    found: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory(prefix="outpost-cpu-times-") as folder:
        environment = os.environ | {_FOLDER: folder, "PYTHONPATH": str(Path(__file__).parent)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "cpu_times", "-m", "not long"]
        command += ["-n", "6", "--dist", "loadfile", "--no-loadscope-reorder"]
        subprocess.run(command, cwd=HOST_TESTS.parent, env=environment, check=True)
        for path in Path(folder).iterdir():
            for name, seconds in json.loads(path.read_text("utf-8")).items():
                found[name] += seconds
    return found


def listed() -> frozenset[str]:
    return frozenset(line.split()[1] for line in LIST.read_text("utf-8").splitlines())


def lines(found: dict[str, float]) -> list[str]:
    slow = sorted(name for name, seconds in found.items() if seconds >= SLOW_S)
    return [f"{found[name]:6.1f} {name}" for name in slow if not name.startswith(GUARDS)]


def by_folder(found: dict[str, float]) -> list[str]:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, seconds in found.items():
        sums[str(Path(name.partition("::")[0]).parent)][seconds >= SLOW_S] += seconds
    rows = sorted(sums.items(), key=lambda one: -sum(one[1]))
    return [f"{quick:7.1f} and {slow:7.1f} slow  {folder}" for folder, (quick, slow) in rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"the list into {LIST.name}")
    args = parser.parse_args()
    found = measured()
    print(*by_folder(found), *lines(found), sep="\n")
    if args.write:
        LIST.write_text("\n".join(lines(found)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
