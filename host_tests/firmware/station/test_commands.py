# cpython-only: files of a folder stand in for the board's, and main.py runs with a stand-in board
"""Each command is done once and answered once, whatever operation of flash or files the power goes
at; bad ones get one answer, or are counted."""

import json

import pytest

from commanded_world import NOW_S, World
from hunt_commands import hunt
from nor_flash import CUT_MODES
from station.command_note import Note
from station.commands import Commands

RESTART = {"id": "c-1", "do": "restart"}
REPORT = {"id": "c-2", "do": "report"}
INTERVAL = {"id": "c-3", "do": "set", "settings": {"interval_ms": 5000}}
LONGER = {"id": "c-4", "do": "set", "settings": {"keep_alive_s": 30, "interval_ms": 7000}}
CUT_OFF = {"id": "c-5", "do": "set", "settings": {"broker_host": "bad"}, "within_s": 5}
ABSURD = {"id": "c-6", "do": "set", "settings": {"broker_host": "absurd"}}
WRONG = {"id": "c-7", "do": "set", "settings": {"interval_ms": "soon"}}
STAY = {"id": "c-8", "do": "stay_awake", "minutes": 1}
MODES = [
    mode if mode == "random" else pytest.param(mode, marks=pytest.mark.long) for mode in CUT_MODES
]


def world_of(folder, *commands, **settings):
    """A board that has been connected before, and is offered the commands."""
    world = World(folder, **settings)
    world.live()
    for command in commands:
        world.server.send(command)
    return world


def results(world):
    return {name: [one[0] for one in found] for name, found in world.answers().items()}


def after(world):
    """All that a command may change."""
    settings = world.settings()
    return (
        results(world),
        settings["interval_ms"],
        settings["keep_alive_s"] if "keep_alive_s" in settings else None,
        settings["broker_host"],
    )


# --- Without cuts ---


@pytest.mark.parametrize("is_asleep", [False, True])
def test_each_command_is_done_and_answered(ram_path, is_asleep):
    world = world_of(ram_path, REPORT, INTERVAL, WRONG, RESTART, deep_sleep=is_asleep)
    world.live_on()
    world.live_on()
    assert results(world) == {"c-1": [0], "c-2": [0], "c-3": [0], "c-7": [1]}
    assert world.answers()["c-7"][0][1:] == (
        "set", "settings: key 'interval_ms' must be a whole number, not 'soon'",
    )  # fmt: skip
    assert world.settings()["interval_ms"] == 5000 and world.resets == 1
    assert not world.server.offers and not world.server.told


def test_a_new_interval_is_told_by_the_next_message(ram_path):
    """`outpost republish` goes by it."""
    world = world_of(ram_path, INTERVAL)
    world.quiet_ms = 12_000
    world.live_on()
    read = [one for records in world.server.messages for one in records]
    assert [one["v"] for one in read if one["n"] == "report_s"][-1:] == [5]


def test_a_report_carries_the_readings(ram_path):
    world = world_of(ram_path, REPORT)
    world.live_on()
    (found,) = [one for one in world.server.messages if one[0].get("cmd") == "c-2"]
    assert found[0]["n"] == "command" and {"n": "load", "v": 0.42} in found[1:]


def test_an_answer_is_a_message_that_tables_take(ram_path):
    from outpost_tools.messages.message import decode, key_of

    world = world_of(ram_path, REPORT, WRONG, RESTART)
    world.live_on()
    for records in world.server.messages:
        payload = json.dumps(records).encode()
        message = decode("outpost/board-1/data", payload)
        assert message.readings and not message.left_out
        assert key_of(b"outpost/board-1/data", payload).seq == records[0]["seq"]


def test_settings_that_connect_are_kept_and_run_from_then_on(ram_path):
    world = world_of(ram_path, LONGER)
    world.live_on()
    assert results(world) == {"c-4": [0]} and world.resets == 1
    assert (world.settings()["keep_alive_s"], world.settings()["interval_ms"]) == (30, 7000)
    assert not (ram_path / "trial.json").exists()


