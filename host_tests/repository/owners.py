#!/usr/bin/env python3
"""Which module writes which field of the library's objects, read from the sources.

    host_tests/repository/owners.py            each object: its fields and their writers
    host_tests/repository/owners.py cfb93e31   beside those of that commit
    host_tests/repository/owners.py --shared   each field with several writers

An object has the fields of all classes of its line: a session with collector mode and MQTT 5.0 is
one object. Its owner is the module whose class makes the field. A write assigns or deletes the
field or one of its items, or calls a method of its list or dict that changes it. What functions put
into a buffer is not seen.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARY = "firmware/outpost"

# Class of an object: by which names other modules call it.
CALLED = {
    "Client": ("client",),
    "Session": ("session", "_session"),
    "Suspects": ("suspects",),
    "Retry": ("_shelved", "retry"),
    "InFlight": ("in_flight", "_in_flight"),
    "Expiry": ("_expiry",),
    "Aliases": ("_inbound",),
    "OwnAliases": ("_own", "_aliases"),
    "Outbox": ("outbox", "_outbox"),
    "Block": ("one", "now", "_now"),
}
# level5.over() and series_outbox.over() put these in front of an object's class.
_IN_FRONT = {"Refusals": "Session", "InPlace": "Outbox"}
_CHANGING = frozenset(
    "append clear extend insert pop popitem remove setdefault sort update".split()
)

Classes = dict[str, tuple[str, ast.ClassDef]]


@dataclass
class Object:
    """writers: field -> modules that write it. owners: field -> the module that makes it."""

    writers: dict[str, set[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def others(self) -> set[tuple[str, str]]:
        """(module, field): it writes a field that another module owns."""
        return {
            (module, name)
            for name, modules in self.writers.items()
            for module in modules - {self.owners.get(name)}
        }


class UnknownName(Exception):
    """A field is written of something whose class CALLED does not say."""


def sources(commit: str = "") -> dict[str, str]:
    """{module: source} of the library: the files, or those of a commit."""
    if not commit:
        files = sorted((REPOSITORY / LIBRARY).rglob("*.py"))
        return {path.stem: path.read_text("utf-8") for path in files}
    names = _git("ls-tree", "-r", "--name-only", commit, LIBRARY).split()
    return {Path(name).stem: _git("show", f"{commit}:{name}") for name in names}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def objects(modules: Mapping[str, str]) -> dict[str, Object]:
    """{class of an object: Object}, from {module: source}."""
    trees = {name: _parsed(source) for name, source in modules.items()}
    classes: Classes = {
        node.name: (module, node)
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    kinds, found = _kinds(classes), {}
    for name in sorted(classes, key=lambda one: len(_line(one, classes))):  # bases first
        module, node = classes[name]
        owners = found.setdefault(kinds[name], Object()).owners
        for made in _made(node):
            owners.setdefault(made, module)
    for module, tree in trees.items():
        for kind, name in written(tree, kinds):
            found.setdefault(kind, Object()).writers.setdefault(name, set()).add(module)
    return found


@cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _bases(name: str, classes: Classes) -> list[str]:
    """Those of the library; a class that is put in front of another one has it as a base."""
    bases = [_IN_FRONT[name]] if name in _IN_FRONT else []
    bases += [base.id for base in classes[name][1].bases if isinstance(base, ast.Name)]
    return [base for base in bases if base in classes]


def _line(name: str, classes: Classes) -> list[str]:
    """The class and all its bases."""
    found = [name]
    for base in _bases(name, classes):
        found += _line(base, classes)
    return found


def _kinds(classes: Classes) -> dict[str, str]:
    """{class: that by which the table above knows its object; else its last base}."""
    lines = {name: _line(name, classes) for name in classes}
    found = {}
    for name in classes:
        related = [line for line in lines.values() if name in line]
        known = [one for one in CALLED for line in related if one in line]
        found[name] = known[0] if known else lines[name][-1]
    return found


@cache
def _made(node: ast.ClassDef) -> set[str]:
    """Fields that the constructor makes, also in a method that it calls, or that stand in the class
    with their first value."""
    methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    found = {
        target.id
        for part in node.body
        if isinstance(part, ast.Assign)
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    todo, done = ["__init__"], set()
    while todo:
        name = todo.pop()
        if name in methods and name not in done:
            done.add(name)
            found |= {made for owner, made in _writes(methods[name]) if owner == "self"}
            todo += re.findall(r"self\.(\w+)\(", ast.unparse(methods[name]))
    return found


def written(tree: ast.Module, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (class of the object, field) for each write in a module."""
    imported = _imported(tree)
    for node in tree.body:
        own = kinds[node.name] if isinstance(node, ast.ClassDef) else ""
        for owner, name in _writes(node):
            if re.split(r"\W", owner)[0] not in imported:
                yield own if own and owner == "self" else _kind(owner), name


@cache
def _imported(tree: ast.Module) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _kind(owner: str) -> str:
    last = owner.rpartition(".")[2]
    for kind, names in CALLED.items():
        if last in names:
            return kind
    raise UnknownName(owner)


@cache
def _writes(tree: ast.AST) -> list[tuple[str, str]]:
    """[(owner, field)]: `self._session.base += 1` is ("self._session", "base")."""
    found = []
    for node in ast.walk(tree):
        target: ast.AST | None = None
        if isinstance(node, ast.Attribute | ast.Subscript):
            target = None if isinstance(node.ctx, ast.Load) else node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr in _CHANGING else None
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute):
            found.append((ast.unparse(target.value), target.attr))
    return found


# --- The table ---


def _figures(commit: str) -> dict[str, tuple[int, ...]]:
    """{object: (fields, writers of all of them together, fields with several, the most writers)}"""
    return {
        kind: (
            len(one.writers),
            sum(map(len, one.writers.values())),
            sum(len(modules) > 1 for modules in one.writers.values()),
            max(map(len, one.writers.values()), default=0),
        )
        for kind, one in objects(sources(commit)).items()
        if one.writers
    }


def table(*commits: str) -> list[str]:
    """A row an object: the figures of each commit; "": of the files."""
    columns = [_figures(commit) for commit in commits]
    titles = ("fields", "writers", "several", "most")
    wide = 8 * len(titles)
    lines = [" " * 12 + "".join(f"{commit or 'now':>{wide}}" for commit in commits)]
    rows = {"": titles * len(commits)}
    for kind in dict.fromkeys(kind for column in columns for kind in column):
        rows[kind] = tuple(one for column in columns for one in column.get(kind, ("-",) * 4))
    for kind, row in rows.items():
        lines.append(f"{kind:12}" + "".join(f"{one!s:>8}" for one in row))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", nargs="*", help="to compare with")
    parser.add_argument("--shared", action="store_true", help="the fields with several writers")
    args = parser.parse_args()
    if not args.shared:
        print(*table(*args.commit, ""), sep="\n")
        return
    for kind, one in objects(sources(*args.commit[:1])).items():
        for name, modules in sorted(one.writers.items()):
            if modules != {one.owners.get(name)}:
                owner = one.owners.get(name, "-")
                print(f"{kind}.{name}: {owner}; {', '.join(sorted(modules - {owner}))}")


if __name__ == "__main__":
    main()
