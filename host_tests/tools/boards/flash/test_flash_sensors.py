# cpython-only: tests a desktop tool
"""A board with an own sensor file and ready ones, as boards/sensors/README.md says: flashed by the
real mpremote, read once, its values and faults shown, its messages looked at; settings that do not
fit a driver."""

import ast
import json
import re
import shutil

import pytest

from flash_rig import SETTINGS
from outpost_tools.boards.port import kinds
from outpost_tools.boards.selftest import sensor_check
from outpost_tools.boards.settings import sensor_drivers, settings_file
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker
from outpost_tools.messages.message import decode
from paths import BOARDS, REPOSITORY
from real_broker import Observer, need_mosquitto

EXAMPLE = BOARDS / "sensors" / "example" / "soil.py"
ATTIC = '{driver = "bme280", name = "attic", scl = 5, sda = 4}'
BATTERY = '{driver = "battery", pin = 26}'
DOOR = '{driver = "digital", name = "door", pin = 7, invert = 1}'
BED = '{driver = "soil", name = "bed", pin = 27}'
AIR = '{driver = "mhz19", name = "air", tx = 8, rx = 9}'
FOUR = (ATTIC, BATTERY, DOOR, BED)

pytestmark = pytest.mark.timeout(600)


def settings(rig, *sensors, **more):
    values = SETTINGS | {"outbox_blocks": 8} | more
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    path = rig.folder / "kitchen.toml"
    path.write_text("\n".join([*lines, f"sensors = [{', '.join(sensors)}]", ""]))
    return path


def wire(rig, **wiring):
    (rig.folder / "wiring.json").write_text(json.dumps(wiring))


def rows(rig):
    """Of the sensors, by name."""
    lines = re.findall(r"^sensor +(\w+): (.*)$", rig.out, re.MULTILINE)
    return dict(lines)


def drivers_of(rig):
    return sorted(path for path in rig.hashes() if path.startswith("/sensors/"))


@pytest.mark.long
def test_an_own_sensor_and_three_ready_ones_as_the_page_says(rig, tmp_path):
    need_mosquitto()
    wire(rig, bme280=0x76, millivolts={"26": 1920, "27": 1500})
    shutil.copy(EXAMPLE, rig.folder / "soil.py")
    with (
        Broker("mosquitto", tmp_path / "broker") as broker,
        Observer(broker.port, "observer", ("outpost/rig-1/data", 1)) as observer,
    ):
        path = settings(rig, *FOUR, broker_port=broker.port)
        assert rig.outpost("flash", "--settings", path) == 0, rig.err + rig.out
        assert rows(rig) == {
            "count": "1",
            "attic": "temperature 25.08 Cel, humidity 45.50 %RH, pressure 100656 Pa",
            "battery": "voltage 3.838 V, level 49 %EL",
            "door": "0 /",
            "bed": "moisture 74 %, raw 29788",
        }
        observer.wait(20)
        found = decode("outpost/rig-1/data", observer.messages[-1].payload.encode())
    named = {reading.name: (reading.value, reading.unit) for reading in found.readings}
    assert named["attic_temperature"] == (25.08, "Cel") and named["bed_moisture"] == (74, "%")
    assert named["battery_level"] == (49, "%EL") and named["door"] == (0, "/")
    files = ["battery.mpy", "bme280.mpy", "digital.mpy", "soil.py"]
    assert drivers_of(rig) == [f"/sensors/{name}" for name in files]
    # What the settings no longer name goes; a flash without settings leaves the rest as it is
    fewer = settings(rig, ATTIC, BED, broker_port=broker.port)
    assert rig.outpost("provision", fewer) == 0, rig.err
    assert drivers_of(rig) == ["/sensors/bme280.mpy", "/sensors/soil.py"]
    assert rig.outpost("flash", "--no-link") == 0, rig.err + rig.out
    assert rig.row("files").startswith("0 copied")
    assert drivers_of(rig) == ["/sensors/bme280.mpy", "/sensors/soil.py"]


