"""The language of the fuzzer: what happens to a client, one operation after the other, as text, and
mutated.

A program is a list of (word, number, bytes); as text `word=number.hex`, separated by spaces. The
words are the methods `do_...` of `fuzz_world.World`.
"""

from __future__ import annotations

import random

from golden_packets import GOLDEN

Op = tuple[str, int, bytes]
Program = list[Op]
MOST_OPS, MOST_BYTES = 24, 700
_NO_FINALE = 0.85
# word: the useful numbers
WORDS: dict[str, tuple[int, ...]] = {
    "say": (0, 0, 1),
    "near": tuple(range(20)),
    "acks": (1, 2, 16, 16),
    "ask": (0, 0, 0, 1, 2),
    "word": tuple(range(6, 12)),
    "pub": (0, 1, 1, 1, 2, 2, 3, 5, 6, 9, 10, 13, 14, 17),
    "burst": (3, 16, 17, 20),
    "poll": (1, 2, 5),
    "time": (1, 400, 1000, 1500, 5000, 10_000, 30_000, 45_000, 60_000),
    "drop": (0, 1),
    "room": (0, 1, 3, 40, 255, 255),
    "chunk": (0, 1, 2, 5, 127),
    "handler": (0, 0, 1, 2, 3, 4),
    "sub": (0, 1, 2, 3, 4, 5),
    "unsub": (0, 1, 2),
    "fail": (0, 1, 2, 5),
    "reboot": (0, 1),
    "cut": tuple(range(1, 12)),
    "link": (1, 2, 17),
    "close": (0,),
    "hello": (0, 1, 2, 3),
    "finale": (0, 1),
}
_STARTS = (0, 0, 1, 65_525, 65_534, 131_060, (1 << 30) - 60)
_ACKS = (b"\x40", b"\x40", b"\x50", b"\x62", b"\x70", b"\x90", b"\xb0", b"\xd0")
_BYTES = (
    0,
    1,
    2,
    3,
    4,
    0x10,
    0x20,
    0x30,
    0x32,
    0x34,
    0x36,
    0x3C,
    0x40,
    0x50,
    0x62,
    0x70,
    0x7F,
    0x80,
    0x90,
    0xB0,
    0xC0,
    0xD0,
    0xED,
    0xFF,
)
_IDS = (0, 1, 2, 3, 15, 16, 17, 32_767, 32_768, 32_769, 65_530, 65_534, 65_535)
_PACKETS = (
    *(packet for _, packet, _ in GOLDEN),
    *(
        b"\x34\x08\x00\x01a\x00\x07xyz",
        b"\x3c\x08\x00\x01a\x00\x07xyz",
        b"\x62\x02\x00\x07",
        b"\x62\x02\x00\x63",
        b"\x70\x02\x00\x01",
    ),
    *(
        b"\x50\x02\x00\x01",
        b"\x40\x02\x00\x01",
        b"\x32\x07\x00\x01a\x00\x09xy",
        b"\x30\x05\x00\x02\xc3\xa9x",
        b"\x36\x06\x00\x01a\x00\x01z",
    ),
    *(
        b"\x32\x64\x00\x01a\x00\x0b" + bytes(95),
        b"\x30\x80\x80\x80\x80\x01",
        b"\x30\xff\xff\xff\x7f",
        b"\x90\x05\x80\x00\x00\x01\x80",
    ),
    *(
        b"\x34\x46\x00\x01a\x00\x0c" + bytes(65),
        b"\x40\x82\x00\x00\x01",
        b"\x20\x02\x00\x05",
        b"\xb0\x02\x80\x00",
    ),
)


def text_of(program: Program) -> str:
    return " ".join(
        word + (f"={number}" if number else "") + (f".{data.hex()}" if data else "")
        for word, number, data in program
    )


def program_of(text: str) -> Program:
    found: Program = []
    for part in text.split():
        head, _, data = part.partition(".")
        word, _, number = head.partition("=")
        found.append((word, int(number or 0), bytes.fromhex(data)))
    return found


