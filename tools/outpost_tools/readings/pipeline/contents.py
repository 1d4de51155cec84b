"""A message's contents in 8 bytes: the fingerprint that distinguishes a repeat from a conflict.

A message's fingerprint is computed from its readings and from nothing that may differ between two
transmissions: neither the frame around it nor `held`. Its upper 16 bits depend on the stream, so
those of one board are adjacent; 48 bits depend on stream, number and contents. Among 10^9 messages,
one conflict in 10^10 is mistaken for a duplicate.

fingerprints.py stores those that were seen before. Columns of schemas.READING in, numpy out; no
files.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TYPE = np.dtype("<u8")
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits without a pattern: 2^64 / golden ratio
_ABSENT = np.uint64(0x5BD1E995)
_INTEGERS, _FLOATS, _TEXTS = ("record", "boot", "version"), ("uptime_s", "value"), ("name", "unit")
_NONE = np.zeros(0, TYPE)


def of_messages(rows: pa.Table, begins: np.ndarray) -> np.ndarray:
    """One fingerprint for each message; begins: where each message's rows begin in `rows`."""
    if not len(begins):
        return _NONE
    contents = np.add.reduceat(of_rows(rows), begins)
    return of_contents(contents, *keys(rows.select(["device", "stream", "seq"]).take(begins)))


def of_contents(contents: np.ndarray, streams: np.ndarray, messages: np.ndarray) -> np.ndarray:
    mixed = _mixed(_mixed(contents, messages), streams)
    return (streams & np.uint64(0xFFFF << 48)) | (mixed >> np.uint64(16))


def keys(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """(the stream's, the message's) 64 bits of each row."""
    streams = _texts(pc.binary_join_element_wise(rows["device"], rows["stream"], "/"))
    return streams, _mixed(streams, rows["seq"].to_numpy().astype(TYPE))


def of_rows(rows: pa.Table) -> np.ndarray:
    """A hash of each reading, including its place in the message. Their sum is the message's
    contents."""
    return _said(rows, _INTEGERS)


def of_readings(rows: pa.Table) -> np.ndarray:
    """The same without the place, which shifts when another reading of the message is lost."""
    return _said(rows, _INTEGERS[1:])


def _said(rows: pa.Table, integers: tuple[str, ...]) -> np.ndarray:
    said = np.full(rows.num_rows, _ABSENT)
    for name in integers:
        said = _mixed(said, pc.fill_null(rows[name], -1).to_numpy().astype(np.int64).view(TYPE))
    for name in _FLOATS:
        said = _mixed(said, _floats(rows[name]))
    said = _mixed(said, _floats(pc.fill_null(rows["shift_s"], 0.0)))
    for name in _TEXTS:
        said = _mixed(said, _texts(rows[name]))
    sent = pc.if_else(pc.is_valid(rows["placed"]), None, rows["time"].cast(pa.int64()))
    return _mixed(said, pc.fill_null(sent, -1).to_numpy().view(TYPE))


def of_columns(rows: pa.Table) -> np.ndarray:
    """A hash of each row over all its columns, which hold integers, times, floats and texts."""
    said = np.full(rows.num_rows, _ABSENT)
    for column in rows.columns:
        if pa.types.is_string(column.type):
            said = _mixed(said, _texts(column))
        elif pa.types.is_floating(column.type):
            said = _mixed(said, _floats(column))
        else:
            said = _mixed(said, pc.fill_null(column.cast(pa.int64()), -1).to_numpy().view(TYPE))
    return said


def _mixed(values: np.ndarray, more: np.ndarray) -> np.ndarray:
    mixed = (values ^ more) * _MIX
    return (mixed ^ (mixed >> np.uint64(29))) * _MIX


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    bits = pc.fill_null(column, 0.0).to_numpy().view(TYPE)
    missing = column.is_null().to_numpy()
    return np.where(missing, _ABSENT, bits) if missing.any() else bits


def _texts(column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks().dictionary_encode()
    hashes = [_text(text) for text in encoded.dictionary.to_pylist()]
    known = np.array([*hashes, _ABSENT], TYPE)
    return known[pc.fill_null(encoded.indices, len(hashes)).to_numpy()]


def _text(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