@pytest.mark.parametrize("is_asleep", [False, True])
@pytest.mark.parametrize("command", [CUT_OFF, ABSURD], ids=["cut off", "does not start"])
def test_settings_that_cut_the_board_off_are_taken_back(ram_path, command, is_asleep):
    world = world_of(ram_path, command, deep_sleep=is_asleep)
    world.quiet_ms = 60_000
    world.live_on()
    world.live_on()
    ((result, what, why),) = world.answers()[command["id"]]
    assert (result, what) == (2, "set")
    assert why.startswith(("no connection within 5 s", "they do not start: settings: key"))
    assert world.settings()["broker_host"] == "good"
    assert not (ram_path / "trial.json").exists()


# --- Held messages, when the broker changes ---

ELSEWHERE = {"id": "h-1", "do": "set", "settings": {"broker_host": "good", "keep_alive_s": 30}}
REFUSES, SENDS = {**ELSEWHERE, "held": "refuse"}, {**ELSEWHERE, "held": "send", "within_s": 60}


def holding_world(folder, command, life_ms=15_000, **settings):
    """A board with held messages, which a server offers a command, for a life in which it takes
    none of them."""
    world = world_of(folder, interval_ms=1000, **settings)
    world.server.acknowledges, world.power_ms, world.ends_by_itself = False, 5000, False
    world.live()
    world.server.send(command)
    world.power_ms = life_ms
    world.live()
    world.server.acknowledges, world.power_ms, world.ends_by_itself = True, 1 << 40, True
    return world


def test_held_messages_refuse_another_broker_with_their_number_and_topic(ram_path):
    world = holding_world(ram_path, REFUSES)
    world.live_on()
    ((result, what, why),) = world.answers()["h-1"]
    assert (result, what) == (1, "set")
    assert world.resets == 0 and "keep_alive_s" not in world.settings()
    count = int(why.split(": ")[1].split()[0])
    assert count >= 3 and why == (
        f"say --held send or --held move: {count} messages are held, of outpost/board-1/data"
    )


def test_held_messages_go_out_before_the_settings_are_on_trial(ram_path):
    world = world_of(ram_path, interval_ms=1000)
    world.server.acknowledges, world.power_ms = False, 5000
    world.live()
    world.server.send(SENDS)
    world.server.acknowledges, world.power_ms = True, 1 << 40
    assert world.live() == "reset"
    assert world.left_doing[-1][0] == "trial"
    held = len({records[0]["seq"] for records in world.server.messages})
    newest = max(records[0]["seq"] for records in world.server.messages)
    assert held == newest + 1, "all have arrived before the reset"
    world.live_on()
    assert world.answers()["h-1"] == [(0, "set", "")] and world.resets == 1
    assert world.settings()["keep_alive_s"] == 30


def test_held_messages_that_are_not_taken_in_time_refuse_the_settings(ram_path):
    world = holding_world(ram_path, {**SENDS, "within_s": 3}, 5000)
    world.live_on()
    ((result, _, why),) = world.answers()["h-1"]
    assert result == 1 and "messages are held" in why
    assert "keep_alive_s" not in world.settings() and world.resets == 0


def test_a_reset_while_held_messages_go_out_refuses_the_settings(ram_path):
    world = holding_world(ram_path, SENDS, 5000)
    assert world.left_doing[-1][0] == "drain"
    world.live_on()
    why = "a reset came while the held messages were sent"
    assert world.answers()["h-1"] == [(1, "set", why)] and "keep_alive_s" not in world.settings()


def test_asleep_held_messages_go_out_first(ram_path):
    world = world_of(ram_path, deep_sleep=True)
    world.is_reachable = False
    for _ in range(3):
        world.live()
    world.is_reachable = True
    world.server.send(SENDS)
    world.live_on()
    world.live_on()
    assert world.answers()["h-1"] == [(0, "set", "")] and world.settings()["keep_alive_s"] == 30


def test_nothing_held_changes_the_broker_at_once(ram_path):
    world = world_of(ram_path, REFUSES)
    world.live_on()
    assert world.answers()["h-1"] == [(0, "set", "")]


