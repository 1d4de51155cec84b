# cpython-only: tests a desktop tool
"""What the page sends becomes the settings that a file would have, and back; secrets go one way."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from outpost_tools import cli
from outpost_tools.boards.broker import making
from outpost_tools.boards.broker.folder import Folder
from outpost_tools.boards.port import kinds
from outpost_tools.boards.settings import broker_part, sensor_drivers, settings_file
from outpost_tools.boards.setup import desk, fields, form, page, places
from outpost_tools.boards.setup.jobs import Jobs
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import settings_module, settings_rules
from paths import REPOSITORY, RIGS

KIND = kinds.load(REPOSITORY, "RPI_PICO_W")
SECRET = "tr0ub4dor-and-3"
EXAMPLE = tomllib.loads(re.sub(r"^# (?=\w+ = )", "", settings_file.EXAMPLE, flags=re.MULTILINE))
FILES = {
    "the example": {"device_id": "kitchen", "broker_host": "10.0.0.7", "wifi_ssid": "Home",
                    "wifi_password": SECRET, "mode": "collector", "series": False},
    "all of the example": EXAMPLE | {"password": SECRET, "update_key": "ab" * 32, "level": 5,
                                     "say_state": False},
    "networks": {
        "device_id": "k", "broker_host": "b", "mode": "broker", "series": False,
        "wifi_networks": [{"ssid": "a", "password": SECRET}, {"ssid": "b"},
                          {"ssid": "c", "address": "10.0.0.5/24", "gateway": "10.0.0.1"}],
    },
    "sensors and alarms": {
        "device_id": "k", "broker_host": "b", "wifi_ssid": "n", "mode": "collector", "series": True,
        "sensors": ["memory", "adc@26", {"driver": "bme280", "name": "attic", "scl": 5, "sda": 4,
                                         "address": 119},
                    {"driver": "ds18b20", "pin": 2, "rom": "2800000000000012"},
                    {"driver": "adc", "pin": 27, "unit": "5", "exponent": -2},
                    {"driver": "hx711", "dout": 1, "sck": 2, "gain": "64"}],
        "alarms": {"attic_temperature": {"below": -5, "above": 30.5}, "memory": {"above": 1}},
    },
}  # fmt: skip


def typed(shown):
    """As the page sends it: of what it shows all is text, but for boxes and numbers of entries."""
    return json.loads(json.dumps(shown))


@pytest.fixture
def made(tmp_path):
    """Of a folder without a broker."""
    files = places.SettingsFolder(tmp_path)
    return desk.Desk({"RPI_PICO_W": KIND}, [], files, None, Jobs(print))


@pytest.mark.parametrize("name", FILES)
def test_settings_are_shown_without_secrets_and_come_back_as_they_were(name):
    given = FILES[name]
    shown = form.shown(given, KIND)
    assert SECRET not in json.dumps(shown) and "ab" * 32 not in json.dumps(shown)
    back = form.settings(typed(shown), KIND, Path(), given)
    assert full(back) == full(given)


def full(given):
    """With the chip's own sensors where none are named."""
    given = {**settings_file.defaults(given), "sensors": list(KIND.sensors)} | given
    return settings_module().check(given)


def test_a_typed_secret_comes_before_the_one_of_the_file():
    given = FILES["all of the example"]
    shown = typed(form.shown(given, KIND))
    assert set(shown["kept"]) == {"password", "update_key"}
    shown["values"]["password"] = "another"
    shown["networks"][0]["password"] = " with blanks "
    back = form.settings(shown, KIND, Path(), given)
    assert back["password"] == "another" and back["wifi_password"] == " with blanks "
    shown["kept"] = []
    del shown["values"]["password"]
    assert "password" not in form.settings(shown, KIND, Path(), given)


def test_what_is_typed_has_the_type_of_its_key_and_empty_means_the_default():
    values = {"device_id": " kitchen ", "broker_port": "8883", "interval_ms": "soon", "user": "",
              "tls": True, "commands": False, "mode": "broker", "level": "5", "series": "automatic",
              "deep_sleep": "true"}  # fmt: skip
    found = form.settings({"values": values, "own": list(KIND.sensors)}, KIND, Path(), {})
    assert found == {"device_id": "kitchen", "broker_port": 8883, "interval_ms": "soon",
                     "tls": True, "mode": "broker", "level": 5, "deep_sleep": True}  # fmt: skip


@pytest.mark.parametrize(
    "posted",
    [
        {"values": []}, {"values": {"no_key": "x"}}, {"values": {"device_id": 5}},
        {"values": {"device_id": ["x"]}}, {"values": {"device_id": True}}, {"own": "x"},
        {"own": [1]}, {"sensors": [{"driver": ["x"]}]}, {"networks": ["x"]},
        {"networks": [{}] * 65}, {"alarms": [{"reading": None}]}, {"kept": [{}]},
    ],
)  # fmt: skip
def test_what_no_page_sends_is_refused(posted):
    with pytest.raises(ToolError, match="not one that this page sends"):
        form.settings(posted, KIND, Path(), {})


