# cpython-only: the desktop half of the message definition
"""A series is a message like any other: its key, its readings, and why it is refused."""

import json
from types import SimpleNamespace

import pytest

import series_writer
from outpost_tools.boards.monitor import following
from outpost_tools.messages import labels, message

TOPIC = "outpost/board-1/data"
ROWS = [(0, (2150, 4512, 101_325)), (10_000, (2151, None, 101_327))]
START_S = series_writer.START_MS / 1000


def decoded(rows=ROWS, topic=TOPIC, received_ms=series_writer.START_MS, **header):
    return message.decode(topic, series_writer.payload(rows, **header), received_ms=received_ms)


def refused(*arguments, **options):
    with pytest.raises(message.Malformed) as caught:
        decoded(*arguments, **options)
    return str(caught.value)


def test_its_readings_are_those_of_a_pack_that_says_the_same():
    found = decoded()
    head = {"bn": "board-1/", "bt": START_S, "sid": "3fa9c1d2", "seq": 1234, "held": 1200}
    pack = [
        head | {"boot": 3, "ver": 1, "n": "temperature", "u": "Cel", "v": 21.50},
        {"n": "humidity", "u": "%RH", "v": 45.12},
        {"n": "pressure", "u": "Pa", "v": 101325},
        {"n": "temperature", "u": "Cel", "v": 21.51, "t": 10},
        {"n": "pressure", "u": "Pa", "v": 101327, "t": 10},
    ]
    assert found == message.decode(TOPIC, json.dumps(pack).encode())


def test_without_a_clock_there_is_uptime_and_no_time():
    found = decoded(clock_set=False, start_ms=12_500)
    assert found.uptime_s == 12.5
    assert [one.time_s for one in found.readings] == [None] * 5
    assert [one.shift_s for one in found.readings] == [0, 0, 0, 10, 10]


def test_uptime_and_clock_together():
    found = decoded(uptime_ms=86_400_500)
    assert (found.uptime_s, found.readings[-1].time_s) == (86_400.5, START_S + 10)


@pytest.mark.parametrize("exponent", range(-9, 10))
def test_a_value_is_what_json_reads(exponent):
    for value in (0, 1, -1, 42, 2151, 123_456_789, (1 << 29) - 1, -(1 << 29)):
        assert labels.scaled(value, exponent) == json.loads(f"{value}.0e{exponent}")


def test_why_it_is_refused():
    assert refused(topic="outpost/board-2/data") == "device 'board-1' does not match the topic"
    assert refused(received_ms=series_writer.START_MS - 40 * 86_400_000).endswith("its arrival")
    assert refused([]) == "series: no sample"
    assert refused(seq=1, held=2) == "series: held above seq"


def test_its_key_is_found_also_where_the_samples_are_bad():
    payload = series_writer.payload(ROWS)
    key = message.Key("board-1", "3fa9c1d2", 1234, 1200)
    assert message.key_of(TOPIC.encode(), payload) == key
    assert message.key_of(TOPIC.encode(), payload[:-1]) == key
    assert message.key_of(TOPIC.encode(), payload[:30]) is None
    assert message.key_of(TOPIC.encode(), b"\xf5") is None


def test_monitor_tells_how_many_samples_and_the_newest_values():
    told = []
    for rows in (ROWS, ROWS[:1]):
        payload = series_writer.payload(rows)
        found = SimpleNamespace(topic=TOPIC, payload=payload, retain=False)
        following.tell_message(found, told.append)
    assert told == [
        "message 1234, boot 3, 34 held before it: 2 samples in 10 s, the last ones: "
        "temperature 21.51 Cel, humidity 45.12 %RH, pressure 101327 Pa",
        "message 1234, boot 3, 34 held before it: 1 sample: "
        "temperature 21.5 Cel, humidity 45.12 %RH, pressure 101325 Pa",
    ]
