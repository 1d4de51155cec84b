"""The modules of the firmware together: who imports what from whom, which classes are one family, which names must stay.

Names are of three kinds, in namespaces of their own:
  globals     functions, classes and variables of a module, also as `module.name` and in `from module import name`: one name
              in all modules that it goes through;
  attributes  of classes. `x.name` does not tell whose it is, so an attribute is one name everywhere. It belongs to the families
              (classes connected by inheritance) that define it;
  locals      arguments and variables of functions.

What stays: public names; names with two underscores in front; constants (`_X = const(1)` vanishes anyway); attributes that
are used but defined nowhere here (methods of streams, devices, sensors, arrays), or that builtin types have too; names given in
strings to getattr and the like; arguments that are given by keyword anywhere; what comes from other packages.
"""

from __future__ import annotations

import ast
import asyncio
import io
import socket
from array import array
from dataclasses import dataclass, field
from functools import cached_property

from outpost_tools.firmware_build.constants import _constant_name
from outpost_tools.firmware_build.public import PublicNames
from outpost_tools.firmware_build.scopes import AttributeUse, ImportUse, Scope, Scopes, Use

# Objects that the firmware gets from outside: a name of theirs that the firmware also gives to something of its own must stay.
_FILES = (io.FileIO, io.TextIOWrapper, socket.socket)
_ASYNCIO = (asyncio.Event, asyncio.Lock, asyncio.Task, asyncio.StreamReader, asyncio.StreamWriter)
_BUILTIN_TYPES = (bytes, bytearray, str, list, dict, set, tuple, int, memoryview, array, *_FILES, *_ASYNCIO)
_PROTOCOLS = {"ioctl", "readblocks", "writeblocks", "erase"}
FOREIGN_ATTRIBUTES = frozenset(_PROTOCOLS.union(*map(dir, _BUILTIN_TYPES)))

Symbol = tuple[str, str]  # (module, global name)


class Groups:
    """Union of sets, by pointers to a representative: the one that was there first."""

    def __init__(self) -> None:
        self._parent: dict = {}

    def find(self, item):
        while item in self._parent:
            item = self._parent[item]
        return item

    def join(self, first, second) -> None:
        first, second = self.find(first), self.find(second)
        if first != second:
            self._parent[second] = first


@dataclass(eq=False)
class Module:
    name: str
    tree: ast.Module
    scopes: Scopes
    modules: dict[tuple[Scope, str], str] = field(default_factory=dict)  # names that stand for a module here; "" the package
    foreign: set[tuple[Scope, str]] = field(default_factory=set)  # names that come from other packages

    @cached_property
    def marked(self) -> dict[tuple[Scope | None, str], str]:
        """{(function, argument): class} of the arguments that say `argument: "Class"`."""
        return {
            (scope, arg.arg): arg.annotation.value
            for _, node, scope in self.scopes.functions
            for arg in node.args.args
            if isinstance(arg.annotation, ast.Constant) and isinstance(arg.annotation.value, str)
        }


