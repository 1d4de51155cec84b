# cpython-only: parses sources with ast
"""The house's rules that no interpreter checks: dependencies one way, imports without side effects,
lists that agree.
"""

import ast
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from outpost import __version__
from paths import REPOSITORY

FIRMWARE = REPOSITORY / "firmware"
ROOMS = {
    "outpost": FIRMWARE / "outpost",
    "station": FIRMWARE / "station",
    "support": REPOSITORY / "boards" / "support",
}
FILES = {
    f"{room}.{path.stem}": path
    for room, folder in ROOMS.items()
    for path in sorted(folder.glob("*.py"))
}
MODULES = {name: path for name, path in FILES.items() if path.stem != "__init__"}

# The doors: who may import whom. `main` puts the program together; `board` is the board's own
# module.
DOORS = {
    "outpost": set(),
    "station": {"outpost"},
    "support": {"outpost"},
    "main": {"board", "station", "outpost"},
    "board": {"support", "outpost"},
}
# And inside a room. What a room takes from the library is written in full.
ALLOWED = {
    "outpost.aio": set(),
    "outpost.checksum": {"native_checksum", "portable"},
    "outpost.client": {"session"},
    "outpost.connect_packet": {"memory", "topics"},
    "outpost.durable": {"reader", "session", "subscribing"},
    "outpost.properties": {"reader"},
    "outpost.queued": {"durable", "session"},
    "outpost.exactly_once": {"packets", "subscribing"},
    "outpost.in_flight": set(),
    "outpost.level5": {
        "level5_refusals", "level5_setup", "level5_subscribing", "memory", "packets", "properties",
    },
    "outpost.level5_aliases": {"memory"},
    "outpost.level5_expiry": {"session_base"},
    "outpost.level5_refusals": {"session_base"},
    "outpost.level5_setup": {
        "level5_aliases", "level5_expiry", "properties", "subscribing", "topics",
    },
    "outpost.level5_subscribing": {"level5", "level5_setup", "memory", "packets", "properties"},
    "outpost.memory": {"native", "portable"},
    "outpost.native": set(),
    "outpost.native_checksum": set(),
    "outpost.outbox": {
        "checksum",
        "memory",
        "outbox_format",
        "outbox_mount",
        "outbox_settle",
        "ring",
        "shelf",
    },
    "outpost.outbox_format": {
        "checksum",
        "memory",
        "outbox_marks",
        "outbox_mount",
        "outbox_settle",
    },
    "outpost.outbox_geometry": {"checksum", "memory"},
    "outpost.outbox_marks": {"checksum"},
    "outpost.outbox_mount": {"checksum", "memory", "outbox_geometry", "outbox_marks", "shelf"},
    "outpost.outbox_settle": {"checksum", "memory"},
    "outpost.outbox_setup": set(),
    "outpost.packets": set(),
    "outpost.policies": {"checksum", "memory", "outbox"},
    "outpost.native_series": {"native", "native_checksum"},
    "outpost.portable_series": {"checksum", "memory"},
    "outpost.series": {"memory", "reader", "series_bits", "series_outbox"},
    "outpost.series_bits": {"native_series", "portable_series"},
    "outpost.series_outbox": {"checksum", "memory", "outbox_format", "series_bits"},
    "outpost.portable": set(),
    "outpost.ram_outbox": {"memory", "ram_shelf"},
    "outpost.ram_shelf": set(),
    "outpost.reader": {"memory"},
    "outpost.ring": {"memory", "outbox_settle", "sectors"},
    "outpost.sectors": {"checksum", "memory", "outbox_setup"},
    "outpost.session": {"connect_packet", "in_flight", "memory", "session_base"},
    "outpost.session_base": {"memory", "reader", "suspects"},
    "outpost.shelf": {"checksum", "memory", "shelf_block"},
    "outpost.shelf_block": {"checksum", "memory"},
    "outpost.state_note": {"memory", "outbox"},
    "outpost.status": set(),
    "outpost.streaming": {"subscribing"},
    "outpost.subscribing": {"memory", "packets", "reader", "session", "topics"},
    "outpost.suspects": {"memory", "packets", "reader", "session"},
    "outpost.topics": {"reader"},
    "station.about": set(),
    "station.clock": {"outpost.session"},
    "station.command_note": {"outpost.checksum"},
    "station.command_text": set(),
    "station.commanded_station": set(),
    "station.commands": {
        "command_note", "command_text", "commanded_station", "settings", "trial", "outpost.memory",
        "outpost.session", "outpost.subscribing",
    },
    "station.deep_sleep": {"outpost.session", "unheard"},
    "station.flash_wear": set(),
    "station.guard": {"outpost.session", "hung"},
    "station.hung": set(),
    "station.health": set(),
    "station.sensor_notices": set(),
    "station.series_station": {"outpost.series", "outpost.series_outbox", "station"},
    "station.settings": set(),
    "station.state": set(),
    "station.station": {"outpost.session"},
    "station.telemetry": {"outpost.memory"},
    "station.telemetry_cbor": {"telemetry"},
    "station.trial": {"command_note"},
    "station.unheard": set(),
    "station.updatable": {
        "commands", "outpost.memory", "outpost.session", "update_record", "update_start",
        "update_take",
    },
    "station.update_record": {"command_note", "update_start"},
    "station.update_start": set(),
    "station.update_take": {"command_note", "update_record", "update_start"},
    "support.chip_sensors": {"sensor_bus", "sensor_file"},
    "support.crash_log": set(),
    "support.dns": {"outpost.session"},
    "support.esp32_board": {"chip_sensors", "partition", "wifi_board"},
    "support.ntp": {"outpost.session"},
    "support.partition": set(),
    "support.pinned": {"outpost.checksum", "outpost.memory"},
    "support.pinning": {"pinned"},
    "support.rp2_board": {"chip_sensors", "outpost.session", "wifi_board"},
    "support.sensor_bus": set(),
    "support.sensor_file": set(),
    "support.sensor_pin": set(),
    "support.sensor_uart": set(),
    "support.tls_link": {"outpost.session"},
    "support.wifi": {"outpost.session"},
    "support.wifi_board": {
        "chip_sensors", "crash_log", "dns", "ntp", "outpost.memory", "outpost.session", "pinned",
        "pinning", "tls_link", "wifi", "wifi_link", "wifi_networks",
    },
    "support.wifi_link": {"outpost.session"},
    "support.wifi_networks": set(),
}  # fmt: skip
SANS_IO = (
    "outpost.packets", "outpost.connect_packet", "outpost.reader", "outpost.in_flight",
    "outpost.session", "outpost.subscribing", "outpost.durable", "outpost.exactly_once",
    "outpost.streaming", "outpost.ram_outbox", "outpost.level5", "outpost.level5_aliases",
    "outpost.level5_expiry",
    "outpost.level5_refusals",
    "outpost.level5_subscribing", "outpost.properties", "station.telemetry", "station.clock",
)  # fmt: skip


