# long: thousands of cases
"""Bad images: a clear status, never a crash, a hang or an invented message; what can be read is
read.
"""

import random
import unittest

import power_loss
from fake_flash import flash_in_ram, image_of
from outpost import status
from outpost.outbox import Outbox

MOUNTED = (status.OK, status.BLANK, status.FOREIGN, status.NEWER, status.GEOMETRY)


def good_image(blocks, messages, length=20, freed=0):
    """(image, {number: payload})."""
    flash = flash_in_ram(blocks)
    outbox = Outbox(flash)
    outbox.format(b"01234567")
    for number in range(messages):
        outbox.append(b"t", b"%06d" % number + bytes(length - 6), length)
    if freed:
        outbox.discard_through(freed - 1)
        outbox.save_state()
    return image_of(flash), power_loss.contents(outbox)


def read(image, blocks):
    """(status, what is held) of an image; then the outbox must still take a message, or say why
    not.
    """
    outbox = Outbox(flash_in_ram(blocks, image=bytes(image)))
    result = outbox.mount()
    if result != status.OK:
        return result, {}
    found = power_loss.contents(outbox)
    assert outbox.append(b"t", b"more", 4) in (status.OK, status.FULL)
    return result, found


class TestBadImages(unittest.TestCase):
    def test_every_flipped_bit_of_a_small_image(self):
        """One bit costs at most the message it is in; in the only header, the whole region is
        refused rather than guessed at.
        """
        image, good = good_image(2, 4)
        end = 32 + 4 * 40
        for bit in range(8 * (end + 8)):
            damaged = bytearray(image)
            damaged[bit >> 3] ^= 1 << (bit & 7)
            result, found = read(damaged, 2)
            self.assertTrue(result in MOUNTED)
            for seq, payload in found.items():
                self.assertEqual(good[seq], payload)
            if bit >= 8 * 32:
                self.assertTrue(len(found) >= 3, "bit %d: %s" % (bit, sorted(found)))

    def test_a_damaged_record_hides_none_of_those_behind_it(self):
        image, good = good_image(3, 60, 100)
        for start in (40, 1000, 4096 + 50, 4096 + 2500):
            for length in (1, 7, 60):
                damaged = bytearray(image)
                for i in range(start, start + length):
                    damaged[i] ^= 0xA5
                result, found = read(damaged, 3)
                self.assertEqual(result, status.OK)
                self.assertTrue(
                    len(found) >= len(good) - 2,
                    "%d at %d: %d of %d" % (length, start, len(found), len(good)),
                )

    def test_a_damaged_header_costs_its_sector_and_no_other(self):
        image, good = good_image(6, 180, 100)
        for block in range(6):
            damaged = bytearray(image)
            damaged[block * 4096 + 17] ^= 0x10
            result, found = read(damaged, 6)
            self.assertEqual(result, status.OK)
            self.assertTrue(
                len(found) >= len(good) - 33, "block %d: %d of %d" % (block, len(found), len(good))
            )
            for seq, payload in found.items():
                self.assertEqual(good[seq], payload)

    def test_random_bytes_and_other_formats_are_foreign(self):
        random.seed(5)
        for content in (bytes(8192), b"\x55" * 8192, b"littlefs" * 1024, b"OB\x01\x02" * 2048):
            self.assertEqual(read(content, 2)[0], status.FOREIGN)
        for _ in range(10):
            content = bytes([random.getrandbits(8) for _ in range(8192)])
            self.assertEqual(read(content, 2)[0], status.FOREIGN)

    def test_random_damage_never_crashes_or_invents(self):
        image, good = good_image(3, 60, 100)
        random.seed(6)
        for _ in range(60):
            damaged = bytearray(image)
            for _ in range(1 << random.getrandbits(3)):
                damaged[random.getrandbits(16) % len(image)] = random.getrandbits(8)
            result, found = read(damaged, 3)
            self.assertTrue(result in MOUNTED)
            for seq, payload in found.items():
                self.assertEqual(good[seq], payload)

    def test_a_truncated_region_is_refused(self):
        """Its newest numbers would be given again."""
        image, good = good_image(4, 120, 100)
        for blocks in (2, 3):
            outbox = Outbox(flash_in_ram(blocks, image=bytes(image[: blocks * 4096])))
            self.assertEqual(outbox.mount(), status.SHORT_DEVICE)
            self.assertEqual(outbox.append(b"t", b"", 0), status.BUSY)
        grown = Outbox(flash_in_ram(6, image=bytes(image) + b"\xff" * 8192))
        self.assertEqual((grown.mount(), grown.next_seq), (status.OK, max(good) + 1))

    def test_a_record_that_is_longer_than_record_bytes_is_refused_and_not_torn(self):
        """In the newest sector or in any other; released ones do not matter."""
        for after in (0, 3, 30):
            flash = flash_in_ram(4)
            outbox = Outbox(flash, 512)
            outbox.format(b"01234567")
            for length in [20, 400] + [100] * after:
                self.assertEqual(outbox.append(b"t", bytes(length), length), status.OK)
            small = Outbox(flash, 128)
            self.assertEqual(small.mount(), status.SHORT_RECORDS, after)
            self.assertEqual(small.append(b"t", b"", 0), status.BUSY)
            self.assertEqual((outbox.mount(), outbox.next_seq), (status.OK, after + 2))
            if after == 30:
                while outbox._head < 2:
                    outbox.append(b"t", bytes(100), 100)
                outbox.discard_through(outbox.next_seq - 2)
                outbox.save_state()
                self.assertEqual(Outbox(flash, 128).mount(), status.OK)

    def test_records_of_an_earlier_life_of_the_block_are_not_taken(self):
        """The CRC is bound to the sector: a valid record of another sector, at the right place, is
        none.
        """
        image, _ = good_image(2, 3)
        stale = bytearray(image)
        flash = flash_in_ram(2)
        outbox = Outbox(flash)
        outbox.format(b"89abcdef")
        fresh = image_of(flash)
        stale[:32] = fresh[:32]
        result, found = read(stale, 2)
        self.assertEqual((result, found), (status.OK, {}))


if __name__ == "__main__":
    unittest.main()
