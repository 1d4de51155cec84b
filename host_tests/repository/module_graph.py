"""Which module imports which, read from the sources: at the top, in functions, for types alone.

A module has its dotted name, a package the name of its folder. Nothing is imported here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

Graph = Mapping[str, Collection[str]]


def files(*folders: Path) -> dict[str, Path]:
    """{dotted name: file} of packages, their rooms included."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(source: str, known: Collection[str]) -> set[str]:
    """Names of what a module imports, of a `known` one in full: `from a import b` is a.b then.
    A relative import has its dots, so it is nobody's name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names = {f"{base}.{alias.name}" for alias in node.names}
            modules = names & set(known)
            found |= modules if modules == names else modules | {base}
    return found


def graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """{name: names of those of `modules` that it imports}."""
    return {
        name: imports(path.read_text(encoding="utf-8"), modules) & modules.keys()
        for name, path in modules.items()
    }


def closed(names: Iterable[str], of: Graph) -> set[str]:
    """With all that they import, and what that imports."""
    todo, found = list(names), set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += of[name]
    return found


def circles(of: Graph) -> list[list[str]]:
    """The strongly connected parts: each module of one reaches every other."""
    reached = {name: closed(of[name], of) for name in of}
    parts = {tuple(sorted(one for one in reached[name] if name in reached[one])) for name in of}
    return [list(part) for part in sorted(parts) if len(part) > 1]


def grouped(of: Graph, group: Callable[[str], str]) -> dict[str, set[str]]:
    """The same between groups of modules, such as folders."""
    found: dict[str, set[str]] = {group(name): set() for name in of}
    for name, others in of.items():
        found[group(name)] |= {group(other) for other in others} - {group(name)}
    return found
