# cpython-only: parses sources with ast
"""The house's rules that no interpreter checks: dependencies one way, no I/O in the library, no
side effects of imports, lists that agree.

What may import what is computed from the sources (module_graph.py), imports in functions included.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import module_graph
from outpost import __version__
from paths import REPOSITORY

FIRMWARE = REPOSITORY / "firmware"
ROOMS = {
    "outpost": FIRMWARE / "outpost",
    "station": FIRMWARE / "station",
    "support": REPOSITORY / "boards" / "support",
}
FILES = module_graph.files(*ROOMS.values())
MODULES = {name: path for name, path in FILES.items() if path.stem != "__init__"}
GRAPH = module_graph.graph(FILES)
LIBRARY = [name for name in MODULES if name.startswith("outpost.")]
NAMES = {name.rpartition(".")[2]: name for name in MODULES}  # a module has one name in all rooms

# The doors: who may import whom. `main` puts the program together; `board` is the board's own
# module.
DOORS = {
    "outpost": set(),
    "station": {"outpost"},
    "support": {"outpost"},
    "main": {"board", "station", "outpost"},
    "board": {"support", "outpost"},
}
# Inside the library: what these, and all that they import, must not know.
_STORES = "outbox ram_outbox policies state_note series_outbox ring shelf"
_PACKETS = "packets connect_packet session"
_SESSIONS = "session subscribing durable queued exactly_once streaming in_flight level5"
STRANGERS = {
    "client": f"{_PACKETS} {_STORES}",
    **dict.fromkeys(_SESSIONS.split(), f"client aio {_STORES}"),
    **dict.fromkeys(_STORES.split(), f"client aio {_PACKETS}"),
}
# What the library may use besides itself. Files and streams are the caller's.
_INNOCENT = {"array", "builtins", "micropython", "struct"}
_MORE = {
    "aio": {"asyncio"},
    "file_flash": {"open"},  # these two are for programs without a board, and nothing imports them
    "plain_link": {"socket", "sys"},
    "level5_setup": {"open"},  # the file that keeps the client id that a server chose
    "memory": {"sys"},  # unload()
}
_REACHES_OUT = {"__import__", "compile", "eval", "exec", "input", "open", "print"}


def imports(path: Path) -> set[str]:
    return module_graph.imports(path.read_text(encoding="utf-8"), FILES)


def room_of(name: str) -> str:
    return name.partition(".")[0]


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if room_of(name) in DOORS}


def closed(names) -> set[str]:
    return module_graph.closed(names, GRAPH)


def test_a_module_has_one_name_in_all_rooms():
    """Tables and tracebacks are read without the folder."""
    assert len(NAMES) == len(MODULES)


def test_rooms_of_the_library_are_one_folder_deep():
    """update_record.py lets an update write no others; flat_layout.py knows no others."""
    assert {name.count(".") for name in LIBRARY} <= {1, 2}
    assert not {name for name in MODULES if name.count(".") > 1} - {*LIBRARY}


BOARDS = sorted(
    path for path in (REPOSITORY / "boards").glob("*/*.py") if path.parent.name != "support"
)


def room(path: Path) -> str:
    """The door at which a file stands."""
    for name, folder in ROOMS.items():
        if path.is_relative_to(folder):
            return name
    return "main" if path.name == "main.py" else "board"


@pytest.mark.parametrize(
    "path",
    [*FILES.values(), FIRMWARE / "main.py", *BOARDS],
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_the_doors_between_the_rooms_are_one_way(path):
    """Library, program and boards' support: the last two know the first, and not each other."""
    own = room(path)
    behind = {room_of(name) for name in ours(path)} - {own}
    assert behind <= DOORS[own], f"{own} may go to {sorted(DOORS[own])} only"


def doors_between_optional_rooms(of: module_graph.Graph) -> set[str]:
    """Who does not import an optional room does not pay for it; so none may need another."""
    found = set()
    for name in LIBRARY:
        own = name.rpartition(".")[0]
        behind = {one.rpartition(".")[0] for one in of[name] if one in MODULES}
        if own != "outpost":
            found |= {f"{name} -> {room}" for room in behind - {own, "outpost", "outpost.machine"}}
    return found


def strangers_known(name: str, of: module_graph.Graph) -> set[str]:
    known = {one.rpartition(".")[2] for one in module_graph.closed([NAMES[name]], of)}
    return known & set(STRANGERS[name].split()) - {name}


def test_optional_rooms_of_the_library_do_not_know_each_other():
    assert doors_between_optional_rooms(GRAPH) == set()


@pytest.mark.parametrize("name", STRANGERS)
def test_layers_of_the_library_do_not_know_each_other(name):
    assert strangers_known(name, GRAPH) == set()


