# cpython-only: a desktop tool
"""What a series message says, read exactly; what is no series is refused with the reason; and the
example of `firmware/SERIES_FORMAT.md` is what the reference writes and reads.
"""

import random
import re

import pytest

import paths
import series_writer
from outpost_tools.messages import series
from outpost_tools.messages.senml import Malformed

ROWS = [
    (0, (2150, 4512, 101_325)),
    (10_000, (2151, 4509, 101_325)),
    (20_004, (2151, None, 101_327)),
    (30_004, (2149, 4507, 101_326)),
]
SMALL = (("t", "Cel", -1), ("n", "", 0))


def read(rows, **options):
    return series.decode(series_writer.payload(rows, **options))


def rows_of(found):
    return [(sample.time_ms - found.start_ms, sample.values) for sample in found.samples]


def test_header_and_samples_are_read():
    found = read(ROWS, time_parameter=2, parameters=[1, 2, 0], uptime_ms=86_400_001)
    assert (found.device, found.stream, found.seq, found.held) == (
        "board-1",
        "3fa9c1d2",
        1234,
        1200,
    )
    assert (found.boot, found.version, found.clock_set, found.step_ms) == (3, 1, True, 1)
    assert (found.start_ms, found.uptime_ms) == (series_writer.START_MS, 86_400_001)
    assert found.columns == series_writer.CLIMATE
    assert rows_of(found) == ROWS


def test_without_a_clock_the_times_are_since_boot():
    found = read(ROWS, clock_set=False, start_ms=5_000)
    assert not found.clock_set
    assert found.uptime_ms == 5_000
    assert found.samples[1].time_ms == 15_000


@pytest.mark.parametrize("seed", range(20))
def test_any_rows_come_back(seed):
    dice = random.Random(seed)
    count = dice.randrange(1, 17)
    columns = [(f"c{i}", "", dice.randrange(-9, 10)) for i in range(count)]
    limit = 1 << dice.randrange(1, 30)
    rows, time = [], 0
    for _ in range(1 + dice.randrange(40)):
        time += dice.choice((10, 10, 10, dice.randrange(-500, 500)))
        values = [None if dice.random() < 0.1 else dice.randrange(-limit, limit) for _ in columns]
        values[0] = 0
        rows.append((time, tuple(values)))
    parameters = [dice.randrange(16) for _ in columns]
    found = read(rows, columns=columns, parameters=parameters, time_parameter=dice.randrange(16))
    assert rows_of(found) == rows


def test_times_are_rounded_down_to_steps():
    found = read([(0, (1, 2)), (10_099, (1, 2)), (19_950, (1, 2))], columns=SMALL, step_ms=100)
    assert [time for time, _ in rows_of(found)] == [0, 10_000, 19_900]


def test_the_key_needs_no_more_than_the_header():
    payload = series_writer.payload(ROWS)
    assert series.is_series(payload)
    assert series.key_in(payload[:38]) == ("board-1", "3fa9c1d2", 1234, 1200)
    assert series.key_in(payload[:37]) is None
    assert series.key_in(series_writer.payload(ROWS, held=1235)) is None
    assert not series.is_series(b"")
    for first in (0x5B, 0x20, *range(0x80, 0xA0)):
        assert not series.is_series(bytes((first,)) + payload[1:])


def changed(at, value, rows=ROWS, **options):
    payload = bytearray(series_writer.payload(rows, **options))
    payload[at] = value
    return bytes(payload)


def bits(text, **options):
    """A payload of one column with these bits as its samples."""
    text = text.replace(" ", "")
    text += "0" * (-len(text) % 8)
    options = {"columns": [("n", "", 0)], "parameters": [0]} | options
    return (
        series_writer.payload([], **options)
        + int("1" + text, 2).to_bytes(99, "big").lstrip(b"\0")[1:]
    )


START = "010 1 1 00000 00001 1"  # restart, present, time 0, value -1


BAD = [
    (b"", "series: no F5 at its start"),
    (b"[{}]", "series: no F5 at its start"),
    (b"\xf5", "series: version missing"),
    (changed(1, 2), "series: version 2"),
    (series_writer.payload(ROWS)[:33], "series: header cut short"),
    (changed(2, 30), "series: bad header length"),
    (changed(2, 75), "series: header cut short"),
    (changed(3, 4), "series: bad flags"),
    (changed(3, 3), "series: bad header length"),
    (changed(11, 0x40), "series: bad seq"),
    (series_writer.payload(ROWS, held=1235), "series: held above seq"),
    (series_writer.payload(ROWS, start_ms=1000), "series: start out of range"),
    (changed(25, 0xFF), "series: start out of range"),
    (changed(26, 0), "series: step 0"),
    (changed(28, 16), "series: bad parameter of the time"),
    (changed(29, 0), "series: 0 columns, 1 to 16 are allowed"),
    (changed(29, 17), "series: 17 columns, 1 to 16 are allowed"),
    (changed(31, 0x2F), "series: bad device name"),
    (changed(38, 10), "series: bad column 0"),
    (changed(41, 0x80), "series: bad name"),
    (changed(52, 0x7F), "series: bad unit"),
    (series_writer.payload([]), "series: no sample"),
    (bits("1 1"), "series: the first sample has no values of its own"),
    (bits(START), None),
    (bits(START + "0" * 9), "series: sample 1 cut short"),
    (bits(START + "11 11 1"), "series: sample 3 cut short"),
    (bits(START + "010 0 0"), "series: sample 1: no value"),
    (bits(START + "010 0 1 1 1"), "series: sample 1: a mask with nothing missing"),
    (bits("010 1 1 00000 11111" + "1" * 31), "series: sample 0: bad length of a number"),
    (bits("010 1 1 00010 00 00001 1"), "series: sample 0: bad length of a number"),
    (bits("010 1 0 00000"), "series: sample 0: no value"),
    (bits(START + "1" + "0" * 30 + "1" * 31), "series: a number of more than 30 bits"),
    (bits("010 1 1 00000 11110" + "1" * 30 + "1 010"), "series: sample 1: value out of range"),
    (bits("010 1 1 11110" + "1" * 30 + "00000"), None),
    (bits("010 1 1 11110" + "1" * 30 + "00000", step_ms=2), "series: sample 0: time out of range"),
    (b"\xf5" * (16 * 1024 + 1), "oversize: 16385 bytes, limit 16384"),
]


@pytest.mark.parametrize(("payload", "reason"), BAD)
def test_what_is_no_series_is_refused_with_the_reason(payload, reason):
    if reason is None:
        series.decode(payload)
        return
    with pytest.raises(Malformed) as caught:
        series.decode(payload)
    assert str(caught.value) == reason


def page_example():
    """(bytes, rows) of the page's message."""
    page = (paths.FIRMWARE / "SERIES_FORMAT.md").read_text(encoding="utf-8")
    block = page.split("## Example")[1].split("```")[1]
    lines = [line.split("|")[0] for line in block.strip().splitlines()]
    return bytes.fromhex("".join(re.sub(r"^[0-9a-f]{4} ", "", line) for line in lines))


def test_the_example_of_the_page():
    payload = page_example()
    assert payload == series_writer.payload(ROWS, time_parameter=2, parameters=[1, 2, 0], room=360)
    assert rows_of(series.decode(payload)) == ROWS
