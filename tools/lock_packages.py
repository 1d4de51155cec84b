#!/usr/bin/env python3
"""Writes tools/outpost_tools/fetch/packages.lock: `make lock-packages`.

Of each program that set-up fetches from Debian, and of what `make size` builds with: the files of
its package and of all that it depends on, with their SHA-256, as the suite's signed index has them
today. `fetch/pinned.py` takes them where that index cannot be had. Run it after a point release of
the suite. An architecture whose index cannot be had now keeps the files that it had.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

from outpost_tools.common import interpreters  # noqa: E402 - the path must be set first
from outpost_tools.fetch import pinned, programs  # noqa: E402
from outpost_tools.fetch.debian_packages import PrivateApt, Unobtainable, label  # noqa: E402

_MACHINES = ("x86_64", "aarch64")
FROZEN_BUILD = (("i386", "libc6-dev"), ("i386", "libgcc-14-dev"))


def all_packages() -> Iterator[tuple[str, str]]:
    """Architecture and package of what may be fetched, on any machine."""
    yield from FROZEN_BUILD
    for program in all_programs():
        yield program.architecture, program.package


def all_programs() -> Iterator[programs.Program]:
    yield programs.EMULATOR
    for name in _MACHINES:
        machine = interpreters.machine(name)
        assert machine, name
        yield programs.mosquitto(machine)
        yield programs.jre(machine)
        for architecture in machine.required + machine.optional:
            yield programs.micropython(architecture, machine)


def locked(architecture: str, packages: set[str], work: Path) -> dict[str, dict[str, str]]:
    """The files of packages of one architecture. Raises Unobtainable."""
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