@pytest.mark.parametrize(
    ("name", "other"),
    [("client", "outbox"), ("topics", "outbox"), ("memory", "client"), ("ring", "session")],
)
def test_a_layer_that_knows_another_is_found(name, other):
    """Also by way of a third."""
    changed = GRAPH | {NAMES[name]: {*GRAPH[NAMES[name]], NAMES[other]}}
    assert any(strangers_known(one, changed) for one in STRANGERS)


# --- Circles ---


def tools() -> dict[str, set[str]]:
    return module_graph.graph(module_graph.files(REPOSITORY / "tools" / "outpost_tools"))


def room_of_tools(name: str) -> str:
    """The folder of a module of tools/outpost_tools; a folder of arguments belongs to its room. A
    module that lies beside the folders is a room of its own."""
    folder = name if name in PACKAGES else name.rpartition(".")[0]
    return name if folder == "outpost_tools" else folder.removesuffix(".arguments")


PACKAGES = {
    ".".join(path.parent.relative_to(REPOSITORY / "tools").parts)
    for path in (REPOSITORY / "tools" / "outpost_tools").rglob("__init__.py")
}
# Who stands above whom, as ARCHITECTURE.md draws it: each imports only what comes after it.
FLOORS = (
    {"cli"},
    {"trying", "kit"},
    {"servers"},
    {"readings"},
    {"boards"},
    {"log", "store", "mqtt", "loopback", "attention", "pages"},
    {"messages", "terminal", "machine", "text", "errors"},
)


def floor_of(name: str) -> int:
    group = name.split(".")[1]
    return next(number for number, floor in enumerate(FLOORS) if group in floor)


def upstairs(of: module_graph.Graph) -> set[str]:
    """Imports of what stands above the importer."""
    return {
        f"{name} -> {other}"
        for name, others in of.items()
        for other in others
        if "." in name and "." in other and floor_of(other) < floor_of(name)
    }


def test_imports_of_the_tools_go_down():
    assert upstairs(tools()) == set()


@pytest.mark.parametrize(
    ("name", "other"),
    [("messages.ranges", "servers.alerts"), ("boards.flash.held", "servers.collect"),
     ("readings.report.page", "trying.demo"), ("mqtt.tls", "boards.port.kinds")],
)  # fmt: skip
def test_one_that_goes_up_is_found(name, other):
    name, other = f"outpost_tools.{name}", f"outpost_tools.{other}"
    assert upstairs(tools() | {name: {other}}) == {f"{name} -> {other}"}


def test_the_picture_has_every_room_of_the_tools():
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    picture = page.partition("## Rooms of the command")[2].partition("## Owners")[0]
    rooms = {room_of_tools(name) for name in tools()} - {"outpost_tools"}
    names = {room.rpartition(".")[2] for room in rooms}
    assert {name for name in names if not re.search(rf"\b{name}\b", picture)} == set()


BOARD_FILES = module_graph.files(
    *(path.parent for path in (REPOSITORY / "boards").glob("*/board.py"))
)
CIRCLES = {
    "firmware": GRAPH,
    "boards": module_graph.graph(FILES | BOARD_FILES),
    "tools": tools(),
    "rooms of the tools": module_graph.grouped(tools(), room_of_tools),
}


@pytest.mark.parametrize("where", CIRCLES)
def test_no_imports_go_in_a_circle(where):
    """Also not in a function, where a circle would not even fail."""
    assert module_graph.circles(CIRCLES[where]) == []


def test_circles_are_found(tmp_path):
    package = tmp_path / "house"
    for name, text in {
        "one": "def late():\n    from house import two",
        "two": "from house.room.three import x",
        "room/three": "import house.one",
        "apart": "from house import one",
        "room/__init__": "",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / f"{name}.py").write_text(text)
    found = module_graph.graph(module_graph.files(package))
    assert module_graph.circles(found) == [["house.one", "house.room.three", "house.two"]]
    assert module_graph.circles(module_graph.grouped(found, lambda name: name.rpartition(".")[0]))


# --- No I/O in the library ---


def reaching_out(source: str, name: str) -> set[str]:
    """What a module uses and must not: modules, and built-in functions."""
    used = {one for one in module_graph.imports(source, FILES) if room_of(one) != "outpost"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name | ast.Attribute):
            called = ast.unparse(node).removeprefix("builtins.")
            used |= {called} & _REACHES_OUT
    return used - _INNOCENT - _MORE.get(name, set())


@pytest.mark.parametrize("module", [*LIBRARY, "station.telemetry", "station.clock"])
def test_the_library_reaches_no_stream_clock_or_file(module):
    """The Client gets its stream from the link that it calls, and its time from the board."""
    source, name = MODULES[module].read_text(encoding="utf-8"), module.rpartition(".")[2]
    assert reaching_out(source, name) == set()


