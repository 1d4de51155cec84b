# cpython-only: parses sources with ast
"""What holds of every session and of the shell above it: a session knows no stream, no clock and no
other object's fields; every field is made in the constructor of its class; no constructor calls a
method that a subclass overrides; hooks are named on_..."""

import ast

import pytest

from outpost.client import Client
from outpost.durable import DurableSession
from outpost.exactly_once import ExactlyOnceSession
from outpost.session import Session
from outpost.streaming import StreamingSession
from outpost.subscribing import SubscribingSession
from paths import FIRMWARE

SESSIONS = (
    Session, SubscribingSession, DurableSession, ExactlyOnceSession, StreamingSession,
)  # fmt: skip
ALL = (*SESSIONS, Client)
IO = {"write", "read", "readinto", "socket", "connect", "poll", "link", "stream", "close", "recv"}
IO |= {"ticks_ms", "sleep_ms", "time", "random", "send", "select"}
# outbox.stream is the name of its stream of messages, not a connection.
MEANT = {("DurableSession", "stream")}
# What an owner of a session sets: its duties, in client.py.
DUTIES = {"now_ms", "out_at", "out_end", "check_ms"}


def tree(kind: type) -> ast.ClassDef:
    module = ast.parse((FIRMWARE / (kind.__module__.replace(".", "/") + ".py")).read_text())
    return next(node for node in ast.walk(module) if getattr(node, "name", "") == kind.__name__)


def methods(kind: type) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree(kind).body if isinstance(node, ast.FunctionDef)}


def stored(node: ast.AST, owner: str = "self") -> set[str]:
    """Fields of `owner` that are assigned to."""
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and isinstance(part.value, ast.Name)
        and part.value.id == owner
    }


def made(kind: type) -> set[str]:
    """Fields that the constructors make, or that stand in the class with their first value;
    restart(), which none overrides, makes those of a packet."""
    found = set()
    for base in kind.__mro__[:-1]:
        own = methods(base)
        for node in tree(base).body:
            if isinstance(node, ast.Assign):
                found |= {part.id for part in node.targets if isinstance(part, ast.Name)}
        found |= stored(own["__init__"])
        if base is Session:
            found |= stored(own["restart"])
    return found


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_session_knows_no_stream_and_no_clock(kind):
    names = {part.attr for part in ast.walk(tree(kind)) if isinstance(part, ast.Attribute)}
    names |= {part.id for part in ast.walk(tree(kind)) if isinstance(part, ast.Name)}
    found = {name for name in names if name.strip("_") in IO}
    assert not {name for name in found if (kind.__name__, name) not in MEANT}


@pytest.mark.parametrize("kind", ALL)
def test_every_field_is_made_in_its_class(kind):
    later = set().union(*(stored(method) for method in methods(kind).values()))
    assert not later - made(kind)


@pytest.mark.parametrize("kind", ALL)
def test_no_constructor_calls_what_a_subclass_overrides(kind):
    called = {
        part.func.attr
        for part in ast.walk(methods(kind)["__init__"])
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id == "self"
    }
    others = [other for other in ALL if other is not kind and issubclass(other, kind)]
    assert not called & {name for other in others for name in methods(other)}


def test_nobody_else_sets_a_field_of_a_session():
    """The owner: those that its duties name, and the application its handler. Nobody by
    setattr()."""
    files = (*FIRMWARE.rglob("*.py"), *(FIRMWARE.parent / "boards").rglob("*.py"))
    for path in files:
        if path.parent.name == "virtual":  # its sessions are a server's
            continue
        module = ast.parse(path.read_text())
        assert stored(module, "session") <= {*DUTIES, "on_message"}, path
        text = path.read_text()
        assert "setattr(self" not in text and "setattr(session" not in text, path
        assert "setattr(client" not in text, path


def test_what_a_subclass_overrides_is_a_hook():
    """_on_..., or one of the few steps that a session extends whole."""
    extended = {"__init__", "_keep", "_start_message", "_restart_window"}
    extended |= {"is_asking", "has_received"}  # what `suspects.py` asks
    checked = 0
    for kind in SESSIONS[1:]:
        inherited = {name for base in kind.__mro__[1:-1] for name in methods(base)}
        for name in methods(kind).keys() & inherited:
            assert name.startswith("_on_") or name in extended, f"{kind.__name__}.{name}"
            checked += 1
    assert checked > 15


@pytest.mark.parametrize("kind", SESSIONS[1:])
def test_each_hook_is_listed(kind):
    """In a docstring of the module that brings it."""
    modules = [FIRMWARE / (base.__module__.replace(".", "/") + ".py") for base in kind.__mro__[:-1]]
    listed = " ".join(ast.get_docstring(ast.parse(path.read_text())) or "" for path in modules)
    hooks = [name for name in methods(kind) if name.startswith("_on_")]
    assert not [name for name in hooks if name + "(" not in listed]


def test_names_that_users_need_are_public_and_on_the_page():
    """C16."""
    page = (FIRMWARE / "README.md").read_text()
    names = {"filters", "return_code", "session_present", "response_ms", "on_piece", "suspects"}
    names |= {"handler_errors", "unacknowledged", "on_message", "on_acknowledged"}
    assert names <= set().union(*(made(kind) for kind in SESSIONS[1:]))
    assert "failures" in made(Client)
    for name in names | {"failures", "ExactlyOnceSession", "StreamingSession"}:
        assert f"`{name}" in page or f".{name}" in page, name
