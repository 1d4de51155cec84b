"""Checks bytes as fast as the board can: machine code, or plain Python without a native emitter.

crc30(seed, buf, at, end): CRC-32 of buf[at:end] (IEEE 802.3, reflected), register preset by `seed`
(0 = standard), cut to its low 30 bits. is_blank(buf, at, end): all 0xFF, as erased NOR flash reads.
skip_records(buf, at, end, align, count): passes over records of the outbox by their lengths alone,
up to `count` messages, as far as they lie in buf[at:end]; returns messages << 13 | bytes.

put_record(buf, at, prefix, topic, payload) writes a record of the outbox (`flash/ring.py`) at `at`:
prefix[:12], which has the two lengths, topic, payload, and their CRC. prefix[12:16] holds the CRC's
seed before the call, and the CRC after it. holds_record(buf, prefix, at, topic, payload): True when
every byte of that record is there.

These functions are apart from `memory.py`, so that a client without an outbox does not load them.
No function allocates.
"""

try:
    from outpost.native_checksum import crc30, holds_record, is_blank, put_record, skip_records

    # MicroPython 1.25 also places frozen machine code for ARMv6-M (RP2040) at odd half-words, where
    # it reads wrong constants.
    if crc30(0, b"123456789", 0, 9) != 0x0BF43926:
        raise ValueError
except (ImportError, AttributeError, SyntaxError, ValueError):
    # No native emitter, or an .mpy of another architecture.
    from outpost.portable import (  # noqa: F401 - handed on
        crc30,
        holds_record,
        is_blank,
        put_record,
        skip_records,
    )