@pytest.mark.parametrize("module", ["session", "suspects", "queued", "outbox", "client"])
@pytest.mark.parametrize(
    "line",
    [
        "import socket, time", "from time import ticks_ms", "def late():\n    import os",
        "__import__('socket')", "open('a')", "import builtins\nbuiltins.open('a')",
        "from . import socket", "import asyncio", "from station import clock",
    ],
)  # fmt: skip
def test_one_that_does_is_found(module, line):
    source = MODULES[NAMES[module]].read_text(encoding="utf-8")
    assert reaching_out(f"{source}\n{line}\n", module) != set()


# --- What calls itself pure ---

_IMPURE = {
    *("asyncio", "fcntl", "glob", "http", "logging", "multiprocessing", "os", "pathlib", "random"),
    *("select", "selectors", "shutil", "signal", "socket", "ssl", "subprocess", "sys", "tempfile"),
    *("threading", "time", "urllib.request"),
}
# In the docstring at the head: bytes in, packets out
PURE = {
    name: path
    for name, path in module_graph.files(REPOSITORY / "tools" / "outpost_tools").items()
    if re.search(r"\bPure\b", ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
}
_AND_YET = {  # what the docstring says too, or what never decides an outcome
    "boards.broker.rights": {"os"},  # the salt of a password
    "servers.collect.exchange": {"os"},  # the name of this life of the collector
    "trying.demo.disasters": {"random"},  # by seed
    "trying.simulate.orders": {"random"},  # by seed
}


def impure(source: str) -> set[str]:
    """What reaches out of the process, or depends on when it runs."""
    names = module_graph.imports(source, PURE)
    found = {one for name in names for one in (name, name.partition(".")[0])} & _IMPURE
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            found |= {ast.unparse(node.func)} & (_REACHES_OUT | {"datetime.now", "datetime.today"})
    return found


@pytest.mark.parametrize("name", PURE)
def test_what_calls_itself_pure_is(name):
    assert impure(PURE[name].read_text("utf-8")) == _AND_YET.get(name.partition(".")[2], set())


@pytest.mark.parametrize(
    "line", ["import time", "from os import path", "def f():\n    open('a')", "datetime.now()"]
)
def test_what_is_not_pure_is_found(line):
    assert impure(f'"""Adds. Pure."""\n{line}\n')


# --- Imports without side effects ---

# With sockets and files refused; the interpreter's own reading of modules goes on. A process for
# each module, as each is imported first; forks, since Python and asyncio take long to start.
IMPORTS = """
import asyncio, builtins, importlib, os, socket, sys
def refused(*a, **k): raise SystemExit('side effect')
builtins.open = refused; socket.socket = refused
for module in sys.argv[1:]:
    child = os.fork()
    if not child:
        importlib.import_module(module)
        break
    if os.waitpid(child, 0)[1]: print(module, flush=True)
"""


def side_effects(modules: list[str], *folders: Path) -> str:
    """What importing each of them printed, and those that opened something."""
    paths = [str(path) for path in folders]
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {paths!r}\n{IMPORTS}", *modules],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )
    return done.stdout + done.stderr


def test_import_has_no_side_effects():
    # not the native modules: only MicroPython imports them
    modules = [name for name in MODULES if ".native" not in name]
    stubs = REPOSITORY / "tools" / "cpython_stubs"
    assert side_effects(modules, FIRMWARE, REPOSITORY / "boards", stubs) == ""


@pytest.mark.parametrize("line", ["open('a')", "import socket; socket.socket()", "print('a')"])
def test_a_side_effect_is_found(line, tmp_path):
    (tmp_path / "clean.py").write_text("")
    (tmp_path / "faulty.py").write_text(line)
    assert side_effects(["clean", "faulty", "clean"], tmp_path) in (
        "faulty\nside effect\n",
        "a\n",
    )


def test_the_library_alone_is_enough_for_each_of_its_modules():
    """Imported from a path that has no other room."""
    names = [name for name in MODULES if name.startswith("outpost.") and ".native" not in name]
    paths = [str(REPOSITORY / "tools" / "cpython_stubs")]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "outpost").symlink_to(ROOMS["outpost"])
        program = f"import sys; sys.path[:0] = {[folder, *paths]!r}\nimport {', '.join(names)}\n"
        program += "print(*[name for name in sys.modules "
        program += "if name.partition('.')[0] in ('station', 'support')])"
        done = subprocess.run(
            [sys.executable, "-I", "-c", program],
            check=False,
            capture_output=True,
            text=True,
            timeout=180,
        )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


# --- What brings the modules onto a board ---

_PLAIN = "plain_link file_flash"
MIP = {  # package: the modules that a program imports of it
    FIRMWARE / "client.json": "client session plain_link ram_outbox status",
    FIRMWARE
    / "client_outbox.json": "client session outbox ram_outbox status plain_link file_flash",
    FIRMWARE
    / "level5.json": "client session level5 outbox ram_outbox status plain_link file_flash",
}


