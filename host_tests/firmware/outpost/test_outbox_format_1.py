# cpython-only: unpacks an image with zlib
"""An outbox that release 0.1.0 wrote: mounted, drained, appended to, cut; nothing is formatted.

images/format_1.bin.z: 5 blocks, stream 01234567, messages 0 to 129 of topic `t` and a payload of
four digits and 100 `x`; 0 to 29 freed and saved.
"""

import random
import unittest
import zlib
from pathlib import Path

from fake_flash import PowerCut, flash_in_ram, image_of, looking
from nor_flash import CUT_MODES
from outpost import status
from outpost.outbox import Outbox
from power_loss import contents

IMAGE = zlib.decompress((Path(__file__).parent / "images" / "format_1.bin.z").read_bytes())
HELD = {seq: b"%04d" % seq + b"x" * 100 for seq in range(30, 130)}
CUTS = 60  # show 7 of the long form: 1,000


def mounted(flash):
    outbox = Outbox(flash)
    assert outbox.mount() == status.OK
    return outbox


def versions(flash):
    image = image_of(flash)
    return {image[at + 2] for at in range(0, len(image), 4096) if image[at : at + 2] == b"OB"}


class TestFormat1(unittest.TestCase):
    def test_it_is_mounted_as_it_is(self):
        flash = flash_in_ram(5, 256, IMAGE)
        outbox = looking(Outbox)(flash)
        self.assertEqual(outbox.mount(), status.OK)
        self.assertEqual((outbox.stream, outbox.next_seq), (b"01234567", 130))
        self.assertEqual(contents(outbox), HELD)
        self.assertEqual(image_of(flash), IMAGE)

    def test_the_ring_turns_into_format_2_block_by_block(self):
        flash = flash_in_ram(5, 256, IMAGE)
        outbox, seen = mounted(flash), set()
        for number in range(130, 400):
            outbox.discard_through(number - 30)
            self.assertEqual(outbox.append(b"t", b"%04d" % number + bytes(296), 300), status.OK)
            seen.add(frozenset(versions(flash)))
            if number % 20 == 0:
                outbox = mounted(flash)
        self.assertEqual(seen, {frozenset({1}), frozenset({1, 2}), frozenset({2})})
        self.assertEqual(sorted(contents(mounted(flash))), list(range(370, 400)))

    def test_cuts_while_it_is_drained_and_appended_to_lose_nothing(self):
        for seed in range(CUTS):
            random.seed(seed)
            flash = flash_in_ram(5, 256, IMAGE)
            self._until_a_cut(flash, dict(HELD))

    def _until_a_cut(self, flash, promised):
        for _ in range(3):
            flash.cut_at = flash.operations + random.randrange(1, 60)
            flash.cut_mode = random.choice(CUT_MODES)
            trying = None
            try:
                outbox = mounted(flash)
                while True:
                    outbox.discard_through(outbox.oldest_seq)
                    promised = {
                        seq: text for seq, text in promised.items() if seq >= outbox.oldest_seq
                    }
                    trying = b"%04d" % outbox.next_seq + b"y" * random.randrange(400)
                    if outbox.append(b"t", trying, len(trying)) == status.OK:
                        promised[outbox.next_seq - 1] = trying
            except PowerCut:
                flash.cut_at = 0
            found = contents(mounted(flash))
            self.assertEqual({seq: found.get(seq) for seq in promised}, promised)
            for seq, text in found.items():
                self.assertIn(text, (trying, promised.get(seq, text)))


if __name__ == "__main__":
    unittest.main()
