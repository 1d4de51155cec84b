# cpython-only: a desktop tool
"""Packets of a server, however they are cut."""

import pytest

from collector_load import encode_publish
from outpost_tools.mqtt.packets import MalformedError, pubacks, publish, split

CONNACK, PUBACK = b"\x20\2\1\0", b"\x40\2\0\7"
SIZES = (0, 1, 100, 127, 128, 16_370, 16_400, 2_097_200)


def as_publish(kind, data):
    return (kind, b"outpost/b/data", b"" if kind & 6 == 0 else b"\1\2", data)


PACKETS = [
    CONNACK,
    *(encode_publish(b"outpost/b/data", 0x0102, b"x" * size) for size in SIZES),
    b"\x30" + encode_publish(b"t", 1, b"")[1:],
    PUBACK,
]


@pytest.mark.parametrize("size", SIZES)
def test_a_publish_of_any_length_has_its_parts(size):
    packet = encode_publish(b"outpost/b/data", 0x0102, b"x" * size)
    found = split(packet)
    assert found.publishes == [as_publish(0x32, b"x" * size)]
    assert (found.others, found.end) == ([], len(packet))


def test_qos_0_has_no_identifier_and_flags_are_kept():
    packet = publish(b"outpost/b/data", b"word", retain=True)
    assert split(packet).publishes == [as_publish(0x31, b"word")]
    packet = publish(b"outpost/b/data", b"word", retain=False)
    assert split(packet).publishes == [as_publish(0x30, b"word")]
    assert split(b"\x3a" + encode_publish(b"t", 7, b"x")[1:]).publishes == [
        (0x3A, b"t", b"\0\7", b"x")
    ]


def test_packets_of_every_cut_are_the_same_and_the_length_wanted_is_never_too_much():
    short = [packet for packet in PACKETS if len(packet) < 200]
    data = b"".join(short)
    whole = split(data)
    assert len(whole.publishes) + len(whole.others) == len(short) and whole.end == len(data)
    for cut in range(len(data)):
        first = split(data[:cut])
        assert first.end <= cut < first.end + max(first.wanted, 1)
        assert split(data[: first.end + first.wanted]).end >= first.end
        second = split(data[first.end :])
        assert first.publishes + second.publishes == whole.publishes
        assert first.others + second.others == whole.others


def test_what_a_long_packet_still_needs_is_known_from_its_head():
    packet = encode_publish(b"outpost/b/data", 1, b"x" * 2_097_200)
    assert [split(packet[:cut]).wanted for cut in (1, 2, 3, 4)] == [2, 3, 4, 5]
    assert split(packet[:5]).wanted == split(packet[:-1]).wanted == len(packet)


def test_the_others_are_left_as_they_are_qos_2_too():
    odd = b"\x34" + encode_publish(b"t", 7, b"x")[1:]
    assert split(CONNACK + odd + PUBACK).others == [CONNACK, odd, PUBACK]


@pytest.mark.parametrize(
    "data", [b"\x32\xff\xff\xff\xff\1", b"\x32\4\0\3ab", b"\x32\5\0\3abc", b"\x30\2\0\1"]
)
def test_what_is_no_packet_is_malformed(data):
    with pytest.raises(MalformedError):
        split(data)


def test_pubacks_in_one():
    assert pubacks([b"\0\1", b"\xff\xff"]) == b"\x40\2\0\1\x40\2\xff\xff"
