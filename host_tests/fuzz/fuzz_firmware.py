"""The firmware's client classes, loaded from source again: with each branch marked, and changed
where a mutant requires it.

Why not a library: atheris 3.0 installs for some Pythons only (a wheel of 35 MB), runs one target
per process, and made a scenario three times slower (200 us instead of 69 us without coverage);
marking branches in the syntax tree costs a third. Why loaded again: the copies that other tests
import stay unchanged, and a mutant needs no file.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from paths import FIRMWARE, dotted

Changes = Mapping[str, tuple[str, str]]  # module: (text, its replacement)
# Modules whose lines are not marked: shared, or run too often.
_PLAIN = {"portable", "memory", "packets", "outbox", "ring", "state_note"}
_CLASSES = {
    **{"session": "Session", "client": "Client", "subscribing": "SubscribingSession"},
    **{"durable": "DurableSession", "exactly_once": "ExactlyOnceSession"},
    **{"streaming": "StreamingSession", "ram_outbox": "RamOutbox", "outbox": "Outbox"},
    **{"state_note": "NotedOutbox"},
}
_MARK, _CALL = "_hit_", "_hit_here_"


class _Marks(ast.NodeTransformer):
    """Puts `_hit_[n] = 1` at the start of each function, of each way out of an if, a loop and a
    try, and where the second part of an `and` or `or` is reached.
    """

    def __init__(self, first: int) -> None:
        self.count = first

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _statement(self) -> ast.stmt:
        return ast.parse(f"{_MARK}[{self._next()}] = 1").body[0]

    def _expression(self, value: ast.expr) -> ast.expr:
        call = ast.parse(f"{_CALL}({self._next()}, 1)", mode="eval").body
        return ast.BoolOp(ast.Or(), [call, value])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._statement())
        return node

    def _block(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._statement())
        node.orelse.insert(0, self._statement())
        return node

    visit_If = visit_While = visit_For = _block  # noqa: N815 - ast's names

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._statement())
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        node.values[1:] = [self._expression(value) for value in node.values[1:]]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        node.body, node.orelse = self._expression(node.body), self._expression(node.orelse)
        return node


def copy_within_bounds(target: Any, at: int, source: Any, start: int, length: int) -> int:
    """memory.copy(), strict: on a board, one byte too many is not an IndexError but corrupts other
    memory.
    """
    if (
        length < 0
        or at < 0
        or start < 0
        or at + length > len(target)
        or start + length > len(source)
    ):
        raise IndexError(
            f"copy of {length} bytes: {start} of {len(source)} to {at} of {len(target)}"
        )
    target[at : at + length] = source[start : start + length]
    return at + length


class Firmware:
    """`classes`: Reader, Client and so on by name. `hits`: one byte per mark; the first `marks` are
    in use, and the rest is for callers that distinguish states.
    """

    SPARE = 1024

    def __init__(self, changes: Changes | None = None) -> None:
        self.changes = dict(changes or {})
        self.hits = bytearray(2048)
        self.marks = 0
        self.classes: dict[str, Any] = {}
        self._modules: dict[str, ModuleType] = {}
        self._sources: dict[str, str] = {}  # by name without a room, as all that follows
        self._files: dict[str, Path] = {}
        self._load()
        self.spare_at = len(self.hits) - self.SPARE

    def _load(self) -> None:
        for path in sorted((FIRMWARE / "outpost").rglob("*.py")):
            self._sources[path.stem] = path.read_text(encoding="utf-8")
            self._files[path.stem] = path
        for name, (old, new) in self.changes.items():
            if self._sources.get(name, "").count(old) != 1:
                raise ValueError(f"{name}.py does not have once: {old}")
            self._sources[name] = self._sources[name].replace(old, new)
        for module, name in _CLASSES.items():
            self.classes[name] = getattr(self.module(module), name)
        for name in self._sources:
            if name.endswith("_setup"):
                self.module(name)  # now, because the sources may be edited during a long run

    def module(self, name: str) -> ModuleType:
        if name in self._modules:
            return self._modules[name]
        if name not in self._sources:
            raise ModuleNotFoundError(name)
        path = self._files[name]
        module = self._modules[name] = ModuleType(dotted(path))
        tree = ast.parse(self._sources[name], str(path))
        if name not in _PLAIN and not name.endswith("_setup"):
            marks = _Marks(self.marks)
            tree = ast.fix_missing_locations(marks.visit(tree))
            self.marks = marks.count
        own = {
            "__builtins__": vars(builtins) | {"__import__": self._import},
            _MARK: self.hits,
            _CALL: self.hits.__setitem__,
        }
        vars(module).update(own)
        exec(compile(tree, str(path), "exec"), vars(module))
        if name == "portable":
            module.copy = copy_within_bounds  # type: ignore[attr-defined]
        if name == "memory":
            module.unload = lambda _: None  # type: ignore[attr-defined]
        return module

    def _import(
        self,
        name: str,
        variables: Any = None,
        names: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if name.partition(".")[0] != "outpost":
            return __import__(name, variables, names, fromlist, level)
        last = name.rpartition(".")[2]
        if last in self._sources:
            return self.module(last)
        package = ModuleType(name)  # the library, or one of its rooms
        for wanted in fromlist:
            setattr(package, wanted, self.module(wanted))
        return package


def new_marks(firmware: Firmware) -> Callable[[], int]:
    """Returns a function that returns how many marks were hit for the first time since its last
    call, and clears them.
    """
    seen = 0
    hits = firmware.hits
    blank = bytes(len(hits))

    def count() -> int:
        nonlocal seen
        now = int.from_bytes(hits, "little")
        hits[:] = blank
        fresh = now & ~seen
        seen |= now
        return fresh.bit_count()

    return count
