"""The readers in C (`tools/*_reader.c`) as programs, strictly compiled. CPython only."""

import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(source: Path, folder: Path) -> Path:
    """Skips the test on a machine without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("optional: no C compiler on this machine")
    target = folder / source.stem
    options = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *options, "-o", str(target), str(source)], check=True)
    return target
