"""Bytes checked as fast as the board can: machine code, or plain Python where there is no native emitter.

crc30(buf, at, end, seed): the low 30 bits of CRC-32. is_blank(buf, at, end): all 0xFF, as erased NOR flash reads.
"""

try:
    from outpost.viper_crc import crc30, is_blank
except (ImportError, AttributeError, SyntaxError, ValueError):  # no native emitter, or an .mpy of another architecture
    from outpost.bytecode import crc30, is_blank  # noqa: F401 - handed on
