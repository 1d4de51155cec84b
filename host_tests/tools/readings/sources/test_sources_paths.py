# cpython-only: it tests the desktop tools
"""Values by path: what wildcards find, names, precedence, what is left out."""

import pytest

from outpost_tools.readings.sources import file, paths
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.result import Message, Refused


def read(payload, values, more=""):
    """{name: value} of a payload; the reason where it is refused."""
    text = f'[[source]]\nname = "s"\ntopic = "t/{{device}}"\nvalues = {values}\n{more}'
    found = decode(file.parse(text, "s.toml"), b"t/d", payload, 1_768_478_400_000)
    if isinstance(found, Refused):
        return found.reason
    assert isinstance(found, Message)
    return {one.name: one.value for one in found.readings}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("params.*.tC", ("params", "*", "tC")),
        ('"a.b".c', ("a.b", "c")),
        ("switch:0.**", ("switch:0", "**")),
        ("a b.c", ("a b", "c")),
    ],
)
def test_a_path_is_split_at_full_stops(text, parts):
    assert paths.parse(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "**.a", '"a', "a.b.c.d.e.f.g.h.i"])
def test_a_bad_path_is_refused(text):
    with pytest.raises(paths.BadPath):
        paths.parse(text)


@pytest.mark.parametrize(
    ("payload", "values", "found"),
    [
        (b'{"a":1,"b":2.5}', '["*"]', {"a": 1, "b": 2.5}),
        (b'{"a":{"x":1},"b":{"x":2}}', '["*.x"]', {"a.x": 1, "b.x": 2}),
        (b'{"p":{"t:0":{"tC":4}}}', '["p.*.tC"]', {"t:0.tC": 4}),
        (b'{"p":{"t":4},"q":{"t":5}}', '["p.t", "q.t"]', {"p.t": 4, "q.t": 5}),
        (b'{"a":{"b":{"c":1}},"d":2}', '["**"]', {"a.b.c": 1, "d": 2}),
        (b'{"a":[10,20]}', '["a.*"]', {"0": 10, "1": 20}),
        (b'{"a":[10,20]}', '["a.1"]', {"a.1": 20}),
        (b'[{"v":1},{"v":2}]', '["*.v"]', {"0.v": 1, "1.v": 2}),
        (b'{"a":true,"b":false}', '["*"]', {"a": 1, "b": 0}),
        (b'{"a.b":1}', """['"a.b"']""", {"a.b": 1}),
        (b'{"a":1,"b":"text","c":null}', '["*"]', {"a": 1}),
        (b'{"a":215}', '[{ path = "a", scale = 0.1 }]', {"a": 21.5}),
        (b'{"a":3}', '[{ path = "a", scale = 0.1 }]', {"a": 0.3}),
        (b'{"a":50}', '[{ path = "a", scale = 1.8, offset = 32 }]', {"a": 122}),
        (b'{"s":{"x":{"v":1}}}', '[{ path = "s.*.v", name = "{1}_now" }]', {"x_now": 1}),
        (b'{"a":1,"b":2}', '[{ path = "a", name = "first" }, "*"]', {"first": 1, "b": 2}),
        (b'{"a":1}', '["*", { path = "a", name = "never" }]', {"a": 1}),
        (b'7', '["*"]', "none of the values is in it"),
        (b'{"a":"x"}', '["a"]', "no number at a"),
        (b'{"a":1e39}', '["*"]', "no number at a"),
        (b'{"a":1e400}', '["*"]', "not JSON"),
        (b'{"a":NaN}', '["*"]', "not JSON"),
        (b'{"a":1' + b"0" * 400 + b"}", '["*"]', "no number at a"),
    ],
)  # fmt: skip
def test_what_paths_find(payload, values, found):
    assert read(payload, values) == found


def test_what_is_ignored_wins():
    values = '["**"]\nignore = ["x.**", "b"]'
    assert read(b'{"a":1,"b":2,"x":{"y":3}}', values) == {"a": 1}


def test_words_are_values_where_the_file_says_so():
    assert read(b'{"s":"ON","t":"on"}', '["*"]\nwords = { ON = 1 }') == {"s": 1}


def test_time_identifier_and_kind_are_no_readings():
    more = 'time = "ts"\nid = "n"\nwhen = { k = [1] }'
    assert read(b'{"ts":1768478400,"n":7,"k":1,"v":3}', '["*"]', more) == {"v": 3}


def test_what_no_path_wants_is_not_looked_at():
    """Also where it is deeper than paths may be."""
    deep = b'{"a":' * 200 + b"1" + b"}" * 200
    assert read(b'{"v":1,"rest":' + deep + b"}", '["v"]') == {"v": 1}
    assert read(b'{"v":1,"rest":' + deep + b"}", '["**"]') == {"v": 1}


def test_a_flood_of_keys_does_not_grow_the_tree():
    text = '[[source]]\nname = "s"\ntopic = "t/{device}"\nvalues = ["*"]'
    mapping = file.parse(text, "s.toml")
    for number in range(300):
        keys = ",".join(f'"k{number}-{i}":1' for i in range(100))
        assert isinstance(decode(mapping, b"t/d", b"{%s}" % keys.encode(), 0), Message)
    assert mapping.sources[0].tree("").nodes == 10_000


def test_units_come_from_the_path_then_from_the_name_then_from_patterns():
    text = """
[[source]]
name = "s"
topic = "t/{device}"
values = [{ path = "x.temperature", unit = "K" }, "**"]
units = { "y.power" = "kW", temperature = "Cel", "*power" = "W" }
"""
    payload = b'{"x":{"temperature":1},"y":{"temperature":2,"power":3},"z":{"power":[4],"on":true}}'
    found = decode(file.parse(text, "s.toml"), b"t/d", payload, 0)
    assert {one.name: one.unit for one in found.readings} == {
        "x.temperature": "K", "y.temperature": "Cel", "y.power": "kW", "z.power.0": "W",
        "z.on": "/",
    }  # fmt: skip
