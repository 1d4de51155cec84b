# cpython-only: the desktop's tools
"""Whether a board has the memory for its settings: the sum beside what was measured, settings that
do not fit, each with the line that the user reads, settings that do, and where it is asked."""

import dataclasses
import json

import pytest

import memory_page
import program_heap
from outpost_tools.boards.files import inventory, payload
from outpost_tools.boards.port import kinds
from outpost_tools.boards.send import wording
from outpost_tools.boards.settings import answers, memory_fit, settings_file
from outpost_tools.errors import ToolError
from paths import REPOSITORY

PICO, PICO_2 = (kinds.load(REPOSITORY, name) for name in ("RPI_PICO_W", "RPI_PICO2_W"))
SMALL = kinds.load(REPOSITORY, "ESP32_GENERIC")
GIVEN = {"device_id": "b1", "broker_host": "broker", "wifi_ssid": "Home"}
NEAR = 0.05  # of what was measured
WORDS = {
    "tls": {"tls": True, "ca_file": "ca.pem"},
    "broker": {"mode": "broker"},
    "collector": {"mode": "collector"},
    "mute": {"say_state": False},
    "level5": {"level": 5},
    "commands": {"commands": True},
    "update": {"commands": True, "update_key": "5a" * 32},
    "series": {"series": True},
    "cbor": {"encoding": "cbor"},
    "sleep": {"deep_sleep": True},
}
DRIVERS = ("bme280", "sht4x", "aht20", "bh1750", "scd4x", "ina219")


def sensors_of(count):
    """That many sensors with drivers of their own."""
    return [{"driver": name, "scl": 5, "sda": 4} for name in DRIVERS[:count]]


def given_of(words):
    """ "tls level5 blocks=80 drivers=2" as settings."""
    given = dict(GIVEN)
    for word in words.split():
        name, _, number = word.partition("=")
        if name == "blocks":
            given["outbox_blocks"] = int(number)
        elif name == "drivers":
            given["sensors"] = sensors_of(int(number))
        else:
            given |= WORDS[name]
    return given


def full_of(words):
    given = given_of(words)
    return settings_file.settings_module().check({**settings_file.defaults(given), **given})


def line_of(words, kind=PICO):
    found = [
        f"key '{key}' {fault}" for key, fault in memory_fit.faults(full_of(words), kind) if fault
    ]
    return found[0] if found else ""


# --- The sum beside what was measured ---


@pytest.mark.parametrize("name", program_heap.CONFIGURATIONS)
def test_the_sum_is_what_was_measured(name):
    row = program_heap.read_baseline()[name]
    if not row.is_connected:
        assert not memory_fit.fits(memory_page.settings_of(name), PICO)
        return
    settings = memory_page.settings_of(name)
    wanted = memory_fit.heap_of(settings)
    assert wanted >= row.used * (1 - NEAR), (wanted, row.used)
    if not (settings["deep_sleep"] and settings["tls"]):  # measured when TLS was closed again
        assert wanted <= row.used * (1 + NEAR), (wanted, row.used)


def test_what_fits_connected_at_the_first_try():
    for name, row in program_heap.read_baseline().items():
        if name in program_heap.CONFIGURATIONS and memory_fit.fits(
            memory_page.settings_of(name), PICO
        ):
            assert row.connects == 1, name


@pytest.mark.parametrize("words", ["broker", "level5", "update", "series", "tls update series"])
def test_the_blocks_are_those_of_the_files_and_their_folders(words):
    full = full_of(words)
    files = payload.build(REPOSITORY, PICO, "armv6m", full)
    folders = {path.rpartition("/")[0] for path in files} - {""}
    # A folder of littlefs has two; and so many the outbox, what is spare, and certificates.
    least = sum(map(inventory.blocks_of, files.values())) + 2 * len(folders)
    least += full["outbox_blocks"] + memory_fit.SPARE_BLOCKS + full["tls"]
    assert least <= memory_fit.blocks_of(full) <= least + 8


def test_the_page_is_the_tables():
    assert memory_page.PAGE.read_text(encoding="utf-8") == memory_page.text()


def test_each_board_says_what_memory_it_has():
    for name in kinds.names(REPOSITORY):
        kind = kinds.load(REPOSITORY, name)
        memory = memory_fit.memory_of(kind)
        assert (memory is None) == (kind.platform == "linux"), name
        if memory:
            about = json.loads((kind.folder / "board.json").read_text())["memory"]
            assert about["source"] and memory.is_computed == (name != "RPI_PICO_W"), name


