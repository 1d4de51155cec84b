"""Images with series, as the firmware writes them on either interpreter: a ring that has wrapped,
closed records, messages between them, missing values, jumps, and a record that is still open.

Run as a program it prints the image of `made()` in hex, for a test that compares interpreters.
"""

import sys

from fake_flash import flash_in_ram, image_of
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from series_samples import COLUMNS, TOPIC, Clock

BLOCKS = 6
SAMPLES = 1450
DEVICE = b"board-1"
DAY = 20_413
PERIOD_MS = 10_000
ALARM = b"alarm %d"
_STATE = 2


def values_at(place):
    """Returns the values of the sample taken at `place`."""
    third = None if place % 13 == 5 else 101_325 + place % 3
    first = 1 << 28 if place % 97 == 50 else 2150 + place * 7 % 5
    return first, 4500 + place * 11 % 40, third


def made(samples=SAMPLES, released=0, clock_is_set=True):
    """Returns (flash, outbox, series): with an alarm after each 200 samples, and at the end an open
    record that contains a state record with samples after it. If released is not 0, the oldest
    messages are released until `released` of them are held."""
    flash = flash_in_ram(BLOCKS)
    outbox = over(Outbox)(flash)
    outbox.format(b"3fa9c1d2")
    series = Series(outbox, TOPIC, DEVICE, COLUMNS, step_ms=100, max_age_s=86_400, record_bytes=600)
    clock = Clock(DAY, 0) if clock_is_set else Clock(0, 0)
    for place in range(samples):
        clock.pass_ms(PERIOD_MS)
        assert series.add(clock, values_at(place)) == 0, place
        if place % 200 == 199:
            text = ALARM % place
            assert outbox.append(TOPIC, text, len(text)) == 0
        if released and outbox.next_seq - outbox.oldest_seq > released:
            outbox.discard(outbox.oldest_seq)
    series.add(clock, values_at(samples))
    outbox.append(b"", b"note", 4, _STATE)
    clock.pass_ms(PERIOD_MS)
    series.add(clock, values_at(samples + 1))
    return flash, outbox, series


if __name__ == "__main__":
    text = "".join(["%02x" % byte for byte in image_of(made()[0])])
    for at in range(0, len(text), 4096):
        sys.stdout.write(text[at : at + 4096])
