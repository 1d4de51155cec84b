"""A board's own import system under CPython.

**The law.** The modules of a boot lie in a table of that boot, never in `sys.modules`: a boot
starts fresh, two worlds do not see each other, and pytest keeps its own `time`. The program sees
the port's modules, its own files, the firmware, and the few modules of CPython that MicroPython has
too. Compiled code is kept from boot to boot.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
import zlib
from pathlib import Path
from typing import Any

_CODE: dict[str, Any] = {}
# What MicroPython's ports have, and CPython's own serves.
_SHARED = (
    "array", "binascii", "builtins", "cmath", "collections", "errno", "hashlib", "heapq", "io",
    "json", "math", "re", "struct",
)  # fmt: skip


def code_of(path: str) -> Any:
    """Compiled. Raises SyntaxError."""
    found = _CODE.get(path)
    if found is None:
        found = _CODE[path] = compile(Path(path).read_bytes(), path, "exec")
    return found


class Importer:
    """The modules of one boot. roots: folders to import from, the program's own first. fakes: the
    port's modules, by name."""

    def __init__(self, world: Any, fakes: dict[str, Any], roots: tuple[str, ...]) -> None:
        self._world, self._roots, self._fakes = world, roots, fakes
        self.table: dict[str, types.ModuleType] = {}
        self._fakes["sys"] = _sys(self)
        self._builtins = {
            **vars(builtins),
            "__import__": self._import,
            "open": world.files.open,
            "print": self._print,
        }

    def run(self, program: Path) -> None:
        """The program, as __main__. Raises what it raises."""
        module = self._module("__main__", str(program))
        self.table["__main__"] = module
        exec(code_of(str(program)), module.__dict__)

    def clear(self) -> None:
        self.table.clear()

    def _print(self, *words: Any, sep: str = " ", end: str = "\n", **_: Any) -> None:
        self._world.output.append((sep.join(map(str, words)) + end).rstrip("\n"))

    # --- import ---

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        if level:
            name = _absolute(name, globals or {}, level)
        module = self._find(name)
        if not fromlist:
            return module if level else self._find(name.split(".")[0])
        for one in fromlist:
            if one != "*" and not hasattr(module, one) and hasattr(module, "__path__"):
                setattr(module, one, self._find(f"{name}.{one}"))
        return module

    def _find(self, name: str) -> Any:
        found = self.table.get(name)
        if found is not None:
            return found
        plain = name[1:] if name[:1] == "u" and name[1:] in self._fakes else name
        if plain in self._fakes:
            return self._fakes[plain]
        parts = name.split(".")
        if len(parts) > 1:
            self._find(".".join(parts[:-1]))
        path = _path(self._roots, name)
        if path:
            return self._load(name, parts, path)
        if name.removeprefix("u") in _SHARED:
            return __import__(name.removeprefix("u"))
        raise ImportError(f"no module named '{name}'")

    def _module(self, name: str, path: str) -> types.ModuleType:
        made = types.ModuleType(name)
        made.__file__ = path
        made.__dict__["__builtins__"] = self._builtins
        return made

    def _load(self, name: str, parts: list[str], path: str) -> types.ModuleType:
        module = self._module(name, path)
        is_file = path.endswith(".py")
        if not is_file or path.endswith("__init__.py"):
            module.__path__ = [path]
        self.table[name] = module
        if is_file:
            try:
                exec(code_of(path), module.__dict__)
            except BaseException:
                self.table.pop(name, None)
                raise
        if len(parts) > 1:
            setattr(self.table[".".join(parts[:-1])], parts[-1], module)
        self._loaded(name, module)
        return module

    def _loaded(self, name: str, module: types.ModuleType) -> None:
        watch = self._world.ledger.watches.get(name)
        if watch:
            watch(module)
        if name == "outpost.portable":  # as fast as machine code on a board
            module.__dict__.update(crc30=_crc30, is_blank=_is_blank, fill=_fill, copy=_copy)


@functools.cache
def _path(roots: tuple[str, ...], name: str) -> str:
    """Of a module, or of a folder without __init__.py; "": there is none."""
    for root in roots:
        base = os.path.join(root, *name.split("."))
        for path in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(path):
                return path
        if os.path.isdir(base):
            return base
    return ""


def _absolute(name: str, where: dict, level: int) -> str:
    """Of a relative import. Raises ImportError."""
    parts = where.get("__name__", "").split(".")
    parts = parts if "__path__" in where else parts[:-1]
    if level > len(parts):
        raise ImportError("relative import beyond the top package")
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, name] if name else base)


def _sys(importer: Importer) -> types.ModuleType:
    made = types.ModuleType("sys")
    world = importer._world

    def print_exception(error: BaseException, file: Any = None) -> None:
        world.output.append(f"{type(error).__name__}: {error}")

    class Output:
        def write(self, text: str) -> int:
            world.output.extend(text.splitlines())
            return len(text)

    made.modules, made.path, made.argv = importer.table, [""], []
    made.implementation = types.SimpleNamespace(name="cpython", version=(1, 25, 0, ""), _mpy=0)
    made.platform = "rp2" if world.scenario["board"].startswith("RPI") else "esp32"
    made.stdout = made.stderr = Output()
    made.stdin = None
    made.maxsize, made.byteorder = 0x7FFFFFFF, "little"
    made.version, made.version_info = "3.4.0; MicroPython v1.25.0", (3, 4, 0)
    made.exit, made.print_exception = sys.exit, print_exception
    return made


def _crc30(seed: int, buf: Any, at: int, end: int) -> int:
    return zlib.crc32(memoryview(buf)[at:end], seed) & 0x3FFFFFFF


def _is_blank(buf: Any, at: int, end: int) -> bool:
    return bytes(buf[at:end]).count(0xFF) == max(0, end - at)


def _fill(buf: Any, count: int) -> None:
    buf[:count] = b"\xff" * count


def _copy(target: Any, at: int, source: Any, start: int, length: int) -> int:
    target[at : at + length] = bytes(source[start : start + length])
    return at + length
