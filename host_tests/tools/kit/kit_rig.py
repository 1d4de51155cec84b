"""For tests of the kit: where its programs are, and a bench for each Python."""

from pathlib import Path

import pytest

from outpost_tools.common.interpreters import find_micropython
from outpost_tools.kit.bench import Bench
from paths import BENCH_BOARD, FIRMWARE

PROGRAMS = Path(__file__).parent / "programs"
GARDEN = BENCH_BOARD / "example" / "garden.py"
EXAMPLES = FIRMWARE / "examples"


def bench_of(python: str, folder: Path = PROGRAMS) -> Bench:
    """python: "c", "m", "m64"."""
    architecture = {"m": "i386", "m64": "amd64"}.get(python)
    if architecture and not find_micropython(architecture):
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    return Bench(folder, python=python)