class Mutator:
    """Makes one to four changes to a program. It knows the structure: operations, packets, lengths
    and identifiers as well as bits.
    """

    def __init__(self, chance: random.Random, words: tuple[str, ...]) -> None:
        self.chance = chance
        self.words = words
        self._changes = (
            *(
                self._bytes,
                self._bytes,
                self._bytes,
                self._packet,
                self._packet,
                self._insert,
                self._insert,
                self._insert,
            ),
            *(
                self._delete,
                self._duplicate,
                self._number,
                self._number,
                self._split,
                self._start,
                self._swap,
            ),
        )

    def mutate(self, program: Program, other: Program) -> Program:
        found = list(program)
        chance = self.chance.random
        if chance() < 0.12:
            found = (
                found[: int(chance() * (len(found) + 1))]
                + other[int(chance() * (len(other) + 1)) :]
            )
        for _ in range(1 + int(chance() * chance() * 5)):
            self._changes[int(chance() * len(self._changes))](found)
        if chance() < _NO_FINALE:  # a finale takes as long as all the rest
            found = [op for op in found if op[0] != "finale"]
        return found[:MOST_OPS]

    def _pick(self, choices: tuple) -> object:
        return choices[int(self.chance.random() * len(choices))]

    def _at(self, count: int) -> int:
        return int(self.chance.random() * count)

    def _op(self) -> Op:
        word = self.words[self._at(len(self.words))]
        number = self._pick(WORDS[word])
        data = b""
        if word == "say":
            data = self._pick(_PACKETS)
        elif word == "near":
            data = self._pick(_ACKS)
        elif word == "ask":
            data = bytes(self._pick((0, 1, 2, 128, 3)) for _ in range(1 + self._at(2)))
        elif word == "word" and self._at(3) == 0:
            data = bytes(
                self._pick((0x20, 0x30, 0x39, 0x61, 0x2D, 0)) for _ in range(1 + self._at(3))
            )
        return word, number, data  # type: ignore[return-value]

    def _insert(self, program: Program) -> None:
        program.insert(self._at(len(program) + 1), self._op())

    def _delete(self, program: Program) -> None:
        if program:
            del program[self._at(len(program))]

    def _duplicate(self, program: Program) -> None:
        if program:
            program.insert(self._at(len(program) + 1), program[self._at(len(program))])

    def _swap(self, program: Program) -> None:
        if len(program) > 1:
            at = self._at(len(program) - 1)
            program[at], program[at + 1] = program[at + 1], program[at]

    def _number(self, program: Program) -> None:
        if program:
            at = self._at(len(program))
            word, _, data = program[at]
            program[at] = word, self._pick(WORDS.get(word, (0,))), data  # type: ignore[assignment]

    def _start(self, program: Program) -> None:
        """Change the first number of a message, and the width of the window."""
        if self._at(4) == 0:
            window = bytes((self._pick((1, 2, 3, 15, 16, 16)),))  # type: ignore[arg-type]
            begin = "start", self._pick(_STARTS), window
            rest = [op for op in program if op[0] != "start"]
            program[:] = [begin] + rest  # type: ignore[list-item]

    def _with_data(self, program: Program) -> int:
        places = [at for at, op in enumerate(program) if op[2] and op[0] != "start"]
        return places[self._at(len(places))] if places else -1

    def _bytes(self, program: Program) -> None:
        at = self._with_data(program)
        if at >= 0:
            word, number, data = program[at]
            program[at] = word, number, self.changed(data)

    def changed(self, data: bytes) -> bytes:
        """Change the bytes: a bit, a byte, a length, an identifier, a piece removed, a piece
        doubled."""
        new, kind = bytearray(data), self._at(9)
        at = self._at(len(new)) if new else 0
        if kind < 2 and new:
            new[at] ^= 1 << self._at(8)
        elif kind == 2 and new:
            new[at] = self._pick(_BYTES)  # type: ignore[assignment]
        elif kind == 3 and len(new) > 1:
            new[1] = (new[1] + self._at(5) - 2) & 255
        elif kind == 4:
            new[at : at + 2] = self._pick(_IDS).to_bytes(2, "big")  # type: ignore[attr-defined]
        elif kind == 5:
            del new[at : at + 1 + self._at(6)]
        elif kind == 6:
            new[at:at] = new[at : at + 1 + self._at(20)]
        elif kind == 7:
            new[at:at] = self.chance.randbytes(1 + self._at(6))
        else:
            new[at:at] = self._pick(_PACKETS)  # type: ignore[call-overload]
        return bytes(new[:MOST_BYTES])

    def _packet(self, program: Program) -> None:
        """Put a whole packet before or after what the server sends."""
        at = self._with_data(program)
        if at >= 0 and program[at][0] == "say":
            word, number, data = program[at]
            packet: bytes = self._pick(_PACKETS)  # type: ignore[assignment]
            program[at] = (
                word,
                number,
                ((data + packet) if self._at(2) else (packet + data))[:MOST_BYTES],
            )

    def _split(self, program: Program) -> None:
        """Send the same bytes in two segments."""
        at = self._with_data(program)
        if at >= 0 and program[at][0] == "say":
            data = program[at][2]
            cut = self._at(len(data))
            program[at : at + 1] = [("say", 0, data[:cut]), ("say", 0, data[cut:])]


def minimised(program: Program, fails: object, most_tries: int = 3000) -> Program:
    """Returns the program with fewer operations and bytes for which fails(program) is still
    true."""
    tries, changed = 0, True
    while changed and tries < most_tries:
        changed = False
        for smaller in _smaller(program):
            tries += 1
            if fails(smaller):  # type: ignore[operator]
                program, changed = smaller, True
                break
    return program


def _smaller(program: Program):
    for at in range(len(program)):
        yield program[:at] + program[at + 1 :]
    for at, (word, number, data) in enumerate(program):
        for size in (len(data) // 2, 4, 1):
            for start in range(0, len(data) - size + 1, size) if 0 < size < len(data) else ():
                yield (
                    program[:at]
                    + [(word, number, data[:start] + data[start + size :])]
                    + program[at + 1 :]
                )
