"""Fetches the two Python packages whose RFH2 classes test_mq_readers.py reads our bytes with;
nothing is installed.

    python host_tests/tools/servers/mq/fetch_mq_readers.py

They go to ${XDG_CACHE_HOME:-~/.cache}/outpost/mq-readers. Both need IBM's client to work; the test
stubs their C part.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from outpost_tools.trying.fetch.debian_packages import unpack

READERS = {
    "pymqi==1.12.13": "a74a48d6f0c59180f678a926927b69d8d7e7df0b228f8903c08b95f54627051c",
    "ibmmq==2.1.2": "f6dbaf11fffc59cd92da76b1ff05e648050e830e9856e5ee9fda9747d9a2d989",
}


def folder() -> Path:
    """Where the unpacked packages are: `pymqi-1.12.13/code/pymqi`, `ibmmq`."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "outpost" / "mq-readers"


def fetch(target: Path) -> None:
    """Raises CalledProcessError when pip cannot have them; a file with another hash is refused."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as downloads:
        wanted = Path(downloads) / "requirements.txt"
        wanted.write_text(
            "".join(f"{name} --hash=sha256:{digest}\n" for name, digest in READERS.items())
        )
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--dest",
            downloads,
        ]
        subprocess.run([*command, "-r", str(wanted)], check=True)
        for archive in Path(downloads).glob("*.whl"):
            zipfile.ZipFile(archive).extractall(target)
        for archive in Path(downloads).glob("*.tar.gz"):
            with tarfile.open(archive) as tar:
                unpack(tar, target)


if __name__ == "__main__":
    fetch(folder())
    print(folder())
