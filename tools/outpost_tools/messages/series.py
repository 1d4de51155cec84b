"""Reads a series exactly: many samples in one message, packed (`firmware/SERIES_FORMAT.md`).

`decode()` returns a Series, or raises Malformed with the reason that quarantine shows. `key_in()`
reads only the key, at fixed places, for the collector. The first byte, F5, begins neither JSON (it
is not valid in UTF-8 text) nor a CBOR array, so is_series() needs only that byte.

Memory and time are linear in the payload's length, because a sample takes at least two bits. This
reader is plain Python and exact; for tables of many messages there is a faster one with the same
results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from outpost_tools.messages import labels, name_rules
from outpost_tools.messages.senml import Malformed

MAGIC = 0xF5
VERSION = 1
FIXED_BYTES = 31  # of the header, up to the device's name
MOST_COLUMNS = 16
LARGEST_EXPONENT = 9
VALUE_LIMIT = 1 << 29  # values are -2^29 to 2^29 - 1
SPAN_LIMIT_MS = 1 << 30  # a sample is less than this before or after the record's start
DAY_MS = 86_400_000
CLOCK_SET, HAS_UPTIME = 1, 2  # flags
# Limits of a sample's time: since boot, and since 1970.
TIME_LIMITS_S = (0, 2 * labels.MAX_UPTIME_S), (labels.MIN_TIME_S, labels.MAX_TIME_S)
MOST_BITS = 30  # of a number


class Column(NamedTuple):
    """A value v of this column means v * 10^exponent `unit` ("": no unit)."""

    name: str
    unit: str
    exponent: int


class Sample(NamedTuple):
    """time_ms: since 1970, or since boot if Series.clock_set is False. values: one per column, None
    if it is missing; at least one is present."""

    time_ms: int
    values: tuple[int | None, ...]


class SeriesKey(NamedTuple):
    """Identifies a message by device, stream and number. held: the oldest number that its board
    still held."""

    device: str
    stream: str
    seq: int
    held: int


@dataclass(frozen=True, slots=True)
class Series:
    """One message. (device, stream, seq) is its key. The record index of a reading is its position
    among all readings: sample by sample, column by column, without missing values.

    uptime_ms: time from boot number `boot` to start_ms; None if the message does not say.
    """

    device: str
    stream: str
    seq: int
    held: int
    boot: int
    version: int
    clock_set: bool
    start_ms: int
    uptime_ms: int | None
    step_ms: int
    columns: tuple[Column, ...]
    samples: tuple[Sample, ...]


def is_series(payload: bytes) -> bool:
    return payload[:1] == b"\xf5"


def key_in(payload: bytes) -> SeriesKey | None:
    """The key in a payload; None if it has none that may be confirmed. Looser than decode() on
    purpose, as message.key_of() is: a message with a valid key and bad samples is quarantined and
    confirmed. Newer versions keep the first 20 bytes and the device's name in place, so they have a
    key, too."""
    try:
        device = _device(payload)
    except Malformed:
        return None
    stream, seq, held = _stream_seq_held(payload)
    return SeriesKey(device, stream, seq, held) if held <= seq <= labels.MAX_SEQ else None


def header_of(payload: bytes) -> Header:
    """The checked header before the samples. Raises Malformed."""
    if not is_series(payload):
        raise Malformed("series: no F5 at its start")
    if payload[1:2] != bytes((VERSION,)):
        raise Malformed(f"series: version {payload[1] if len(payload) > 1 else 'missing'}")
    return Header(payload, _device(payload))


def decode(payload: bytes) -> Series:
    """The series in a payload. Raises Malformed. The caller checks whether the device is that of
    the topic (name_rules.is_topic_of), and the times against the message's arrival."""
    if len(payload) > labels.MAX_PAYLOAD_BYTES:
        raise Malformed(f"oversize: {len(payload)} bytes, limit {labels.MAX_PAYLOAD_BYTES}")
    header = header_of(payload)
    samples = _Samples(payload, header).read()
    return Series(
        header.device, header.stream, header.seq, header.held, header.boot, VERSION,
        header.clock_set, header.start_ms, header.uptime_ms, header.step_ms, tuple(header.columns),
        tuple(samples),
    )  # fmt: skip


# --- Header ---


def _u16(payload: bytes, at: int) -> int:
    return int.from_bytes(payload[at : at + 2], "little")


def _u32(payload: bytes, at: int) -> int:
    return int.from_bytes(payload[at : at + 4], "little")


