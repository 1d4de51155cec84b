"""Chooses the words: two names get one word wherever nobody could confuse them, so that few words serve for many names.

Greedy, the most used name first. Of the words that are possible the one is taken that most modules of the name use already
(each different word costs a module two bytes of RAM and one of its file), then the cheapest.

Possible is a word for
  a global      unless a module that has the name uses the word as a builtin, for another global, or as a kept local name of a
                function that uses the global;
  an attribute  unless it is kept as an attribute anywhere, or given to another attribute of one of its families, or a class body
                uses it as a builtin or global;
  a local       unless the same function uses it for anything else but attributes.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from outpost_tools.firmware_build.package import Module, Package, Symbol
from outpost_tools.firmware_build.scopes import ImportUse, Scope, Use
from outpost_tools.firmware_build.words import ROM_WORDS, STATIC_WORDS, UNUSABLE, words

Local = tuple[Scope, str]  # outermost function, name


class Naming:
    """globals, attributes, locals: the word for each that is renamed."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self.globals: dict[Symbol, str] = {}
        self.attributes: dict[str, str] = {}
        self.locals: dict[Local, str] = {}
        self._words = _Words()
        self._used: dict[str, set[str]] = defaultdict(set)  # word -> modules that use it
        self._kept_globals = package.kept_globals()
        self._globals_of: dict[Scope, set[Symbol]] = defaultdict(set)  # outermost function -> globals that it uses
        self._builtins_of: dict[Scope, set[str]] = defaultdict(set)
        self._locals_of: dict[Scope, Counter[str]] = defaultdict(Counter)
        self._module_of: dict[Scope, Module] = {}
        self._from_outside: set[Local] = set()  # modules, and what comes from other packages
        self._module_builtins: dict[str, set[str]] = defaultdict(set)
        self._class_loads: set[tuple[str, Symbol | None]] = set()  # (name, global or None for a builtin) used in class bodies
        self._global_uses: Counter[Symbol] = Counter()
        self._look()
        self._name_globals()
        self._name_attributes()
        self._name_locals()

    def words_of(self, module: str) -> list[str]:
        """The words that the module uses, in a fixed order."""
        return sorted(word for word, modules in self._used.items() if module in modules)

    # --- What stands where ---

    def _look(self) -> None:
        for module, use in self._package.uses():
            found, function = use.scope.find(use.name), use.scope.outermost
            if function:
                self._module_of[function] = module
            if found is None:
                self._see_builtin(module, use, function)
            elif found.kind == "module":
                self._see_global(module, use, function)
            elif found.kind == "function":
                self._locals_of[found.outermost][use.name] += 1
        for module in self._package.modules.values():
            for import_use in module.scopes.imports:
                self._see_import(module, import_use)

    def _see_import(self, module: Module, use: ImportUse) -> None:
        """One inside a function makes a local name."""
        function, name = use.scope.outermost, use.alias.asname or use.alias.name.split(".")[0]
        if function:
            self._locals_of[function][name] += 1
            self._module_of[function] = module
            if self._package.imported_symbol(use) is None:
                self._from_outside.add((function, name))

    def _see_builtin(self, module: Module, use: Use, function: Scope | None) -> None:
        self._module_builtins[module.name].add(use.name)
        self._used[use.name].add(module.name)
        if function:
            self._builtins_of[function].add(use.name)
        if use.scope.kind == "class":
            self._class_loads.add((use.name, None))

    def _see_global(self, module: Module, use: Use, function: Scope | None) -> None:
        symbol = self._package.symbols.find((module.name, use.name))
        self._global_uses[symbol] += 1
        if function:
            self._globals_of[function].add(symbol)
        if use.scope.kind == "class":
            self._class_loads.add((use.name, symbol))

    def _global_word(self, symbol: Symbol) -> str:
        return self.globals.get(symbol, symbol[1])

    def _choose(self, modules: set[str], refused: set[str]) -> str:
        word = min(self._words.possible(refused), key=lambda w: (self._words.tier(w), -len(self._used[w] & modules)))
        self._used[word] |= modules
        return word

    # --- Globals ---

    def _name_globals(self) -> None:
        symbols = self._package.global_symbols()
        taken: dict[str, set[str]] = defaultdict(set)
        for module in self._package.modules.values():
            taken[module.name] |= self._module_builtins[module.name]
            for name in module.scopes.module.bound:
                if self._package.symbols.find((module.name, name)) in self._kept_globals:
                    taken[module.name].add(name)
                    self._used[name].add(module.name)
        names_beside = self._kept_locals_beside()
        free = [symbol for symbol in symbols if symbol not in self._kept_globals]
        for symbol in sorted(free, key=lambda s: (-self._global_uses[s], s)):
            modules = symbols[symbol]
            word = self._choose(modules, set().union(names_beside[symbol], *(taken[module] for module in modules)))
            self.globals[symbol] = word
            for module in modules:
                taken[module].add(word)

    def _kept_locals_beside(self) -> dict[Symbol, set[str]]:
        beside: dict[Symbol, set[str]] = defaultdict(set)
        for function, symbols in self._globals_of.items():
            kept = {name for name in self._locals_of[function] if self._is_kept_local(function, name)}
            for symbol in symbols:
                beside[symbol] |= kept
        return beside

    # --- Attributes ---

    def _name_attributes(self) -> None:
        package = self._package
        modules: dict[str, set[str]] = defaultdict(set)
        count: Counter[str] = Counter()
        for module in package.modules.values():
            for attribute in package.object_attributes(module):
                modules[attribute.node.attr].add(module.name)
                count[attribute.node.attr] += 1
        refused = {name for name in package.kept_attributes if name in modules or name in package.owners}
        refused |= {name if symbol is None else self._global_word(symbol) for name, symbol in self._class_loads}
        for name in refused:
            self._used[name] |= modules[name]
        for name, owners in package.owners.items():
            modules[name] |= {owner[0] for owner in owners}
        taken: dict[Symbol, set[str]] = defaultdict(set)
        free = [name for name in package.owners if name not in package.kept_attributes]
        for name in sorted(free, key=lambda n: (-count[n], n)):
            owners = package.owners[name]
            word = self._choose(modules[name], refused.union(*(taken[owner] for owner in owners)))
            self.attributes[name] = word
            for owner in owners:
                taken[owner].add(word)

    # --- Locals ---

    def _is_kept_local(self, function: Scope, name: str) -> bool:
        if name == "self" or name.startswith("__"):
            return True
        return name in self._package.kept_keywords or (function, name) in self._from_outside

    def _name_locals(self) -> None:
        for function, names in self._locals_of.items():
            module = self._module_of[function]
            refused = {self._global_word(symbol) for symbol in self._globals_of[function]} | self._builtins_of[function]
            refused |= {name for name in names if self._is_kept_local(function, name)}
            for name in self._in_order(function, names):
                if name not in refused:
                    word = self._choose({module.name}, refused)
                    self.locals[function, name] = word
                    refused.add(word)

    @staticmethod
    def _in_order(function: Scope, names: Iterable[str]) -> list[str]:
        """Arguments first, which cost; the others do not."""
        return [*function.arguments, *sorted(name for name in names if name not in function.arguments)]


class _Words:
    """The words in order of cost, made as far as they are asked for: all that are in ROM, then some more at a time."""

    _AT_A_TIME = 64

    def __init__(self) -> None:
        self._source: Iterator[str] = words()
        self._tiers = dict.fromkeys(STATIC_WORDS, 0) | dict.fromkeys(ROM_WORDS, 1)
        self._known = list(itertools.islice(self._source, len(self._tiers.keys() - UNUSABLE)))

    def possible(self, refused: set[str]) -> list[str]:
        """Some words that are not refused, at least one, the cheapest first."""
        while not (found := [word for word in self._known if word not in refused]):
            self._known += itertools.islice(self._source, self._AT_A_TIME)
        return found

    def tier(self, word: str) -> int:
        return self._tiers.get(word, 1 + len(word))