# --- Settings that do not fit, and settings that do ---
START = "does not fit: these settings take {} bytes of the heap, and this board has room for {}; "
# settings|the key that is named|what they take|what to leave out
TOO_MUCH = [
    tuple(row.split("|"))
    for row in """\
broker tls level5 update|update_key|159,300|'update_key', or 'level' = 5, or 'commands'
tls commands cbor collector drivers=2|encoding|161,300|'encoding' = "cbor", or 'commands'
tls update collector drivers=2|update_key|161,900|'update_key', or 'commands'
broker tls level5 commands drivers=2|level|162,100|'level' = 5, or 'commands'
broker tls level5 update cbor|update_key|162,300|'update_key', or 'level' = 5, or 'commands'
tls update cbor collector drivers=2|commands|164,900|'commands'
broker tls level5 commands cbor drivers=2|level|165,100|'level' = 5, or 'commands'
broker tls level5 update drivers=2|level|165,700|'level' = 5, or 'commands'
broker tls level5 series cbor|level|165,700|'level' = 5, or 'series'
broker tls commands series|commands|166,200|'commands', or 'series'
tls series cbor collector drivers=2|series|168,300|'series'
tls level5 commands cbor collector|level|168,900|'level' = 5, or 'commands'
broker tls level5 series drivers=2|level|169,100|'level' = 5, or 'series'
tls level5 update collector|level|169,500|'level' = 5, or 'commands'
broker tls update series|commands|169,800|'commands', or 'series'
tls level5 commands collector drivers=2|level|172,300|'level' = 5, or 'commands'
tls level5 update cbor collector|level|172,500|'level' = 5, or 'commands'
broker tls update series cbor|commands|172,800|'commands', or 'series'
tls level5 series collector|level|172,900|'level' = 5, or 'series'
level5 update series cbor collector drivers=2|encoding|174,400|\
'encoding' = "cbor", or 'update_key', or 'level' = 5
broker tls commands series cbor drivers=2|commands|175,600|'commands', or 'series'
tls level5 update collector drivers=2|commands|175,900|'commands'
broker tls update series drivers=2|commands|176,200|'commands', or 'series'
tls commands series collector|commands|176,400|'commands', or 'series'
broker tls update series cbor drivers=2|commands|179,200|'commands', or 'series'
tls level5 series collector drivers=2|series|179,300|'series'
tls update series collector|commands|180,000|'commands', or 'series'
broker tls level5 commands series|series|180,200|'series'
tls commands series collector drivers=2|series|182,800|'series'
tls update series cbor collector|series|183,000|'series'
tls commands series cbor collector drivers=2|encoding|185,800|\
'encoding' = "cbor" and 'series', or 'commands' and 'series'
tls update series collector drivers=2|update_key|186,400|\
'update_key' and 'series', or 'commands' and 'series'
tls level5 commands series cbor collector|level|193,400|\
'level' = 5 and 'series', or 'commands' and 'series'
tls level5 commands series collector drivers=2|level|196,800|\
'level' = 5 and 'series', or 'commands' and 'series'
tls level5 commands series cbor collector drivers=2|commands|199,800|'commands' and 'series'
tls level5 update series collector drivers=2|commands|200,400|'commands' and 'series'
""".splitlines()
]
TOO_MANY = [
    ("broker blocks=134", 134, 214, 132),
    ("broker level5 blocks=120", 120, 214, 118),
    ("collector series blocks=126", 126, 216, 122),
    ("broker drivers=3 blocks=130", 130, 216, 126),
    ("tls blocks=133", 133, 214, 131),
    ("broker blocks=400", 400, 480, 132),
    ("sleep broker blocks=140", 140, 220, 132),
    ("broker cbor blocks=150", 150, 230, 132),
]
FIT = """\
tls level5 collector drivers=2
tls commands cbor collector
broker tls series drivers=2
tls update collector
broker tls level5 commands
commands series cbor collector drivers=2
update series collector drivers=2
broker level5 commands series drivers=2
broker level5 update series cbor
tls level5 cbor collector drivers=2
broker tls series cbor drivers=2
tls commands collector drivers=2
tls update cbor collector
broker tls level5 commands cbor
tls series collector
update series cbor collector drivers=2
broker level5 commands series cbor drivers=2
broker level5 update series drivers=2
level5 commands series collector
broker level5 update series cbor drivers=2
level5 commands series cbor collector
level5 update series collector
level5 commands series collector drivers=2
level5 update series cbor collector
level5 commands series cbor collector drivers=2
level5 update series collector drivers=2
broker cbor
collector drivers=2
broker level5 cbor drivers=2
level5 cbor collector
commands cbor collector
broker series cbor drivers=2
commands cbor collector drivers=2
broker level5 series
level5 commands collector
level5 commands cbor collector
broker tls commands
tls cbor collector drivers=2
level5 update collector drivers=2
broker tls update cbor
update series collector
tls commands collector
broker blocks=132
broker drivers=6
sleep
tls sleep cbor
mute collector tls
""".splitlines()


@pytest.mark.parametrize("words, key, used, ways", TOO_MUCH)
def test_what_does_not_fit_is_said_with_what_to_leave_out(words, key, used, ways):
    room = "159,184" if "tls" in words else "173,184"
    assert line_of(words) == f"key '{key}' {START.format(used, room)}leave out {ways}"


@pytest.mark.parametrize("words, blocks, needed, most", TOO_MANY)
def test_an_outbox_that_the_filesystem_does_not_hold(words, blocks, needed, most):
    assert line_of(words) == (
        f"key 'outbox_blocks' is {blocks}, and with the program's files that takes {needed} blocks "
        f"of 4,096 bytes; this board's filesystem has 212: {most} is the most"
    )


