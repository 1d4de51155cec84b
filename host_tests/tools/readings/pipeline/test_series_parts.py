# cpython-only: Arrow and Spark's classes
"""A series that a board sends again with fewer samples: from the firmware's outbox, whose power is
cut in an erase, to what a batch of the pipeline makes of both. Through Spark:
pipeline_conflicts.py.
"""

import itertools
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import series_samples
import series_writer
from fake_flash import PowerCut, flash_in_ram, image_of
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from outpost_tools.log import segments
from outpost_tools.readings.pipeline import decode, fingerprints, schemas, transforms

# Three blocks: a larger ring spares one, so its erases are of records that a note has released.
BLOCKS, DAY, RECEIVED_MS = 3, 20_413, 20_413 * series_samples.DAY_MS + 80_000_000


def payloads(outbox) -> dict[int, bytes]:
    found, seq = {}, outbox.oldest_seq
    while outbox.load(seq) == 0:
        at, seq = outbox.topic_at + outbox.topic_length, outbox.loaded_seq + 1
        found[outbox.loaded_seq] = bytes(outbox.buffer[at : at + outbox.payload_length])
    return found


def filled(record_bytes: int) -> tuple:
    """(flash, outbox, series, its clock): the outbox is full of series."""
    flash = flash_in_ram(BLOCKS)
    outbox = over(Outbox)(flash)
    outbox.format(b"3fa9c1d2")
    columns, topic = series_samples.COLUMNS, series_samples.TOPIC
    series = Series(outbox, topic, b"board-1", columns, step_ms=100, record_bytes=record_bytes)
    clock, place = series_samples.Clock(DAY, 0), 0
    while series.add(clock, (2150 + place * 7 % 5, 4500 - place * 3 % 40, 101_325)) == 0:
        clock.pass_ms(10_000)
        place += 1
    return flash, outbox, series, clock


def sent_twice(record_bytes: int) -> list[tuple[bytes, bytes]]:
    """(what was sent and released, what the board sends after a cut that leaves the first half of
    the next erase undone), different ones only."""
    flash, outbox, series, clock = filled(record_bytes)
    sent = payloads(outbox)
    outbox.discard_through(outbox.next_seq - 1)  # all are released, and no record says so yet
    flash.cut_at, flash.cut_mode = flash.operations + 1, "last"  # the erase of the oldest sector
    with pytest.raises(PowerCut):
        series.add(clock, (0, 0, 0))
    flash.cut_at = 0
    again = over(Outbox)(flash)
    assert again.mount() == 0
    return [
        (sent[seq], payload)
        for seq, payload in payloads(again).items()
        if sent.get(seq, payload) != payload
    ]


def rows_of(tmp_path, *found: bytes) -> pa.Table:
    writer = segments.SegmentWriter(tmp_path / "collector-1")
    for place, payload in enumerate(found):
        frame = segments.encode_frame(RECEIVED_MS + place, series_samples.TOPIC, payload)
        writer.append(frame)
    data = writer.seal().read_bytes()
    batches = list(decode.segment_batches(data, "collector-1", 0))
    return pa.Table.from_batches(batches).select(schemas.READING.names)


def marked(batches: list[pa.Table]) -> pa.Table:
    """Silver after these batches; asserts that no message conflicts."""
    silver, state, said = schemas.READING.empty_table(), schemas.STREAM.empty_table(), []
    for batch in batches:
        known = fingerprints.Known([np.sort(one) for one in said])

        def stored(wanted: set, now: pa.Table = silver) -> pa.Table:
            return now if wanted else now.slice(0, 0)

        found = transforms.mark_streams(batch, state, known, stored)
        assert not found.conflicts.num_rows and not found.displaced.num_rows
        assert found.outgrown.num_rows in (0, silver.num_rows)
        kept = silver.slice(0, 0) if found.outgrown.num_rows else silver
        silver, state = pa.concat_tables([kept, found.readings]), found.state
        said.append(found.fingerprints)
    assert state["conflicts"].to_pylist() == [0]
    return silver


def said_in(rows: pa.Table) -> list[tuple]:
    columns = (rows[name].to_pylist() for name in ("seq", "record", "time", "name", "value"))
    return sorted(zip(*columns, strict=True))


@pytest.mark.long
def test_what_an_erase_leaves_of_a_released_record_is_a_repeat_in_any_order(tmp_path):
    pairs = [pair for size in range(420, 620, 20) for pair in sent_twice(size)]
    assert pairs, "no record came again with fewer samples"
    for number, (whole, part) in enumerate(pairs):
        samples, rest = (series_samples.read(one)["samples"] for one in (whole, part))
        assert 0 < len(rest) < len(samples) and set(rest) < set(samples)
        folder = tmp_path / str(number)
        one, other = rows_of(folder / "1", whole), rows_of(folder / "2", part)
        both = rows_of(folder / "3", part, whole, part), rows_of(folder / "4", whole, part)
        for batches in ([one, other], [other, one], [other, one, other], *([one] for one in both)):
            assert said_in(marked(batches)) == said_in(one)


