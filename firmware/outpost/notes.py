"""An outbox that keeps a note beside the messages: a few bytes that survive a power cut, for what a protocol must remember.

A note is the payload of a state record, and stands in the newest sector always: when a sector is opened, it goes in first. Costs
one program when it changes, and one a sector while it is not empty. (For QoS 2: which messages were released, and which
arrived. A class of its own, so that boards that do not use it do not pay.)
"""

from micropython import const

from outpost.outbox import Outbox
from outpost.sectors import copy, u16, u32

NOTE_BYTES = const(40)

_OK = const(0)
_TOO_BIG = const(-2)
_NOTE_BYTES = const(40)
_BLOCK_BYTES = const(4096)
_MESSAGE = const(1)
_STATE = const(2)
_HEADER = const(32)
_OVERHEAD = const(16)


class NotedOutbox(Outbox):
    """note[:note_length] is what the last set_note() that returned OK wrote. A mixin for the policies: put it first."""

    def _reset(self):
        Outbox._reset(self)
        self.note = bytearray(_NOTE_BYTES)
        self.note_length = self._records = 0

    def set_note(self, data, length):
        """Remember data[:length], at most 40 bytes. Status as append(); a power cut inside leaves the old note or the new one."""
        if length > _NOTE_BYTES:
            return _TOO_BIG
        status = self.stage(b"", data, length) or self._guarded(_STATE)
        if status == _OK:
            copy(self.note, 0, data, 0, length)
            self.note_length = length
        return status

    def _save(self):
        return self.stage(b"", self.note, self.note_length) or self._guarded(_STATE)

    def mount(self):
        """As Outbox.mount(). A newest sector without any record was torn at its first: the note is in the one before, and must
        not be erased with it, so the torn one is to be opened again."""
        status = Outbox.mount(self)
        if status == _OK and not self._records:
            self._take_note_of(self._head, (self._head - 1) % self.blocks)
            if self.note_length:
                self._has_header = False
                self._offset = _BLOCK_BYTES
        return status

    def _take_note_of(self, head, block):
        number = self._sector_no
        if block == head or not self._load_header(block) or u32(self.buffer, 4) != (number - 1) & 0x3FFFFFFF:
            return
        salt, seq, offset = self._crc_at(28), u32(self.buffer, 16), self._padded(_HEADER)
        at = self._record_valid(block, offset, salt ^ seq)
        while at >= 0:
            self._take_note(at)
            seq += self.buffer[at] & 0x0F == _MESSAGE
            offset += self._record_size
            at = self._record_valid(block, offset, salt ^ seq)

    def _take_record(self, at):
        Outbox._take_record(self, at)
        self._records += 1
        self._take_note(at)

    def _take_note(self, at):
        if self.buffer[at] == _STATE:
            self.note_length = min(u16(self.buffer, at + 2), _NOTE_BYTES)
            copy(self.note, 0, self.buffer, at + 12, self.note_length)

    def _write_record(self, kind):
        if not self._has_header and self.note_length and kind != _STATE and not self._write_note_first():
            return False
        return Outbox._write_record(self, kind)

    def _write_note_first(self):
        """The first record of a fresh sector. The message that is being stored waits for it."""
        topic_length, payload, length = self._topic_length, self._payload, self._length
        self._topic_length = 0
        self._payload, self._length = self.note, self.note_length
        done = Outbox._write_record(self, _STATE)
        self._topic_length, self._payload, self._length = topic_length, payload, length
        self._has_header = done  # if not, the block is opened again: the one before has the note
        return done

    def _make_room(self, size):
        """With room for the note, should the message open a sector."""
        fresh = self._offset + size > _BLOCK_BYTES or not self._has_header
        return Outbox._make_room(self, size + self._padded(self.note_length + _OVERHEAD) if fresh else size)
