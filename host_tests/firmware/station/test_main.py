# cpython-only: starts boards as processes of MicroPython
"""firmware/main.py on the UNIX board, as a process: what it says when it cannot work, and that it
works.
"""

import json
import os
import subprocess
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from collector_process import wait_until
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_micropython
from paths import PRODUCT, REPOSITORY, joined
from series_samples import read

SETTINGS = {"device_id": "board-1", "broker_host": "127.0.0.1", "outbox_blocks": 4}


def run_board(
    folder: Path, settings: object, first: Path | str = "", **simulation: object
) -> subprocess.CompletedProcess:
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    if settings is not None:
        (folder / "settings.json").write_text(
            settings if isinstance(settings, str) else json.dumps(settings)
        )
    (folder / "simulation.json").write_text(json.dumps({"stop_file": "stop", **simulation}))
    env = {
        **os.environ,
        "MICROPYPATH": joined(first, *PRODUCT),
    }
    main = REPOSITORY / "firmware" / "main.py"
    return subprocess.run(
        [*command, main],
        cwd=folder,
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (None, "settings.json: not found"),
        ("{", "settings.json: not JSON"),
        ("[]", "one JSON object"),
        ({"device_id": "a"}, "'broker_host' is missing"),
        ({**SETTINGS, "brokr": 1}, "unknown key 'brokr'"),
        ({**SETTINGS, "broker_port": 99999}, "'broker_port' must be 1 to 65535"),
        ({**SETTINGS, "sensors": ["lod"]}, "unknown sensor 'lod'"),
    ],
)
def test_a_fault_in_the_settings_gives_one_line_that_names_the_key(tmp_path, settings, named):
    done = run_board(tmp_path, settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_region_with_something_else_in_it_is_refused_and_left_alone(tmp_path):
    foreign = b"someone else's data" * 4096
    (tmp_path / "flash.img").write_bytes(foreign[: 4 * 4096])
    done = run_board(tmp_path, SETTINGS)
    assert done.returncode == 1
    assert "outbox: cannot mount, status -11" in done.stderr
    assert (tmp_path / "flash.img").read_bytes() == foreign[: 4 * 4096]


def test_an_image_of_another_size_is_refused(tmp_path):
    (tmp_path / "flash.img").write_bytes(b"\xff" * 8 * 4096)
    done = run_board(tmp_path, SETTINGS)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "outbox_blocks: 4, but flash.img has 8 blocks" in done.stderr


def test_a_board_stores_loses_power_and_delivers_after_the_boot(tmp_path):
    """Broker mode. First without a broker, until the power goes in the 20th flash operation; then
    with one.
    """
    settings = {
        **SETTINGS,
        "mode": "broker",
        "interval_ms": 5,
        "broker_port": 1,
        "sensors": ["load"],
    }
    done = run_board(tmp_path, settings, cut_at_operation=20, cut_mode="first")
    assert done.returncode == 137
    journal = (tmp_path / "journal.txt").read_text().splitlines()
    stored = [line for line in journal if line.startswith("ok ")]
    assert len(stored) > 10
    (tmp_path / "stop").touch()
    with Broker("mosquitto", tmp_path / "broker") as broker:
        done = run_board(tmp_path, {**settings, "broker_port": broker.port})
    counters = json.loads((tmp_path / "counters.json").read_text())
    assert done.returncode == 0
    assert counters["acknowledged"] == len(stored)
    assert counters["held"] == counters["next_seq"]


def test_series_taken_back_are_delivered_with_all_their_samples(tmp_path):
    """Their records are longer than those of messages, and so must be the buffer, whatever the
    settings say now."""
    settings = {**SETTINGS, "mode": "broker", "interval_ms": 5, "broker_port": 1}
    done = run_board(
        tmp_path, {**settings, "series": True}, cut_at_operation=400, cut_mode="nothing"
    )
    assert done.returncode == 137, done.stderr
    (tmp_path / "stop").touch()
    payloads = []
    with Broker("mosquitto", tmp_path / "broker") as broker:
        peer = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        peer.on_message = lambda _client, _userdata, one: payloads.append(one.payload)
        peer.connect("127.0.0.1", broker.port)
        peer.loop_start()
        assert peer.subscribe("outpost/board-1/data", 1)[0] == 0
        done = run_board(tmp_path, {**settings, "broker_port": broker.port})
        assert done.returncode == 0, done.stderr
        held = json.loads((tmp_path / "counters.json").read_text())["acknowledged"]
        wait_until(lambda: len(payloads) == held)
        peer.loop_stop()
    series = [one for one in payloads if one[0] == 0xF5]
    stored = (tmp_path / "journal.txt").read_text().count("\nsample ")
    assert max(map(len, series)) > 400 and stored > 200
    assert sum(len(read(one)["samples"]) for one in series) == stored


def test_a_crash_is_kept_in_a_file_and_the_outbox_stays_as_it_was(tmp_path):
    settings = {
        **SETTINGS,
        "mode": "broker",
        "interval_ms": 5,
        "broker_port": 1,
        "sensors": ["load"],
    }
    (tmp_path / "counters.new").mkdir()  # the board wants to write a file there
    done = run_board(tmp_path, settings)
    assert (done.returncode, done.stdout) == (1, "")
    reason = (tmp_path / "crash.txt").read_text()
    assert reason.startswith("Traceback") and "OSError" in reason and len(reason) <= 1000
    assert reason in done.stderr
    stored = (tmp_path / "journal.txt").read_text().count("\nok ")
    (tmp_path / "counters.new").rmdir()
    (tmp_path / "stop").touch()
    with Broker("mosquitto", tmp_path / "broker") as broker:
        assert run_board(tmp_path, {**settings, "broker_port": broker.port}).returncode == 0
    assert stored > 0
    assert json.loads((tmp_path / "counters.json").read_text())["acknowledged"] == stored


DRIVER = """
READINGS = (("", "Cel", -1, -400, 850),)

class Driver:
    def __init__(self, options):
        self.count = 0
        {opens}

    def read(self):
        self.count += 1
        {reads}
"""
FAULTY = {  # name: (at construction, at a reading, what its fault is)
    "absent": ("raise OSError(19)", "pass", 1),
    "gone": ("pass", "if self.count > 3: raise OSError(5)\n        return 1", 1),
    "raises": ("pass", "raise ValueError('crc')", 2),
    "exits": ("pass", "raise SystemExit", 2),
    "nothing": ("pass", "return None", 3),
    "nan": ("pass", "return float('nan')", 4),
    "text": ("pass", "return '21.5'", 5),
    "hot": ("pass", "return 1 << 40", 6),
    "slow": ("import time", "import time; time.sleep(1.1); return 1", 7),
    "wrong": ("raise KeyError('x')", "pass", 2),
}


def test_every_fault_of_a_sensor_in_a_running_board(tmp_path):
    """What it sends, and what it prints; the load and a good driver go on in every message."""
    (tmp_path / "sensors").mkdir()
    for name, (opens, reads, _) in FAULTY.items():
        text = DRIVER.format(opens=opens, reads=reads)
        (tmp_path / "sensors" / f"{name}.py").write_text(text)
    (tmp_path / "sensors" / "good.py").write_text(DRIVER.format(opens="pass", reads="return 21.46"))
    sensors = ["load", *({"driver": name} for name in [*FAULTY, "good", "missing"])]
    settings = {**SETTINGS, "mode": "broker", "interval_ms": 5, "sensors": sensors}
    settings |= {"broker_port": 1, "outbox_blocks": 32}
    done = run_board(tmp_path, settings, first=tmp_path, cut_at_operation=70, cut_mode="first")
    assert done.returncode == 137, done.stderr
    journal = (tmp_path / "journal.txt").read_text().splitlines()
    packs = [json.loads(line.split(" ", 2)[2]) for line in journal if line.startswith("ok ")]
    assert len(packs) > 40
    told = {}
    for pack in packs:
        found = {one["n"]: one["v"] for one in pack}
        assert found.keys() & {"load", "good"}
        told |= {name: found[name] for name in found if name.endswith(".fault") and found[name]}
    names = [one["n"] for pack in packs for one in pack]
    assert names.count("load") >= 20 and abs(names.count("load") - names.count("good")) <= 1
    assert all(one["v"] == 21.5 for pack in packs for one in pack if one["n"] == "good")
    numbers = {f"{name}.fault": number for name, (_, _, number) in FAULTY.items()}
    assert told == numbers | {"missing.fault": 8}
    for name in numbers:
        assert f"sensor {name.removesuffix('.fault')}: " in done.stdout
    assert "sensor missing: not usable ImportError no module named 'sensors.missing'" in done.stdout
