"""Feeds random and mutated messages to the MQ codec: any bytes give a message or a named error, and
nothing else.

    python host_tests/fuzz/fuzz_mq.py [COUNT] [SEED]

COUNT is 1,000,000 and SEED 1 by default: this takes some minutes; the tests run a short form. A
message that was read is built again, byte for byte; its folders are read, checked, and mapped to
MQTT.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections import Counter

from mq_cases import samples
from outpost_tools.servers.mq import check, form, header, mapping, psc, pscr
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.reasons import MNEMONICS, MqError

_PIECES = (
    *(b"<", b">", b"&", b"</psc>", b"<psc>", b"<!DOCTYPE a>", b"<!--", b"]]>"),
    *(b"&#0;", b"&amp;", b"\0", b"RFH ", b"MQHRF2  ", b"'"),
)
_NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    35,
    36,
    37,
    40,
    273,
    546,
    1200,
    1208,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0xFFFFFFFC,
)


def outcome(data: bytes, encoding: int) -> str:
    """Returns the name of the error, or `message`. Raises AssertionError, or whatever exception
    should not occur.
    """
    try:
        message = header.parse(data, encoding=encoding)
    except MqError as error:
        assert error.reason in MNEMONICS and error.name and error.fault.text
        return error.name
    assert header.build(message) == data, "parse then build changed the message"
    md = Descriptor(encoding=encoding)
    for fault in check.check(message, md):
        assert fault.reason in MNEMONICS
    form.describe(mapping.Outgoing("Q", md, data))
    return _read_folders(message, md, data)


def _read_folders(message: header.Message, md: Descriptor, data: bytes) -> str:
    found = "message"
    for folder in message.folders():
        for read in (psc.read, pscr.read):
            try:
                text = read(folder.text)
                assert read(text.text() if isinstance(text, psc.Command) else folder.text) == text
            except MqError as error:
                found = error.name if read is psc.read else found
    try:
        mapping.to_mqtt(md, data)
    except MqError as error:
        assert error.reason in MNEMONICS
    return found


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Make one to four small changes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[at:at] = chance.choice(_PIECES)
        elif kind == 2:
            del changed[at : at + chance.randint(1, 8)]
        elif kind == 3:
            word = 4 * chance.randrange(max(1, min(len(changed), 48) // 4))
            changed[word : word + 4] = chance.choice(_NUMBERS).to_bytes(
                4, chance.choice(("big", "little"))
            )
        elif kind == 4:
            changed[at:at] = changed[at : at + chance.randint(1, 40)]
        else:
            changed[at : at + 4] = chance.randbytes(4)
    return bytes(changed)


def replaced_folder(data: bytes, chance: random.Random) -> bytes:
    """Change only the inside of the folder, with correct lengths, so that the XML reader is
    reached."""
    inner = bytearray(data[40:])
    for _ in range(chance.randint(1, 3)):
        piece = chance.choice(_PIECES)
        at = chance.randrange(max(1, len(inner) - len(piece)))
        inner[at : at + len(piece)] = piece
    return data[:40] + bytes(inner[: len(data) - 40])


def one(chance: random.Random, seeds: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    """Returns (encoding, bytes)."""
    encoding, data = chance.choice(seeds)
    kind = chance.random()
    if kind < 0.1:
        return encoding, chance.randbytes(chance.randrange(200))
    if kind < 0.15:
        return encoding, data[:12] + chance.randbytes(chance.randrange(200))
    return encoding, (mutate if kind < 0.6 else replaced_folder)(data, chance)


def fuzz(count: int, seed: int) -> Counter[str]:
    """Returns how often each outcome occurred. A failure prints the input."""
    chance, seeds, outcomes = random.Random(seed), samples(), Counter()
    for number in range(count):
        encoding, data = one(chance, seeds)
        try:
            outcomes[outcome(data, encoding)] += 1
        except BaseException:
            print(
                f"input {number} of seed {seed}: encoding {encoding}, "
                f"bytes.fromhex({data.hex()!r})",
                file=sys.stderr,
            )
            raise
    return outcomes


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    started = time.monotonic()
    found = fuzz(wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for name, times in found.most_common():
        print(f"{times:9,} {name}")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{wanted:,} inputs in {time.monotonic() - started:.0f} s, "
        f"peak memory {peak_mib:.0f} MiB: 0 unnamed"
    )
