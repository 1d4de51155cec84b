"""What a full outbox may do instead of refusing: drop the oldest messages, or keep the newest of
each topic.

A policy is a class of outbox. `Outbox` refuses; `DropOldest` and `NewestPerTopic` are here, so that
a board pays only for the one it uses. Both drop messages only at the old end of the ring, so
format, mount and power-fail argument stay as they are: a drop is an acknowledgement that nobody
sent. `dropped` counts the messages.

Allocation: construction only.
"""

from array import array

from micropython import const

from outpost.checksum import crc30
from outpost.memory import copy, u32
from outpost.outbox import Outbox

_OK = const(0)
_FULL = const(-1)
_STORAGE = const(-5)
_BLOCK_BYTES = const(4096)
_MESSAGE = const(1)
_OVERHEAD = const(16)
_PREFIX = const(12)
_SEQ_MASK = const(0x3FFFFFFF)


class DropOldest(Outbox):
    """When full, drops the messages of the oldest sector (39 messages of 88 bytes)."""

    def _make_room(self, size):
        while not self._has_room(size):
            if not self._drop_sector():
                return False
        return True

    def _drop_sector(self):
        """True when there was anything to drop."""
        end = self._first_of((self._tail + 1) % self.blocks)
        dropped = self.dropped
        while self.oldest_seq < end:
            self.dropped += 1
            self.discard_through(self.oldest_seq)
        return self.dropped != dropped


class NewestPerTopic(Outbox):
    """When full, drops a message if a newer one has the same topic. The newest message of each
    topic is kept: it is written again at the young end under a new number. Topics beyond the first
    `topics` are not distinguished: their messages are dropped with the oldest.

    Keeps two blocks spare, and two buffers for the record that it writes again. Refuses when a
    round over the ring made no room, and when the last numbers would not suffice for the copies of
    a sector. Mount reads every held message. For broker mode only: in collector mode the number in
    a payload must be the record's.
    """

    renumbers = True

    def __init__(self, device, record_bytes=512, align=4, page_bytes=256, topics=16):
        # The newest message of each topic: slot i of the first _known.
        self._topic_crc = array("i", [0] * topics)
        self._newest = array("i", [0] * topics)  # its number
        self._known = 0
        # The state after a round over the ring that made no room: the next number, the messages
        # released up to there, the blocks out of the ring
        self._stuck = array("i", (-1, 0, 0))
        self._new_topic = self._new_payload = b""  # of the message that waits for the rescue
        # The message that is being written again:
        self._kept_topic, self._kept_payload = bytearray(255), bytearray(record_bytes)
        Outbox.__init__(self, device, record_bytes, align, page_bytes)
        if self.blocks < 4 or topics * record_bytes > (self.blocks - 3) * (_BLOCK_BYTES // 2):
            raise ValueError("outbox: too few blocks for that many topics")

    def mount(self):
        """As Outbox.mount(), then finds the newest message of each topic."""
        status = Outbox.mount(self)
        end, self._shown_end = self._shown_end, _SEQ_MASK  # nothing is returned to the caller yet
        self._known = seq = 0
        self._stuck[0] = -1
        while status == _OK and self.load(seq) == _OK:
            seq = self.loaded_seq + 1
            self._learn(self._crc_of_topic(self.topic_at - _PREFIX), self.loaded_seq)
        if status == _OK and self._cursor_seq < 0:  # not all was read: the driver raised
            self._busy = True
            status = _STORAGE
        self._shown_end = end
        self.loaded_seq = -1
        return status

    def _put(self, first):
        # Maybe none is spare after a cut, another policy, a lent block, or a refusal.
        if not self._has_spare() and not self._make_room(_OVERHEAD) and first & 3 == _MESSAGE:
            self.refused += 1
            return _FULL
        status = Outbox._put(self, first)
        if status == _OK and first & 3 == _MESSAGE:
            self._learn(crc30(0, self._topic, 0, len(self._topic)), self.next_seq - 1)
        return status

    def _crc_of_topic(self, at):
        """Returns the CRC of the topic of the record at `at` in the buffer."""
        return crc30(0, self.buffer, at + _PREFIX, at + _PREFIX + self.buffer[at + 1])

    def _learn(self, crc, seq):
        slot = self._slot(crc)
        if slot >= 0:
            self._newest[slot] = seq

    def _slot(self, crc):
        """Returns the topic's slot, a new one while there is room; -1 when there is none."""
        slot = 0
        while slot < self._known:
            if self._topic_crc[slot] == crc:
                return slot
            slot += 1
        if slot == len(self._topic_crc):
            return -1
        self._topic_crc[slot] = crc
        self._known += 1
        return slot

    def _make_room(self, size):
        """Each time a spare block was opened, drop the oldest sector's messages, or write them
        again."""
        rounds = self.blocks
        while not self._has_room(size) or not self._has_spare():
            if self._is_stuck(rounds) or _SEQ_MASK - self.next_seq <= self._known:
                return False
            rounds -= 1
            if not self._rescue():
                return False
        return True

    def _is_stuck(self, rounds):
        """True when writing messages again makes no room: all of them were, and nothing was stored,
        released or given back since. Otherwise each refusal would erase every block."""
        stuck, released = self._stuck, self.oldest_seq
        acked = self.acked
        while acked:
            released += acked & 1
            acked >>= 1
        if not rounds:
            stuck[0], stuck[1], stuck[2] = self.next_seq, released, len(self._out)
        return stuck[0] == self.next_seq and stuck[1] == released and stuck[2] == len(self._out)

    def _has_spare(self):
        """Two blocks after the head are free: if a power cut or a bad program ends the one into
        which the oldest sector is written, there is another. Rings of fewer than four keep one."""
        return Outbox._may_open(self, self._after(self._head))

    def _may_open(self, block):
        return self._is_free(block)  # the other one is spared before each message

    def _rescue(self):
        """Empty the oldest sector. False: a message that must be kept found no room."""
        is_done = True
        self._new_topic = self._topic
        self._new_payload = self._payload
        self._enter(self._tail)
        at = self._next_record()
        while at >= 0:
            seq = self._cursor_seq - 1
            if self.buffer[at] & _MESSAGE and seq >= self.oldest_seq:
                if not self._keep_or_drop(at, seq):
                    is_done = False
                    break
                self.unreadable += seq - self.oldest_seq
                self.discard_through(seq)
            at = self._next_record()
        self._topic = self._new_topic
        self._payload = self._new_payload
        if is_done:
            self._search(self.oldest_seq)  # give up what the flash lost at the sector's end
        self._cursor_seq = -1
        return is_done

    def _keep_or_drop(self, at, seq):
        """False: it must be kept, and there is no room for it."""
        slot = self._slot(self._crc_of_topic(at))
        if slot < 0 or self._newest[slot] != seq:
            self.dropped += 1
        elif self._write_again(at):
            self._newest[slot] = self.next_seq - 1
        else:
            return False
        return True

    def _write_again(self, at):
        """Append the message at `at` in the buffer again. False: there is no room for it."""
        first = u32(self.buffer, at)
        length = first >> 8 & 0xFF  # of the topic, then of the payload
        self._topic, self._payload = self._kept_topic, self._kept_payload
        copy(self._topic, 0, self.buffer, at + _PREFIX, length)
        at += _PREFIX + length
        length = first >> 16
        copy(self._payload, 0, self.buffer, at, length)
        length = -(-length - (first >> 8 & 0xFF) - _OVERHEAD & -self._align)  # of the record
        while self._has_room(length):
            if self._write_record(first, length):
                self.next_seq += 1
                return True
            self._note_failure()
        return False
