"""A ring of sectors: finds head and tail at mount, opens the next block, knows which messages are done with.

Between tail and head every sector's number is one more than that of the block before; a message is held from `oldest_seq` on, but
for those that `acked` names (bit i: oldest_seq + 1 + i). Knows no order of use: `outbox.py` appends and reads.

Allocation: construction, mount() and format() only.
"""

from array import array

from micropython import const

from outpost.sectors import Sectors, crc30, u32

_OK = const(0)
_BLANK = const(-10)
_FOREIGN = const(-11)
_NEWER = const(-12)
_GEOMETRY = const(-13)

_BLOCK_BYTES = const(4096)
_VERSION = const(1)
_MESSAGE = const(1)
_HEADER = const(32)
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_ACK_BITS = const(16)


class Ring(Sectors):
    """Arguments: see Sectors."""

    def _reset(self):
        Sectors._reset(self)
        self._busy = False
        self._saved_oldest = self._saved_acked = 0
        self._tail = 0
        self._ready = -1  # the block that was erased ahead

    # --- Mount: reads only ---

    def mount(self):
        """Find the messages. OK, or BLANK, FOREIGN, NEWER, GEOMETRY: see `outpost.status`. Programs and erases nothing.

        Takes 12 bytes of heap a block, and gives them back. Reads each header once, and the newest sector.
        """
        self._reset()
        headers = array("i", [-1] * (3 * self.blocks))  # sector_no, first_seq, CRC of the stream
        status = self._find_head(headers)
        if status != _OK:
            return status
        self._scan_head()
        self._find_tail(headers)
        self.boot = (self.boot + 1) & 0xFFFF
        return _OK

    def _find_head(self, headers):
        found, newer, last = -1, False, 0
        for block in range(self.blocks):
            if self._load_header(block):
                newer = newer or self.buffer[2] > _VERSION
                sector_no = headers[3 * block] = u32(self.buffer, 4)
                headers[3 * block + 1] = u32(self.buffer, 16)
                headers[3 * block + 2] = crc30(self.buffer, 8, 16, 0)
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
        while True:
            at = self._record_valid(self._head, offset, self._salt ^ self.next_seq)
            if at >= 0:
                self._take_record(at)
                offset += self._record_size
                continue
            further = self._go_on(self._head, offset, self._salt, self.next_seq)
            if further < 0:
                break
            self.damaged += 1
            offset, self.next_seq = further, self._seq_found
        self._offset = offset
        if not self._rest_is_blank(self._head, offset):
            self.sealed_torn += 1
            self._offset = _BLOCK_BYTES
        self._saved_oldest, self._saved_acked = self.oldest_seq, self.acked

    def _take_record(self, at):
        self._take_state(at + 4)
        self.next_seq += self.buffer[at] & 0x0F == _MESSAGE

    def _find_tail(self, headers):
        """Go back over the sectors whose numbers follow to the one that holds the oldest message."""
        first = self._first_seq
        for distance in range(1, self.blocks):
            if first <= self.oldest_seq:
                break
            block = (self._head - distance) % self.blocks
            fits = headers[3 * block] == (self._sector_no - distance) & _SEQ_MASK
            if fits and headers[3 * block + 2] == headers[3 * self._head + 2]:
                self._tail, first = block, headers[3 * block + 1]
        if first > self.oldest_seq:  # the older ones were acknowledged and erased; the word of it was in RAM only
            self.discard_through(first - 1)

    def format(self, stream, force=False, first_seq=0):
        """Make an empty outbox. stream: 8 hex digits (bytes), random. FOREIGN when something is there, unless force."""
        status = self.mount()
        if status != _BLANK and not force:
            return _FOREIGN
        # Each block is erased before its first use in any case: here only what could be taken for an outbox.
        for block in range(1 if status == _BLANK else self.blocks):
            self._erase(block)
        self._reset()
        self.stream = stream
        self._first_seq = self.oldest_seq = first_seq
        self._write_header()
        return self.mount()

    # --- The next block ---

    def _make_room(self, size):
        """True when the head has room for `size` bytes, in a fresh sector if need be; False when the ring is full."""
        if self._offset + size <= _BLOCK_BYTES:
            return True
        if not self._has_header:  # it did not come through; the sector before must stay, so try this block again
            self._open(self._head)
            return True
        block = (self._head + 1) % self.blocks
        if not self._is_free(block):
            return False
        self._open(block)
        return True

    def _open(self, block):
        if self._ready != block:
            self._erase(block)
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
        """first_seq of a sector between tail and head; of the one behind it when the flash has lost its header."""
        while block != self._head:
            if self._load_header(block):
                return u32(self.buffer, 16)
            block = (block + 1) % self.blocks
        return self._first_seq

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
