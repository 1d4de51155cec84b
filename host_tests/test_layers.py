# cpython-only: parses sources with ast
"""The house's rules that no interpreter checks: dependencies one way, imports without side effects, lists that agree."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
FIRMWARE = REPOSITORY / "firmware"
MODULES = sorted(path.stem for path in (FIRMWARE / "outpost").glob("*.py") if path.stem != "__init__")

ALLOWED = {
    "status": set(),
    "viper": set(),
    "viper_crc": set(),
    "bytecode": set(),
    "settings": set(),
    "packets": set(),
    "reader": {"memory"},
    "ram": {"memory"},
    "memory": {"bytecode", "viper"},
    "crc": {"bytecode", "viper_crc"},
    "sectors": {"crc", "memory"},
    "telemetry": {"memory"},
    "outbox": {"crc", "memory", "outbox_setup", "sectors"},
    "outbox_setup": {"crc", "memory"},
    "pinned": {"crc", "memory"},
    "pinning": {"pinned"},
    "partition": set(),
    "policies": {"crc", "memory", "outbox"},
    "notes": {"memory", "outbox"},
    "session": {"connect_packet", "in_flight", "memory", "reader"},
    "in_flight": set(),
    "clock": {"session"},
    "subscribing": {"packets", "session"},
    "durable": {"session", "subscribing"},
    "streaming": {"subscribing"},
    "aio": set(),
    "exactly_once": {"packets", "session", "subscribing"},
    "station": {"session"},
    "client": {"session"},
    "connect_packet": {"packets"},
    "tls_link": {"session"},
    "wifi": {"session"},
    "ask": {"session"},
    "ntp": {"session"},
    "wifi_link": {"session"},
    "crash": set(),
    "chip_sensors": set(),
    "duty": {"session"},
    "esp32_board": {"chip_sensors", "partition", "wifi_board"},
    "rp2_board": {"chip_sensors", "session", "wifi_board"},
    "wear": {"chip_sensors"},
    "wifi_board": {"ask", "chip_sensors", "crash", "ntp", "pinned", "pinning", "session", "tls_link", "wifi", "wifi_link"},
}
SANS_IO = (
    "packets", "reader", "in_flight", "session", "connect_packet", "subscribing", "durable",
    "exactly_once", "streaming", "ram", "telemetry", "clock",
)  # fmt: skip


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            of_package = node.module == "outpost"
            found |= {f"outpost.{alias.name}" for alias in node.names} if of_package else {node.module or ""}
    return found


@pytest.mark.parametrize("module", MODULES)
def test_dependencies_point_one_way(module):
    ours = {name.split(".")[1] for name in imports(FIRMWARE / "outpost" / f"{module}.py") if name.startswith("outpost.")}
    assert ours <= ALLOWED[module], f"{module} may import {sorted(ALLOWED[module])} only"


@pytest.mark.parametrize("module", SANS_IO)
def test_sans_io_modules_know_no_stream_clock_or_flash(module):
    others = {name for name in imports(FIRMWARE / "outpost" / f"{module}.py") if not name.startswith("outpost.")}
    assert others <= {"micropython", "array"}, f"{module} must not import {others}"


@pytest.mark.parametrize("module", [name for name in MODULES if not name.startswith("viper")])  # viper is MicroPython's alone
def test_import_has_no_side_effects(module):
    """With sockets and files refused; the interpreter's own reading of modules goes on."""
    program = (
        "import asyncio, builtins, socket, sys\n"
        "def refused(*a, **k): raise SystemExit('side effect')\n"
        "builtins.open = refused; socket.socket = refused\n"
        f"import outpost.{module}\n"
    )
    paths = [str(FIRMWARE), str(REPOSITORY / "tools" / "cpython_stubs")]
    program = f"import sys; sys.path[:0] = {paths!r}\n" + program
    done = subprocess.run([sys.executable, "-I", "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_mip_list_and_freeze_list_name_every_module():
    """`mip install` and a frozen build bring the same files: all of them."""
    on_disk = {f"outpost/{path.name}" for path in (FIRMWARE / "outpost").glob("*.py")}
    mip = {target for target, _ in json.loads((FIRMWARE / "package.json").read_text())["urls"]}
    manifest = (FIRMWARE / "manifest.py").read_text()
    frozen = {f"outpost/{name}.py" for name in ast.literal_eval(manifest.split("MODULES = ")[1].split("\n\n")[0])}
    assert mip == on_disk
    assert frozen == on_disk


@pytest.mark.parametrize("path", sorted((FIRMWARE / "outpost").glob("*.py")), ids=lambda path: path.name)
def test_rooms_stay_small(path):
    """About 300 lines a module, none above 400: redesign a full room rather than add to it."""
    assert len(path.read_text().splitlines()) <= 400


def methods(tree: ast.Module) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """{class: (bases, {method: argument names})}"""
    return {
        node.name: (
            [base.id for base in node.bases if isinstance(base, ast.Name)],
            {part.name: [a.arg for a in part.args.args] for part in node.body if isinstance(part, ast.FunctionDef)},
        )
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def test_no_method_replaces_one_of_a_base_class_by_accident():
    """A subclass may replace a method only with the same arguments: a private name used twice would break the base unseen."""
    classes = {}
    for path in (FIRMWARE / "outpost").glob("*.py"):
        classes |= methods(ast.parse(path.read_text()))
    checked = 0
    for name, (bases, own) in classes.items():
        todo = list(bases)
        while todo:
            more, inherited = classes.get(todo.pop(), ([], {}))
            todo += more
            for method, arguments in own.items():
                if method in inherited and method != "__init__":
                    assert arguments == inherited[method], f"{name}.{method} replaces a method of a base class"
                    checked += 1
    assert checked > 20
