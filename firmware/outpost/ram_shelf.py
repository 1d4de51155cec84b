"""Messages that are set aside, in RAM: `shelf` of a `RamOutbox`. Loaded when the first one is.

shelf: (number, flags, length of the topic, topic and payload) of each. Must not know why they are
set aside. Allocation: a copy of each message.
"""

from micropython import const

_OK = const(0)
_FULL = const(-1)
_EMPTY = const(-7)
_MOST_HELD = const(4)


def put(outbox, seq):
    """As Outbox.set_aside(): OK, FULL (four are), EMPTY."""
    if outbox.is_aside(seq):
        return _OK
    if outbox.load(seq) or outbox.loaded_seq != seq:
        return _EMPTY
    if len(outbox.shelf) == _MOST_HELD:
        return _FULL
    text = bytes(outbox.buffer[: outbox.topic_length + outbox.payload_length])
    outbox.shelf += ((seq, outbox.flags, outbox.topic_length, text),)
    outbox.aside = len(outbox.shelf)
    return _OK


def load(outbox, index):
    """As Outbox.load_aside()."""
    outbox.loaded_seq = -1
    if not 0 <= index < outbox.aside:
        return _EMPTY
    _, outbox.flags, outbox.topic_length, outbox.buffer = outbox.shelf[index]
    outbox.payload_length = len(outbox.buffer) - outbox.topic_length
    return _OK


def release(outbox, index):
    """As Outbox.release_aside()."""
    if not 0 <= index < outbox.aside:
        return _EMPTY
    outbox.shelf = outbox.shelf[:index] + outbox.shelf[index + 1 :]
    outbox.aside = len(outbox.shelf)
    return _OK