def _stream_seq_held(payload: bytes) -> tuple[str, int, int]:
    return payload[4:8].hex(), _u32(payload, 8), _u32(payload, 12)


def _device(payload: bytes) -> str:
    if len(payload) < FIXED_BYTES or len(payload) < FIXED_BYTES + payload[30]:
        raise Malformed("series: header cut short")
    name = payload[FIXED_BYTES : FIXED_BYTES + payload[30]].decode("ascii", "replace")
    if not name_rules.is_device(name):
        raise Malformed("series: bad device name")
    return name


def _text(payload: bytes, at: int, end: int, what: str) -> str:
    text = payload[at:end].decode("ascii", "replace")
    if not all(" " <= character <= "~" for character in text):
        raise Malformed(f"series: bad {what}")
    return text


class Header:
    """The fields that precede the samples, each within its bounds."""

    def __init__(self, payload: bytes, device: str) -> None:
        self.device = device
        self.end = payload[2]
        if not FIXED_BYTES <= self.end <= len(payload):
            raise Malformed("series: bad header length")
        self.stream, self.seq, self.held = _stream_seq_held(payload)
        if not self.held <= self.seq <= labels.MAX_SEQ:
            raise Malformed("series: held above seq" if self.held > self.seq else "series: bad seq")
        self.boot = _u16(payload, 16)
        self._take_flags(payload)
        self.columns: list[Column] = []
        self.parameters: list[int] = []  # k of each column
        at = self._take_columns(payload, FIXED_BYTES + len(device))
        self.uptime_ms = self._take_uptime(payload, at)

    def _take_flags(self, payload: bytes) -> None:
        flags = payload[3]
        if flags & ~(CLOCK_SET | HAS_UPTIME) or flags == HAS_UPTIME:
            raise Malformed("series: bad flags")
        self.clock_set, self._has_uptime = flags & CLOCK_SET > 0, flags & HAS_UPTIME > 0
        self.start_ms = self._time(payload, 20, "start")
        lowest_ms = labels.MIN_TIME_S * 1000
        if self.clock_set and not lowest_ms <= self.start_ms < labels.MAX_TIME_S * 1000:
            raise Malformed("series: start out of range")
        self.step_ms, self.time_parameter = _u16(payload, 26), payload[28]
        if not self.step_ms:
            raise Malformed("series: step 0")
        if self.time_parameter > 15:
            raise Malformed("series: bad parameter of the time")

    def _time(self, payload: bytes, at: int, what: str) -> int:
        day, ms = _u16(payload, at), _u32(payload, at + 2)
        if ms >= DAY_MS or (not self.clock_set and day * 86_400 > labels.MAX_UPTIME_S):
            raise Malformed(f"series: {what} out of range")
        return day * DAY_MS + ms

    def _take_columns(self, payload: bytes, at: int) -> int:
        if not 0 < payload[29] <= MOST_COLUMNS:
            raise Malformed(f"series: {payload[29]} columns, 1 to {MOST_COLUMNS} are allowed")
        for index in range(payload[29]):
            if at + 3 > self.end:
                raise Malformed("series: header cut short")
            exponent = (payload[at] ^ 0x80) - 0x80
            name_length, unit_length = payload[at + 2], payload[at + 1] >> 4
            middle = at + 3 + name_length
            if middle + unit_length > self.end:
                raise Malformed("series: header cut short")
            if not name_length or abs(exponent) > LARGEST_EXPONENT:
                raise Malformed(f"series: bad column {index}")
            name = _text(payload, at + 3, middle, "name")
            unit = _text(payload, middle, middle + unit_length, "unit")
            self.columns.append(Column(name, unit, exponent))
            self.parameters.append(payload[at + 1] & 15)
            at = middle + unit_length
        return at

    def _take_uptime(self, payload: bytes, at: int) -> int | None:
        if at + 6 * self._has_uptime != self.end:
            raise Malformed("series: bad header length")
        if not self.clock_set:
            return self.start_ms
        if not self._has_uptime:
            return None
        uptime_ms = self._time(payload, at, "uptime")
        if uptime_ms > labels.MAX_UPTIME_S * 1000:
            raise Malformed("series: uptime out of range")
        return uptime_ms


# --- Samples ---


class _End(Exception):
    """There are no more bits."""


