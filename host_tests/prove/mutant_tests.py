"""The unit tests as killers: a copy of the checkout in which one module is replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import paths

_ROOMS = ("firmware", "boards", "host_tests", "tools")
_CPU_S = 400  # a mutant that does not end; the tests themselves take 40
_NO_CACHES = shutil.ignore_patterns("__pycache__", "*.pyc", "build", ".hypothesis")

# They take long, or run another interpreter on files that are not the mutant's.
_LEFT_OUT = (
    "test_100_000_messages", "test_images_are_identical", "test_each_mutant_is_caught",
)  # fmt: skip


class Checkout:
    """files: tests, in the order in which they are tried. Use as a context."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self._files = files
        self._folder = tempfile.TemporaryDirectory(prefix="outpost-mutants-")
        self._root = Path(self._folder.name)

    def __enter__(self) -> Checkout:
        for room in _ROOMS:
            shutil.copytree(paths.REPOSITORY / room, self._root / room, ignore=_NO_CACHES)
        shutil.copy(paths.REPOSITORY / "pyproject.toml", self._root)
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def killer(self, module: str, source: str) -> str:
        """The first test that fails with this source of a module; "": none."""
        path = self._root / "firmware" / "outpost" / f"{module}.py"
        original = path.read_bytes()
        path.write_text(source, encoding="utf-8")
        try:
            return self._first_failure()
        finally:
            path.write_bytes(original)

    def _first_failure(self) -> str:
        command = [
            sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            "-k", " and ".join(f"not {name}" for name in _LEFT_OUT),
            *(f"host_tests/firmware/outpost/{name}.py" for name in self._files),
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=self._root, capture_output=True, text=True, preexec_fn=_bounded,
            env={**os.environ, "CI": ""}, check=False,
        )  # fmt: skip
        if not done.returncode:
            return ""
        for line in reversed(done.stdout.splitlines()):
            if line.startswith(("FAILED ", "ERROR ")):
                return line.split()[1].rsplit("/", 1)[-1]
        return f"tests end with {done.returncode}"


def _bounded() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
