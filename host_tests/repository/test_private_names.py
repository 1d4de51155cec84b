# cpython-only: parses sources with ast
"""A name with an underscore belongs to the class or module that makes it. What of other people's
packages is used beyond their public interface is listed here with its reason, name by name; of ours
nothing is, and nobody writes another object's private field. All of it is computed from the
sources."""

import ast
import importlib
from collections.abc import Iterator

import pytest

import module_graph
from paths import REPOSITORY

FILES = module_graph.files(REPOSITORY / "tools" / "outpost_tools")
_PUBLIC = {"_asdict", "_fields", "_make", "_replace"}  # of a NamedTuple, by its documentation
_TYPES = {"_ArgumentGroup", "_MutuallyExclusiveGroup", "_SubParsersAction"}  # argparse's only names

_OF_PAHO = (
    *("_last_bytes_received", "_loop_rc_handle", "_max_inflight_messages", "_packet_queue"),
    *("_packet_read", "_protocol", "_sock", "_sock_recv"),
)
# {module: {name: reason}}
ALLOWED = {
    "boards.send.wording": {"_MORE": "the words of station.settings", "_fault": "the same"},
    "cli": dict.fromkeys(
        ("_action_max_length", "_dedent", "_format_action", "_get_subactions", "_indent"),
        "argparse has no other way to write a list in groups",
    ),
    "kit.on_cpython": {"_getframe": "sys._getframe(): the line at which a program is stuck"},
    "machine.firmware": {"_KEYS": "the keys of station.settings, without a second list"},
    "mqtt.client": dict.fromkeys(_OF_PAHO, "the docstring of the module"),
    "mqtt.connection": {"_sock_close": "closes without DISCONNECT, which paho cannot"},
    "readings.pipeline.engines": {
        "_broken": "of a pool: a killed worker is told before the next task",
        "_exit": "os._exit(): a worker without its parent runs no finally",
    },
    "readings.pipeline.session": {
        "_active_spark_context": "is one there? PySpark's public ways make one",
        "_gateway": "its process is ours to end, and its streams",
        "_instantiatedSession": "as _active_spark_context",
        "_jvm": "the versions that Spark runs with",
    },
    "readings.pipeline.settings": {"_ensure_initialized": "starts the gateway, with our log"},
    "readings.sources.listen": {"_topic": "paho's .topic raises if it is not UTF-8"},
    "servers.collect.link": {"_topic": "the same"},
    "servers.mq.sources": {"_topic": "the same"},
    "terminal.parser": dict.fromkeys(
        ("_group_actions", "_option_string_actions", "_subparsers"),
        "argparse: the words from which a misspelt one is told",
    ),
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _PUBLIC | _TYPES


def own_names(tree: ast.Module) -> set[str]:
    """Private names that the module makes: functions, methods, fields, constants."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                found.add(node.attr)
    return found


def _foreign_bases(node: ast.ClassDef, tree: ast.Module) -> Iterator[type]:
    """Classes of other packages from which a class is derived."""
    modules = {
        alias.asname or alias.name: alias.name
        for one in ast.walk(tree)
        if isinstance(one, ast.Import)
        for alias in one.names
    }
    for base in node.bases:
        if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
            name = modules.get(base.value.id)
            if name:
                yield getattr(importlib.import_module(name), base.attr)


def used(source: str) -> set[str]:
    """Private names of others that a module uses."""
    tree = ast.parse(source)
    own = own_names(tree)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if is_private(alias.name)}
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            is_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            found |= set() if is_self else {node.attr}
        elif isinstance(node, ast.ClassDef):
            found |= _of_bases(node, tree)
    return found


def _of_bases(node: ast.ClassDef, tree: ast.Module) -> set[str]:
    names = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    names |= {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    known = {name for base in _foreign_bases(node, tree) for name in dir(base)}
    known |= {name for base in _foreign_bases(node, tree) for name in _fields(base)}
    return {name for name in names & known if is_private(name)}


def _fields(base: type) -> set[str]:
    """Names that its __init__ makes."""
    made = [one.__init__ for one in base.__mro__ if "__init__" in vars(one)]
    return {name for one in made if hasattr(one, "__code__") for name in one.__code__.co_names}


def short(name: str) -> str:
    return name.removeprefix("outpost_tools.")


@pytest.mark.parametrize("module", sorted(FILES), ids=short)
def test_a_module_uses_no_private_name_that_is_not_listed(module):
    found = used(FILES[module].read_text(encoding="utf-8"))
    assert found == ALLOWED.get(short(module), {}).keys()


@pytest.mark.parametrize(
    "line",
    [
        "from outpost_tools.machine.children import _hold", "import paho\npaho._x()",
        "def f(a):\n    return a._secret", "def f(a):\n    a._secret = 1",
        "import argparse\nclass A(argparse.ArgumentParser):\n    def f(self):\n"
        "        self._actions.clear()",
        "import argparse\nclass A(argparse.ArgumentParser):\n    def _get_values(self): pass",
    ],
)  # fmt: skip
def test_one_that_does_is_found(line):
    assert used(line)


def test_what_is_the_modules_own_is_its_own():
    assert not used("class A:\n    def f(self, other):\n        self._x = other._x\n")
    assert not used("def f(row):\n    return row._replace(a=1)\n")
