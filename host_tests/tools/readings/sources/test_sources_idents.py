# cpython-only: it tests the desktop tools
"""What devices of a mapping are called beside boards, and their messages as boards' readers do."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.messages import name_rules
from outpost_tools.readings.sources import guarantee
from outpost_tools.readings.sources.as_board import as_board
from outpost_tools.readings.sources.idents import ident, is_ident, shown
from outpost_tools.readings.sources.result import Message, Reading

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("washer", "other:washer"),
        ("front door", "other:front:20door"),
        ("attic/north", "other:attic:2fnorth"),
        ("switch:0", "other:switch:0"),
        ("a:20b", "other:a:3a20b"),
        ("Küche", "other:K:c3:bcche"),
    ],
)
def test_an_identifier_has_only_characters_of_a_senml_name(name, wanted):
    assert (ident(name), shown(wanted)) == (wanted, name)


@given(NAMES)
def test_no_two_names_have_one_identifier_and_none_has_a_boards(name):
    made = ident(name)
    assert shown(made) == name and is_ident(made) and not name_rules.is_device(made)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]*", made)


@given(NAMES)
def test_a_board_is_shown_by_its_own_name(name):
    assert shown(name) == name or name.startswith("other:")


@pytest.mark.parametrize("text", ["washer", "other:a b", "other:A:4a", ""])
def test_what_is_no_identifier_is_not_taken_for_one(text):
    assert not is_ident(text)


@pytest.mark.parametrize(
    ("time_us", "time_from", "wanted"),
    [(7_500_000, "device", 7.5), (9_000_000, "arrival", 20.0), (None, "unknown", 20.0)],
)
def test_a_reading_without_a_time_of_the_device_has_that_of_its_arrival(time_us, time_from, wanted):
    readings = [Reading("power", "W", 38.0, time_us)]
    found = Message("tasmota", "front door", readings, time_from, guarantee.NONE)
    made = as_board(found, 20.0)
    assert made.device == "other:front:20door"
    assert [(one.name, one.unit, one.value, one.time_s) for one in made.readings] == [
        ("power", "W", 38.0, wanted)
    ]
