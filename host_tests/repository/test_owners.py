# cpython-only: parses sources with ast
"""The tables "Owners" of ARCHITECTURE.md and the code: each field of the client is written by the
modules that they name, and by no other. See owners.py for what a write is."""

import re

import pytest

import owners
from paths import REPOSITORY

SOURCES = owners.sources()
OBJECTS = owners.objects(SOURCES)
CLIENT = (
    "Client", "Session", "InFlight", "Suspects", "Retry", "Expiry", "Aliases", "OwnAliases",
)  # fmt: skip
MODULES = {module for kind in CLIENT for module in OBJECTS[kind].owners.values()}
OWNS, ALSO_WRITES = "| module | owns |", "| module | also writes |"


def rows(title):
    """The rows of the table with this title: (cells, names in backticks of each cell)."""
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    table = page[page.index(title) :].partition("\n\n")[0].splitlines()[2:]
    return [[re.findall(r"`(\w+)`", cell) for cell in row.split("|")[1:-1]] for row in table]


def named():
    """{(module, owner or "outbox", field)} of the second table."""
    found = set()
    for module, fields, of, _ in rows(ALSO_WRITES):
        for name in fields:
            found |= {(module[0], one, name) for one in of or ["outbox"] if owns(one, name)}
    return found


def owns(module, name):
    kinds = CLIENT if module in MODULES else ("Outbox",)
    return any(
        name in OBJECTS[kind].owners and module in (OBJECTS[kind].owners[name], "outbox")
        for kind in kinds
    )


def written(objects):
    """{(module, owner, field)} of what modules of the client write and do not own."""
    found = set()
    for kind, one in objects.items():
        for module, name in one.others():
            if kind in CLIENT:
                found.add((module, one.owners.get(name, "nobody"), name))
            elif module in MODULES:
                found.add((module, kind.lower(), name))
    return found


def test_each_field_is_written_by_those_whom_the_table_names():
    assert written(OBJECTS) == named()


def test_a_row_names_no_field_that_is_not_there():
    """Each name of the second table is one of the fields of one of those that its row names."""
    for module, fields, of, _ in rows(ALSO_WRITES):
        assert not [name for name in fields if not any(owns(one, name) for one in of or ["outbox"])]
        assert module[0] in MODULES


def test_each_module_with_fields_has_a_row_with_its_own():
    table = {module[0]: fields for module, fields, *_ in rows(OWNS)}
    assert table.keys() == MODULES
    for module, fields in table.items():
        own = {name for kind in CLIENT for name, by in OBJECTS[kind].owners.items() if by == module}
        assert fields and own >= set(fields), module


@pytest.mark.parametrize("module", ["suspects", "client", "level5_expiry", "mount"])
@pytest.mark.parametrize(
    "line",
    [
        "session.base = 1", "self._session.base += 1", "session.filters[0] = 1",
        "session.filters.append(1)", "session.filters[0].pop()", "del session.through",
        "self.session._acked, x = 1, 2", "for session.high in x: pass", "client.takeovers = 0",
        "session.suspects._counts.clear()", "session.suspects.left.sort()",
        "session.nobody_makes_this = 1", "outbox.session.base = 1",
    ],
)  # fmt: skip
def test_a_writer_whom_the_table_does_not_name_is_found(module, line):
    """Wherever it stands: in a function, or in a method of a class."""
    for source in (f"def late():\n    {line}", f"class A:\n    def b(self):\n        {line}"):
        changed = owners.objects(SOURCES | {module: f"{SOURCES[module]}\n{source}\n"})
        found = written(changed) - named()
        is_own = f"{module}." in line
        assert {one[0] for one in found} == (set() if is_own else {module})


def test_a_subclass_that_writes_its_bases_field_is_found():
    source = SOURCES["durable"] + "\n    def _late(self):\n        self.base = 1\n"
    found = written(owners.objects(SOURCES | {"durable": source})) - named()
    assert found == {("durable", "session", "base")}


def test_so_is_a_part_that_writes_its_sessions():
    source = SOURCES["retry"].replace("self._minutes = 0\n", "self._session.window = 0\n")
    found = written(owners.objects(SOURCES | {"retry": source})) - named()
    assert found == {("retry", "session", "window")}


def test_and_one_that_writes_the_outboxs():
    source = f"{SOURCES['queued']}\ndef late(session):\n    session.outbox.oldest_seq = 0\n"
    found = written(owners.objects(SOURCES | {"queued": source})) - named()
    assert found == {("queued", "outbox", "oldest_seq")}


@pytest.mark.parametrize("line", ["thing.base = 1", "self._thing.x.append(1)"])
def test_an_owner_of_an_unknown_name_is_a_mistake(line):
    """Otherwise another name for the session would hide a write."""
    source = f"{SOURCES['retry']}\ndef late():\n    {line}\n"
    with pytest.raises(owners.UnknownName):
        owners.objects(SOURCES | {"retry": source})


def test_the_table_of_figures():
    lines = owners.table("")
    assert lines[1].split() == ["fields", "writers", "several", "most"]
    assert any(
        line.split()[0] == "Suspects" and line.split()[3:] == ["0", "1"] for line in lines[2:]
    )
