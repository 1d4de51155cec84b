"""An outbox in RAM, for a program whose messages need not survive a reset; and the contract of
every outbox.

Sessions and the station rely on this contract (`test_outbox_contract.py`):

    append(topic, payload, length, flags)  stores a message: OK, FULL, TOO_BIG, BUSY, STORAGE
    reserve(length)       makes room for topic and payload of that length: status as append()
    load(seq)             loads message seq, or the next one held, into `buffer`: OK, EMPTY. Until
                          the next call: loaded_seq, flags, topic_at, topic_length, payload_length;
                          the payload follows the topic
    discard(seq)          releases a message, the oldest or one of the 16 after it; False: not held
    save_state()          writes the acknowledgements, if any changed: status as append()
    unsaved()             number of messages released since then
    erase_ahead()         does slow work now, if there is any; True when it did some
    shelf()               the messages set aside; MemoryError. It has:
    .put(seq, mark)       copies held message seq to it, durably if the outbox is durable, and does
                          not release it: OK, FULL, EMPTY, BUSY, STORAGE. mark: 0, or not 0 for one
                          that the broker took and did not pass on
    .has(seq)             True when it is there; a session treats it as acknowledged
    .load(index)          as load(): message 0..aside-1 of it; loaded_seq is -1, .seq its number,
                          .mark 0 or 1
    .release(index)       removes that message from it: OK, FULL, EMPTY, BUSY, STORAGE
    aside                 number of messages on the shelf
    next_seq, oldest_seq  numbers of the next message, and of the first that is held
    acked                 bit i: message oldest_seq + 1 + i was released
    record_bytes          the limit for topic and payload together
    stream, boot, refused, renumbers: see `outbox.py`

Collector mode also needs discard_through(seq), and renumbers must be False; QoS 2 needs
`state_note.py`. Allocation: construction only.
"""

from micropython import const

from outpost.memory import copy

_OK = const(0)
_FULL = const(-1)
_TOO_BIG = const(-2)
_EMPTY = const(-7)
_MOST_SLOTS = const(16)
_MOST_BYTES = const(16_383)


class RamOutbox:
    """slots: the most messages held, 1..16. record_bytes: the limit for topic and payload together,
    1..16,383. Numbers begin at 0 at each boot: for broker mode. Raises ValueError.
    """

    renumbers = True
    stream = b""
    boot = 0
    lent = ()
    _shelf = None  # a RamShelf, once a message was set aside

    def __init__(self, slots=4, record_bytes=128):
        if not (1 <= slots <= _MOST_SLOTS and 1 <= record_bytes <= _MOST_BYTES):
            raise ValueError("outbox: slots, record_bytes")
        self.aside = 0  # messages on the shelf
        self.record_bytes = record_bytes
        self.next_seq = self.oldest_seq = self.acked = 0
        self.refused = 0  # messages for which there was no slot
        # Message seq is in slot seq % slots: topic and payload; flags:7 topic_length:8
        # payload_length:14.
        self._slots = slots
        self._texts = list(map(bytearray, [record_bytes] * slots))
        self._heads = [0] * slots
        # The message that was loaded last:
        self.loaded_seq = -1
        self.flags = 0  # QoS << 4 | RETAIN << 6
        self.topic_at = self.topic_length = self.payload_length = 0  # offset in `buffer`, bytes
        self.buffer = self._texts[0]

    def append(self, topic, payload, length, flags=0x10):
        """As Outbox.append(): OK, FULL, TOO_BIG."""
        self.loaded_seq = -1
        self.topic_length = len(topic)
        if self.topic_length > 255 or self.topic_length + length > self.record_bytes:
            return _TOO_BIG
        if self.next_seq - self.oldest_seq == self._slots:
            self.refused += 1
            return _FULL
        # Single steps and fields keep the frame within 11 words.
        self.flags = flags
        self.payload_length = length
        flags = self.next_seq % self._slots  # from here on its slot
        self._heads[flags] = (self.flags << 8 | self.topic_length) << 14 | length
        flags = self.buffer = self._texts[flags]
        copy(flags, 0, topic, 0, self.topic_length)
        copy(flags, self.topic_length, payload, 0, length)
        # Only now is it held: what raises above, for it is no bytes, stores nothing.
        flags = self.loaded_seq = self.next_seq
        self.next_seq = flags + 1
        return _OK

    def reserve(self, length):
        """As Outbox.reserve(): OK, FULL, TOO_BIG."""
        if length > self.record_bytes:
            return _TOO_BIG
        return _FULL if self.next_seq - self.oldest_seq == self._slots else _OK

    def load(self, seq):
        """As Outbox.load(): OK, EMPTY."""
        if seq >= self.next_seq:
            return _EMPTY
        if seq < self.oldest_seq:
            seq = self.oldest_seq
            if seq == self.next_seq:
                return _EMPTY
        if seq == self.loaded_seq:
            return _OK
        self.loaded_seq = seq
        seq %= self._slots  # from here on the slot, then what it holds
        self.buffer = self._texts[seq]
        seq = self._heads[seq]
        self.flags = seq >> 22
        self.topic_length = seq >> 14 & 255
        self.payload_length = seq & 0x3FFF
        return _OK

    def discard(self, seq):
        """As Outbox.discard()."""
        if seq == self.oldest_seq < self.next_seq and not self.acked:
            self.oldest_seq = seq + 1
            return True
        if not self.oldest_seq <= seq < self.next_seq:
            return False
        done = self.acked << 1 | 1 << seq - self.oldest_seq  # bit i: oldest_seq + i
        while done & 1:
            self.oldest_seq += 1
            done >>= 1
        self.acked = done >> 1
        return True

    def shelf(self):
        """The messages that were set aside: a RamShelf. Raises MemoryError."""
        if not self._shelf:
            from outpost.ram_shelf import RamShelf

            self._shelf = RamShelf(self)
        return self._shelf

    def save_state(self):
        return _OK

    erase_ahead = unsaved = save_state
