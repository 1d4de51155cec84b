"""Persistent FIFO of messages in NOR flash: whatever append() returned OK for survives a power cut at any later moment.

A ring of sectors (`sectors.py`) between the oldest message held and the head. Knows no MQTT: a message is a topic, a payload
and flag bits. Recovery and power-fail argument: `firmware/OUTBOX_FORMAT.md`.

Acknowledgements ride on the next record (`oldest`, and `acked` bit i = oldest + 1 + i), so they cost no program of their own;
a cut forgets those that no record carried yet, and these messages are sent again.

Allocation: construction, mount() and format() only. Not for use from interrupts; a call from inside a call gets BUSY.
"""

from micropython import const

from outpost.sectors import Sectors, u16, u32

_OK = const(0)
_FULL = const(-1)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_STORAGE = const(-5)
_EMPTY = const(-7)
_BLANK = const(-10)
_FOREIGN = const(-11)
_NEWER = const(-12)
_GEOMETRY = const(-13)

_BLOCK_BYTES = const(4096)
_VERSION = const(1)
_MESSAGE = const(1)
_STATE = const(2)
_HEADER = const(32)
_OVERHEAD = const(16)
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_ACK_BITS = const(16)


class Outbox(Sectors):
    """The FIFO. After mount(): append() at one end; seek(), load(), advance() read; discard() frees at the other end.

    Arguments: see Sectors. To read: next_seq, oldest_seq, stream (8 hex digits, bytes), boot, cursor_seq, and the counters
    appended, refused, unreadable, programs, erases, sealed_torn, storage_errors.
    """

    def _reset(self):
        Sectors._reset(self)
        self.appended = self.refused = self.unreadable = 0
        self._busy = False
        self._saved_oldest = self._saved_acked = 0
        self._tail = 0
        self._ready = -1  # the block that was erased ahead
        self.cursor_seq = self._cursor_block = self._cursor_offset = self._cursor_salt = self._cursor_end = 0
        self.flags = self.topic_at = self.topic_length = self.payload_length = 0

    # --- Mount: reads only ---

    def mount(self):
        """Find the messages. OK, or BLANK, FOREIGN, NEWER, GEOMETRY: see `outpost.status`. Programs and erases nothing."""
        self._reset()
        status = self._find_head()
        if status != _OK:
            return status
        self._scan_head()
        self._find_tail()
        self.boot = (self.boot + 1) & 0xFFFF
        self.seek(self.oldest_seq)
        return _OK

    def _find_head(self):
        found, newer, last = -1, False, 0
        for block in range(self.blocks):
            if self._load_header(block):
                newer = newer or self.buffer[2] > _VERSION
                sector_no = u32(self.buffer, 4)
                if found < 0 or (sector_no - last) & _SEQ_MASK < _HALF:
                    found, last = block, sector_no
        if newer:
            return _NEWER
        if found < 0:
            return _BLANK if self._region_is_new() else _FOREIGN
        self._head = self._tail = found
        self._load_header(found)
        return _OK if 1 << self.buffer[3] == self._align else _GEOMETRY

    def _region_is_new(self):
        """True when all is erased but for the place of the first header: a cut inside format() leaves that one torn."""
        for block in range(self.blocks):
            if not self._rest_is_blank(block, 0 if block else _HEADER):
                return False
        return True

    def _scan_head(self):
        """Walk the newest sector: its last valid record holds the whole state. Behind a torn one nothing is appended."""
        self._take_header()
        offset = self._padded(_HEADER)
        at = self._record_valid(self._head, offset, self._salt ^ self.next_seq)
        while at >= 0:
            self._take_state(at + 4)
            self.next_seq += self.buffer[at] & 0x0F == _MESSAGE
            offset += self._record_size
            at = self._record_valid(self._head, offset, self._salt ^ self.next_seq)
        self._offset = offset
        if not self._rest_is_blank(self._head, offset):
            self.sealed_torn += 1
            self._offset = _BLOCK_BYTES
        self._saved_oldest, self._saved_acked = self.oldest_seq, self.acked

    def _find_tail(self):
        """Walk back over consecutive sectors to the one that holds the oldest message."""
        sector_no, first = self._sector_no, self._first_seq
        block = (self._head - 1) % self.blocks
        while first > self.oldest_seq and block != self._head and self._load_header(block):
            sector_no = (sector_no - 1) & _SEQ_MASK
            if u32(self.buffer, 4) != sector_no or bytes(self.buffer[8:16]) != self.stream:
                break
            self._tail, first = block, u32(self.buffer, 16)
            block = (block - 1) % self.blocks
        if first > self.oldest_seq:  # the older ones were acknowledged and erased; the word of it was in RAM only
            self.discard_through(first - 1)

    def format(self, stream, force=False):
        """Make an empty outbox. stream: 8 hex digits (bytes), random. FOREIGN when something is there, unless force."""
        status = self.mount()
        if status != _BLANK and not force:
            return _FOREIGN
        # Each block is erased before its first use in any case: here only what could be taken for an outbox.
        for block in range(1 if status == _BLANK else self.blocks):
            self._erase(block)
        self._reset()
        self.stream = stream
        self._write_header()
        return self.mount()

    # --- Append ---

    def append(self, topic, payload, length, flags=0x10):
        """Store payload[:length] under topic (bytes). flags: QoS << 4 | RETAIN << 6. OK, FULL, TOO_BIG, BUSY, STORAGE.

        Power cut inside: the message is whole or absent. Returned OK: it survives.
        """
        return self.stage(topic, payload, length) or self.store(flags)

    def stage(self, topic, payload, length):
        """First half of append(): what is to be stored. OK, TOO_BIG, BUSY. (In two halves, so that callers keep small frames.)"""
        if self._busy:
            return _BUSY
        if len(topic) > 255 or len(topic) + length + _OVERHEAD > self.record_bytes:
            return _TOO_BIG
        self._topic, self._payload, self._length = topic, payload, length
        return _OK

    def store(self, flags):
        """Second half of append()."""
        status = self._guarded(_MESSAGE | flags)
        self.appended += status == _OK
        self.refused += status == _FULL
        return status

    def save_state(self):
        """Write the acknowledgements down by themselves, if they changed: when idle, before sleep. Status as append()."""
        if self._saved_oldest == self.oldest_seq and self._saved_acked == self.acked:
            return _OK
        return self.stage(b"", b"", 0) or self._guarded(_STATE)

    def _guarded(self, kind):
        self._busy = True
        try:
            return self._attempt(kind)
        finally:
            self._busy = False

    def _attempt(self, kind):
        """A driver's error may leave the record on flash, but nothing is promised then."""
        try:
            return self._store(kind)
        except OSError:
            self.storage_errors += 1
        return _STORAGE

    def _store(self, kind):
        """Try, and once more in the next sector when the flash did not take it."""
        status = self._store_once(kind)
        return self._store_once(kind) if status == _STORAGE else status

    def _store_once(self, kind):
        if not self._make_room(self._padded(len(self._topic) + self._length + _OVERHEAD)):
            return _FULL
        if not self._write_record(kind):
            return _STORAGE
        self.next_seq += kind & 0x0F == _MESSAGE
        self._saved_oldest = self.oldest_seq
        self._saved_acked = self.acked
        return _OK

    def _make_room(self, size):
        """True when the head has room for `size` bytes, in a fresh sector if need be; False when the ring is full."""
        if self._offset + size <= _BLOCK_BYTES:
            return True
        block = self._head
        if self._has_header:  # else: its header did not come through; the sector before must stay, so try this one again
            block = (block + 1) % self.blocks
            if not self._is_free(block):
                return False
        if self._ready != block:
            self._erase(block)
        self._open(block)
        return True

    def _open(self, block):
        self._ready = -1
        self._sector_no = (self._sector_no + self._has_header) & _SEQ_MASK
        self._head = block
        self._first_seq = self.next_seq
        self._has_header = False  # it goes out with the first record, in one program
        self._offset = 0

    def _is_free(self, block):
        """True when no message is held in the block behind the head. The tail moves up to the oldest message held."""
        while self._tail == block:
            following = (block + 1) % self.blocks
            if self._first_of(following) > self.oldest_seq:
                return False
            self._tail = following
        return True

    def _first_of(self, block):
        """first_seq of a sector between tail and head."""
        if block == self._head:
            return self._first_seq
        self._read(block, 0)
        return u32(self.buffer, 16)

    def erase_ahead(self):
        """Erase the next block now, so that a later append() need not wait 45-400 ms for it. True when it erased one."""
        block = (self._head + 1) % self.blocks
        if self._busy or self._ready == block or not self._has_header or not self._is_free(block):
            return False
        self._busy = True
        try:
            self._erase(block)
            self._ready = block
        finally:
            self._busy = False
        return True

    # --- Read ---

    def seek(self, seq):
        """Cursor to message seq, or to the oldest one held if that is younger."""
        seq = max(seq, self.oldest_seq)
        block = self._tail
        while block != self._head and self._first_of((block + 1) % self.blocks) <= seq:
            block = (block + 1) % self.blocks
        self._enter(block)
        while self.cursor_seq < seq and self._load() == _OK and self.cursor_seq < seq:
            self.advance()
        self._give_up_before_cursor(seq)

    def _enter(self, block):
        """Cursor to the first record of a sector."""
        self.cursor_seq = self._first_of(block)
        self._cursor_block = block
        self._cursor_offset = self._padded(_HEADER)
        self._cursor_end = -1

    def load(self):
        """Read the message at the cursor. OK, or EMPTY when none is left.

        It stands in `buffer` until the next call of any method: topic_at, topic_length, behind it payload_length bytes; flags.
        cursor_seq tells its number, which may have jumped over freed ones.
        """
        if self._busy:
            return _EMPTY
        if self.cursor_seq < self.oldest_seq:
            self.seek(self.oldest_seq)
        wanted = self.cursor_seq
        status = self._load()
        if status == _OK:
            self._give_up_before_cursor(wanted)
        return status

    def _give_up_before_cursor(self, wanted):
        """The oldest message was looked for, and the cursor jumped: what lies between was freed, or the flash has lost it."""
        if wanted == self.oldest_seq and self.cursor_seq > wanted:
            self.unreadable += self.cursor_seq - wanted
            self.discard_through(self.cursor_seq - 1)

    def _load(self):
        while self.cursor_seq < self.next_seq:
            at = self._record_at_cursor()
            if at >= 0 and self._found(at):
                return _OK
            if at < 0 and not self._next_sector():
                return _EMPTY
        return _EMPTY

    def _record_at_cursor(self):
        salt = self._salt
        if self._cursor_block != self._head:
            if self._cursor_end < 0:
                self._leave_head()
            if self.cursor_seq == self._cursor_end:
                return -1
            salt = self._cursor_salt
        return self._record_valid(self._cursor_block, self._cursor_offset, salt ^ self.cursor_seq)

    def _leave_head(self):
        """The cursor's sector is no longer the head: note its salt, and the number at which the next one begins.

        A record from that number on was given up (its program failed), and the number used again.
        """
        self._read(self._cursor_block, 0)
        self._cursor_salt = self._crc_at(28)
        self._cursor_end = self._first_of((self._cursor_block + 1) % self.blocks)

    def _next_sector(self):
        if self._cursor_block == self._head:
            return False
        self._enter((self._cursor_block + 1) % self.blocks)
        return True

    def _found(self, at):
        buf = self.buffer
        if buf[at] & 0x0F != _MESSAGE:
            self._cursor_offset += self._record_size
            return False
        self.flags = buf[at] & 0x70
        self.topic_at = at + 12
        self.topic_length = buf[at + 1]
        self.payload_length = u16(buf, at + 2)
        return True

    def advance(self):
        """Cursor to the record behind the one that load() gave."""
        self._cursor_offset += self._padded(self.topic_length + self.payload_length + _OVERHEAD)
        self.cursor_seq += 1

    # --- Free ---

    def discard(self, seq):
        """Message seq is done with, in order or out of order within 16 of the oldest. In RAM; the next record writes it down."""
        distance = seq - self.oldest_seq
        if seq >= self.next_seq or not 0 <= distance <= _ACK_BITS:
            return False
        if distance:
            self.acked |= 1 << (distance - 1)
        else:
            self._free_oldest()
        return True

    def _free_oldest(self):
        acked = self.acked
        self.oldest_seq += 1
        while acked & 1:
            self.oldest_seq += 1
            acked >>= 1
        self.acked = acked >> 1

    def discard_through(self, seq):
        """All messages up to and including seq are done with."""
        if seq - self.oldest_seq > _ACK_BITS:
            self.acked = 0
            self.oldest_seq = min(seq + 1, self.next_seq)
        while self.oldest_seq <= seq and self.oldest_seq < self.next_seq:
            self._free_oldest()
