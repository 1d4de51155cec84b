#!/usr/bin/env python3
"""Every single-token mutant of the outbox's modules, and what kills it.

A mutant changes one token of one module: a comparison, an operator, a constant, a truth value, a
call that is left out. It is killed when a scope of the proof finds a violation, when an exception
leaves a call, or when a call does not end. What survives is printed, to be read: it is the same
program, or nothing here would notice.
"""

from __future__ import annotations

import argparse
import ast
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import outbox_real
from outbox_scopes import SCOPES, Scope
from prove_outbox import Explorer

_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
}  # fmt: skip
_OPERATE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant:
    """Number `number` of a module. `text`: what changed, once it is applied."""

    def __init__(self, module: str, number: int) -> None:
        self.module, self.number = module, number
        self.text = ""

    def __call__(self, tree: ast.Module) -> ast.Module:
        for number, (line, text, change) in enumerate(changes(tree)):
            if number == self.number:
                change()
                self.text = f"{self.module}.py:{line}: {text}"
                return tree
        raise IndexError(self.number)


def count(module: str) -> int:
    return sum(1 for _ in changes(ast.parse(outbox_real.source(module).read_text("utf-8"))))


def changes(tree: ast.Module) -> Iterator[tuple]:
    """(line, what, function that does it) of each."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                yield from _of(node)


def _of(node: ast.AST) -> Iterator[tuple]:
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in _COMPARE:
                other = _COMPARE[type(op)]
                text = f"{ast.unparse(node)}: {other.__name__}"
                yield node.lineno, text, _put(node.ops, i, other())
    elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in _OPERATE:
        other = _OPERATE[type(node.op)]
        yield node.lineno, f"{ast.unparse(node)}: {other.__name__}", _set(node, "op", other())
    else:
        yield from _of_value(node)


def _of_value(node: ast.AST) -> Iterator[tuple]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno, f"{ast.unparse(node)}: without not", _set(node, "op", ast.UAdd())
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        value = not node.value if type(node.value) is bool else node.value + 1
        yield node.lineno, f"{node.value}: {value}", _set(node, "value", value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node.lineno, f"without {ast.unparse(node)}", _set(node, "value", ast.Constant(0))


def _put(target: list, index: int, value: object):
    return lambda: target.__setitem__(index, value)


def _set(node: ast.AST, name: str, value: object):
    return lambda: setattr(node, name, value)


class _Endless(BaseException):
    pass


def _stop(signum: int, frame: object) -> None:
    raise _Endless


def killer(mutant: Mutant, scopes: list[Scope], states: int, seconds: int) -> str:
    """What kills it; "": nothing does."""
    for scope in scopes:
        signal.signal(signal.SIGVTALRM, _stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            real = outbox_real.Real(scope.block_bytes, (mutant.module, mutant))
            found = Explorer(scope, real).run(states).violations
        except _Endless:
            return f"{scope.name}: does not end"
        except Exception as fault:
            return f"{scope.name}: {type(fault).__name__}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if found:
            return f"{scope.name}: {found[0][0].split(':')[0]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--module", action="append", help="only this one; may be repeated")
    parser.add_argument("--states", type=int, default=150, help="states of each scope")
    parser.add_argument("--seconds", type=int, default=60, help="CPU seconds of each scope")
    parser.add_argument("--every", type=int, default=1, help="only one mutant of so many")
    parser.add_argument("--time-limit", type=float, default=1e9, help="seconds for all")
    args = parser.parse_args()
    scopes = [scope for scope in SCOPES if scope.kills]
    killers: Counter = Counter()
    end = time.time() + args.time_limit
    for module in args.module or outbox_real.modules():
        for number in range(0, count(module), args.every):
            if time.time() > end:
                print(f"stopped at {module} {number}")
                break
            mutant = Mutant(module, number)
            by = killer(mutant, scopes, args.states, args.seconds)
            killers[by or "survived"] += 1
            if not by:
                print(f"survived: {mutant.text}", flush=True)
    for by, times in killers.most_common():
        print(f"{times:6} {by}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
