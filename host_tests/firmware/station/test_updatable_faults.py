# cpython-only: files of a folder stand in for the board's, and main.py runs with a stand-in board
"""Updates where the flash does not take something, where two things happen at once, and where
somebody means harm: nothing wedges the board, and no code runs that was not signed for now."""

import json
import sys

import pytest

import station
from outpost_tools.boards.files import inventory, plan
from outpost_tools.boards.update import image
from outpost_tools.boards.update.transfer import Refused, answer_in
from outpost_tools.errors import ToolError
from station import update_start
from station.commands import Commands
from updated_world import CRASHES, KEY, KIND, NEW, OLD, UpdatedWorld, image_of


def phase_of(folder):
    path = folder / "update/phase"
    return path.read_text().split(" ")[0] if path.exists() else ""


def on_trial(folder, files=NEW, within_s=300, **settings):
    """A board whose next start is the first on trial."""
    world, made = UpdatedWorld(folder, **settings), image_of(files)
    world.bring(made)
    world.put_on_trial(made, within_s)
    assert [world.live(), world.live()] == ["reset", "moved"]
    return world


def program_of(world):
    return {path: data for path, data in world.files().items() if not path.startswith("update/")}


def failing(*_):
    raise OSError(28)


def no_trial(kind, *more, write=update_start.write_phase):
    """In place of write_phase()."""
    return failing() if kind == "trial" else write(kind, *more)


def no_kept(kind, *more, write=update_start.write_phase):
    return failing() if kind == "kept" else write(kind, *more)


@pytest.fixture(autouse=True)
def update_start_stays(monkeypatch):
    """Loaded, so that what a test changes in it counts."""
    monkeypatch.setitem(sys.modules, "station.update_start", update_start)
    monkeypatch.setattr(station, "update_start", update_start, raising=False)
    monkeypatch.setattr("station.passing.unload", lambda name: None)


# --- Flash that does not take it ---


def test_a_take_back_that_fails_is_tried_again_and_nothing_is_put_in_place_anew(
    ram_path, monkeypatch
):
    world = on_trial(ram_path, CRASHES, within_s=5)
    world.quiet_ms = 20_000
    assert world.live() == "reset" and phase_of(ram_path) == "back"
    with monkeypatch.context() as patch:
        patch.setattr(update_start, "_place", failing)
        world.power_ms = 30_000
        for _ in range(3):
            assert world.live() == "cut" and phase_of(ram_path) == "back"
    world.power_ms = 1 << 40
    world.settle()
    assert world.files() == OLD
    assert [one[0] for one in world.answers()["u-1"]] == [2]


def test_files_of_which_the_trial_cannot_be_noted_are_taken_back(ram_path, monkeypatch):
    """They would run with no count and no watchdog."""
    world, made = UpdatedWorld(ram_path), image_of()
    world.bring(made)
    world.put_on_trial(made)
    assert world.live() == "reset"
    monkeypatch.setattr(update_start, "write_phase", no_trial)
    assert world.live() == "moved" and program_of(world) == OLD
    world.settle()
    ((result, _, why),) = world.answers()["u-1"]
    assert result == 2 and "cannot be put in place" in why


def test_a_start_that_cannot_be_counted_ends_the_trial(ram_path, monkeypatch):
    world = on_trial(ram_path)
    monkeypatch.setattr(update_start, "write_phase", no_trial)
    assert world.live() == "moved" and program_of(world) == OLD


def test_a_board_that_cannot_note_that_it_passed_goes_on_and_tries_again(ram_path, monkeypatch):
    world = on_trial(ram_path)
    with monkeypatch.context() as patch:
        patch.setattr(update_start, "write_phase", no_kept)
        world.quiet_ms = 5000
        assert world.live() == "over" and phase_of(ram_path) == "trial"
    world.settle()
    assert [one[0] for one in world.answers()["u-1"]] == [0]


def test_a_plan_that_finds_no_room_is_a_refusal(ram_path, monkeypatch):
    """The command would stay with the server, and be done some day, unasked."""
    world, made = UpdatedWorld(ram_path), image_of()
    world.bring(made)
    monkeypatch.setattr("station.update_take.Taking._new_record", failing)
    world.put_on_trial(made)
    world.live_on()
    ((result, _, why),) = world.answers()["u-1"]
    assert result == 1 and why.startswith("flash: ") and not world.server.offers


