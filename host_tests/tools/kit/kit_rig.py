"""For tests of the kit: where its programs are, and a bench for each Python."""

import re
from pathlib import Path

import pytest

from outpost_tools.kit.bench import Bench
from outpost_tools.machine.interpreters import find_micropython
from paths import BENCH_BOARD, FIRMWARE, REPOSITORY

PROGRAMS = Path(__file__).parent / "programs"
GARDEN = BENCH_BOARD / "example" / "garden.py"
EXAMPLES = FIRMWARE / "examples"
# of the repository's page
PROGRAM = re.search(
    r"```python\n(from board import Board.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL
)[1]


def bench_of(python: str, folder: Path = PROGRAMS) -> Bench:
    """python: "c", "m", "m64"."""
    architecture = {"m": "i386", "m64": "amd64"}.get(python)
    if architecture and not find_micropython(architecture):
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    return Bench(folder, python=python)
