"""This package as a zip for Spark's executors, and the program that spark-submit runs.

Standard library only. The same code always produces the same bytes.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from outpost_tools import FOLDER

PROGRAM = "outpost_submit.py"
_CONTENT = '''\
"""Made by `outpost pipeline package`: what spark-submit runs, as `outpost pipeline` with the same
arguments."""

import sys

from outpost_tools.cli import main

sys.exit(main(["pipeline", *sys.argv[1:]]))
'''


def is_zip() -> bool:
    """Whether this code runs from such a zip; spark-submit has then given it to the executors."""
    return not FOLDER.is_dir()


def write(path: Path) -> None:
    """Writes only what the executors import: Python files."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    files = sorted(
        file for file in FOLDER.rglob("*.py") if not file.is_relative_to(FOLDER / "tree")
    )
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                entry = zipfile.ZipInfo(str(file.relative_to(FOLDER.parent)))
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_program(folder: Path) -> Path:
    path = folder / PROGRAM
    path.write_text(_CONTENT, encoding="utf-8")
    return path
