# cpython-only: reads the tools' source
"""Log and tables are reached through a Store and no other way: modules that know paths of this
machine are named here, each with its reason."""

import ast

import pytest

from paths import REPOSITORY

TOOLS = REPOSITORY / "tools" / "outpost_tools"
MODULES = {"pathlib", "shutil", "tempfile", "glob", "fcntl", "fileinput"}
CALLS = {"open", "io.open", "os.open", "os.fdopen"}
OF_OS = {
    *("access", "link", "listdir", "makedirs", "mkdir", "remove", "rename", "replace", "rmdir"),
    *("scandir", "stat", "symlink", "truncate", "unlink", "utime", "walk", "fsync", "path"),
}
ALLOWED = {
    "pipeline": {
        "archive.py": "writes this package as a zip, where the user says",
        "arguments/package.py": "the same, as an argument",
        "rounds.py": "spark.log, which a JVM writes to",
        "session.py": "the same, and the zip that Spark's executors fetch",
        "settings.py": "looks for Spark's own folder",
    },
}


def uses(source: str) -> set[str]:
    """What a module's source has of paths."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name.split(".")[0] in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} if node.module.split(".")[0] in MODULES else set()
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
            found.add(ast.unparse(node.func))
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os":
            found |= {f"os.{node.attr}"} if node.attr in OF_OS else set()
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_only_modules_that_are_named_know_paths_of_this_machine(package):
    files = sorted((TOOLS / package).rglob("*.py"))
    found = {}
    for path in files:
        if known := uses(path.read_text(encoding="utf-8")):
            found[path.relative_to(TOOLS / package).as_posix()] = known
    assert files and {*found} == {*ALLOWED[package]}, found


@pytest.mark.parametrize(
    "source",
    [
        "from pathlib import Path",
        "import os\nos.replace('a', 'b')",
        "open('x')",
        "import os.path\nos.path.join('a')",
        "def f(): import shutil",
    ],
)
def test_a_path_is_seen_in_any_form(source):
    assert uses(source)


def test_other_uses_of_the_same_modules_are_none():
    assert not uses("import os\nos.environ['X']\nos.getpid()\nstore.open('x')\nopener('y')")


def test_the_seam_itself_is_three_modules():
    """A folder of this machine, what makes a Store of a path, and the clouds' files of keys."""
    found = {path.name for path in (TOOLS / "store").glob("*.py") if uses(path.read_text())}
    assert found == {"at.py", "keys.py", "local.py"}
