#!/usr/bin/env python3
"""Writes tools/outpost_tools/fetch/packages.lock: `make lock-packages`.

Of each program that set-up fetches from Debian: the files of its package and of all that it depends
on, with their SHA-256, as the suite's signed index has them today. `fetch/pinned.py` takes them
where that index cannot be had. Run it after a point release of the suite. Programs whose index
cannot be had now keep the files that they had.
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
from outpost_tools.fetch.debian_packages import PrivateApt, Program, Unobtainable  # noqa: E402

_MACHINES = ("x86_64", "aarch64")


def all_programs() -> Iterator[Program]:
    """What set-up may fetch, on any machine."""
    yield programs.EMULATOR
    for name in _MACHINES:
        machine = interpreters.machine(name)
        assert machine, name
        yield programs.mosquitto(machine)
        yield programs.jre(machine)
        for architecture in machine.required + machine.optional:
            yield programs.micropython(architecture, machine)


def locked(architecture: str, wanted: list[Program], work: Path) -> dict[str, dict[str, str]]:
    """The files of programs of one architecture. Raises Unobtainable."""
    apt = PrivateApt(architecture, work / architecture)
    return {program.folder: apt.hashes(program.package) for program in wanted}


def main() -> int:
    wanted: dict[str, list[Program]] = {}
    for program in all_programs():
        wanted.setdefault(program.architecture, []).append(program)
    files = json.loads(pinned.LOCK.read_text(encoding="utf-8")) if pinned.LOCK.exists() else {}
    problems = []
    with tempfile.TemporaryDirectory() as work:
        for architecture, some in wanted.items():
            try:
                files |= locked(architecture, some, Path(work))
            except Unobtainable as error:
                problems.append(f"lock: {architecture} stays as it was: {error}")
    known = {program.folder for some in wanted.values() for program in some}
    files = {name: files[name] for name in sorted(files) if name in known}
    pinned.LOCK.write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")
    print(f"{pinned.LOCK.name}: {len(files)} programs, {sum(map(len, files.values()))} files")
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