def test_an_entry_that_is_half_filled_in_is_not_dropped():
    posted = {"networks": [{"ssid": ""}, {"ssid": "b", "password": "short"}],
              "alarms": [{"reading": "", "below": "5", "above": ""}, {"reading": "", "above": ""},
                         {"reading": "t", "below": "1"}, {"reading": "t", "above": "2.5"}],
              "own": list(KIND.sensors)}  # fmt: skip
    found = form.settings(posted, KIND, Path(), {})
    assert found == {"wifi_networks": [{}, {"ssid": "b", "password": "short"}],
                     "alarms": {"": {"below": 5}, "t": {"below": 1, "above": 2.5}}}  # fmt: skip
    assert form.settings({"networks": [{"ssid": ""}, {}]}, KIND, Path(), {}) == {"sensors": []}


def test_a_kept_network_is_one_of_the_file():
    posted = {"networks": [{"ssid": "a", "kept": 7}, {"ssid": "b", "kept": -1}]}
    old = {"wifi_networks": [{"ssid": "x", "password": SECRET}]}
    found = form.settings(posted, KIND, Path(), old)
    assert SECRET not in json.dumps(found)


# --- The page ---


def test_each_key_of_the_firmware_has_one_place_on_the_page(made):
    text = page.render(made)
    named = set(re.findall(r'data-field="(\w+)"', text.partition("<template")[0]))
    lists = set(re.findall(r'data-list="(\w+)"', text))
    assert lists == {"networks", "sensors", "alarms"}
    keys = set(settings_rules()) - {"wifi_ssid", "wifi_password", *fields.LISTS, "alpn"}
    assert named == keys | {"port", "board", "file", "own"}
    assert {one.label for one in fields.more()} & keys == set(), "a key that is called nothing"


def test_a_drivers_keys_are_on_the_page_with_range_default_unit_and_what_is_required():
    driver = sensor_drivers.find("battery", None)
    found = {one.name: one for one in fields.of_driver(driver)}
    assert found.keys() == driver.keys.keys()
    assert found["pin"].is_required and found["pin"].limits == "0 to 48"
    assert found["top_ohm"].label == "top_ohm (Ω)" and found["top_ohm"].default == "100000"
    assert found["curve"].choices == ("lipo", "linear") and not found["curve"].is_required
    bme280 = sensor_drivers.find("bme280", None)
    address = next(one for one in fields.of_driver(bme280) if one.name == "address")
    assert (address.limits, address.default) == ("0x76 to 0x77", "0x76")
    assert fields.readings(bme280) == "temperature °C, humidity %, pressure Pa"


def test_text_of_a_drivers_file_is_no_markup(made):
    nasty = '"""<script>alert(1)</script>."""\nKEYS = {"a": "<b>"}\nREADINGS = (("<i>", "", 0),)'
    (made.files.folder / "nasty.py").write_text(nasty)
    text = page.render(made)
    assert "nasty" in text and not re.search(
        r"<script>|<b>|<i>", text.replace("<b>required</b>", "")
    )


# --- The desk ---


def test_the_kinds_are_those_that_a_cable_leads_to_and_ones_own():
    own = RIGS / "rig_board"
    found = kinds.on_cables(REPOSITORY, [f"{own}"])
    assert {*found} == {*kinds.names(REPOSITORY)} - {"UNIX"} | {f"{own}"}


def posted(**more):
    values = {"device_id": "kitchen", "broker_host": "10.0.0.7", "mode": "collector"}
    made = {"values": values, "networks": [{"ssid": "Home", "password": SECRET}],
            "own": list(KIND.sensors)}  # fmt: skip
    return {"board": "RPI_PICO_W", "form": made} | more


def test_faults_are_at_the_fields_of_the_page(made):
    one = posted()
    one["form"]["values"] |= {"device_id": "two words", "tls": True, "ca_file": "../secret.pem"}
    one["form"]["networks"][0]["password"] = "short"
    second = {"driver": "bme280", "name": "b", "scl": "x", "sda": "4"}
    one["form"]["sensors"] = [{"driver": "bme280", "scl": "5"}, second]
    with pytest.raises(desk.Faulty) as refused:
        made.check(one)
    faults = refused.value.faults
    assert set(faults) == {"device_id", "networks.0.password", "sensors.0.sda", "sensors.1.scl",
                           "ca_file"}  # fmt: skip
    assert faults["ca_file"].startswith("choose one of the files in /")


