"""Loads the firmware's session classes from source again: unchanged, or with the syntax tree of one
module changed (`session_mutants.py`)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import paths

CLASSES = {
    "session": "Session",
    "subscribing": "SubscribingSession",
    "durable": "DurableSession",
    "exactly_once": "ExactlyOnceSession",
}


def source_of(module: str) -> str:
    return paths.library_module(module).read_text(encoding="utf-8")


class Loader:
    """changed: syntax trees that replace modules, by their names without a room."""

    def __init__(self, changed: Mapping[str, ast.Module]) -> None:
        self._changed = changed
        self._modules: dict[str, ModuleType] = {}
        self._found = {path.stem: path for path in (paths.FIRMWARE / "outpost").rglob("*.py")}
        self._rooms = {path.parent.name for path in self._found.values()}

    def module(self, name: str) -> ModuleType:
        if name in self._modules:
            return self._modules[name]
        path = self._found.get(name)
        if path is None:
            raise ModuleNotFoundError(name)
        module = self._modules[name] = ModuleType(paths.dotted(path))
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": self._import}
        tree = self._changed.get(name) or ast.parse(source_of(name), str(path))
        exec(compile(tree, str(path), "exec"), vars(module))
        if name == "memory":
            vars(module)["unload"] = lambda _: None  # a session is made thousands of times a second
        return module

    def _import(
        self, name: str, variables: Any = None, scope: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        if name.partition(".")[0] != "outpost":
            return __import__(name, variables, scope, names, level)
        last = name.rpartition(".")[2]
        if last not in self._rooms:
            return self.module(last)
        package = ModuleType(name)  # the library, or one of its rooms
        for wanted in names:
            setattr(package, wanted, self.module(wanted))
        return package


def classes(changed: Mapping[str, ast.Module] | None = None) -> dict[str, Any]:
    """Returns {name: class}. Raises what a changed module raises while it is loaded."""
    loader = Loader(changed or {})
    vars(loader.module("durable"))["_LONGEST"] = 1  # one timeout, or the states do not end
    return {name: getattr(loader.module(module), name) for module, name in CLASSES.items()}
