# cpython-only: reads the desktop tools
"""One grammar of names: what a new board may be called is taken by the firmware, the collector, the
broker and the pages; what earlier boards are called is still collected."""

import socket
from pathlib import Path

import pytest

from outpost_tools.boards.broker import folder as broker_folder
from outpost_tools.boards.port import kinds
from outpost_tools.boards.settings import answers, settings_file
from outpost_tools.errors import ToolError
from outpost_tools.loopback.brokers import open_broker
from outpost_tools.machine.firmware import settings_module
from outpost_tools.machine.interpreters import find_nats
from outpost_tools.messages import board_words, message, name_rules
from outpost_tools.mqtt.arguments import check_topic
from paths import REPOSITORY
from virtual import packets

KIND = kinds.load(REPOSITORY, "RPI_PICO_W")
GIVEN = {"device_id": "kitchen", "broker_host": "broker", "mode": "broker", "wifi_ssid": "Home"}


# name: what to write in its place; "": it can be given to a new board
DEVICES = {
    "kitchen": "", "garden_2": "", "A": "", "0": "", "-x": "", "_": "", "x" * 32: "",
    "collectors": "collectors-1", "admin": "admin-1", "..": "board-1", ".a": "a", "a.b": "a-b",
    "a.": "a",
}  # fmt: skip
PREFIXES = {
    "outpost": "", "home/attic": "", "a/b/c/d/e": "", "out.post": "", "h\u00f6hle": "",
    "home/": "home", "/home": "home", "a//b": "a/b", "/": "outpost", "$SYS": "sys",
    "$share/g/outpost": "share/g/outpost", "my home": "my-home", "%u": "-u",
    "a/b/c/d/e/f": "a/b/c/d/e",
}  # fmt: skip
SENSORS = {"attic": "", "torn_2": "", "x.y": "", "torn": "x", "firmware": "x", "report_s": "x",
           "signal": "x", "command": "x", "attic.fault": "x"}  # fmt: skip
NEVER = ("", "a/b", "x" * 33, "a b", "\u00e4", "a+", "#", "a\n")


def given(**more):
    return {**GIVEN, **more}


def one_sensor(name):
    return [{"driver": "digital", "name": name, "pin": 5}]


def refused(**more):
    """What provision says; "": it takes them."""
    try:
        settings_file.check(given(**more), "k.toml", Path(), KIND)
    except ToolError as error:
        return str(error)
    return ""


def is_taken_by_firmware(**more):
    try:
        settings_module().check(given(**more), "settings.json")
    except ValueError:
        return False
    return True


def is_taken_by_broker(name):
    try:
        broker_folder.check_name(name)
    except ToolError:
        return False
    return True


@pytest.mark.parametrize(("name", "instead"), DEVICES.items())
def test_a_device_id_that_others_refuse_is_refused_by_provision(name, instead):
    said = refused(device_id=name)
    assert bool(said) == bool(instead)
    if instead:
        assert said.startswith("k.toml: key 'device_id' ") and f"write {instead!r}" in said
        assert "--keep-names" in said
        assert not refused(device_id=instead)
    else:
        assert is_taken_by_broker(name)
    assert is_taken_by_firmware(device_id=name)  # its check has not become narrower


@pytest.mark.parametrize(("prefix", "instead"), PREFIXES.items())
def test_a_prefix_that_others_refuse_is_refused_by_provision(prefix, instead):
    said = refused(topic_prefix=prefix)
    assert bool(said) == bool(instead)
    if instead:
        assert said.startswith("k.toml: key 'topic_prefix' ") and f"write {instead!r}" in said
        assert not refused(topic_prefix=instead)
    else:
        check_topic("--prefix", prefix)
        assert name_rules.is_prefix(prefix)
    assert is_taken_by_firmware(topic_prefix=prefix)


@pytest.mark.parametrize(("name", "instead"), SENSORS.items())
def test_a_reading_that_the_board_uses_itself_is_refused_by_provision(name, instead):
    said = refused(sensors=one_sensor(name))
    assert bool(said) == bool(instead)
    assert f"the reading {name!r}" in said or not instead
    assert is_taken_by_firmware(sensors=one_sensor(name))


def test_a_name_that_its_driver_completes_is_judged_whole(tmp_path):
    """The reading is report_s, although neither the sensor nor the driver has that name."""
    driver = 'READINGS = (("s", "s", 0),)\n\n\nclass Driver:\n    pass\n'
    (tmp_path / "mine.py").write_text(driver)
    sensors = [{"driver": "mine", "name": "report"}]
    with pytest.raises(ToolError, match="the reading 'report_s'"):
        settings_file.check(given(sensors=sensors), "k.toml", tmp_path, KIND)


def test_the_chips_own_signal_is_no_fault():
    assert not refused(sensors=["temperature", "signal", "reset_cause"])


@pytest.mark.parametrize("name", NEVER)
def test_what_the_firmware_refuses_everybody_refuses(name):
    assert not is_taken_by_firmware(device_id=name)
    assert refused(device_id=name)
    assert not name_rules.is_device(name) and name_rules.device_fault(name)
    assert not is_taken_by_broker(name)


def test_the_pages_show_the_fault_at_its_field():
    found = answers.faults(given(device_id="..", topic_prefix="home/"), Path(), KIND)
    assert found.keys() == {"device_id", "topic_prefix"}
    assert "write 'home'" in found["topic_prefix"]


@pytest.mark.parametrize("name", [*DEVICES])
def test_every_board_in_the_field_is_still_collected(name):
    head = f'"bn":"{name}/","ver":1,"sid":"0123abcd","seq":7,"held":0,"boot":1,"up":1'
    pack = f'[{{{head},"n":"torn","v":1,"t":0}}]'.encode()
    topic = f"my home/{name}/data".encode()
    assert message.key_of(topic, pack)[:3] == (name, "0123abcd", 7)
    assert message.decode(topic.decode(), pack).device == name


@pytest.mark.parametrize("prefix", ["outpost", "my home", "%u", "a/b/c/d/e/f", "$mine"])
def test_a_collector_still_takes_the_prefixes_that_it_took(prefix):
    check_topic("--prefix", prefix)


@pytest.mark.parametrize("prefix", ["$SYS", "$share/g/outpost", "$CONTROL/x"])
def test_a_collector_takes_no_prefix_of_the_brokers_own(prefix):
    with pytest.raises(ToolError, match=r"\$SYS"):
        check_topic("--prefix", prefix)


def test_a_board_may_keep_the_names_that_it_has():
    named = given(device_id="a.b", topic_prefix="my home", sensors=one_sensor("torn"))
    made = settings_file.check(named, "k.toml", Path(), KIND, keep_names=True)
    assert made.full["device_id"] == "a.b"
    assert settings_file.check(named, "k.toml", Path(), None).full["device_id"] == "a.b"  # monitor


def test_the_boards_own_readings_are_all_reserved():
    for name in (*board_words.DIAGNOSTIC, *board_words.COMMANDS, "soil.fault", "soil.faults"):
        assert name_rules.reading_fault(name)


@pytest.mark.skipif(find_nats() is None, reason="missing: nats-server; run `make setup`")
def test_nats_refuses_an_id_with_a_full_stop_as_the_fault_says(tmp_path):
    with open_broker("nats", tmp_path) as broker:
        assert [_connack(broker.port, name) for name in ("a-b", "a.b")] == [0, 2]


def _connack(port, client_id):
    connect = packets.encode("CONNECT", client_id=client_id.encode(), user=b"outpost", clean=True)
    with socket.create_connection(("127.0.0.1", port), 10) as link:
        link.sendall(connect)
        return link.recv(4)[3]
