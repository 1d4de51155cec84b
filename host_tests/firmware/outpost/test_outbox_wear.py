# micropython-only: 100,000 messages take CPython a minute
# slow: half a minute and more
"""What a message costs the flash, on RP2's geometry, in the long run."""

import unittest

from fake_flash import flash_in_ram, looking
from outpost.outbox import Outbox

MESSAGES = 100_000
TOPIC = b"sensors/board-1/readings"
PAYLOAD = bytes(64)


class TestWear(unittest.TestCase):
    def test_100_000_messages(self):
        flash = flash_in_ram(64, 256)
        outbox = Outbox(flash)
        outbox.format(b"01234567")
        programs, erases = flash.programs, flash.erases
        for _ in range(MESSAGES):
            outbox.append(TOPIC, PAYLOAD, 64)
            outbox.discard(outbox.next_seq - 1)
        programs, erases = (
            (flash.programs - programs) / MESSAGES,
            (flash.erases - erases) / MESSAGES,
        )
        spread = max(flash.block_erases) - min(flash.block_erases)
        print(
            "%.4f erases, %.4f programs a message; erases of blocks differ by %d"
            % (erases, programs, spread)
        )
        self.assertTrue(erases <= 0.026 and programs <= 1.02 and spread <= 1)

    def test_mount_reads_by_fill(self):
        """64 headers, and two sectors, as the newest record may be the first of its own: header, 39
        records, the end, and the rest that must be blank in pieces of 768 bytes.
        """
        flash = flash_in_ram(64, 256)
        outbox = Outbox(flash)
        outbox.format(b"01234567")
        most = 0
        for _ in range(2600):
            outbox.append(TOPIC, PAYLOAD, 64)
            if outbox.next_seq > 2300:
                outbox.discard_through(outbox.next_seq - 2300)
            if outbox.next_seq % 97 == 0:
                flash.reads = 0
                looking(Outbox)(flash).mount()
                most = max(most, flash.reads)
        print("mount of 64 blocks: at most %d reads" % most)
        self.assertTrue(most <= 64 + 2 * (1 + 39 + 1) + 3 * 7)


if __name__ == "__main__":
    unittest.main()
