"""Single-token changes of a module: a comparison, an operator, a constant, a truth value, a `not`,
the sign of a constant, or a call without a used result, which is removed. Only inside functions:
code outside of them runs at import, and a wrong import does not start.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """place: "module.function". change: the code, and what replaces it. nth: which of several equal
    ones in one function. Together they name a mutant until its line changes.

    at: the node, and which of its changes; None: the original.
    """

    module: str
    source: str
    place: str = ""
    line: int = 0
    change: str = ""
    nth: int = 0
    at: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return f"{self.place}: {self.change}" + (f" ({self.nth + 1})" if self.nth else "")

    def tree(self) -> ast.Module:
        """Returns a new tree at each call."""
        tree = ast.parse(self.source)
        if self.at:
            node, which = self.at
            list(_changes(_nodes(tree)[node][1]))[which][1]()
        return ast.fix_missing_locations(tree)

    def difference(self) -> list[str]:
        """Returns the changed lines: "-def f(): …" and "+def f(): …"."""
        texts = [ast.unparse(tree).splitlines() for tree in (ast.parse(self.source), self.tree())]
        lines = difflib.unified_diff(*texts, n=0, lineterm="")
        return [line for line in lines if line[0] in "-+" and line[:3] not in ("---", "+++")]


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Yields every mutant of a module, in the order of its lines."""
    seen: dict[tuple[str, str], int] = {}
    for at, (function, node) in enumerate(_nodes(ast.parse(source))):
        for which, (text, _) in enumerate(_changes(node)):
            place, change = f"{module}.{function}", f"{_shown(node)}  ->  {text}"
            nth = seen[place, change] = seen.get((place, change), -1) + 1
            yield Mutant(module, source, place, node.lineno, change, nth, (at, which))


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _nodes(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    """Returns (function, node) for the code in functions, each once; without docstrings."""
    found: list[tuple[str, ast.AST]] = []
    for statement in tree.body:
        inside = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        for function in inside:
            if isinstance(function, ast.FunctionDef):
                signed = {id(node.operand) for node in ast.walk(function) if _is_signed(node)}
                nodes = [node for node in ast.walk(function) if id(node) not in signed]
                found += [(function.name, node) for node in nodes]
    return sorted(found, key=lambda one: getattr(one[1], "lineno", 0))


def _is_signed(node: ast.AST) -> bool:
    """-1, for instance. Most stand for "none", as -2 would, so only their sign can be wrong."""
    return (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
    )


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yields (the replacement, a function that makes the change) for each change."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            other = _COMPARE[type(op)]
            yield other.__name__, _put(node.ops, i, other())
    elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in _OPERATE:
        other = _OPERATE[type(node.op)]
        yield other.__name__, _set(node, "op", other())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "without not", _set(node, "op", ast.UAdd())
    elif _is_signed(node):
        yield "without sign", _set(node, "op", ast.UAdd())
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        value = not node.value if type(node.value) is bool else node.value + 1
        yield str(value), _set(node, "value", value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "left out", _set(node, "value", ast.Constant(0))


def _put(target: list, index: int, value: object) -> Callable[[], None]:
    return lambda: target.__setitem__(index, value)


def _set(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)
