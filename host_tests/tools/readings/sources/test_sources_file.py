# cpython-only: it tests the desktop tools
"""Faults of a file of sources: file, line, which source, what is wrong, what to do."""

import pytest

from outpost_tools.errors import ToolError
from outpost_tools.readings.sources import file, ready_files

HEAD = '[[source]]\nname = "a"\ntopic = "a/{device}"\n'
GOOD = f'{HEAD}values = ["*"]\n'


def fault(text):
    with pytest.raises(ToolError) as raised:
        file.parse(text, "s.toml")
    said = str(raised.value)
    assert "\n" not in said
    return said


def test_a_file_becomes_a_mapping():
    made = file.parse(f'ignore = ["b/#"]\n{GOOD}', "s.toml")
    assert (made.file, made.topics, [one.line for one in made.sources]) == ("s.toml", ["a/+"], [2])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.toml: neither [[source]] nor [[state]]; `outpost sources ready` prints files to "
         "start from"),
        ("a = ", 's.toml: not valid TOML at end of document; a text needs "quotes", and a key may '
         "occur only once in a table"),
        ("sources = 1", "s.toml: no such key: sources; did you mean source?"),
        ("source = 1", "s.toml: source: a list: [ ] is needed, not a whole number"),
        ('[[source]]\nname = "a"', "s.toml, line 1: source 'a': topic is missing"),
        ('\n\n[[source]]\ntopic = "a"', "s.toml, line 3: source 1: name is missing"),
        (f"{GOOD}valeus = 1", "s.toml, line 1: source 'a': no such key: valeus; did you mean "
         "values?"),
        (f"{GOOD}words = 1", "s.toml, line 1: source 'a': words: a table: { } is needed, not a "
         "whole number"),
        (f"{GOOD}payload = 'xml'", "s.toml, line 1: source 'a': payload: 'xml' is not known; "
         "`outpost sources --help` lists what is"),
        (f"{GOOD}time = 7", "s.toml, line 1: source 'a': time: a string in \"quotes\" or a table: "
         "{ } is needed, not a whole number"),
        (f'{GOOD}time = {{ path = "t", fromat = "any" }}', "s.toml, line 1: source 'a': time: no "
         "such key: fromat; `outpost sources --help` lists the keys"),
        (f'{GOOD}time = {{ path = "t", format = "local" }}', "s.toml, line 1: source 'a': time: "
         'format = "local" and zone = "Europe/Berlin" go together'),
        (f'{GOOD}time = {{ path = "t", format = "local", zone = "Mars" }}', "s.toml, line 1: "
         "source 'a': time: no such zone: 'Mars'; a name such as Europe/Berlin is needed"),
        (f'{GOOD}time = "a.*"', "s.toml, line 1: source 'a': time: 'a.*': one place is needed, "
         "without *"),
        (f'{HEAD}values = ["a..b"]', "s.toml, line 1: source 'a': values, entry 1: 'a..b': keys "
         'with full stops between are needed: params.*."a.b"'),
        (f'{HEAD}values = ["*", {{ path = "a", untit = "W" }}]', "s.toml, line 1: source 'a': "
         "values, entry 2: no such key: untit; did you mean unit?"),
        (f'{HEAD}values = [{{ path = "a.*", name = "{{2}}" }}]', "s.toml, line 1: source 'a': "
         "values: name: '{2}': the topic has no {2}"),
        (f"{HEAD}values = []", "s.toml, line 1: source 'a': values: missing; name their paths: "
         'values = ["temperature"], or all: ["**"]'),
        (f'{GOOD}unit = "W"', "s.toml, line 1: source 'a': unit: not for payload = \"json\""),
        (f'{GOOD}payload = "number"', "s.toml, line 1: source 'a': values: not for payload = "
         '"number"'),
        (f'{HEAD}payload = "number"', "s.toml, line 1: source 'a': the metric is not known: put "
         '{metric} into the topic, or metric = "name"'),
        ('[[source]]\nname = "a"\ntopic = "a/b"\nvalues = ["*"]', "s.toml, line 1: source 'a': the "
         'device is not known: put {device} into the topic, or give device = "name", or device = '
         '{ path = "node" }'),
        (f'{GOOD}device = "{{metric}}"', "s.toml, line 1: source 'a': device: '{metric}': the "
         "topic has no {metric}"),
        ('[[source]]\nname = "a"\ntopic = "a/#/b"\nvalues = ["*"]', "s.toml, line 1: source 'a': "
         "topic: # must be last; several levels before others are {device#}"),
        (f'{GOOD}except = ["a/+b"]', "s.toml, line 1: source 'a': except: '+b': a level is text, "
         "or +, or has one of {device} and {metric}; {device#} and {metric#} are levels of their "
         "own"),
        ('[[state]]\nname = "a"\ntopic = "a/{device}"\nonline = "1"\noffline = "1"', "s.toml, line "
         "1: state 'a': online and offline must differ"),
        (f'{GOOD}[[source.example]]\ntopic = "a/x"\npayload = 1', "s.toml, line 1: source 'a': "
         "example 1: payload: a string in \"quotes\" is needed, not a whole number"),
        (f'{GOOD}scale = 1e99', "s.toml, line 1: source 'a': scale: a number of at "
         "most 1000000000000 is needed"),
        (f"{GOOD}\n[limits]\ndevices = 0", "s.toml: limits.devices: a whole number of at least 1 "
         "is needed"),
        (f'{GOOD}{GOOD.replace("a/", "b/")}', "s.toml: the name 'a' occurs twice; give each source "
         "and state its own"),
    ],
)  # fmt: skip
def test_a_fault_says_where_it_is_and_what_to_do(text, said):
    assert fault(text) == said


