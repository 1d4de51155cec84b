# cpython-only: compiles what `outpost flash` copies and runs it under 32-bit MicroPython
"""A board has what its settings need and no more: whatever they are, its program is built from
these files alone; a setting whose files are not there is reported, not a crash.
"""

import ast
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

import make_certificates
from outpost_tools.boards.files import needed, payload
from outpost_tools.boards.port import kinds
from outpost_tools.boards.settings import sensor_drivers
from outpost_tools.machine.firmware import settings_module
from paths import BENCH_BOARD, FAKES, REPOSITORY, UNIX_BOARD
from real_broker import micropython

PROGRAM = Path(__file__).with_name("built_board.py")
SEED = int(os.environ.get("OUTPOST_NEEDED_SEED", "1"))
MIXTURES = int(os.environ.get("OUTPOST_NEEDED_MIXTURES", "12"))
PLAIN = {
    "device_id": "board-1", "broker_host": "broker.test", "mode": "broker", "wifi_ssid": "home",
    "outbox_blocks": 4,
}  # fmt: skip
NETWORKS = {"wifi_networks": [{"ssid": "home", "password": "12345678"}], "wifi_ssid": ""}
CHANGES = (
    {"when_full": "drop_oldest"},
    {"when_full": "newest_per_topic"},
    {"level": 5},
    {"level": 3},
    {"mode": "collector"},
    {"mode": "collector", "confirmation": "queued"},
    {"series": True},
    {"encoding": "cbor"},
    {"say_state": True},
    {"deep_sleep": True},
    {"commands": True},
    {"commands": True, "update_key": "5a" * 32},
    {"tls": True, "ca_file": "ca.der"},
    NETWORKS,
    {"sensors": [{"driver": "bme280", "scl": 1, "sda": 0}]},
    {"sensors": [{"driver": "pulse", "pin": 3}]},
    {"sensors": [{"driver": "pms5003", "uart": 1, "tx": 4, "rx": 5}]},
    {"sensors": ["ds18b20@2"]},
)  # fmt: skip


def mixtures():
    """Settings with some of the changes, that fit together."""
    choose, found = random.Random(SEED), []
    while len(found) < MIXTURES:
        given = dict(PLAIN)
        for change in choose.sample(CHANGES, choose.randint(3, 9)):
            given |= change
        try:
            settings_module().check(given)
            found.append(given)
        except ValueError:
            continue
    return found


def checked(given):
    return settings_module().check(given)


def files_of(kind, full):
    drivers = sensor_drivers.on_board(full["sensors"], None)
    programs = [driver.source for driver in drivers.values()]
    found = payload.build(REPOSITORY, kinds.load(REPOSITORY, kind), "x86", full, programs)
    return found | sensor_drivers.files(drivers, "x86")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_certificates.made_or_skip(tmp_path_factory.mktemp("certificates")) / "ca.der"


def run(folder, kind, files, given, *more):
    for path, data in files.items():
        (folder / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (folder / path.lstrip("/")).write_bytes(data)
    (folder / "settings.json").write_text(json.dumps(given))
    path = os.pathsep.join(map(str, (FAKES, UNIX_BOARD, BENCH_BOARD, ".frozen")))
    return subprocess.run(
        [*micropython("i386"), "-X", "heapsize=8M", PROGRAM, kind, folder, *more],
        env=os.environ | {"MICROPYPATH": path}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("given", [PLAIN, *(PLAIN | one for one in CHANGES), *mixtures()], ids=str)
def test_a_program_is_built_from_what_its_settings_need(given, tmp_path, authority):
    (tmp_path / "ca.der").write_bytes(authority.read_bytes())
    kind = "RPI_PICO_W"
    full = checked(given)
    done = run(tmp_path, kind, files_of(kind, full), given)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = set(done.stdout.split())
    later = {"station.update_start", "support.wifi_networks"}
    later |= {"station.unheard"} if full["deep_sleep"] else set()
    for part in needed.used(full):
        is_loaded = part.module in loaded | later
        assert is_loaded, f"{part.module} is not what {part.key} needs"


@pytest.mark.parametrize("kind", kinds.names(REPOSITORY))
def test_a_board_gets_no_module_of_another_port(kind):
    names = {Path(path).stem for path in files_of(kind, checked(PLAIN))}
    assert ("rp2_board" in names) == kind.startswith("RPI_")
    assert ("esp32_board" in names) == kind.startswith("ESP32_") == ("partition" in names)


@pytest.mark.parametrize("kind", kinds.names(REPOSITORY))
def test_a_board_collects_garbage_early_before_it_imports_anything_of_ours(kind):
    """`support` sets the threshold: garbage of imports would leave no long piece of heap."""
    source = (REPOSITORY / "boards" / kind / "board.py").read_text()
    ours = [
        node.module
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("outpost", "support")
    ]
    assert ours[0].split(".")[0] == "support"
    threshold = "gc.threshold(65_536)"
    assert threshold in (REPOSITORY / "boards/support/__init__.py").read_text()


def test_without_parts_there_is_nothing_of_theirs():
    files = files_of("RPI_PICO_W", checked(PLAIN))
    modules = {path.lstrip("/").rpartition(".")[0].replace("/", ".") for path in files}
    assert not {part.module for part in needed.PARTS} & modules
    others = ("mqtt5", "series", "command", "update_", "trial", "durable", "cbor", "subscribing")
    assert not [name for name in modules if any(one in name for one in others)]


@pytest.mark.parametrize(
    "change, module",
    [
        ({"level": 5}, "outpost.level5"),
        ({"mode": "collector"}, "outpost.durable"),
        ({"deep_sleep": True}, "station.deep_sleep"),
        ({"commands": True}, "station.commands"),
        ({"when_full": "drop_oldest"}, "outpost.policies"),
        (NETWORKS, "support.wifi_networks"),
    ],
    ids=str,
)
def test_settings_whose_files_are_not_there_are_reported(change, module, tmp_path):
    files = files_of("RPI_PICO_W", checked(PLAIN))
    done = run(tmp_path, "RPI_PICO_W", files, PLAIN | change, "main")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.strip() == (
        f"no module named '{module}': `outpost update` or `flash` brings it"
    )
