"""Packages by name and SHA-256, for an archive whose index apt refuses: while a mirror is being
updated, some of its indexes do not match the signed Release file, sometimes for days.

`packages.lock` has the files of each package that we ask for; `tools/lock_packages.py` makes it.
They are in the archive until the suite's next point release has replaced them, and for some time
afterwards.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from outpost_tools.trying.fetch.debian_packages import Unobtainable, archive_address, download
from outpost_tools.trying.fetch.program import label

LOCK = Path(__file__).parent / "packages.lock"


def files_of(architecture: str, package: str) -> dict[str, str]:
    """The SHA-256 of each file, by its path in the archive; empty: none are known."""
    return json.loads(LOCK.read_text(encoding="utf-8")).get(label(architecture, package), {})


def fetch(architecture: str, package: str, folder: Path) -> list[Path]:
    """Downloads the package and its dependencies into an existing folder. Returns the files. Raises
    Unobtainable, also if a file has changed."""
    files = files_of(architecture, package)
    if not files:
        raise Unobtainable(f"{LOCK.name} has no files for {label(architecture, package)}")
    address = archive_address().rstrip("/")
    packages = {folder / Path(path).name: path for path in files}
    download((f"{address}/{quote(path)}", target, files[path]) for target, path in packages.items())
    return sorted(packages)
