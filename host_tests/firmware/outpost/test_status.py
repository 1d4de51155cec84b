# cpython-only: parses sources with ast
"""Each number is defined once. Modules repeat some as private constants, because mpy-cross folds
`_X = const()` within a module only and an imported name costs RAM; every copy in every module must
be the number that it stands for."""

import ast

import pytest

from outpost import status
from paths import REPOSITORY

# Not of the virtual world, which runs beside a board's code and is none
SOURCES = sorted(
    path
    for room in ("firmware", "boards")
    for path in (REPOSITORY / room).rglob("*.py")
    if path.parent.name != "virtual"
)
STATUSES = {name: getattr(status, name) for name in dir(status) if name.isupper()}
# A name that stands for different things in different modules: (file: what it is there).
HOMONYMS = {
    "_NOTHING": {"shelf_block.py": "the number of no message; in level5_refusals.py, of a place"},
    "_OVERHEAD": {
        "session.py": "bytes of a PUBLISH beside topic and payload; in outbox.py, of a record",
        "in_flight.py": "as session.py",
    },
    "_MARK": {"pinning.py": "of a file; in shelf.py, of a message"},
    "_MOST_BYTES": {"dns.py": "of a DNS answer; in ram_outbox.py, of a message"},
    "_CONNECT_MS": {"plain_link.py": "the simulator's TCP; a board waits longer"},
    "_FIRST_WAIT_MS": {"ntp.py": "between questions; in client.py, between connections"},
    "_LONGEST_MS": {"rp2_board.py": "of a sleep; in crash_log.py, of a pause"},
}
# One number under two names: the copy, and what it stands for.
SAME = (
    ("assembly.py _RECORD_OVERHEAD", "outbox.py _OVERHEAD"),
    ("exactly_once.py _RECORD_OVERHEAD", "outbox.py _OVERHEAD"),
    ("in_flight.py _OVERHEAD", "session.py _OVERHEAD"),
    ("session.py _TICKS", "outbox.py _SEQ_MASK"),
)


def value_of(node: ast.expr) -> int | None:
    """Of a number, const(number), or an expression of numbers."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "const":
        node = node.args[0]
    try:
        found = eval(ast.unparse(node), {"__builtins__": {}})
    except (NameError, TypeError, AttributeError, SyntaxError):
        return None
    return found if type(found) is int else None


def constants() -> dict[str, dict[str, int]]:
    """{name: {file: value}} of all module-level private numbers."""
    found: dict[str, dict[str, int]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, value_of(node.value)
                if value is not None and name.startswith("_"):
                    place = path.name if path.name != "board.py" else f"{path.parent.name}/board.py"
                    found.setdefault(name, {})[place] = value
    return found


CONSTANTS = constants()


def copies(name: str) -> dict[str, int]:
    """By file, homonyms excepted."""
    others = HOMONYMS.get(name, {})
    return {file: value for file, value in CONSTANTS[name].items() if file not in others}


@pytest.mark.parametrize("name", sorted(STATUSES))
def test_a_copy_of_a_status_is_the_status(name):
    found = copies(f"_{name}") if f"_{name}" in CONSTANTS else {}
    wrong = {file: value for file, value in found.items() if value != STATUSES[name]}
    assert not wrong, f"status.{name} is {STATUSES[name]}"


def test_copies_were_compared():
    assert sum(len(copies(f"_{name}")) for name in STATUSES if f"_{name}" in CONSTANTS) >= 60


SHARED = sorted(name for name, files in CONSTANTS.items() if len(files) > 1)


@pytest.mark.parametrize("name", SHARED)
def test_a_name_stands_for_one_number(name):
    found = copies(name)
    assert len(set(found.values())) <= 1, f"{name}: {found}; list it in HOMONYMS if it is meant"


@pytest.mark.parametrize(("copy", "original"), SAME)
def test_a_number_under_two_names_is_one(copy, original):
    (file, name), (other, known) = copy.split(), original.split()
    assert CONSTANTS[name][file] == CONSTANTS[known][other]


@pytest.mark.parametrize("name", sorted(HOMONYMS))
def test_a_homonym_is_still_one(name):
    assert set(HOMONYMS[name]) <= set(CONSTANTS[name]), "list it no more"
