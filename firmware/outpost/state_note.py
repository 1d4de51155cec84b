"""An outbox that keeps a state note besides the messages: a few bytes that survive a power cut, for
what a protocol must remember.

The state note is the payload of the last state record. The newest sector always has it, because it
goes in first when a sector is opened; if that record is lost, the sector before has it as well. It
costs one program when it changes, and one per sector while it is not empty. QoS 2 notes which
messages were released, and which arrived. A class of its own, so that boards that do not use it do
not pay.

Allocation: construction and mount() only.
"""

from micropython import const

from outpost.memory import copy, u32
from outpost.outbox import Outbox

_OK = const(0)
_FULL = const(-1)
_TOO_BIG = const(-2)
_STORAGE = const(-5)
_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_NOTE_BYTES = const(72)
_MESSAGE = const(1)
_STATE = const(2)
_CONFIRMED = const(0x42)  # see `flash/settle.py`
_STREAM_AT = const(8)  # in a sector's header
_OVERHEAD = const(16)


class NotedOutbox(Outbox):
    """note[:note_length] is what the last set_note() that returned OK wrote.

    When full it refuses messages, and keeps one block for state notes. Not a mixin for the
    policies, because MicroPython's super() knows no second base. record_bytes: at least 88.
    """

    def __init__(self, device, record_bytes=512, align=4, page_bytes=256):
        self.note = bytearray(_NOTE_BYTES)
        self.note_length = 0  # bytes of it that are valid
        Outbox.__init__(self, device, record_bytes, align, page_bytes)
        # In a fresh sector the largest record follows the largest note.
        if (
            record_bytes < _NOTE_BYTES + _OVERHEAD
            or max(_HEADER, align) - (-_NOTE_BYTES - _OVERHEAD & -align) + record_bytes
            > _BLOCK_BYTES
        ):
            raise ValueError("outbox: record_bytes")

    def set_note(self, data, length):
        """Store data[:length], at most 72 bytes. Status as append(). A power cut during the call
        leaves the old state note or the new one."""
        if length > _NOTE_BYTES:
            return _TOO_BIG
        status = self.append(b"", data, length, _STATE)
        if status == _OK:
            self.note_length = copy(self.note, 0, data, 0, length)
        return status

    def mount(self):
        """As Outbox.mount(), and reads the state note."""
        self.note_length = 0
        return Outbox.mount(self)

    def _settle(self):
        """The note is visible from now on: like a message, it is shown when its record is known to
        be whole."""
        try:
            last = self._take_note()
        except OSError:
            self.storage_errors += 1
            self.note_length = 0
            self._busy = True
            return _STORAGE
        if last != _CONFIRMED and self.note_length:
            self._shown_end = min(self._shown_end, self.next_seq)
        return _OK

    def _take_note(self):
        """Read the last state note: of the head, or, if the head has lost it, of the sector before.
        Returns the kind of the head's last record."""
        self.note_length = -1
        last = self._read_notes(self._head)
        block = self._before(self._head)
        if self.note_length < 0 and self._load_header(block) and self._has_stream():
            self._read_notes(block)
        self.note_length = max(self.note_length, 0)
        return last

    def _before(self, block):
        """The block of the ring before this one."""
        while True:
            block = (block - 1) % self.blocks
            if block not in self._out or block == self._head:
                return block

    def _has_stream(self):
        return self.buffer[_STREAM_AT : _STREAM_AT + 8] == self.stream

    def _read_notes(self, block):
        self._enter(block)
        self._cursor_end = -1  # a state record may follow the last message
        last, at = -1, self._next_record()
        while at >= 0:
            last = self.buffer[at]
            if last == _STATE:
                length = min(u32(self.buffer, at) >> 16, _NOTE_BYTES)
                self.note_length = copy(self.note, 0, self.buffer, at + 12, length)
            at = self._next_record()
        self._cursor_seq = -1
        return last

    def _put(self, first):
        """Refuse a message while no block is spare. In a ring full of messages no state note could
        be written, no exchange of QoS 2 would end, and none of the messages would ever be sent."""
        if first & 1 and not self._may_open(self._after(self._head)):
            self.refused += first & 3 == _MESSAGE  # not for a reservation
            return _FULL
        return Outbox._put(self, first)

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
        # If it fails, the block is opened again: the sector before has the state note.
        self._has_header = Outbox._write_record(self, _STATE | self.note_length << 16, size)
        self._payload = payload
        return self._has_header
