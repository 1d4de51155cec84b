"""Loads the firmware's session classes from source again: unchanged, or with the syntax tree of one
module changed (`session_mutants.py`)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from paths import FIRMWARE

CLASSES = {
    "session": "Session",
    "subscribing": "SubscribingSession",
    "durable": "DurableSession",
    "exactly_once": "ExactlyOnceSession",
}


def source_of(module: str) -> str:
    return (FIRMWARE / "outpost" / f"{module}.py").read_text(encoding="utf-8")


class Loader:
    """changed: syntax trees that replace modules."""

    def __init__(self, changed: Mapping[str, ast.Module]) -> None:
        self._changed = changed
        self._modules: dict[str, ModuleType] = {}
        self._package = ModuleType("outpost")

    def module(self, name: str) -> ModuleType:
        if name in self._modules:
            return self._modules[name]
        path = FIRMWARE / "outpost" / f"{name}.py"
        if not path.exists():
            raise ModuleNotFoundError(f"outpost.{name}")
        module = self._modules[name] = ModuleType(f"outpost.{name}")
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": self._import}
        tree = self._changed.get(name) or ast.parse(source_of(name), str(path))
        exec(compile(tree, str(path), "exec"), vars(module))
        if name == "memory":
            vars(module)["unload"] = lambda _: None  # a session is made thousands of times a second
        return module

    def _import(
        self, name: str, variables: Any = None, scope: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        package, _, module = name.partition(".")
        if package != "outpost":
            return __import__(name, variables, scope, names, level)
        if module:
            return self.module(module)
        for wanted in names:
            setattr(self._package, wanted, self.module(wanted))
        return self._package


def classes(changed: Mapping[str, ast.Module] | None = None) -> dict[str, Any]:
    """Returns {name: class}. Raises what a changed module raises while it is loaded."""
    loader = Loader(changed or {})
    vars(loader.module("durable"))["_LONGEST"] = 1  # one timeout, or the states do not end
    return {name: getattr(loader.module(module), name) for module, name in CLASSES.items()}
