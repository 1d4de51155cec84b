"""Fixtures for all tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(autouse=True)
def the_firmware_of_other_tests() -> Iterator[None]:
    """An explorer replaces the firmware's modules by its copies, which have blocks of 128 bytes;
    without this the tests of the next file would get them."""
    kept = _modules()
    packages = {name: dict(vars(kept[name])) for name in kept if hasattr(kept[name], "__path__")}
    yield
    for name in _modules():
        del sys.modules[name]
    sys.modules.update(kept)
    for name, names in packages.items():  # unload() removes a module from its package, too
        vars(kept[name]).clear()
        vars(kept[name]).update(names)


def _modules() -> dict[str, ModuleType]:
    return {name: sys.modules[name] for name in sys.modules if name.split(".")[0] == "outpost"}
