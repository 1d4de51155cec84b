"""An outbox that keeps a note beside the messages: a few bytes that survive a power cut, for what a protocol must remember.

A note is the payload of a state record, and stands in the newest sector always: when a sector is opened, it goes in first. Costs
one program when it changes, and one a sector while it is not empty. (For QoS 2: which messages were released, and which
arrived. A class of its own, so that boards that do not use it do not pay.)
"""

from micropython import const

from outpost.memory import copy, u32
from outpost.outbox import Outbox

_OK = const(0)
_FULL = const(-1)
_TOO_BIG = const(-2)
_NOTE_BYTES = const(72)
_BLOCK_BYTES = const(4096)
_MESSAGE = const(1)
_STATE = const(2)
_OVERHEAD = const(16)
_SEQ_MASK = const(0x3FFFFFFF)


class NotedOutbox(Outbox):
    """note[:note_length] is what the last set_note() that returned OK wrote.

    When full it refuses, with one block kept for notes. No mixin for the policies: MicroPython's super() knows no second base.
    """

    def set_note(self, data, length):
        """Remember data[:length], at most 72 bytes. Status as append(); a power cut inside leaves the old note or the new one."""
        if length > _NOTE_BYTES:
            return _TOO_BIG
        status = self.append(b"", data, length, _STATE)
        if status == _OK:
            self.note_length = copy(self.note, 0, data, 0, length)
        return status

    def mount(self):
        """As Outbox.mount(). A newest sector without any record was torn at its first: the note is in the one before, and must
        not be erased with it, so the torn one is to be opened again."""
        self.note, self.note_length = bytearray(_NOTE_BYTES), 0
        status = Outbox.mount(self)
        if status == _OK and not self._take_note(self._head):
            before = (self._head - 1) % self.blocks
            if self._load_header(before) and u32(self.buffer, 4) == (self._sector_no - 1) & _SEQ_MASK:
                self._take_note(before)
            if self.note_length:
                self._has_header = False
                self._offset = _BLOCK_BYTES
        return status

    def _take_note(self, block):
        """The last note of a sector. True when there is any record in it."""
        self._enter(block)
        self._follow_head()
        self._cursor_end = -1  # a state record may stand behind the last message
        found = False
        at = self._next_record()
        while at >= 0:
            found = True
            if self.buffer[at] == _STATE:
                self.note_length = copy(self.note, 0, self.buffer, at + 12, min(u32(self.buffer, at) >> 16, _NOTE_BYTES))
            at = self._next_record()
        self._cursor_seq = -1
        return found

    def _put(self, kind):
        """A message is refused while no block is spare: in a ring full of messages no note could be written, so that no exchange
        of QoS 2 came to its end, and none of the messages ever went."""
        if kind & 3 == _MESSAGE and not self._is_free((self._head + 1) % self.blocks):
            self.refused += 1
            return _FULL
        return Outbox._put(self, kind)

    def _write_record(self, first, size):
        if not self._has_header and self.note_length and first & 0xF != _STATE:
            if not self._write_note_first():
                return False
        return Outbox._write_record(self, first, size)

    def _write_note_first(self):
        """Write the first record of a fresh sector. The message that is being stored waits."""
        payload = self._payload
        self._payload = self.note
        size = -(-self.note_length - _OVERHEAD & -self._align)  # rounded up
        # If it fails, the block is opened again: the sector before has the note.
        self._has_header = Outbox._write_record(self, _STATE | self.note_length << 16, size)
        self._payload = payload
        return self._has_header

    def _make_room(self, size):
        """With room for the note, should the message open a sector."""
        if self._offset + size > _BLOCK_BYTES or not self._has_header:
            size -= -(self.note_length + _OVERHEAD) & -self._align  # rounded up
        return Outbox._make_room(self, size)
