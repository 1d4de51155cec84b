# cpython-only: the desktop's tools
"""Sensors compared with the board's pins, with each other, and with deep sleep: settings that
collide, each with the line that the user reads, and settings that do not."""

import contextlib
import json
import re

import pytest

from outpost_tools.boards.flash import flashing
from outpost_tools.boards.port import kinds
from outpost_tools.boards.send import wording
from outpost_tools.boards.settings import answers, sensor_drivers, sensor_words, settings_file
from outpost_tools.errors import ToolError
from paths import REPOSITORY

KINDS = {
    "pico": "RPI_PICO_W", "pico2": "RPI_PICO2_W", "esp32": "ESP32_GENERIC",
    "s3": "ESP32_GENERIC_S3", "c3": "ESP32_GENERIC_C3",
}  # fmt: skip
EXAMPLE = REPOSITORY / "boards" / "sensors" / "example"  # with soil.py, a driver of the user's
START = "k.toml: key 'sensors' has a sensor "
# board, sensors as `outpost provision` asks for them, what the user reads after START
COLLIDE = [
    ("pico", "battery pin=29",
     "'battery' (battery): key 'pin' is 29, which belongs to the wireless chip; pin 26 "
     "would do"),
    ("pico", "digital pin=23",
     "'digital' (digital): key 'pin' is 23, which belongs to the wireless chip; pin 0 "
     "would do"),
    ("pico2", "dht22 pin=24",
     "'dht22' (dht22): key 'pin' is 24, which belongs to the wireless chip; pin 0 would do"),
    ("pico", "ds18b20@25",
     "'ds18b20@25': key 'pin' is 25, which belongs to the wireless chip; pin 0 would do"),
    ("pico", "adc pin=5",
     "'adc' (adc): key 'pin' is 5, which cannot measure a voltage; pin 26 would do"),
    ("pico", "adc pin=30",
     "'adc' (adc): key 'pin' is 30, which the chip does not have; pin 26 would do"),
    ("pico2", "soil pin=26, adc pin=26",
     "'adc' (adc): key 'pin' is 26, which 'soil' (soil) has as 'pin'; pin 27 would do"),
    ("pico", "adc@26, battery pin=26",
     "'battery' (battery): key 'pin' is 26, which 'adc@26' has as 'pin'; pin 27 would do"),
    ("pico", "a=ds18b20 pin=22, b=ds18b20 pin=22",
     "'b' (ds18b20): key 'pin' is 22, as that of 'a' (ds18b20); without a 'rom' of 16 "
     "hex digits in each, both read the same chip; pin 0 would do"),
    ("pico", "a=ds18b20 pin=22 rom=2800000000000012, b=ds18b20 pin=22 rom=2800000000000012",
     "'b' (ds18b20): key 'rom' is that of 'a' (ds18b20), at the same pin: two names of one "
     "chip; pin 0 would do"),
    ("pico", "a=ds18b20 pin=22 rom=2800000000000012, ds18b20@22",
     "'ds18b20@22': key 'pin' is 22, as that of 'a' (ds18b20); without a 'rom' of 16 "
     "hex digits in each, both read the same chip; pin 0 would do"),
    ("pico", "a=bme280 scl=5 sda=4, b=bme280 scl=5 sda=4",
     "'b' (bme280): key 'address' is 118 (0x76), as that of 'a' (bme280), on the same bus; "
     "if the chip has it, address 119 (0x77) would do"),
    ("pico", "sht3x scl=5 sda=4, sht4x scl=5 sda=4",
     "'sht4x' (sht4x): key 'address' is 68 (0x44), as that of 'sht3x' (sht3x), on the same "
     "bus; if the chip has it, address 70 (0x46) would do"),
    ("pico", "a=bme280 scl=5 sda=4, b=bme280 scl=5 sda=4 address=0x77, c=bme280 scl=5 sda=4",
     "'c' (bme280): key 'address' is 118 (0x76), as that of 'a' (bme280), on the same bus; "
     "i2c 1 with scl 3 and sda 2 would do"),
    ("pico", "a=scd4x i2c=-1 scl=9 sda=8, b=scd4x i2c=-1 scl=9 sda=8",
     "'b' (scd4x): key 'address' is 98 (0x62), as that of 'a' (scd4x), on the same bus; "
     "i2c 0 with scl 1 and sda 0 would do"),
    ("pico", "a=bme280 scl=5 sda=4, b=bme280 scl=9 sda=8",
     "'b' (bme280): key 'i2c' is 0, which 'a' (bme280) has with scl 5 and sda 4; use these "
     "pins too, or others: i2c 1 with scl 3 and sda 2 would do"),
    ("pico", "bme280 scl=4 sda=5",
     "'bme280' (bme280): key 'scl' is 4, which I2C 0 cannot use as scl; exchange 'scl' and "
     "'sda'"),
    ("pico", "bme280 scl=3 sda=2",
     "'bme280' (bme280): key 'scl' is 3, which I2C 0 cannot use as scl; i2c 1 has these "
     "pins"),
    ("pico", "bme280 scl=5 sda=6",
     "'bme280' (bme280): key 'sda' is 6, which I2C 0 cannot use as sda; pin 0 would do"),
    ("pico", "a=bme280 scl=5 sda=4, b=sht3x i2c=-1 scl=5 sda=4",
     "'b' (sht3x): key 'scl' is 5, which 'a' (bme280) has as 'scl'; pin 0 would do"),
    ("pico", "bme280 scl=5 sda=4, dht22 pin=5",
     "'dht22' (dht22): key 'pin' is 5, which 'bme280' (bme280) has as 'scl'; pin 0 would "
     "do"),
    ("pico", "bme280 i2c=-1 scl=5 sda=5",
     "'bme280' (bme280): key 'scl' is 5, as 'sda' is; pin 0 would do"),
    ("pico", "mhz19 tx=0 rx=1",
     "'mhz19' (mhz19): key 'tx' is 0, which UART 1 cannot use as tx; uart 0 has these pins"),
    ("pico", "mhz19 tx=5 rx=4",
     "'mhz19' (mhz19): key 'tx' is 5, which UART 1 cannot use as tx; exchange 'tx' and "
     "'rx'"),
    ("pico", "mhz19 tx=6 rx=7",
     "'mhz19' (mhz19): key 'tx' is 6, which UART 1 cannot use as tx; pin 4 would do"),
    ("pico", "mhz19 tx=4 rx=5 uart=2",
     "'mhz19' (mhz19): key 'uart' is 2, which the board does not have; uart 0 with tx 0 "
     "and rx 1 would do"),
    ("pico", "mhz19 tx=4 rx=5, pms5003 tx=8 rx=9",
     "'pms5003' (pms5003): key 'uart' is 1, which 'mhz19' (mhz19) has with tx 4 and rx 5; "
     "uart 0 with tx 0 and rx 1 would do"),
    ("pico", "hx711 dout=7 sck=7",
     "'hx711' (hx711): key 'dout' is 7, as 'sck' is; pin 0 would do"),
    ("pico", "door=digital pin=7, rain=pulse pin=7",
     "'rain' (pulse): key 'pin' is 7, which 'door' (digital) has as 'pin'; pin 0 would do"),
    ("pico asleep", "rain=pulse pin=7",
     "'rain' (pulse): it counts nothing in deep sleep, and reads 0 at each wake; leave out "
     "'deep_sleep', or the sensor"),
    ("esp32", "digital pin=6",
     "'digital' (digital): key 'pin' is 6, which belongs to the flash; pin 4 would do"),
    ("esp32", "dht22 pin=34",
     "'dht22' (dht22): key 'pin' is 34, which is an input only; pin 4 would do"),
    ("esp32", "hx711 dout=34 sck=35",
     "'hx711' (hx711): key 'sck' is 35, which is an input only; pin 4 would do"),
    ("esp32", "digital pin=36 pull=up",
     "'digital' (digital): key 'pin' is 36, which has no pull-up (with a resistor on the "
     "board: pull none); pin 4 would do"),
    ("esp32", "adc pin=25",
     "'adc' (adc): key 'pin' is 25, whose converter (ADC2) belongs to the Wi-Fi; pin 32 "
     "would do"),
    ("esp32", "battery pin=5",
     "'battery' (battery): key 'pin' is 5, which cannot measure a voltage; pin 32 would do"),
    ("esp32", "digital pin=0",
     "'digital' (digital): key 'pin' is 0, which must be high when the chip starts, or the "
     "chip waits for a new firmware; pin 4 would do"),
    ("esp32", "bme280 scl=12 sda=14",
     "'bme280' (bme280): key 'scl' is 12, which must be low when the chip starts, or the "
     "flash gets 1.8 V; pin 4 would do"),
    ("esp32", "mhz19 uart=0 tx=1 rx=3",
     "'mhz19' (mhz19): key 'uart' is 0, which belongs to the console; uart 1 with tx 4 and "
     "rx 13 would do"),
    ("esp32", "rain=pulse pin=20",
     "'rain' (pulse): key 'pin' is 20, which the chip does not have; pin 4 would do"),
    ("esp32", "bme280 scl=22 sda=39",
     "'bme280' (bme280): key 'sda' is 39, which is an input only; pin 4 would do"),
    ("s3", "digital pin=19",
     "'digital' (digital): key 'pin' is 19, which belongs to USB; pin 1 would do"),
    ("s3", "dht22 pin=45",
     "'dht22' (dht22): key 'pin' is 45, which must be low when the chip starts, or the "
     "flash gets 1.8 V; pin 1 would do"),
    ("s3", "adc pin=11",
     "'adc' (adc): key 'pin' is 11, whose converter (ADC2) belongs to the Wi-Fi; pin 1 "
     "would do"),
    ("s3", "ds18b20@27",
     "'ds18b20@27': key 'pin' is 27, which belongs to the flash; pin 1 would do"),
    ("s3", "mhz19 tx=43 rx=44",
     "'mhz19' (mhz19): key 'tx' is 43, which belongs to the console; pin 1 would do"),
    ("c3", "bme280 i2c=1 scl=5 sda=4",
     "'bme280' (bme280): key 'i2c' is 1, which the board does not have; i2c 0 with scl 0 "
     "and sda 1 would do"),
    ("c3", "digital pin=9",
     "'digital' (digital): key 'pin' is 9, which must be high when the chip starts, or the "
     "chip waits for a new firmware; pin 0 would do"),
    ("c3", "adc pin=5",
     "'adc' (adc): key 'pin' is 5, which cannot measure a voltage; pin 0 would do"),
    ("c3", "sht4x scl=18 sda=19",
     "'sht4x' (sht4x): key 'scl' is 18, which belongs to USB; pin 0 would do"),
    ("c3", "a=mhz19 tx=4 rx=5, b=pms5003 tx=6 rx=7",
     "'b' (pms5003): key 'uart' is 1, which 'a' (mhz19) has with tx 4 and rx 5; this board "
     "has no other one"),
    ("c3", "a=bme280 scl=5 sda=4, b=bme280 scl=7 sda=6",
     "'b' (bme280): key 'i2c' is 0, which 'a' (bme280) has with scl 5 and sda 4; use these "
     "pins too, or others: i2c -1 would do: a bus in software, on any two pins"),
]  # fmt: skip
FIT = [
    ("pico", "temperature, memory"),
    ("pico", "battery pin=26"),
    ("pico", "battery pin=28, adc pin=27, adc@26"),
    ("pico", "soil pin=27"),
    ("pico", "digital pin=0, rain=pulse pin=1"),
    ("pico", "rain=pulse pin=22"),
    ("pico asleep", "door=digital pin=22"),
    ("pico", "a=ds18b20 pin=22 rom=2800000000000012, b=ds18b20 pin=22 rom=28ff000000000034"),
    ("pico", "ds18b20 pin=22, b=ds18b20 pin=21"),
    ("pico", "ds18b20@22, ds18b20@21, dht22 pin=20"),
    ("pico", "bme280 scl=5 sda=4"),
    ("pico", "a=bme280 scl=5 sda=4, b=bme280 scl=5 sda=4 address=0x77"),
    ("pico", "bme280 scl=5 sda=4, sht3x scl=5 sda=4, scd4x scl=5 sda=4, bh1750 scl=5 sda=4"),
    ("pico", "a=bme280 scl=5 sda=4, b=bme280 i2c=1 scl=3 sda=2"),
    ("pico", "a=bme280 scl=5 sda=4, b=bme280 i2c=-1 scl=6 sda=7"),
    ("pico", "a=bme280 i2c=-1 scl=5 sda=4, b=bme280 i2c=-1 scl=6 sda=7"),
    ("pico", "bme280 i2c=1 scl=27 sda=26"),
    ("pico", "bme280 scl=21 sda=20"),
    ("pico", "a=ina219 scl=1 sda=0, b=ina226 scl=1 sda=0 address=0x41 shunt_uohm=100000"),
    ("pico", "mhz19 tx=4 rx=5"),
    ("pico", "mhz19 tx=8 rx=9, pms5003 uart=0 tx=0 rx=1"),
    ("pico", "hx711 dout=6 sck=7, scale=hx711 dout=8 sck=9"),
    ("pico2", "mhz19 tx=6 rx=7"),
    ("pico2", "pms5003 uart=0 tx=2 rx=3, mhz19 uart=1 tx=10 rx=11"),
    ("pico2", "dht22 pin=15, aht20 scl=17 sda=16"),
    ("esp32", "bme280 scl=22 sda=21"),
    ("esp32", "a=bme280 scl=22 sda=21, b=bme280 i2c=1 scl=19 sda=18"),
    ("esp32", "battery pin=34, adc pin=39"),
    ("esp32", "digital pin=34 pull=none"),
    ("esp32 asleep", "hx711 dout=34 sck=25, dht22 pin=26"),
    ("esp32", "mhz19 uart=2 tx=17 rx=16, pms5003 tx=4 rx=35"),
    ("esp32", "bme280 scl=0 sda=2"),
    ("esp32", "dht22 pin=5, door=digital pin=15"),
    ("s3", "bme280 scl=9 sda=8, adc pin=10"),
    ("s3", "mhz19 uart=2 tx=17 rx=18, pms5003 tx=47 rx=48"),
    ("s3", "dht22 pin=0, digital pin=46"),
    ("s3", "digital pin=35"),
    ("c3", "bme280 scl=9 sda=8"),
    ("c3", "adc pin=0, battery pin=4"),
    ("c3", "mhz19 tx=6 rx=7, dht22 pin=10"),
    ("c3", "a=bme280 scl=5 sda=4, b=bme280 i2c=-1 scl=7 sda=6"),
    ("c3", "rain=pulse pin=3"),
]


