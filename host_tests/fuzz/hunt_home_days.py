"""`outpost run` on bad days: its disk is full, and the machine's clock is set an hour forward and a
day back. It reports what happens, continues by itself, and loses nothing.

    python host_tests/fuzz/hunt_home_days.py

A full disk needs root (for a separate small tmpfs). The clock is set for all its Python processes:
sitecustomize.py adds the offset in a file to time.time() and time.time_ns().
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path[:0] = paths.ALL

from collector_process import wait_until  # noqa: E402
from home_run import Board, Home  # noqa: E402
from outpost_tools.machine import children  # noqa: E402

_COUNT = 400
_CLOCK = """
import os, time
_time, _time_ns = time.time, time.time_ns
def _ahead_s():
    try:
        return float(open(os.environ["OUTPOST_CLOCK"]).read() or 0)
    except (OSError, ValueError):
        return 0.0
time.time = lambda: _time() + _ahead_s()
time.time_ns = lambda: _time_ns() + int(_ahead_s() * 1e9)
"""


def full_disk(folder: Path) -> str:
    home = Home(folder)
    home.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(home.state)], check=True)
    try:
        home.start()
        home.wait_for("ready")
        made = home.add_board("kitchen")
        with (home.state / "ballast").open("wb", buffering=0) as ballast:
            while True:
                try:
                    ballast.write(bytes(4096))
                except OSError:
                    break
        with Board(made, _COUNT, every_s=0.005) as board:
            home.wait_for("No space left")
            home.wait_for("waiting: cannot write")
            waited = board.measured - 1 - board.confirmed
            os.truncate(home.state / "ballast", 0)
            home.wait_for("writing again")
            home.wait_for("ready", times=2)
            board.wait_until_confirmed()
        assert home.terminate() == 0
        assert home.stored() == set(range(_COUNT))
        return f"{waited} messages waited, 0 lost; it said: {_said(home, 'cannot write')}"
    finally:
        children.kill(home.process)
        subprocess.run(["umount", "-l", str(home.state)], check=True)


def moved_clock(folder: Path) -> str:
    home = Home(folder)
    (folder / "sitecustomize.py").write_text(_CLOCK)
    ahead = folder / "ahead.txt"
    ahead.write_text("0")
    environment = children.tools_environment(OUTPOST_CLOCK=str(ahead))
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{environment['PYTHONPATH']}"
    try:
        home.start(environment)
        home.wait_for("ready")
        with Board(home.add_board("kitchen"), _COUNT) as board:
            for seconds in (3600, -86_400, 0):
                before = board.confirmed
                ahead.write_text(str(seconds))
                wait_until(lambda n=before: board.confirmed > n + 50)
            board.wait_until_confirmed()
        wait_until(lambda: f">{_COUNT - 1}<" in home.page())
        assert "starts again" not in home.text()
        assert home.terminate() == 0
        assert home.stored() == set(range(_COUNT))
        return "0 lost, nothing ended"
    finally:
        children.kill(home.process)


def _said(home: Home, text: str) -> str:
    return next(line for line in home.text().splitlines() if text in line)


def main() -> int:
    days = {"a clock that is set": moved_clock}
    if os.geteuid() == 0:
        days = {"a full disk": full_disk} | days
    else:
        print("a full disk: not tried, it needs root")
    for name, day in days.items():
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            print(f"{name}: {day(Path(folder))} ({time.monotonic() - begin:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