def with_cells_erased(image: bytes, chance: random.Random) -> bytes:
    """As a read may see the oldest sector while an erase of it is half done: some cells of some
    bytes are 1."""
    changed, begin = bytearray(image), chance.randrange(64, 4000)
    for place in range(begin, min(begin + chance.choice((1, 40, 600)), 4096)):
        changed[place] |= chance.getrandbits(8) & chance.getrandbits(8)
    return bytes(changed)


@pytest.mark.long
def test_what_an_erase_leaves_is_the_first_samples_whatever_cells_it_has_changed():
    """So of two parts of one record one has the other, also where a cell that an erase has left
    between 0 and 1 reads as another value in the next boot."""
    flash, outbox, _, _ = filled(500)
    sent, image = payloads(outbox), image_of(flash)
    lengths: dict[int, set[int]] = {}
    for seed in range(80):
        again = over(Outbox)(
            flash_in_ram(BLOCKS, image=with_cells_erased(image, random.Random(seed)))
        )
        if again.mount():
            continue
        for seq, payload in payloads(again).items():
            samples, rest = (series_samples.read(one)["samples"] for one in (sent[seq], payload))
            assert rest == samples[: len(rest)]
            lengths.setdefault(seq, set()).add(len(rest))
    assert max(map(len, lengths.values())) > 5, lengths


ROWS = series_writer.climate(20)
RESTART = (ROWS[12][0] + (1 << 28), ROWS[12][1])  # so far away that it is one


def said_by(rows) -> bytes:
    return series_writer.payload(
        rows, seq=7, held=0, start_ms=RECEIVED_MS - 4 * series_samples.DAY_MS
    )


def test_several_parts_are_repeats_in_any_order_of_batches_also_without_the_whole(tmp_path):
    """The whole may come last: in the log of another collector, which is read later."""
    whole, longer, shorter = (
        rows_of(tmp_path / str(count), said_by(ROWS[:count])) for count in (20, 12, 5)
    )
    for batches in itertools.permutations((whole, longer, shorter)):
        assert said_in(marked(list(batches))) == said_in(whole)
    for batches in itertools.permutations((longer, shorter, longer)):
        assert said_in(marked(list(batches))) == said_in(longer)


def test_parts_of_which_none_has_the_other_are_repeats_of_the_whole(tmp_path):
    """A gap before a restart, and one after it. The whole is in the log before them, since they are
    of a record that was released."""
    rows = [*ROWS[:12], RESTART], ROWS[:6], [*ROWS[:3], RESTART]
    said = [said_by(one) for one in rows]
    whole, before, after = (rows_of(tmp_path / str(n), one) for n, one in enumerate(said))
    both, turned = rows_of(tmp_path / "4", *said[:2]), rows_of(tmp_path / "5", *said[::-1])
    for batches in ([whole, before, after], [whole, after, before], [both, after], [turned]):
        assert said_in(marked(batches)) == said_in(whole)


def later_received(rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index("received")
    hour = pa.scalar(3_600_000_000, pa.duration("us"))
    return rows.set_column(place, "received", pc.add(rows["received"], hour))


def test_a_part_of_what_was_deleted_is_a_repeat(tmp_path):
    """All its days were, or the first of two: `outpost pipeline delete --before`. What says
    something else of a day that is there, or that was not deleted in it, is a conflict."""
    midnight_ms = (DAY - 3) * series_samples.DAY_MS

    def said(name: str, rows: list) -> pa.Table:
        data = series_writer.payload(rows, seq=7, held=0, start_ms=midnight_ms - 95_000)
        return rows_of(tmp_path / name, data)

    whole = said("whole", ROWS)
    before = transforms.mark_streams(whole, schemas.STREAM.empty_table(), fingerprints.Known())
    copies = {
        "first": said("first", ROWS[:5]), "more": said("more", ROWS[:15]),
        "other": said("other", [*ROWS[:15], *((time, (1, 2, 3)) for time, _ in ROWS[15:])]),
    }  # fmt: skip

    def conflicts(deleted_ms: int, left: pa.Table) -> list[str]:
        found = []
        for name, rows in copies.items():
            made = transforms.mark_streams(
                later_received(rows),
                before.state,
                fingerprints.Known([before.fingerprints]),
                lambda wanted: left if wanted else left.slice(0, 0),
                deleted_us=deleted_ms * 1000,
            )
            assert not made.readings.num_rows and not made.outgrown.num_rows
            found += [name] * made.conflicts.num_rows
        return found

    later = pc.greater_equal(whole["time"].cast(pa.int64()), midnight_ms * 1000)
    of_second_day, nothing = before.readings.filter(later), before.readings.slice(0, 0)
    assert of_second_day.num_rows == 10 * 3
    assert conflicts(midnight_ms, of_second_day) == ["other"]
    assert conflicts(midnight_ms + series_samples.DAY_MS, nothing) == []
    assert conflicts(midnight_ms + series_samples.DAY_MS, before.readings) == ["other"]
    assert conflicts(0, nothing) == ["first", "more", "other"]  # as it was
