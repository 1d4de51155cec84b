"""Numbers that one module takes from another become literals: an imported constant costs a name and a place in two modules.

`NAME = const(number)` at the top of a module, without an underscore, is what other modules may import; MicroPython folds it
inside its own module only. Here every use becomes the number, and what is not public is not defined any more. Then nothing asks
for `const` at run time, so its import goes as well (the compiler knows the word without it).
"""

from __future__ import annotations

import ast
from collections import Counter

from outpost_tools.firmware_build.public import PublicNames

Constants = dict[str, dict[str, int]]  # by module, by name


def fold(trees: dict[str, ast.Module], public: PublicNames, package: str) -> None:
    """Changes the trees (by module name)."""
    known = {module: _constants(tree) for module, tree in trees.items()}
    needed = {(module, name) for module in trees for name in public.of_module(module)}
    for module, tree in trees.items():
        needed |= _Folder(module, package, known).fold(tree)
    for module, tree in trees.items():
        gone = {name for name in known[module] if (module, name) not in needed}
        tree.body = [node for node in tree.body if _constant_name(node) not in gone]
        _drop_const_import(tree)


def _constant_name(node: ast.stmt) -> str | None:
    """The name that a statement `NAME = const(...)` defines."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="const"), args=[_])):
            return name
    return None


def _constants(tree: ast.Module) -> dict[str, int]:
    """What can be imported from a module: its constants of one literal integer."""
    found = {}
    for node in tree.body:
        name = _constant_name(node)
        if name and not name.startswith("_"):
            try:
                value = ast.literal_eval(node.value.args[0])
            except ValueError:
                continue
            if type(value) is int:
                found[name] = value
    return found


def _literal(value: int, like: ast.AST) -> ast.expr:
    node: ast.expr = ast.Constant(abs(value))
    if value < 0:
        node = ast.UnaryOp(ast.USub(), node)
    return ast.fix_missing_locations(ast.copy_location(node, like))


class _Folder(ast.NodeTransformer):
    """One module. `_here`: the constants of other modules, and its own, by the name that they have in it."""

    def __init__(self, module: str, package: str, known: Constants) -> None:
        self._module = module
        self._package = package
        self._known = known
        self._here = dict(known[module])
        self._modules: dict[str, str] = {}
        self._needed: set[tuple[str, str]] = set()

    def fold(self, tree: ast.Module) -> set[tuple[str, str]]:
        """The constants (module, name) that must stay, because a name that is made here in another way too is left alone."""
        made = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
        made.update(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                self._note(node)
        own = self._known[self._module]
        shadowed = {name for name in self._here if made[name] > (name in own)}
        self._needed |= {(self._module, name) for name in shadowed if name in own}
        self._here = {name: value for name, value in self._here.items() if name not in shadowed}
        self.visit(tree)
        return self._needed

    def _source(self, node: ast.ImportFrom) -> str:
        return (node.module or "").removeprefix(self._package + ".")

    def _note(self, node: ast.ImportFrom) -> None:
        if node.module == self._package:
            self._modules |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in self._known}
        source = self._known.get(self._source(node), {})
        self._here |= {alias.asname or alias.name: source[alias.name] for alias in node.names if alias.name in source}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        module = self._source(node)
        source = self._known.get(module, {})
        node.names = [alias for alias in node.names if alias.name not in source or (alias.asname or alias.name) not in self._here]
        self._needed |= {(module, alias.name) for alias in node.names if alias.name in source}
        return node if node.names else ast.copy_location(ast.Pass(), node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._here:
            return _literal(self._here[node.id], node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        module = self._modules.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if module and node.attr in self._known[module]:
            return _literal(self._known[module][node.attr], node)
        self.generic_visit(node)
        return node


def _drop_const_import(tree: ast.Module) -> None:
    folded = {id(node.value.func) for node in tree.body if _constant_name(node)}
    used = {id(node) for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "const"}
    if used - folded:
        return
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "micropython":
            node.names = [alias for alias in node.names if alias.name != "const"]
    tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom) or node.names]
