# cpython-only: flashes a board behind a pseudo-terminal
"""`outpost flash` says whether the board's first message came through: to the collector, or to the
broker alone. A collector that comes later gets all of it."""

import json

import pytest

from collector_process import Process, wait_until
from flash_rig import SETTINGS
from outpost_tools.boards.flash.first_message import Found, parse, told
from outpost_tools.loopback.broker import Broker
from real_broker import need_mosquitto


@pytest.fixture
def broker(tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path / "broker") as made:
        yield made


def settings_file(rig, **more):
    path = rig.folder / "rig.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**SETTINGS, **more}.items()]
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return path


def test_without_a_collector_it_says_so_and_one_that_comes_later_gets_all(rig, broker, tmp_path):
    where = settings_file(rig, mode="collector", broker_port=broker.port)
    assert rig.outpost("flash", "--settings", where, "--link-timeout", 8) == 1
    said = rig.row("message")
    assert said.startswith("failed: the broker took it, and no collector confirmed it within 8 s")
    assert "outpost collect" in said and 'mode = "broker"' in said and "full in about" in said
    with Process(tmp_path, broker.port) as collector:
        wait_until(lambda: len(collector.frames()) >= 20)
        assert rig.outpost("flash") == 0, rig.out + rig.err
        assert rig.row("message").startswith("the collector confirmed it after")
        assert collector.terminate() == 0
        seen = {json.loads(data)[0]["seq"] for data in collector.payloads()}
    assert seen == set(range(max(seen) + 1)), "from the first on, none is missing"


def test_in_broker_mode_the_broker_is_enough(rig, broker):
    where = settings_file(rig, broker_port=broker.port)
    assert rig.outpost("flash", "--settings", where) == 0, rig.out + rig.err
    assert rig.row("message").startswith("the broker took it after")


def found(**more):
    fields = {
        "is_done": False, "is_collector": True, "is_connected": True, "acknowledged": 1,
        "held": 1, "status": 0, "seq": 0, "interval_ms": 10_000, "blocks": 64,
    }  # fmt: skip
    return Found(**{**fields, **more})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "full in about 3 h"),
        ({"interval_ms": 600_000}, "full in about 7 days"),
        ({"held": 1024}, "full in about 0 min"),
        ({"held": 0}, "no sensor had a reading"),
        ({"is_connected": False}, "the broker did not take it within 60 s: DNS_FAILED (-43)"),
        ({"acknowledged": 0}, "the broker did not take it"),
    ],
)
def test_what_is_said_when_it_does_not_come_through(given, text):
    is_good, said = told(found(**given), 60.0, 60.0, [-43], {-43: "DNS_FAILED (-43)"}.get)
    assert not is_good and text in said


def test_the_answer_is_found_among_what_the_program_prints():
    assert parse(["noise", "D 1 1 1 5 0 0 7 1000 64 0"]).is_done
    assert parse(["D 1 1", "x"]) is None
