# cpython-only: a desktop tool
"""The key of a plain message is the one that the exact reader finds, whatever the bytes are; and
what boards send is plain.
"""

import random
from itertools import islice

import pytest

import fuzz_messages
from collector_load import fleet, topic_of
from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from outpost_tools.messages.message import Key, exact_key_in, key_of
from outpost_tools.messages.plain_key import plain_key
from station.clock import Clock
from station.telemetry import Pack

GOOD = (
    b'[{"bn":"b/","ver":1,"sid":"3fa9c1d2","seq":12,"held":7,"boot":1,"n":"x","u":"V","v":-1.5e3}]'
)
_PARTS = (
    *(
        b'"',
        b"\\",
        b",",
        b":",
        b"{",
        b"}",
        b"[",
        b"]",
        b"0",
        b"-",
        b".",
        b"e",
        b" ",
        b"\n",
        b"\xff",
    ),
    *(b'"seq":1,', b'"held":9,', b'"sid":"00000000",', b"null", b"true", b"{},", b'"v":1,', b"NaN"),
    *("é".encode(), b"\x00", b"99999999999", b"01"),
)


def agree(payload: bytes) -> bool:
    """Is it plain? Then both find the same."""
    found = plain_key(payload)
    if found is not None:
        assert exact_key_in("b", payload) == Key("b", *found), payload
    return found is not None


def test_all_that_the_load_sends_is_plain():
    for device, seq, payload in fleet(10, 500):
        stream, found, held = plain_key(payload)
        assert (found, held) == (seq, 0)
        assert key_of(topic_of(device), payload) == Key(device, stream, seq, held)
        assert agree(payload)


def test_what_the_firmware_packs_is_plain():
    outbox, clock, pack = Outbox(flash_in_ram(2)), Clock(0), Pack(b"board-1", 440)
    outbox.format(b"3fa9c1d2")
    for is_set in (False, True):
        if is_set:
            clock.set(20_413, 45_296_007, 0)
        pack.begin(outbox, clock)
        pack.add(b"load", b"", 42, 3)
        pack.add(b"memory", b"KiB", -123456, -2)
        pack.end()
        assert agree(bytes(pack.buffer[: pack.length]))


@pytest.mark.parametrize(
    ("old", "new", "is_plain"),
    [
        (b"", b"", True),
        (b'"held":7', b'"held":12', True),
        (b'"held":7', b'"held":13', False),  # above seq
        (b'"seq":12', b'"seq":1073741824', False),
        (b'"seq":12', b'"seq":012', False),
        (b'"boot":1', b'"boot":1,"seq":13', False),  # the last one counts
        (b'"n":"x"', b'"n":"\xff"', False),
        (b'"n":"x"', b'"n":"\\n"', False),
        (b'"n":"x"', b'"n":null', False),
        (b"-1.5e3", b"9" * 5000, False),  # Python reads no integer of so many digits
        (b"-1.5e3", b"1." + b"9" * 5000, True),
        (b"}]", b"},{}]", False),
        (b"}]", b'},{"n":"y","v":0}]', True),
        (b"}]", b"}]\n", False),
        (b"}]", b"}", False),
    ],
)
def test_plain_and_not_plain(old, new, is_plain):
    assert agree(GOOD.replace(old, new, 1)) is is_plain


def test_changed_messages_have_the_same_key_for_both():
    chance = random.Random(1)
    sent = [GOOD, *(payload for _, _, payload in islice(fleet(50, 200), 200))]
    plain = 0
    for _ in range(20_000):
        payload = chance.choice(sent)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(payload))
            end = min(len(payload), at + chance.choice((0, 0, 1, 1, 2, 8)))
            payload = payload[:at] + chance.choice(_PARTS) + payload[end:]
        plain += agree(payload)
    assert plain > 100  # else nothing was compared


def test_hostile_messages_have_the_same_key_for_both():
    chance = random.Random(2)
    for _ in range(5_000):
        agree(fuzz_messages.payload(chance))


def test_the_time_is_linear_in_the_length():
    """A million bytes that fit to the last: hours, if it went back."""
    for tail in (b'","v":1', b'"' * 500_000, b'","v":' * 150_000, b"1" * 1_000_000):
        assert not agree(GOOD[:-2] + b',"n":"' + b"x" * 500_000 + tail)
