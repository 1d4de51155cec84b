"""NOR flash with faults that a test sets, and an outbox in it."""

from fake_flash import flash_in_ram
from nor_flash import NorFlash
from outpost import status
from outpost.outbox import Outbox

ERASE = 6
LENGTH = 400  # of a payload


class Dying(NorFlash):
    """A chip of which the blocks in `dead` take no erase."""

    dead = ()

    def ioctl(self, op, arg):
        if op == ERASE and arg in self.dead:
            raise OSError(5)
        return NorFlash.ioctl(self, op, arg)


class FaultyFlash(NorFlash):
    """Raises at the next `reads_fail` reads, `programs_fail` programs and `erases_fail` erases.
    Silently drops the next `programs_lost` programs of block `lost` (-1: of any). After
    `changed_after` reads, the first page of block `changed` reads as `changed_as` at `changed_at`.
    """

    reads_fail = programs_fail = erases_fail = 0
    programs_lost = 0
    lost = changed = -1
    changed_after = changed_at = 0
    changed_as = b""

    def readblocks(self, block, buf, offset=0):
        if self.reads_fail:
            self.reads_fail -= 1
            raise OSError(5)
        NorFlash.readblocks(self, block, buf, offset)
        if block == self.changed and not offset:
            self.changed_after -= 1
            if self.changed_after < 0:
                buf[self.changed_at : self.changed_at + len(self.changed_as)] = self.changed_as

    def writeblocks(self, block, buf, offset=None):
        if self.programs_fail:
            self.programs_fail -= 1
            raise OSError(5)
        if self.programs_lost and self.lost in (-1, block):
            self.programs_lost -= 1
            self.programs += 1
        else:
            NorFlash.writeblocks(self, block, buf, offset)

    def ioctl(self, op, arg):
        if op == ERASE and self.erases_fail:
            self.erases_fail -= 1
            raise OSError(5)
        return NorFlash.ioctl(self, op, arg)

    def put(self, at, data):
        """Write bytes as no chip could: bits rise, too."""
        self._file.seek(at)
        self._file.write(data)


def faulty(blocks, image=None, kind=FaultyFlash):
    return kind(flash_in_ram(blocks, 1, image)._file, blocks, 1)


def formatted(blocks=4, flash=None, outbox_class=Outbox):
    """Returns (flash, an empty outbox in it)."""
    flash = flash or faulty(blocks)
    outbox = outbox_class(flash)
    assert outbox.format(b"01234567") == status.OK
    return flash, outbox


def payload_of(seq, length=LENGTH):
    """Returns 8 digits, repeated; no other message has this payload."""
    return (b"%08d" % seq * (length // 8 + 1))[:length]


def publish(outbox, count=1, length=LENGTH):
    for _ in range(count):
        payload = payload_of(outbox.next_seq, length)
        assert outbox.append(b"t", payload, length) == status.OK


def loaded(outbox):
    """Returns the payload of the message that load() found."""
    start = outbox.topic_at + outbox.topic_length
    return bytes(outbox.buffer[start : start + outbox.payload_length])
