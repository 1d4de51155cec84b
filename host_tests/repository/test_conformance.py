# cpython-only: reads a table and the sources of the tests
"""conformance.csv has every numbered statement of MQTT 3.1.1 (OASIS, 29 October 2014, appendix B),
and each that binds a client names tests that exist.
"""

import ast
import csv
import functools
from pathlib import Path

import pytest

from paths import HOST_TESTS

TABLE = Path(__file__).with_name("conformance.csv")
FILES = {path.name: path for path in HOST_TESTS.rglob("test_*.py")}  # unique: test_findable.py
WITH_TESTS = ("client", "both")  # who is bound; `application`: the program that uses the client
WITH_REASON = ("server", "application", "not offered")

# section: number of its statements. Counted in the standard itself, so that a row left out of the
# table shows.
STATEMENTS = {
    "1.5.3": 3, "2.2.2": 2, "2.3.1": 7, "3.1.0": 2, "3.1.2": 24, "3.1.3": 11, "3.1.4": 5,
    "3.2.0": 1, "3.2.2": 6, "3.3.1": 12, "3.3.2": 3, "3.3.4": 1, "3.3.5": 2, "3.6.1": 1, "3.8.1": 1,
    "3.8.3": 4, "3.8.4": 6, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2, "3.10.4": 6, "3.12.4": 1,
    "3.14.1": 1, "3.14.4": 3, "4.1.0": 2, "4.3.1": 1, "4.3.2": 2, "4.3.3": 2, "4.4.0": 1,
    "4.5.0": 2, "4.6.0": 6, "4.7.1": 3, "4.7.2": 1, "4.7.3": 4, "4.8.0": 2, "6.0.0": 4, "7.0.0": 2,
    "7.1.1": 1, "7.1.2": 1,
}  # fmt: skip


def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@functools.cache
def nodes_in(path: Path) -> frozenset[str]:
    """`Class::method` and `function` of the tests that a file holds."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            }
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def dangling(how: str) -> list[str]:
    """The nodes named there that are no tests of an existing file."""
    missing = []
    for node in how.split():
        file, _, name = node.partition("::")
        path = FILES.get(file)
        if path is None or name not in nodes_in(path):
            missing.append(node)
    return missing


def test_every_statement_of_the_standard_has_one_row_and_nothing_else_has():
    wanted = [
        f"MQTT-{section}-{n}" for section, count in STATEMENTS.items() for n in range(1, count + 1)
    ]
    assert len(wanted) == 141
    assert [row["id"] for row in rows()] == wanted


def test_every_row_is_filled_in():
    for row in rows():
        assert row["side"] in WITH_TESTS + WITH_REASON, row
        assert 10 < len(row["statement"]) <= 130, row
        assert list(row) == ["id", "statement", "side", "how"] and None not in row.values(), row


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_a_row_that_binds_a_client_names_tests_that_exist_and_the_others_a_reason(row):
    if row["side"] in WITH_TESTS:
        assert row["how"]
        assert dangling(row["how"]) == []
    else:
        assert len(row["how"].split()) >= 4, "a reason, in words"
        assert "::" not in row["how"]


def test_a_dangling_test_is_found():
    assert dangling("test_conformance.py::test_a_dangling_test_is_found") == []
    assert dangling("test_session.py::TestWindow::test_no_more_than_the_window_in_flight") == []
    for node in (
        "test_none.py::test_x",
        "test_session.py::TestWindow::test_none",
        "test_session.py::TestWindow",
        "a reason",
    ):
        assert dangling(node) == node.split()
