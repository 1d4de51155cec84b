"""Fixtures for all tests of this folder."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def a_folder_of_its_own(monkeypatch, tmp_path):
    """A board writes to its own root. In one folder, the boards of other tests that run at the same
    time would take what it notes for the next start."""
    monkeypatch.chdir(tmp_path)
