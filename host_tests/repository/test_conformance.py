# cpython-only: reads a table and the sources of the tests
"""conformance.csv has every numbered statement of MQTT 3.1.1 (OASIS, 29 October 2014, appendix B),
conformance5.csv of MQTT 5.0 (OASIS, 7 March 2019), and each that binds a client names tests that
exist.

    python host_tests/repository/test_conformance.py     the counts
"""

import ast
import csv
import functools
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from paths import HOST_TESTS

TABLES = {
    "3.1.1": Path(__file__).with_name("conformance.csv"),
    "5.0": Path(__file__).with_name("conformance5.csv"),
}
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
STATEMENTS_5 = {
    "1.5.4": 3, "1.5.5": 1, "1.5.7": 1, "2.1.3": 1, "2.2.1": 6, "2.2.2": 1, "3.1.0": 2, "3.1.2": 30,
    "3.1.3": 12, "3.1.4": 6, "3.2.0": 2, "3.2.2": 22, "3.3.1": 13, "3.3.2": 20, "3.3.4": 10,
    "3.4.2": 3, "3.5.2": 3, "3.6.1": 1, "3.6.2": 3, "3.7.2": 3, "3.8.1": 1, "3.8.3": 5, "3.8.4": 8,
    "3.9.2": 2, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2, "3.10.4": 6, "3.11.2": 2, "3.11.3": 2,
    "3.12.4": 1, "3.14.0": 1, "3.14.1": 1, "3.14.2": 4, "3.14.4": 3, "3.15.1": 1, "3.15.2": 3,
    "4.1.0": 2, "4.2": 1, "4.3.1": 1, "4.3.2": 5, "4.3.3": 13, "4.4.0": 2, "4.5.0": 2, "4.6.0": 6,
    "4.7.0": 1, "4.7.1": 2, "4.7.2": 1, "4.7.3": 4, "4.8.2": 6, "4.9.0": 3, "4.12.0": 7,
    "4.12.1": 2, "4.13.1": 1, "4.13.2": 1, "6.0.0": 4,
}  # fmt: skip
NO_SUCH_NUMBER = ("MQTT-2.2.1-1",)  # the standard of 5.0 begins there with 2


def rows(version: str) -> list[dict[str, str]]:
    with TABLES[version].open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def all_rows() -> list[dict[str, str]]:
    return [row for version in TABLES for row in rows(version)]


def counts(version: str) -> Counter[str]:
    """Statements by who is bound."""
    return Counter(row["side"] for row in rows(version))


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


def wanted(statements: dict[str, int]) -> list[str]:
    found = [
        f"MQTT-{section}-{n}" for section, count in statements.items() for n in range(1, count + 1)
    ]
    return [one for one in found if one not in NO_SUCH_NUMBER]


def test_every_statement_of_the_standards_has_one_row_and_nothing_else_has():
    for version, statements, count in (("3.1.1", STATEMENTS, 141), ("5.0", STATEMENTS_5, 251)):
        assert len(wanted(statements)) == count
        assert [row["id"] for row in rows(version)] == wanted(statements)


def test_every_row_is_filled_in():
    for row in all_rows():
        assert row["side"] in WITH_TESTS + WITH_REASON, row
        assert 10 < len(row["statement"]) <= 130, row
        assert list(row) == ["id", "statement", "side", "how"] and None not in row.values(), row


@pytest.mark.parametrize("version", TABLES)
def test_a_row_that_binds_a_client_names_tests_that_exist_and_the_others_a_reason(version):
    for row in rows(version):
        if row["side"] in WITH_TESTS:
            assert row["how"], row
            assert dangling(row["how"]) == [], row["id"]
        else:
            assert len(row["how"].split()) >= 4, "a reason, in words"
            assert "::" not in row["how"]


def test_statements_of_5_0_are_shown_by_tests_at_level_5():
    for row in rows("5.0"):
        if row["side"] in WITH_TESTS:
            files = {node.partition("::")[0] for node in row["how"].split()}
            assert all("level5" in file or file == "test_properties.py" for file in files), row


def test_the_counts_of_the_page():
    """firmware/README.md says them."""
    found = counts("5.0")
    assert found["client"] + found["both"] == 121
    assert found["server"] + found["application"] + found["not offered"] == 130


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


if __name__ == "__main__":
    for number in TABLES:
        found = counts(number)
        bound = sum(found[side] for side in WITH_TESTS)
        rest = ", ".join(f"{found[side]} {side}" for side in WITH_REASON)
        print(f"MQTT {number}: {found.total()} statements, {bound} bind a client, each with tests")
        print(f"    the others, each with a reason: {rest}")
