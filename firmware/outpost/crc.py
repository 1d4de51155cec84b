"""Bytes checked as fast as the board can: machine code, or plain Python where there is no native emitter.

crc30(seed, buf, at, end): CRC-32 of buf[at:end] (IEEE 802.3, reflected), register preset by `seed` (0 = standard), cut to its
low 30 bits. is_blank(buf, at, end): all 0xFF, as erased NOR flash reads.
"""

try:
    from outpost.viper_crc import crc30, is_blank
except (ImportError, AttributeError, SyntaxError, ValueError):  # no native emitter, or an .mpy of another architecture
    from outpost.bytecode import crc30, is_blank  # noqa: F401 - handed on
