# cpython-only: reads folders and a page
"""A test is found by the name of its module: test_<module>.py, or a line in the table of
host_tests/README.md.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from paths import HOST_TESTS, REPOSITORY

README = (HOST_TESTS / "README.md").read_text(encoding="utf-8")
# of the product; their tests lie in the folders of the same names, or in system/
ROOMS = {"firmware", "boards"}
# the last: a test itself, which the page of its folder prints
NOT_MODULES = {"__init__", "manifest", "test_garden"}
_ROW = re.compile(r"^\| ([`\w, ]+) \| ((?:`[\w/]+\.py`(?:, )?)+) \|", re.MULTILINE)


def modules(repository: Path) -> set[str]:
    """Names of the modules that run on a board; each port's board.py counts as one."""
    found = [path for room in ROOMS for path in (repository / room).rglob("*.py")]
    return {path.stem for path in found} - NOT_MODULES


def names_of_tests(host_tests: Path) -> set[str]:
    folders = [host_tests / room for room in (*ROOMS, "system")]
    return {
        path.stem.removeprefix("test_") for folder in folders for path in folder.rglob("test_*.py")
    }


def table(text: str) -> dict[str, list[str]]:
    """{module: files that test it}, from the table of the page."""
    return {
        module: re.findall(r"`([\w/]+\.py)`", files)
        for names, files in _ROW.findall(text)
        for module in re.findall(r"`(\w+)`", names)
    }


def faults(
    known: set[str], by_name: set[str], rows: dict[str, list[str]], host_tests: Path
) -> list[str]:
    untested = sorted(known - by_name - set(rows))
    return (
        [
            f"{name}: neither a test_{name}.py nor a line in host_tests/README.md"
            for name in untested
        ]
        + [
            f"{name}: a line in host_tests/README.md, but no such module"
            for name in sorted(set(rows) - known)
        ]
        + [
            f"{name}: a line, though test_{name}.py is there"
            for name in sorted(set(rows) & by_name)
        ]
        + [
            f"{name}: {file} is not there"
            for name, files in rows.items()
            for file in files
            if not (host_tests / file).is_file()
        ]
    )


def test_every_module_of_the_firmware_and_the_boards_has_a_test_that_is_found():
    known = modules(REPOSITORY)
    assert len(known) > 40
    assert faults(known, names_of_tests(HOST_TESTS), table(README), HOST_TESTS) == []


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("", "lost: neither a test_lost.py nor a line in host_tests/README.md"),
        ("| `lost` | `boards/test_gone.py` | x |", "lost: boards/test_gone.py is not there"),
        (
            "| `lost`, `gone` | `boards/test_here.py` | x |",
            "gone: a line in host_tests/README.md, but no such module",
        ),
        (
            "| `lost`, `here` | `boards/test_here.py` | x |",
            "here: a line, though test_here.py is there",
        ),
    ],
)
def test_a_module_without_a_test_and_a_line_that_is_wrong_are_told(tmp_path, rows, says):
    (tmp_path / "firmware" / "deep").mkdir(parents=True)
    for name in ("__init__", "here", "lost"):
        (tmp_path / "firmware" / "deep" / f"{name}.py").write_text("")
    (tmp_path / "host_tests" / "boards").mkdir(parents=True)
    (tmp_path / "host_tests" / "boards" / "test_here.py").write_text("")
    host_tests = tmp_path / "host_tests"
    assert faults(modules(tmp_path), names_of_tests(host_tests), table(rows), host_tests) == [says]


def test_names_of_modules_are_unique():
    """There are no packages here: one name twice on the path would import the wrong file, or stop
    pytest.
    """
    # a package, and a board's own folder; pytest itself keeps the conftest.py of folders apart
    inside = {HOST_TESTS / "rigs" / "rp2040", HOST_TESTS / "rigs" / "rig_board"}
    names = Counter(
        path.stem
        for path in HOST_TESTS.rglob("*.py")
        if not inside & set(path.parents) and path.name != "conftest.py"
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_page_names_files_that_exist():
    named = set(re.findall(r"host_tests/[\w/]+\.py", README)) | set(
        re.findall(r"\]\(([\w/]+\.\w+)\)", README)
    )
    assert named
    gone = [
        name
        for name in sorted(named)
        if not ((REPOSITORY / name).exists() or (HOST_TESTS / name).exists())
    ]
    assert gone == []
