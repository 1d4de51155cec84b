"""An outbox of any policy that holds series: over(Outbox), over(DropOldest). A record of kind 3 has
a header, and room after it, which takes samples one by one (`firmware/SERIES_FORMAT.md`).

`series.py` decides what is in a sample, and when a record is begun and closed.

Allocation: construction and mount().
"""
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false

from array import array
from struct import pack_into

from micropython import const

from outpost.checksum import crc30, is_blank
from outpost.memory import u32
from outpost.series_codec.series_bits import (
    check_of,
    move_bits,
    move_samples,
    pass_codes,
    pass_wholes,
    program,
    take_bits,
)

_OK = const(0)
_FULL = const(-1)
_STORAGE = const(-5)

_BLOCK_BYTES = const(4096)
_HEADER_CRC_AT = const(28)  # of a sector
_PREFIX = const(12)
_OVERHEAD = const(16)
_MESSAGE = const(1)
_SERIES = const(3)
_RECORD = const(0x13)  # QoS and kind of its record
_MAY_HOLD = const(16)  # in byte 3 of a sector's header: it may hold a series
_SEQ_MASK = const(0x3FFFFFFF)
_FIXED = const(31)  # bytes of a series' header before the device's name
_MOST_COLUMNS = const(16)

# Of `place`: see `series_bits.py`.
_TARGET = const(0)
_ROOM_END = const(1)
_ROOM_START = const(2)
_SEED = const(3)
_COLUMNS = const(4)
_MARK_SHIFT = const(5)
_MARK_IS = const(6)

# Of `where`, likewise.
_AT = const(0)
_END = const(1)
_START = const(2)
_CRC = const(3)
_BLOCK = const(5)


def any_check_of(buf, at, end, seed, is_restart):
    """Returns the check that follows the sample buf[at:end]: 4 bytes for a restart, else 2."""
    return crc30(seed, buf, at, end) if is_restart else check_of(buf, at, end, seed)


