# cpython-only: it tests the desktop tools
"""The ready files: every value, unit and time of their examples; and what examples report."""

import pytest

from outpost_tools.errors import ToolError
from outpost_tools.readings.sources import examples, file, ready_files
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.result import Message

NAMES = (
    "chirpstack", "esphome", "homeassistant", "numbers", "senml", "shelly", "tasmota",
    "zigbee2mqtt",
)  # fmt: skip


def test_these_are_ready():
    assert ready_files.names() == [*NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_each_example_becomes_what_the_file_says(name):
    made = ready_files.ready(name)
    assert all(one.examples for one in made.readers), "each source and state has one"
    assert list(examples.faults(made)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_head_of_each_file_says_what_to_know(name):
    text = ready_files.text(name)
    assert text.startswith("# ") and text.count("\n#\n") == 1
    assert name == "numbers" or "# Facts from " in text


def test_an_unknown_one_is_said():
    with pytest.raises(ToolError, match="no ready file 'tesla'; there are chirpstack, esphome"):
        ready_files.text("tesla")


@pytest.mark.parametrize("name", NAMES)
def test_cut_and_changed_examples_are_still_results(name):
    """Every beginning of every payload, and each byte changed."""
    made = ready_files.ready(name)
    for reader in made.readers:
        for example in reader.examples:
            topic, payload = example.topic.encode(), example.payload.encode()
            for at in range(len(payload)):
                decode(made, topic, payload[:at], 1_768_478_400_000)
                decode(made, topic, payload[:at] + b"\xff" + payload[at + 1 :], None)


# --- What a wrong example says ---

HEAD = """
[[source]]
name = "s"
topic = "t/{device}"
values = ["*"]
time = "ts"
units = { a = "W" }
[[state]]
name = "l"
topic = "l/{device}"
online = "1"
offline = "0"
"""


def faults(example, kind="source"):
    tables = HEAD.split("[[state]]")
    if kind == "source":
        text = f"{tables[0]}[[source.example]]\n{example}\n[[state]]{tables[1]}"
    else:
        text = f"{HEAD}[[state.example]]\n{example}\n"
    return [one.partition("): ")[2] for one in examples.faults(file.parse(text, "s.toml"))]


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ("readings = { a = [1, 'W'] }", []),
        ("readings = { a = [2, 'W'] }", [
            "lacks 'a' = [2, 'W'] at 2026-01-15T12:00:00Z",
            "has 'a' = [1, 'W'] at 2026-01-15T12:00:00Z"]),
        ("readings = { a = 1 }", [
            "lacks 'a' = [1, ''] at 2026-01-15T12:00:00Z",
            "has 'a' = [1, 'W'] at 2026-01-15T12:00:00Z"]),
        ("readings = { a = [1, 'W'], b = 3 }", ["lacks 'b' = [3, ''] at 2026-01-15T12:00:00Z"]),
        ("readings = { a = [1, 'W'] }\ntime = '2026-01-15T11:00:00Z'", [
            "lacks 'a' = [1, 'W'] at 2026-01-15T11:00:00Z",
            "has 'a' = [1, 'W'] at 2026-01-15T12:00:00Z"]),
        ("readings = { a = [1, 'W'] }\ndevice = 'e'", ["the device is 'd', not 'e'"]),
        ("ignored = true", ["becomes d: a 1 W"]),
        ("refused = 'x'", ["becomes d: a 1 W"]),
        ("", ["give one of readings, online, ignored = true, refused"]),
        ("readings = { a = 'x' }", ["'a': a number is needed: [21.5, \"Cel\"]"]),
        ("readings = { a = 1 }\nreceived = 'noon'", [
            "'noon': a time such as 2026-01-15T12:00:00Z is needed"]),
        ("readings = { a = 1 }\nreceived = '2026-01-15T12:00:00'", [
            "'2026-01-15T12:00:00': the time needs an offset, or Z"]),
    ],
)  # fmt: skip
def test_a_difference_is_said(example, said):
    assert faults(f"topic = 't/d'\npayload = '{{\"a\":1}}'\n{example}") == said


def test_other_results_are_said_too():
    assert faults("topic = 't/d'\npayload = 'x'\nrefused = 'no number'") == [
        "is refused with 'not JSON', not with 'no number'"
    ]
    assert faults("topic = 'l/d'\npayload = '1'\nonline = false", "state") == ["becomes d online"]
    assert faults("topic = 'x'\npayload = '1'\nonline = true", "state") == [
        "becomes nothing: no source has this topic"
    ]


def test_the_zone_of_tasmota_is_the_one_thing_to_set():
    text = ready_files.text("tasmota").replace('zone = "UTC"', 'zone = "Europe/Berlin"')
    payload = b'{"Time":"2026-01-15T12:59:30","DS18B20":{"Temperature":4.5}}'
    made = file.parse(text, "s.toml")
    found = decode(made, b"tele/x/SENSOR", payload, 1_768_478_400_000)
    assert isinstance(found, Message)
    assert found.readings[0].time_us == (1_768_478_400 - 30) * 1_000_000
