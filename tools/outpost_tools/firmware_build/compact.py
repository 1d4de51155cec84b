"""Sources in, the same program with short names out."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from outpost_tools.errors import ToolError
from outpost_tools.firmware_build import constants, merge
from outpost_tools.firmware_build.naming import Naming
from outpost_tools.firmware_build.package import Module, Package
from outpost_tools.firmware_build.public import PublicNames
from outpost_tools.firmware_build.scopes import ImportUse, Use
from outpost_tools.firmware_build.words import STATIC_WORDS, UNUSABLE


@dataclass(frozen=True)
class Entry:
    """One line of names.txt. kind: "file", "global", "attribute", "function"; place: module, or classes of the family."""

    kind: str
    place: str
    short: str
    long: str


@dataclass(frozen=True)
class Compact:
    """sources: by module; titles: what a traceback will call the module's file; unknown: in the public list, but nowhere else."""

    sources: dict[str, str]
    titles: dict[str, str]
    entries: list[Entry]
    unknown: list[str]


def compact(sources: dict[str, str], public: PublicNames, package: str = "outpost") -> Compact:
    """Raises ToolError for a syntax error, and for what the renaming cannot follow."""
    trees = {name: _parsed(name, source) for name, source in sorted(sources.items())}
    unknown = unknown_names(trees, public)
    constants.fold(trees, public, package)
    return rename(merge.merge(trees, public, package), public, package, unknown)


def rename(trees: dict[str, ast.Module], public: PublicNames, package: str, unknown: list[str]) -> Compact:
    """The last step by itself: changes the trees."""
    modules = Package(trees, public, package)
    naming = Naming(modules)
    titles = _titles(modules, naming)
    entries = _legend(modules, naming, titles)  # before the names are replaced
    for module in modules.modules.values():
        _rename(modules, naming, module)
    return Compact({name: _text(tree) for name, tree in trees.items()}, titles, entries, unknown)


def _parsed(name: str, source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise ToolError(f"{name}.py:{error.lineno}: {error.msg}") from None


def unknown_names(trees: dict[str, ast.Module], public: PublicNames) -> list[str]:
    """What the public list has and the firmware has not, as "owner: name"."""
    missing = [f"{owner}: no module {module}" for owner in public.owners if (module := owner.split(".")[0]) not in trees]
    missing += [f"{host} + {part}" for host, parts in public.merged.items() for part in parts if not {host, part} <= trees.keys()]
    made = {module: _names_made(tree) for module, tree in trees.items()}
    everywhere = set().union(*made.values())
    for owner, names in public.owners.items():
        module, _, class_name = owner.partition(".")
        if module not in trees:
            continue
        known = made[module]
        missing += [f"{owner}: no such class"] if class_name and class_name not in known else []
        wanted = [*names, *public.keywords[owner]]
        missing += [f"{owner}: {name}" for name in wanted if name not in (everywhere if class_name else known)]
    return missing


def _names_made(tree: ast.Module) -> set[str]:
    made = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                made.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                made.add(name)
            case ast.alias(name=name, asname=other):
                made.add(other or name)
    return made


# --- Write ---

_TUPLE_TO_TUPLE = re.compile(r"^( *[^=()\n]+,[^=()\n]+ = )\((.*)\)$", re.MULTILINE)


def _text(tree: ast.Module) -> str:
    """The module's source. unparse() writes `a, b = c, d` as `a, b = (c, d)`, for which MicroPython makes a tuple on the heap."""
    return _TUPLE_TO_TUPLE.sub(_bare, ast.unparse(tree)) + "\n"


def _bare(found: re.Match[str]) -> str:
    """The assignment without its brackets, if they are what it seems: one pair around the whole right side."""
    bare = found[1] + found[2]
    try:
        is_same = ast.dump(ast.parse(bare.strip())) == ast.dump(ast.parse(found[0].strip()))
    except SyntaxError:
        is_same = False
    return bare if is_same else found[0]


# --- Replace ---


def _rename(package: Package, naming: Naming, module: Module) -> None:
    attributes = package.object_attributes(module)
    of_modules = [use for use in module.scopes.attributes if package.module_of(module, use.node.value, use.scope) is not None]
    symbols = [(use.node, package.symbol_of(module, use.node, use.scope)) for use in of_modules]
    for attribute in attributes:
        attribute.node.attr = naming.attributes.get(attribute.node.attr, attribute.node.attr)
    for node, symbol in symbols:
        node.attr = naming.globals.get(symbol, node.attr)
    for import_use in module.scopes.imports:
        _rename_import(package, naming, import_use)
    for use in module.scopes.uses:
        use.replace(_word(package, naming, module, use))


def _word(package: Package, naming: Naming, module: Module, use: Use) -> str:
    found = use.scope.find(use.name)
    if found is None:
        return use.name
    if found.kind == "class":
        return naming.attributes.get(use.name, use.name)
    if found.kind == "module":
        return naming.globals.get(package.symbols.find((module.name, use.name)), use.name)
    return naming.locals.get((found.outermost, use.name), use.name)


def _rename_import(package: Package, naming: Naming, use: ImportUse) -> None:
    symbol = package.imported_symbol(use)
    if symbol is None:
        return
    alias, scope = use.alias, use.scope
    bound = alias.asname or alias.name
    alias.name = naming.globals.get(package.symbols.find(symbol), alias.name)
    if scope.outermost:
        bound = naming.locals.get((scope.outermost, bound), bound)
    else:
        here = next(name for name, module in package.modules.items() if module.scopes.module is scope.module)
        bound = naming.globals.get(package.symbols.find((here, bound)), bound)
    alias.asname = None if bound == alias.name else bound


# --- What the words stand for ---


def _titles(package: Package, naming: Naming) -> dict[str, str]:
    """What stands for the file's name in a traceback: a word that the module uses anyway, another for each module."""
    titles: dict[str, str] = {}
    for module in package.modules:
        used = [word for word in naming.words_of(module) if word in STATIC_WORDS]
        free = (word for word in [*used, *STATIC_WORDS] if word not in UNUSABLE and word not in titles.values())
        titles[module] = next(free)
    return titles


def _legend(package: Package, naming: Naming, titles: dict[str, str]) -> list[Entry]:
    entries = [Entry("file", module, title, module + ".py") for module, title in titles.items()]
    symbols = package.global_symbols()
    for symbol, word in sorted(naming.globals.items()):
        entries.append(Entry("global", "+".join(sorted(symbols[symbol])), word, merge.long_name(symbol[1])))
    for name, word in sorted(naming.attributes.items()):
        families = "+".join(sorted(owner[1] for owner in package.owners[name]))
        entries.append(Entry("attribute", families, word, name))
    for module in package.modules.values():
        for scope, node, _ in module.scopes.functions:
            use = Use(node, "name", scope, node.name)
            long = merge.long_name(f"{scope.name}.{node.name}" if scope.kind == "class" else node.name)
            entries.append(Entry("function", module.name, _word(package, naming, module, use), long))
    return entries