def test_a_trial_asleep_ends_at_its_own_limit_and_not_at_the_wakes(ram_path):
    world = world_of(ram_path, CUT_OFF, deep_sleep=True, wake_limit_ms=30_000)
    world.quiet_ms = 60_000
    while world.left_doing[-1:] != [["failed", "c-5", "no connection within 5 s"]]:
        start_ms = world.now_ms
        world.live()
    assert world.now_ms - start_ms < 7000  # of it a second between two lives
    world.live_on()
    assert world.answers()["c-5"] == [(2, "set", "no connection within 5 s")]


def test_settings_on_trial_have_three_starts(ram_path):
    """A power cut in each of them."""
    world = world_of(ram_path, CUT_OFF)
    assert world.live() == "reset"
    for _ in range(3):
        world.power_ms = 1000
        assert world.live() == "cut"
    world.quiet_ms, world.power_ms = 60_000, 1 << 40
    world.live_on()
    assert world.answers()["c-5"] == [(2, "set", "no connection in 3 starts")]


@pytest.mark.parametrize("command", [RESTART, LONGER, CUT_OFF], ids=lambda one: one["id"])
def test_a_board_whose_filesystem_got_full_measures_and_answers_later(
    ram_path, monkeypatch, command
):
    def full(path, data):
        raise OSError(28)

    world = world_of(ram_path, command)
    assert world.live() == "reset"
    with monkeypatch.context() as patched:
        patched.setattr("station.command_note.replace", full)
        for _ in range(2):
            count = len(world.server.messages)
            assert world.live() == "over" and len(world.server.messages) > count
    assert world.settings()["broker_host"] == "good" and not world.answers()
    world.quiet_ms = 60_000
    world.live_on()
    world.live_on()
    assert results(world) == {command["id"]: [2 if command is CUT_OFF else 0]}


def test_settings_by_cable_end_a_trial(ram_path):
    world = world_of(ram_path, CUT_OFF)
    assert world.live() == "reset"
    by_cable = {**world.settings(), "interval_ms": 1234}
    (ram_path / "settings.json").write_text(json.dumps(by_cable))
    world.live_on()
    assert world.settings() == by_cable
    assert world.answers()["c-5"][0][0] == 2


def test_staying_awake_holds_off_the_sleep(ram_path):
    world = world_of(ram_path, STAY, deep_sleep=True, interval_ms=10_000)
    world.ends_by_itself = False
    before = world.now_ms
    assert world.live() == "asleep"
    assert results(world) == {"c-8": [0]}
    assert 60_000 <= world.now_ms - before < 90_000
    assert len(world.server.messages) > 5  # it measured on


# --- Every cut ---

EVERY = [REPORT, INTERVAL, WRONG, RESTART, LONGER, CUT_OFF]


def play(folder, commands, is_asleep, file_cut=0, flash_cut=(0, "nothing"), **settings):
    """The commands over one cut; and again what the server did not hear."""
    folder.mkdir()
    # a wake that ends before the quiet, which would end a trial too
    world = world_of(folder, *commands, deep_sleep=is_asleep, wake_limit_ms=3000, **settings)
    world.quiet_ms = 7_000 if CUT_OFF in commands else 2_000
    world.file_operations, world.file_cut = 0, file_cut
    operation, world.flash.cut_mode = flash_cut
    world.flash.cut_at = world.flash.operations + operation if operation else 0
    first = world.flash.operations
    for _ in range(4):
        world.live_on()
    return world, world.file_operations, world.flash.operations - first


@pytest.mark.parametrize("is_asleep", [False, True])
def test_done_once_and_answered_once_whatever_file_operation_is_cut(ram_path, is_asleep):
    world, operations, _ = play(ram_path / "whole", EVERY, is_asleep)
    wanted, begun = after(world), set(world.interrupted())
    assert begun == {("restart", "c-1"), ("trial", "c-4"), ("trial", "c-5"), ("failed", "c-5")}
    assert sorted(wanted[0].items()) == [
        ("c-1", [0]), ("c-2", [0]), ("c-3", [0]), ("c-4", [0]), ("c-5", [2]), ("c-7", [1]),
    ]  # fmt: skip
    assert operations > 15
    for cut in range(1, operations + 1):
        world, _, _ = play(ram_path / f"file-{cut}", EVERY, is_asleep, file_cut=cut)
        assert "cut" in world.ends
        assert after(world) == wanted, cut
        assert begun <= set(world.interrupted()), cut


