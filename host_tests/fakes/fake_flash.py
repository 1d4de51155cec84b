"""The chip of boards/UNIX in RAM, for tests. A power cut raises PowerCut; afterwards the device can
be mounted again.
"""

import io

from nor_flash import BLOCK_BYTES, NorFlash
from virtual.chip import PowerCut


def flash_in_ram(blocks, unit_bytes=1, image=None):
    """An erased chip, or one with the given content."""
    flash = NorFlash(io.BytesIO(image or b"\xff" * (blocks * BLOCK_BYTES)), blocks, unit_bytes)
    flash.on_cut = _cut
    return flash


def _cut(operation, mode):
    raise PowerCut()


def looking(kind):
    """Returns a subclass of an outbox that makes sure of nothing at a mount, so that this only
    reads."""

    def settle(self):
        self._shown_end = 0x3FFFFFFF
        return 0

    return type("Looking", (kind,), {"_settle": settle})


def image_of(flash):
    """Returns all bytes of the chip."""
    flash._file.seek(0)
    return flash._file.read()