def test_each_fault_is_shown_with_what_to_do_and_the_others_go_on(rig):
    wire(rig, bme280=0x77, millivolts={"26": 1920})
    for name, line in (
        ("raises", "raise ValueError('crc')"),
        ("nothing", "return None"),
        ("text", "return '21.5'"),
        ("nan", "return float('nan')"),
        ("leaves", "raise SystemExit"),
    ):
        (rig.folder / f"{name}.py").write_text(
            "READINGS = (('', 'V', -1),)\nclass Driver:\n    def __init__(self, options): pass\n"
            f"    def read(self): {line}\n"
        )
    own = [f'{{driver = "{name}"}}' for name in ("raises", "nothing", "text", "nan", "leaves")]
    path = settings(rig, *own, ATTIC, BATTERY)
    assert rig.outpost("flash", "--settings", path, "--no-link") == 1, rig.err
    found = rows(rig)
    for name, says in {
        "raises": "raised (ValueError crc)",
        "nothing": "no reading",
        "text": "garbage",
        "nan": "not a number",
        "leaves": "raised (SystemExit)",
        "attic": "nothing answers at 118, but at 119 (0x77): is that it? Set 'address'",
    }.items():
        assert found[name].startswith("failed: ") and says in found[name], found[name]
    assert found["battery"] == "voltage 3.838 V, level 49 %EL" and found["count"] == "1"
    wire(rig)
    path = settings(rig, ATTIC, AIR)
    assert rig.outpost("flash", "--settings", path, "--no-link") == 1
    assert "nothing answers on its bus: check power, ground" in rows(rig)["attic"]
    assert "that its tx goes to pin 9 and its rx to pin 8" in rows(rig)["air"]
    words = ["--no-link", "--messages", "1", "--seconds", "1"]
    assert rig.outpost("selftest", *words) == 1
    assert re.search(r"^sensors +fail .*attic: failed: no answer", rig.out, re.MULTILINE)


# --- Settings and files: before a board is touched ---


def check(tmp_path, sensors):
    given = {"device_id": "a", "broker_host": "b", "sensors": sensors}
    return settings_file.check(given, "x.toml", tmp_path, kinds.load(REPOSITORY, "UNIX"))


@pytest.mark.parametrize(
    ("sensor", "says"),
    [
        ({"driver": "bme281"}, "has no driver 'bme281'; known: adc, aht20, "),
        ({"driver": "bme280", "sda": 4}, "has a sensor 'bme280' (bme280): key 'scl' is missing"),
        ({"driver": "bme280", "scl": 5, "sda": 99}, "key 'sda' must be 0 to 48, not 99"),
        ({"driver": "digital", "pin": 4, "pul": 1}, "unknown key 'pul'; known: invert, pin, pull"),
        ({"driver": "digital", "pin": 4, "pull": "left"}, "must be one of up, down, none"),
        ({"driver": "digital", "pin": 4.5}, "must be a whole number, not 4.5"),
        ({"driver": "syntax"}, "with a mistake: line 2"),
        ({"driver": "computed"}, "whose KEYS is not as it should be"),
        ({"driver": "number"}, "whose KEYS is not as it should be"),
        ({"driver": "empty"}, "whose READINGS is missing"),
        ({"driver": "flat"}, "whose READINGS has -1"),
        ({"driver": "exponent"}, "an exponent must be -9 to 9, not -10"),
    ],
)
def test_what_does_not_fit_a_driver_is_refused_on_the_desktop(tmp_path, sensor, says):
    (tmp_path / "syntax.py").write_text("\ndef (")
    (tmp_path / "computed.py").write_text("KEYS = dict(a=1)\nREADINGS = (('', '', 0),)")
    (tmp_path / "number.py").write_text("KEYS = {5: (0, 1, 2)}\nREADINGS = (('', '', 0),)")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "flat.py").write_text("READINGS = (-1, '', 'V')")
    (tmp_path / "exponent.py").write_text("READINGS = (('', '', -10),)")
    with pytest.raises(ToolError) as caught:
        check(tmp_path, [sensor])
    assert "x.toml: key 'sensors'" in str(caught.value) and says in str(caught.value)


