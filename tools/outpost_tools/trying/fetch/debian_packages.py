"""Runs programs from Debian packages out of a private folder: no root, nothing installed, no
service started.

Apt itself fetches and verifies the packages, with the machine's own archive address, proxies and
keys, but with private state: an empty dpkg status makes it resolve all dependencies down to libc,
so that the programs of one suite run on any older or newer machine. They are started through the
unpacked `ld-linux`.

`OUTPOST_DEBIAN_ARCHIVE` names an archive address if the machine's apt has none for Debian (Ubuntu,
for instance).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from outpost_tools.trying.fetch.program import LOADERS, SUITE, Program

_TOOLS = ("apt-get", "dpkg-deb")
_HELPER = "/usr/lib/apt/apt-helper"  # from the package apt
# For networks that are less reliable than a server's:
_PATIENCE = {"Acquire::Retries": 3, "Acquire::http::Timeout": 60}
_WHY_APT = "it needs Debian's apt and dpkg"
_WHY = {"git": "it applies Debian's patches; on Debian: apt install git"}


class Unobtainable(Exception):
    """A program cannot be fetched; the message says why and what to do."""


def _run(
    command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """The output of a command, run in `folder`. Raises Unobtainable with its error lines."""
    env = os.environ | {"LC_ALL": "C"} | (environment or {})
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=folder, env=env
        )
    except FileNotFoundError as error:
        raise Unobtainable(
            f"{command[0]} is not on this machine ({_WHY.get(command[0], _WHY_APT)})"
        ) from error
    except subprocess.CalledProcessError as error:
        lines = [
            line for line in error.stderr.splitlines() if line.startswith("E:")
        ] or error.stderr.splitlines()
        raise Unobtainable(f"{command[0]}: {' '.join(lines)[:500]}") from error
    return done.stdout


def archive_address() -> str:
    """The address from which this machine's apt gets Debian (not its security updates).

    Raises Unobtainable if it has none.
    """
    if given := os.environ.get("OUTPOST_DEBIAN_ARCHIVE"):
        return given
    for tool in _TOOLS:
        if not shutil.which(tool):
            raise Unobtainable(
                f"{tool} is not on this machine (Debian packages need apt and dpkg to be unpacked)"
            )
    addresses = _run(["apt-get", "indextargets", "--format", "$(REPO_URI)"]).split()
    # A new container has no lists yet, so indextargets prints nothing; but apt knows what an
    # update would fetch.
    fetches = _run(["apt-get", "-o", "Debug::NoLocking=1", "update", "--print-uris"])
    addresses += re.findall(r"^'([^']+?)/dists/", fetches, re.MULTILINE)
    for address in addresses:
        if address.rstrip("/").endswith("/debian"):
            return address
    raise Unobtainable(
        "apt on this machine has no Debian archive; name one in OUTPOST_DEBIAN_ARCHIVE"
    )


def _manners() -> dict[str, object]:
    """Settings for everything that apt fetches for us."""
    # Otherwise apt warns that its own user cannot enter the folder.
    user = {"APT::Sandbox::User": "root"} if os.geteuid() == 0 else {}
    return _PATIENCE | user


def download(files: Iterable[tuple[str, Path, str]]) -> None:
    """Fetches each address into a file, which must have this SHA-256. Raises Unobtainable."""
    options = [f"-o{name}={value}" for name, value in _manners().items()]
    for address, target, digest in files:
        _run([_HELPER, *options, "download-file", address, str(target), f"SHA256:{digest}"])


class PrivateApt:
    """Apt for one architecture with all its state in `folder`, which the caller removes.

    sources: also source packages.
    """

    def __init__(self, architecture: str, folder: Path, sources: bool = False) -> None:
        self._folder = folder
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "status").touch()
        keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        signed_by = f" [signed-by={keys}]" if keys.exists() else ""
        kinds, place = (
            ("deb", "deb-src") if sources else ("deb",),
            f"{signed_by} {archive_address()} {SUITE} main\n",
        )
        (folder / "sources.list").write_text("".join(kind + place for kind in kinds))
        self._options = [f"-o{option}" for option in self._settings(architecture)]
        _run(["apt-get", *self._options, "update"])

    def _settings(self, architecture: str) -> list[str]:
        settings = {
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State": self._folder / "state",
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Update::Error-Mode": "any",  # otherwise an unreachable archive is only a warning
            "Acquire::Languages": "none",
            "Acquire::ForceHash": "SHA256",  # for the output of --print-uris
            "Debug::NoLocking": 1,
        }
        return [f"{name}={value}" for name, value in (settings | _manners()).items()]

    def fetch(self, *packages: str) -> list[Path]:
        """Downloads packages and their dependencies. Returns the files. Raises Unobtainable."""
        archives = self._folder / "cache" / "archives"
        for old in archives.glob("*.deb"):
            old.unlink()
        _run([*self._install(packages), "--download-only"])
        return sorted(archives.glob("*.deb"))

    def fetch_bytes(self, *packages: str) -> int:
        """The number of bytes that fetch() would download for these. Raises Unobtainable."""
        return sum(int(size) for _, _, size, _ in self._files(packages))

    def hashes(self, *packages: str) -> dict[str, str]:
        """The SHA-256 of each file that fetch() would download for these, by its path in the
        archive. Raises Unobtainable."""
        return {
            "pool/" + unquote(address[1:-1]).partition("/pool/")[2]: digest.removeprefix("SHA256:")
            for address, _, _, digest in self._files(packages)
        }

    def _files(self, packages: tuple[str, ...]) -> list[list[str]]:
        """Address, name, size in bytes and hash of each."""
        lines = _run([*self._install(packages), "--print-uris"]).splitlines()
        return [line.rsplit(" ", 3) for line in lines if line.startswith("'")]

    def _install(self, packages: tuple[str, ...]) -> list[str]:
        return ["apt-get", *self._options, "install", "-qq", "--no-install-recommends", *packages]

    def fetch_alone(self, package: str, folder: Path) -> Path:
        """Downloads one package without its dependencies into an existing folder.

        Raises Unobtainable.
        """
        _run(["apt-get", *self._options, "download", "-qq", package], folder)
        return next(folder.glob(f"{package}_*.deb"))

    def fetch_source(self, package: str, folder: Path) -> list[Path]:
        """Downloads the files of a source package into an existing folder. Raises Unobtainable."""
        _run(["apt-get", *self._options, "source", "-qq", "--download-only", package], folder)
        return sorted(path for path in folder.iterdir() if path.name.startswith(f"{package}_"))


def unpack(archive: tarfile.TarFile, into: Path, wanted=lambda name: True) -> None:
    """Extracts the members whose name (a path without leading `./`) is wanted, but none outside
    `into`: TarFile's own filters came with Python 3.11.4, and Debian 12 has 3.11.2. Raises
    Unobtainable.
    """
    archive.extraction_filter = getattr(tarfile, "tar_filter", lambda member, path: member)
    for member in archive:
        name = member.name.removeprefix("./")
        if name.startswith("/") or ".." in name.split("/"):
            raise Unobtainable(f"an archive has a file outside of its folder: {name}")
        if wanted(name):
            archive.extract(member, into)


def unpack_source(files: list[Path], target: Path) -> Path:
    """Unpacks a source package with Debian's patches applied.

    Returns its folder in `target`. Raises Unobtainable.
    """
    for path in sorted(files, reverse=True):  # .orig before .debian
        if ".tar." in path.name:
            with tarfile.open(path) as archive:
                into = next(target.iterdir()) if ".debian." in path.name else target
                unpack(archive, into)
    source = next(target.iterdir())
    series = source / "debian" / "patches" / "series"
    for line in series.read_text().splitlines() if series.exists() else ():
        if line.strip() and not line.startswith("#"):
            apply_patch(series.parent / line.split()[0], source)
    return source


def apply_patch(patch: Path, source: Path) -> None:
    """Raises Unobtainable if the patch does not apply."""
    # Inside a work tree git would skip files that it does not track, so it must not find one above.
    ceiling = {"GIT_CEILING_DIRECTORIES": str(source.resolve().parent)}
    _run(["git", "apply", str(patch)], source, ceiling)


def unpack_packages(packages: list[Path], root: Path) -> None:
    """Unpacks packages over each other, without their documentation; links stay inside `root`."""
    for package in packages:
        _run(["dpkg-deb", "-x", str(package), str(root)])
    _make_links_relative(root)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")  # qemu looks for the loader at its old path
    for bulk in (
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
        "usr/lib/locale",
        "usr/share/i18n",
    ):
        shutil.rmtree(root / bulk, ignore_errors=True)


def _make_links_relative(root: Path) -> None:
    """An absolute link to /etc/java-21-openjdk/... would lead to the machine's own /etc."""
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in folders + files):
            if path.is_symlink() and (target := os.readlink(path)).startswith("/"):
                path.unlink()
                path.symlink_to(os.path.relpath(f"{root}{target}", folder))


