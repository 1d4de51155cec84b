# cpython-only: tests lists and lines of the documentation with desktop tools
"""MicroPython's own ways to get Outpost onto a board: mpremote by hand, `mip install`, a frozen build. As the pages tell them."""

import contextlib
import functools
import http.server
import re
import shlex
import threading
import time

import pytest

from flash_rig import REPOSITORY, Rig, tree  # noqa: F401 - a fixture
from outpost_tools.device.plan import digest
from real_broker import wait_for

BOARDS = sorted(path.parent.name for path in (REPOSITORY / "boards").glob("*/manifest.py"))
HARDWARE = [name for name in BOARDS if name != "UNIX"]
PAGE = (REPOSITORY / "boards" / "README.md").read_text()

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def rig(tmp_path, tree):  # noqa: F811
    with Rig(tmp_path / "rig", tree) as found:
        yield found


def lines_with(text, word):
    """The commands of a page that hold the word."""
    return [line.strip().split("    #")[0].strip() for line in text.splitlines() if line.startswith("    ") and word in line]


def run_here(rig, line):
    """A line of a page, for this board and from a folder with these sources."""
    words = [
        name for word in shlex.split(line.replace("/dev/ttyACM0", rig.port)) for name in (globbed(rig.tree, word) or [word])
    ]  # fmt: skip
    assert words[0] == "mpremote"
    return rig.mpremote(*words[1:])


def globbed(folder, word):
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []


def modules_on(rig, folder):
    prefix = f"{folder}/outpost/"
    return {path.removeprefix(prefix): value.hex() for path, value in rig.hashes().items() if path.startswith(prefix)}


def sources():
    return {path.name: digest(path.read_bytes()) for path in (REPOSITORY / "firmware" / "outpost").glob("*.py")}


def test_mpremote_by_hand_as_the_page_says(rig):
    lines = lines_with(PAGE, "mpremote ")
    by_hand = [line for line in lines if " cp " in line]
    assert len(by_hand) == 2
    (rig.tree / "settings.json").write_text('{"device_id": "x", "broker_host": "127.0.0.1", "outbox_blocks": 8}')
    for line in by_hand:
        run_here(rig, line.replace("RPI_PICO_W", "RIG"))
    assert modules_on(rig, "") == sources()
    assert {"/board.py", "/main.py", "/settings.json"} <= set(rig.hashes())
    rig.power_cut()
    wait_for(lambda: rig.is_running_its_program, "its program")
    time.sleep(1)
    rig.mpremote("exec", "1")  # stopped
    assert "/outbox/map" in rig.hashes(), "it started, and pinned its outbox"


@contextlib.contextmanager
def served(folder):
    """The folder over HTTP on loopback: its address, and what was asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("way", ["http", "file"])
def test_mip_installs_every_module(way, rig):
    """The real `mpremote mip install`, of the list that the page names; the modules import from there."""
    (line,) = lines_with(PAGE, "mip install")
    assert line.endswith("firmware/package.json")
    with served(rig.tree) as (address, asked):
        package = f"{address}/firmware/package.json" if way == "http" else "firmware/package.json"
        rig.mpremote("mip", "install", package)
    assert modules_on(rig, "/lib") == sources()
    assert way == "file" or len(asked) == 1 + len(sources())
    said = rig.mpremote("exec", "from outpost.client import Client; from outpost.outbox import Outbox; print(Client, Outbox)")
    assert "class 'Client'" in said


def test_what_mip_installed_does_not_stand_in_the_way_of_flash(rig):
    """/outpost comes before /lib/outpost on a board's path."""
    rig.mpremote("mip", "install", "firmware/package.json")
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    said = rig.mpremote("exec", "import outpost.client as c; print(c.__file__)")
    assert said.strip() == "outpost/client.mpy"


@pytest.mark.parametrize("name", BOARDS)
def test_a_manifest_names_files_that_are_there(name):
    """Runs the freeze list as MicroPython's build does; the port's own list is the only thing not here."""
    frozen, foreign = set(), []

    def run(path):
        here = path.parent

        def include(other):
            foreign.append(other) if other.startswith("$(") else run((here / other).resolve())

        def module(file, base_path="."):
            assert (here / base_path / file).is_file(), file
            frozen.add(file)

        def package(folder, files, base_path="."):
            for file in files:
                assert (here / base_path / folder / file).is_file(), file
                frozen.add(f"{folder}/{file}")

        exec(compile(path.read_text(), path, "exec"), {"include": include, "module": module, "package": package})

    run(REPOSITORY / "boards" / name / "manifest.py")
    assert {f"outpost/{name}" for name in sources()} | {"board.py"} <= frozen
    assert len(foreign) == (name != "UNIX") and all(one.startswith("$(PORT_DIR)/boards/") for one in foreign)
    assert name == "UNIX" or "main.py" in frozen


# --- The pages ---


@pytest.mark.parametrize("name", HARDWARE)
def test_a_boards_page_gives_the_one_command_for_it(name):
    page = (REPOSITORY / "boards" / name / "README.md").read_text()
    commands = lines_with(page, "outpost ")
    assert f"outpost flash --board {name} --port /dev/tty" in " ".join(commands)
    assert "not tried on hardware" in page.lower()
    assert f"https://micropython.org/download/{name}/" in page


@pytest.mark.parametrize("page", [REPOSITORY / "boards" / "README.md", *sorted((REPOSITORY / "boards").glob("*/README.md"))])
def test_every_command_on_a_page_is_one_that_there_is(page):
    """Each `outpost` line parses; each file that it names from here is here."""
    for line in lines_with(page.read_text(), "outpost "):
        if line.startswith("outpost "):
            words = shlex.split(re.sub(r" > .*", "", line))
            assert parses(words[1:]), line


def parses(words):
    from outpost_tools import cli

    try:
        cli.build_parser(words[0]).parse_args(words)
        return True
    except SystemExit:
        return False