class Package:
    """All of it, ready for `naming.py`. Raises ToolError for what cannot be followed."""

    def __init__(self, trees: dict[str, ast.Module], public: PublicNames, package: str) -> None:
        self.package = package
        self.public = public
        self.modules = {name: Module(name, tree, Scopes(tree, f"{name}.py")) for name, tree in trees.items()}
        self.symbols = Groups()
        self.families = Groups()
        self.classes: set[Symbol] = set()
        self.owners: dict[str, set[Symbol]] = {}  # attribute -> families
        self._subclassed_foreign: set[Symbol] = set()
        for module in self.modules.values():
            for use in module.scopes.imports:
                self._import(module, use)
        self._find_families()
        self._find_owners()
        self.kept_attributes = self._kept_attributes()
        self.kept_keywords = public.all_keywords.union(*(m.scopes.keywords for m in self.modules.values()))

    # --- Imports ---

    def _import(self, module: Module, use: ImportUse) -> None:
        alias, source = use.alias, getattr(use.node, "module", None)
        bound = (use.scope, alias.asname or alias.name.split(".")[0])
        if isinstance(use.node, ast.Import):
            if alias.name == self.package or (alias.name.startswith(self.package + ".") and not alias.asname):
                module.modules[bound] = ""
            elif alias.name.startswith(self.package + "."):
                module.modules[bound] = alias.name.removeprefix(self.package + ".")
            else:
                module.foreign.add(bound)
        elif source == self.package and alias.name in self.modules:
            module.modules[bound] = alias.name
        elif self.imported_symbol(use) is None:
            module.foreign.add(bound)
        elif use.scope.kind == "module":
            self.symbols.join(self.imported_symbol(use), (module.name, bound[1]))

    def imported_symbol(self, use: ImportUse) -> Symbol | None:
        """(module, name) where the import takes a name out of a module of the package."""
        source = getattr(use.node, "module", None) or ""
        module = "__init__" if source == self.package else source.removeprefix(self.package + ".")
        ours = module in self.modules and (source == self.package or source.startswith(self.package + "."))
        return (module, use.alias.name) if ours and (source != self.package or use.alias.name not in self.modules) else None

    def module_of(self, module: Module, node: ast.expr, scope: Scope) -> str | None:
        """The module of the package that an expression stands for; "" the package itself; None for anything else."""
        if isinstance(node, ast.Name):
            return module.modules.get((scope.find(node.id), node.id))
        if isinstance(node, ast.Attribute) and self.module_of(module, node.value, scope) == "":
            return node.attr if node.attr in self.modules else None
        return None

    def is_foreign(self, module: Module, node: ast.expr, scope: Scope) -> bool:
        """True for a module of another package, and what is taken out of it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and (scope.find(node.id), node.id) in module.foreign

    def symbol_of(self, module: Module, node: ast.expr, scope: Scope) -> Symbol | None:
        """The global that an expression (name, or module.name) names; None for anything else."""
        if isinstance(node, ast.Name):
            found = scope.find(node.id)
            return self.symbols.find((module.name, node.id)) if found and found.kind == "module" else None
        if isinstance(node, ast.Attribute):
            source = self.module_of(module, node.value, scope)
            return self.symbols.find((source or "__init__", node.attr)) if source is not None else None
        return None

    # --- Classes ---

    def _find_families(self) -> None:
        for module in self.modules.values():
            self.classes |= {self.symbols.find((module.name, use.node.name)) for use in module.scopes.classes}
        for module in self.modules.values():
            for use in module.scopes.classes:
                me = self.symbols.find((module.name, use.node.name))
                for base in use.node.bases:
                    symbol = self.symbol_of(module, base, use.scope)
                    if symbol in self.classes:
                        self.families.join(symbol, me)
                    elif not (isinstance(base, ast.Name) and base.id == "object"):
                        self._subclassed_foreign.add(me)

    def family(self, module: Module, class_name: str) -> Symbol:
        return self.families.find(self.symbols.find((module.name, class_name)))

    def _find_owners(self) -> None:
        for module in self.modules.values():
            for use in module.scopes.classes:
                for name in use.body.bound:
                    self.owners.setdefault(name, set()).add(self.family(module, use.node.name))
            for use in module.scopes.attributes:
                owner = self._owner_of_store(module, use)
                if owner:
                    self.owners.setdefault(use.node.attr, set()).add(owner)

    def _owner_of_store(self, module: Module, use: AttributeUse) -> Symbol | None:
        """The family where this is `self.name = ...` in a method, or in a function that says `argument: "Class"`."""
        target = use.node.value
        if isinstance(use.node.ctx, ast.Load) or not isinstance(target, ast.Name):
            return None
        method = use.scope.find(target.id)
        marked = module.marked.get((method, target.id))
        if marked:
            return next((self.families.find(me) for me in self.classes if me[1] == marked), None)
        if not method or method.kind != "function" or not method.parent or method.parent.kind != "class":
            return None
        return self.family(module, method.parent.name) if method.arguments[:1] == [target.id] else None

    def object_attributes(self, module: Module) -> list[AttributeUse]:
        """Those that are not taken out of a module."""
        return [
            use
            for use in module.scopes.attributes
            if self.module_of(module, use.node.value, use.scope) is None and not self._is_of_foreign_module(module, use)
        ]

    def _is_of_foreign_module(self, module: Module, use: AttributeUse) -> bool:
        return self.is_foreign(module, use.node.value, use.scope)

    def _kept_attributes(self) -> set[str]:
        foreign = {self.families.find(me) for me in self._subclassed_foreign}
        used = {use.node.attr for module in self.modules.values() for use in self.object_attributes(module)}
        kept = {name for name, owners in self.owners.items() if owners & foreign}
        kept |= {name for name in used | set(self.owners) if name.startswith("__") or name in FOREIGN_ATTRIBUTES}
        kept |= self.public.attributes | self.names_in_strings | (used - set(self.owners))
        return kept

    @property
    def names_in_strings(self) -> set[str]:
        return set().union(*(module.scopes.by_string for module in self.modules.values()))

    # --- Globals ---

    def global_symbols(self) -> dict[Symbol, set[str]]:
        """Of every global, the modules in whose namespace it stands."""
        found: dict[Symbol, set[str]] = {}
        for module in self.modules.values():
            for name in module.scopes.module.bound:
                found.setdefault(self.symbols.find((module.name, name)), set()).add(module.name)
        return found

    def kept_globals(self) -> set[Symbol]:
        """As (module, name), each after `symbols.find`."""
        kept = {self.symbols.find((module, name)) for module in self.modules for name in self.public.of_module(module)}
        for module in self.modules.values():
            top = module.scopes.module
            constants = {_constant_name(node) for node in module.tree.body}
            for name in top.bound:
                outside = (top, name) in module.foreign or (top, name) in module.modules
                special = name.startswith("__") or name in constants or name in self.modules
                if outside or special or name in self.kept_attributes or name in self.names_in_strings:
                    kept.add(self.symbols.find((module.name, name)))
        return kept

    def uses(self) -> list[tuple[Module, Use]]:
        return [(module, use) for module in self.modules.values() for use in module.scopes.uses]
