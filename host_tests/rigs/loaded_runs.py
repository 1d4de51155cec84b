"""The tests where luck would show: two copies of `make test` side by side, each in a clone of its
own under `nice`, beside four busy loops. Prints a line for each copy, and what failed in it.

    .venv/bin/python host_tests/rigs/loaded_runs.py [--runs 5] [--copies 2] [--loops 4]

Ends with 1 if a copy failed. The clones and their logs stay in --folder if given.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
_BUSY = "while True: pass"
_TOLD = re.compile(r"^(FAILED|ERROR|FAIL\b|=+ .*(passed|failed)|\d+ passed, )", re.MULTILINE)


def _clone(folder: Path) -> None:
    if not folder.exists():
        subprocess.run(["git", "clone", "-q", str(HERE), str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "pull", "-q", "--ff-only"], check=True)
    with (folder.parent / f"{folder.name}-setup.log").open("wb") as log:
        for command in (["make", "setup"], [sys.executable, "tools/setup.py", "--rp2"]):
            subprocess.run(command, cwd=folder, check=True, stdout=log, stderr=log)


def _start(folder: Path, log_path: Path) -> subprocess.Popen[bytes]:
    with log_path.open("wb") as log:
        return subprocess.Popen(
            ["nice", "-n", "10", "make", "test"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "CI": "true"},
        )


def _run(folder: Path, number: int, copies: int) -> bool:
    """Returns whether all copies passed."""
    begin = time.monotonic()
    logs = [folder / f"run-{number}-copy-{k}.log" for k in range(copies)]
    started = [_start(folder / f"copy-{k}", log) for k, log in enumerate(logs)]
    statuses = [process.wait() for process in started]
    for k, (status, log) in enumerate(zip(statuses, logs, strict=True)):
        text = log.read_text(errors="replace")
        print(f"run {number}, copy {k}: status {status}, {time.monotonic() - begin:.0f} s")
        for found in _TOLD.finditer(text):
            line = text[found.start() :].partition("\n")[0]
            print(f"    {line.strip('= ')[:150]}", flush=True)
    return not any(statuses)


def _measure(folder: Path, arguments: argparse.Namespace) -> bool:
    for k in range(arguments.copies):
        _clone(folder / f"copy-{k}")
    busy = [  # as nice as the tests: else two cores would leave them a hundredth
        subprocess.Popen(["nice", "-n", "10", sys.executable, "-c", _BUSY])
        for _ in range(arguments.loops)
    ]
    try:
        passed = [_run(folder, k, arguments.copies) for k in range(arguments.runs)]
    finally:
        for loop in busy:
            loop.kill()
            loop.wait()
    return all(passed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--copies", type=int, default=2, help="of the suite, side by side")
    parser.add_argument("--loops", type=int, default=4, help="busy loops beside them")
    parser.add_argument("--folder", type=Path, help="stays; default: a temporary one")
    arguments = parser.parse_args()
    if arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        return 0 if _measure(arguments.folder, arguments) else 1
    with tempfile.TemporaryDirectory() as folder:
        return 0 if _measure(Path(folder), arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
