"""Runs a hunt (virtual/hunt.py) in a real MicroPython, 32-bit by default, where integers of 2^30
and beyond take heap as on a board. The other half is boards/BENCH/on_micropython.py.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from outpost_tools.boards.files import firmware_build
from outpost_tools.errors import ToolError
from outpost_tools.machine import interpreters, source_tree

_HEAP = "8m"
_ARCHITECTURES = {"i386": "x86", "amd64": "x64", "armhf": "armv7emsp"}


class OnMicropython:
    def __init__(self, path: Path, scenario: dict, architecture: str = "") -> None:
        self._path, self._scenario = path.resolve(), scenario
        self._command, self._architecture = _interpreter(architecture)

    def cases(self, plan: dict) -> Iterator[dict]:
        """As OnCpython.cases(). Raises ToolError."""
        with tempfile.TemporaryDirectory(prefix="outpost-test-") as folder:
            request = Path(folder, "request.json")
            compiled = Path(folder, "compiled")
            self._compile(compiled)
            request.write_text(json.dumps(self._request(plan, compiled)))
            command = [*self._command, "-X", f"heapsize={_HEAP}", _script(), str(request)]
            with subprocess.Popen(
                command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                try:
                    for line in process.stdout:
                        if line.startswith("{"):  # else a file of the program that a cut ended,
                            yield json.loads(line)  # whose finalizer meets the end of its world
                    said = process.stderr.read()
                finally:
                    process.kill()
            if process.returncode:
                raise ToolError(
                    f"MicroPython ended with status {process.returncode}: {said[-800:]}"
                )

    def _compile(self, folder: Path) -> None:
        """What a board gets, for this machine: the modules that `outpost flash` would copy, and the
        world. Raises ToolError."""
        root = source_tree.repository()
        texts = firmware_build.sources(root / "firmware")
        texts |= firmware_build.board_sources(root / "boards" / self._scenario["board"])
        world = firmware_build.world_sources(root / "boards" / "BENCH")
        texts |= {f"virtual/{name}": text for name, text in world.items()}
        for name, data in firmware_build.compile_all(texts, self._architecture).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)

    def _request(self, plan: dict, compiled: Path) -> dict:
        return {
            "program": str(self._path),
            "roots": [str(self._path.parent), str(compiled)],
            "scenario": self._scenario,
            "plan": plan,
        }


def _script() -> str:
    return str(source_tree.repository() / "boards" / "BENCH" / "on_micropython.py")


def _interpreter(architecture: str) -> tuple[list[str], str]:
    """Its command, and mpy-cross's name of its architecture. Raises ToolError."""
    wanted = (architecture,) if architecture else ("i386", "armhf", "amd64")
    for one in wanted:
        if found := interpreters.find_micropython(one):
            return found, _ARCHITECTURES[one]
    raise ToolError("no MicroPython here: `outpost fetch micropython`, or use --python c")
