"""Puts several modules into one file: each module costs a board some 150 bytes, its tables of names and what it imports again.

Which ones, firmware/public_names.txt says (`client + packets reader session`): modules without a public name, that a program
needs with the first one in any case. Their global names become unique (`session__elapsed_ms`), their statements come first, each
module's behind those that it imports, and whoever imported from them imports from the first.
"""

from __future__ import annotations

import ast
from collections import Counter

from outpost_tools.errors import ToolError
from outpost_tools.firmware_build.public import PublicNames
from outpost_tools.firmware_build.scopes import Scope, Scopes

Trees = dict[str, ast.Module]


def merge(trees: Trees, public: PublicNames, package: str) -> Trees:
    """The trees that are left, changed. Raises ToolError."""
    hosts = {part: host for host, parts in public.merged.items() for part in parts if part in trees and host in trees}
    for part in hosts:
        if public.of_module(part):
            raise ToolError(f"{part} has public names ({', '.join(sorted(public.of_module(part)))}): it needs a file of its own")
    if not hosts:
        return trees
    order = _in_order(trees, package)
    mergers = {module: _Merger(module, tree, hosts, package) for module, tree in trees.items()}
    for merger in mergers.values():
        merger.run(mergers)
    left = {module: tree for module, tree in trees.items() if module not in hosts}
    for host in sorted(set(hosts.values())):
        parts = [part for part in order if hosts.get(part) == host]
        body = [statement for module in (*parts, host) for statement in trees[module].body]
        left[host] = ast.Module(_without_repeats(body), [])
    for host in left:
        _flatten(left[host], left)
    return left


def _flatten(tree: ast.Module, trees: Trees) -> None:
    """A class that has one subclass, in the same file, and no other use goes into it: a class costs a board some 120 bytes."""
    named = Counter(_last_word(node) for each in trees.values() for node in ast.walk(each))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for derived in list(classes.values()):
        base = classes.get(_last_word(derived.bases[0])) if len(derived.bases) == 1 else None
        if base and named[base.name] == 1 and not _names_of(base) & _names_of(derived):
            derived.body = [*base.body[bool(ast.get_docstring(base)) :], *derived.body]
            derived.bases = base.bases
            tree.body.remove(base)


def _names_of(node: ast.ClassDef) -> set[str]:
    assigned = [target for part in node.body if isinstance(part, ast.Assign) for target in part.targets]
    return {target.id for target in assigned if isinstance(target, ast.Name)} | {
        part.name for part in node.body if isinstance(part, ast.FunctionDef)
    }


def _last_word(node: ast.AST) -> str | None:
    """What a node names: variable, attribute, or what is imported."""
    return getattr(node, "id", None) or getattr(node, "attr", None) or (node.name if isinstance(node, ast.alias) else None)


def long_name(name: str) -> str:
    """As the source has it: session.elapsed_ms for session__elapsed_ms."""
    return name.replace("__", ".", 1) if not name.startswith("_") else name


def _unique(module: str, name: str) -> str:
    """A private constant must keep its underscore, or it would not vanish."""
    return f"_{module}{name}" if name.startswith("_") else f"{module}__{name}"


