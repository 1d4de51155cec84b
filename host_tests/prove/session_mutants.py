"""Copies of a session's module with one token changed each: what the explorer finds of them.

    python host_tests/prove/prove_session.py --mutants exactly_once

A mutant that no scope kills is printed as a survivor, for the tests or the eye.
"""

from __future__ import annotations

import ast
import copy
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from session_explorer import Explorer
from session_firmware import classes, source_of
from session_scopes import Scope

_HANG_S = 30  # of CPU, a scope
_MOST_STATES = 12_000
_ID_WRAPS = 131_069  # identifiers 65,535 and 1, and a number of more than 16 bits

_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATOR = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Mod: ast.Add, ast.Mult: ast.Add,
    ast.BitXor: ast.BitOr, ast.FloorDiv: ast.Mult,
}  # fmt: skip

_ONE = Scope("one out", held=1, total=1, forgets=False)
_QOS_2 = (
    _ONE,
    Scope("one in", held=0, inbound=1),
    replace(_ONE, name="one out, 3.1", level=3),
    Scope("one in, 3.1", held=0, inbound=1, level=3),
    Scope("clean", held=1, total=1, inbound=1, clean=True),
    Scope("one out, lost sessions", held=1, total=1),
    Scope("refused notes", held=1, total=1, fails=True, qos=(2,)),
    Scope("refused notes in", held=0, inbound=1, fails=True, inbound_qos=(2,)),
    Scope("two in", held=0, inbound=2, inbound_qos=(2,), forgets=False),
    Scope("two out, numbers wrap", held=2, total=2, first_seq=_ID_WRAPS, forgets=False),
)
_QOS_1 = (
    Scope("QoS 1 out", "Session", held=2, total=2, qos=(1,), forgets=False),
    Scope("QoS 1 out, window 1", "Session", held=3, total=3, window=1, qos=(1,), forgets=False),
    Scope("QoS 1 out, three", "Session", held=3, total=3, qos=(1,), first_seq=_ID_WRAPS),
    Scope("QoS 1 in", "SubscribingSession", held=1, total=1, qos=(1,), inbound=2, inbound_qos=(1,)),
)
SCOPES = {
    "exactly_once": _QOS_2,
    "session": (*_QOS_1, *_QOS_2),
    "reader": (*_QOS_1, *_QOS_2[:2]),
    "subscribing": (_QOS_1[-1], *_QOS_2),
}


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """(what is changed, function that changes this node)."""
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            other = _COMPARE[type(op)]
            yield (
                f"{type(op).__name__} to {other.__name__}",
                lambda it, p=place, o=other: it.ops.__setitem__(p, o()),
            )
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _OPERATOR:
        other = _OPERATOR[type(node.op)]
        yield (
            f"{type(node.op).__name__} to {other.__name__}",
            lambda it, o=other: setattr(it, "op", o()),
        )
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"to {other.__name__}", lambda it, o=other: setattr(it, "op", o())
    elif isinstance(node, ast.UnaryOp):
        yield f"no {type(node.op).__name__}", lambda it: setattr(it, "op", ast.UAdd())
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "the other", lambda it: setattr(it, "value", not it.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value} + 1", lambda it: setattr(it, "value", it.value + 1)


def mutants(module: str) -> Iterator[tuple[str, ast.Module]]:
    """(where and what, tree) of each."""
    source = source_of(module)
    tree, lines = ast.parse(source), source.splitlines()
    for place, node in enumerate(ast.walk(tree)):
        for text, change in _changes(node):
            broken = copy.deepcopy(tree)
            target = list(ast.walk(broken))[place]
            if isinstance(target, ast.UnaryOp) and isinstance(target.op, ast.Not):
                target.op, target.operand = ast.Not(), ast.UnaryOp(ast.Not(), target.operand)
            else:
                change(target)
            code = lines[node.lineno - 1].strip()
            yield f"{module}:{node.lineno}: {text}: {code}", ast.fix_missing_locations(broken)


def _hangs(*_: Any) -> None:
    raise TimeoutError("hangs")


def killer(module: str, tree: ast.Module) -> str:
    """What found it; empty: nothing did."""
    signal.signal(signal.SIGVTALRM, _hangs)
    try:
        broken = classes({module: tree})
        for scope in SCOPES[module]:
            signal.setitimer(signal.ITIMER_VIRTUAL, _HANG_S)
            result = Explorer(scope, broken).run(_MOST_STATES, 3600)
            if result.violation:
                return f"{scope.name}: {result.violation}"
    except Exception as error:  # whatever it is: the module is broken, and it shows
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def report(module: str) -> int:
    """Status 1 when one survives."""
    killed = survived = 0
    began = time.process_time()
    for name, tree in mutants(module):
        found = killer(module, tree)
        killed, survived = killed + bool(found), survived + (not found)
        print(f"{'killed  ' if found else 'SURVIVED'} {name}" + (f": {found}" if found else ""))
        sys.stdout.flush()
    spent = time.process_time() - began
    print(f"{module}: {killed} of {killed + survived} killed, {spent:.0f} s of CPU")
    return 1 if survived else 0
