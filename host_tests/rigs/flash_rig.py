"""A board to flash: real MicroPython behind a pseudo-terminal, whose `/` is a littlefs on a NOR
image file. For test_flash.py.

with Rig(folder) as rig: rig.outpost("flash"); rig.hashes()
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outpost_tools import cli
from outpost_tools.boards.files import needed, payload
from outpost_tools.boards.port import kinds
from outpost_tools.machine import source_tree as original_tree
from outpost_tools.machine.interpreters import find_micropython
from paths import BENCH_BOARD, FAKES, REPOSITORY, RIGS, UNIX_BOARD, joined
from pty_board import PtyBoard

SETTINGS = {
    "device_id": "rig-1",
    "broker_host": "127.0.0.1",
    "broker_port": 1,
    "mode": "broker",
    "interval_ms": 20,
}

MPREMOTE = [sys.executable, "-m", "mpremote"]
MPY = {"i386": "x86", "amd64": "x64"}
BLOCKS = 212  # 848 KB, as the filesystem of a Pico W
_LIMIT_S = 120
_MPREMOTE_LIMIT_S = 120
_SETTLE_S = 120

_HASHES = """
import hashlib, os
def walk(folder):
    for name, kind, *_ in os.ilistdir(folder or "/"):
        path = folder + "/" + name
        if kind == 0x4000:
            walk(path)
        else:
            with open(path, "rb") as file:
                print((path, hashlib.sha256(file.read()).digest()))
walk("")
"""


def source_tree(folder: Path) -> Path:
    """Copy what is flashed, so that a test can change it."""
    for name in ("firmware", "boards"):
        shutil.copytree(
            REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copytree(RIGS / "rig_board", folder / "boards" / "RIG")
    return folder


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources that `outpost flash` uses."""
    root = source_tree(tmp_path / "tree")
    monkeypatch.setattr(original_tree, "repository", lambda: root)
    return root


class Rig(PtyBoard):
    """folder: for the image and the host's files. `tree`: see the fixture of that name."""

    def __init__(
        self, folder: Path, tree: Path, architecture: str = "i386", blocks: int = BLOCKS
    ) -> None:
        command = find_micropython(architecture)
        if command is None:
            pytest.skip(f"missing MicroPython {architecture}: run make setup")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.tree, self.architecture, self.image = (
            folder,
            tree,
            architecture,
            folder / "board.img",
        )
        if not self.image.exists():
            self.image.write_bytes(b"\xff" * 4096 * blocks)
        path = joined(RIGS, FAKES, UNIX_BOARD, BENCH_BOARD)
        super().__init__(
            [*command, "-X", "heapsize=8m"],
            folder,
            path,
            "/main.py",
            console=RIGS / "rig_console.py",
        )
        self.out = self.err = ""

    @property
    def arguments(self) -> list[str]:
        return ["--board", "RIG", "--port", self.port]

    def outpost(self, word: str, *more: object) -> int:
        """Run a command of `outpost`. Returns the exit status; its output is in out and err."""
        out, err, before = io.StringIO(), io.StringIO(), len(self.starts)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main([word, *self.arguments, *map(str, more)])
        until = time.monotonic() + _SETTLE_S
        while len(self.starts) > before and self.starts[-1] != "main" and time.monotonic() < until:
            time.sleep(0.01)  # its program starts again
        self.out, self.err = out.getvalue(), err.getvalue()
        # pytest shows this if a test fails
        print(word, *more, status, self.out, self.err, sep="\n", end="")
        return status

    def row(self, name: str) -> str:
        """Returns a row of the printed table."""
        lines = [line for line in self.out.splitlines() if line.startswith(name)]
        assert lines, f"no {name} in {self.out!r} {self.err!r}"
        return lines[0].removeprefix(name).strip()

    def mpremote(self, *words: object) -> str:
        """Returns what mpremote prints."""
        command = [*MPREMOTE, "connect", self.port, *map(str, words)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_MPREMOTE_LIMIT_S,
            check=False,
            cwd=self.tree,
        )
        assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
        return done.stdout

    def hashes(self) -> dict[str, bytes]:
        """Returns the SHA-256 of every file on the board, read without the tool under test. The
        program is stopped, and stays stopped.
        """
        return dict(ast.literal_eval(line) for line in self.mpremote("exec", _HASHES).splitlines())

    def wanted(self) -> dict[str, bytes]:
        """Returns the SHA-256 that the firmware's files must have, with these SETTINGS."""
        files = self.built()
        return {path: hashlib.sha256(data).digest() for path, data in files.items()}

    def built(self) -> dict[str, bytes]:
        kind = kinds.load(self.tree, "RIG")
        settings = needed.defaults() | SETTINGS
        return payload.build(self.tree, kind, MPY[self.architecture], settings)

    def is_whole(self) -> bool:
        """True when every file of the firmware is as it should be, and nothing unfinished is beside
        it."""
        found = self.hashes()
        return self.wanted().items() <= found.items() and not [
            path for path in found if path.endswith((".new", ".old"))
        ]

    @contextlib.contextmanager
    def flashing(self, *more: object) -> Iterator[subprocess.Popen]:
        """Runs `outpost flash` as a process, with the firmware compiled beforehand."""
        files = self.folder / "built.pickle"
        files.write_bytes(pickle.dumps(self.built()))
        command = [
            sys.executable,
            RIGS / "flash_prebuilt.py",
            files,
            self.tree,
            "flash",
            *self.arguments,
            *more,
        ]
        process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def wait_for_change(self, before: bytes) -> None:
        """Wait until the content of the flash changes."""
        until = time.monotonic() + _LIMIT_S
        while self.image.read_bytes() == before:
            assert time.monotonic() < until, "the flash stays as it is"
            time.sleep(0.01)

    def order_power_cut(self, operation: int, mode: str) -> None:
        """Cut the power in that operation of the next start."""
        (self.folder / "orders.json").write_text(f'{{"cut_at": {operation}, "cut_mode": "{mode}"}}')

    def order_slow_flash(self, operation_ms: int) -> None:
        """Slow the flash down from the next start that a tool makes until the one after it."""
        (self.folder / "orders.json").write_text(f'{{"operation_ms": {operation_ms}}}')
