"""Which name stands where, and whose it is: Python's rules of scope, on the syntax tree of one module.

A Use is a place in the tree where a name stands and can be replaced. Attributes (x.name) are kept apart: whose they are is
not a question of scope. What a program does with names at run time (eval, computed getattr) cannot be followed: ToolError.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from outpost_tools.errors import ToolError

_BY_STRING = {"getattr", "setattr", "hasattr", "delattr"}
_NOT_FOLLOWED = {"eval", "exec", "globals", "locals", "vars"}


@dataclass(eq=False)
class Scope:
    """kind: "module", "class" or "function" (lambdas and comprehensions too). bound: the names that are made here."""

    kind: str
    parent: Scope | None
    name: str = ""
    bound: set[str] = field(default_factory=set)
    arguments: list[str] = field(default_factory=list)
    rest: str = ""  # the name of its **argument
    module_names: set[str] = field(default_factory=set)  # declared `global`
    is_comprehension: bool = False

    @property
    def module(self) -> Scope:
        return self if self.parent is None else self.parent.module

    @property
    def outermost(self) -> Scope | None:
        """The outermost function around, or this one; None outside of functions."""
        outer = self.parent.outermost if self.parent else None
        return outer or (self if self.kind == "function" else None)

    def find(self, name: str) -> Scope | None:
        """The scope that the name belongs to, used here; None for a builtin. A class's names are seen in its own body only."""
        if name in self.module_names:
            return self.module
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bound and (scope.kind != "class" or scope is self):
                return scope
            scope = scope.parent
        return None


@dataclass(eq=False)
class Use:
    """The name in `field` of `node` (its `index`-th where that is a list), as seen from `scope`."""

    node: ast.AST
    field: str
    scope: Scope
    name: str
    index: int = -1

    def replace(self, word: str) -> None:
        if self.index < 0:
            setattr(self.node, self.field, word)
        else:
            getattr(self.node, self.field)[self.index] = word


@dataclass(eq=False)
class AttributeUse:
    node: ast.Attribute
    scope: Scope


@dataclass(eq=False)
class ImportUse:
    node: ast.Import | ast.ImportFrom
    alias: ast.alias
    scope: Scope


@dataclass(eq=False)
class ClassUse:
    node: ast.ClassDef
    scope: Scope  # where it stands
    body: Scope


class Scopes(ast.NodeVisitor):
    """uses, attributes, imports, classes, and the names that are given as keyword or as string (`by_string`), of one module."""

    def __init__(self, tree: ast.Module, title: str) -> None:
        self.title = title
        self.module = self._scope = Scope("module", None)
        self.uses: list[Use] = []
        self.attributes: list[AttributeUse] = []
        self.imports: list[ImportUse] = []
        self.classes: list[ClassUse] = []
        self.functions: list[tuple[Scope, ast.FunctionDef | ast.AsyncFunctionDef, Scope]] = []
        self.keywords: set[str] = set()
        self.by_string: set[str] = set()
        self.visit(tree)

    def _use(self, node: ast.AST, where: str, name: str, binds: bool, index: int = -1) -> None:
        if binds and name not in self._scope.module_names:
            self._scope.bound.add(name)
        self.uses.append(Use(node, where, self._scope, name, index))

    def _inside(self, scope: Scope, nodes: list[ast.AST]) -> None:
        outer, self._scope = self._scope, scope
        for node in nodes:
            self.visit(node)
        self._scope = outer

    def _refuse(self, node: ast.AST, what: str) -> None:
        raise ToolError(f"{self.title}:{getattr(node, 'lineno', 0)}: {what}; write it otherwise, or build with --plain")

    # --- Functions and classes ---

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._use(node, "name", node.name, binds=True)
        outside = [*node.decorator_list, *([node.returns] if node.returns else [])]
        self.functions.append((self._scope, node, self._function(node, node.args, outside, list(node.body), node.name)))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, node.args, [], [node.body], "<lambda>")

    def _function(self, node: ast.AST, args: ast.arguments, outside: list, body: list, name: str) -> Scope:
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
        outside += [*args.defaults, *filter(None, args.kw_defaults), *(arg.annotation for arg in every if arg.annotation)]
        for part in outside:
            self.visit(part)
        scope = Scope("function", self._scope, name, arguments=[arg.arg for arg in every])
        scope.rest = args.kwarg.arg if args.kwarg else ""
        outer, self._scope = self._scope, scope
        for arg in every:
            self._use(arg, "arg", arg.arg, binds=True)
        self._scope = outer
        self._inside(scope, body)
        return scope

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if self._scope.outermost:
            self._refuse(node, "a class inside a function is more than the compact build follows")
        self._use(node, "name", node.name, binds=True)
        for part in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(part)
        scope = Scope("class", self._scope, node.name)
        self.classes.append(ClassUse(node, self._scope, scope))
        self._inside(scope, list(node.body))

    def _comprehension(self, node: ast.AST) -> None:
        first = node.generators[0]
        self.visit(first.iter)
        scope = Scope("function", self._scope, "<comprehension>", is_comprehension=True)
        inner = [first.target, *first.ifs, *node.generators[1:]]
        inner += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._inside(scope, inner)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    # --- Names ---

    def visit_Name(self, node: ast.Name) -> None:
        self._use(node, "id", node.id, binds=not isinstance(node.ctx, ast.Load))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self._scope
        while scope.is_comprehension and scope.parent:
            scope = scope.parent
        self._inside(scope, [node.target])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._use(node, "name", node.name, binds=True)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        for index, name in enumerate(node.names):
            self._scope.module_names.add(name)
            self._scope.module.bound.add(name)
            self._use(node, "names", name, binds=False, index=index)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._refuse(node, "`nonlocal` is more than the compact build follows")

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._refuse(node, "`import *` hides which names come in")
            self._scope.bound.add(alias.asname or alias.name.split(".")[0])
            self.imports.append(ImportUse(node, alias, self._scope))

    visit_Import = visit_ImportFrom = _import  # noqa: N815

    # --- Attributes, keywords, names in strings ---

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes.append(AttributeUse(node, self._scope))
        self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None:
            self.keywords.add(node.arg)
        elif not isinstance(node.value, ast.Name) or self._scope.rest != node.value.id:
            # Its own **rest handed on is no riddle: the names stand in the calls that the rest came from.
            self._refuse(node.value, "`**` in a call hides the names of arguments")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called in _NOT_FOLLOWED:
            self._refuse(node, f"{called}() uses names that the compact build cannot follow")
        if called in _BY_STRING:
            name = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else None
            if not isinstance(name, str):
                self._refuse(node, f"{called}() with a computed name cannot be followed")
            self.by_string.add(name)
        self.generic_visit(node)
