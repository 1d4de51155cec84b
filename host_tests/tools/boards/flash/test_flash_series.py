# cpython-only: flashes a board behind a pseudo-terminal
"""`outpost flash` brings the modules for series where the settings want them, and leaves them where
an outbox may hold series; the board then sends both kinds, whatever its settings say now."""

import json
import re

import pytest

from collector_process import Process, mosquitto, wait_until
from flash_rig import SETTINGS
from outpost_tools.boards.files import needed, payload
from outpost_tools.boards.flash import flashing
from outpost_tools.boards.port import kinds
from outpost_tools.messages.message import decode
from outpost_tools.messages.series import is_series
from paths import REPOSITORY

_ = mosquitto  # a fixture
pytestmark = pytest.mark.timeout(600)


def settings_file(rig, port, **more):
    path = rig.folder / "rig.toml"
    given = {**SETTINGS, "mode": "collector", "broker_port": port, "outbox_blocks": 16, **more}
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items()))
    path.chmod(0o600)
    return path


def modules(rig):
    return sorted({*ALL} & rig.hashes().keys())


def of_series():
    kind = kinds.load(REPOSITORY, "UNIX")
    without, with_ = [
        payload.build(REPOSITORY, kind, "x86", needed.defaults() | {"series": wanted})
        for wanted in (False, True)
    ]
    return sorted(with_.keys() - without.keys())


ALL = of_series()


@pytest.mark.long
def test_the_modules_come_with_the_setting_and_stay_with_the_outbox(rig, tmp_path, mosquitto):
    plain = settings_file(rig, mosquitto.port)
    assert rig.outpost("flash", "--settings", plain, "--no-link") == 0, rig.out + rig.err
    assert modules(rig) == []
    wanted = settings_file(rig, mosquitto.port, series=True, series_age_s=1)
    with Process(tmp_path, mosquitto.port) as collector:
        assert rig.outpost("flash", "--settings", wanted) == 0, rig.out + rig.err
        assert rig.row("message").startswith("the collector confirmed it after")
        wait_until(lambda: sum(map(is_series, collector.payloads())) >= 3)
        assert modules(rig) == ALL
    plain = settings_file(rig, mosquitto.port)
    mosquitto.stop()
    assert rig.outpost("flash", "--settings", plain, "--no-link") == 0, rig.out + rig.err
    assert re.search(r"\d+ messages held", rig.row("outbox"))
    mosquitto.start()
    with Process(tmp_path, mosquitto.port) as collector:
        wait_until(lambda: [one for one in collector.payloads()[-5:] if not is_series(one)])
        wait_until(lambda: not any(map(is_series, collector.payloads()[-20:])))
        assert modules(rig) == ALL and collector.terminate() == 0
        found = [decode("outpost/rig-1/data", one) for one in collector.payloads()]
    numbers = {message.seq for message in found}
    assert numbers == set(range(max(numbers) + 1)), "none is missing"
    assert len({message.stream for message in found}) == 1


@pytest.mark.long
def test_provision_brings_them_to_a_board_of_the_same_version(
    rig, tmp_path, mosquitto, monkeypatch
):
    plain = settings_file(rig, mosquitto.port)
    assert rig.outpost("flash", "--settings", plain, "--no-link") == 0, rig.out + rig.err
    wanted = settings_file(rig, mosquitto.port, series=True, series_age_s=1)
    kept = flashing.firmware_version
    monkeypatch.setattr(flashing, "firmware_version", lambda: "99.0.0")
    assert rig.outpost("provision", wanted) == 2
    assert "key 'series'" in rig.err and "run `outpost flash" in rig.err
    monkeypatch.setattr(flashing, "firmware_version", kept)
    with Process(tmp_path, mosquitto.port) as collector:
        assert rig.outpost("provision", wanted) == 0, rig.out + rig.err
        wait_until(lambda: sum(map(is_series, collector.payloads())) >= 2)
        assert modules(rig) == ALL
    assert rig.outpost("flash", "--no-link") == 0 and rig.row("files").startswith("0 copied")