@pytest.mark.parametrize("mode", MODES)
def test_done_once_and_answered_once_whatever_flash_operation_is_cut(ram_path, mode):
    commands = [REPORT, INTERVAL, RESTART, LONGER]
    world, _, operations = play(ram_path / "whole", commands, False)
    wanted, begun = after(world), set(world.interrupted())
    assert operations > 20
    for cut in range(1, operations + 1):
        world, _, _ = play(ram_path / f"flash-{cut}", commands, False, flash_cut=(cut, mode))
        assert after(world) == wanted, cut
        assert begun <= set(world.interrupted()), cut


@pytest.mark.long
@pytest.mark.parametrize("mode", ("nothing", "all", "random"))
def test_nor_where_a_record_of_a_series_is_open(ram_path, mode):
    """Whose number is the next one, until a message closes it."""
    commands, settings = [REPORT, INTERVAL, RESTART, LONGER], {"series": True, "interval_ms": 500}
    world, _, operations = play(ram_path / "whole", commands, False, **settings)
    wanted, begun = after(world), set(world.interrupted())
    assert wanted[0] == {"c-1": [0], "c-2": [0], "c-3": [0], "c-4": [0]}
    samples = [one[0]["samples"] for one in world.server.messages if "samples" in one[0]]
    assert sum(map(len, samples)) > 5
    for cut in range(1, operations + 1):
        cut = (cut, mode)
        world, _, _ = play(ram_path / f"flash-{cut}", commands, False, flash_cut=cut, **settings)
        assert after(world) == wanted, cut
        assert begun <= set(world.interrupted()), cut


def test_a_full_outbox_keeps_the_answer_and_nothing_takes_its_number(ram_path):
    world = world_of(ram_path, outbox_blocks=8, interval_ms=10)
    world.is_reachable, world.power_ms = False, 60_000
    assert world.live() == "cut"
    note = Note(str(ram_path / "commands.bin"))
    note.add("c-1", 1, 3)
    note.doing = ["restart", "c-1"]  # the outbox filled up before the reset
    note.save()
    assert world.live() == "cut"
    assert Note(str(ram_path / "commands.bin")).pending
    world.is_reachable, world.power_ms = True, 1 << 40
    world.server.send(REPORT)
    world.live_on()
    world.live_on()
    assert results(world) == {"c-1": [0], "c-2": [0]}


def test_a_hundred_commands_over_cuts_and_killed_brokers():
    """The short form of `make commands`."""
    account = hunt(commands=100, boards=4, seed=3)
    assert account.commands == 100 and account.cuts > 10 and account.kills > 5


def test_a_restart_that_is_left_out_is_found(monkeypatch):
    def restart(self, command_id, command):
        self._answer(command_id, "restart", 0)

    monkeypatch.setattr(Commands, "_restart", restart)
    with pytest.raises(AssertionError, match="answered without a restart"):
        hunt(commands=30, boards=2, seed=1)


def test_a_restart_that_is_done_twice_is_found(monkeypatch):
    recover = Commands._recover

    def again(self, outbox):
        if self.note.doing and self.note.doing[0] == "restart" and len(self.note.doing) == 2:
            self.note.doing.append("again")
            self.note.save()
            self._restart_soon()
        else:
            recover(self, outbox)

    monkeypatch.setattr(Commands, "_recover", again)
    with pytest.raises(AssertionError, match=r"'restart', .*\['reset', 'reset'\]"):
        hunt(commands=30, boards=2, seed=1)


