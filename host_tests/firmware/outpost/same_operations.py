"""A fixed run of every operation of the outbox; test_outbox_images.py compares the chips that the
interpreters leave.
"""

import hashlib

from fake_flash import flash_in_ram, image_of
from outpost.state_note import NotedOutbox


def digest(blocks, align, page_bytes):
    """SHA-256 of the chip afterwards, and the operations that it took."""
    flash = flash_in_ram(blocks, page_bytes)
    outbox = NotedOutbox(flash, align=align, page_bytes=page_bytes)
    outbox.format(b"3fa9c1d2")
    number = 12345
    for i in range(400):
        number = (number * 75 + 74) % 65537
        outbox.append(b"t/%d" % (number % 7), bytes([number & 255]) * (number % 300), number % 300)
        if number & 3:
            outbox.discard(outbox.oldest_seq + number % 5)
        if i % 50 == 0:
            outbox.set_note(b"note %d" % i, 6)
        if i % 70 == 0:
            outbox.save_state()
            outbox.mount()
        if i % 11 == 0:
            outbox.erase_ahead()
    found = hashlib.sha256(image_of(flash)).digest()
    return "".join(["%02x" % byte for byte in found]), flash.operations


if __name__ == "__main__":
    for geometry in ((2, 4, 256), (5, 32, 32), (16, 4, 4096), (4, 256, 256)):
        print(geometry, digest(*geometry))
