# cpython-only: files of a folder stand in for the board's, and main.py runs with a stand-in board
"""An update over MQTT: it arrives, is put in place, kept or taken back, whatever moment the power
goes at; what is not signed, not for this board, or not Outpost's, changes nothing."""

import json
import os
import shutil
from dataclasses import replace

import pytest

from commanded_world import World
from outpost_tools.boards.files.plan import digest
from outpost_tools.boards.update import image
from outpost_tools.boards.update.image import Content
from updated_world import CRASHES, DRIVERS, KEY, KIND, NEW, OLD, UpdatedWorld, image_of, record_of


def expected(files):
    """What a board then has: the driver that it had is new, too; no other came."""
    return {**files, "sensors/adc.mpy": DRIVERS["sensors/adc.mpy"]}


def test_only_what_differs_arrives_and_the_board_keeps_it(ram_path):
    world, made = UpdatedWorld(ram_path), image_of()
    first, last = world.bring(made)
    needed = [made.contents[number].path for number in image.missing(first["need"])]
    assert needed == [
        "outpost/client.mpy", "outpost/room/more.mpy", "sensors/adc.mpy",
        "station/update_start.mpy", "main.py",
    ]  # fmt: skip
    assert image.missing(last["need"]) == [] and last["version"] == "0.1"
    assert {path: data for path, data in world.files().items() if path in OLD} == OLD
    world.put_on_trial(made)
    world.settle()
    assert world.answers() == {"u-1": [(0, "update", "")]}
    assert world.files() == expected(NEW) and world.rooms() == ["room"]
    record = json.loads((ram_path / "outpost/installed.json").read_text())
    assert (record["version"], record["made"]) == ("9.0", 100)
    assert digest(NEW["main.py"]) in record["files"]["/main.py"]


def test_files_with_which_the_board_does_not_connect_are_taken_back(ram_path):
    world, made = UpdatedWorld(ram_path), image_of(CRASHES)
    world.bring(made)
    world.put_on_trial(made)
    world.quiet_ms = 20_000
    world.settle()
    assert world.answers() == {"u-1": [(2, "update", "no connection within 5 s")]}
    assert world.files() == OLD and world.rooms() == ["old"]
    record = json.loads((ram_path / "outpost/installed.json").read_text())
    assert record == {**record_of(OLD), "made": 100}  # this list is taken no more
    assert world.settings()["device_id"] == "board-1"


def test_a_board_that_does_not_get_so_far_takes_them_back_at_the_fourth_start(ram_path):
    world, made = UpdatedWorld(ram_path), image_of(CRASHES)
    world.bring(made)
    world.put_on_trial(made, within_s=3600)
    ends = [world.live() for _ in range(2)]
    world.power_ms = 500  # each start ends long before the time of the trial
    ends += [world.live() for _ in range(4)]
    world.power_ms = 1 << 40
    assert ends == ["reset", "moved", "cut", "cut", "cut", "moved"]
    world.settle()
    assert world.answers() == {"u-1": [(2, "update", "no connection in 3 starts")]}
    assert world.files() == OLD


def test_settings_that_the_new_program_refuses_take_it_back_with_the_reason(ram_path):
    world, made = UpdatedWorld(ram_path), image_of()
    world.bring(made)
    world.put_on_trial(made)
    world.live()
    path = ram_path / "settings.json"
    settings = path.read_text()
    path.write_text(json.dumps(world.settings() | {"broker_host": "absurd"}))
    assert [world.live(), world.live()] == ["moved", "reset"]
    path.write_text(settings)
    world.settle()
    ((result, _, why),) = world.answers()["u-1"]
    assert result == 2 and "key 'broker_host' is absurd" in why
    assert world.files() == OLD


@pytest.mark.parametrize(
    "files",
    [pytest.param(NEW, id="kept", marks=pytest.mark.long), pytest.param(CRASHES, id="taken back")],
)
def test_the_power_may_go_at_any_change_of_a_file(ram_path, files):
    """From the list to the last file that is tidied up: afterwards the board has one firmware or
    the other, whole, and has said which once."""
    made, cut, cuts = image_of(files), 0, 0
    wanted = expected(NEW) if files is NEW else OLD
    while True:
        cut += 1
        folder = ram_path / str(cut)
        folder.mkdir()
        world = UpdatedWorld(folder)
        world.quiet_ms = 8000
        world.file_operations, world.file_cut = 0, cut
        for _ in range(3):  # the sender asks, and sends what is missing
            _, last = world.bring(made)
            if last.get("need") == "00":
                break
        world.put_on_trial(made)
        for _ in range(30):
            end = world.live()
            present = world.folder / "main.py"
            assert present.exists(), "a start without main.py"
            is_decided = not (folder / "update/phase").exists() and not world.server.offers
            if end == "over" and is_decided:
                break
        if world.file_cut:  # it was not reached
            break
        cuts += 1
        assert world.files() == wanted, cut
        assert world.rooms() == (["room"] if files is NEW else ["old"]), cut
        results = [one[0] for one in world.answers()["u-1"]]
        assert results == [0 if files is NEW else 2], (cut, world.answers())
        shutil.rmtree(folder)
    assert cuts > 30


