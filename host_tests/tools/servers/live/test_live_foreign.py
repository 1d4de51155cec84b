# cpython-only: reads files as a desktop tool does
"""Devices of a mapping on the live page: copies, last known values, states, silence, floods."""

import json

import pytest

from live_server import payload
from outpost_tools.log.segment_frames import FLAG_RETAIN, Frame
from outpost_tools.messages import message, reasons
from outpost_tools.readings.sources import file, guarantee
from outpost_tools.servers.live import card, device_page, foreign_device, others, page
from outpost_tools.servers.live.fleet import MOST_SENSORS, Fleet
from outpost_tools.servers.live.pauses import Pauses
from outpost_tools.text.words import natural

NOW_MS = 1_795_000_000_000
DAY_S = 86_400
TEXT = """
[[source]]
name = "timed"
topic = "timed/{device#}/SENSOR"
time = "time"
values = ["**"]
units = { power = "W", temperature = "Cel" }

[[source]]
name = "plain"
topic = "plain/{device}/{metric}"
payload = "number"

[[source]]
name = "numbered"
topic = "numbered/{device}"
id = "n"
values = ["power"]

[[state]]
name = "will"
topic = "timed/{device#}/LWT"
online = "Online"
offline = "Offline"
"""


class House:
    """A page, and a clock that a test sets."""

    def __init__(self, text=TEXT):
        self.now_ms = NOW_MS
        self.fleet = Fleet(lambda: self.now_ms, file.parse(text, "sources.toml"))
        self.fleet.history_read(None, is_complete=True)
        self.fleet.is_collected = True

    def frame(self, topic, data, *, ago_s=0.0, retained=False):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        flags = FLAG_RETAIN if retained else 0
        return Frame(self.now_ms - int(ago_s * 1000), flags, len(data), topic.encode(), data)

    def take(self, *args, **more):
        self.fleet.take([self.frame(*args, **more)])

    def sensor(self, ident, metric):
        return self.fleet.boards[ident].sensors[metric]

    def finding(self, ident):
        self.fleet.look(at_once=True)
        (one,) = self.fleet.boards[ident].findings
        return one.key, one.text

    def card(self, ident):
        self.fleet.look(at_once=True)
        return card.card(self.fleet, self.fleet.boards[ident])


@pytest.fixture
def house():
    return House()


def sample(house, *, ago_s=0.0, **values):
    return {"time": round((house.now_ms - ago_s * 1000) / 1000, 3)} | values


def test_a_device_has_its_own_name_values_units_and_times(house):
    house.take("timed/attic/north wall/SENSOR", sample(house, ago_s=5, power=38.5))
    (device,) = house.fleet.boards.values()
    assert (device.ident, device.name) == ("other:attic:2fnorth:20wall", "attic/north wall")
    one = house.sensor(device.ident, "power")
    assert (one.unit, one.newest.value, one.newest.time_ms) == ("W", 38.5, NOW_MS - 5000)
    assert not one.is_arrival and len(one.history.bins("hour", NOW_MS)) == 1
    text = house.card(device.ident)
    assert '<a href="/board/other:attic:2fnorth:20wall">attic/north wall</a>' in text
    assert "<b>38.5</b> W" in text and "✓</span> fine" in text


def test_a_board_and_a_device_with_one_name_are_two(house):
    house.take("timed/kitchen/SENSOR", sample(house, power=1))
    data = payload("kitchen", 0, [("power", "W", 2)], time_s=NOW_MS / 1000)
    house.take("outpost/kitchen/data", data)
    values = {ident: house.sensor(ident, "power").newest.value for ident in house.fleet.boards}
    assert values == {"other:kitchen": 1, "kitchen": 2}
    assert len({one.number for one in house.fleet.boards.values()}) == 2
    assert len({one.sensors["power"].number for one in house.fleet.boards.values()}) == 2


def test_a_boards_message_on_a_topic_of_the_mapping_is_the_boards(house):
    data = payload("kitchen", 0, [("power", "W", 2)], time_s=NOW_MS / 1000)
    made = House('[[source]]\nname = "all"\ntopic = "#"\ndevice = "x"\nvalues = ["**"]\n')
    made.take("outpost/kitchen/data", data)
    assert list(made.fleet.boards) == ["kitchen"]