@pytest.mark.parametrize("words", FIT)
def test_what_fits_is_let_through(words):
    assert line_of(words) == ""


def test_there_are_enough_of_both():
    assert len(TOO_MUCH) + len(TOO_MANY) >= 40 and len(FIT) >= 40


@pytest.mark.parametrize("words", [one[0] for one in TOO_MUCH])
def test_what_is_to_be_left_out_is_enough_and_no_more_keys_than_needed(words):
    full = full_of(words)
    ways = memory_fit._ways(full, 205_184)
    assert ways
    for keys in ways:
        left = memory_fit.without(full, keys)
        assert memory_fit.fits(left, PICO)
        for count in range(len(keys)):
            assert not memory_fit.fits(memory_fit.without(full, keys[:count]), PICO)


# --- Where it is asked ---


EVERYTHING = """\
device_id = "b1"
broker_host = "broker"
wifi_ssid = "Home"
mode = "collector"
commands = true
update_key = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"
series = true
level = 5
encoding = "cbor"
sensors = [
    {driver = "bme280", scl = 5, sda = 4},
    {driver = "sht4x", scl = 5, sda = 4},
    {driver = "aht20", scl = 5, sda = 4},
    {driver = "bh1750", scl = 5, sda = 4},
]
"""


@pytest.fixture
def everything(tmp_path):
    """A settings file whose sum is too much for a Pico W."""
    path = tmp_path / "k.toml"
    path.write_text(EVERYTHING)
    return path


@pytest.mark.parametrize("command", ["provision", "flash"])
def test_provision_and_flash_refuse_before_they_look_for_a_board(command, everything, capsys):
    from outpost_tools.cli import main

    words = [command, "--board", "RPI_PICO_W", "--port", "/dev/no-such-port"]
    words += [str(everything)] if command == "provision" else ["--settings", str(everything)]
    assert main(words) == 2
    told = capsys.readouterr().err
    assert "k.toml: key '" in told and " does not fit: these settings take " in told
    assert "no-such-port" not in told


def test_the_form_of_setup_shows_it_at_the_key(tmp_path):
    given = given_of("collector update series level5 cbor drivers=4")
    found = answers.faults(given, tmp_path, PICO)
    assert any("does not fit" in text for text in found.values()), found
    assert set(found) <= {"series", "level", "commands", "update_key", "encoding"}
    assert answers.faults(given, tmp_path, PICO_2) == {}


def test_series_that_do_not_fit_are_not_proposed(tmp_path):
    given = given_of("collector update level5 drivers=4") | {"interval_ms": 1000}
    settings = answers.check(given, "k.toml", tmp_path, PICO)
    assert not settings.full["series"]
    assert answers.check(given, "k.toml", tmp_path, PICO_2).full["series"]


def test_send_set_compares_the_sum_with_the_board(everything):
    text = everything.read_text()
    text = text.replace("series = true\n", "").replace("level = 5\n", "")
    everything.write_text(text.replace('encoding = "cbor"\n', ""))
    words = ["set", "series=true", "level=5"]
    with pytest.raises(ToolError, match="^set: key '.*does not fit.*leave out 'level' = 5, or '"):
        wording.check_memory(words, everything, PICO)
    wording.check_memory(words, everything, PICO_2)
    wording.check_memory(["report"], everything, PICO)
    wording.check_memory(["set", "series="], everything, PICO)


def test_a_board_that_was_computed_gets_a_warning_and_no_refusal(everything, capsys):
    with pytest.raises(ToolError):
        settings_file.load(everything, PICO)
    capsys.readouterr()
    settings_file.load(everything, SMALL)
    told = capsys.readouterr().err
    assert "does not fit" in told and "(computed, not measured)" in told
    settings_file.load(everything, PICO_2)
    assert "does not fit" not in capsys.readouterr().err


def test_a_board_of_somebodys_own_that_says_nothing_is_not_judged(tmp_path):
    about = json.loads((PICO.folder / "board.json").read_text())
    del about["memory"]
    (tmp_path / "board.json").write_text(json.dumps(about))
    own = dataclasses.replace(PICO, folder=tmp_path)
    assert memory_fit.memory_of(own) is None and memory_fit.fits(full_of("update series"), own)
    assert memory_fit.faults(full_of("update series"), own) == []


def test_a_goal_of_the_heap_counts_only_what_was_measured():
    def of(used: int, largest: int = 0, connects: int = 1) -> program_heap.Heap:
        return program_heap.Heap(used, 0, largest, connects)

    assert program_heap.goals({"level 5": of(90_000)}) == []
    lines = program_heap.goals({"broker": of(80_001), "level 5": of(90_001)})
    assert [line.rpartition(": ")[2] for line in lines] == ["missed by 1", "reached"]
    rows = {"everything, TLS": of(1, 30_000), "everything, TLS, 10 reconnects": of(1, 19_999)}
    assert program_heap.goals(rows)[0].endswith("19,999: missed")
    rows = {"everything, TLS, frozen": of(1, 20_000)}
    assert program_heap.goals(rows)[0].endswith("20,000: reached")
    assert program_heap.goals({"everything, TLS": of(0, 0, 0)})[0].endswith("missed")
