"""Moves bytes by machine code: the same functions as in `portable.py`, compiled by the viper
emitter.

The import fails without a native emitter (some ESP32-C3 builds, CPython); `memory.py` then uses
`portable.py`. No function allocates: every integer that goes in or comes out stays below 2^30.
"""

# pyright: reportCallIssue=false

import micropython


@micropython.viper
def copy(target: ptr8, at: int, source: ptr8, start: int, length: int) -> int:
    """See `memory.py`."""
    target = ptr8(int(target) + at)
    source = ptr8(int(source) + start)
    at += length
    while length > 3:  # four per pass: with one byte per pass, the loop takes half the time
        target[0] = source[0]
        target[1] = source[1]
        target[2] = source[2]
        target[3] = source[3]
        target = ptr8(int(target) + 4)
        source = ptr8(int(source) + 4)
        length -= 4
    while length:
        target[0] = source[0]
        target = ptr8(int(target) + 1)
        source = ptr8(int(source) + 1)
        length -= 1
    return at


@micropython.viper
def fill(buf: ptr8, count: int):
    """See `memory.py`."""
    words = ptr32(buf)
    while count > 15:
        words[0] = -1
        words[1] = -1
        words[2] = -1
        words[3] = -1
        words = ptr32(int(words) + 16)
        count -= 16
    while count > 0:
        words[0] = -1
        words = ptr32(int(words) + 4)
        count -= 4


@micropython.viper
def put_publish(
    tx: ptr8, head: int, source: ptr8, start: int, lengths: int, properties: ptr8
) -> int:
    """See `memory.py`. The first three arguments are in registers, so `tx` and `source` move and
    `head` counts. One function, because a call would cost each message more than its loops do."""
    begin = int(tx)
    packet_id = head >> 8
    tx[0] = head
    source = ptr8(int(source) + start)
    start = lengths >> 14  # from here on the topic's length, and `lengths` the payload's
    lengths &= 0x3FFF
    payload = int(source) + start
    count = 0  # bytes of the properties
    if int(properties):
        count = int(ptr16(properties)[0])
        if properties[2]:
            start = 0
    head = start + lengths + count + 2
    if packet_id:
        head += 2
    else:
        lengths = 0
    while head > 127:
        tx[1] = head & 127 | 128
        tx = ptr8(int(tx) + 1)
        head >>= 7
    tx[1] = head
    tx[2] = start >> 8
    tx[3] = start
    tx = ptr8(int(tx) + 4)
    head = start
    while True:
        while head > 3:
            tx[0] = source[0]
            tx[1] = source[1]
            tx[2] = source[2]
            tx[3] = source[3]
            tx = ptr8(int(tx) + 4)
            source = ptr8(int(source) + 4)
            head -= 4
        while head:
            tx[0] = source[0]
            tx = ptr8(int(tx) + 1)
            source = ptr8(int(source) + 1)
            head -= 1
        if packet_id:
            tx[0] = packet_id >> 8
            tx[1] = packet_id
            tx = ptr8(int(tx) + 2)
            packet_id = 0
        head = count
        source = ptr8(int(properties) + 3)
        if not head:
            head = lengths
            source = ptr8(payload)
            if not head:
                return int(tx) - begin
            lengths = 0
        count = 0


@micropython.viper
def put_prefix(prefix: ptr8, seed: int, first: int, oldest: int, acked: int):
    """See `memory.py`."""
    words = ptr32(prefix)
    words[0] = first
    words[1] = oldest
    ptr16(prefix)[4] = acked
    words[3] = seed


@micropython.viper
def u32(buf: ptr8, at: int) -> int:
    """See `memory.py`."""
    return buf[at] | buf[at + 1] << 8 | buf[at + 2] << 16 | (buf[at + 3] & 0x3F) << 24


@micropython.viper
def puback_id(rx: ptr8, at: int, end: int) -> int:
    """See `memory.py`."""
    if at + 4 > end or rx[at] != 0x40 or rx[at + 1] != 2:
        return 0
    return rx[at + 2] << 8 | rx[at + 3]
