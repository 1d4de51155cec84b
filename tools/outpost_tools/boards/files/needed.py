"""Which modules a board needs: those that main.py, the board's own modules, the drivers of its
sensors and the user's programs import, and all that these modules import in turn. An import inside
a function does not count if it loads a part that the settings do not use. Every board also gets
OWN, which users' programs import.

PARTS names each part once, by the module that the program imports for it; the other modules of a
part follow from the sources. An import at the top of a module always counts, whatever the settings
say. Pure: knows no board and no port.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from outpost_tools.boards.files.firmware_build import MAIN, import_name
from outpost_tools.machine.firmware import settings_rules

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """module: what the program imports for this part. key: the setting on which the part depends;
    messages name it as the reason."""

    module: str
    key: str
    is_used: Callable[[Settings], bool]


def _is_true(key: str) -> Callable[[Settings], bool]:
    return lambda settings: bool(settings[key])


def _is(key: str, value: Any) -> Callable[[Settings], bool]:
    return lambda settings: settings[key] == value


def _has_driver(settings: Settings) -> bool:
    return any(isinstance(one, dict) for one in settings["sensors"] or ())


def _has_ds18b20(settings: Settings) -> bool:
    return any(str(one).startswith("ds18b20@") for one in settings["sensors"] or ())


OWN = "station.own_program"  # on every board, because a user's first program imports it
WORDS = "station.own_words"  # the messages of OWN: a convenience, left out where updates need room
SERIES = "station.series_station"  # an outbox may still hold series after the setting is gone
PARTS = (
    Part("outpost.policies", "when_full", lambda settings: settings["when_full"] != "refuse"),
    Part("outpost.level5", "level", _is("level", 5)),
    Part("outpost.durable", "mode", _is("mode", "collector")),
    Part("outpost.queued", "confirmation", _is("confirmation", "queued")),
    Part("station.unheard", "mode", _is("mode", "collector")),
    Part(SERIES, "series", _is_true("series")),
    Part("station.telemetry_cbor", "encoding", _is("encoding", "cbor")),
    Part("station.state", "say_state", _is_true("say_state")),
    Part("station.deep_sleep", "deep_sleep", _is_true("deep_sleep")),
    Part("station.commands", "commands", _is_true("commands")),
    Part("station.updatable", "update_key", _is_true("update_key")),
    Part("station.update_start", "update_key", _is_true("update_key")),
    Part("support.tls_link", "tls", _is_true("tls")),
    Part("support.wifi_networks", "wifi_networks", _is_true("wifi_networks")),
    Part("support.sensor_file", "sensors", _has_driver),
    Part("support.sensor_bus", "sensors", _has_ds18b20),
)


def defaults() -> dict[str, Any]:
    """All keys with their defaults, for a board that has no settings yet."""
    return {key: rule[1] for key, rule in settings_rules().items()}


def used(settings: Settings) -> list[Part]:
    return [part for part in PARTS if part.is_used(settings)]


def paths(
    texts: Mapping[str, str], settings: Settings | None, programs: Iterable[str] = ()
) -> set[str]:
    """Return the paths of the files that the board needs.

    texts: {path on the board: source} of all files; those in the root are main.py and the board's
    own modules. settings: checked; None: keep what any settings may need. programs: sources of
    drivers and of the user's programs, of which only the imports matter.
    """
    names = {import_name(path): path for path in texts}
    shut = set() if settings is None else _shut(settings)
    roots = [name for name, path in names.items() if "/" not in path]
    roots += [OWN] if OWN in names else []
    roots += [name for one in programs for name in _imported(ast.walk(ast.parse(one)), names)]
    found, todo = set[str](), roots
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            tree = ast.parse(texts[names[name]])
            todo += _imported(_at_top(tree), names)
            todo += [one for one in _imported(ast.walk(tree), names) if one not in shut]
    return {names[name] for name in found} | {path for path in texts if path == MAIN}


def _shut(settings: Settings) -> set[str]:
    """Modules that are left out although a function imports them."""
    unused = {part.module for part in PARTS} - {part.module for part in used(settings)}
    return unused | ({WORDS} if settings["update_key"] else set())


def _at_top(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _at_top(node)


def _imported(nodes: Iterable[ast.AST], names: Mapping[str, str]) -> list[str]:
    """Return those of `names` that the nodes import, and the packages that contain them."""
    found = set[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found |= {name.rpartition(".")[0] for name in found}
    return sorted(found & names.keys())
