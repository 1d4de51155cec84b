"""Finds the MicroPython builds and the broker that `tools/setup.py` fetched, or that the machine
has.

Knows names and folders, and runs an interpreter to identify it. Fetches nothing. Standard library
only, because set-up uses it before there is a virtual environment.

Order: `MICROPYTHON` in the environment, then the cache, then PATH. Each candidate is run once and
must prove that it is new enough and has the requested architecture: a 64-bit build in place of a
32-bit one would hide allocations.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.errors import ToolError


@dataclass(frozen=True, slots=True)
class Machine:
    """What one kind of machine can run, with Debian's names of architectures.

    required: what `make setup` needs, 64-bit first. fast: for simulating boards, best first (32-bit
    comes first, because there integers of 2^30 and above take heap, as on a board). lacks: what is
    not available, in words; "": nothing.
    """

    architecture: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    fast: tuple[str, ...]
    lacks: str = ""


_MACHINES = {
    "x86_64": Machine("amd64", ("amd64", "i386"), ("armhf",), ("i386", "amd64")),
    # a Raspberry Pi 3 or newer; its kernel also runs 32-bit programs, that of others may not
    "aarch64": Machine(
        "arm64",
        ("arm64",),
        ("armhf",),
        ("armhf", "arm64"),
        "without x86: tests on 32-bit x86 MicroPython and on the emulated RP2040 are left out",
    ),
}
_SAME = {"amd64": "x86_64", "arm64": "aarch64"}  # names on other systems


def machine(name: str | None = None) -> Machine | None:
    """The kind of machine with this name (from platform.machine()); None if we know no programs for
    it. Default: this machine."""
    name = name or platform.machine()
    return _MACHINES.get(_SAME.get(name, name))


KNOWN = ("amd64", "i386", "armhf", "arm64")
_HERE = machine() or _MACHINES["x86_64"]
ARCHITECTURES = _HERE.required + _HERE.optional
REQUIRED_ARCHITECTURES = _HERE.required
OPTIONAL_ARCHITECTURES = _HERE.optional
# what set-up fetches by default: nothing that needs an emulator
DEFAULT_ARCHITECTURES = tuple(name for name in ARCHITECTURES if name in _HERE.fast)
OLDEST_MICROPYTHON = (1, 25)
_PROBE_TIMEOUT_S = (
    20  # an interpreter starts in 10 ms; under qemu on a busy machine in less than 2 s
)

# `sys.implementation._mpy` bits 10 to 13 name the native-code architecture (MicroPython:
# tools/mpy-tool.py).
_PROBE = """
import sys
m = sys.implementation
version = ".".join(str(n) for n in m.version[:3])
try:
    import platform
    text = platform.platform().replace(" ", "")
except ImportError:
    text = ""
bits = 64 if sys.maxsize > 0x7FFFFFFF else 32
print(m.name, version, bits, getattr(m, "_mpy", 0) >> 10 & 15, text or "-")
"""
_MPY_ARCHITECTURES = {1: "i386", 2: "amd64"} | dict.fromkeys(range(3, 9), "armhf")
_TITLES = {
    "i386": "x86 (i386)",
    "amd64": "x86-64 (amd64)",
    "armhf": "ARM (armhf)",
    "arm64": "ARM (arm64)",
}
_NAMES = {"micropython": "MicroPython", "cpython": "CPython"}


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What a command reported about itself.

    `architecture` is "" if it does not report it (CPython).
    """

    name: str
    version: tuple[int, ...]
    word_bits: int
    architecture: str

    def __str__(self) -> str:
        title = _TITLES.get(self.architecture, self.architecture)
        text = (
            f"{_NAMES.get(self.name, self.name)} {'.'.join(map(str, self.version))} "
            f"{self.word_bits}-bit"
        )
        return f"{text} {title}".rstrip()


def cache_folder() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/outpost`; a relative XDG_CACHE_HOME is ignored, as its
    specification requires. Raises ToolError for a user without a home."""
    return own_folder("XDG_CACHE_HOME", "~/.cache")


def own_folder(variable: str, default: str) -> Path:
    """This program's folder inside the one that the environment variable names, or inside
    `default`. Raises ToolError for a user without a home."""
    try:
        base = Path(os.environ.get(variable) or default).expanduser()
        return (base if base.is_absolute() else Path(default).expanduser()) / "outpost"
    except RuntimeError:  # a user without a name, as in a container, and no HOME
        raise ToolError(
            f"the user {os.geteuid()} has no home here: set HOME, or {variable}"
        ) from None


@functools.cache
def _probe(command: tuple[str, ...]) -> Interpreter | str:
    """Runs the interpreter and returns what it is, or the reason why that failed."""
    try:
        done = subprocess.run(
            [*command, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
        )
        name, version, bits, mpy, text = done.stdout.split()
    except subprocess.CalledProcessError as error:
        return (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return str(error)
    architecture = _MPY_ARCHITECTURES.get(int(mpy), "")
    if not architecture and name == "micropython" and "-aarch64-" in text:
        architecture = "arm64"  # MicroPython has no native code for it
    return Interpreter(
        name, tuple(int(part) for part in version.split(".")), int(bits), architecture
    )


def probe(command: list[str]) -> Interpreter:
    """Runs `command` and returns what it is. Raises ToolError if it does not run."""
    found = _probe(tuple(command))
    if isinstance(found, str):
        raise ToolError(f"{' '.join(command)} does not run as a Python interpreter: {found}")
    return found


def forget_probes() -> None:
    """Runs interpreters again when asked: one that did not run may have been fetched since."""
    _probe.cache_clear()


def why_not(path: Path) -> str:
    """The result of running `path`: what it is, or the reason why it does not run."""
    return str(_probe((str(path),)))


def describe(command: list[str]) -> str:
    """For example "MicroPython 1.25.0 32-bit x86 (i386)".

    Raises ToolError if it does not run.
    """
    return str(probe(command))


def _serves(command: str, architecture: str) -> bool:
    found = _probe((command,))
    if isinstance(found, str) or found.name != "micropython":
        return False
    return found.architecture == architecture and found.version[:2] >= OLDEST_MICROPYTHON


def find_micropython(architecture: str) -> list[str] | None:
    """The command that starts MicroPython for an architecture of KNOWN; None if there is none.

    Raises ToolError for an unknown architecture, and for a `MICROPYTHON` that does not run.
    """
    if architecture not in KNOWN:
        raise ToolError(f"unknown architecture {architecture!r}: choose one of {', '.join(KNOWN)}")
    chosen = os.environ.get("MICROPYTHON")
    if chosen:
        probe([chosen])  # a mistyped override must not be skipped silently
    cached = cache_folder() / "bin" / f"micropython-{architecture}"
    candidates = (chosen, str(cached) if cached.exists() else None, shutil.which("micropython"))
    return next(([path] for path in candidates if path and _serves(path, architecture)), None)


def find_nats() -> list[str] | None:
    """The command that starts NATS, from this Python's environment or PATH, or None."""
    here = os.path.dirname(sys.executable)  # unresolved: a link's target is outside the environment
    found = shutil.which("nats-server", path=here) or shutil.which("nats-server")
    return [found] if found else None


def find_mosquitto() -> list[str] | None:
    """The command that starts the broker, from PATH, /usr/sbin and /usr/local/sbin (often not on a
    user's PATH), or the cache; or None."""
    search_path = os.pathsep.join(
        [os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"]
    )
    cached = cache_folder() / "bin" / "mosquitto"
    found = shutil.which("mosquitto", path=search_path) or shutil.which(str(cached))
    return [found] if found else None
