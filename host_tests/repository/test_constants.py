# cpython-only: parses sources with ast
"""A constant of the tools is made in one module; the others import it. Two modules that give one
name the same value have copied it, unless it is listed here as chance. (In the firmware, where an
imported name costs RAM, copies are compared instead: test_status.py.)"""

import ast
from collections import defaultdict

import pytest

from paths import REPOSITORY

TOOLS = REPOSITORY / "tools" / "outpost_tools"
SOURCES = {
    path.relative_to(TOOLS).as_posix(): path.read_text("utf-8") for path in TOOLS.rglob("*.py")
}
# The same word for another thing, or a unit: {name: what}
CHANCE = {
    "ANSWER_S": "of a board, of a broker, of another collector",
    "BEGINNING_BYTES": "of a stream, of a file",
    "BLOCK_BYTES": "of an outbox, of the file system, and of a reader that imports nothing of ours",
    "CHUNK": "of a read",
    "DAY_S": "a unit, as int and as float",
    "DAY_US": "a unit",
    "INTERVAL_S": "of confirmations, of statements",
    "LINE_EVERY_S": "of what is told: on a board, of an export",
    "MOST_SENSORS": "of a device on the page, of one for Home Assistant",
    "MOST_TIMES": "of pauses, of a device",
    "MQTT_5": "the protocol's own number",
    "NAMES_REMEMBERED": "of readings, of topics",
    "POLL_S": "of four things",
    "SILENCE_S": "of a sensor, of a broker",
    "STEP_S": "of four things",
    "TIMEOUT_S": "of two programs",
    "TURN_S": "of four loops",
    "USER": "the type of a frame, a property of MQTT 5.0",
}


def constants(sources):
    """{(name without _, value): modules that give it}; True, 0, 1, "" and such are no values."""
    found = defaultdict(set)
    for module, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id.strip("_"), ast.unparse(node.value)
                try:
                    value = eval(value, {"__builtins__": {}})
                except Exception:  # noqa: S112 - it is no constant then
                    continue
                if name.isupper() and (
                    isinstance(value, tuple) or value not in (0, 1, 2, "", None)
                ):
                    found[name, repr(value)].add(module)
    return found


def copied(sources):
    return {name: where for (name, _), where in constants(sources).items() if len(where) > 1}


def test_a_constant_of_the_tools_is_made_once():
    found = copied(SOURCES)
    assert {name: where for name, where in found.items() if name not in CHANCE} == {}


def test_what_is_listed_is_still_there():
    assert CHANCE.keys() - copied(SOURCES).keys() == set()


@pytest.mark.parametrize(
    "line", ["MOST_COLUMNS = 16", "_MOST_COLUMNS = 4 * 4", "_LOW_BYTES = 200 << 20"]
)
def test_a_copy_is_found(line):
    assert copied(SOURCES | {"new.py": line}).keys() - CHANCE.keys()


def counted(source):
    """Whether a module counts folders above its own file: it breaks when its room moves."""
    return "parents[" in source and "__file__" in source


def test_the_packages_folder_is_made_once():
    """outpost_tools.FOLDER. An archive for executors once had no modules, since its room moved."""
    assert [name for name, source in SOURCES.items() if counted(source)] == []
    assert counted("HERE = Path(__file__).resolve().parents[2]")
