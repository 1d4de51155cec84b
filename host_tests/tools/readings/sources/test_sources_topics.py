# cpython-only: it tests the desktop tools
"""Topic patterns: what they match, what to subscribe to, and whether two overlap."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.readings.sources import topics


@pytest.mark.parametrize(
    ("pattern", "topic", "names"),
    [
        ("tele/{device}/SENSOR", "tele/plug/SENSOR", {"device": "plug"}),
        ("tele/{device}/SENSOR", "tele/plug/STATE", None),
        ("tele/{device}/SENSOR", "tele//SENSOR", None),
        ("{device}/s/{metric}/state", "attic/s/t/state", {"device": "attic", "metric": "t"}),
        ("plug-{device}/x", "plug-7/x", {"device": "7"}),
        ("plug-{device}/x", "lamp-7/x", None),
        ("a/{device#}/b", "a/x/y/b", {"device": "x/y"}),
        ("a/{device#}/b", "a/b", None),
        ("zigbee2mqtt/{device#}", "zigbee2mqtt/hall/lamp", {"device": "hall/lamp"}),
        ("a/+/{device}", "a//d", {"device": "d"}),
        ("a/#", "a", {}),
        ("a/#", "a/b/c", {}),
        ("#", "$SYS/uptime", None),
        ("{device}/x", "$SYS/x", None),
        ("a.b/{device}", "axb/d", None),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(pattern, topic, names):
    assert topics.parse(pattern).match(topic) == names


@pytest.mark.parametrize(
    ("pattern", "subscribe"),
    [
        ("tele/{device}/SENSOR", "tele/+/SENSOR"),
        ("plug-{device}/x", "+/x"),
        ("a/{device#}/b", "a/#"),
        ("a/{device}/#", "a/+/#"),
        ("a/+/b", "a/+/b"),
    ],
)
def test_the_filter_to_subscribe_to(pattern, subscribe):
    assert topics.parse(pattern).filter == subscribe


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "a topic is needed"),
        ("$SYS/{device}", "none of the broker's own"),
        ("a/#/b", "# must be last"),
        ("a/b#", "a level is text"),
        ("a/+b", "a level is text"),
        ("a/{devise}", "a level is text"),
        ("a/x{device#}", "levels of their own"),
        ("{device}/{device}", "once each"),
        ("{device#}/a/#", "only one of"),
        ("a/{device", "a level is text"),
    ],
)
def test_a_bad_pattern_is_refused_in_words(pattern, says):
    with pytest.raises(topics.BadPattern, match=says):
        topics.parse(pattern)


@pytest.mark.parametrize(
    ("one", "other", "without", "common"),
    [
        ("zigbee2mqtt/{device}", "{device}/status", [], "zigbee2mqtt/status"),
        ("zigbee2mqtt/{device}", "{device}/status", ["zigbee2mqtt/#"], None),
        ("tele/{device}/SENSOR", "tele/{device}/STATE", [], None),
        ("a/{device#}", "a/+/b", ["a/{device}"], "a/any/b"),
        ("a/{device#}", "a/+/b", ["a/+/+"], None),
        ("plug-{device}", "{device}-x", [], "plug-any-x"),
        ("plug-{device}", "lamp-{device}", [], None),
        ("a/#", "{device}", [], "a"),
        ("homeassistant/sensor/{metric}/state", "{device}/sensor/{metric}/state", [],
         "homeassistant/sensor/any/state"),
    ],
)  # fmt: skip
def test_whether_two_patterns_can_match_one_topic(one, other, without, common):
    patterns = [topics.parse(text) for text in (one, other, *without)]
    found = topics.common_topic(patterns[0], patterns[1], patterns[2:])
    assert found == common
    assert topics.common_topic(patterns[1], patterns[0], patterns[2:]) == common


LEVELS = st.sampled_from(["a", "b", "+", "{device}", "x{device}", "{metric#}", "a-{metric}b"])
PATTERNS = st.tuples(st.lists(LEVELS, min_size=1, max_size=4), st.booleans())


def _made(drawn):
    levels, is_open = drawn
    try:
        return topics.parse("/".join([*levels, "#"] if is_open else levels))
    except topics.BadPattern:
        return None


TOPICS = [
    "/".join(one)
    for n in (1, 2, 3, 4)
    for one in itertools.product("a b xa a-bb q".split(), repeat=n)
]


@given(PATTERNS, PATTERNS, PATTERNS)
def test_the_answer_agrees_with_matching_every_short_topic(one, other, third):
    """By brute force: a topic that both match and the third does not."""
    one, other, third = map(_made, (one, other, third))
    if None in (one, other, third):
        return
    found = topics.common_topic(one, other, [third])
    if found is None:
        both = [t for t in TOPICS if one.match(t) is not None and other.match(t) is not None]
        assert [t for t in both if third.match(t) is None] == []
    else:
        assert one.match(found) is not None and other.match(found) is not None
        assert third.match(found) is None
