"""The wheel, built offline by the build backend of .venv from the files that git knows, and
installed into separate environments that do not see this repository.

Fixtures to import: `wheel` (its path), `installed` (the command `outpost`, with all packages of
.venv beside it), `bare` (the command, with nothing but what the wheel itself requires).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from outpost_tools import DISTRIBUTION
from paths import REPOSITORY

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
OFFLINE = ["--no-index", "--no-deps", "--no-build-isolation"]


def tracked() -> list[str]:
    """Returns the files of the repository, including those not yet committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.splitlines() if (REPOSITORY / name).is_file()]


def users_environment(**more: str) -> dict[str, str]:
    """That of somebody who has no copy of this repository. PYTHONPATH may name ours: a Spark
    session of an earlier test in this process puts it there."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | more


def run(command: list[object], folder: Path, **more: str) -> subprocess.CompletedProcess:
    """Run a command as a user does who has no copy of this repository."""
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=users_environment(**more), capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def done(command: list[object], folder: Path, **more: str) -> str:
    finished = run(command, folder, **more)
    assert finished.returncode == 0, f"{command}: {finished.stdout}{finished.stderr}"
    return finished.stdout


def copied(folder: Path) -> Path:
    """A clean copy of the repository: a build in the work tree would leave its files there, and
    would pick up those of an earlier build."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


def built(source: Path, folder: Path) -> Path:
    """Returns the wheel."""
    done([*PIP, "wheel", *OFFLINE, "--wheel-dir", folder, "."], source)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return copied(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    return built(source, tmp_path_factory.mktemp("wheel"))


def environment(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Returns the command of a new environment that has only the wheel, and the folder of its
    packages."""
    done([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    python = folder / "bin" / "python"
    done([*PIP, "--python", python, "install", "--no-index", "--no-deps", wheel], folder)
    packages = Path(sysconfig.get_paths(vars={"base": str(folder)})["purelib"])
    return folder / "bin" / "outpost", packages


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The command `outpost` in a separate environment."""
    command, packages = environment(wheel, tmp_path_factory.mktemp("environment"))
    # The other packages, but not the repository, which .venv adds to its own path.
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return command


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Path:
    return with_required(wheel, tmp_path_factory.mktemp("bare"))


def with_required(wheel: Path, folder: Path) -> Path:
    """Returns the command `outpost` as `pip install` of the wheel leaves it, without the extras."""
    folder.mkdir(exist_ok=True)
    command, packages = environment(wheel, folder)
    ours = Path(sysconfig.get_paths()["purelib"])
    for name in {part for one in _required() for part in _top_level(one)}:
        if not (packages / name).exists():
            (packages / name).symlink_to(ours / name)
    return command


def _required() -> list[metadata.Distribution]:
    """Returns what pip installs with the wheel, dependencies of dependencies included."""
    found: dict[str, metadata.Distribution] = {}
    left = [DISTRIBUTION]
    while left:
        for text in metadata.distribution(left.pop()).requires or ():
            wanted = Requirement(text)
            needed = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
            if needed and wanted.name not in found:
                found[wanted.name] = metadata.distribution(wanted.name)
                left.append(wanted.name)
    return list(found.values())


def _top_level(one: metadata.Distribution) -> set[str]:
    return {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}