def test_without_a_mapping_others_messages_are_none_of_outposts():
    made = Fleet(lambda: NOW_MS)
    made.take([House().frame("timed/washer/SENSOR", {"power": 1})])
    assert not made.boards and made.refused.total() == 1


@pytest.mark.parametrize(
    ("topic", "values", "counted"),
    [
        ("timed/a/SENSOR", {"time": NOW_MS / 1000, "power": 1}, 1),
        ("numbered/a", {"n": 7, "power": 1}, 1),
        ("timed/a/SENSOR", {"power": 1}, 2),  # nothing tells it from a second reading
    ],
)
def test_a_copy_counts_once_if_it_can_be_told(topic, values, counted, house):
    house.take(topic, values, ago_s=9)
    house.take(topic, values, ago_s=1)
    device = house.fleet.boards["other:a"]
    bins = device.sensors["power"].history.bins("hour", NOW_MS)
    assert (device.messages, sum(one.count for one in bins)) == (counted, counted)


def test_the_memory_of_copies_is_bounded_for_each_device_by_itself(house):
    first = sample(house, power=1)
    house.take("timed/quiet/SENSOR", first)
    for n in range(3 * foreign_device.MOST_COPIES):
        house.take("timed/loud/SENSOR", sample(house, ago_s=n, power=n))
    house.take("timed/quiet/SENSOR", first)
    assert house.fleet.boards["other:quiet"].messages == 1
    assert len(house.fleet.boards["other:loud"]._copies) == foreign_device.MOST_COPIES


def test_a_retained_value_is_the_last_known_one_and_no_reading(house):
    heard = []
    house.fleet.on_message = lambda *one: heard.append(one)
    house.take("plain/attic/roof", b"3.5", retained=True)
    house.take("timed/attic/SENSOR", sample(house, ago_s=3600, power=9), retained=True)
    device = house.fleet.boards["other:attic"]
    assert (device.messages, device.last_seen_ms, heard) == (0, 0, [])
    assert not any(one.history.bins("day", NOW_MS) for one in device.sensors.values())
    assert house.finding("other:attic") == ("known", "no new reading yet")
    text = house.card("other:attic")
    assert "<b>3.5</b>" in text and '<span class="age">last known</span>' in text
    assert f'<span class="age">last known, <time data-ms="{NOW_MS - 3_600_000}"' in text
    assert "fine" not in text and "<dt>seen</dt>" not in text and "spark" not in text
    assert "No device has sent anything yet." in page.head(house.fleet)
    assert "No reading in the last" in device_page.render(house.fleet, device, "hour", "x-1")


def test_a_last_known_value_gives_way_to_a_reading_and_a_newer_one_shows_again(house):
    house.take("plain/attic/roof", b"3.5", ago_s=60, retained=True)
    house.take("plain/attic/roof", b"4", ago_s=30)
    one, device = house.sensor("other:attic", "roof"), house.fleet.boards["other:attic"]
    assert (one.newest.value, one.is_last_known, device.messages) == (4, False, 1)
    assert house.finding("other:attic")[0] == "fine"
    house.take("plain/attic/roof", b"5", ago_s=10, retained=True)  # the collector was away
    assert (one.newest.value, one.is_last_known, len(one.recent)) == (5, True, 1)
    version = house.fleet.version
    house.take("plain/attic/roof", b"6")
    assert (one.newest.value, one.is_last_known, len(one.recent)) == (6, False, 2)
    assert device.facts_version > version  # the browser gets its card again


def test_a_retained_copy_of_a_reading_that_came_already_does_not_hide_it(house):
    given = sample(house, ago_s=20, power=9)
    house.take("timed/attic/SENSOR", given, ago_s=20)
    house.take("timed/attic/SENSOR", given, retained=True)
    assert not house.sensor("other:attic", "power").is_last_known


