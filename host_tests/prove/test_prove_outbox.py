# cpython-only: patches the firmware's modules from their sources
"""The proof can fail: it closes its smallest scope, and finds the faults of broken copies."""

import ast
from collections.abc import Callable

import pytest

from outbox_real import Real
from outbox_scopes import SCOPES, Scope
from outbox_states import payload
from prove_outbox import Explorer, explorer

FEW = 400  # states; the mutants die long before
SOME = 4000


def scope(name: str) -> Scope:
    return next(one for one in SCOPES if one.name == name)


@pytest.mark.long
def test_the_first_format_is_closed_without_a_violation() -> None:
    result = Explorer(scope("first format")).run()
    assert result.closed
    assert not result.violations
    assert sum(result.cuts.values()) > 3000


def replaced(old: str, new: str) -> Callable[[ast.Module], ast.Module]:
    """Returns a function that changes one text of the module."""

    def mutate(tree: ast.Module) -> ast.Module:
        text = ast.unparse(tree)
        assert text.count(old) == 1, old
        return ast.parse(text.replace(old, new))

    return mutate


def key_after_a_skip(size: int) -> bytes:
    """Returns the key of a ring whose tail has a message of so many bytes, that was released since
    the last record, and whose head's number is far higher, as after opens that failed."""
    one = Explorer(scope("two blocks"))
    one.run(0)
    outbox, promise = one.outbox, one.promise
    assert promise.append(outbox, b"t", payload(0, 0, size)) == 0
    outbox._sector_no += 2 * (outbox.blocks + 1)
    outbox._offset = one.scope.block_bytes
    assert promise.append(outbox, b"t", payload(1, 0, one.scope.largest)) == 0
    assert promise.discard(outbox, 0)
    return one.keys.on(promise)


def test_what_a_mount_reads_is_in_the_key_however_many_sector_numbers_were_skipped() -> None:
    """Message 0 comes back after a cut, with its own bytes."""
    assert key_after_a_skip(8) == key_after_a_skip(8)
    assert key_after_a_skip(8) != key_after_a_skip(12)


MUTANTS = {
    "a block with messages is free": (
        "ring",
        "if self._first_of(block) > self.oldest_seq:",
        "if False:",
    ),
    "no record is read back": (
        "ring",
        "if holds_record(first, self._prefix, at, self._topic, self._payload):",
        "if True:",
    ),
    "a state is not written, and taken for written": (
        "outbox",
        "return self.append(b'', self.note, self.note_length, _STATE)",
        "return _OK",
    ),
}


SERIES_MUTANTS = {
    "a sample counts whatever its check says": (
        "series_outbox",
        "if self.buffer[end] | self.buffer[end + 1] << 8 != at & 65535:",
        "if False:",
    ),
    "a check does not know its place": (
        "portable_series",
        "check = where[_CRC] ^ where[_AT] - where[_START]",
        "check = 0",
    ),
    "a state record, or a message, does not close the record": (
        "series_outbox",
        "if first & _MESSAGE:",
        "if False:",
    ),
    "a record has no room reserved": (
        "series_outbox",
        "self._offset += u32(header, 16) >> 16",
        "self._offset += 0",
    ),
    "a too long sample is stored": (
        "portable_series",
        "if where[_AT] + length > where[_END]:",
        "if False:",
    ),
    "a restart says it is none": (
        "series",
        "return end << 1 | self._is_restart",
        "return end << 1",
    ),
    "a closed record's number is given again": (
        "series_outbox",
        "self.next_seq += 1",
        "self.next_seq += 0",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if "too long" in name else name
        for name in SERIES_MUTANTS
    ],
)
def test_a_broken_series_is_found(name: str) -> None:
    module, old, new = SERIES_MUTANTS[name]
    one = scope("series alone")
    real = Real(one.block_bytes, (module, replaced(old, new)))
    try:
        found = explorer(one, real).run(SOME).violations
    except (AssertionError, IndexError) as fault:  # a message that cannot be parsed
        found = [str(fault)]
    assert found, name


@pytest.mark.long
def test_a_sound_series_is_not_called_broken() -> None:
    assert not explorer(scope("series")).run(FEW).violations


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_copy_is_found(name: str) -> None:
    module, old, new = MUTANTS[name]
    one = scope("bad block" if "read back" in name else "two blocks")
    found = Explorer(one, Real(one.block_bytes, (module, replaced(old, new)))).run(FEW)
    assert found.violations, name


def test_a_crc_that_is_constant_is_found() -> None:
    """It survives every way of cutting except a hole."""
    one = scope("two blocks")
    real = Real(one.block_bytes)
    for module in (real.ring, real.mount, real.make):
        module.crc30 = lambda seed, buf, at, end: 0x15A5A5A5
    real.ring.put_record = _put_record  # with the same CRC
    assert Explorer(one, real).run(FEW).violations


def _put_record(buf: bytearray, at: int, prefix: bytearray, topic: bytes, payload: bytes) -> None:
    data = bytes(prefix[:12]) + topic + payload + b"\xa5\xa5\xa5\x15"
    buf[at : at + len(data)] = data
    prefix[12:16] = data[-4:]
