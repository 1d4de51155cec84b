"""Bytes moved as fast as the board can: machine code, or plain Python where there is no native emitter. Modules let go.

copy(target, at, source, start, length) -> at + length goes byte by byte upwards, bounds being the caller's duty. So bytes of one
buffer can be moved to a lower address. fill(buf, count) makes the first `count` bytes 0xFF, as erased NOR flash; a multiple of 4.
"""

import sys

try:
    from outpost.viper import copy, fill
except (ImportError, AttributeError, SyntaxError, ValueError):  # no native emitter, or an .mpy of another architecture
    from outpost.bytecode import copy, fill  # noqa: F401 - handed on


def forget(module):
    """Let go a module of this package that was needed once: its code leaves the heap."""
    package = sys.modules["outpost"]
    del sys.modules["outpost." + module]
    package.__dict__.pop(module, None)