def test_a_file_that_cannot_be_tidied_up_is_left_for_the_next_start(ram_path, monkeypatch):
    world = on_trial(ram_path)
    with monkeypatch.context() as patch:
        patch.setattr(update_start, "own_names", lambda: ["nothing of that name"])
        assert world.live() == "over" and phase_of(ram_path) == "kept"
    world.settle()
    assert not (ram_path / "update").exists()


def test_update_start_that_cannot_be_imported_is_said(ram_path, monkeypatch):
    world = on_trial(ram_path)
    monkeypatch.delattr(station, "update_start")
    monkeypatch.setitem(sys.modules, "station.update_start", None)
    monkeypatch.delitem(sys.modules, "station.updatable", raising=False)
    with pytest.raises(ImportError, match="update_start"):  # of main(): crash.txt, a reset
        world.live()
    assert phase_of(ram_path) == "trial"


def test_a_damaged_list_is_replaced(ram_path):
    world, made = UpdatedWorld(ram_path), image_of()
    for message in made.list_messages():
        world.server.send(message)
    world.ask(made.tag)
    (ram_path / "update/list").write_bytes(b"\xff\xfe" * 500)
    world.bring(made)
    world.put_on_trial(made)
    world.settle()
    assert world.answers() == {"u-1": [(0, "update", "")]}


# --- Two things at once ---


def test_parts_of_an_update_take_no_commands_place(ram_path):
    """16 messages may stay with the server; of more, the acknowledged ones are lost."""
    world, made = UpdatedWorld(ram_path), image_of()
    world.bring(made)
    world.put_on_trial(made)
    for number in range(20):
        world.server.send(image.question(made.tag, number))
    world.server.send({"id": "c-1", "do": "report"})
    world.settle()
    world.live_on()
    assert {name: len(found) for name, found in world.answers().items()} == {"u-1": 1, "c-1": 1}


def test_a_command_that_arrives_while_the_answer_finds_no_room_waits(ram_path, monkeypatch):
    world = on_trial(ram_path)
    settle = Commands.settle
    monkeypatch.setattr(
        Commands, "settle", lambda self: False if self.work & 1 else settle(self)
    )  # fmt: skip
    world.server.send({"id": "c-1", "do": "report"})
    world.live()
    monkeypatch.undo()
    world.live_on()
    assert {name: len(found) for name, found in world.answers().items()} == {"u-1": 1, "c-1": 1}


def test_settings_that_the_new_firmware_does_not_know_take_it_back_with_the_reason(ram_path):
    world = on_trial(ram_path)
    path = ram_path / "settings.json"
    settings = path.read_text()
    path.write_text(json.dumps(world.settings() | {"bogus": 1}))
    assert world.live() == "reset"
    path.write_text(settings)
    world.settle()
    ((result, _, why),) = world.answers()["u-1"]
    assert result == 2 and "unknown key 'bogus'" in why and world.files() == OLD


def test_a_key_that_goes_by_cable_during_the_trial_leaves_it_decided(ram_path):
    world = on_trial(ram_path)
    settings = world.settings()
    settings.pop("update_key")
    (ram_path / "settings.json").write_text(json.dumps(settings))
    world.settle()
    assert world.answers() == {"u-1": [(0, "update", "")]}
    first = len(world.server.told)
    world.server.send(image.question("12345678", 1))
    world.live()
    assert len(world.server.told) == first, "without a key nothing is answered"


def test_a_start_on_trial_does_not_pause(ram_path, monkeypatch):
    """As one that crashed before: its watchdog runs."""
    world = on_trial(ram_path)
    begun = []
    monkeypatch.setattr("commanded_world.Board.begin", lambda _: begun.append(1), raising=False)
    world.live()
    assert not begun
    world.live()
    assert begun


# --- What is on the board ---


