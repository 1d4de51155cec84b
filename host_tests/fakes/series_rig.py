"""An outbox on a chip in RAM, a series on it, and a clock that tests move, for tests of series on
both interpreters.
"""

from fake_flash import flash_in_ram, image_of
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from series_samples import COLUMNS, TOPIC, Clock

DAY = 20_413


class Rig:
    """image: the content of the chip; without it the chip is formatted. flash: the chip, instead of
    a new one. most_bytes: the outbox's record_bytes; `options` are the series'."""

    def __init__(
        self, blocks=4, base=Outbox, columns=COLUMNS, image=None, flash=None, most_bytes=512,
        **options
    ):  # fmt: skip
        self.flash = flash or flash_in_ram(blocks, 256, image)
        self.outbox = over(base)(self.flash, record_bytes=most_bytes)
        self.status = self.outbox.mount()
        if image is None:
            self.outbox.format(b"3fa9c1d2")
        self.clock = Clock(DAY, 1000)
        self.series = Series(self.outbox, TOPIC, b"board-1", columns, **options)

    def add(self, values, ms=10_000):
        self.clock.pass_ms(ms)
        return self.series.add(self.clock, values)

    def again(self, base=Outbox, **options):
        """Returns the rig after a power cut."""
        return Rig(len(image_of(self.flash)) // 4096, base, image=image_of(self.flash), **options)


def values_of(message):
    return [values for _, values in message["samples"]]
