# cpython-only: tests lists and lines of the documentation with desktop tools
"""MicroPython's own ways to get Outpost onto a board: mpremote by hand, `mip install`, a frozen
build. As the pages tell them.
"""

import contextlib
import functools
import http.server
import json
import shlex
import threading
import time

import pytest

from flash_rig import MPY, REPOSITORY, SETTINGS, Rig
from outpost_tools import cli
from outpost_tools.boards.files import needed
from outpost_tools.boards.files.plan import digest
from real_broker import wait_for

BOARDS = sorted(path.parent.name for path in (REPOSITORY / "boards").glob("*/manifest.py"))
HARDWARE = [name for name in BOARDS if name != "UNIX"]
PAGE = (REPOSITORY / "boards" / "README.md").read_text()

pytestmark = pytest.mark.timeout(600)


def lines_with(text, word):
    """The commands of a page that hold the word."""
    return [
        line.strip().split("    #")[0].strip()
        for line in text.splitlines()
        if line.startswith("    ") and word in line
    ]


def run_here(rig, line):
    """A line of a page, for this board and from a folder with these sources."""
    words = [
        name
        for word in shlex.split(line.replace("/dev/ttyACM0", rig.port))
        for name in (globbed(rig.tree, word) or [word])
    ]
    assert words[0] == "mpremote"
    return rig.mpremote(*words[1:])


def globbed(folder, word):
    return (
        sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
    )


ROOMS = [REPOSITORY / place for place in ("firmware/outpost", "firmware/station", "boards/support")]


def modules_on(rig, folder):
    """Path below the folder -> SHA-256, of the files in the three packages."""
    prefixes = tuple(f"{folder}/{room.name}/" for room in ROOMS)
    return {
        path.removeprefix(f"{folder}/"): value.hex()
        for path, value in rig.hashes().items()
        if path.startswith(prefixes)
    }


def sources():
    return {
        f"{path.relative_to(room.parent)}": digest(path.read_bytes())
        for room in ROOMS
        for path in room.rglob("*.py")
    }


@pytest.mark.long
def test_by_hand_as_the_page_says_with_the_settings_of_the_example(rig, monkeypatch, capsys):
    """A stock filesystem, the default outbox; the board starts, and pins its blocks."""
    monkeypatch.chdir(rig.tree)
    lines = [line for line in lines_with(PAGE, "kitchen") if "build" in line or "cp -r" in line]
    assert [line.split()[0] for line in lines] == ["outpost", "mpremote"]
    given = SETTINGS | {"mode": "collector", "interval_ms": 10_000}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())
    (rig.tree / "kitchen.toml").write_text(text)
    words = lines[0].replace("armv6m", MPY[rig.architecture]).replace("RPI_PICO_W", "RIG").split()
    assert cli.main(words[1:]) == 0, capsys.readouterr()
    run_here(rig, lines[1])
    kitchen = rig.tree / "kitchen"
    copied = {
        f"/{path.relative_to(kitchen)}": digest(path.read_bytes())
        for path in kitchen.rglob("*")
        if path.is_file()
    }
    found = {path: value.hex() for path, value in rig.hashes().items()}
    assert copied.items() <= found.items() and len(copied) > 40
    for patience_s in (1, 2, 4, 8, 16, 32, 64):  # to look is to stop it
        rig.power_cut()
        wait_for(lambda: rig.is_running_its_program, "its program")
        time.sleep(patience_s)
        pinned = [path for path in rig.hashes() if path.startswith("/outbox/")]
        if "/outbox/map" in rig.hashes():
            assert len(pinned) == 1 + needed.defaults()["outbox_blocks"] == 1 + 64
            return
    raise AssertionError("it does not start, or does not pin its outbox")


@contextlib.contextmanager
def served(folder):
    """The folder over HTTP on loopback: its address, and what was asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


MIP = ("firmware/client.json", "firmware/client_outbox.json", "firmware/level5.json")
_IMPORT_ALL = """
import os, sys
rooms = [name for name in os.listdir("/lib") if name in ("outpost", "station", "support")]
for room in rooms:
    for name in os.listdir("/lib/" + room):
        name, dot, _ = name.partition(".")
        if not dot:
            rooms.append(room + "/" + name)
        elif name not in ("__init__", "aio", "esp32_board", "rp2_board"):
            __import__((room + "/" + name).replace("/", "."))
print(*sorted(name for name in sys.modules if "outpost." in name))
"""


def test_the_page_names_the_mip_packages():
    assert [line.split()[5] for line in lines_with(PAGE, "mip install")] == [*MIP]


@pytest.mark.parametrize("package", MIP)
@pytest.mark.parametrize("way", ["http", pytest.param("file", marks=pytest.mark.long)])
def test_mip_installs_a_package_and_all_of_it_imports(way, package, rig):
    """The real `mpremote mip install` of each by itself; its modules import with nothing else on
    the board.
    """
    wanted = [target for target, _ in json.loads((REPOSITORY / package).read_text())["urls"]]
    with served(rig.tree) as (address, asked):
        rig.mpremote("mip", "install", f"{address}/{package}" if way == "http" else package)
    assert modules_on(rig, "/lib") == {
        path: value for path, value in sources().items() if path in wanted
    }
    assert way == "file" or len(set(asked)) == 1 + len(wanted)
    assert "outpost.client" in rig.mpremote("exec", _IMPORT_ALL)
    free = rig.mpremote("exec", "import os; s = os.statvfs('/'); print(s[0] * s[3] // 4096)")
    assert int(free) > 64 + 8, "an outbox of the default size"


@pytest.mark.long
def test_what_mip_installed_does_not_stand_in_the_way_of_flash(tmp_path, tree):
    """/outpost comes before /lib/outpost on a board's path."""
    with Rig(tmp_path / "rig", tree) as rig:
        rig.mpremote("mip", "install", "firmware/client_outbox.json")
        assert rig.outpost("flash", "--no-link") == 0, rig.err
        said = rig.mpremote("exec", "import outpost.client as c; print(c.__file__)")
        assert said.strip() == "outpost/client.mpy"


@pytest.mark.parametrize("name", BOARDS)
def test_a_manifest_names_files_that_are_there(name):
    """Runs the freeze list as MicroPython's build does; the port's own list is the only thing not
    here.
    """
    frozen, foreign = set(), []

    def run(path):
        here = path.parent

        def include(other):
            foreign.append(other) if other.startswith("$(") else run((here / other).resolve())

        def module(file, base_path="."):
            assert (here / base_path / file).is_file(), file
            frozen.add(file)

        def package(folder, base_path="."):
            place = (here / base_path).resolve()
            frozen.update(str(file.relative_to(place)) for file in (place / folder).rglob("*.py"))

        exec(
            compile(path.read_text(), path, "exec"),
            {"include": include, "module": module, "package": package},
        )

    run(REPOSITORY / "boards" / name / "manifest.py")
    assert {*sources(), "board.py"} <= frozen
    assert len(foreign) == (name != "UNIX") and all(
        one.startswith("$(PORT_DIR)/boards/") for one in foreign
    )
    assert name == "UNIX" or "main.py" in frozen


# --- The pages ---


@pytest.mark.parametrize("name", HARDWARE)
def test_the_boards_page_has_each_board_with_its_micropython(name):
    page = (REPOSITORY / "boards" / "BOARDS.md").read_text()
    assert f"| `{name}` |" in page and f"https://micropython.org/download/{name}/ |" in page
    assert "outpost flash --board RPI_PICO_W --port /dev/tty" in page
    assert "tried on hardware" in page