def test_a_module_that_the_board_need_not_have_is_known_in_another_room(ram_path):
    """The board has what series need, its settings want none, and the new version has the module in
    a room: it goes on having it."""
    world = UpdatedWorld(ram_path, OLD | {"outpost/bits.mpy": b"old"})
    optional = [Content(f"outpost/room/{name}.mpy", b"new") for name in ("bits", "more_bits")]
    contents = [Content(path, data) for path, data in NEW.items()]
    contents += [replace(one, is_optional=True) for one in optional]
    made = image.make(contents, KEY, device="board-1", board=KIND, version="9", made_s=100)
    world.bring(made)
    world.put_on_trial(made)
    world.settle()
    assert world.files() == {**NEW, "outpost/room/bits.mpy": b"new"}


def test_a_room_needs_blocks_of_its_own(ram_path, monkeypatch):
    """A folder of littlefs has two, and MicroPython counts those of each that is there twice."""
    world = UpdatedWorld(ram_path)
    folders = len([path for path in ram_path.rglob("*") if path.is_dir()]) + 1  # and the update's
    monkeypatch.setattr(os, "statvfs", lambda _: (4096, 0, 0, 17 - 2 * folders))
    first, _ = world.bring(image_of())
    assert first["why"] == "17 blocks of flash are free, and the update needs 18"


# --- What changes nothing ---


@pytest.mark.parametrize(
    "made, why",
    [
        (image_of(key=bytes(32)), "not signed with this board's update_key"),
        (image_of(device="cellar"), "the list is for the board cellar"),
        (image_of(board="ESP32_GENERIC"), "the list is for a ESP32_GENERIC"),
        (image_of({**NEW, "settings.json": b"{}"}), "settings.json is nothing that an update"),
        (image_of({**NEW, "tls/x.mpy": b"{}"}), "tls/x.mpy is nothing that an update"),
        (image_of({**NEW, "../x.mpy": b"{}"}), "../x.mpy is nothing that an update"),
        (image_of({**NEW, "outpost/../x.mpy": b""}), "outpost/../x.mpy is nothing that an update"),
        (image_of({**NEW, "outpost/a/b/x.mpy": b""}), "outpost/a/b/x.mpy is nothing that an"),
        (image_of({**NEW, "outpost//x.mpy": b""}), "outpost//x.mpy is nothing that an update"),
        (image_of({**NEW, "station/a/x.mpy": b""}), "station/a/x.mpy is nothing that an update"),
        (image_of({**NEW, "station/own.mpy": b"new"}), "station/own.mpy on this board is not"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(ram_path, made, why):
    world = UpdatedWorld(ram_path)
    (ram_path / "station/own.mpy").write_bytes(b"the user's")
    before = world.files()
    first, _ = world.bring(made)
    assert why in first["why"]
    world.put_on_trial(made)
    world.live_on()
    assert world.answers() == {"u-1": [(1, "update", "this update is not on the board")]}
    assert {path: data for path, data in world.files().items() if "update/" not in path} == before


def test_an_update_is_not_taken_back_by_an_older_one(ram_path):
    """Whoever recorded an earlier one cannot send it again."""
    world = UpdatedWorld(ram_path)
    for made in (image_of(made_s=200), image_of({**OLD}, made_s=199)):
        first, _ = world.bring(made)
        world.put_on_trial(made)
        world.settle()
    assert "made later is installed" in first["why"]
    assert world.files() == expected(NEW)


def test_a_main_py_that_was_changed_by_hand_stays(ram_path):
    world = UpdatedWorld(ram_path)
    (ram_path / "main.py").write_bytes(b"my own")
    first, _ = world.bring(image_of())
    assert "main.py on this board is not Outpost's" in first["why"]


def test_a_damaged_file_does_not_arrive(ram_path):
    world, made = UpdatedWorld(ram_path), image_of()
    for message in made.list_messages():
        world.server.send(message)
    (one,) = [n for n, content in enumerate(made.contents) if content.path == "main.py"]
    (message,) = made.file_messages(one)
    world.server.send(message[:-1] + b"X")
    assert one in image.missing(world.ask(made.tag)["need"])
    world.server.send(message)
    assert one not in image.missing(world.ask(made.tag)["need"])


@pytest.mark.parametrize(
    "message",
    [b"update ", b"update 12345678 file\n", b"update 12345678 file x y\n", b"update \xff ask 1"],
)
def test_what_is_no_message_of_an_update_is_counted(ram_path, message):
    world = UpdatedWorld(ram_path)
    world.server.send(message)
    world.quiet_ms = 70_000
    world.live()
    told = [one["v"] for records in world.server.messages for one in records
            if one["n"] == "commands_ignored"]  # fmt: skip
    assert told == [1] and not world.server.offers


def test_a_board_without_a_key_takes_no_update(ram_path):
    world = World(ram_path)
    world.live()
    world.server.send({"id": "u-1", "do": "update", "of": "12345678"})
    world.live_on()
    ((result, _, why),) = world.answers()["u-1"]
    assert result == 1 and "no 'update_key'" in why


def test_a_tool_that_imports_the_program_moves_nothing(ram_path, monkeypatch):
    """`outpost selftest` on a board whose update is on trial: it would count as a start."""
    world, made = UpdatedWorld(ram_path), image_of()
    world.bring(made)
    world.put_on_trial(made)
    assert world.live() == "reset"
    monkeypatch.setattr(World, "_main", lambda world: world.load())
    World.live(world)
    assert {path: data for path, data in world.files().items() if path in OLD} == OLD
