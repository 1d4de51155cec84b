#!/usr/bin/env python3
"""Writes tools/outpost_tools/trying/fetch/packages.lock: `make lock-packages`.

The file lists, for each program that set-up fetches from Debian and for the packages that `make
size` builds with, the files of the package and of all its dependencies, with their SHA-256, as they
are in the suite's signed index today. `trying/fetch/pinned.py` uses them when that index cannot be
fetched. Run this after a point release of the suite. If the index of an architecture cannot be
fetched now, its entries stay as they were.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

from outpost_tools.machine import interpreters  # noqa: E402 - the path must be set first
from outpost_tools.trying.fetch import chromium, pinned, programs  # noqa: E402
from outpost_tools.trying.fetch.debian_packages import PrivateApt, Unobtainable  # noqa: E402
from outpost_tools.trying.fetch.program import Program, label  # noqa: E402

_MACHINES = ("x86_64", "aarch64")
FROZEN_BUILD = (("i386", "libc6-dev"), ("i386", "libgcc-14-dev"))


def all_packages() -> Iterator[tuple[str, str]]:
    """Architecture and name of every package that any machine may fetch."""
    yield from FROZEN_BUILD
    for program in all_programs():
        yield program.architecture, program.package


def all_programs() -> Iterator[Program]:
    yield programs.EMULATOR
    for name in _MACHINES:
        machine = interpreters.machine(name)
        assert machine, name
        yield programs.mosquitto(machine)
        yield programs.jre(machine)
        yield chromium.program(machine)
        for architecture in machine.required + machine.optional:
            yield programs.micropython(architecture, machine)


def locked(architecture: str, packages: set[str], work: Path) -> dict[str, dict[str, str]]:
    """The files of one architecture's packages. Raises Unobtainable."""
    apt = PrivateApt(architecture, work / architecture)
    return {label(architecture, package): apt.hashes(package) for package in packages}


def main() -> int:
    wanted: dict[str, set[str]] = {}
    for architecture, package in all_packages():
        wanted.setdefault(architecture, set()).add(package)
    files = json.loads(pinned.LOCK.read_text(encoding="utf-8")) if pinned.LOCK.exists() else {}
    problems = []
    with tempfile.TemporaryDirectory() as work:
        for architecture, packages in wanted.items():
            try:
                files |= locked(architecture, packages, Path(work))
            except Unobtainable as error:
                problems.append(f"lock: {architecture} stays as it was: {error}")
    known = {label(*one) for one in all_packages()}
    files = {name: files[name] for name in sorted(files) if name in known}
    pinned.LOCK.write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")
    print(f"{pinned.LOCK.name}: {len(files)} packages, {sum(map(len, files.values()))} files")
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
