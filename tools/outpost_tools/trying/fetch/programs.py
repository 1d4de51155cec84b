"""Which programs are fetched if the machine lacks them, and the check that each runs.

Knows packages and commands; debian_packages.py unpacks packages, program.py starts their programs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine import interpreters, java
from outpost_tools.machine.interpreters import Machine
from outpost_tools.trying.fetch import chromium
from outpost_tools.trying.fetch.archive import Archive
from outpost_tools.trying.fetch.cache_rules import locked, say
from outpost_tools.trying.fetch.debian_packages import Unobtainable, install
from outpost_tools.trying.fetch.program import Program

_ARCHIVE = "let this machine reach its Debian archive, or"
MICROPYTHON_HINT = f"{_ARCHIVE} name a build of 1.25 or newer in MICROPYTHON"
MOSQUITTO_HINT = f"{_ARCHIVE} install it: apt install mosquitto"
JAVA_HINT = (
    f"Spark needs Java {java.OLDEST} or newer; {_ARCHIVE} install it: apt install "
    "default-jre-headless"
)
CHROMIUM_HINT = f"{_ARCHIVE} install it: apt install chromium; or name one in CHROMIUM"
EMULATOR = Program("qemu-arm", "qemu-user", "amd64", "/usr/bin/qemu-arm", is_static=True)


def micropython(architecture: str, machine: Machine) -> Program:
    emulator = EMULATOR.name if (machine.architecture, architecture) == ("amd64", "armhf") else ""
    return Program(
        f"micropython-{architecture}",
        "micropython",
        architecture,
        "/usr/bin/micropython",
        emulator=emulator,
    )


def mosquitto(machine: Machine) -> Program:
    return Program("mosquitto", "mosquitto", machine.architecture, "/usr/sbin/mosquitto")


def jre(machine: Machine) -> Program:
    """Java 21, because this suite of Debian has no 17; Spark 4 runs on both."""
    return Program(
        "java",
        "openjdk-21-jre-headless",
        machine.architecture,
        f"/usr/lib/jvm/java-21-openjdk-{machine.architecture}/bin/java",
        # Otherwise it starts Spark's Python workers through a helper program, which uses the
        # machine's loader: on a machine with an older C library the helper exits at once.
        options=("-Djdk.lang.Process.launchMechanism=VFORK",),
    )


class Fetcher:
    """Fetches programs into the cache. private: also those that the machine has."""

    def __init__(
        self, cache: Path, work: Path, machine: Machine | None, private: bool = False
    ) -> None:
        self.private = private
        self._machine = machine
        self._cache = cache
        self._archive = Archive(work)

    @property
    def machine(self) -> Machine:
        """Raises Unobtainable for a kind of machine for which nothing is fetched."""
        if self._machine is None:
            raise Unobtainable(
                "the fetched packages are for x86-64 and arm64 machines; this one is "
                f"{platform.machine()}"
            )
        return self._machine

    def get(self, program: Program) -> None:
        """Raises Unobtainable."""
        if program.is_in(self._cache):
            return
        packages = self._archive.fetch(program.architecture, program.package)
        install(program, packages, self._cache, self._archive.folder())


def ensure_micropython(architecture: str, fetcher: Fetcher) -> str:
    """Returns its description. Raises Unobtainable."""
    if fetcher.private or not interpreters.find_micropython(architecture):
        program = micropython(architecture, fetcher.machine)
        if program.emulator and not shutil.which(program.emulator):
            fetcher.get(EMULATOR)
        fetcher.get(program)
        interpreters.forget_probes()
    command = interpreters.find_micropython(architecture)
    if not command:
        program = interpreters.cache_folder() / "bin" / f"micropython-{architecture}"
        raise Unobtainable(
            f"{program} was unpacked but does not run: {interpreters.why_not(program)}"
        )
    return interpreters.describe(command)


def ensure_mosquitto(fetcher: Fetcher) -> str:
    """Returns its description. Raises Unobtainable."""
    if fetcher.private or not interpreters.find_mosquitto():
        fetcher.get(mosquitto(fetcher.machine))
    command = interpreters.find_mosquitto()
    done = subprocess.run([*command, "-h"], capture_output=True, text=True, check=False, timeout=20)
    first = (done.stdout + done.stderr).strip().splitlines()[:1]
    if not first or "mosquitto version" not in first[0]:
        raise Unobtainable(f"{command[0]} does not run: {' '.join(first)}")
    return f"{first[0]} ({command[0]})"


def ensure_java(fetcher: Fetcher) -> str:
    """Returns its description. Raises Unobtainable, and ToolError for an unusable JAVA_HOME."""
    if fetcher.private:
        fetcher.get(jre(fetcher.machine))
        return java.describe(java.private())
    try:
        java.environment()
    except ToolError:
        if os.environ.get("JAVA_HOME"):
            raise
        fetcher.get(jre(fetcher.machine))
    return java.describe()


def ensure_chromium(fetcher: Fetcher) -> str:
    """Returns its description. Raises Unobtainable."""
    if fetcher.private or not chromium.find():
        fetcher.get(chromium.program(fetcher.machine))
        return chromium.describe(str(chromium.private()))
    return chromium.describe(chromium.find())


def attempt(name: str, hint: str, action: Callable[..., str], *arguments: object) -> bool:
    """Does one item and reports the result, with `hint` if it failed.

    Returns whether it is there now.
    """
    try:
        say(f"{name}: {action(*arguments)}")
    except (Unobtainable, ToolError, OSError, subprocess.SubprocessError) as error:
        print(f"outpost set-up: {name} is missing: {error}\n  {hint}", file=sys.stderr, flush=True)
        return False
    return True


def ensure(
    kinds: tuple[str, ...], architectures: tuple[str, ...], *, private: bool = False
) -> dict[str, bool]:
    """Whether each program is there at the end. kinds: from KINDS. architectures: for MicroPython.

    private: also fetch those that the machine has.
    """
    machine = interpreters.machine()
    if machine and machine.lacks:
        say(machine.lacks)
    cache = interpreters.cache_folder()
    with locked(cache / "setup.lock", str(cache)):
        for leftover in cache.glob("unfinished-*"):  # we hold the lock, so their makers are dead
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="unfinished-", dir=cache) as work:
            fetcher = Fetcher(cache, Path(work), machine, private)
            there = {}
            for kind in kinds:
                there |= KINDS[kind](fetcher, architectures)
    return there


def _micropythons(fetcher: Fetcher, architectures: tuple[str, ...]) -> dict[str, bool]:
    return {
        name: attempt(f"MicroPython {name}", MICROPYTHON_HINT, ensure_micropython, name, fetcher)
        for name in architectures
    }


def _mosquitto(fetcher: Fetcher, _: tuple[str, ...]) -> dict[str, bool]:
    return {"mosquitto": attempt("mosquitto", MOSQUITTO_HINT, ensure_mosquitto, fetcher)}


def _java(fetcher: Fetcher, _: tuple[str, ...]) -> dict[str, bool]:
    return {"java": attempt("Java", JAVA_HINT, ensure_java, fetcher)}


def _chromium(fetcher: Fetcher, _: tuple[str, ...]) -> dict[str, bool]:
    return {"chromium": attempt("Chromium", CHROMIUM_HINT, ensure_chromium, fetcher)}


KINDS = {
    "micropython": _micropythons,
    "mosquitto": _mosquitto,
    "java": _java,
    "chromium": _chromium,
}
# all but what only tests need
OF_USERS = ("micropython", "mosquitto", "java")
