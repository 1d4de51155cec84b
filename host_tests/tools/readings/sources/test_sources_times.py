# cpython-only: it tests the desktop tools
"""Times: formats, zones, clocks set back, and clocks that are wrong."""

from datetime import UTC, datetime

import pytest

from outpost_tools.readings.sources import file, times
from outpost_tools.readings.sources.decode import decode


def us(text):
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


ARRIVAL = us("2026-01-15T12:00:00Z")


@pytest.mark.parametrize(
    ("form", "zone", "field", "expected"),
    [
        ("epoch-s", None, 1768478400, "2026-01-15T12:00:00Z"),
        ("epoch-s", None, 1768478399.25, "2026-01-15T11:59:59.25Z"),
        ("epoch-ms", None, 1768478399250, "2026-01-15T11:59:59.25Z"),
        ("any", None, 1768478400, "2026-01-15T12:00:00Z"),
        ("any", None, 1768478400000, "2026-01-15T12:00:00Z"),
        ("any", None, "2026-01-15T13:00:00+01:00", "2026-01-15T12:00:00Z"),
        ("rfc3339", None, "2026-01-15T12:00:00.775023242Z", "2026-01-15T12:00:00.775023Z"),
        ("local", "Europe/Berlin", "2026-01-15T13:00:00", "2026-01-15T12:00:00Z"),
        ("local", "Europe/Berlin", "2026-07-15T14:00:00", "2026-07-15T12:00:00Z"),
        ("local", "America/New_York", "2026-01-15 07:00:00", "2026-01-15T12:00:00Z"),
        ("local", "Asia/Kathmandu", "2026-01-15T17:45:00", "2026-01-15T12:00:00Z"),
        ("local", "Europe/Berlin", "2026-01-15T12:00:00Z", "2026-01-15T12:00:00Z"),
    ],
)
def test_formats(form, zone, field, expected):
    assert times.reader(form, zone)(field, ARRIVAL) == us(expected)


@pytest.mark.parametrize("arrival", ["2026-10-25T00:31:00Z", "2026-10-25T01:31:00Z"])
def test_of_the_two_times_when_clocks_are_set_back_the_nearer_one_counts(arrival):
    """02:30 in Berlin is 00:30 or 01:30 in UTC."""
    found = times.reader("local", "Europe/Berlin")("2026-10-25T02:30:00", us(arrival))
    assert us(arrival) - found == 60_000_000


def test_without_an_arrival_the_first_of_the_two_counts():
    found = times.reader("local", "Europe/Berlin")("2026-10-25T02:30:00", None)
    assert found == us("2026-10-25T00:30:00Z")


@pytest.mark.parametrize(
    ("form", "field", "says"),
    [
        ("epoch-s", "soon", "'soon' is no number"),
        ("epoch-s", True, "'True' is no number"),
        ("epoch-s", 1e18, "1e\\+18 is no time"),
        ("epoch-ms", [1], "is no number"),
        ("rfc3339", "2026-01-15T12:00:00", "has no offset"),
        ("rfc3339", "yesterday", "'yesterday' is no time"),
        ("rfc3339", 7, "'7' is no time"),
        ("local", "2026-02-30T00:00:00", "is no time"),
        ("any", "x" * 100, "'x{40}' is no time"),
    ],
)
def test_what_is_no_time_is_said(form, field, says):
    with pytest.raises(times.Unreadable, match=says):
        times.reader(form, "Europe/Berlin" if form == "local" else None)(field, ARRIVAL)


# --- In a message ---

TEXT = """
[[source]]
name = "s"
topic = "t/{device}"
values = ["v"]
time = { path = "ts", format = "epoch-s" }
"""


def message(ts, received_ms=ARRIVAL // 1000):
    return decode(file.parse(TEXT, "s.toml"), b"t/d", b'{"v":1,"ts":%s}' % ts, received_ms)


def test_the_devices_time_is_that_of_the_readings():
    found = message(b"1768478390.5")
    assert (found.time_from, found.note) == ("device", "")
    assert found.readings[0].time_us == ARRIVAL - 9_500_000


@pytest.mark.parametrize(
    ("ts", "note"),
    [
        (b"3", "ts: time long before its arrival"),
        (b"1868478390", "ts: time after its arrival"),
        (b'"soon"', "ts: 'soon' is no number"),
        (b"null", ""),
    ],
)
def test_a_wrong_clock_costs_the_time_and_not_the_reading(ts, note):
    found = message(ts)
    assert (found.time_from, found.note) == ("arrival", note)
    assert found.readings[0].time_us == ARRIVAL


def test_without_either_the_time_is_not_known():
    found = message(b"null", None)
    assert (found.time_from, found.readings[0].time_us) == ("unknown", None)
    assert message(b"1768478390.5", None).time_from == "device"


def test_times_are_utc_whatever_the_machines_zone():
    moment = datetime.fromtimestamp(ARRIVAL / 1e6, UTC)
    assert moment.isoformat() == "2026-01-15T12:00:00+00:00"
