"""The ground truth of a simulated board: `journal.txt`, one line per event, written outside its
flash.

boot <boot count> <stream>      the outbox is mounted
ok <seq> <payload>              publish() returned OK
cbor <seq> <payload in hex>     the same, for a board whose messages are CBOR
sample <seq> <facts>            a sample was stored in record <seq> of a series; facts: [1 if the
                                clock is set, day, ms, unit of the record's times in ms, readings],
                                a reading: [name, unit, value, exponent]
refused <status>                publish() returned something else
cut <operation> <mode>          the power is cut now
sleep <ms>                      deep sleep begins
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class JournalError(ValueError):
    """The file is not a journal; str() names the file and line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`kind` is "boot", "ok", "sample", "refused", "cut" or "sleep".

    `stream` is that of the last boot; seq and payload (facts) belong to "ok" and "sample".
    """

    kind: str
    stream: str
    seq: int = -1
    payload: bytes = b""


def read_journal(path: Path) -> list[Entry]:
    """All whole lines; a last line without its newline was cut off and is ignored.

    Raises JournalError, OSError.
    """
    entries: list[Entry] = []
    stream = ""
    lines = path.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        try:
            entry = _entry(line, stream)
        except (ValueError, IndexError):
            raise JournalError(
                f"{path}: line {number} is not a journal line: {line[:60]!r}"
            ) from None
        stream = entry.stream
        entries.append(entry)
    return entries


def _entry(line: bytes, stream: str) -> Entry:
    kind, rest = line.split(b" ", 1)
    if kind == b"boot":
        return Entry("boot", rest.split()[1].decode("ascii"))
    if kind == b"cut":  # possible before the first boot, while the outbox is created
        return Entry("cut", stream)
    if not stream:
        raise ValueError("before the first boot")
    if kind == b"cbor":
        seq, payload = rest.split(b" ", 1)
        return Entry("ok", stream, int(seq), bytes.fromhex(payload.decode("ascii")))
    if kind in (b"ok", b"sample"):
        seq, payload = rest.split(b" ", 1)
        return Entry(kind.decode("ascii"), stream, int(seq), payload)
    if kind in (b"refused", b"sleep"):
        return Entry(kind.decode("ascii"), stream)
    raise ValueError("unknown kind")


_MEASURED = (b"\nok ", b"\ncbor ", b"\nsample ")


class JournalTail:
    """Counts the measurements in a growing journal, reading only what is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b"\n"
        self.published = 0

    def update(self) -> int:
        """The count so far."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
            self._offset += len(data)
            text = self._rest + data
            whole = text[: text.rfind(b"\n")]
            self.published += sum(whole.count(mark) for mark in _MEASURED)
            self._rest = text[len(whole) :]  # the incomplete line, and the newline before it
        return self.published