def imports(path: Path) -> set[str]:
    """The modules that a file imports, in its functions too: `from package import module` is
    package.module.
    """
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if node.module in ROOMS else {node.module or ""}
    return found


def room_of(name: str) -> str:
    return name.partition(".")[0]


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if room_of(name) in DOORS}


@pytest.mark.parametrize("module", MODULES)
def test_dependencies_point_one_way(module):
    room = room_of(module)
    found = {name.removeprefix(f"{room}.") for name in ours(MODULES[module])}
    assert found <= ALLOWED[module], f"{module} may import {sorted(ALLOWED[module])} only"


def test_the_list_of_dependencies_names_every_module_and_no_other():
    assert ALLOWED.keys() == MODULES.keys()
    known = {name.rpartition(".")[2] for name in MODULES}
    assert len(known) == len(MODULES), (
        "a module has one name in all rooms: tables and tracebacks are read without the folder"
    )


BOARDS = sorted(
    path for path in (REPOSITORY / "boards").glob("*/*.py") if path.parent.name != "support"
)


@pytest.mark.parametrize(
    "path",
    [*FILES.values(), FIRMWARE / "main.py", *BOARDS],
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_the_doors_between_the_rooms_are_one_way(path):
    """Library, program and boards' support: the last two know the first, and not each other."""
    room = (
        path.parent.name
        if path.parent.name in ROOMS
        else "main"
        if path.name == "main.py"
        else "board"
    )
    behind = {room_of(name) for name in ours(path)} - {room}
    assert behind <= DOORS[room], f"{room} may go to {sorted(DOORS[room])} only"


@pytest.mark.parametrize("module", SANS_IO)
def test_sans_io_modules_know_no_stream_clock_or_flash(module):
    others = {name for name in imports(MODULES[module]) if room_of(name) != "outpost"}
    assert others <= {"array", "builtins", "micropython"}, f"{module} must not import {others}"


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

MIP = {  # package: the modules that a program imports of it; None: all there are
    FIRMWARE / "client.json": ("outpost.client", "outpost.ram_outbox", "outpost.status"),
    FIRMWARE / "client_outbox.json": (
        "outpost.client",
        "outpost.outbox",
        "outpost.ram_outbox",
        "outpost.status",
    ),
    FIRMWARE / "level5.json": (
        "outpost.client",
        "outpost.level5",
        "outpost.outbox",
        "outpost.ram_outbox",
        "outpost.status",
    ),
    REPOSITORY / "package.json": None,
}


def closed(names) -> set[str]:
    """With all that they import, and what that imports."""
    todo, found = list(names), set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += ours(MODULES[name])
    return found


@pytest.mark.parametrize("package", MIP, ids=lambda path: path.name)
def test_a_mip_package_holds_what_its_modules_import_and_nothing_else(package):
    wanted = MODULES.keys() if MIP[package] is None else closed(MIP[package])
    files = {f"{name.replace('.', '/')}.py" for name in wanted} | {
        f"{room_of(name)}/__init__.py" for name in wanted
    }
    urls = json.loads(package.read_text())["urls"]
    assert sorted(target for target, _ in urls) == sorted(files)
    for target, url in urls:
        room, name = target.split("/")
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


@pytest.mark.parametrize("path", FILES.values(), ids=lambda path: path.name)
def test_rooms_stay_small(path):
    """About 300 lines a module, none above 400: redesign a full room rather than add to it."""
    assert len(path.read_text().splitlines()) <= 400


DRIVERS = sorted((REPOSITORY / "boards" / "sensors").glob("*.py"))


@pytest.mark.parametrize("path", DRIVERS, ids=lambda path: path.name)
def test_a_driver_is_one_file_that_knows_no_more_than_support(path):
    """No other driver either: a board gets those that its settings name."""
    assert ours(path) <= {"support.sensor_bus", "support.sensor_pin", "support.sensor_uart"}
    assert not [name for name in imports(path) if name.startswith("sensors")]


def methods(tree: ast.Module) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """{class: (bases, {method: argument names})}"""
    return {
        node.name: (
            [base.id for base in node.bases if isinstance(base, ast.Name)],
            {
                part.name: [a.arg for a in part.args.args]
                for part in node.body
                if isinstance(part, ast.FunctionDef)
            },
        )
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def test_no_method_replaces_one_of_a_base_class_by_accident():
    """A subclass may replace a method only with the same arguments: a private name used twice would
    break the base unseen.
    """
    classes = {}
    for path in MODULES.values():
        classes |= methods(ast.parse(path.read_text()))
    checked = 0
    for name, (bases, own) in classes.items():
        todo = list(bases)
        while todo:
            more, inherited = classes.get(todo.pop(), ([], {}))
            todo += more
            for method, arguments in own.items():
                if method in inherited and method != "__init__":
                    assert arguments == inherited[method], (
                        f"{name}.{method} replaces a method of a base class"
                    )
                    checked += 1
    assert checked > 20
