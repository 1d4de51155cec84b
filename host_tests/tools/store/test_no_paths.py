# cpython-only: reads the tools' source
"""Log and tables are reached through a Store and no other way. What touches files of this machine
is found in the source, function by function; each has its reason here. test_no_files.py runs the
commands on a bucket and sees what they open."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePath

import pytest

from paths import REPOSITORY

TOOLS = REPOSITORY / "tools" / "outpost_tools"
MODULES = {"shutil", "tempfile", "glob", "fcntl", "fileinput"}
CALLS = {"open", "io.open"}
OF_OS = {
    *("access", "fdopen", "fsync", "link", "listdir", "makedirs", "mkdir", "open", "path"),
    *("remove", "rename", "replace", "rmdir", "scandir", "stat", "symlink", "truncate", "unlink"),
    *("utime", "walk"),
}
# Methods of a Path; those that a Store, a text, a datetime or a table has too are told apart by
# what they are called on, or by their arguments.
OF_PATH = {
    *("expanduser", "glob", "hardlink_to", "is_dir", "is_file", "iterdir", "mkdir", "open"),
    *("read_bytes", "read_text", "resolve", "rglob", "stat", "symlink_to", "touch", "unlink"),
    *("with_name", "with_suffix", "write_bytes", "write_text"),
}
PLACES = {"--log", "--tables", "--upload"}  # options that take a URL: no Path
OF_SEGMENT = {
    "segment.read_bytes",
    "self.segment.read_bytes",
    "path.read_bytes",
}  # log.segments.Segment has it, too

# {package: {module, or module and function: reason}}
ALLOWED = {
    "readings/pipeline": {
        "archive.py": "writes this package as a zip, where the user says",
        "rounds.py _log_file": "spark.log, which a JVM writes to",
        "session.py": "the same, and the zip that Spark's executors fetch",
        "settings.py": "looks for Spark's own folder",
    },
    "readings/export": {
        "arguments.py": "the file or folder that the user wants, on his disk",
        "days.py": "the same: a file for each day, and a note beside them",
    },
    "servers/live": {
        "app.py": "serves the page of `outpost report`, a file that the user names",
        "collecting.py": "locks of a collector on this machine; unknown for a bucket",
        "follow.py DiskTail": "the segment that grows; a bucket has none: StoreTail",
        "follow.py _bytes_of": "the same",
        "follow.py Follower.start": "says that a file is no folder",
    },
    "servers/collect": {
        "access.py": "the credentials of `outpost broker`",
        "audit.py": "what DiskLog has told about damage",
        "disk_log.py": "the log on this machine; a bucket has store_log.py",
        "identifiers.py": "the same, of IdentifierFile",
        "link.py": "asks a socket how much it holds",
        "state.py": "the snapshot on this machine, of DiskLog",
        "upload.py": "reads the segments on this machine, which it copies to a Store",
    },
    "log": {"segments.py": "writes and recovers segments on this machine; reads by Store or Path"},
    "readings/report": {
        "outages.py": "the file of events that the user names",
        "page.py": "the page that the user wants, on his disk",
    },
}


def uses(source: str) -> dict[str, set[str]]:
    """{function: what it does with paths of this machine}, without what is only an annotation."""
    found = defaultdict(set)
    for where, use in _uses(ast.parse(source), ""):
        found[where].add(use)
    return dict(found)


def _uses(node: ast.AST, where: str) -> Iterator[tuple[str, str]]:
    for name, value in ast.iter_fields(node):
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, ast.AST) or name in ("annotation", "returns"):
                continue
            inside = where
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{where}.{one.name}".lstrip(".")
            yield from ((inside, use) for use in _of_node(one))
            if not _is_option(one):
                yield from _uses(one, inside)


def _is_option(node: ast.AST) -> bool:
    """An argument of the command line that takes a file: `type=Path` is no use of it yet."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("add_argument"):
        return False
    names = {one.value for one in node.args if isinstance(one, ast.Constant)}
    return not names & PLACES


def _of_node(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and node.id in {"Path", *MODULES}:
        yield node.id
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os" and node.attr in OF_OS:
        yield f"os.{node.attr}"
    if isinstance(node, ast.Call):
        said = ast.unparse(node.func)
        on, _, method = said.rpartition(".")
        if said in CALLS or (method in OF_PATH and on not in ("", "os", "io", *MODULES)):
            yield said


def found_in(package: str) -> dict[str, set[str]]:
    """{module and function: uses}."""
    found = {}
    for path in sorted((TOOLS / package).rglob("*.py")):
        module = path.relative_to(TOOLS / package).as_posix()
        for where, said in uses(path.read_text(encoding="utf-8")).items():
            if said := said - OF_SEGMENT:
                found[f"{module} {where}".strip()] = said
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_only_what_is_named_touches_files_of_this_machine(package):
    found, allowed = found_in(package), ALLOWED[package]
    covers = {key: [one for one in found if _covers(key, one)] for key in allowed}
    covered = {one for several in covers.values() for one in several}
    assert not found.keys() - covered, {one: found[one] for one in found.keys() - covered}
    assert not [key for key, several in covers.items() if not several], "nothing there needs it"


def _covers(key: str, one: str) -> bool:
    return one == key or one.startswith((f"{key} ", f"{key}."))


@pytest.mark.parametrize(
    "source",
    [
        "from pathlib import Path\nPath('x')",
        "import os\nos.replace('a', 'b')",
        "open('x')",
        "import os.path\nos.path.join('a')",
        "def f():\n import shutil\n shutil.copy('a', 'b')",
        "def f(log):\n return (log / 'a').read_text()",
        "class A:\n def f(self):\n  return self.log.iterdir()",
        "parser.add_argument('--log', type=Path)",
        "def f(log, made=Path('x')): pass",
    ],
)
def test_a_path_is_seen_in_any_form(source):
    assert uses(source)


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['X']\nos.getpid()\nopener('y')",
        "from pathlib import Path\ndef f(x: Path | None) -> Path:\n y: Path = x",
        "parser.add_argument('--out', type=Path)",
        "store.get('x')\nstore.exists('y')\nstore.size('z')",
    ],
)
def test_other_uses_of_the_same_modules_are_none(source):
    assert not uses(source)


def test_the_place_in_the_source_is_told():
    source = "class A:\n def f(self): return open('x')\ndef g(): return B.stat()"
    assert uses(source) == {"A.f": {"open"}, "g": {"B.stat"}}


def test_the_seam_itself_is_three_modules():
    """A folder of this machine, what makes a Store of a path, and the clouds' files of keys."""
    assert {PurePath(one.split()[0]).name for one in found_in("store")} == {
        "at.py", "keys.py", "local.py"
    }  # fmt: skip
