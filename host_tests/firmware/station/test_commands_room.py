# cpython-only: files of a folder stand in for the board's, and main.py runs with a stand-in board
"""What has no room when a command is answered: the answer in the outbox, readings in the answer."""

import pytest

import commanded_world
from commanded_world import World
from outpost.session import Session

REPORT = {"id": "c-2", "do": "report"}
FULL = -1


def without_room(monkeypatch, answers):
    """The outbox has no room for the first `answers` tries to store one."""
    publish, left = Session.publish, [answers]

    def refused(self, topic, payload, *options, length=None):
        if b'"cmd":' in payload[:length] and left[0]:
            left[0] -= 1
            return FULL
        return publish(self, topic, payload, *options, length=length)

    monkeypatch.setattr(Session, "publish", refused)


@pytest.mark.parametrize("up_days", [0, 7, 12])
def test_an_answer_without_room_is_tried_again_each_second(tmp_path, monkeypatch, up_days):
    """Whatever the uptime: from 6.2 to 12.4 days after the start its ticks tell no time."""

    def started(board, client):
        world.now_ms += up_days * 86_400_000
        board._quiet_since_ms = world.now_ms
        world.server.send(REPORT)

    world = World(tmp_path, interval_ms=3_600_000)
    world.live()
    world.quiet_ms = 4000
    without_room(monkeypatch, 2)
    monkeypatch.setattr(commanded_world.Board, "started", started, raising=False)
    assert world.live() == "over"
    assert world.answers() == {"c-2": [(0, "report", "")]}


class Many:
    """Of 40 sensors, one."""

    unit, exponent = b"Cel", -2

    def __init__(self, number):
        self.name = b"temperature_%02d" % number
        self.number = number

    def read(self):
        return self.number


@pytest.mark.parametrize("is_asleep, full_first", [(False, 0), (False, 1), (True, 0)])
def test_readings_that_find_no_room_in_a_report_are_in_the_next_messages(
    tmp_path, monkeypatch, is_asleep, full_first
):
    def opened(board, settings):
        board.sensors = [Many(number) for number in range(40)]
        return opening(board, settings)

    opening = commanded_world.Board.open
    monkeypatch.setattr(commanded_world.Board, "open", opened)
    world = World(tmp_path, interval_ms=3_600_000, deep_sleep=is_asleep)
    world.quiet_ms = 4000
    world.live()
    world.server.messages.clear()
    world.server.send(REPORT)
    without_room(monkeypatch, full_first)
    monkeypatch.setattr("station.station.Station.measure", lambda self: False)
    assert world.live() == ("asleep" if is_asleep else "over")
    first, *rest = world.server.messages
    assert first[0]["cmd"] == "c-2" and rest
    told = [one["n"] for records in world.server.messages for one in records]
    assert [name for name in told if name.startswith("temp")] == [
        f"temperature_{number:02d}" for number in range(40)
    ]