def test_two_sensors_with_one_reading_are_refused(tmp_path):
    attic = {"driver": "sht3x", "name": "attic", "scl": 5, "sda": 4}
    other = {"driver": "digital", "name": "attic_humidity", "pin": 7}
    with pytest.raises(ToolError, match="two sensors with a reading 'attic_humidity'"):
        check(tmp_path, [attic, other])
    assert check(tmp_path, [attic, other | {"name": "door"}]).drivers.keys() == {"sht3x", "digital"}


def test_a_file_of_ones_own_comes_before_ours(tmp_path):
    assert not sensor_drivers.find("adc", tmp_path).is_own
    (tmp_path / "sensors").mkdir()
    (tmp_path / "sensors" / "adc.py").write_text("READINGS = (('', 'V', 0),)")
    found = check(tmp_path, [{"driver": "adc"}])
    assert found.drivers["adc"].is_own
    assert sensor_drivers.files(found.drivers, "armv6m") == {
        "/sensors/adc.py": b"READINGS = (('', 'V', 0),)"
    }


def test_every_ready_driver_compiles_and_says_what_it_takes():
    names = sensor_drivers.names()
    assert len(names) == 17
    for name in names:
        driver = sensor_drivers.find(name, None)
        assert driver.readings and driver.built("armv6m")[0] == f"/sensors/{name}.mpy"
    assert sensor_drivers.needed(sensor_drivers.find("bme280", None)) == ["scl", "sda"]


def test_the_page_shows_the_example_and_every_driver_with_its_keys():
    page = (BOARDS / "sensors" / "README.md").read_text()
    shown = "".join(line[4:] + "\n" for line in page.splitlines() if line.startswith("    "))
    code = EXAMPLE.read_text().partition('"""\n\n')[2]
    assert re.sub(r"\n+", "\n", code) in re.sub(r"\n+", "\n", shown)
    for name in sensor_drivers.names():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        driver = sensor_drivers.find(name, None)
        assert all(key in row for key in driver.keys), name
        assert re.findall(r"\*\*(\w+)\*\*", row) == sensor_drivers.needed(driver), name


def test_what_each_scan_of_a_bus_means():
    sensor = sensor_check.Sensor("attic", address=118, fault=1)
    for answers, says in (
        ([], "check power"),
        (list(range(8, 120)), "no pull-up"),
        ([118], "a chip answers at 118: another kind"),
        ([60, 119], "but at 60 (0x3c), 119 (0x77)"),
    ):
        sensor.answers = answers
        assert says in sensor.text(("well", "no answer"))


@pytest.mark.long
def test_a_sensor_that_never_comes_back_is_named(rig, monkeypatch):
    monkeypatch.setattr(sensor_check, "_SILENCE_S", 1.0)
    (rig.folder / "stuck.py").write_text(
        "READINGS = (('', 'V', -1),)\nclass Driver:\n    def __init__(self, options):\n"
        "        while True:\n            pass\n"
    )
    path = settings(rig, DOOR, '{driver = "stuck"}')
    status = rig.outpost("flash", "--settings", path, "--no-link")
    assert status == 1, rig.err + rig.out
    assert rig.row("sensor").startswith("failed: stuck did not return within 11 s")


@pytest.mark.parametrize("name", sensor_drivers.names())
def test_each_driver_says_what_is_no_reading_and_how_it_counts_below_zero(name):
    """What it says is tested in test_no_value_drivers.py."""
    head = ast.get_docstring(ast.parse(sensor_drivers.find(name, None).source))
    assert head.count("\nNo reading") == 1
    assert name in ("digital",) or " ".join(head.split()).count("Below zero:") == 1
    tested = (REPOSITORY / "host_tests" / "boards" / "test_no_value_drivers.py").read_text()
    assert f'"{name}"' in tested
