# cpython-only: the built wheel, real mosquitto, MicroPython and Chromium
# ruff: noqa: F811 - fixtures of built_package
"""From an empty folder and the wheel, without the extras, to a board's values on the page: the
commands of the newcomer's page as they are typed, with a mistake before each of them. Each mistake
says what was wrong and what to do, and the next command goes on with nothing lost.

The board is the rig's: 32-bit MicroPython behind a pseudo-terminal.
"""

import json
import re
import signal
import socket
import subprocess
import time

import pytest

import browser_rig
from built_package import bare, run, source, users_environment, wheel  # noqa: F401 - fixtures
from collector_process import wait_until
from flash_rig import Rig
from home_run import Home
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from paths import RIGS

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
browser_rig.skip_without()


class Newcomer:
    """Types commands in an empty folder."""

    def __init__(self, outpost, folder):
        self._outpost, self.folder = outpost, folder
        folder.mkdir()

    def types(self, text, status=0, said=()):
        """The command's status, and what its output must say; the output."""
        finished = run([self._outpost, *text.split()], self.folder, JAVA_HOME="/nowhere")
        output = finished.stdout + finished.stderr
        assert finished.returncode == status, f"outpost {text}: {output}"
        for one in said if isinstance(said, tuple) else (said,):
            assert one in output, f"outpost {text}: {output}"
        assert "Traceback" not in output
        return output

    def types_and_interrupts(self, text, when):
        """Ctrl-C as soon as it says `when`."""
        process = subprocess.Popen(
            [self._outpost, *text.split()], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        with process:
            for line in process.stdout:
                if when in line:
                    process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130

    def writes(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o600)


@pytest.fixture
def newcomer(bare, tmp_path):
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    return Newcomer(bare, tmp_path / "empty")


@pytest.fixture
def home(newcomer, bare):
    made = Home(newcomer.folder, "--minutes", "15", command=(bare,))
    try:
        yield made
    finally:
        children.kill(made.process)


@pytest.fixture
def board(tmp_path):
    with Rig(tmp_path / "rig", tmp_path) as rig:
        yield rig


def started(newcomer, home):
    """`outpost run`, after the mistakes that somebody may make at it."""
    page = f"--host 127.0.0.1 --listen 127.0.0.1:{home.page_port} --metrics-port "
    page += f"{home.metrics_port} --port"
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        newcomer.types("rnu home", 2, "invalid choice: 'rnu'")
        newcomer.types("run home --hots x", 2, "outpost run: error: unrecognized arguments: --hots")
        newcomer.types("run home --listen 0.0.0.0:8180", 2, "give --password-file")
        newcomer.writes("file", "")
        newcomer.types("run file", 2, "file: is a file; give the name of a folder")
        newcomer.types(
            f"run home {page} {taken}", 1, f"port {taken}: another program has it"
        )  # or an own address that is another one's
    home.start(users_environment())
    home.wait_for("ready")
    assert re.search(r"tables   none.*outpost-mqtt\[tables,report\]", home.text())


def provisioned(newcomer, board):
    """A settings file on the board."""
    newcomer.types("broker add home kitchen", 2, "the broker's folder is")
    newcomer.types("broker add home/broker my/kitchen", 2, "use 1 to 32 of A-Z a-z 0-9")
    newcomer.types("broker add home/broker kitchen", 0, "board kitchen: credentials in")
    newcomer.types("broker add home/broker attic")
    where = "--credentials home/broker/boards/kitchen.json"
    newcomer.writes("old.toml", newcomer.types("provision --example"))
    newcomer.types(f"provision --board RPI_PICO_W {where} old.toml", 2, "delete those keys")
    newcomer.writes("kitchen.toml", newcomer.types(f"provision --example {where}"))
    newcomer.types(f"provision --board RPI_PICO_W {where} kitchen.toml", 0, "checked")
    newcomer.types(f"provision --board RPI_PICOW {where} kitchen.toml", 2, "one of ESP32_GENERIC")
    # this board has no Wi-Fi, and measures more often
    newcomer.writes("kitchen.toml", 'device_id = "kitchen"\nmode = "collector"\ninterval_ms = 200')
    to = f"provision --board {RIGS / 'rig_board'} --credentials home/broker"
    newcomer.types(f"{to} --port /dev/ttyACM99 kitchen.toml", 2, "outpost devices")
    newcomer.types(f"{to} --prot {board.port} kitchen.toml", 2, "--prot: did you mean --port?")
    newcomer.types(f"{to} --port {board.port} kitchn.toml", 2, "kitchn.toml: cannot be read")
    newcomer.types(
        f"{to}/boards/attic.json --port {board.port} kitchen.toml", 2, "those of 'attic'"
    )
    newcomer.types(f"{to} --port {board.port} kitchen.toml", 0, "written: /tls/ca-")


def flashed(newcomer, board):
    """The firmware on the board, which is confirmed by the collector."""
    to = f"flash --board {RIGS / 'rig_board'} --port {board.port} --link-timeout 8"
    newcomer.types(f"{to.replace(board.port, '/dev/ttyACM99')}", 2, "no such port")
    newcomer.types(f"{to} --credentials home/broker", 2, "--credentials needs --settings")
    newcomer.types_and_interrupts(f"{to} --settings kitchen.toml --credentials home/broker",
                                  "compiling")  # fmt: skip
    newcomer.writes("wrong.toml", 'device_id = "kitchen"\nbroker_host = "no.such.invalid"\n')
    newcomer.types(f"{to} --settings wrong.toml", 1, "link       failed")
    kitchen = json.loads((newcomer.folder / "home/broker/boards/kitchen.json").read_text())
    newcomer.writes("wrong.json", json.dumps(kitchen | {"password": "wrong"}))
    newcomer.types(  # what was measured in the meantime goes to the right broker
        f"{to} --settings kitchen.toml --credentials wrong.json --held move", 1,
        "the broker does not take 'user' and 'password'",
    )  # fmt: skip
    plain = f'broker_host = "127.0.0.1"\nbroker_port = {kitchen["port"]}\n'
    newcomer.writes("plain.toml", f'device_id = "kitchen"\n{plain}')
    newcomer.types(f"{to} --settings plain.toml", 1, "does it want TLS")
    # 80 s for what is right; one file, the TLS that a board with plain.toml does without
    newcomer.types(
        f"{to}0 --settings kitchen.toml --credentials home/broker", 0,
        ("1 copied", "left as they were", "the collector confirmed it after"),
    )  # fmt: skip


def test_from_an_empty_folder_to_values_on_the_page(newcomer, home, board, tmp_path):
    began = time.monotonic()
    started(newcomer, home)
    provisioned(newcomer, board)
    flashed(newcomer, board)
    wait_until(lambda: 'outpost_reading{board="kitchen",sensor="count"' in home.page("/metrics"))
    print(f"from nothing to values: {time.monotonic() - began:.0f} s, every step wrong once")
    with browser_rig.Browser(browser_rig.find(), tmp_path / "browser") as browser:
        browser.load(f"http://127.0.0.1:{home.page_port}/", 1280, 900)
        browser.wait_for("document.body.innerText.includes('kitchen')")
        browser.wait_for("document.body.innerText.includes('count')")
        before = browser.ask("document.body.innerText")
        browser.wait_for(f"document.body.innerText !== {json.dumps(before)}")
        assert not browser.errors
    assert home.terminate(signal.SIGINT) == 0  # in the middle; the board measures on
    time.sleep(2)
    home.start()
    home.wait_for("ready", times=2)
    highest = max(home.stored())
    wait_until(lambda: max(home.stored()) > highest + 20)
    stored = home.stored()
    assert stored == set(range(max(stored) + 1)), "from the first message on, none is missing"
    assert home.terminate() == 0 and "Traceback" not in home.text()
