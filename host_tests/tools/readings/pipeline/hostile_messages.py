"""What one board with ordinary credentials can send to harm a fleet's tables, by what it tries."""

import json
from collections.abc import Iterator

from ground_truth import START_MS
from outpost_tools.log import segments

DEVICE, GOOD = "board-5", ("board-1", "board-2")
T0, DAY_S = START_MS / 1000, 86_400


def pack(seq, boot=7, *, device=DEVICE, stream="00000005", records=(), **more) -> bytes:
    head = {"bn": f"{device}/", "sid": stream, "seq": seq, "boot": boot, "held": 0, "ver": 1}
    return json.dumps([head | {"n": "load", "v": seq} | more, *records]).encode()


DAYS = [{"n": "a", "v": 1, "t": -DAY_S * n} for n in range(400)]
TRIES: dict[str, list[bytes]] = {
    "an uptime that no clock has": [
        pack(0, up=1e300),
        pack(1, up=1e13),
        pack(2, up=10, bt=T0),
        pack(3, up=1, t=1e300),
        pack(4, bt=T0, v=1e308),
        pack(5, bt=T0, n="left_out", v=1e30),
    ],
    "a reading on each of thousands of days": [
        *(pack(10 + n, bt=T0 - 400 * DAY_S * n, records=DAYS) for n in range(20)),
        pack(30, bt=4_070_908_800),
        pack(31, bt=T0 - 6 * 365 * DAY_S),
    ],
    "SenML that is read wrongly in silence": [
        pack(40, bt=T0, bv=20),
        pack(41, bt=T0, records=[{"bt": 5, "n": "a", "v": 1}]),
        pack(42, bt=T0, records=[{"bn": "board-1/", "n": "load", "v": 666}]),
        pack(43, bt=T0, bver=99),
        pack(44, bt=T0, x_=1),
        pack(45, t=T0),
        pack(46, bt=T0, records=[{"n": "a", "vs": "x"}]),
        pack(47, bt=T0, bu="V"),
    ],
    "a stream for each message": [
        pack(n, n, stream=f"{n + 256:08x}", bt=T0 + n) for n in range(300)
    ],
    "the same number with other contents": [
        pack(50 + n % 3, bt=T0 + n, v=n / 4, up=n) for n in range(30)
    ],
    "another board's name": [
        pack(n, 1, device="board-1", stream="00000001", bt=T0, v=666) for n in range(5)
    ],
    "what plays with a terminal": [
        pack(60, bt=T0, u="\x1b[2J"),
        pack(61, bt=T0, n="\x1b]0;owned\x07"),
        pack(62, bt=T0, u="\u202egnirts"),
        b"\x1b[2J",
    ],
}


def segment(tries: list[bytes]) -> bytes:
    """The good boards' messages, each followed by some of the tries; they arrive alike without
    any."""
    return segments.sealed_bytes(list(_frames(tries)))


def _frames(tries: list[bytes]) -> Iterator[bytes]:
    count = 40
    for n in range(count):
        for number, device in enumerate(GOOD, 1):
            if n % 9 != 4:  # a gap
                clock = {"up": n} if n < 5 else {"up": n, "bt": T0 + n}
                said = pack(n, 1, device=device, stream=f"{number:08x}", **clock)
                yield _frame(n, f"outpost/{device}/data", said)
        for said in tries[len(tries) * n // count : len(tries) * (n + 1) // count]:
            yield _frame(n, f"outpost/{DEVICE}/data", said)


def _frame(n: int, topic: str, payload: bytes) -> bytes:
    return segments.encode_frame(START_MS + 3 * DAY_S * 1000 + n, topic.encode(), payload)
