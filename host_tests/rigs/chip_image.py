"""The interpreter that an emulated RP2040 runs, or the reason why a test cannot have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rp2040 import core, image


def found_or_skip(name: str = "pico") -> Path:
    """Returns the image of that name. Skips the test without it, or without a C compiler."""
    try:
        core.library()
    except core.NoCompiler as error:
        pytest.skip(f"missing: {error}")
    found = image.find(name)
    if found is None:
        pytest.skip(f"missing: no image {name} in the cache; {image.HINT}")
    return found