def test_the_order_of_reading_does_not_matter():
    made = House()
    frames = [
        made.frame("plain/a/x", b"1", ago_s=50, retained=True),
        made.frame("plain/a/x", b"2", ago_s=40),
        made.frame("timed/a/LWT", b"Offline", ago_s=30),
        made.frame("plain/a/x", b"3", ago_s=20),
        made.frame("plain/a/x", b"4", ago_s=10, retained=True),
    ]

    def told(order):
        one = House()
        for index in order:
            one.fleet.take([frames[index]])
        device = one.fleet.boards["other:a"]
        newest = device.sensors["x"].newest.value
        return device.messages, device.state, newest, one.finding("other:a")

    assert told((0, 1, 2, 3, 4)) == told((4, 3, 2, 1, 0)) == told((2, 4, 0, 3, 1))
    assert told((0, 1, 2, 3, 4)) == (2, "online", 4, ("fine", "fine"))


def test_a_will_makes_it_offline_until_it_sends_or_says_online(house):
    house.take("timed/a/SENSOR", sample(house, ago_s=60, power=1), ago_s=60)
    house.take("timed/a/LWT", b"Offline", ago_s=50)
    assert house.finding("other:a") == ("offline", "offline")
    assert "<dt>state</dt><dd>offline</dd>" in house.card("other:a")
    assert "⊝ other devices offline: 1" in page.head(house.fleet)
    house.take("timed/a/SENSOR", sample(house, ago_s=40, power=1), ago_s=40)
    assert house.finding("other:a")[0] == "fine"
    house.take("timed/a/LWT", b"Offline", ago_s=30)
    house.take("timed/a/LWT", b"Online", ago_s=20, retained=True)
    assert house.finding("other:a")[0] == "fine"
    assert "<dt>state</dt><dd>online</dd>" in house.card("other:a")


def test_a_retained_state_shows_a_device_that_has_sent_nothing(house):
    house.take("timed/gone/LWT", b"Offline", retained=True)
    house.take("timed/here/LWT", b"Online", retained=True)
    assert house.finding("other:gone")[0] == "offline"
    assert house.finding("other:here") == ("known", "no new reading yet")
    assert house.fleet.boards["other:here"].last_seen_ms == 0
    assert "It has sent no measurement yet." in house.card("other:here")


def test_the_page_says_what_is_promised_and_nothing_of_gaps_or_a_backlog(house):
    house.take("timed/a/SENSOR", sample(house, power=1))
    house.take("plain/a/x", b"1")
    text = house.card("other:a")
    assert f"<dt>timed</dt><dd>{guarantee.MEANING[guarantee.TIME]}</dd>" in text
    assert f"<dt>plain</dt><dd>{guarantee.MEANING[guarantee.NONE]}</dd>" in text
    assert "waiting on the board" not in text and "backlog" not in text


# --- Silence ---


def sends(house, ago_days, *, every_s=300, at_night=True):
    for ago_s in range(int(ago_days * DAY_S), 0, -every_s):
        hour = (house.now_ms / 1000 - ago_s) % DAY_S / 3600
        if at_night or 7 <= hour < 22:
            house.take("plain/a/x", b"1", ago_s=ago_s)


def test_a_device_that_reports_is_silent_after_three_of_its_pauses(house):
    sends(house, 2)
    house.fleet._listens_ms = 0
    house.now_ms += 600_000
    assert house.finding("other:a")[0] == "fine"
    house.now_ms += 600_000
    assert house.finding("other:a") == ("quiet", "silent for 25 min")
    assert "--forget other:a" not in house.card("other:a")  # no log, so no command


def test_a_device_that_rests_at_night_is_not_silent_every_night(house):
    sends(house, 2, at_night=False, every_s=60)
    house.fleet._listens_ms = 0
    house.now_ms += 20 * 3_600_000
    assert house.finding("other:a")[0] == "fine"
    house.now_ms += 12 * 3_600_000
    assert house.finding("other:a")[0] == "quiet"


def test_in_its_first_day_a_device_may_rest_for_a_day(house):
    sends(house, 0.2)
    house.fleet._listens_ms = 0
    house.now_ms += DAY_S * 1000
    assert house.finding("other:a")[0] == "fine"
    house.now_ms += 2 * 3_600_000
    assert house.finding("other:a")[0] == "quiet"


