# cpython-only: compiles what `outpost flash` copies, for a board's modules on real littlefs
"""An update of every module fits on a stock Pico W beside the default outbox, whatever the power
does meanwhile.

OUTPOST_UPDATE_CUTS=50 is the long form.
"""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from outpost_tools.boards.files import needed, payload
from outpost_tools.boards.files.plan import digest
from outpost_tools.boards.port import kinds
from outpost_tools.boards.update import image
from paths import BENCH_BOARD, BOARDS, FAKES, FIRMWARE, REPOSITORY, UNIX_BOARD, joined
from real_broker import micropython

PROGRAM = Path(__file__).with_name("update_on_flash.py")
KEY, DEVICE = bytes(range(32)), "board-1"
BOARD = {"mode": "collector", "say_state": True, "commands": True, "update_key": KEY.hex()}
EVERYTHING = {
    "tls": True, "level": 5, "series": True, "encoding": "cbor", "deep_sleep": True,
    "when_full": "drop_oldest", "wifi_networks": [{"ssid": "Home"}],
    "sensors": [{"driver": "bme280"}, "ds18b20@2"],
}  # fmt: skip
CUTS = os.environ.get("OUTPOST_UPDATE_CUTS", "6")
SEED = os.environ.get("OUTPOST_UPDATE_SEED", "1")


def changed(data: bytes) -> bytes:
    """Another version of a file, a little longer."""
    return bytes([data[0] ^ 1]) + data[1:] + bytes(len(data) // 50)


def record_of(files: dict[str, bytes]) -> bytes:
    root = {f"/{path}": [digest(data)] for path, data in files.items() if "/" not in path}
    modules = [f"/{path}" for path in files if path.startswith(("station/", "support/"))]
    record = {"board": "RPI_PICO_W", "version": "0.1.0", "files": root, "modules": modules}
    return json.dumps(record | {"made": 1}).encode()


def made(folder: Path, **settings) -> int:
    """Returns how many files the board has."""
    kind = kinds.load(REPOSITORY, "RPI_PICO_W")
    full = needed.defaults() | BOARD | settings
    built = payload.build(REPOSITORY, kind, "armv6m", full)
    old = {path.lstrip("/"): data for path, data in built.items()}
    new = {path: changed(data) for path, data in old.items()}
    contents = [image.Content(path, data) for path, data in new.items()]
    update = image.make(
        contents, KEY, device=DEVICE, board="RPI_PICO_W", version="9.0", made_s=int(time.time())
    )
    more = {
        "settings.json": json.dumps(settings | BOARD).encode().ljust(900),
        "tls/ca-01234567.der": bytes(500),
    }
    for room, files in (
        ("old", old | more | {"outpost/installed.json": record_of(old)}),
        ("new", new | more),
    ):
        for path, data in files.items():
            (folder / room / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / room / path).write_bytes(data)
    (folder / "list").write_bytes(update.text)
    return len(old)


def run(folder: Path, cuts: str) -> dict:
    """What update_on_flash.py found."""
    path = joined(FAKES, UNIX_BOARD, BENCH_BOARD, FIRMWARE, BOARDS)
    done = subprocess.run(
        [*micropython("i386"), "-X", "heapsize=24M", str(PROGRAM), folder, cuts, SEED],
        env=os.environ | {"MICROPYPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    print(told)
    return told


@pytest.mark.parametrize(
    "settings",
    [
        {"tls": True},
        pytest.param({}, marks=pytest.mark.long),
        pytest.param({"tls": True, "series": True}, marks=pytest.mark.long),
        pytest.param({"tls": True, "level": 5, "mode": "broker"}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_an_update_of_every_module_fits_and_is_done_or_taken_back(settings, tmp_path):
    made(tmp_path, **settings)
    told = run(tmp_path, CUTS)
    assert sum(told["ends"].values()) == int(CUTS)
    assert told["ends"].keys() == {"kept: new", "failed: old"}


def test_one_that_does_not_fit_is_refused_before_it_changes_anything(tmp_path):
    made(tmp_path, **EVERYTHING)
    told = run(tmp_path, "0")
    assert re.fullmatch(r"\d+ blocks of flash are free, and the update needs \d+", told["ended"]), (
        told
    )
