#!/usr/bin/env python3
"""Writes tools/requirements.lock from the pins of pyproject.toml: `make lock`.

The file lists every package that set-up installs, and their dependencies, each with the SHA-256 of
all files of that version: the wheels for every interpreter and machine, and the source archive. So
one file serves Python 3.11 to 3.13 on x86-64 and aarch64 Linux; a check at the end makes sure that
each of these has its wheels. `tools/setup.py` lets pip install nothing else; host_tests compare the
file with pyproject.toml.

A version that is already in the file stays unless pyproject.toml asks for another; --upgrade takes
the newest version of every package that pyproject.toml does not pin. Needs the package index. uv
resolves the versions; pip installs it into build/lock/, in the version below, and nothing is added
to `.venv`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LOCK = REPOSITORY / "tools" / "requirements.lock"
EXTRAS = (
    "test", "dev", "export", "pipeline", "tables", "report", "broker", "store", "apprise",
    "sources",
)  # fmt: skip
NOT_LOCKED = ("mq",)  # needs IBM's client, which few machines have
_RESOLVER = "uv==0.13.9"
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
SOURCE_ONLY = ("pyspark",)  # publishes no wheels; set-up builds it with our setuptools
_PLATFORM = "manylinux_2_28"  # the glibc of Debian 12 and of older releases
_HEADER = """\
# Made by `make lock` from pyproject.toml; do not edit.
# Python 3.11 and newer; set-up installs it with `pip install --require-hashes`.

"""


def resolver() -> Path:
    """The path of uv, installed at the first call. Raises OSError if pip cannot install it."""
    folder = REPOSITORY / "build" / "lock" / _RESOLVER
    program = folder / "bin" / "uv"
    if not program.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command = [*pip, "--no-deps", "--target", str(folder), _RESOLVER]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"pip could not install {_RESOLVER}:\n{done.stderr.strip()[-600:]}")
    return program


def build_requirements() -> str:
    """The requirements for building our own package: also installed by hash, so that the build
    fetches nothing."""
    content = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    return "\n".join(content["build-system"]["requires"]) + "\n"


def resolved(upgrade: bool) -> str:
    """The new text of the file. Raises OSError with the resolver's output."""
    command = [str(resolver()), "pip", "compile", "pyproject.toml", "-", "--universal"]
    command += [part for extra in EXTRAS for part in ("--extra", extra)]
    command += ["--generate-hashes", "--python-version", PYTHONS[0]]
    command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    command += ["--output-file", str(LOCK.relative_to(REPOSITORY))]  # the versions in it stay
    command += ["--upgrade"] if upgrade else []
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        input=build_requirements(),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_COLOR": "1"},
    )
    if done.returncode:
        raise OSError(f"the packages of pyproject.toml do not fit together:\n{done.stderr.strip()}")
    return _HEADER + LOCK.read_text(encoding="utf-8")


def unavailable() -> list[str]:
    """Where a package other than those of SOURCE_ONLY has no wheel, with uv's explanation."""
    found = []
    for machine, python in itertools.product(MACHINES, PYTHONS):
        command = [str(resolver()), "pip", "compile", str(LOCK), "--no-deps", "--quiet"]
        command += ["--python-platform", f"{machine}-{_PLATFORM}", "--python-version", python]
        command += ["--only-binary", ":all:"]
        command += [part for package in SOURCE_ONLY for part in ("--no-binary", package)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            found.append(f"Python {python} on {machine}: {done.stderr.strip()}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upgrade", action="store_true", help="the newest of what is not pinned")
    arguments = parser.parse_args()
    try:
        text = resolved(arguments.upgrade)
        LOCK.write_text(text, encoding="utf-8")
        problems = unavailable()
    except OSError as error:
        problems = [str(error)]
    if problems:
        print(*(f"lock: {problem}" for problem in problems), sep="\n", file=sys.stderr)
        return 1
    count = sum(not line.startswith((" ", "#")) for line in text.splitlines() if line)
    print(f"{LOCK.relative_to(REPOSITORY)}: {count} packages, {text.count('--hash=')} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
