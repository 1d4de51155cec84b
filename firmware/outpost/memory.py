"""Moves bytes as fast as the board can: machine code, or plain Python without a native emitter.

Bounds are the caller's duty. No function allocates.

copy(target, at, source, start, length) -> at + length copies byte by byte upwards, so that bytes of
one buffer can be moved to a lower address. fill(buf, count) sets the first `count` bytes to 0xFF,
as erased NOR flash reads; count is a multiple of 4.

put_publish(tx, head, source, start, lengths, properties) -> end writes a PUBLISH (3.3) to the start
of tx: the first byte and the remaining length, the topic from source[start:], the packet
identifier, the properties, and the payload, which follows the topic in source. head: first byte |
packet identifier << 8. With identifier 0, for QoS 0, none is written, and the caller puts the
payload at `end`. lengths: of the topic << 14 | of the payload. properties: 0: none (MQTT 3.1.1); or
a buffer: two bytes, low byte first, that say how many bytes to write; a byte that is not 0 if the
topic is left out, because they have an alias for it; then those bytes.

puback_id(rx, at, end) -> the packet identifier of the whole PUBACK at rx[at:end]; 0: another
packet, or an incomplete one.

put_prefix(prefix, seed, first, oldest, acked) fills prefix[:10] and the seed after it, for
put_record() (`checksum.py`): first:4 oldest:4 acked:2 boot:2 seed:4, little endian. The boot count
stays as it is.

u32(buf, at) -> the low 30 bits of a 32-bit field, little endian. The formats of this package never
store more than 30 bits.
"""

import sys

try:
    from outpost.native import copy, fill, puback_id, put_prefix, put_publish, u32

    check = bytearray(4)
    fill(check, 4)  # when frozen, it may read a wrong constant: see `checksum.py`
    if check != b"\xff\xff\xff\xff":
        raise ValueError
    del check
except (ImportError, AttributeError, SyntaxError, ValueError):
    # No native emitter, or an .mpy of another architecture. Imported from here, hence F401.
    from outpost.portable import copy, fill, puback_id, put_prefix, put_publish, u32  # noqa: F401


def unload(name):
    """Unload a module that was needed once: its code leaves the heap. name: with its packages, as
    in "outpost.connect_packet"."""
    package, module = name.rsplit(".", 1)
    sys.modules.pop(name, None)
    sys.modules[package].__dict__.pop(module, None)
