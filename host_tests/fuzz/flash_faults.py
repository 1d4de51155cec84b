"""Faults of the flash other than power cuts: every bit of an image flipped, one at a time; dead
blocks. The long form; `test_outbox_faults.py` has the short one.
"""

from fake_flash import flash_in_ram, image_of
from outpost.outbox import Outbox
from power_loss import contents


def _filled(blocks, messages, length, freed, rounds):
    flash = flash_in_ram(blocks, 256)
    outbox = Outbox(flash)
    outbox.format(b"01234567")
    if rounds:  # until each block has been used
        while min(flash.block_erases) < rounds:
            outbox.append(b"t", bytes(length), length)
            outbox.discard_through(outbox.next_seq - 1)
    for _ in range(messages):
        outbox.append(b"t", b"%08d" % outbox.next_seq + bytes(length - 8), length)
    stored = contents(outbox)
    if freed:
        outbox.discard_through(outbox.oldest_seq + freed - 1)
        outbox.save_state()
    return image_of(flash), stored, outbox.oldest_seq, outbox.next_seq


def flip_states(blocks, messages, length):
    """Yields (name, state): fresh, half acknowledged, wrapped. A state: image, stored {number:
    payload}, oldest held, next number.
    """
    yield "fresh", _filled(blocks, messages, length, 0, 0)
    yield "half acknowledged", _filled(blocks, messages, length, messages // 2, 0)
    yield "wrapped", _filled(blocks, messages, length, 0, 1)


def judge_flip(state, bit):
    """Flip one bit and mount. Raises AssertionError when a number is used again, or a message is
    released or invented.
    """
    image, stored, held_from, next_seq = state
    damaged = bytearray(image)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    outbox = Outbox(flash_in_ram(len(image) // 4096, 256, bytes(damaged)))
    status = outbox.mount()
    assert status == 0, "bit %d: mount %d" % (bit, status)
    assert outbox.oldest_seq <= held_from, "bit %d: %d is freed" % (bit, held_from)
    found = contents(outbox)
    for seq, payload in found.items():  # what was released may come back
        assert stored.get(seq) == payload, "bit %d: %d is invented" % (bit, seq)
    assert outbox.next_seq >= next_seq, "bit %d: number %d again" % (bit, outbox.next_seq)
    assert outbox.append(b"t", b"more", 4) == 0
    return len([seq for seq in range(held_from, next_seq) if seq not in found])