@pytest.mark.parametrize("step", [1, -1])
def test_the_longest_pause_is_that_of_a_week_and_the_memory_is_bounded(step):
    made = Pauses()
    hour_ms = 3_600_000
    times = [0, *range(400 * hour_ms, 500 * hour_ms, hour_ms // 60), 520 * hour_ms]
    for time_ms in times[::step]:
        made.add(time_ms)
    assert 20 * 3600 + 60 >= made.longest_s >= 19 * 3600
    assert len(made._hours) <= 168 and len(made._times) <= 32
    assert made.known_s == 520 * 3600


# --- Floods ---


def test_a_flood_of_names_is_refused_and_told_and_who_is_known_goes_on(monkeypatch):
    monkeypatch.setattr(others, "SENSORS_OF_SOURCE", 20)
    house = House(TEXT + "\n[limits]\ndevices = 10\nmetrics = 5\n")
    house.take("timed/known/SENSOR", sample(house, power=1))
    for n in range(500):
        house.take(f"plain/flood-{n}/x", b"1")
        house.take("plain/flood-0/x%d" % n, b"1")
        house.take(f"timed/will-{n}/LWT", b"Online")
    house.take("timed/known/SENSOR", sample(house, ago_s=-1, power=2))
    boards = house.fleet.boards
    assert house.sensor("other:known", "power").newest.value == 2
    assert len(boards) == 21 and len(boards["other:flood-0"].sensors) == 5
    head = page.head(house.fleet)
    assert "Not read by <code>--sources</code>" in head
    assert "plain: a new device, and this source has 10 already (490)" in head
    assert len(house.fleet.others.refused) <= reasons.MOST + 1


def test_others_take_no_place_of_a_board(monkeypatch, house):
    monkeypatch.setattr(others, "MOST_DEVICES", 3)
    for n in range(5):
        house.take(f"plain/d{n}/x", b"1")
    data = payload("kitchen", 0, [("power", "W", 2)], time_s=NOW_MS / 1000)
    house.take("outpost/kitchen/data", data)
    assert len(house.fleet.boards) == 4 and house.fleet.others.devices == 3
    numbers = {n.number for one in house.fleet.boards.values() for n in one.sensors.values()}
    assert sorted(numbers)[0] == 0 and sorted(numbers)[1:] == [MOST_SENSORS + n for n in range(3)]
    house.fleet.forget({"other:d0": house.now_ms})
    assert house.fleet.others.devices == 2
    house.take("plain/d9/x", b"1")
    assert "other:d9" in house.fleet.boards


def test_what_cannot_be_read_is_counted_with_its_source_and_reason(house):
    house.take("timed/a/SENSOR", b"{")
    house.take("plain/a/x", b"warm")
    assert dict(house.fleet.others.refused) == {
        "timed: not JSON": 1,
        "plain: not a number: 'warm'": 1,
    }
    assert not house.fleet.boards and not house.fleet.refused


def test_a_forgotten_device_is_shown_again_when_it_sends(house):
    house.take("plain/a/x", b"1", ago_s=60)
    house.fleet.forget({"other:a": house.now_ms - 30_000})
    assert not house.fleet.boards
    house.take("plain/a/x", b"1", ago_s=40)
    assert not house.fleet.boards
    house.take("plain/a/x", b"1")
    assert list(house.fleet.boards) == ["other:a"]


def test_a_name_of_somebody_else_means_nothing_to_us(house):
    for name in ("firmware", "report_s", "reset_cause", "erases", "left_out"):
        house.take(f"plain/a/{name}", b"3")
    text = house.card("other:a")
    assert text.count("<b>3</b>") == 5 and "every" not in text


def test_names_with_odd_digits_are_sorted(house):
    assert sorted(["²", "٣", "b10", "b9", "1"], key=natural)[-2:] == ["²", "٣"]
    house.take("plain/²/x", b"1")
    house.take("plain/a/٣", b"1")
    assert [one.name for one in house.fleet.in_order()] == ["a", "²"]


def test_alerts_hear_each_new_message_as_that_of_a_board(house):
    heard = []
    house.fleet.on_message = lambda *one: heard.append(one)
    house.take("plain/a/x", b"1", ago_s=10)
    ((found, seen_ms),) = heard
    assert isinstance(found, message.Message) and found.device == "other:a"
    assert (found.readings[0].time_s, seen_ms) == (NOW_MS / 1000 - 10, NOW_MS - 10_000)
