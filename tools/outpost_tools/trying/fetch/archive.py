"""Packages of Debian's archive: by its current signed index, or otherwise by their hashes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from outpost_tools.trying.fetch import pinned
from outpost_tools.trying.fetch.cache_rules import say
from outpost_tools.trying.fetch.debian_packages import PrivateApt, Unobtainable


class Archive:
    """work: an existing folder for temporary files, which the caller removes. Makes a private apt
    for each architecture when it is first needed."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._apts: dict[str, PrivateApt] = {}

    def fetch(self, architecture: str, package: str) -> list[Path]:
        """Downloads a package and its dependencies. Returns the files. Raises Unobtainable."""
        say(f"asking Debian's archive for {package} for {architecture}")
        try:
            return self._newest(architecture, package)
        except Unobtainable as error:
            return self._pinned(architecture, package, error)

    def folder(self) -> Path:
        """Makes a new folder."""
        return Path(tempfile.mkdtemp(dir=self._work))

    def _newest(self, architecture: str, package: str) -> list[Path]:
        if architecture not in self._apts:
            self._apts[architecture] = PrivateApt(architecture, self.folder())
        apt = self._apts[architecture]
        say(f"fetching {package}: {apt.fetch_bytes(package) / 1e6:.1f} MB")
        return apt.fetch(package)

    def _pinned(self, architecture: str, package: str, why: Unobtainable) -> list[Path]:
        say(f"{why}; fetching the files of {package} that {pinned.LOCK.name} names")
        try:
            return pinned.fetch(architecture, package, self.folder())
        except Unobtainable as error:
            raise Unobtainable(f"{why}; nor by {pinned.LOCK.name}: {error}") from error