@pytest.fixture(autouse=True)
def in_the_users_folder(monkeypatch):
    monkeypatch.chdir(EXAMPLE)


def given_of(board, sensors):
    """(settings, kind)"""
    name, _, sleep = board.partition(" ")
    listed = sensor_words.parsed(sensors, ("temperature", "memory"), None)
    given = {"device_id": "k", "broker_host": "b", "wifi_ssid": "n", "mode": "broker"}
    given |= {"sensors": listed} | ({"deep_sleep": True} if sleep else {})
    return given, kinds.load(REPOSITORY, KINDS[name])


def line(board, sensors):
    """What the user reads; "" where all is well."""
    given, kind = given_of(board, sensors)
    try:
        settings_file.check(given, "k.toml", EXAMPLE, kind)
    except ToolError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("board, sensors, said", COLLIDE)
def test_what_collides_is_refused_in_one_line(board, sensors, said):
    assert line(board, sensors) == START + said


@pytest.mark.parametrize("board, sensors", FIT)
def test_what_fits_is_taken(board, sensors):
    assert line(board, sensors) == ""


@pytest.mark.parametrize("board, sensors, said", COLLIDE)
def test_what_a_refusal_names_instead_would_do(board, sensors, said):
    given, kind = given_of(board, sensors)
    name = re.match(r"'([^']+)'", said)[1]
    place = next(
        place for place, one in enumerate(given["sensors"])
        if name in (one, isinstance(one, dict) and one.get("name", one["driver"]))
    )  # fmt: skip
    if pin := re.search(r"pin (\d+) would do", said):
        key = re.search(r"key '(\w+)'", said)[1]
        change = {"pin" if key == "rom" else key: int(pin[1])}
    else:
        end = re.search(r"; (?:[^;]*: )?([^;]*) (?:has these pins|would do)", said)
        change = {key: int(n) for key, n in re.findall(r"(\w+) (-?\d+)", end[1])} if end else {}
    if swap := re.search(r"exchange '(\w+)' and '(\w+)'", said):
        one = given["sensors"][place]
        change = {swap[1]: one[swap[2]], swap[2]: one[swap[1]]}
    if not change:
        assert said.endswith(("or the sensor", "no other one"))
        return
    if isinstance(given["sensors"][place], str):
        given["sensors"][place] = name.partition("@")[0] + f"@{change['pin']}"
    else:
        given["sensors"][place] |= change
    if change == {"i2c": -1}:
        return  # on any two pins
    try:
        settings_file.check(given, "k.toml", EXAMPLE, kind)
    except ToolError as error:  # another of its pins, which has its own line
        assert not any(f"'{name}'" in str(error) and f"key '{key}'" in str(error) for key in change)


