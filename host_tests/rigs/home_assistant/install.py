"""Installs Home Assistant and the Python that it needs into the set-up's cache: 250 MB, once.

    .venv/bin/python host_tests/rigs/home_assistant/install.py

Python 3.13 comes as a package from Debian, as MicroPython does; the wheels are pinned by their
hashes (requirements.txt). x86-64 only. None of it is in the tools' own environment, because it pins
other versions of the same libraries.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from outpost_tools.machine import interpreters
from outpost_tools.trying.fetch.debian_packages import Unobtainable
from outpost_tools.trying.fetch.program import Program
from outpost_tools.trying.fetch.programs import Fetcher

HERE = Path(__file__).resolve().parent
PYTHON = Program("python3.13", "python3.13", "amd64", "/usr/bin/python3.13")
NAME = "home-assistant-2025.1.4"
_SYSTEMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
_WHEELS = (
    "--only-binary=:all:", "--ignore-requires-python", "--python-version=3.13",
    *(f"--platform={name}" for name in _SYSTEMS),
)  # fmt: skip


def packages() -> Path:
    return interpreters.cache_folder() / NAME


def python() -> Path:
    return interpreters.cache_folder() / "bin" / PYTHON.name


def is_there() -> bool:
    return packages().is_dir() and PYTHON.is_in(interpreters.cache_folder())


def _pip(target: Path, requirements: str, *options: str) -> None:
    fixed = ("--quiet", "--no-deps", "--no-compile", "--require-hashes")
    command = ["-m", "pip", "install", *fixed, *options, "--target", target, "-r"]
    subprocess.run([sys.executable, *command, HERE / requirements], check=True)


def install() -> None:
    """Raises Unobtainable, CalledProcessError. Leaves nothing half installed."""
    cache = interpreters.cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        Fetcher(cache, Path(work), interpreters.machine()).get(PYTHON)
        target = Path(work) / "packages"
        _pip(target, "requirements.txt", *_WHEELS)
        _pip(target, "paho-mqtt.txt", "--no-build-isolation")
        shutil.rmtree(packages(), ignore_errors=True)
        target.rename(packages())


if __name__ == "__main__":
    try:
        if not is_there():
            install()
    except (Unobtainable, subprocess.CalledProcessError) as error:
        sys.exit(f"Home Assistant cannot be had: {error}")
    print(f"Home Assistant: {packages()}")
