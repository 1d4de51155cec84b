# cpython-only: compares interpreters
"""The same operations leave byte-identical chips under CPython and under MicroPython, 64- and
32-bit.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from outpost_tools.machine.interpreters import REQUIRED_ARCHITECTURES, find_micropython
from paths import FAKES, PRODUCT, STUBS, joined

PATHS = (*PRODUCT, FAKES)


def run(command: list[str], variable: str, paths: Iterable[Path]) -> str:
    script = Path(__file__).with_name("same_operations.py")
    env = {**os.environ, variable: joined(*paths)}
    return subprocess.run(
        [*command, script], env=env, check=True, capture_output=True, text=True, timeout=120
    ).stdout


def test_images_are_identical():
    expected = run([sys.executable], "PYTHONPATH", (*PATHS, STUBS))
    assert expected.count("\n") == 4
    for architecture in REQUIRED_ARCHITECTURES:
        command = find_micropython(architecture)
        if command is None:
            pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
        assert run(command, "MICROPYPATH", PATHS) == expected, architecture