# --- Bad commands ---


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"{", b"[]", b"restart", b'{"do":"restart"}', b'{"id":7,"do":"restart"}',
        b'{"id":"","do":"restart"}', b'{"id":"a b","do":"restart"}', b'{"id":"' + b"x" * 25 + b'"}',
        b"\xff\xfe", b"[" * 400, b'{"id":"a","do":"restart"} x', b"x" * 513, b"x" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_command_is_acknowledged_and_counted(ram_path, payload):
    world = world_of(ram_path, payload, interval_ms=100)
    world.live_on()
    assert not world.server.offers and not world.answers() and world.resets == 0
    if len(payload) <= 512:
        told = [record["v"] for one in world.server.messages for record in one
                if record["n"] == "commands_ignored"]  # fmt: skip
        assert told == [1]


@pytest.mark.parametrize(
    "command, why",
    [
        ({"do": "dance"}, "unknown command; known: report, restart, set, stay_awake, update"),
        ({"do": ["restart"]}, "unknown command; known: report, restart, set, stay_awake, update"),
        ({"do": "restart", "now": 1}, "unknown key 'now'"),
        ({"do": "set"}, "settings must be an object with a key at least"),
        ({"do": "set", "settings": {}}, "settings must be an object with a key at least"),
        ({"do": "set", "settings": {"a": 1}, "within_s": 0}, "within_s must be 1 to 3600"),
        ({"do": "set", "settings": {"device_id": "x"}}, "key 'device_id' is set by cable alone"),
        ({"do": "set", "settings": {"commands": False}}, "key 'commands' is set by cable alone"),
        ({"do": "stay_awake", "minutes": True}, "minutes must be 0 to 1440"),
        ({"do": "stay_awake", "minutes": 10}, "this board does not sleep"),
        ({"do": "report", "until": NOW_S - 10}, "too late: its time has passed"),
        ({"do": "report", "until": "soon"}, "until must be seconds since 1970"),
    ],
)
def test_a_bad_command_gets_one_refused_answer(ram_path, command, why):
    world = world_of(ram_path, {"id": "bad", **command})
    world.live_on()
    world.live_on()
    ((result, _, said),) = world.answers()["bad"]
    assert (result, said) == (1, why)


def test_a_password_is_in_no_answer(ram_path):
    world = world_of(ram_path, {"id": "a", "do": "set", "settings": {"password": "s3cret" * 30}})
    world.live_on()
    assert "s3cret" not in json.dumps(world.server.messages)
    assert "'password' must be of length" in world.answers()["a"][0][2]


def test_without_a_clock_no_command_is_too_late(ram_path):
    world = world_of(ram_path, {**REPORT, "until": 5})
    world.has_clock = False
    world.live_on()
    assert results(world) == {"c-2": [0]}


def test_a_repeated_command_is_told_again_and_not_done_again(ram_path):
    world = world_of(ram_path, RESTART)
    world.live_on()
    world.server.send(RESTART)
    world.live_on()
    assert results(world) == {"c-1": [0]} and world.resets == 1
    assert world.server.told == [{"cmd": "c-1", "v": 0, "again": 1}]


def test_an_id_with_another_content_is_refused_once(ram_path):
    other = {**REPORT, "do": "restart"}
    world = world_of(ram_path, REPORT, other)
    world.live_on()
    world.server.send(other)
    world.live_on()
    assert [one[0] for one in world.answers()["c-2"]] == [0, 1] and world.resets == 0
    assert world.server.told == [{"cmd": "c-2", "v": 1, "again": 1}]


def test_a_retained_command_is_counted_and_not_done(ram_path):
    world = world_of(ram_path)
    world.server.send(RESTART, retain=True)
    world.live_on()
    assert not world.answers() and world.resets == 0 and not world.server.offers


def test_sixty_commands_at_once_are_done_in_order(ram_path):
    commands = [{"id": f"r-{n}", "do": "report"} for n in range(60)]
    world = world_of(ram_path, *commands)
    world.live_on()
    assert list(results(world).items()) == [(f"r-{n}", [0]) for n in range(60)]


def test_a_board_that_takes_no_commands_subscribes_to_none(ram_path):
    world = world_of(ram_path, commands=False)
    world.live_on()
    assert not world.server.has_session and not (ram_path / "commands.bin").exists()
