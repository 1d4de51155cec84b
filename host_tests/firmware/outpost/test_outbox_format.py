"""`firmware/OUTBOX_FORMAT.md` and the code, held together: the page's example is what the code
writes, and the code reads it.
"""

import unittest

from fake_flash import flash_in_ram, image_of
from outpost.outbox import Outbox

_FOLDER = __file__.rsplit("/", 1)[0] if "/" in __file__ else "."
_BLOCKS = 2


def example():
    """The image of the page, filled up with erased bytes."""
    image = bytearray(b"\xff" * (_BLOCKS * 4096))
    with open(_FOLDER + "/../../../firmware/OUTBOX_FORMAT.md") as page:
        lines = page.read().split("## Example")[1].split("```")[1].strip().split("\n")
    for line in lines:
        words = line.split()
        at = int(words[0], 16)
        for i in range(16):
            image[at + i] = int(words[1 + i], 16)
    return bytes(image)


class TestFormat(unittest.TestCase):
    def test_the_code_writes_the_example(self):
        flash = flash_in_ram(_BLOCKS)
        outbox = Outbox(flash, align=4, page_bytes=4)
        outbox.format(b"3fa9c1d2")
        outbox.append(b"a/b", b"42", 2)
        outbox.append(b"a/b", b"43", 2)
        outbox.discard(0)
        outbox.save_state()
        self.assertEqual(image_of(flash), example())

    def test_the_code_reads_the_example(self):
        for page_bytes in (4, 256):
            outbox = Outbox(flash_in_ram(_BLOCKS, image=example()), page_bytes=page_bytes)
            self.assertEqual(outbox.mount(), 0)
            self.assertEqual(
                (outbox.stream, outbox.oldest_seq, outbox.next_seq, outbox.boot),
                (b"3fa9c1d2", 1, 2, 2),
            )
            self.assertEqual(outbox.load(1), 0)
            at = outbox.topic_at
            self.assertEqual(bytes(outbox.buffer[at : at + 5]), b"a/b43")


if __name__ == "__main__":
    unittest.main()
