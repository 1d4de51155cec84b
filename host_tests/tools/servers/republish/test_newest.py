# cpython-only: the desktop's tools
"""Which values are current: the newest, none that is old, with a clock and without."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from outpost_tools.attention import silence
from outpost_tools.messages.message import Message
from outpost_tools.messages.senml import Reading
from outpost_tools.servers.republish import link as link_module
from outpost_tools.servers.republish import run
from outpost_tools.servers.republish.newest import (
    FRESH_S,
    MOST_BOARDS,
    MOST_SENSORS,
    SETTLE_S,
    Board,
    Newest,
)  # fmt: skip
from outpost_tools.servers.republish.topics import Topics

NOW = 1_800_000_000.0
HOUR = 3600.0


def message(seq, *, at=None, up=None, boot=1, device="kitchen", name="t", **more):
    """at: time of the reading; up: since boot, of a board without a clock."""
    readings = [Reading(0, name, "Cel", float(seq), at)]
    readings += [Reading(1, key, None, value, at) for key, value in more.items()]
    return Message(device, "0badcafe", seq, boot, 0, up, readings=readings)


def value(newest, name="t", device="kitchen"):
    found = newest.boards[device].values.get(name)
    return found and found.value


def test_the_newest_is_current():
    newest = Newest()
    newest.take(message(1, at=NOW), NOW)
    newest.take(message(2, at=NOW + 10), NOW + 10)
    assert value(newest) == 2 and newest.boards["kitchen"].is_current


def test_what_a_board_had_before_it_was_gone_is_not_current_when_it_is_back():
    newest = Newest()
    newest.take(message(1, at=NOW), NOW)
    newest.heard_state("kitchen", "offline")
    newest.heard_state("kitchen", "online")
    assert not newest.boards["kitchen"].is_current
    newest.take(message(2, at=NOW + 10), NOW + 300)  # its backlog
    assert not newest.boards["kitchen"].is_current
    newest.take(message(3, at=NOW + 300), NOW + 300)
    assert newest.boards["kitchen"].is_current and value(newest) == 3


def test_an_hours_backlog_is_never_current_and_its_end_is():
    newest = Newest()
    newest.take(message(0, at=NOW), NOW)
    seen = set()
    for seq in range(1, 361):  # all at once, an hour later, each 10 s after the one before
        newest.take(message(seq, at=NOW + 10 * seq), NOW + HOUR)
        seen.add(value(newest))
    fresh = int(FRESH_S / 10)
    assert seen == {0.0, *map(float, range(360 - fresh, 361))}
    assert newest.old == 360 - fresh - 1


def test_what_is_sent_again_does_not_go_back():
    newest = Newest()
    for seq in (1, 2, 1, 2):
        newest.take(message(seq, at=NOW + seq), NOW + 3)
    assert value(newest) == 2


@pytest.mark.parametrize("off_s", [-HOUR, HOUR])
def test_a_clock_that_is_wrong_makes_nothing_current(off_s):
    newest = Newest()
    newest.take(message(1, at=NOW + off_s), NOW)
    assert value(newest) is None and newest.old == 1


def test_each_sensor_by_itself():
    newest = Newest()
    newest.take(message(1, at=NOW, aside=3.0), NOW)
    newest.take(message(2, at=NOW + 1), NOW + 1)
    assert (value(newest), value(newest, "aside")) == (2, 3)


def test_it_expires_and_comes_back():
    newest = Newest()
    newest.take(message(1, at=NOW, **{silence.REPORT_S: 600.0}), NOW)
    board = newest.boards["kitchen"]
    assert board.expire_s == 1860
    newest.tick(NOW + 1859)
    assert board.is_current
    newest.tick(NOW + 1860)
    assert not board.is_current
    newest.take(message(2, at=NOW + 2000), NOW + 2000)
    assert board.is_current


def test_a_sensor_that_reports_nothing_any_more_is_still_described():
    newest = Newest()
    newest.take(message(1, at=NOW, aside=3.0), NOW)
    newest.take(message(2, at=NOW + 1), NOW + 1)
    assert set(newest.boards["kitchen"].sensors) == {"t", "aside"}


# --- Without a clock ---


def test_without_a_clock_a_value_is_current_when_nothing_catches_up_any_more():
    newest = Newest()
    newest.take(message(1, up=100.0), NOW)
    newest.tick(NOW + SETTLE_S - 0.1)
    assert value(newest) is None
    newest.tick(NOW + SETTLE_S)
    assert value(newest) == 1
    newest.take(message(2, up=110.0), NOW + 10)
    assert value(newest) == 2  # live: at once


def test_without_a_clock_a_backlog_shows_its_last_message_alone():
    newest, now = Newest(), NOW
    for seq in range(360):
        now += 0.05
        newest.take(message(seq, up=10.0 * seq), now)
        newest.tick(now)
        assert value(newest) is None
    newest.tick(now + SETTLE_S)
    assert value(newest) == 359


def test_without_a_clock_an_hours_outage_within_one_boot_shows_nothing_old():
    newest = Newest()
    newest.take(message(0, up=0.0), NOW)
    newest.tick(NOW + SETTLE_S)
    for seq in range(1, 361):
        newest.take(message(seq, up=10.0 * seq), NOW + HOUR)
        assert value(newest) == 0 or value(newest) >= 360 - FRESH_S / 10
    newest.tick(NOW + HOUR + SETTLE_S)
    assert value(newest) == 360


def test_without_a_clock_a_repetition_is_old():
    newest = Newest()
    for seq in (5, 4, 5):
        newest.take(message(seq, up=10.0 * seq), NOW)
    assert newest.old == 2


@pytest.mark.parametrize("begin", [(1, "0badf00d", 1), (7, "0badcafe", 0)])
def test_without_a_clock_a_count_of_boots_that_goes_back_is_a_new_start(begin):
    """A new flash has another stream and counts from 1; after boot 65535 comes 0."""
    seq, stream, boot = begin
    newest = Newest()
    newest.take(message(6, up=500.0, boot=65535), NOW)
    newest.take(replace(message(seq, up=1.0, boot=boot), stream=stream), NOW + 1)
    newest.tick(NOW + 1 + SETTLE_S)
    assert value(newest) == seq and newest.old == 0


@pytest.mark.parametrize("by_s", [-HOUR, HOUR])
def test_our_clock_is_set_and_boards_without_one_go_on(by_s):
    """As on a Raspberry Pi, which has none while it is off."""
    newest = Newest()
    newest.take(message(1, up=100.0), NOW)
    newest.tick(NOW + SETTLE_S)
    newest.clock_set(by_s, NOW + by_s + 10)
    newest.tick(NOW + by_s + 10)
    assert newest.boards["kitchen"].is_current
    newest.take(message(2, up=111.0), NOW + by_s + 11)
    assert value(newest) == 2 and newest.old == 0
    newest.tick(NOW + by_s + 2 * HOUR)
    assert not newest.boards["kitchen"].is_current


def test_the_republisher_sees_that_its_clock_was_set():
    wall, steady, link = [NOW], [5.0], SimpleNamespace(take=lambda _: [], can_write=False)
    made = run.Republisher(link, Topics("outpost"), None, lambda: wall[0], lambda: steady[0])
    told = []
    made.newest.clock_set = lambda by_s, now: told.append((by_s, now))
    for wall[0], steady[0] in ((NOW + 9, 14.0), (NOW + 1010, 15.0), (NOW + 1011.5, 16.0)):
        made.step(0)
    assert told == [(1000.0, NOW + 1010)]


@pytest.mark.parametrize(("off_s", "is_current"), [(-180, True), (-3 * HOUR, True), (180, False)])
def test_boards_that_agree_on_a_later_time_are_current_on_a_machine_that_is_behind(
    off_s, is_current
):
    """A time before ours may be a backlog's, so a clock that is ahead is only told."""
    wall, steady, arrived = [NOW + off_s], [5.0], []
    link = SimpleNamespace(take=lambda _: [arrived.pop()] if arrived else [], can_write=False)
    made = run.Republisher(link, Topics("outpost"), None, lambda: wall[0], lambda: steady[0])
    for second in range(40):
        for name in ("garden", "kitchen", "new"):
            if name != "new" or second > 20:
                pack = {"bn": f"{name}/", "bt": NOW + second, "sid": "0a1b2c3d", "seq": second}
                pack |= {"boot": 1, "held": 0, "ver": 1, "n": "load", "v": second}
                arrived.append((f"outpost/{name}/data", json.dumps([pack]).encode(), False))
                made.step(0)
        wall[0], steady[0] = wall[0] + 1, steady[0] + 1
    assert made.newest.boards["new"].is_current == is_current
    assert made.clock.is_wrong and ("behind" in made.clock.reason) == (off_s < 0)


