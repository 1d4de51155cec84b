"""How long a board may say nothing while it pins or opens its outbox: what its flash may take at
worst, computed here alone.

From the data sheet of the W25Q16JV, the Pico's flash: erase of 4 KiB 45 ms typical, 400 ms at most;
program of a page 0.4 ms typical, 3 ms at most. Pinning 64 blocks is 146 erases and 1,238 programs
(counted on the emulated RP2040, host_tests/rigs/rp2040/on_chip/pinning.py): 7.1 s typical, 62 s at
worst, and 3.1 s of the processor's. A fixed wait fits neither, so the board prints a line every few
steps, and the tool waits for the next line.
"""

from __future__ import annotations

ERASE_S = 0.4
PROGRAM_S = 0.003
# At most between two lines, littlefs included: 6 and 86 were counted
# (host_tests/tools/device/test_pinning_time.py counts them again).
ERASES_A_LINE = 8
PROGRAMS_A_LINE = 128
# Reads alone: each file is looked up in its folder. The emulated RP2040 takes 18 ms a block at 64
# blocks, 35 ms at 200.
OPEN_A_BLOCK_S = 0.1


def silence_s(blocks: int) -> float:
    """Seconds without a line that are no reason to give up, beside the time for any answer."""
    pinning = ERASES_A_LINE * ERASE_S + PROGRAMS_A_LINE * PROGRAM_S
    return max(pinning, blocks * OPEN_A_BLOCK_S)
