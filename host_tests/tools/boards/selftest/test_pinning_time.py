# cpython-only: tests a desktop tool
"""What the tool waits for a line of a board that pins its blocks covers what littlefs does between
two lines, on worn flash."""

import os
import subprocess
from pathlib import Path

import pytest

from outpost_tools.boards.selftest import flash_time
from outpost_tools.machine.interpreters import find_micropython
from paths import FAKES, PRODUCT, joined


def test_the_bound_covers_each_line_of_pinning(tmp_path):
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython i386: run make setup")
    done = subprocess.run(
        [*command, "-X", "heapsize=16m", str(Path(__file__).with_name("pinning_operations.py"))],
        cwd=tmp_path,
        env=os.environ | {"MICROPYPATH": joined(*PRODUCT, FAKES)},
        capture_output=True,
        text=True,
        check=True,
    )
    erases, programs, lines = map(int, done.stdout.split())
    print(f"at most {erases} erases and {programs} programs between two of {lines} lines")
    assert lines > 60
    assert 2 <= erases <= flash_time.ERASES_A_LINE
    assert 64 <= programs <= flash_time.PROGRAMS_A_LINE


def test_the_wait_grows_with_the_blocks_that_are_looked_up():
    assert 3.5 < flash_time.silence_s(2) == flash_time.silence_s(32) < 4
    assert flash_time.silence_s(64) == pytest.approx(6.4)
    assert flash_time.silence_s(350) == pytest.approx(35)