class _Gather:
    """Builds the message of the loaded record."""

    def __init__(self):
        self.buffer = bytearray()
        self.place = array("i", (0, 0, 0, 0, 0, 0, 0))
        self.ks = bytearray(_MOST_COLUMNS + 1)  # k of each code
        self.shape = self.mark_bits = 0
        self.is_lost = False  # a sample was lost: the next must be a restart

    def gather(self, outbox):
        """Move the valid samples together, right after the header."""
        self.buffer = outbox.buffer
        place = self.place
        at = outbox.topic_at + outbox.topic_length
        self._take_header(at)
        place[_ROOM_END] = at + outbox.payload_length
        place[_TARGET] = at + self.buffer[at + 2] << 3
        end = self._bits(place[_TARGET]) >> 1
        place[_TARGET] += end  # the first sample is where it belongs
        end = place[_ROOM_END]
        place[_SEED] = u32(self.buffer, end)
        place[_ROOM_START] = end = outbox._padded(outbox.topic_at - _PREFIX, end + 4)
        place[_ROOM_END] = end + (u32(self.buffer, at + 16) >> 16)
        if place[_ROOM_END] > outbox._filled:
            place[_ROOM_END] = at = outbox._filled
            outbox.cut_short += not is_blank(self.buffer, at - 4, at)
        self.is_lost = False
        while not is_blank(self.buffer, end, place[_ROOM_END]):
            at = end
            if not self.is_lost:
                end = move_samples(self.buffer, at, place, self.ks)
            if end == at:
                end = self._move(at)
        outbox.payload_length = self._end() - outbox.topic_at - outbox.topic_length

    def _end(self):
        """Returns where the message ends; fills its last byte up with 0."""
        end = self.place[_TARGET]
        if end & 7:
            self.buffer[end >> 3] &= 0xFF00 >> (end & 7) & 0xFF
        return end + 7 >> 3

    def _take_header(self, at):
        buf = self.buffer
        self.place[_COLUMNS] = columns = min(buf[at + 29], _MOST_COLUMNS)
        self.shape = (1 << columns) - 1 << 5 | columns
        self.ks[0] = buf[at + 28]
        self.mark_bits = self.ks[0] + 1 if self.ks[0] else 3
        self.place[_MARK_SHIFT] = 16 - self.mark_bits
        self.place[_MARK_IS] = (1 << self.ks[0]) + 1
        at += _FIXED + buf[at + 30]
        i = 0
        while i < columns:
            i += 1
            self.ks[i] = buf[at + 1] & 15
            at += 3 + buf[at + 2] + (buf[at + 1] >> 4)

    def _move(self, at):
        """Move the sample at `at`, if there is one. Returns where to continue."""
        bits = self._bits(at << 3)
        end = self._checked(at, bits)
        self.is_lost = not end
        if end:
            move_bits(self.buffer, self.place[_TARGET], at, bits >> 1)
            self.place[_TARGET] += bits >> 1
            return end
        return at + 1

    def _bits(self, at):
        """Returns twice the length of the sample at bit `at`, plus 1 if it is a restart; 0: there
        is none."""
        start = at
        if not self._has_mark(at):
            at = pass_codes(self.buffer, at, self.place[_ROOM_END] << 3, self.ks, self.shape)
            return at and at - start << 1
        at += self.mark_bits
        shape = take_bits(self.buffer, at, self.place[_COLUMNS] + 1)
        at += self.place[_COLUMNS] + 1
        is_restart = shape >> self.place[_COLUMNS]
        shape = (shape << 5 | self.place[_COLUMNS]) & self.shape
        if shape < 32 or (not is_restart and self._has_mark(at)):
            return 0
        if is_restart:
            at = pass_wholes(self.buffer, at, self.place[_ROOM_END] << 3, shape)
        else:
            at = pass_codes(self.buffer, at, self.place[_ROOM_END] << 3, self.ks, shape)
        return at and at - start << 1 | is_restart

    def _has_mark(self, at):
        # No sample fits so near the end.
        if at + self.mark_bits + self.place[_COLUMNS] >= self.place[_ROOM_END] << 3:
            return False
        return take_bits(self.buffer, at, self.mark_bits) == self.place[_MARK_IS]

    def _checked(self, at, bits):
        """Returns where the sample's check ends; 0: it does not match, or there is no sample."""
        if not bits or (self.is_lost and not bits & 1):
            return 0
        end = at + ((bits >> 1) + 7 >> 3)
        bits &= 1
        if end + 2 + 2 * bits > self.place[_ROOM_END]:
            return 0
        seed = self.place[_SEED] ^ at - self.place[_ROOM_START]
        at = any_check_of(self.buffer, at, end, seed, bits)
        if self.buffer[end] | self.buffer[end + 1] << 8 != at & 0xFFFF:
            return 0
        if not bits:
            return end + 2
        return end + 4 if self.buffer[end + 2] | self.buffer[end + 3] << 8 == at >> 16 else 0


