"""Fetches the peers' source archives through the index for which pip is configured. They are
unpacked into ${XDG_CACHE_HOME:-~/.cache}/outpost/peers.

`pip download` tries to build what it downloads, and most of these archives have no setup.py. So
this uses pip's own finder and session, in a separate process: the index, certificates and proxies
that the machine is configured with are used, and none is named here. Versions are pinned by hash;
no code of a peer runs while it is fetched, and nothing is ever committed.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.machine import interpreters

PINS = {
    "micropython-umqtt.simple": (
        "1.3.4",
        "b6a2520239e3992c63a7de9370ee9b3d9d27819a90359c521f1c0f7ccab8d12f",
    ),
    "micropython-umqtt.robust": (
        "1.0",
        "22a1b8c8e1128281efb13b3020927d07e33c5b747869da2cd77d37983a9ea002",
    ),
    "adafruit-circuitpython-minimqtt": (
        "8.1.0",
        "2b2e0ff7847e53dd3d45863d2862cb4c90f2092252ede4fb84b2d77d5aba8c84",
    ),
    # The imports of MiniMQTT. It also names Adafruit-Blinka, but imports none of its pin drivers.
    "adafruit-circuitpython-connectionmanager": (
        "3.1.8",
        "ce7436d62ac26312fbd2fc7d8f70ab0582a7c7807d7033ae5bd5cb53e4f66f3b",
    ),
    "adafruit-circuitpython-ticks": (
        "1.1.7",
        "d7f2c0ddf7bcf22cc9579fe9cec8862c696030f3e9e9c68faa6afc2ec5cfd99f",
    ),
    "adafruit-circuitpython-typing": (
        "1.13.0",
        "7a70f8f97d1273084397e854bbf9c254e1ae7e397f5473526e9bd6f56d8a4ea3",
    ),
}
UMQTT = tuple(name for name in PINS if name.startswith("micropython-"))
MINIMQTT = tuple(name for name in PINS if name.startswith("adafruit-"))
_TIMEOUT_S = 60
_PIP = """
import sys
from pip._internal.commands import create_command
name, version = sys.argv[1:]
command = create_command("download")
words = ["--quiet", "--no-deps", "--no-binary", ":all:", "--timeout", "10", "--retries", "1", name]
options, _ = command.parse_args(words)
with command.main_context():
    session = command.get_default_session(options)
    found = command._build_package_finder(options, session).find_all_candidates(name)
    links = [one.link for one in found if str(one.version) == version]
    if not links:
        sys.exit("the index has no source archive of " + name + " " + version)
    answer = session.get(links[0].url_without_fragment)
    answer.raise_for_status()
    sys.stdout.buffer.write(answer.content)
"""


@dataclass(frozen=True)
class Peer:
    """folder: the unpacked archive; None if it could not be obtained, and `reason` says why."""

    name: str
    version: str
    folder: Path | None
    reason: str = ""

    @property
    def short(self) -> str:
        return self.name.removeprefix("micropython-umqtt.").removeprefix("adafruit-circuitpython-")


def folder() -> Path:
    return interpreters.cache_folder() / "peers"


def fetch(name: str) -> Peer:
    """Fetch from the cache, else through pip. Never raises if it cannot be obtained."""
    version, digest = PINS[name]
    target = folder() / f"{name}-{version}"
    if not target.is_dir():
        try:
            _unpack(archive(name, version, digest), target)
        except (OSError, subprocess.SubprocessError, tarfile.TarError, ValueError) as error:
            return Peer(
                name,
                version,
                None,
                f"could not be fetched: {str(error).strip().splitlines()[-1][-160:]}",
            )
    return Peer(name, version, target)


def fetch_all(names: Iterable[str] = PINS) -> dict[str, Peer]:
    """Returns the peers by short name: simple, robust, minimqtt, and what this needs:
    connectionmanager, ticks, typing.
    """
    return {peer.short: peer for peer in map(fetch, names)}


def archive(name: str, version: str, digest: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", _PIP, name, version],
        capture_output=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        raise ValueError(
            done.stderr.decode(errors="replace") or f"pip ended with {done.returncode}"
        )
    if hashlib.sha256(done.stdout).hexdigest() != digest:
        raise ValueError(f"{name} {version}: the archive's hash is not the pinned one")
    return done.stdout


def _unpack(archive: bytes, target: Path) -> None:
    """Unpack Python files only (one archive has a dangling link), without the folder that wraps
    them.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {
            entry.name: tar.extractfile(entry)
            for entry in tar
            if entry.isfile() and entry.name.endswith(".py")
        }
        contents = {
            Path(*Path(name).parts[1:]): file.read() for name, file in files.items() if file
        }
    part = target.with_name(f".{target.name}.part")
    for path, content in contents.items():
        place = part / path
        if ".." in path.parts or path.is_absolute():
            raise ValueError(f"{path}: a path out of the archive")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    part.rename(target)
