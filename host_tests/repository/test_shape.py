# cpython-only: reads the repository
"""Lines have at most 100 columns, in every text file of the repository. A row of a Markdown table
cannot be wrapped, so it may be longer; nor can the name of a test (noqa: E501). Functions have at
most 40 lines, except machine code that each message runs through: it cannot call another cheaply.
"""

import ast
import subprocess

from paths import REPOSITORY

MOST_COLUMNS = 100
MOST_LINES = 40
FIELDS = {"session.py __init__", "ring.py __init__"}  # lists of fields with what they mean
MACHINE_CODE = {"native.py put_publish"}
# written by programs, or in their words
MADE = (".lock", ".json", ".csv", "mutants.txt", "slow_tests.txt")


def texts():
    """(path, lines) of each text file that git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True, text=True
    ).stdout
    for name in listed.split("\0"):
        path = REPOSITORY / name
        if not name or name.endswith(MADE) or not path.is_file():
            continue
        try:
            yield name, path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue


def too_long(name: str, lines: list[str]) -> list[str]:
    return [
        f"{name}:{number}: {len(line)} columns"
        for number, line in enumerate(lines, 1)
        if len(line) > MOST_COLUMNS
        and not (name.endswith(".md") and line.startswith("|"))
        and "# noqa: E501" not in line
    ]


def test_no_line_has_more_than_100_columns():
    found = [fault for name, lines in texts() for fault in too_long(name, lines)]
    assert not found, "\n".join(found)


def test_a_long_line_is_found_and_a_table_row_may_be_long():
    assert too_long("a.py", ["x" * 100, "x" * 101]) == ["a.py:2: 101 columns"]
    assert too_long("a.md", ["| " + "x" * 101]) == []


def functions(source: str):
    """(name, lines) of each function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


def test_no_function_has_more_than_40_lines():
    long = {
        f"{name.rsplit('/', 1)[-1]} {function}"
        for name, lines in texts()
        if name.endswith(".py")
        for function, count in functions("\n".join(lines))
        if count > MOST_LINES
    }
    assert long == FIELDS | MACHINE_CODE
