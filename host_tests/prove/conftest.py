"""Fixtures for all tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def the_firmware_of_other_tests() -> Iterator[None]:
    """An explorer replaces the firmware's modules by its copies, which have blocks of 128 bytes;
    without this the tests of the next file would get them."""
    kept = {name: sys.modules[name] for name in sys.modules if name.split(".")[0] == "outpost"}
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "outpost"]:
        del sys.modules[name]
    sys.modules.update(kept)