def test_a_connection_that_is_lost_before_its_subscriptions_were_answered(monkeypatch):
    """What it had asked for was waited for ever after: no board was described any more."""
    monkeypatch.setattr(link_module, "LEARN_S", 0.0)
    link = link_module.Link(("127.0.0.1", 1), "r", Topics("outpost"), "homeassistant")
    client = SimpleNamespace(subscribe=lambda _, qos: (0, next(numbers)))
    numbers, link.connected = iter(range(100)), True
    link._subscribe(client)
    link._subscribe(client)  # the next connection
    asked = list(link._asked)
    assert not link.has_learned
    for number in asked[-len(link._filters) :]:
        link._on_subscribe(None, None, number, [], None)
    assert link.has_learned


def test_boards_and_sensors_are_bounded():
    newest = Newest()
    newest.boards = {str(n): Board(str(n)) for n in range(MOST_BOARDS)}
    newest.take(message(1, at=NOW), NOW)
    assert "kitchen" not in newest.boards
    names = {f"s{n}": 1.0 for n in range(MOST_SENSORS + 5)}
    newest.take(message(1, at=NOW, device="7", **names), NOW)
    assert len(newest.boards["7"].values) == MOST_SENSORS


def test_a_contact_is_a_ratio_from_the_first_value_that_no_contact_has():
    newest = Newest()
    for at, found, unit in ((0, 1.0, "/"), (1, 0.0, "/"), (2, 0.5, ""), (3, 1.0, "")):
        readings = [Reading(0, "valve", "/", found, NOW + at)]
        newest.take(Message("kitchen", "0badcafe", at + 1, 1, 0, None, readings=readings), NOW + at)
        board = newest.boards["kitchen"]
        assert board.sensors["valve"] == unit
        assert board.is_description_new is (at in (0, 2))
        board.is_description_new = False
        assert board.values["valve"].unit == "/"  # as the message has it