class _Bits:
    """A payload's bits, from byte `at` on, with the highest bit of each byte first."""

    def __init__(self, payload: bytes, at: int) -> None:
        # A leading "1" (110001) preserves leading zeros.
        self._bits = f"{int.from_bytes(b'1' + payload[at:], 'big'):b}"[6:]
        self.at = 0

    def rest(self) -> str:
        return self._bits[self.at :]

    def take(self, count: int) -> int:
        end = self.at + count
        if end > len(self._bits):
            raise _End
        number = int(self._bits[self.at : end], 2) if count else 0
        self.at = end
        return number

    def zeros(self) -> int:
        """Consumes the zeros that precede the next 1, and returns their number."""
        one = self._bits.find("1", self.at)
        if one < 0:
            raise _End
        count, self.at = one - self.at, one
        return count


def _signed(number: int) -> int:
    """0, -1, 1, -2, 2 ... for 0, 1, 2, 3, 4."""
    return -(number + 1 >> 1) if number & 1 else number >> 1


class _Samples:
    def __init__(self, payload: bytes, header: Header) -> None:
        self._bits = _Bits(payload, header.end)
        self._header = header
        self._columns = range(len(header.columns))
        self._time = self._step = 0  # in steps: since the start; between the last two samples
        self._last = [0] * len(header.columns)
        self._is_started = False

    def read(self) -> list[Sample]:
        found: list[Sample] = []
        while True:
            start = self._bits.at
            try:
                found.append(self._sample(len(found)))
            except _End:
                self._bits.at = start
                break
        rest = self._bits.rest()
        if len(rest) > 7 or "1" in rest:
            raise Malformed(f"series: sample {len(found)} cut short")
        if not found:
            raise Malformed("series: no sample")
        return found

    def _sample(self, index: int) -> Sample:
        code = self._number(self._header.time_parameter)
        present = list(self._columns)
        if code == 1 and self._bits.take(1):
            values = self._restart(index)
        else:
            if code == 1:
                present = self._mask(index)
                if len(present) == len(self._columns):
                    raise Malformed(f"series: sample {index}: a mask with nothing missing")
                code = self._number(self._header.time_parameter)
                if code == 1:
                    raise Malformed(f"series: sample {index}: two marks")
            values = self._changes(index, code, present)
        return Sample(self._time_ms(index), tuple(values))

    def _number(self, parameter: int) -> int:
        """An Exp-Golomb code of order `parameter`."""
        length = self._bits.zeros() + 1 + parameter
        if length > MOST_BITS:
            raise Malformed("series: a number of more than 30 bits")
        return self._bits.take(length) - (1 << parameter)

    def _mask(self, index: int) -> list[int]:
        mask = self._bits.take(len(self._columns))
        present = [i for i in self._columns if mask >> (len(self._columns) - 1 - i) & 1]
        if not present:
            raise Malformed(f"series: sample {index}: no value")
        return present

    def _restart(self, index: int) -> list[int | None]:
        present = self._mask(index)
        self._time, self._step = self._whole(index), 0
        self._last = [0] * len(self._columns)
        values: list[int | None] = [None] * len(self._columns)
        for i in present:
            values[i] = self._last[i] = self._checked(index, self._whole(index))
        self._is_started = True
        return values

    def _whole(self, index: int) -> int:
        """A signed number that is preceded by its length in bits."""
        length = self._bits.take(5)
        number = self._bits.take(length)
        if length > MOST_BITS or length != number.bit_length():
            raise Malformed(f"series: sample {index}: bad length of a number")
        return _signed(number)

    def _changes(self, index: int, code: int, present: list[int]) -> list[int | None]:
        if not self._is_started:
            raise Malformed("series: the first sample has no values of its own")
        self._step += _signed(code - 1 if code else 0)
        self._time += self._step
        values: list[int | None] = [None] * len(self._columns)
        for i in present:
            change = _signed(self._number(self._header.parameters[i]))
            values[i] = self._last[i] = self._checked(index, self._last[i] + change)
        return values

    def _checked(self, index: int, value: int) -> int:
        if not -VALUE_LIMIT <= value < VALUE_LIMIT:
            raise Malformed(f"series: sample {index}: value out of range")
        return value

    def _time_ms(self, index: int) -> int:
        header = self._header
        since_ms = self._time * header.step_ms
        time_ms = header.start_ms + since_ms
        lowest_s, highest_s = TIME_LIMITS_S[header.clock_set]
        is_possible = lowest_s * 1000 <= time_ms < highest_s * 1000
        if abs(since_ms) >= SPAN_LIMIT_MS or not is_possible:
            raise Malformed(f"series: sample {index}: time out of range")
        return time_ms