def _keep_only(path: str, work: Path) -> None:
    """Removes all of `work/root` except one file (qemu's package has 60 emulators, 400 MB)."""
    kept = work / f"kept{path}"
    kept.parent.mkdir(parents=True)
    (work / f"root{path}").rename(kept)
    shutil.rmtree(work / "root")
    (work / "kept").rename(work / "root")


def install(program: Program, packages: list[Path], cache: Path, work: Path) -> None:
    """Puts the program into the cache from its packages. `work` is an empty folder on the same
    disk.

    Raises Unobtainable. A run interrupted at any point leaves either nothing or the whole program.
    """
    unpack_packages(packages, work / "root")
    if not (work / f"root{program.path}").exists():
        raise Unobtainable(f"package {program.package} of {SUITE} has no {program.path}")
    if program.is_static:
        _keep_only(program.path, work)
    elif program.loader_beside:
        loader = work / f"root/usr/lib/{LOADERS[program.architecture]}"
        shutil.copy(loader, work / f"root{program.loader}")
    target = cache / "roots" / program.folder
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    (work / "root").rename(target)
    script = work / "wrapper"
    script.write_text(program.wrapper())
    script.chmod(0o755)
    (cache / "bin").mkdir(exist_ok=True)
    script.rename(cache / "bin" / program.name)