def imports_of(tree: ast.Module, package: str) -> set[str]:
    """Modules of the package that one imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package + "."):
            found.add(node.module.removeprefix(package + "."))
    return found


def _in_order(trees: Trees, package: str) -> list[str]:
    """Each module behind those that it imports."""
    order: list[str] = []

    def take(module: str, path: tuple[str, ...] = ()) -> None:
        if module in path:
            raise ToolError(f"modules import each other in a ring: {' '.join((*path, module))}")
        if module in order:
            return
        for other in sorted(imports_of(trees[module], package) & trees.keys() - {module}):
            take(other, (*path, module))
        order.append(module)

    for module in sorted(trees):
        take(module)
    return order


def _without_repeats(body: list[ast.stmt]) -> list[ast.stmt]:
    """What is imported at the top, once."""
    seen: set[tuple[str, str, str | None]] = set()
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            source = getattr(node, "module", None) or ""
            node.names = [alias for alias in node.names if (source, alias.name, alias.asname) not in seen]
            seen |= {(source, alias.name, alias.asname) for alias in node.names}
    return [node for node in body if not isinstance(node, (ast.Import, ast.ImportFrom)) or node.names]


class _Merger:
    """One module: its own names made unique if it goes into another, its imports of such modules led there."""

    def __init__(self, module: str, tree: ast.Module, hosts: dict[str, str], package: str) -> None:
        self._module = module
        self._tree = tree
        self._hosts = hosts
        self._package = package
        self._scopes = Scopes(tree, f"{module}.py")
        self._top = self._scopes.module
        self.file = hosts.get(module, module)
        self._is_shared = self.file in hosts.values()
        self._modules: dict[tuple[Scope | None, str], str] = {}  # names that stand for a module of a shared file
        self._sources: dict[str, list[tuple[str, str]]] = {}  # of global names: the module and name that they are imported from
        for use in self._scopes.imports:
            if use.scope is self._top:
                name = use.alias.asname or use.alias.name.split(".")[0]
                self._sources.setdefault(name, []).append((self._source(use.node), use.alias.name))

    def _source(self, node: ast.Import | ast.ImportFrom) -> str:
        """The module of the package that is imported from; "" for the package itself, and "-" for anything outside."""
        name = getattr(node, "was", None) or getattr(node, "module", None) or "-"
        inside = name == self._package or name.startswith(self._package + ".")
        return name.removeprefix(self._package).removeprefix(".") if inside else "-"

    def name(self, name: str, mergers: dict[str, _Merger]) -> str:
        """What the module's global is called after merging."""
        sources = self._sources.get(name, [])
        if not self._is_shared or name.startswith("__") or any(source in ("-", "") for source, _ in sources):
            return name
        if len(sources) == 1:
            source, original = sources[0]
            if mergers[source].file == self.file:
                return mergers[source].name(original, mergers)
            return _unique(source, original)  # so that the file imports it once
        return _unique(self._module, name) if self._module in self._hosts else name

    def run(self, mergers: dict[str, _Merger]) -> None:
        for use in self._scopes.imports:
            if isinstance(use.node, ast.ImportFrom):
                self._lead(use.node, use.alias, use.scope, mergers)
        self._replace_attributes(mergers)
        for use in self._scopes.uses:
            if use.scope.find(use.name) is self._top:
                use.replace(self.name(use.name, mergers))
        _Cleaner().visit(self._tree)

    def _lead(self, node: ast.ImportFrom, alias: ast.alias, scope: Scope, mergers: dict[str, _Merger]) -> None:
        bound, source = alias.asname or alias.name, self._source(node)
        if source == "" and alias.name in mergers:
            if mergers[alias.name]._is_shared:
                self._modules[scope, bound] = alias.name
                self._drop_or_rename(node, alias, scope, mergers[alias.name].file, bound)
        elif source in mergers:
            here = self.name(bound, mergers) if scope is self._top else bound
            there = mergers[source].name(alias.name, mergers)
            if mergers[source].file == self.file:
                self._drop_or_rename(node, alias, scope, self.file, bound)
            else:
                alias.name, alias.asname = there, here if here != there else None
                node.was = getattr(node, "was", node.module)  # type: ignore[attr-defined] - for its further names
                node.module = f"{self._package}.{mergers[source].file}"

    def _drop_or_rename(self, node: ast.ImportFrom, alias: ast.alias, scope: Scope, file: str, bound: str) -> None:
        """Nothing is imported from one's own file."""
        if file != self.file:
            alias.name, alias.asname = file, bound
        elif scope is not self._top:
            raise ToolError(f"{self._module}.py:{node.lineno}: import it at the top, because it comes into the same file")
        else:
            node.names.remove(alias)

    def _replace_attributes(self, mergers: dict[str, _Merger]) -> None:
        """`packets.connect` becomes `packets__connect`, of this file or of the host's."""
        for use in self._scopes.attributes:
            value = use.node.value
            if not isinstance(value, ast.Name):
                continue
            module = self._modules.get((use.scope.find(value.id), value.id))
            if module is not None:
                use.node.attr = mergers[module].name(use.node.attr, mergers)
                if mergers[module].file == self.file:
                    use.node.is_name = True  # type: ignore[attr-defined] - for the cleaner


class _Cleaner(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if getattr(node, "is_name", False):
            return ast.copy_location(ast.Name(node.attr, node.ctx), node)
        self.generic_visit(node)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        return node if node.names else ast.copy_location(ast.Pass(), node)