def test_a_driver_that_says_nothing_of_its_pin_has_one_all_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = kinds.load(REPOSITORY, "RPI_PICO_W")

    def faults(*sensors):
        return sensor_drivers.pin_faults(sensors, tmp_path, kind.pinout, deep_sleep=True)

    plain = '{"pin": (0, 48, None), "wait_ms": (0, 9, 3)}'
    (tmp_path / "mine.py").write_text(f'KEYS = {plain}\nREADINGS = (("", "V", 0),)\n')
    mine = {"driver": "mine", "pin": 7}
    assert faults(mine) == [""]
    assert "which belongs to the wireless chip" in faults(mine | {"pin": 25})[0]
    assert "which 'mine' (mine) has as 'pin'" in faults(mine, {"driver": "digital", "pin": 7})[0]
    (tmp_path / "bus.py").write_text(
        'KEYS = {"i2c": (0, 1, 0), "scl": (0, 48, 5), "sda": (0, 48, 4)}\n'
        'READINGS = (("", "V", 0),)\n'
    )
    assert "I2C 0 cannot use as scl" in faults({"driver": "bus", "scl": 4, "sda": 5})[0]
    assert faults({"driver": "bus"}, {"driver": "bme280", "scl": 5, "sda": 4}) == [""]
    (tmp_path / "other.py").write_text(
        'KEYS = {"data": (0, 48, None, "1-wire"), "b_pin": (0, 48, None, "adc")}\n'
        'READINGS = (("", "V", 0),)\n'
    )
    other = {"driver": "other", "data": 7, "b_pin": 26}
    assert "key 'data' is 7, as 'b_pin' is" in faults(other | {"b_pin": 7})[0]
    wire = {"driver": "ds18b20", "pin": 7}
    assert "key 'data' is 7, as that of 'ds18b20'" in faults(wire, other)[0]
    assert "key 'b_pin' is 26, which 'ds18b20'" in faults(wire | {"pin": 26}, other)[0]
    more = other | {"name": "more", "data": 8}
    assert "key 'b_pin' is 26, which 'other'" in faults(other, more)[0]
    (tmp_path / "wrong.py").write_text(
        'KEYS = {"pin": (0, 48, None, "analog")}\nREADINGS = (("", "V", 0),)\n'
    )
    with pytest.raises(ValueError, match="KEYS is not as it should be"):
        sensor_drivers.find("wrong", tmp_path)


