"""Imports of packages that not every set-up has."""

import contextlib
import os

import pytest


@contextlib.contextmanager
def needed(what, *others):
    """Around the imports of a test file: an ImportError, or one of the others, skips the file, and
    fails in CI."""
    try:
        yield
    except (ImportError, *others) as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"missing: {what}: {problem}", allow_module_level=True)
