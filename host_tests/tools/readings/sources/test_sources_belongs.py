# cpython-only: it tests the desktop tools
"""Which messages of a log are for a mapping, and which are a board's."""

import pytest

from message_samples import pack
from outpost_tools.readings.sources import file
from outpost_tools.readings.sources.belongs import has_key, is_foreign

MAPPING = file.parse(
    """
ignore = ["home/nobody/data"]

[[source]]
name = "broad"
topic = "home/{device}/data"
values = ["**"]
""",
    "sources.toml",
)
TOPIC = b"home/board-1/data"
ESCAPED = pack().replace(b'"sid"', b'"s\\u0069d"')


@pytest.mark.parametrize(
    "payload",
    [b'{"power": 3}', b'{"ssid": "sid"}', b"", b"\\", b"\0", b"\x81", b"\xf5", b'[{"sid": 1}]'],
)
def test_a_message_without_a_key_is_for_the_mapping(payload):
    assert is_foreign(MAPPING, TOPIC, payload)


def test_a_message_to_ignore_is_for_the_mapping():
    assert is_foreign(MAPPING, b"home/nobody/data", b"{}")


@pytest.mark.parametrize("payload", [pack(), ESCAPED, pack().decode().encode("utf-16")])
def test_a_key_makes_it_a_boards_on_any_topic(payload):
    assert has_key(TOPIC, payload)
    assert not is_foreign(MAPPING, TOPIC, payload)


@pytest.mark.parametrize("topic", [b"home/plug/other", b"outpost/board-1/data", b"\xff/a/data"])
def test_a_topic_that_the_mapping_has_not_is_not_for_it(topic):
    assert not is_foreign(MAPPING, topic, b'{"power": 3}')
