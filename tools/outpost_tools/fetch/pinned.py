"""Packages by name and SHA-256, for an archive whose index apt refuses: a mirror that is being
updated, of which some indexes do not fit the signed Release file, for days at times.

`packages.lock` has the files of each package that we ask for; `tools/lock_packages.py` makes it.
They are in the archive until the suite's next point release has replaced them, and some time
beyond.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from outpost_tools.fetch.debian_packages import Unobtainable, archive_address, download, label

LOCK = Path(__file__).parent / "packages.lock"


def files_of(architecture: str, package: str) -> dict[str, str]:
    """The SHA-256 of each file, by its path in the archive; empty: none are known."""
    return json.loads(LOCK.read_text(encoding="utf-8")).get(label(architecture, package), {})


def fetch(architecture: str, package: str, folder: Path) -> list[Path]:
    """Downloads the package, and all it depends on, into an existing folder. Returns the files.
    Raises Unobtainable, also where one is not what it was."""
    files = files_of(architecture, package)
    if not files:
        raise Unobtainable(f"{LOCK.name} has no files for {label(architecture, package)}")
    address = archive_address().rstrip("/")
    packages = {folder / Path(path).name: path for path in files}
    download((f"{address}/{quote(path)}", target, files[path]) for target, path in packages.items())
    return sorted(packages)
