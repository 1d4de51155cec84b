# cpython-only: a desktop tool
"""Rules over readings: bounds with hysteresis, and nothing that is late is taken for now."""

from alerts_rig import NOW_S
from live_server import payload
from outpost_tools.messages import message
from outpost_tools.servers.alerts.readings import Readings, key_of
from outpost_tools.servers.alerts.rules import Reading

WARM = Reading("temperature", ("*",), True, 8.0, 0.5, 0.0)
COLD = Reading("temperature", ("fridge",), False, 2.0, 0.5, 0.0)
KEY = key_of(WARM, "fridge", "temperature")


class Feed:
    """Messages of one board. late_s: between measurement and arrival."""

    def __init__(self, *rules, told=(), board="fridge"):
        self.readings = Readings(rules, told)
        self._board, self._seq = board, -1

    def take(self, value, *, at_s=0.0, late_s=0.0, time=True, up=None, sensor="temperature"):
        self._seq += 1
        measured_s = NOW_S + at_s
        data = payload(
            self._board, self._seq, [(sensor, "Cel", value)],
            time_s=measured_s if time else None, up=up,
        )  # fmt: skip
        received_s = measured_s + late_s
        found = message.decode(f"outpost/{self._board}/data", data, received_ms=received_s * 1000)
        self.readings.take(found, received_s)
        return self

    @property
    def broken(self):
        return {key: one.text for key, one in self.readings.broken.items()}


def test_a_bound_is_broken_beyond_it_and_well_when_it_is_back_by_the_hysteresis():
    feed = Feed(WARM, COLD)
    assert feed.take(8.0).broken == {}
    assert feed.take(8.1, at_s=10).broken == {KEY: "fridge: temperature 8.1 °C, above 8 °C"}
    assert KEY in feed.take(7.6, at_s=20).broken
    assert feed.take(7.5, at_s=30).broken == {}
    assert feed.readings.well[KEY] == "fridge: temperature 7.5 °C, no longer above 8 °C"
    assert feed.take(7.9, at_s=40).broken == {}
    below = key_of(COLD, "fridge", "temperature")
    assert feed.take(1.9, at_s=50).broken == {below: "fridge: temperature 1.9 °C, below 2 °C"}
    assert below in feed.take(2.4, at_s=60).broken and not feed.take(2.5, at_s=70).broken


def test_other_boards_and_sensors_are_left_alone():
    assert Feed(COLD, board="kitchen").take(-5).broken == {}
    assert Feed(WARM).take(50, sensor="temperature.fault").broken == {}


def test_a_backlog_breaks_no_bound_and_mends_none():
    feed = Feed(WARM)
    for number in range(100):  # of an hour ago, all at once
        feed.take(20, at_s=-3600 + number, late_s=3600 - number + number / 50)
    assert feed.broken == {}
    assert KEY in feed.take(9, at_s=10).broken
    feed.take(1, at_s=-1800, late_s=1820)  # another one, from before the fridge was left open
    assert KEY in feed.broken


def test_a_value_that_comes_after_a_newer_one_changes_nothing():
    feed = Feed(WARM).take(9, at_s=60)
    assert KEY in feed.take(1, at_s=30, late_s=31).broken


def test_a_board_without_a_clock_is_late_as_long_as_its_messages_catch_up():
    feed = Feed(WARM)
    for number in range(60):  # a minute apart by its uptime, and a second apart here
        feed.take(20, time=False, up=1000 + 60 * number, at_s=number)
        feed.readings.tick(NOW_S + number + 0.5)
        assert feed.broken == {}
    feed.take(5, time=False, up=1000 + 60 * 60, at_s=60)
    feed.readings.tick(NOW_S + 70)  # none has caught up for a while: that is now
    assert feed.broken == {}
    feed.take(12, time=False, up=1000 + 61 * 60, at_s=120)
    assert KEY in feed.broken


def test_what_was_broken_before_the_start_stays_so_until_a_reading_says_more():
    feed = Feed(WARM, told=[KEY])
    assert feed.broken == {} and KEY not in feed.readings.well
    assert KEY in feed.take(7.8).broken, "within the hysteresis: not over"
    assert Feed(WARM).take(7.8).broken == {}
    feed = Feed(WARM, told=[KEY]).take(7)
    assert KEY in feed.readings.well


def test_a_clock_that_is_set_makes_no_value_late():
    feed = Feed(WARM).take(1, time=False, up=10)
    feed.readings.tick(NOW_S + 10)
    feed.readings.clock_set(7200, NOW_S + 7200)
    assert KEY in feed.take(9, time=False, up=70, at_s=7260).broken