def test_each_of_our_drivers_says_how_it_uses_each_pin():
    for name in sensor_drivers.names():
        sensor_keys = sensor_drivers.find(name, None).keys
        pins = {"pin", "dout", "sck", "scl", "sda", "tx", "rx"} & set(sensor_keys)
        assert pins, name
        for key in pins & {"pin", "dout", "sck"}:
            assert len(sensor_keys[key]) == 4, (name, key)


@pytest.mark.parametrize("name", KINDS.values())
def test_the_pins_of_a_board_are_consistent(name):
    about = json.loads((REPOSITORY / "boards" / name / "board.json").read_text())
    board = kinds.load(REPOSITORY, name).pinout
    assert about["pins"]["sources"]
    special = {*board.owners, *board.input_only, *board.psram, *board.strapping, *board.at_reset,
               *board.adc2, *about["adc_pins"]}  # fmt: skip
    assert special <= set(board.gpio)
    assert not set(board.owners) & {*about["adc_pins"], *board.psram, *board.adc2}
    assert not set(board.adc2) & set(board.adc)
    for controller in (*board.i2c, *board.uart):
        if isinstance(controller, dict):
            for pins in controller.values():
                assert set(pins) <= set(board.gpio) - set(board.owners)


@pytest.mark.parametrize("name, each", [("RPI_PICO_W", 4), ("RPI_PICO2_W", 2)])
def test_the_controllers_of_an_rp2_reach_what_its_port_says(name, each):
    """machine_i2c.c: IS_VALID_SCL, IS_VALID_SDA; machine_uart.c: IS_VALID_TX, IS_VALID_RX."""
    board = kinds.load(REPOSITORY, name).pinout
    free = [pin for pin in board.gpio if pin not in board.owners]
    for number in (0, 1):
        for odd, role in ((1, "scl"), (0, "sda")):
            wanted = [pin for pin in free if pin & 1 == odd and (pin & 2) >> 1 == number]
            assert board.i2c[number][role] == wanted
        for rest, role in ((0, "tx"), (1, "rx")):
            wanted = [pin for pin in free if pin % each == rest and (pin + 4 & 8) >> 3 == number]
            assert board.uart[number][role] == wanted