class InPlace:
    """Adds series to an outbox. over() puts it before a class of outbox.

    While a record is open, next_seq is its own number, which flash has used and no one has seen.
    """

    _base = None  # the class of outbox
    # How often a record was read without its last samples, because record_bytes is too small for
    # it. Those samples are lost when it is released.
    cut_short = 0
    reprograms = False  # its flash allows several programs per page
    _header_bits = 0x1F
    _is_marked = False  # the head sector's header says that it may hold a series
    _gather = None
    _owner = None  # the Series whose record is open
    sample = b""  # the buffer of its samples
    _record_at = 0  # where the open record starts

    def __init__(self, *args, **options):
        self._base.__init__(self, *args, **options)
        # The open record, or the last one: see `series_bits.py`.
        self.where = array("i", (0, 0, 0, 0, self._page, 0, 0))
        self._tools = self.where, self._views

    def mount(self):
        self._owner = None
        self._is_marked = False
        self._gather = self._gather or _Gather()
        return self._base.mount(self)

    def close_series(self):
        """Make the open record, if any, a message."""
        if self._owner:
            self._owner = None
            if self._cursor_seq == self.next_seq:  # the cursor is after the record
                self._cursor_offset = self._record_at
            self.next_seq += 1

    # --- Write ---

    def prepare(self, length):
        """Make room for a record with `length` bytes of topic, header and room. Status as
        append()."""
        self.close_series()
        if self.next_seq == _SEQ_MASK:
            from outpost.flash import make

            if not make.start_stream(self):
                return _FULL
        status = self.reserve(length)
        if status == _OK and not self._takes_series():
            self._offset = _BLOCK_BYTES  # this sector may not hold series
            status = self.reserve(length)
        return status

    def _takes_series(self):
        if self._has_header and not self._is_marked:
            try:
                self._is_marked = self._load_header(self._head) and self.buffer[3] >= _MAY_HOLD
            except OSError:
                self.storage_errors += 1
        return self._is_marked or not self._has_header

    def begin(self, topic, header, length):
        """Program the record without its samples. False: it did not read back."""
        self._topic = topic
        self._payload = header
        self._record_size = -(-_OVERHEAD - len(topic) - length & -self._align)  # rounded up
        if self._guarded(_RECORD | len(topic) << 8 | length << 16):
            return False
        where = self.where
        where[_CRC] = u32(self._prefix, 12)
        where[_BLOCK] = self._place[self._head]
        self._record_at = self._offset - self._record_size
        where[_START] = where[_AT] = self._offset
        self._offset += u32(header, 16) >> 16
        where[_END] = self._offset
        self._saved_oldest = self.oldest_seq
        self._saved_acked = self.acked
        self.loaded_seq = -1  # its samples are still to come
        return True

    def extend(self, length):
        """Program the sample in `sample` and its check into the room. length: as for program(). OK;
        1: the room is too small; STORAGE: it did not read back, and nothing more is appended to the
        sector."""
        self.loaded_seq = -1
        self._busy = True
        try:
            length = program(self._tools, self._raw, self.sample, length)
        except OSError:
            length = _STORAGE
        except BaseException:
            self._busy = False
            self.close_series()  # its next sample would continue from one that may be missing
            raise
        self._busy = False
        if length == _STORAGE:
            self.storage_errors += 1
            self.close_series()
            self._offset = _BLOCK_BYTES
        return length

    # --- What replaces the outbox's own methods ---

    def _put(self, first):
        if first & 0x1F == _RECORD:
            if self._write_record(first, self._record_size):
                return _OK
            self._note_failure()
            return _STORAGE
        if first & _MESSAGE:  # a message, or the room for one
            self.close_series()
        return self._base._put(self, first)

    def _open_sector(self):
        self.close_series()
        return self._base._open_sector(self)

    def _write_record(self, first, size):
        """A state record leaves an open record open; if it fails, the record is closed."""
        owner = self._owner
        self.close_series()  # the next number is the one after it
        if not self._base._write_record(self, first, size):
            return False
        if owner:
            self._owner = owner
            self.next_seq -= 1
        return True

    def _put_header(self):
        self._base._put_header(self)
        self.buffer[3] |= _MAY_HOLD
        self._salt = crc30(0, self.buffer, 0, _HEADER_CRC_AT)
        pack_into("<I", self.buffer, _HEADER_CRC_AT, self._salt)
        self._is_marked = True

    def _fits(self, at, salt):
        if self.buffer[at] & 0x8F != _SERIES:
            return self._base._fits(self, at, salt)
        end = at + _PREFIX + self.buffer[at + 1] + (u32(self.buffer, at) >> 16)
        if end + 4 > self._filled or self.buffer[end + 3] > 0x3F:
            return False
        if u32(self.buffer, end) != crc30(salt, self.buffer, at, end):
            return False
        end = self._padded(at, end + 4) - at
        at += _PREFIX + self.buffer[at + 1]
        self._record_size = end + (u32(self.buffer, at + 16) >> 16)
        return True

    def _padded(self, at, end):
        """Returns where a record from `at` to `end` ends, padding included."""
        return at - (at - end & -self._align)

    # --- Read ---

    def _load(self, seq):
        status = self._base._load(self, seq)
        if status == _OK and self.buffer[self.topic_at - _PREFIX] & 0xF == _SERIES:
            self.buffer[self.topic_at - _PREFIX] = _MESSAGE  # so that it is gathered once
            self._gather.gather(self)
        return status


def over(base, reprograms=False):
    """Returns a subclass of the outbox `base` that holds series. reprograms: its flash allows
    several programs per page at any alignment (RP2's does); with an alignment of 4 it must."""
    if base.renumbers:
        raise ValueError("series: not with an outbox that gives messages new numbers")
    return type("SeriesOutbox", (InPlace, base), {"_base": base, "reprograms": reprograms})
