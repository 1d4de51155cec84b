"""An outbox of any policy in a chip, and all that it holds."""

from fake_flash import flash_in_ram
from outpost import status
from outpost.outbox import Outbox


class WithoutSpare(Outbox):
    """As earlier firmware filled it: no block is spared for the shelf."""

    _may_open = Outbox._is_free


def made(outbox_class, blocks, **options):
    flash = flash_in_ram(blocks, 256)
    outbox = outbox_class(flash, **options)
    assert outbox.format(b"01234567") == status.OK
    return flash, outbox


def everything(outbox):
    """Returns [(number, topic, payload)] of all held messages."""
    found, seq = [], 0
    while outbox.load(seq) == status.OK:
        middle = outbox.topic_at + outbox.topic_length
        topic = bytes(outbox.buffer[outbox.topic_at : middle])
        seq = outbox.loaded_seq + 1
        found.append(
            (seq - 1, topic, bytes(outbox.buffer[middle : middle + outbox.payload_length]))
        )
    return found


def newest_of(outbox):
    """Returns {topic: first four bytes of the payload} of the newest message of each topic."""
    return {topic: payload[:4] for _, topic, payload in everything(outbox)}