def test_patterns_that_can_match_one_topic_are_refused_with_both_lines():
    other = '[[source]]\nname = "b"\ntopic = "{device}/x"\nvalues = ["*"]\n'
    assert fault(GOOD + other) == (
        "s.toml: 'a' (line 1), topic 'a/{device}', and 'b' (line 5), topic '{device}/x', can match "
        "the same topic, such as 'a/x'; make one narrower, or write for 'b': except = [\"a/+\"]"
    )
    file.parse(f'{GOOD}{other}except = ["a/+"]', "s.toml")
    file.parse(f'ignore = ["a/x"]\n{GOOD}{other}', "s.toml")


def test_a_source_and_a_state_must_not_overlap_either():
    state = '[[state]]\nname = "b"\ntopic = "a/{device}"\nonline = "1"\noffline = "0"\n'
    assert "'a' (line 1)" in fault(GOOD + state) and "'b' (line 5)" in fault(GOOD + state)


def test_a_long_file_is_read():
    """Each pair of patterns is compared."""
    table = '[[source]]\nname = "s{0}"\ntopic = "plant/line-{0}/{{device}}/data"\nvalues = ["*"]\n'
    text = "".join(table.format(number) for number in range(300))
    assert len(file.parse(text, "s.toml").sources) == 300


def test_a_header_in_a_text_does_not_shift_the_lines_of_a_file_that_has_none():
    inline = 'source = [{ name = "a", topic = "a", values = ["*"] }]'
    assert fault(inline).startswith("s.toml: source 'a': the device is not known")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "cannot be read: No such file or directory; `outpost sources ready` prints"),
        (b"\xff\xfe", "not UTF-8; save it as UTF-8"),
        (b"#" * (1 << 20) + b"#", "larger than 1 MiB"),
    ],
    ids=["none", "not UTF-8", "large"],
)
def test_a_file_that_cannot_be_read_is_said(tmp_path, data, says):
    path = tmp_path / "s.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ToolError, match=says):
        ready_files.load(path)


def test_a_windows_editors_mark_is_no_fault(tmp_path):
    (tmp_path / "s.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert ready_files.load(tmp_path / "s.toml").topics == ["a/+"]