def test_the_form_has_the_line_at_its_field():
    given, kind = given_of("pico", "memory, battery pin=29, dht22 pin=24")
    found = answers.faults(given, EXAMPLE, kind)
    assert found == {
        "sensors.1.pin": "is 29, which belongs to the wireless chip; pin 26 would do",
        "sensors.2.pin": "is 24, which belongs to the wireless chip; pin 0 would do",
    }
    given, kind = given_of("pico", "a=bme280 scl=5 sda=4, b=dht22 pin=5")
    assert answers.faults(given, EXAMPLE, kind) == {
        "sensors": "has a sensor 'b' (dht22): key 'pin' is 5, which 'a' (bme280) has as 'scl'; "
        "pin 0 would do"
    }


def test_a_pin_of_the_psram_is_refused_on_a_module_that_has_it():
    given, kind = given_of("esp32", "mhz19 uart=2 tx=17 rx=16")
    settings = settings_file.check(given, "k.toml", EXAMPLE, kind)
    settings_file.check_module(settings, kind, "Generic ESP32 module with ESP32", "/dev/x")
    machine = "Generic ESP32 module with SPIRAM with ESP32"
    with pytest.raises(ToolError, match="key 'tx' is 17, which belongs to the PSRAM; pin 4 would"):
        settings_file.check_module(settings, kind, machine, "/dev/x")


