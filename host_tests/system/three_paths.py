#!/usr/bin/env python3
"""The first hour of three people (and the line of a fourth): every line of README and of the home
guide, read from the page and typed as it is printed, at real brokers and boards of real MicroPython
behind pseudo-terminals.

    .venv/bin/python host_tests/system/three_paths.py            with the set-up that is there
    .venv/bin/python host_tests/system/three_paths.py --fresh    a clone and an empty home each
    .venv/bin/python host_tests/system/three_paths.py --fresh --write    and the table of the page

Fails if a line does not do what the page says, if the pages have a line that nobody types and
NOT_TYPED does not explain, or if they have lost one. A surprise is a step that a person has to
take, or a result, and no page told. Nothing finds those: they are written here, beside their steps.
The browser's form is sent by this program.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

if __name__ == "__main__":  # otherwise conftest.py has done so
    sys.path[:0] = paths.ALL

from built_package import built, copied, with_required
from flash_rig import Rig
from made_broker import HOST, AclBroker
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from page_lines import python_of, sections
from paths import REPOSITORY, RIGS
from person import Lines, Person, Section
from setup_server import SetupServer

README, GUIDE = Path("README.md"), Path("tools/outpost_tools/servers/home/README.md")
FIRST, TRY = (README, "Outpost"), (README, "Try it")
NOTHING = (README, "From nothing to values on a page")
BROKER = (README, "With a broker that is there already")
OWN = (README, "A program of your own")
HOME = (GUIDE, "From an empty folder to a board's values on a page")
SECTIONS = (FIRST, TRY, NOTHING, BROKER, OWN, HOME)

REPLACEMENTS = (  # an example of the page, by what this machine has: a port, a board, a program
    (r"outpost run home(?! --broker)", "outpost run home --port {tls} {page_ports}"),
    (r"(outpost run home --broker) HOST:PORT", r"\1 127.0.0.1:{mqtt} {page_ports}"),
    (r"outpost setup home", "outpost setup home --no-open --port {port} --board {board}"),
    (r"--board RPI_PICO_W", "--board {board}"),
    (r"/dev/ttyACM0", "{port}"),
    (r"homeassistant\.local:1883|127\.0\.0\.1:1883", "127.0.0.1:{mqtt}"),
    (r"mosquitto -p 1883", "mosquitto -p {mqtt}"),
    (r"~/\.cache/outpost/bin/mosquitto", "{mosquitto}"),
    (r"127\.0\.0\.1:8180", "127.0.0.1:{page}"),
    (r"mpremote run", "mpremote connect {port} run"),
    (r"outpost test main\.py", "outpost test hello.py"),
)
NOT_TYPED = {
    "sensor → outbox": "a drawing",
    "└→ bridge": "a drawing",
    "make power-loss": "an hour; host_tests/fuzz runs fewer cuts",
    "make test": "runs this",
    "outpost monitor --port": "for a board that does not publish",
}
FRESH_ONLY = {  # with the set-up that is there, its programs are used
    "make setup": "1.8 GB",
    ". .venv/bin/activate": "the tests run in it",
    "make demo": "minutes; host_tests/tools/trying/demo runs it",
    "pipx install": "fetches packages",
    "pip wheel": "host_tests/repository/test_package.py builds it",
    "python3 -m venv": "fetches packages",
    "pip install": "fetches packages",
    "outpost fetch mosquitto": "it is there",
}
BASELINE = REPOSITORY / "host_tests" / "baselines" / "three_paths.csv"


# --- The people ---


@contextlib.contextmanager
def a_board(person: Person) -> Iterator[Rig]:
    """Plugged in: the rig's, which wants a Wi-Fi's name as a Pico W does."""
    folder = person.folder.parent / f"{person.folder.name}-board"
    if not folder.exists():
        shutil.copytree(RIGS / "rig_board", folder)
        about = json.loads((folder / "board.json").read_text())
        (folder / "board.json").write_text(json.dumps(about | {"wifi": True}))
    with Rig(Path(tempfile.mkdtemp(dir=folder.parent)), REPOSITORY) as rig:
        person.here |= {"port": rig.port, "board": folder}
        yield rig


def maker(person: Person) -> None:
    address = person.replaced(page_of(NOTHING))
    with person.leaves(NOTHING, "outpost run home", lambda said: "ready" in said) as log:
        assert f"page     {address}" in log.read_text(), log.read_text()
        with a_board(person):
            in_the_browser(person)
            person.sees(address, "hall", "count")
            person.types(NOTHING, "outpost export")
            assert "hall" in (person.folder / "r.csv").read_text()
        with a_board(person):
            in_the_terminal(person)
            person.sees(address, "hall", "kitchen")
            saves_the_program(person)
            person.types(
                OWN, "mpremote run", status=1, said="Stuck: home/kitchen",
                surprise="hello.py is refused on a board of `outpost run home`, whose user has "
                "rights to its own topics alone; the error says so",
            )  # fmt: skip


def page_of(where: Section) -> str:
    """The address that the section names."""
    text = sections(REPOSITORY / where[0])[where[1]]
    return re.search(r"http://127\.0\.0\.1:\d+/", text)[0]


def in_the_browser(person: Person) -> None:
    """`outpost setup home`, whose form is sent as the page sends it."""
    line = person.takes(NOTHING, "outpost setup home")
    person.takes(HOME, "outpost setup home")
    command = ["bash", "-c", f"exec {line}"]
    with SetupServer(person.folder, command=command, environment=person.around) as server:
        person.does("outpost setup home", server.enter)
        form = {"values": {"device_id": "hall"}, "own": ["count"], "networks": [{"ssid": "Home"}]}
        order = {"task": "flash", "port": person.here["port"], "form": form}

        def sent() -> None:
            posted = server.post("jobs", order | {"board": str(person.here["board"])})
            lines = server.finished(posted["job"])
            assert lines[-1] == {"end": "good"}, lines

        person.does("fills in the form: name, Wi-Fi, sensors; Flash", sent)


def in_the_terminal(person: Person) -> None:
    person.takes(HOME, "outpost run home")
    person.types(HOME, "outpost broker add")
    person.types(HOME, "outpost provision --example")
    person.types(HOME, "chmod 600")
    person.fills_in("kitchen.toml", wifi_ssid="Home", wifi_password="correct horse")
    person.types(HOME, "outpost devices")
    person.types(HOME, "outpost flash", said="the collector confirmed it after")
    person.types(HOME, "outpost alerts example")
    person.types(HOME, "outpost service")


def owner_of_a_broker(person: Person) -> None:
    users = "user kitchen\ntopic readwrite #\nuser outpost\ntopic readwrite #"
    at = Path(tempfile.mkdtemp(dir=person.folder.parent))
    with AclBroker(at, ("kitchen", "outpost"), users) as broker, a_board(person):
        person.here["mqtt"] = broker.port
        person.types(BROKER, "outpost provision --example")
        person.types(BROKER, "chmod 600")
        person.fills_in(
            "kitchen.toml", wifi_ssid="Home", wifi_password="correct horse", mode="broker",
            broker_host=HOST, broker_port=broker.port, user="kitchen", password="kitchen",
        )  # fmt: skip
        person.types(BROKER, "outpost flash", said="the broker took it after")
        with person.leaves(BROKER, "outpost monitor", lambda said: "message " in said):
            pass
        word = person.folder / "word.txt"
        person.does("writes word.txt: the password of the user outpost",
                    lambda: word.write_text("outpost\n"))  # fmt: skip
        discovered(person, broker)
        with person.leaves(BROKER, "outpost run home", lambda said: "ready" in said):
            person.fills_in("kitchen.toml", mode="collector")
            person.types(BROKER, "outpost flash", said="the collector confirmed it after")
            person.sees(person.replaced(page_of(NOTHING)), "kitchen", "count")


def discovered(person: Person, broker: AclBroker) -> None:
    """Home Assistant is told of the board."""
    with broker.peer("outpost") as home_assistant:
        home_assistant.subscribe("homeassistant/#")

        def is_discovered(_said: str) -> bool:
            home_assistant.client.loop(0.01)
            return any("kitchen" in topic for topic, _ in home_assistant.received)

        with person.leaves(BROKER, "outpost republish", is_discovered):
            pass


def saves_the_program(person: Person) -> None:
    program = python_of(REPOSITORY / README, OWN[1])
    person.does("saves hello.py", lambda: (person.folder / "hello.py").write_text(program))


def firmware_engineer(person: Person) -> None:
    saves_the_program(person)
    port = person.here["mqtt"]
    with person.leaves(OWN, "~/.cache/outpost/bin/mosquitto", lambda _said: _listens(port)):
        person.types(OWN, "outpost try", said="delivered: 1 acknowledged")
        person.types(FIRST, "outpost test", said="nothing lost")
        with a_board(person):
            person.types(BROKER, "outpost provision --example")
            person.fills_in("kitchen.toml", wifi_ssid="Home", mode="broker", broker_host=HOST,
                            broker_port=port)  # fmt: skip
            person.types(BROKER, "outpost flash", said="the broker took it after")
            person.types(OWN, "mpremote run", said="delivered: ")


def _listens(port: object) -> bool:
    try:
        socket.create_connection((HOST, int(port)), 1).close()
    except OSError:
        return False
    return True


# --- With the set-up that is there ---


def with_set_up(at: Path) -> Iterator[tuple[Person, Callable[[Person], None]]]:
    """Each person in an empty folder; the firmware engineer with the wheel alone."""
    lines = Lines(REPOSITORY, SECTIONS)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    around = children.tools_environment(PATH=programs)
    yield Person("maker", at / "maker", lines, around, REPLACEMENTS), maker
    yield Person("owner of a broker", at / "owner", lines, around, REPLACEMENTS), owner_of_a_broker
    wheel = built(copied(at / "source"), at / "wheel")
    outpost = with_required(wheel, at / "env")
    around = {name: value for name, value in around.items() if name != "PYTHONPATH"}
    around["PATH"] = f"{outpost.parent}:{programs}"
    engineer = Person("firmware engineer", at / "engineer", lines, around, REPLACEMENTS)
    engineer.here["mosquitto"] = shlex.join(find_mosquitto())
    yield engineer, firmware_engineer
    _all_typed(lines, NOT_TYPED | FRESH_ONLY)


def _all_typed(lines: Lines, explained: dict[str, str]) -> None:
    if left := lines.left(explained):
        raise AssertionError("neither typed nor explained:\n" + "\n".join(left))


# --- From a clone, in an empty home ---


def fresh(at: Path) -> Iterator[tuple[Person, Callable[[Person], None]]]:
    lines = Lines(REPOSITORY, SECTIONS)
    for name, install, path in (
        ("maker", by_make, maker),
        ("owner of a broker", by_pipx, owner_of_a_broker),
        ("firmware engineer", by_wheel, firmware_engineer),
        ("data engineer", lambda _person: None, data_engineer),
    ):
        home = at / name.replace(" ", "_")
        home.mkdir()
        person = Person(name, home, lines, empty_home(home), REPLACEMENTS)
        person.phase = "install"
        person.here["mosquitto"] = "~/.cache/outpost/bin/mosquitto"
        person.does("git clone", lambda home=home: cloned(home / "outpost"))
        person.folder = home / "outpost"
        install(person)
        person.phase = "use"
        yield person, path
    _all_typed(lines, NOT_TYPED)


def empty_home(home: Path) -> dict[str, str]:
    """The environment of somebody who has Python and git, and pipx."""
    left_out = ("PYTHON", "XDG_", "VIRTUAL_ENV", "OUTPOST", "CI")
    kept = {name: one for name, one in os.environ.items() if not name.startswith(left_out)}
    own = str(Path(sys.executable).parent)
    path = [one for one in kept["PATH"].split(":") if one != own]
    return kept | {"HOME": str(home), "PATH": ":".join([f"{home}/.local/bin", *path])}


def cloned(folder: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", REPOSITORY, folder], check=True)


def by_make(person: Person) -> None:
    person.types(NOTHING, "make setup")
    person.types(NOTHING, ". .venv/bin/activate")


def by_pipx(person: Person) -> None:
    tool = person.folder.parent / "pipx"

    def install() -> None:
        subprocess.run([sys.executable, "-m", "venv", tool], check=True)
        pip = [tool / "bin" / "pip", "install", "--quiet", "--quiet", "--quiet", "pipx"]
        subprocess.run(pip, check=True)

    person.does(
        "installs pipx, and puts ~/.local/bin on the PATH", install,
        surprise="pipx is not part of Debian's Python: `apt install pipx` wants root",
    )  # fmt: skip
    person.around["PATH"] += f":{tool / 'bin'}"
    person.types(NOTHING, "pipx install")


def by_wheel(person: Person) -> None:
    person.types(HOME, "pip wheel")
    (wheel,) = person.folder.glob("outpost_mqtt-*.whl")
    person.folder = person.folder.parent / "empty"
    person.folder.mkdir()
    person.does("takes the wheel into an empty folder", lambda: shutil.copy(wheel, person.folder))
    person.types(HOME, "python3 -m venv")
    person.types(HOME, "pip install")
    person.types(HOME, "outpost fetch mosquitto")


def data_engineer(person: Person) -> None:
    person.types(TRY, "make demo", said="EXACT")
    report = re.search(r"open (\S+\.html)", sections(REPOSITORY / README)[TRY[1]])[1]
    person.does(f"opens {report}", lambda: (person.folder / report).read_text().index("EXACT"))


# --- What is reported ---


def rows_of(people: list[Person]) -> list[list[object]]:
    """As bench_readme.py reads them."""
    return [
        [one.name, step.phase, step.text, f"{step.seconds:.1f}", step.surprise]
        for one in people
        for step in one.steps
    ]


def run(at: Path, *, is_fresh: bool = False) -> list[Person]:
    people = []
    for person, path in fresh(at) if is_fresh else with_set_up(at):
        print(f"{person.name}:", flush=True)
        path(person)
        people.append(person)
    for person in people:
        surprises = [step.surprise for step in person.steps if step.surprise]
        seconds = sum(step.seconds for step in person.steps)
        print(f"{person.name}: {len(person.steps)} steps, {seconds:.0f} s, surprises: {surprises}")
    return people


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--fresh", action="store_true", help="from a clone, in an empty home")
    parser.add_argument("--write", action="store_true", help="with --fresh: the page's table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="outpost-paths-") as folder:
        people = run(Path(folder), is_fresh=args.fresh)
    if args.write and args.fresh:
        with BASELINE.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows_of(people))
        import bench_readme

        bench_readme.write()


if __name__ == "__main__":
    main()
