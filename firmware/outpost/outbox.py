"""Persistent FIFO of messages in NOR flash: whatever append() returned OK for survives a power cut at any later moment.

A ring of sectors (`sectors.py`) between the oldest message held and the head. Knows no MQTT: a message is a topic, a payload
and flag bits. Recovery and power-fail argument: `firmware/OUTBOX_FORMAT.md`.

Acknowledgements ride on the next record (`oldest`, and `acked` bit i = oldest + 1 + i), so they cost no program of their own;
a cut forgets those that no record carried yet, and these messages are sent again.

Allocation: construction, mount() and format() only. Not for use from interrupts; a call from inside a call gets BUSY.
"""

from micropython import const

from outpost.ring import Ring
from outpost.sectors import crc30, u16

_OK = const(0)
_FULL = const(-1)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_STORAGE = const(-5)
_EMPTY = const(-7)

_BLOCK_BYTES = const(4096)
_MESSAGE = const(1)
_STATE = const(2)
_ROOM = const(0)  # no record: only the room for one
_HEADER = const(32)
_OVERHEAD = const(16)
_SEQ_MASK = const(0x3FFFFFFF)


class Outbox(Ring):
    """The FIFO. After mount(): append() at one end; seek(), load(), advance() read; discard() frees at the other end.

    Arguments: see Sectors. To read: next_seq, oldest_seq, stream (8 hex digits, bytes), boot, cursor_seq, and the counters
    appended, refused, dropped, unreadable, damaged, programs, erases, sealed_torn, storage_errors.
    When full it refuses; `policies.py` has the other two ways.
    """

    renumbers = False  # True where a kept message may get a new number (collector mode cannot follow that)

    def _reset(self):
        Ring._reset(self)
        self.appended = self.refused = self.dropped = self.unreadable = 0
        self._cursor_block = self._cursor_offset = self._cursor_salt = self._cursor_end = 0
        self.cursor_seq = -1  # before the oldest: load() seeks
        self.flags = self.topic_at = self.topic_length = self.payload_length = 0

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
        self._topic, self._payload = topic, payload
        self._topic_length, self._length = len(topic), length
        return _OK

    def store(self, flags):
        """Second half of append()."""
        if self.next_seq == _SEQ_MASK and not self._renew():
            return _FULL
        status = self._guarded(_MESSAGE | flags)
        self.appended += status == _OK
        self.refused += status == _FULL
        return status

    def reserve(self, length):
        """Make room for a message of `length` bytes of topic and payload, as append() would: OK, FULL, TOO_BIG, BUSY.

        For a message that is to tell `oldest_seq`, which this may move (policies).
        """
        status = self.stage(b"", b"", length)
        return status or self._guarded(_ROOM)

    def save_state(self):
        """Write the acknowledgements down by themselves, if they changed: when idle, before sleep. Status as append()."""
        if self._saved_oldest == self.oldest_seq and self._saved_acked == self.acked:
            return _OK
        return self._save()

    def _save(self):
        return self.stage(b"", b"", 0) or self._guarded(_STATE)

    @property
    def unsaved(self):
        """Messages done with that no record tells of: so many may come again after a power cut (not counted: out of order)."""
        return self.oldest_seq - self._saved_oldest

    def _renew(self):
        """Numbers are used up, after 2^30 messages: a new stream, once the old one is empty. False until then."""
        if self.oldest_seq != self.next_seq:
            return False
        self.stream = b"%08x" % crc30(self.stream, 0, 8, self.boot)  # takes heap: once in 34 years at one message a second
        self.next_seq = self.oldest_seq = self.acked = 0
        self.cursor_seq = -1  # before the oldest: load() seeks
        self._offset = _BLOCK_BYTES
        return True

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
        if not self._make_room(self._padded(self._topic_length + self._length + _OVERHEAD)):
            return _FULL
        if kind == _ROOM:
            return _OK
        if not self._write_record(kind):
            return _STORAGE
        self.next_seq += kind & 0x0F == _MESSAGE
        self._saved_oldest = self.oldest_seq
        self._saved_acked = self.acked
        return _OK

    # --- Read ---

    def seek(self, seq):
        """Cursor to message seq, or to the oldest one held if that is younger."""
        seq = max(seq, self.oldest_seq)
        low, high = 0, (self._head - self._tail) % self.blocks
        while low < high:  # the last sector that begins at seq or before, by halving
            middle = (low + high + 1) // 2
            if self._first_of((self._tail + middle) % self.blocks) <= seq:
                low = middle
            else:
                high = middle - 1
        self._enter((self._tail + low) % self.blocks)
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
            if self.cursor_seq < self.oldest_seq:  # and the one found was done with as well
                self.seek(self.oldest_seq)
                status = self._load()
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
        at = self._record_valid(self._cursor_block, self._cursor_offset, salt ^ self.cursor_seq)
        return at if at >= 0 else self._skip_damaged(salt)

    def _skip_damaged(self, salt):
        """Cursor over a record that the flash has lost, to the next of its sector. -1 when there is none."""
        offset = self._go_on(self._cursor_block, self._cursor_offset, salt, self.cursor_seq)
        end = self.next_seq if self._cursor_block == self._head else self._cursor_end
        if offset < 0 or self._seq_found >= end:
            return -1
        self._cursor_offset = offset
        self.cursor_seq = self._seq_found
        return self._record_valid(self._cursor_block, offset, salt ^ self.cursor_seq)

    def _leave_head(self):
        """The cursor's sector is no longer the head: note its salt, and the number at which the next one begins.

        A record from that number on was given up (its program failed), and the number used again.
        """
        self._read(self._cursor_block, 0)
        self._cursor_salt = self._crc_at(28)  # of a lost header too: if the damage is elsewhere in it, its records are readable
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
