"""Persistent FIFO of messages in NOR flash: a message for which append() returned OK survives a
power cut at any later moment.

The records are in a ring of sectors (`ring.py`). The messages from `oldest_seq` on are held, except
those that `acked` marks (bit i: oldest_seq + 1 + i). Must not know MQTT: a message is a topic, a
payload and flag bits. Recovery and power-fail argument: `firmware/OUTBOX_FORMAT.md`.

The next record carries the acknowledgements, so they cost no program of their own. A cut loses
those that no record has carried yet, and their messages are sent again.

Allocation: construction, mount() and format(); when a block is left out or lent; and when the first
append() after mount() has a doubt to settle. Not for use from interrupts; a call from inside a call
returns BUSY.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.checksum import skip_records
from outpost.flash.ring import Ring
from outpost.memory import u32, unload

_OK = const(0)
_FULL = const(-1)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_STORAGE = const(-5)
_EMPTY = const(-7)

_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_OVERHEAD = const(16)
_PREFIX = const(12)
_MESSAGE = const(1)
_STATE = const(2)
_ROOM = const(3)  # not a record: only room for one
_SEQ_MASK = const(0x3FFFFFFF)
_ACK_BITS = const(16)
_JUMP = const(254)  # see `flash/mount.py`


class Outbox(Ring):
    """The FIFO. After mount(): append() at one end; load() reads; discard() releases at the other.

    device: block device of at least 2 blocks of 4,096 bytes.

    record_bytes: the largest record, which is topic + payload + 16; at least 64, and with the
    header it must fit into a block.

    align: start of records, in bytes: 4 by default, 32 for encrypted flash, equal to page_bytes for
    flash with ECC ("strict").

    page_bytes: unit of every program and read; 256 on RP2, whose driver sends whole pages.

    align and page_bytes are powers of two: 4 <= align <= 256, align <= page_bytes <= 4096.
    ValueError names the argument that does not fit.

    To read: next_seq, oldest_seq, acked, stream (8 hex digits, bytes), boot, buffer, record_bytes,
    and the counters refused, dropped, unreadable, damaged, erases, sealed_torn,
    storage_errors, mended, left_out. A full outbox refuses messages; `policies.py` has two other
    ways."""

    # Class attributes, because they are rarely other than 0, and fewer fields are found faster.
    refused = 0  # messages refused since mount() because the ring was full
    dropped = 0  # messages given up since mount() by a policy, to make room
    unreadable = 0  # messages lost by the flash since mount()
    _may_be_longer = False  # a sector may hold records that are longer than record_bytes
    _shelf = None  # a Shelf, while messages are set aside
    # True where a kept message may get a new number, which collector mode cannot follow.
    renumbers = False
    # True: the caller stores a message after mount() and before it loads one, as after deep sleep.
    # Then mount() programs nothing.
    settles_later = False
    # The state note, which each state record carries: see `state_note.py`.
    note: "bytes | bytearray" = b""
    note_length = 0

    def __init__(self, device, record_bytes=512, align=4, page_bytes=256):
        Ring.__init__(self, device, record_bytes, align, page_bytes)
        self.aside = 0  # messages set aside
        self._saved_oldest = self._saved_acked = 0  # oldest_seq and acked in the newest record
        self._shown_end = _SEQ_MASK  # messages from here on may be torn: load() does not show them
        self._mounted_seq = 0  # next_seq as mount() left it, skipped numbers included

    def mount(self) -> int:
        """Find the messages. OK, or BLANK, FOREIGN, NEWER, GEOMETRY, SHORT_RECORDS,
        SHORT_DEVICE: see `outpost.status`.

        Reads only, unless the newest message may be torn: then two records mark it as used, once. A
        start that finds them writes nothing (`flash/settle.py`).

        Allocates 12 bytes per block, and frees them. Reads each header once, and the newest sector.
        """
        unload("outpost.flash.setup")  # the constructor's
        from outpost.flash import mount

        status = mount.mount(self)
        unload("outpost.flash.mount")
        return status

    def _prove(self):
        """The newest message that mount() found may be torn, and be gone at the next mount. So
        before its number becomes visible, a later record marks it as used (`flash/settle.py`)."""
        from outpost.flash import settle

        settle.prove(self)
        unload("outpost.flash.settle")

    def format(self, stream: bytes, force: bool = False, first_seq: int = 0) -> int:
        """Make an empty outbox and mount it. stream: 8 random hex digits (bytes; else ValueError).
        FOREIGN if something is there, unless force."""
        from outpost.flash import make

        status = make.make(self, stream, force, first_seq)
        unload("outpost.flash.make")
        return status or self.mount()

    # --- Append ---

    def append(
        self, topic: "bytes | bytearray", payload: "bytes | bytearray", length: int, flags=0x10
    ) -> int:
        """Store payload[:length] under topic (bytes). flags: QoS << 4 | RETAIN << 6. OK, FULL,
        TOO_BIG, BUSY, STORAGE.

        Power cut during the call: the message is whole or absent. After OK it survives. After
        STORAGE the record may be in flash, but that is not guaranteed.
        """
        if self._busy:
            return _BUSY
        topic_length = len(topic)
        if topic_length > 255 or topic_length + length + _OVERHEAD > self.record_bytes:
            return _TOO_BIG
        self._topic = topic
        self._payload = payload
        if not flags & 3:
            flags |= _MESSAGE
        return self._guarded(flags | topic_length << 8 | length << 16)

    def _guarded(self, first):
        """first: the first four bytes of the record, kind to payload length."""
        self._busy = True
        try:
            first = self._put(first)  # the status from here on: a frame with `try` has two locals
        except OSError:
            self._note_failure()
            first = _STORAGE
        except BaseException:
            self._busy = False
            raise
        self._busy = False
        return first

    def reserve(self, length: int) -> int:
        """Make room for a message with `length` bytes of topic and payload, as append() would. OK,
        FULL, TOO_BIG, BUSY, STORAGE.

        For a message that reports `oldest_seq`, which making room may move (policies).
        """
        return self.append(b"", b"", length, _ROOM)

    def save_state(self) -> int:
        """Write a record with the acknowledgements alone, if they changed. Call it when idle, or
        before sleep. Status as append()."""
        if self._shown_end < _SEQ_MASK and not self._busy:
            self._prove()
        if self._saved_oldest == self.oldest_seq and self._saved_acked == self.acked:
            return _OK
        return self.append(b"", self.note, self.note_length, _STATE)

    def erase_ahead(self) -> bool:
        """Erase the next block now, so that a later append() does not wait 45-400 ms for it. True
        when it erased one."""
        if self._shown_end < _SEQ_MASK and not self._busy:
            self._prove()
        return Ring.erase_ahead(self)

    def unsaved(self) -> int:
        """Messages acknowledged since the last record, which a power cut brings back. Those
        acknowledged out of order are not counted."""
        return self.oldest_seq - self._saved_oldest

    def _put(self, first):
        """Write the record. If the flash refuses it, use the next sector that accepts it."""
        for_message = first & 3 == _MESSAGE
        if for_message and self.next_seq == _SEQ_MASK:
            from outpost.flash import make

            if not make.start_stream(self):
                return _FULL
        size = -(-(first >> 16) - (first >> 8 & 0xFF) - _OVERHEAD & -self._align)  # rounded up
        if self._offset + size > self._limit and not self._make_room(size):
            self.refused += for_message
            return _FULL
        if first & 3 == _ROOM:
            return _OK
        tries = 6
        while not self._write_record(first, size):
            self._note_failure()
            tries -= 1
            if not tries or not self._make_room(size):
                return _STORAGE
        if for_message:
            size = self.loaded_seq = self.next_seq  # it was read back, and is still in the buffer
            self.next_seq = size + 1
        self._saved_oldest = self.oldest_seq
        self._saved_acked = self.acked
        return _OK

    # --- Read ---

    def load(self, seq: int) -> int:
        """Read message number seq, or the next one that is held. OK; EMPTY: there is none.

        Programs nothing. With settles_later, EMPTY also for the newest one that mount() found,
        until a message or the state was stored.

        Until the next call of any method it is in `buffer`: the topic at topic_at, topic_length
        bytes, then payload_length bytes; flags; loaded_seq is its number. Messages that flash has
        lost at the old end are given up. load(loaded_seq + 1) takes one read; any other number
        needs a search.
        """
        if self._busy:
            return _EMPTY
        if seq < self.oldest_seq:
            seq = self.oldest_seq
        if seq == self.loaded_seq:
            if seq == self._cursor_seq:  # just appended: the cursor moves past it
                self._cursor_seq = seq + 1
                self._cursor_block = self._head
                self._cursor_offset = self._offset
            return _OK
        try:
            return self._load(seq)
        except OSError:
            self.storage_errors += 1
            self._cursor_seq = self.loaded_seq = -1
            return _EMPTY

    def _load(self, seq):
        at = self._search(seq)
        if at < 0:
            return _EMPTY
        if self._cursor_seq > self._shown_end and self.next_seq == self._mounted_seq:
            return _EMPTY
        self.loaded_seq = self._cursor_seq - 1
        self.flags = self.buffer[at] & 0x70
        self.topic_at = at + _PREFIX
        self.topic_length = self.buffer[at + 1]
        self.payload_length = u32(self.buffer, at) >> 16
        return _OK

    def _search(self, seq):
        """As _find(), and gives up what flash has lost at the old end."""
        if seq != self._cursor_seq:
            self._seek(seq)
            self._advance(seq)
        at = self._find(seq)
        found = self._cursor_seq - (at >= 0)
        if seq == self.oldest_seq and seq < found:  # those between were released, or are lost
            if (found - seq) % _JUMP:  # else mount() passed over these numbers, maybe again
                self.unreadable += found - seq
            self.discard_through(found - 1)
            if found < self.oldest_seq:  # the one found was acknowledged as well
                return self._search(self.oldest_seq)
        return at

    def _find(self, seq):
        """Returns the offset in the buffer of the first message from number seq on; -1: there is
        none."""
        while True:
            self._follow_head()
            at = self._next_record()
            if at < 0:
                if self._cursor_block == self._head:  # anything that follows is lost
                    self._cursor_seq = self.next_seq
                    self._cursor_offset = self._offset
                    return at
                self._enter((self._cursor_block + 1) % self.blocks)
            elif self.buffer[at] & _MESSAGE and self._cursor_seq > seq:
                return at

    def _seek(self, seq):
        """Move the cursor to the last sector that begins at seq or before, by binary search."""
        low, high = 0, (self._head - self._tail) % self.blocks
        while low < high:
            middle = (low + high + 1) // 2
            if self._first_of((self._tail + middle) % self.blocks) <= seq:
                low = middle
            else:
                high = middle - 1
        self._enter((self._tail + low) % self.blocks)

    def _enter(self, block):
        """Move the cursor to the first record of a sector."""
        if block != self._head:
            self._cursor_end = self._first_of((block + 1) % self.blocks)
        self._cursor_seq = self._first_of(block)
        # A sector that has lost its header seems to begin where the next one does: none of it is
        # read.
        self._cursor_salt = u32(self.buffer, 28)
        self._cursor_block = block
        self._cursor_offset = max(_HEADER, self._align)
        self._follow_head()

    def _advance(self, seq):
        """Move the cursor to message seq of its sector, by the lengths of the records before it.
        The CRC of the record there, salted with its number, shows whether the lengths are right. If
        not, the cursor stays."""
        offset = self._cursor_offset
        left = seq - self._cursor_seq
        while left > 0 and offset < _BLOCK_BYTES:
            at = self._read(self._cursor_block, offset)
            at = skip_records(self.buffer, at, self._filled, self._align, left)
            if not at:  # else messages passed << 13 | bytes
                return
            offset += at & 0x1FFF
            left -= at >> 13
        if not left and offset < _BLOCK_BYTES:
            at = self._read(self._cursor_block, offset)
            if self._fits(at, self._cursor_salt ^ seq):
                self._cursor_seq = seq
                self._cursor_offset = offset

    def _follow_head(self):
        """If the cursor is in the head sector, its end is that sector's present end."""
        if self._cursor_block == self._head:
            self._cursor_salt = self._salt
            self._cursor_end = self.next_seq

    # --- Free ---

    def discard(self, seq: int) -> bool:
        """Release message seq, the oldest or one of the 16 after it. False: it is not held, or is
        further from the oldest. This happens in RAM; the next record stores it."""
        if seq == self.oldest_seq < self.next_seq and not self.acked:
            self.oldest_seq = seq + 1
            return True
        distance = seq - self.oldest_seq
        if seq >= self.next_seq or not 0 <= distance <= _ACK_BITS:
            return False
        distance = self.acked << 1 | 1 << distance  # bit i: oldest_seq + i
        while distance & 1:
            self.oldest_seq += 1
            distance >>= 1
        self.acked = distance >> 1
        return True

    def discard_through(self, seq: int) -> None:
        """Release all messages up to and including seq."""
        seq = min(seq, self.next_seq - 1)
        if seq - self.oldest_seq > _ACK_BITS:
            self.oldest_seq, self.acked = seq, 0
        done = self.acked << 1  # bit i: oldest_seq + i
        while self.oldest_seq <= seq or done & 1:
            self.oldest_seq += 1
            done >>= 1
        self.acked = done >> 1

    def shelf(self):
        """The messages that were set aside: a Shelf (`shelf.py`). Raises MemoryError."""
        if not self._shelf:
            from outpost.flash.shelf import Shelf

            self._shelf = Shelf(self)
        return self._shelf
