"""The browser in which the tests load pages: which one is taken, and what is fetched without one.

Only tests need it, so it does not come with `outpost fetch` alone. What is fetched is Chromium's
headless shell: three quarters of the bytes of the whole browser.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from outpost_tools.machine.interpreters import Machine, cache_folder
from outpost_tools.trying.fetch.debian_packages import Unobtainable
from outpost_tools.trying.fetch.program import Program

NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
_TIMEOUT_S = 60


def find() -> str | None:
    """The command of the one in CHROMIUM, or else on PATH, or else the fetched one; or None."""
    return os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, (*NAMES, str(private())))), None
    )


def private() -> Path:
    """Where `outpost fetch chromium` puts it."""
    return cache_folder() / "bin" / "chromium"


def program(machine: Machine) -> Program:
    """It starts each of its processes by this script, and has no sandbox: neither a container nor
    root can have one, and the zygote would start /proc/self/exe, which is the loader."""
    return Program(
        "chromium",
        "chromium-headless-shell",
        machine.architecture,
        "/usr/lib/chromium/chromium-headless-shell",
        options=(
            '--browser-subprocess-path="$0"',
            "--no-sandbox",
            "--no-zygote",
            "--disable-breakpad",
        ),
        libraries=("pulseaudio",),
        variables=('FONTCONFIG_SYSROOT="$root"',),
        loader_beside=True,
    )


def describe(command: str) -> str:
    """Its version and place. Raises Unobtainable, and OSError, if it does not run."""
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    version = done.stdout.strip()
    if done.returncode or not version:
        raise Unobtainable(f"{command} does not run: {done.stderr.strip()[-500:]}")
    return f"{version} ({command})"