@pytest.mark.parametrize("task", [flashing.flash, flashing.provision])
def test_the_module_is_looked_at_before_anything_is_written(monkeypatch, task):
    given, kind = given_of("esp32", "mhz19 uart=2 tx=17 rx=16")
    settings = settings_file.check(given, "k.toml", EXAMPLE, kind)
    facts = kinds.Facts("micropython", (1, 25, 0), "Module with SPIRAM with ESP32",
                        10 << 10 | 3 << 8 | 6, "esp32")  # fmt: skip
    monkeypatch.setattr(kinds, "ask", lambda board: facts)
    monkeypatch.setattr(flashing, "_connected", contextlib.nullcontext)
    with pytest.raises(ToolError, match="which belongs to the PSRAM"):
        task(flashing.Job(REPOSITORY, kind, "/dev/ttyX", settings))


@pytest.mark.parametrize("board, sensors, said", [
    (None, "a=bme280 scl=5 sda=4, b=bme280 scl=5 sda=4", "as that of 'a' (bme280), on the same"),
    (None, "a=digital pin=5, b=dht22 pin=5", "which 'a' (digital) has as 'pin'; use another pin"),
    (None, "battery pin=99", "key 'pin' must be 0 to 48, not 99"),
    (None, "battery pin=29", ""),
    ("RPI_PICO_W", "battery pin=29", "which belongs to the wireless chip; pin 26 would do"),
    (None, "unheard pin=29", ""),
])  # fmt: skip
def test_set_checks_sensors_before_they_are_sent(board, sensors, said):
    (sensor, *more) = sensor_words.parsed(sensors, (), None)
    sensor = {"driver": "unheard", "pin": 29} if sensors.startswith("unheard") else sensor
    words = ["set", f"sensors={json.dumps([sensor, *more])}"]
    pins = kinds.load(REPOSITORY, board).pinout if board else None
    if not said:
        assert wording.command(words, "a", board=pins)
        return
    with pytest.raises(ToolError, match=re.escape(said)):
        wording.command(words, "a", board=pins)


def test_set_knows_of_deep_sleep_in_the_same_command():
    words = ["set", 'sensors=[{"driver": "pulse", "pin": 3}]']
    assert wording.command(words, "a")
    with pytest.raises(ToolError, match="it counts nothing in deep sleep"):
        wording.command([*words, "deep_sleep=true"], "a")
