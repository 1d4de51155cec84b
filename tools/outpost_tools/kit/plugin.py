"""pytest: the fixture `bench`, and two options. Installed with `outpost-mqtt`; see
boards/BENCH/README.md."""

from __future__ import annotations

import pytest

from outpost_tools.kit.bench import Bench
from outpost_tools.kit.trial import PYTHONS


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("outpost", "Outpost: programs of boards in virtual time")
    group.addoption("--bench-cut", default="", metavar="NUMBER/WAY", help="this power cut alone")
    group.addoption(
        "--bench-python", default="c", choices=PYTHONS,
        help="c: CPython (default), m: 32-bit MicroPython, m64: 64-bit MicroPython",
    )  # fmt: skip


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    """A board on the bench: see outpost_tools.kit.bench.Bench. Programs are beside the test."""
    option = request.config.getoption
    return Bench(request.path.parent, option("--bench-cut"), option("--bench-python"))