def with_packages(names) -> set[str]:
    """With the packages in which they lie, as far as these have a file."""
    parts = [name.split(".") for name in names]
    found = {".".join(one[:count]) for one in parts for count in range(1, len(one) + 1)}
    return found & FILES.keys()


@pytest.mark.parametrize("package", MIP, ids=lambda path: path.name)
def test_a_mip_package_holds_what_its_modules_import_and_nothing_else(package):
    roots = [NAMES[name] for name in MIP[package].split()]
    paths = [FILES[name] for name in with_packages(closed(roots))]
    urls = json.loads(package.read_text())["urls"]
    assert sorted((package.parent / url).resolve() for _, url in urls) == sorted(paths)
    for target, url in urls:
        room, _, name = target.partition("/")
        assert (package.parent / url).resolve() == ROOMS[room] / name and ".." not in url


def test_mip_packages_have_the_firmwares_version():
    assert {json.loads(package.read_text())["version"] for package in MIP} == {__version__}


def test_the_freeze_list_takes_every_room_whole():
    taken = {}

    def package(name, files=None, base_path="."):
        taken[name] = (FIRMWARE / base_path / name).resolve()
        assert files is None, "no list that somebody must keep"

    exec((FIRMWARE / "manifest.py").read_text(), {"package": package})
    assert taken == ROOMS


@pytest.mark.parametrize("room", ["station", "support"])
def test_a_rooms_page_names_every_module(room):
    page = (ROOMS[room] / "README.md").read_text()
    assert not [
        name
        for name in MODULES
        if room_of(name) == room and f"`{name.partition('.')[2]}`" not in page
    ]


LONG = {
    "session.py": 720,  # one object: as three classes in three files it took 752 B of heap more
    "ring.py": 480,  # one object: as two classes in two files it took 552 B of heap more
    "suspects.py": 420,  # the law, the evidence and the trials: each needs the others
}


@pytest.mark.parametrize("path", FILES.values(), ids=lambda path: path.name)
def test_rooms_stay_small(path):
    """About 300 lines a module, few above 400: redesign a full room rather than add to it. But one
    class is not split over files for that."""
    most = 400 if path.name not in LONG else LONG[path.name]
    assert len(path.read_text().splitlines()) <= most


DRIVERS = sorted((REPOSITORY / "boards" / "sensors").glob("*.py"))


@pytest.mark.parametrize("path", DRIVERS, ids=lambda path: path.name)
def test_a_driver_is_one_file_that_knows_no_more_than_support(path):
    """No other driver either: a board gets those that its settings name."""
    assert ours(path) <= {"support.sensor_bus", "support.sensor_pin", "support.sensor_uart"}
    assert not [name for name in imports(path) if name.startswith("sensors")]


Methods = dict[str, list[tuple[list[str], dict[str, list[str]]]]]


def methods(trees) -> Methods:
    """{class: (bases, {method: argument names}) of each of that name}; an argument that is not used
    may have a _."""
    found: Methods = {}
    for node in (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)):
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
        own = {
            part.name: [a.arg.lstrip("_") for a in part.args.args]
            for part in node.body
            if isinstance(part, ast.FunctionDef)
        }
        found.setdefault(node.name, []).append((bases, own))
    return found


def replaced(classes: Methods) -> dict[str, bool]:
    """{class and method that replaces one of a base: is it called in the same way?}"""
    found: dict[str, bool] = {}
    for name, (bases, own) in ((name, one) for name, several in classes.items() for one in several):
        todo = list(bases)
        while todo:
            for more, inherited in classes.get(todo.pop(), []):
                todo += more
                for method in own.keys() & inherited.keys() - {"__init__"}:
                    is_same = own[method] == inherited[method]
                    key = f"{name}.{method}"
                    found[key] = found.get(key, True) and is_same
    return found


def parsed(paths) -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in paths]


TOOL_FILES = sorted((REPOSITORY / "tools" / "outpost_tools").rglob("*.py"))


@pytest.mark.parametrize(("where", "least"), [(MODULES.values(), 20), (TOOL_FILES, 60)])
def test_no_method_replaces_one_of_a_base_class_by_accident(where, least):
    """A subclass may replace a method only with the same arguments: a private name used twice would
    break the base unseen."""
    found = replaced(methods(parsed(where)))
    assert [name for name, is_same in found.items() if not is_same] == []
    assert len(found) > least


def test_one_that_does_is_found_two_classes_away():
    text = "class A:\n def f(self, a): 0\nclass B(A): 0\nclass C(B):\n def f(self): 0\n"
    assert replaced(methods([ast.parse(text)])) == {"C.f": False}
