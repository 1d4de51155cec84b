"""The modes and features of main.py as scenarios of the kit, each with what must hold at its end:
`MODES` for `every_cut`.

A command comes from another client, with QoS 1, while the board measures. An update brings files
that are not run, because the kit's program comes from the desktop; what is shown is that they are
there whole, all new or all old.
"""

import json

import updated_world
from outpost_tools.boards.update import image
from outpost_tools.boards.update.image import Content
from outpost_tools.kit.bench import Bench

_TOPIC = b"outpost/kitchen/command"
# Without what the kit's program imports from the desktop
_NOT_HERE = ("board.mpy", "support/wifi.mpy", "sensors/adc.mpy")
_OLD, _NEW = (
    {path: data for path, data in files.items() if path not in _NOT_HERE}
    for files in (updated_world.OLD, updated_world.NEW)
)
_COMMANDS = (
    (15, {"id": "a-1", "do": "report"}),
    (20, {"id": "a-2", "do": "set", "settings": {"interval_ms": 20_000}}),
    (25, {"id": "a-3", "do": "restart"}),
    (35, {"id": "a-4", "do": "set", "settings": {"keep_alive_s": 50}}),
)


def collector(bench: Bench) -> None:
    bench.settings["mode"] = "collector"
    bench.broker = {"collector": "outpost/kitchen/durable"}


def series(bench: Bench) -> None:
    bench.settings |= {"series": True, "series_age_s": 60}


def deep_sleep(bench: Bench) -> None:
    bench.settings["deep_sleep"] = True


def commands(bench: Bench) -> None:
    bench.settings["commands"] = True
    bench.said = [(second, _TOPIC, json.dumps(one).encode()) for second, one in _COMMANDS]


def update(bench: Bench) -> None:
    """It arrives, twice, as after a question of `outpost update`; goes on trial, and is kept."""
    bench.settings |= {"commands": True, "update_key": updated_world.KEY.hex()}
    bench.files = {
        **_OLD,
        "outpost/installed.json": json.dumps(updated_world.record_of(_OLD, bench.board)).encode(),
    }
    contents = [Content(path, data) for path, data in _NEW.items()]
    made = image.make(
        contents, updated_world.KEY, device="kitchen", board=bench.board, version="9.0", made_s=9
    )
    messages = list(made.list_messages())
    for number, content in enumerate(made.contents):
        if _OLD.get(content.path) != content.data:
            messages += made.file_messages(number)
    trial = {"id": "u-1", "do": "update", "of": made.tag, "within_s": 30}
    messages += [*messages, json.dumps(trial).encode()]
    bench.said = [(5 + number, _TOPIC, one) for number, one in enumerate(messages)]


def answers(world) -> dict[str, list[int]]:
    """{id of a command: the results that the board stored for it}; a message counts once."""
    messages = {(one.stream, one.packet_id): one.payload for one in world.broker.came}
    found: dict[str, list[int]] = {}
    for payload in messages.values():
        for reading in json.loads(payload):
            if "cmd" in reading:
                found.setdefault(reading["cmd"], []).append(reading["v"])
    return found


def is_whole(world) -> None:
    assert not world.lost() and not world.invented() and not world.out_of_order()
    assert not world.broker.violations, world.broker.violations


def is_done_once(world) -> None:
    is_whole(world)
    found = answers(world)
    assert found == {one["id"]: [0] for _, one in _COMMANDS}, found
    settings = json.loads(world.files["settings.json"])
    assert (settings["interval_ms"], settings["keep_alive_s"]) == (20_000, 50), settings


def is_all_or_nothing(world) -> None:
    is_whole(world)
    found = answers(world)
    assert list(found) == ["u-1"] and len(found["u-1"]) == 1, found
    wanted = _NEW if found["u-1"] == [0] else _OLD
    theirs = {path: data for path, data in world.files.items() if path in {**_OLD, **_NEW}}
    assert theirs == wanted, (found, sorted(theirs))
    assert not [path for path in world.files if path.startswith("update/")], sorted(world.files)


# name: (what sets the bench up, what holds at the end; None: the kit's own verdict)
MODES = {
    "broker": (lambda bench: None, None),
    "collector": (collector, None),
    "series": (series, None),
    "deep sleep": (deep_sleep, None),
    "commands": (commands, is_done_once),
    "update": (update, is_all_or_nothing),
}


def set_up(bench: Bench, mode: str) -> None:
    bench.settings = {"interval_ms": 30_000, "outbox_blocks": 16, "mode": "broker"}
    MODES[mode][0](bench)
