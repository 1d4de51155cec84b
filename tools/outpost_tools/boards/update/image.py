"""The firmware of one board as a signed list, and the messages that carry it. Pure; the formats are
in firmware/station/UPDATE_FORMAT.md."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

TITLE = "outpost-update"
FORM = 2  # 1: for boards with firmware from before packs, which could not roll back from packs
TAG_DIGITS = 8
PART_BYTES = 460  # bytes of a file per message; a board accepts messages of up to 512
NO_TAG = "-" * TAG_DIGITS  # stands for: no list


@dataclass(frozen=True, slots=True)
class Content:
    """path: on the board, without the leading slash. is_optional: sent only if the board has it."""

    path: str
    data: bytes
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """text: the list with its signature. contents: in the order of the lines of the list."""

    text: bytes
    contents: tuple[Content, ...]

    @property
    def tag(self) -> str:
        return self.text[-65:].decode()[:TAG_DIGITS]

    def list_messages(self) -> Iterator[bytes]:
        for offset in range(0, len(self.text), PART_BYTES):
            head = f"update {self.tag} list {offset} {len(self.text)}\n".encode()
            yield head + self.text[offset : offset + PART_BYTES]

    def file_messages(self, number: int) -> Iterator[bytes]:
        data = self.contents[number].data
        for offset in range(0, max(len(data), 1), PART_BYTES):
            head = f"update {self.tag} file {number} {offset}\n".encode()
            yield head + data[offset : offset + PART_BYTES]


def _rank(content: Content) -> tuple[int, str]:
    """Sort key for the order in which files are put in place: packages, modules in the root,
    main.py."""
    last = 2 if content.path == "main.py" else 1 if "/" not in content.path else 0
    return last, content.path


def make(
    contents: Iterable[Content],
    key: bytes,
    *,
    device: str,
    board: str,
    version: str,
    made_s: int,
    form: int = FORM,
) -> Image:
    """made_s: seconds since 1970; a board rejects an update made before the one it has. form: the
    form of list that the board accepts."""
    ordered = tuple(sorted(contents, key=_rank))
    lines = [f"{TITLE} {form} {device} {board} {version} {made_s}"]
    for one in ordered:
        flag = "?" if one.is_optional else "="
        lines.append(f"{hashlib.sha256(one.data).hexdigest()} {len(one.data)} {flag} {one.path}")
    text = "".join(f"{line}\n" for line in lines).encode()
    return Image(text + f"{sign(key, text)}\n".encode(), ordered)


def sign(key: bytes, text: bytes) -> str:
    """64 hex digits."""
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def question(tag: str, asked: int) -> bytes:
    """asked: the number of the question, which the answer repeats."""
    return f"update {tag or NO_TAG} ask {asked}".encode()


def missing(need: str) -> list[int]:
    """Return the numbers of the files that a board's answer asks for. Raises ValueError."""
    bits = int.from_bytes(bytes.fromhex(need), "little")
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