def test_a_driver_is_one_that_was_offered(made, tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text('READINGS = (("", "", 0),)')
    inside = tmp_path / "inside"
    inside.mkdir()
    made = desk.Desk(made.kinds, [], places.SettingsFolder(inside), None, made.jobs)
    for driver in (
        "../outside",
        "../../inside/../outside",
        str(outside.with_suffix("")),
        "outside",
    ):
        one = posted()
        one["form"]["sensors"] = [{"driver": driver}]
        with pytest.raises(desk.Faulty) as refused:
            made.check(one)
        [text] = refused.value.faults.values()
        assert "it may hold a-z 0-9 _ only" in text or "has no driver 'outside'" in text


def test_files_have_the_names_that_were_offered(made, tmp_path):
    (tmp_path / "outside.toml").write_text("")
    inside = tmp_path / "inside"
    inside.mkdir()
    made = desk.Desk(made.kinds, [], places.SettingsFolder(inside), None, made.jobs)
    for name in ("../outside.toml", str(tmp_path / "outside.toml"), "outside.toml", ".toml"):
        with pytest.raises(ToolError, match="no such settings file"):
            made.load({"board": "RPI_PICO_W", "name": name})
    for port in ("/dev/null", "/etc/passwd", ""):
        with pytest.raises(desk.Faulty) as refused:
            made.start(posted(task="flash", port=port))
        assert "choose the port" in refused.value.faults["port"]
    with pytest.raises(desk.Faulty):
        made.check(posted(board="/tmp"))


def test_a_port_that_cannot_be_used_says_why_and_what_to_do(made):
    made = desk.Desk(made.kinds, ["/dev/no-such-port"], made.files, None, made.jobs)
    found = {one["port"]: one["trouble"] for one in made.state()["ports"]}
    assert "no such port; `outpost devices` names" in found["/dev/no-such-port"]
    assert "is it a data cable?" in made.state()["none"]
    with pytest.raises(desk.Faulty) as refused:
        made.start(posted(task="kind", port="/dev/no-such-port"))
    assert refused.value.faults == {"port": found["/dev/no-such-port"]}


def test_settings_are_saved_for_their_owner_alone_and_not_over_others(made, tmp_path):
    saved = made.save(posted(port="/dev/x"))
    path = tmp_path / "kitchen.toml"
    assert path.stat().st_mode & 0o777 == 0o600 and saved["file"] == "kitchen.toml"
    assert saved["command"] == f"outpost flash --board RPI_PICO_W --port /dev/x --settings {path}"
    assert settings_file.load(path, KIND).full["wifi_password"] == SECRET
    path.write_text("# mine\n")
    with pytest.raises(places.Exists):
        made.save(posted())
    assert path.read_text() == "# mine\n"
    path.chmod(0o644)
    made.save(posted(overwrite=True))
    assert path.stat().st_mode & 0o777 == 0o600 and SECRET in path.read_text()
    shown = made.load({"board": "RPI_PICO_W", "name": "kitchen.toml"})
    assert SECRET not in json.dumps(shown)
    one = posted(file="kitchen.toml")
    one["form"] |= {"networks": [{"ssid": "Home", "kept": 0}]}
    assert made.check(one).settings.full["wifi_password"] == SECRET


def test_what_of_a_file_is_not_on_the_page_is_said(made, tmp_path):
    text = 'device_id = "k"\nno_key = 1\nsensors = ["memory", {driver = "mine", pin = 1}]\n'
    (tmp_path / "k.toml").write_text(text + 'password = "x"\n')
    (tmp_path / "k.toml").chmod(0o644)
    note = made.load({"board": "RPI_PICO_W", "name": "k.toml"})["note"]
    assert "no board knows it: no_key." in note and "driver is missing: mine." in note
    assert "others can read it, and it holds a password" in note


def test_with_the_folder_of_outpost_run_the_broker_is_its_own(made, tmp_path):
    with pytest.raises(ToolError, match="no broker there yet: start `outpost run"):
        places.HomeBroker(tmp_path)
    folder = Folder(tmp_path / "broker")
    making.make(folder, making.Wish(("127.0.0.1",), plugin="/nowhere.so"))
    home = places.HomeBroker(tmp_path)
    made = desk.Desk(made.kinds, [], places.SettingsFolder(tmp_path / "boards"), home, made.jobs)
    assert 'id="broker_host"' not in page.render(made) and home.address in page.render(made)
    checked = made.check(posted())
    assert checked.settings.full["user"] == "kitchen" and checked.settings.full["tls"]
    assert not folder.has("board", "kitchen"), "a check makes no user"
    assert "the broker does not run" in home.add("kitchen") and folder.has("board", "kitchen")
    assert (
        made.check(posted()).settings.full["password"] == folder.load("board", "kitchen").password
    )
    for name in ("collector-1", "admin", "my/kitchen"):
        one = posted()
        one["form"]["values"]["device_id"] = name
        with pytest.raises(desk.Faulty) as refused:
            made.check(one)
        assert list(refused.value.faults) == ["device_id"]
    saved = made.save(posted())
    assert saved["command"].endswith(f"--credentials {tmp_path / 'broker'}")
    one = posted()
    one["form"]["values"]["device_id"] = "attic"  # who has no user yet
    assert made.save(one)["command"].startswith(
        f"outpost broker add {tmp_path / 'broker'} attic &&"
    )
    one["form"]["values"]["device_id"] = "-x"
    line = made.save(one)["command"].partition(" && ")[0]
    assert cli.main(shlex.split(line)[1:]) == 0, "its name was taken for an option"
    assert folder.has("board", "-x")
    path = Path(saved["saved"])
    assert not set(tomllib.loads(path.read_text())) & set(broker_part.KEYS)