def test_a_file_of_the_users_in_the_folder_stays(ram_path):
    world, made = UpdatedWorld(ram_path), image_of()
    (ram_path / "update").mkdir()
    (ram_path / "update/notes.txt").write_text("the user's")
    (ram_path / "update/mine").mkdir()
    world.bring(made)
    world.put_on_trial(made)
    world.settle()
    assert world.answers() == {"u-1": [(0, "update", "")]}
    assert sorted(path.name for path in (ram_path / "update").iterdir()) == ["mine", "notes.txt"]
    found = inventory.Inventory({"/update/notes.txt": "0", "/update/7.old": "0"}, 1 << 20)
    todo = plan.make({}, found, (inventory.UPDATE,), plan.Record())
    assert todo.remove == ["/update/7.old"]


def test_nothing_to_change_leaves_nothing_behind(ram_path):
    world = UpdatedWorld(ram_path)
    for made_s, expected in ((100, ""), (300, "nothing to change")):
        made = image_of(made_s=made_s)
        world.bring(made)
        world.server.send({"id": f"u-{made_s}", "do": "update", "of": made.tag})
        world.settle()
        assert world.answers()[f"u-{made_s}"] == [(0, "update", expected)]
    assert not list((ram_path / "update").iterdir())


def test_what_an_update_left_does_not_keep_a_flash_from_its_room():
    hashes = {f"/update/{number}": "0" for number in range(30)}
    found = inventory.Inventory(hashes, 18 * 4096)
    wanted = {f"/outpost/m{number}.mpy": b"x" * 2000 for number in range(20)}
    todo = plan.make(wanted, found, (inventory.UPDATE, inventory.PACKAGE), plan.Record())
    plan.check_room(todo, found, 0, "/dev/x")
    found = inventory.Inventory({}, 18 * 4096)
    todo = plan.make(wanted, found, (inventory.UPDATE, inventory.PACKAGE), plan.Record())
    with pytest.raises(ToolError, match="18 blocks"):
        plan.check_room(todo, found, 0, "/dev/x")


# --- Somebody means harm ---


def test_a_list_that_was_taken_back_is_not_taken_again(ram_path):
    world, made = UpdatedWorld(ram_path), image_of(CRASHES)
    world.bring(made)
    world.put_on_trial(made)
    world.quiet_ms = 20_000
    world.settle()
    first, _ = world.bring(made)
    assert "made later is installed" in first["why"]


def test_a_list_from_before_a_flash_by_cable_is_not_taken(ram_path):
    world, made = UpdatedWorld(ram_path), image_of()
    for message in made.list_messages():
        world.server.send(message)
    world.ask(made.tag)
    todo = plan.Plan(copy={"/main.py": b"x"})
    plan.add_record(
        todo, {"/main.py": OLD["main.py"]}, inventory.Inventory({}, 0), KIND, plan.Record()
    )
    for path in (ram_path / "update").iterdir():
        path.unlink()
    (ram_path / "outpost/installed.json").write_bytes(todo.copy[plan.RECORD])
    first, _ = world.bring(made)
    assert "made later is installed" in first["why"]


def test_an_answer_counts_only_if_the_board_has_signed_it():
    """The sender goes by `installed` in it: a forged one would make it sign a list that is newer
    than all that are to come."""
    found = {"asked": 7, "update": "12345678", "board": KIND, "version": "1", "mpy": 0}
    found |= {"installed": 9_999_999_999, "list": "", "made": 0, "need": "list"}
    text = json.dumps(found).encode()
    good = text + b"\n" + image.sign(KEY, text).encode()
    assert answer_in(good, KEY, "12345678", 7).need == "list"
    assert answer_in(good, KEY, "12345678", 8) is None
    assert answer_in(good, KEY, "87654321", 7) is None
    for forged in (text, text + b"\n" + image.sign(bytes(32), text).encode()):
        with pytest.raises(Refused, match="not signed"):
            answer_in(forged, KEY, "12345678", 7)


def test_a_boards_answer_is_signed_as_the_sender_expects(ram_path):
    world = UpdatedWorld(ram_path)
    world.ask("12345678")
    assert answer_in(world.server.told_raw[-1], KEY, "12345678", 0).board == KIND
