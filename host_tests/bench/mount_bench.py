"""What a mount costs, by blocks and fill, which a deep-sleep board pays at each wake. Run by
host_tests/bench/run_bench.py.
"""

import gc
import json
import time

import micropython

from fake_flash import flash_in_ram
from outpost.outbox import Outbox

TOPIC = b"sensors/board-1/readings"
PAYLOAD = bytes(64)
TIMES = 5


def filled(blocks, tenths):
    """Returns a chip whose outbox has gone around once, and then holds that many tenths of its
    capacity."""
    flash = flash_in_ram(blocks, 256)
    outbox = Outbox(flash)
    outbox.format(b"01234567")
    for _ in range(39 * blocks):
        outbox.append(TOPIC, PAYLOAD, 64)
        outbox.discard(outbox.next_seq - 1)
    for _ in range(39 * (blocks - 1) * tenths // 10 + 17):
        outbox.append(TOPIC, PAYLOAD, 64)
    return flash


def row(blocks, tenths):
    flash = filled(blocks, tenths)
    outbox = Outbox(flash)
    gc.collect()
    reads, total = flash.reads, micropython.mem_total()
    start = time.ticks_us()
    for _ in range(TIMES):
        outbox.mount()
    spent_us = time.ticks_diff(time.ticks_us(), start) // TIMES
    total = (micropython.mem_total() - total) // TIMES
    reads, to_send = (flash.reads - reads) // TIMES, flash.reads
    status = outbox.load(0)
    held = outbox.next_seq - outbox.oldest_seq if status == 0 else 0
    return {
        "blocks": blocks,
        "held": held,
        "reads": reads,
        "reads_to_first_message": flash.reads - to_send,
        "heap": total,
        "microseconds": spent_us,
    }


def main():
    for blocks in (4, 16, 64, 256):
        for tenths in (0, 5, 9):
            print(json.dumps(row(blocks, tenths)))
            gc.collect()


if __name__ == "__main__":
    main()
