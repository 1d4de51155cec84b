"""Fixtures for all tests of this folder."""

from __future__ import annotations

import pytest

from flash_rig import Rig, tree  # noqa: F401 - a fixture


@pytest.fixture
def rig(tmp_path, tree):  # noqa: F811
    """A board on a serial port, without Outpost."""
    with Rig(tmp_path / "rig", tree) as made:
        yield made
