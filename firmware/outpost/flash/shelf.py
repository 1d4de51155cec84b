"""Messages that are set aside, in flash: one erase block that the ring of an `Outbox` lends. Loaded
when the first message is set aside, or when mount() found the block; unloaded when the last message
has left. The bytes of a block: `shelf_block.py`.

    A message that is set aside is in the ring or on the shelf, never in neither: the newest record
    of the shelf may be torn, and so may a release. So while the ring has a message that is not
    sure, the shelf is not said to have it before its record was copied.

    A block is given back when nothing older can come back: its erase would leave what it replaced.
    If a block takes no erase, the ring's next sector says that what such a block holds is void.

    A block that never held a message may be torn, in its header or its erase: it takes none before
    it was erased.

Records are appended, and none is programmed twice. put() leaves room for the release of every
message. When that is used up, the messages still held are copied to a block with a higher number,
and the old block is erased and returned to the ring. The same happens when no message is held any
more; then the new block, which is empty, is returned too.

Power cut: in put(), the record is whole or absent. In release(), the message is there or gone. In
the copying, both blocks are there: the new one counts if it is confirmed, which is programmed
before the old one is erased.

Must not know why messages are set aside. Allocation: the index, copies of programmed records."""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.checksum import crc30
from outpost.flash.shelf_block import RELEASE, Block, padded, record_of, scan
from outpost.memory import u32, unload

_OK = const(0)
_FULL = const(-1)
_BUSY = const(-3)
_STORAGE = const(-5)
_EMPTY = const(-7)
_BLOCK_BYTES = const(4096)
_PREFIX = const(12)
_OVERHEAD = const(16)
_MESSAGE = const(1)
_STATE = const(2)
_VOID = const(0x8000)  # in a sector header's geometry, and in `Outbox._geometry`
_MARK_AT = const(11)  # above the 30 bits of the stream's CRC
_MARK_BIT = const(0x40)
_MOST_TRIES = const(3)  # bad blocks before giving up


def lend_block(outbox, least=3):
    """Lend a free block, if `least` are there, until take_back(); mount() knows it. -1: none. In a
    full ring one is free that was given back behind the head, until the ring comes round."""
    block, left = outbox._after(outbox._head), outbox.blocks - len(outbox._out)
    if left < least or not outbox._has_header:
        return -1
    if not outbox._is_free(block):
        while not outbox._rest_is_blank(block, 0):
            block = outbox._after(block)
            if block == outbox._head:
                return -1
    outbox._ready = -1
    outbox._out += (block,)
    return block


def take_back(outbox, block):
    """Return a lent block, erased or to be erased, to the ring."""
    outbox._out = tuple([one for one in outbox._out if one != block])
    outbox.lent = tuple([one for one in outbox.lent if one != block])


