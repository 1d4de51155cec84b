# cpython-only: a desktop tool
"""Properties of a PUBLISH of MQTT 5.0, as a server may send them and as it must not."""

import pytest

from outpost_tools.mqtt.packets import MalformedError
from outpost_tools.mqtt.properties import cut, listed
from packets5 import PROPERTIES, length_of, sample

OF_PUBLISH = [number for number in sorted(PROPERTIES) if "PUBLISH" in PROPERTIES[number][1]]
VALUES = {
    "byte": 1, "u16": 5, "u32": 256, "variable": 300, "text": b"x+y", "binary": b"\x00\xff",
    "pair": (b"n", b"v#"),
}  # fmt: skip


def test_every_property_of_a_publish_has_its_value_and_the_payload_stays():
    all_of_them = b"".join(map(sample, OF_PUBLISH))
    assert cut(length_of(len(all_of_them)) + all_of_them + b"rest") == (all_of_them, b"rest")
    expected = [(number, VALUES[PROPERTIES[number][0]]) for number in OF_PUBLISH]
    assert listed(all_of_them) == expected
    assert cut(b"\0payload") == (b"", b"payload")


@pytest.mark.parametrize("number", sorted(set(PROPERTIES) - set(OF_PUBLISH)) + [0, 4, 0x2B, 0xFF])
def test_others_are_malformed(number):
    data = sample(number) if number in PROPERTIES else bytes((number, 0, 0))
    with pytest.raises(MalformedError, match=f"0x{number:02x}"):
        listed(data)


@pytest.mark.parametrize("number", OF_PUBLISH)
def test_cut_off_at_each_byte(number):
    data = sample(number)
    for length in range(1, len(data)):
        with pytest.raises(MalformedError):
            listed(data[:length])


@pytest.mark.parametrize("data", [b"", b"\x05abc", b"\x80", b"\xff\xff\xff\xff\x01", b"\x80\x01x"])
def test_a_length_beyond_the_packet_is_malformed(data):
    with pytest.raises(MalformedError):
        cut(data)
