"""Loads the outbox's own modules from their sources with another block size, and maybe with one
token changed (a mutant). The proof runs them.

Six things differ from what a board runs, and PROOF.md says so: `_BLOCK_BYTES`; `_MARKS`, the places
for marks of format(), of which a small block has two; the CRC comes from zlib; `unload()` does
nothing; `is_blank` and `fill` are slices; bits of a series are taken, moved and counted as one
number. `test_bytes.py` and `test_series_bits.py` compare the firmware's own with these.
"""

from __future__ import annotations

import ast
import importlib
import sys
import types
import zlib
from pathlib import Path

import paths

# In the order of their imports.
NAMES = (
    "portable_series", "setup", "ring", "settle", "mount", "make", "outbox", "policies",
    "state_note", "series_outbox", "series",
)  # fmt: skip
SERIES = ("portable_series", "series_outbox", "series")


def modules() -> tuple[str, ...]:
    return (*NAMES, "shelf_block", "shelf")


def crc30(seed: int, buf: bytearray, at: int, end: int) -> int:
    return zlib.crc32(memoryview(buf)[at:end], seed) & 0x3FFFFFFF


def is_blank(buf: bytearray, at: int, end: int) -> bool:
    return buf[at:end].count(0xFF) == max(0, end - at)


def fill(buf: bytearray, count: int) -> None:
    buf[:count] = b"\xff" * count


def take_bits(buf: bytearray, at: int, size: int) -> int:
    end = at + size + 7 >> 3
    number = int.from_bytes(buf[at >> 3 : end], "big") >> 8 * end - at - size
    return number & (1 << size) - 1


def move_bits(buf: bytearray, to: int, at: int, count: int) -> None:
    end = to + count + 7 >> 3
    room = 8 * end - to - count  # bits after them, which stay
    mask = (1 << count) - 1 << room
    old = int.from_bytes(buf[to >> 3 : end], "big")
    new = old & ~mask | take_bits(buf, 8 * at, count) << room
    buf[to >> 3 : end] = new.to_bytes(end - (to >> 3), "big")


def check_of(buf: bytearray, at: int, end: int, seed: int) -> int:
    zeros = 8 * (end - at) - int.from_bytes(buf[at:end], "big").bit_count() & 255
    return (crc30(seed, buf, at, end) & 127) << 8 | zeros


def unload(name: str) -> None:
    """Keep a module, because the next mount needs it again."""


class Real:
    """The modules as attributes: real.outbox.Outbox(...).

    mutate: (name of the module, a function that changes its tree), for a mutant.
    """

    def __init__(self, block_bytes: int, mutate: tuple[str, object] | None = None) -> None:
        self._constants = {"_BLOCK_BYTES": block_bytes, "_MARKS": 2}
        self._package = types.ModuleType("outpost")
        self._package.__path__ = [str(paths.FIRMWARE / "outpost")]  # type: ignore[attr-defined]
        kept = {name: sys.modules[name] for name in list(sys.modules) if _is_ours(name)}
        for name in kept:
            del sys.modules[name]
        sys.modules["outpost"] = self._package
        try:
            self._fast_bytes()
            for name in modules():
                setattr(self, name, self._load(name, mutate))
                if name == "portable_series":
                    self._fast_bits()
            self.modules = {name: sys.modules[name] for name in list(sys.modules) if _is_ours(name)}
        finally:
            for name in [name for name in sys.modules if _is_ours(name)]:
                del sys.modules[name]
            sys.modules.update(kept)

    def enter(self) -> None:
        """From now on, `from outpost import ...` inside the firmware means these modules."""
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(self.modules)

    def _fast_bytes(self) -> None:
        from outpost import checksum, memory

        checksum.crc30, checksum.is_blank, memory.fill = crc30, is_blank, fill  # type: ignore
        memory.unload = unload

    def _fast_bits(self) -> None:
        """Replace the portable functions, before any module imports them."""
        from outpost.series_codec import series_bits

        for function in (take_bits, move_bits, check_of):
            setattr(series_bits, function.__name__, function)

    def _load(self, name: str, mutate: tuple[str, object] | None) -> types.ModuleType:
        path = paths.library_module(name)
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in self._constants:
                node.value = ast.Constant(self._constants[ast.unparse(node.targets[0])])
        if mutate and mutate[0] == name:
            tree = mutate[1](tree)  # type: ignore[operator]
        module = types.ModuleType(paths.dotted(path))
        module.__file__ = str(path)
        room = importlib.import_module(module.__name__.rpartition(".")[0])
        sys.modules[module.__name__] = module
        setattr(room, name, module)
        exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), module.__dict__)
        return module


def _is_ours(name: str) -> bool:
    return name == "outpost" or name.startswith("outpost.")


def source(name: str) -> Path:
    return paths.library_module(name)
