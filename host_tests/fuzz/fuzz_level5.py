"""Fuzzes a session of MQTT 5.0: packets of a server, whole, cut, doubled, with bytes changed.

    python host_tests/fuzz/fuzz_level5.py --runs 100000 --seed 1
    python host_tests/fuzz/fuzz_level5.py --packets 10000000

Each input is a connection: CONNACK, then up to four packets in pieces, while two messages are in
flight. The outcome is one of those in OUTCOMES; never another exception, a buffer that grows, a
message released without an answer of success, or a lost message: each is held, aside, or
acknowledged. Prints the outcomes and their counts, the packets, and by how much this process grew
after the first tenth (with Ctrl-C: so far); status 1 with the first failure.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from outpost import status
from outpost.exactly_once import ExactlyOnceSession
from outpost.level5 import over
from outpost.ram_outbox import RamOutbox
from outpost.streaming import StreamingSession
from outpost.subscribing import SubscribingSession
from packets5 import CARRIERS, PROPERTIES, ack, carried, connack, frame, sample

OUTCOMES = {
    0: "taken, the connection stays",
    status.PROTOCOL_ERROR: "protocol error",
    status.REFUSED: "refused",
    status.SERVER_LEFT: "the server left",
    status.MOVED: "moved",
    status.TAKEN_OVER: "taken over",
    status.NO_ANSWER: "no answer",
}
PACKETS = "packets"  # a key of the counts, besides the outcomes
_MOST_GROWTH_KIB = 8192  # of the process: sessions and outboxes are constantly recreated
KINDS = [over(one) for one in (SubscribingSession, StreamingSession, ExactlyOnceSession)]


class Failure(Exception):
    """What no server may cause."""


class Notes(RamOutbox):
    """A RamOutbox with the note that QoS 2 needs."""

    note_length = 0
    note = b""

    def set_note(self, data, length):
        return 0


def packet(chance: random.Random) -> bytes:
    """Returns a packet of a server, valid or nearly so."""
    draw = chance.randrange(6)
    numbers = chance.choices(sorted(PROPERTIES), k=chance.randrange(5))
    properties = b"".join(sample(number) for number in numbers)
    if draw == 0:
        return carried(chance.choice(sorted(CARRIERS)), properties)
    if draw == 1:
        code = chance.choice(b"\x00\x10\x80\x83\x87\x90\x91\x92\x97\x99\x01\xff")
        first = chance.choice(b"\x40\x40\x40\x50\x62\x70")
        more = properties if chance.randrange(3) == 0 else None
        return ack(first, chance.randrange(4), code, more)
    if draw == 2:
        return frame(0xE0, chance.choice((b"", b"\x8b", b"\x8e", b"\x9c", b"\x97\x00")))
    if draw == 3:
        return frame(chance.choice(b"\x90\xb0"), b"\x80\x02\x00" + chance.randbytes(2))
    if draw == 4:
        pair = sample(0x26) * chance.randrange(20)
        return carried("PUBLISH", properties + pair)
    return chance.randbytes(chance.randrange(12))


def mutated(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((0, 0, 1, 2))):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: len(changed) if chance.randrange(4) else chance.randrange(99)])


def one(chance: random.Random, sessions: list, found: Counter) -> int:
    """Returns the outcome; counts the packets in `found`. Raises Failure."""
    session = chance.choice(sessions)
    outbox = session.outbox
    session.lost(0)
    session.open()
    session.out_end = 0
    sizes = len(session.tx), len(session.buffer)
    hello = connack(mutated(chance, b"\x21\x00\x08\x22\x00\x05") if chance.randrange(3) else b"")
    result = receive(session, hello, chance)
    found[PACKETS] += 1
    while not result and outbox.next_seq - outbox.oldest_seq < 2:
        qos = chance.randrange(1, session.highest_qos + 1)
        if outbox.append(b"a/b", b"payload", 7, qos << 4):
            break
    for _ in range(chance.randrange(4)):
        if result:
            break
        write(session)
        found[PACKETS] += 1
        result = receive(session, mutated(chance, packet(chance)), chance) or write(session)
        if outbox.oldest_seq > session.acknowledged + outbox.aside:
            raise Failure("a message was freed that nobody answered for")
    if sizes != (len(session.tx), len(session.buffer)):
        raise Failure("a buffer grew")
    if result not in OUTCOMES:
        raise Failure(f"status {result}")
    return result


def receive(session, data: bytes, chance: random.Random) -> int:
    at = 0
    while at < len(data):
        end = min(len(data), at + chance.choice((1, 3, 64)))
        found = session.receive(data, at, end)
        if found < 0:
            return found
        if found == at and write(session):
            return status.PROTOCOL_ERROR
        at = found
    return 0


def write(session) -> int:
    """Do some rounds of what the session's owner does."""
    for _ in range(6):
        session.now_ms += 16
        session.next_packet()
        if session.out_end > len(session.out):
            raise Failure("more to write than there is")
        session.out_end = 0
        found = session.settle(True) if session.is_tick else 0
        if found:
            return found
    return 0


def fresh() -> list:
    return [
        kind(Notes(8, 96), b"board", rx_bytes=64, aliases=(b"a/b",), keep_alive_s=0)
        for kind in KINDS
    ]


def fuzz(runs: int, seed: int, packets: int = 0, found: Counter | None = None) -> Counter:
    """Returns the counts of the outcomes and of the packets: of `runs` inputs, or of enough inputs
    for `packets` packets. found: where to count. Raises Failure."""
    chance, sessions = random.Random(seed), fresh()
    found = Counter() if found is None else found
    number = 0
    while found[PACKETS] < packets if packets else number < runs:
        if number % 50 == 0:
            sessions = fresh()
        try:
            found[OUTCOMES[one(chance, sessions, found)]] += 1
        except Exception as error:
            raise Failure(f"input {number} of seed {seed}: {error!r}") from error
        number += 1
    return found


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def grown(options: argparse.Namespace) -> tuple[Counter, int]:
    """Returns the counts, and by how many KiB the process grew after a tenth. Raises Failure."""
    first = fuzz(options.runs // 10, options.seed, options.packets // 10)
    before_kib, rest = peak_kib(), Counter()
    packets = options.packets - first[PACKETS] if options.packets else 0
    try:
        fuzz(options.runs - options.runs // 10, options.seed + 1, packets, rest)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    found = first + rest
    growth_kib = peak_kib() - before_kib
    if growth_kib > _MOST_GROWTH_KIB:
        raise Failure(f"the process grew by {growth_kib} KiB")
    return found, growth_kib


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000, help="inputs (default: 100,000)")
    parser.add_argument("--packets", type=int, default=0, help="instead: until so many came")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        found, growth_kib = grown(options)
    except Failure as failure:
        print(f"FAIL {failure}", file=sys.stderr)
        return 1
    packets = found.pop(PACKETS)
    for outcome, count in found.most_common():
        print(f"{count:12,} {outcome}")
    print(f"{found.total():12,} inputs of {packets:,} packets, seed {options.seed}")
    print(f"{growth_kib:12,} KiB grown after the first tenth")
    return 0


if __name__ == "__main__":
    sys.exit(main())
