"""The ring of sectors: which erase block is next, which are free, and which are left out.

    block    |  0   |  1   |  2   |  3   |  4   |  5   |  6   |  7   |
             | free | tail |      | bad  |      | head | free | lent |
    sector_no   ->    17     18            19     20     ->

From tail to head the numbers of the sectors rise, by one unless a sector could not be opened: a
number is never written twice. A block that takes no erase or no program is left out, and so is one
that is lent (`shelf.py`): the ring goes on in the next one. Must not know what is in a record
(`sectors.py`), nor which messages are released (`outbox.py`).

Allocation: construction; when a block is left out or lent.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import u32, unload
from outpost.sectors import Sectors

_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_SEQ_MASK = const(0x3FFFFFFF)


class Ring(Sectors):
    """Opens sectors, and erases free blocks for them. For `device` and the other arguments see
    Outbox."""

    left_out = 0  # bad blocks
    _out = ()  # blocks that are not in the ring: the bad ones, and those that are lent
    lent = ()  # of these, the blocks that mount() found lent: see `shelf.py`
    _is_worn_out = False  # fewer than two blocks work: nothing is stored
    _failed_block = -1  # the block in which a sector could not be opened, once
    # What mount() could not be sure of, bit by bit. 1: a free block may hold a torn sector; 2: the
    # head's header may be torn, and read differently later; 4: because of the block after the head
    # numbers were skipped, so it stays until a sector has the new ones; 8: they were because of
    # the head's torn end.
    _doubt = 0

    def __init__(self, device, record_bytes, align, page_bytes):
        Sectors.__init__(self, device, record_bytes, align, page_bytes)
        self._busy = True  # inside a call; and before mount(), so that nothing is stored or erased
        self._tail = 0  # block of the oldest sector with a message that is held
        self._ready = -1  # the block that is erased for the next sector; -1: none

    # --- The next block ---

    def _make_room(self, size):
        """As _has_room(). A policy may drop messages for it."""
        return self._has_room(size)

    def _has_room(self, size):
        """True when the head has room for `size` bytes, in a fresh sector if need be; False when
        the ring is full."""
        if self._limit < 0:
            self._resume()
        return self._offset + size <= self._limit or self._open_sector()

    def _resume(self):
        """Before the first record since mount(): check again that its place is erased."""
        if self._doubt:
            try:
                from outpost import outbox_settle

                outbox_settle.settle(self)
                unload("outpost.outbox_settle")
            except MemoryError:
                self._offset = _BLOCK_BYTES  # a fresh sector does as well
            self._doubt = 0
        elif not self._rest_is_blank(self._head, self._offset):
            self._offset = _BLOCK_BYTES
        self._limit = abs(self._limit)

    def _open_sector(self):
        """Begin a sector in the next free block that can be erased. False: there is none."""
        block = self._next_free()
        if block < 0:
            return False
        self._ready = -1
        if self._failed_block >= 0 and self._failed_block != block:
            self._failed_block = -1
        self._follow_head()
        # The ring has passed the cursor, which would go on here, past the sectors that are held.
        if self._cursor_block == block or self._cursor_block in self._out:
            self._cursor_seq = -1
        if self.oldest_seq == self.next_seq:
            self._tail = block
        self._sector_no = (self._sector_no + 1) & _SEQ_MASK  # also if the last one did not open
        self._head = block
        self._first_seq = self.next_seq
        self._has_header = False  # it is programmed together with the first record
        self._offset = max(_HEADER, self._align)
        self._limit = _BLOCK_BYTES
        return True

    def _next_free(self):
        """The block for the next sector, erased; -1: the ring is full."""
        while True:
            if self._is_worn_out:
                raise OSError
            block = self._head
            if self._has_header or block in self._out:
                block = self._after(block)
                if block == self._head or not self._is_free(block):
                    return -1
            # else reuse this block, because the sector before must stay
            if self._ready == block or self._clear(block):
                return block

    def _after(self, block):
        """The next block of the ring."""
        while True:
            block = (block + 1) % self.blocks
            if block not in self._out:
                return block

    def _is_free(self, block):
        """True when no message is held in `block`, the one after the head. Moves the tail up to the
        oldest message held."""
        if self._tail == block:
            block = self._after(block)
            if self._first_of(block) > self.oldest_seq:
                return False
            self._tail = block
        return True

    def _first_of(self, block):
        """Returns first_seq of a sector from tail to head, or that of the next sector when the
        flash has lost its header."""
        while block != self._head:
            if block not in self._out and self._load_header(block):
                return u32(self.buffer, 16)
            block = (block + 1) % self.blocks
        return self._first_seq

    def erase_ahead(self) -> bool:
        """Erase the next block now, so that a later append() does not wait 45-400 ms for it. True
        when it erased one."""
        block = self._after(self._head)
        if self._busy or self._ready == block or not self._has_header:
            return False
        if block == self._head or self._is_worn_out or self._doubt & 4:
            return False
        self._busy = True
        try:
            block = self._clear_free(block)
        finally:
            self._busy = False
        return block

    def _clear_free(self, block):
        try:
            if self._doubt:
                self._resume()
                block = self._after(self._head)
            return self._ready == block or (self._is_free(block) and self._clear(block))
        except OSError:
            self.storage_errors += 1
            return False

    # --- Blocks that are left out ---

    def _clear(self, block):
        """Erase a block that holds nothing, and check that it is erased. False: two attempts
        failed, so the block is left out."""
        if self._is_cleared(block) or self._is_cleared(block):
            self._ready = block
            return True
        self._leave_out(block)
        return False

    def _is_cleared(self, block):
        try:
            self._erase(block)
            if self._rest_is_blank(block, 0):
                return True
        except OSError:
            pass
        self.storage_errors += 1
        return False

    def _leave_out(self, block):
        """Stop using a bad block. The ring needs two others."""
        if self.blocks - len(self._out) < 3:
            self._is_worn_out = True
        elif block not in self._out:
            self._out += (block,)
            self.left_out += 1

    def _note_failure(self):
        """Count a failed program. If a sector cannot be opened in a block for the second time, the
        block is left out."""
        self.storage_errors += 1
        if not self._has_header:
            if self._failed_block == self._head:
                self._leave_out(self._head)
            self._failed_block = self._head
