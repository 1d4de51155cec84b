"""How long a board may be silent while it pins or opens its outbox: what its flash takes in the
worst case. Only this module computes it.

According to the data sheet of the W25Q16JV, the Pico's flash, an erase of 4 KiB takes 45 ms
typically and 400 ms at most, and a program of a page 0.4 ms typically and 3 ms at most. Pinning 64
blocks takes 146 erases and 1,238 programs (counted on the emulated RP2040,
host_tests/rigs/rp2040/on_chip/pinning.py): 7.1 s typically and 62 s at worst, and 3.1 s of
processor time. No fixed wait suits both, so the board prints a line every few steps, and the tool
waits for the next line.
"""

from __future__ import annotations

ERASE_S = 0.4
PROGRAM_S = 0.003
# The most between two lines, including those of littlefs: 6 and 86 were counted
# (host_tests/tools/boards/selftest/test_pinning_time.py counts them again).
ERASES_A_LINE = 8
PROGRAMS_A_LINE = 128
# Opening only reads: it looks up each file in its folder. The emulated RP2040 takes 18 ms per block
# with 64 blocks, 35 ms with 200.
OPEN_A_BLOCK_S = 0.1


def silence_s(blocks: int) -> float:
    """Seconds without a line that the tool tolerates, in addition to the time for any answer."""
    pinning = ERASES_A_LINE * ERASE_S + PROGRAMS_A_LINE * PROGRAM_S
    return max(pinning, blocks * OPEN_A_BLOCK_S)
