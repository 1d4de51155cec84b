# cpython-only: tests a desktop tool
"""All faults of a form at once, each at its field, in the words of `outpost provision`."""

from pathlib import Path

import pytest

from outpost_tools.boards.port import kinds
from outpost_tools.boards.settings import answers, ask, sensor_drivers, sensor_words, settings_file
from outpost_tools.errors import ToolError
from paths import REPOSITORY
from test_provision import BAD, GOOD

KIND = kinds.load(REPOSITORY, "RPI_PICO_W")
OF_FORM = [one for one in BAD if "_file" not in f"{one[0]}" and "unknown" not in one[2]]


def given_of(more):
    return {key: value for key, value in (GOOD | more).items() if value is not None}


def faults(more):
    return answers.faults(given_of(more), Path(), KIND)


@pytest.mark.parametrize(("more", "key", "complaint"), OF_FORM)
def test_a_fault_is_at_its_field_in_the_words_of_provision(more, key, complaint):
    with pytest.raises(ToolError) as refused:
        settings_file.check(given_of(more), "", Path(), KIND)
    [(field, text)] = faults(more).items()
    assert field.split(".")[0] == key and text in str(refused.value)
    assert complaint.endswith(text) or complaint in text or text in complaint


def test_good_settings_have_none():
    assert faults({}) == {}


def test_all_faults_are_found_at_once():
    bme280 = {"driver": "bme280", "scl": 5, "sda": 4}
    wrong = {"driver": "bme280", "name": "b", "scl": 99, "address": "x"}
    found = faults({
        "device_id": "two words", "wifi_password": "short", "broker_port": 0, "interval_ms": "soon",
        "sensors": ["temperature", bme280, wrong, {"driver": "no"}],
        "series": True, "alarms": {"nothing": {"above": 1}}, "user": None, "password": "x",
    })  # fmt: skip
    assert set(found) == {
        "device_id", "wifi_password", "broker_port", "interval_ms", "password", "sensors.2.scl",
        "sensors.2.sda", "sensors.2.address", "sensors.3",
    }  # fmt: skip
    assert found["sensors.2.scl"] == "must be 0 to 48, not 99"
    assert found["sensors.3"].startswith("has no driver 'no'; known: adc, ")


def test_a_fault_in_a_list_of_networks_names_the_entry():
    listed = [{"ssid": "a"}, {"ssid": "b", "password": "short", "gateway": "x"}]
    found = faults({"wifi_ssid": None, "wifi_password": None, "wifi_networks": listed})
    assert list(found) == ["wifi_networks.1.password"]
    listed[1]["password"] = "long enough"
    found = faults({"wifi_ssid": None, "wifi_password": None, "wifi_networks": listed})
    assert "need 'address'; add it" in " ".join(found.values())


def test_who_does_not_say_gets_series_where_they_are_worth_it_and_possible():
    def series(more):
        return answers.check(given_of(more), "", Path(), KIND).full["series"]

    many = [
        {"driver": "bme280", "name": f"b{k}", "i2c": -1, "scl": 2 * k, "sda": 2 * k + 1}
        for k in range(6)
    ]
    assert series({}) and not series({"series": False})
    assert not series({"mode": "broker"}) and not series({"interval_ms": 600_000})
    assert not series({"sensors": many}), "more readings than a series takes"


def test_a_reading_with_a_full_stop_in_its_name_is_quoted_in_toml(tmp_path):
    alarms = {"a.b": {"above": 1}, "plain-1": {"below": 2.5}}
    assert sensor_words.toml(alarms) == '{"a.b" = {above = 1}, plain-1 = {below = 2.5}}'
    given = given_of({"series": True, "alarms": alarms, "sensors": [
        {"driver": "digital", "name": "a.b", "pin": 1},
        {"driver": "digital", "name": "plain-1", "pin": 2},
    ]})  # fmt: skip
    settings = settings_file.check(given, "", Path(), KIND)
    ask.save(tmp_path / "a.toml", settings)
    assert settings_file.load(tmp_path / "a.toml", KIND).given == settings.given


def test_a_choice_that_looks_like_a_number_stays_text():
    [scale] = sensor_words.parsed("hx711 dout=1 sck=2 gain=64 samples=0x3", (), input)
    assert scale == {"driver": "hx711", "dout": 1, "sck": 2, "gain": "64", "samples": 3}
    assert faults({"sensors": [scale]}) == {}


def test_drivers_of_the_users_own_are_found_and_other_files_are_not(tmp_path):
    (tmp_path / "sensors").mkdir()
    (tmp_path / "sensors" / "soil.py").write_text(
        '"""Soil: wet or dry. More."""\nREADINGS = (("", "", 0),)'
    )
    (tmp_path / "setup.py").write_text("import os\n")
    (tmp_path / "broken.py").write_text("def\n")
    assert sensor_drivers.own_names(tmp_path) == ["soil"]
    assert sensor_drivers.find("soil", tmp_path).title == "Soil: wet or dry"
    assert all(sensor_drivers.find(name, None).title for name in sensor_drivers.names())
