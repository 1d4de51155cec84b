# cpython-only: the tools' names beside the firmware's
"""The tools know every reading by which a board tells of itself, and no other."""

from outpost_tools.messages import board_words
from outpost_tools.readings.pipeline import health as tables
from station import flash_wear
from station.about import About
from station.health import COUNTERS


class Outbox:
    next_seq = reported_seq = 0


class Reading:
    unit = b""

    def __init__(self, name):
        self.name = name

    def read(self):
        return 1


def test_the_counters_are_the_firmwares():
    assert board_words.COUNTERS == tuple(name.decode() for name in COUNTERS)
    assert set(board_words.COUNTERS) == set(tables.NAMES)


def test_so_are_the_readings_of_the_flash():
    assert board_words.WEAR == tuple(one.name.decode() for one in flash_wear.sensors(Outbox()))


def test_so_is_what_a_board_tells_of_itself():
    outbox, names = Outbox(), set()
    of_board = [Reading(b"reset_cause"), Reading(b"signal"), Reading(b"no_memory")]
    about = About(outbox, Outbox(), "1.2.3", lambda: 60, of_board)
    for seq in range(1, 65):
        outbox.next_seq = seq
        if about.read() is not None:
            names.add(about.name.decode())
    assert names == set(board_words.ABOUT)