class Shelf:
    """outbox: mounted. Finds what the blocks in `outbox.lent` hold. Programs and erases nothing
    before a message is added or released."""

    def __init__(self, outbox):
        self._outbox, self.seq = outbox, -1  # seq: of the message that load() found
        self.mark = 0  # 1: that message was put there with a mark
        self._stale = ()  # blocks with an older shelf that took no erase
        found, self._is_unread = [], False
        try:
            found = [scan(outbox, block) for block in outbox.lent]
        except OSError:
            outbox.storage_errors += 1
            self._is_unread = True  # nothing is done with blocks that may hold messages
        # A block that did not take its header may have the number of the next one.
        found = sorted([one for one in found if one], key=lambda one: (one.number, one.records))
        for one in found:
            if one.age < outbox._geometry >> 15:  # void, and bad: see _void()
                outbox.lent = tuple([block for block in outbox.lent if block != one.block])
                outbox.left_out += 1
        found = [one for one in found if one.block in outbox.lent]
        self._top = found[-1].number if found else 0  # the highest number so far
        self._has_rival = False  # a block that was not completed: it would count over releases here
        while len(found) > 1 and not found[-1].counts_over(found[-2]):
            found.pop()
            self._has_rival = True
        self._now = found[-1] if found else Block(-1, 0, 0, outbox._align)
        if not self._now.records:  # its header may be torn, so nothing is appended after it
            self._now.offset = _BLOCK_BYTES
        replaced = self._now.replaced
        if replaced in outbox._out and replaced not in outbox.lent:  # a cut tore its erase
            outbox.left_out -= 1
            outbox.lent += (replaced,)
        self._spare = [block for block in outbox.lent if block != self._now.block]  # to give back
        own = getattr(outbox._device, "own", None)
        if own and found:  # records go into it without a previous erase
            own(self._now.block)

    def _is_in_doubt(self, held):
        """True when the ring has that message, and a later mount may not find it here. (One that
        the ring has released is whole: put() had returned.)"""
        outbox = self._outbox
        distance = held[0] - outbox.oldest_seq
        if held[1] != self._stream() or distance < 0 or held[0] >= outbox.next_seq:
            return False
        return not (outbox.acked << 1) >> distance & 1 and not self._now.is_sure(held)

    # --- What an outbox does with it ---

    def has(self, seq) -> bool:
        """True when message seq of the stream is there; a session treats it as acknowledged."""
        for held in self._now.held:
            if held[0] == seq and held[1] == self._stream():
                return self._now.is_sure(held)
        return False

    def put(self, seq, mark=0) -> int:
        """Copy held message seq to the shelf, durably; it stays in the ring. mark: not 0 for a
        message that the broker took and did not pass on. OK; FULL: no room, or no block that could
        be lent; EMPTY, BUSY, STORAGE."""
        outbox = self._outbox
        if outbox._busy:
            return _BUSY
        if self.has(seq):
            return _OK
        if outbox.load(seq) or outbox.loaded_seq != seq:
            return _EMPTY
        first = outbox.flags | _MESSAGE | outbox.topic_length << 8 | outbox.payload_length << 16
        at, length = outbox.topic_at, outbox.topic_length + outbox.payload_length
        record = record_of(first, seq, self._stream(), outbox.buffer[at : at + length])
        if mark:
            record[_MARK_AT] |= _MARK_BIT
        return self._guarded(self._put, record)

    def load(self, index) -> int:
        """As Outbox.load(), message `index` of the shelf, 0 to aside - 1; loaded_seq is -1, and
        seq and mark are the message's."""
        outbox = self._outbox
        if outbox._busy or not 0 <= index < len(self._now.held):
            return _EMPTY
        try:
            at = self._now.read(outbox, self._now.held[index])
        except OSError:
            return _STORAGE
        if at < 0:
            return _EMPTY
        first = u32(outbox.buffer, at)
        outbox.flags, self.seq = first & 0x70, u32(outbox.buffer, at + 4)
        self.mark = outbox.buffer[at + _MARK_AT] >> 6 & 1
        outbox.topic_at = at + _PREFIX
        outbox.topic_length = first >> 8 & 0xFF
        outbox.payload_length = first >> 16
        return _OK

    def release(self, index) -> int:
        """Remove message `index`, durably. OK; FULL: that takes another block, and none is free;
        EMPTY, BUSY, STORAGE. Without OK, a later mount may find it or not."""
        if self._outbox._busy:
            return _BUSY
        if not 0 <= index < len(self._now.held):
            return _EMPTY
        return self._guarded(self._release, index)

    def _guarded(self, function, argument):
        outbox = self._outbox
        outbox._busy = True
        try:
            status = _STORAGE
            if not self._is_unread:
                self._settle(None)
                status = function(argument)
        except OSError:
            outbox.storage_errors += 1
            status = _STORAGE
        finally:
            outbox._busy = False
            self.count()
        return status

    def count(self):
        """Count the messages. An empty shelf is dropped, and this module unloaded."""
        self._outbox.aside = len(self._now.held)
        if not self._now.held:
            self._outbox._shelf = None
            unload("outpost.flash.shelf")
            unload("outpost.flash.shelf_block")

    def _stream(self):
        stream = self._outbox.stream
        return crc30(0, stream, 0, len(stream))

    # --- Write ---

    def _put(self, record):
        if self._now.is_bare():
            self._tidy(None)
        needed = self._needed(len(record))
        if self._now.offset + needed > _BLOCK_BYTES or not self._add(record):
            status = self._renew(self._now.held, needed)
            if status:
                return status
            if not self._add(record):
                return _STORAGE
        return _OK

    def _needed(self, size):
        """Returns the bytes of a record, its confirmation, and the releases of all messages."""
        align = self._now.align
        return padded(size, align) + (len(self._now.held) + 2) * padded(_OVERHEAD, align)

    def _add(self, record):
        """Append a message and its confirmation. Without the latter it does not count."""
        now, held = self._now, self._now.held
        if now.append(self._outbox, record) and now.confirm(self._outbox):
            return True
        now.held = held
        return False

    def _settle(self, _):
        """Copy the messages in doubt, before a later record would seem to confirm them."""
        for one in [one for one in self._now.held if self._is_in_doubt(one)]:
            at, now = self._now.read(self._outbox, one), self._now
            if now.offset + self._needed(one[3]) > _BLOCK_BYTES or at < 0:
                return self._renew(now.held, 0, 2)
            if not self._add(self._outbox.buffer[at : at + one[3]]):
                return self._renew(now.held, 0, 2)
        return _OK

    def _release(self, index):
        now = self._now
        rest = now.held[:index] + now.held[index + 1 :]
        if self._has_rival:
            self._give_back()
            self._has_rival = self._stale != ()
        is_done = not self._has_rival and self._append_release(now.held[index])
        if not is_done and rest:
            return self._renew(rest, 0, 2)
        if is_done:
            now.held = rest
        if not rest:
            is_done = self._retire() or is_done
        return _OK if is_done else _STORAGE

    def _append_release(self, key):
        now = self._now
        if now.offset + padded(_OVERHEAD, now.align) > _BLOCK_BYTES:
            return False
        return now.append(self._outbox, record_of(RELEASE, key[0], key[1], b""))

    def _retire(self):
        """Give back the block, which holds nothing. A cut erase might leave messages without their
        releases, so an empty shelf follows first, even if only the head is then left in the ring.
        Both blocks are given back. If one takes no erase, and the ring has no room to say that it
        is void, the empty shelf stays, unless the ring needs its block. False: what was there may
        come back."""
        outbox, old = self._outbox, self._now
        is_worn_out = outbox._is_worn_out
        if not old.is_bare():
            block = self._lend(2)
            if block < 0 or not self._follow(old, block, []):
                self._give_back()
                outbox._is_worn_out = is_worn_out
                self._keep_lent(old.block)
                return False
        is_over = not self._stale or self._void()
        if not is_over and not outbox._is_worn_out:
            self._keep_lent(self._now.block)
            return True
        self._spare.append(self._now.block)
        self._now = Block(-1, self._top, 0, outbox._align)
        self._give_back()
        if outbox._is_worn_out and outbox.blocks - len(outbox._out) > 2:  # all are back
            outbox._is_worn_out = is_worn_out
            outbox._leave_out(old.block)
        return is_over or self._void()

    def _void(self):
        """Begin a sector whose header says, as all later ones do, that shelves of an earlier age
        are void. True: it is on flash. Only once in the life of an outbox."""
        outbox = self._outbox
        if outbox._is_worn_out or outbox._geometry & _VOID:
            return False
        if outbox._limit < 0:
            outbox._resume()
        end, outbox._offset = outbox._offset, _BLOCK_BYTES
        if not outbox._has_room(_OVERHEAD):
            outbox._offset = end
            return False
        outbox._geometry |= _VOID
        outbox._topic, outbox._payload = b"", outbox.note
        if outbox._guarded(_STATE | outbox.note_length << 16) == _OK:
            self._stale = ()
        outbox._busy = True
        return not self._stale

    def _keep_lent(self, block):
        """So that tidy() finds it, and why it stays."""
        outbox = self._outbox
        for one in (block,) + self._stale:
            if one in outbox._out and one not in outbox.lent:
                outbox.lent += (one,)
                outbox.left_out -= one != block

    def settle(self):
        """Make sure of what mount() found. A status."""
        return self._guarded(self._settle, None)

    def tidy(self):
        """Give back the blocks that a power cut left lent, if nothing is on them. A status."""
        return self._guarded(self._tidy, None)

    def _tidy(self, _):
        self._give_back()
        if self._now.block >= 0 and not self._now.held:
            self._retire()
        return _OK

    def _renew(self, held, needed, least=3):
        """Continue in another block, with those in `held`. OK; FULL: no room or block; STORAGE."""
        outbox, align = self._outbox, self._outbox._align
        whole = [one for one in held if self._now.read(outbox, one) >= 0]
        outbox.unreadable += len(held) - len(whole)  # lost by the flash
        size = needed + max(_OVERHEAD * 2, align)
        if self._now.block >= 0:
            size += padded(_OVERHEAD, align)  # the confirmation
        for one in whole:
            size += padded(one[3], align)
        block = -1 if size > _BLOCK_BYTES else self._lend(least)
        if block < 0:
            return _FULL
        return _OK if self._follow(self._now, block, whole) else _STORAGE

    def _follow(self, old, block, held):
        """Continue the shelf in `block`, with those in `held`. False: the block refuses them."""
        outbox = self._outbox
        self._top = max(self._top + 1, outbox.next_seq)
        new = Block(block, self._top, 0, outbox._align)
        if not new.begin(outbox, held, old):
            self._spare.append(block)
            return False
        self._now, self._has_rival = new, False
        if old.block >= 0:
            self._spare.append(old.block)
        self._give_back()
        return True

    # --- Blocks ---

    def _lend(self, least=3):
        """Returns an erased block, which is lent; -1: there is none."""
        outbox = self._outbox
        for _ in range(_MOST_TRIES):
            block = self._spare.pop() if self._spare else lend_block(outbox, least)
            if block < 0:
                break
            if self._clear(block):
                outbox._out += (block,)
                return block
        return -1

    def _clear(self, block):
        """Erase a lent block, which returns to the ring. False: it is bad, and left out."""
        outbox = self._outbox
        ready = outbox._ready
        take_back(outbox, block)
        is_clear = outbox._clear(block)
        outbox._ready = ready
        if not is_clear and scan(outbox, block):
            self._stale += (block,)
        return is_clear

    def _give_back(self):
        """Erase the spare blocks, which return to the ring, or are left out."""
        while self._spare:
            self._clear(self._spare.pop())
