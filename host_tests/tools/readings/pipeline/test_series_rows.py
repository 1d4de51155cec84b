# cpython-only: Arrow
"""The fast reader of series returns the exact reader's rows, whatever is in the log."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import series_writer
from ground_truth import SEED
from message_samples import pack
from optional_packages import needed
from test_pipeline_decode import assert_same, reads_fast, segment

with needed("the pipeline's packages"):
    from outpost_tools.readings.pipeline import schemas, series_batches, series_rows, series_steps

REASON, VALUE = (schemas.FRAME.get_field_index(name) for name in ("reason", "value"))
ROWS = series_writer.climate(60)
LIMIT = 1 << 29


def arrived(*payloads, ms=series_writer.START_MS, **more):
    return segment(*payloads, received_ms=ms, **more)


def test_many_boards_side_by_side_without_the_exact_reader(monkeypatch):
    columns = series_writer.CLIMATE
    payloads = [
        series_writer.payload(
            series_writer.climate(n % 90 + 1, seed=n),
            columns,
            seq=2000 + n,
            parameters=[n % 5, 3, n % 7],
            time_parameter=n % 4,
            step_ms=1 + n % 3 * 999,
        )
        for n in range(300)
    ]
    data = arrived(*payloads, pack(bt=series_writer.START_MS / 1000))
    assert reads_fast(data, monkeypatch)
    rows = assert_same(data)
    assert len(rows) == sum(3 * (n % 90 + 1) for n in range(300)) + 1


def rows_of(count, seed=SEED):
    """Times and values of all sizes, some values missing."""
    chance = random.Random(seed)
    time_ms = 0
    for _ in range(count):
        width = chance.choice((3, 12, 28))
        time_ms = min(max(0, time_ms + chance.randrange(-(1 << width), 1 << width)), LIMIT - 1)
        values = [
            None
            if chance.random() < 0.3
            else chance.randrange(-LIMIT, LIMIT) >> chance.randrange(28)
            for _ in range(4)
        ]
        values[chance.randrange(4)] = chance.choice((-LIMIT, LIMIT - 1, 0, 1, -1))
        yield time_ms, values


COLUMNS = (("a", "Cel", -9), ("b", "", 0), ("c", "%RH", 9), ("d", "Pa", -1))


@pytest.mark.parametrize("seed", range(20))
def test_missing_values_and_restarts_are_read_fast_too(seed, monkeypatch):
    payloads = [
        series_writer.payload(list(rows_of(30, f"{seed}/{n}")), COLUMNS, seq=2000 + n)
        for n in range(20)
    ]
    data = arrived(*payloads)
    assert reads_fast(data, monkeypatch)
    assert all(row[REASON] is None for row in assert_same(data))


@pytest.mark.parametrize(
    "header",
    [
        {"clock_set": False, "start_ms": 5000},
        {"clock_set": False, "start_ms": (1 << 30) * 1000},
        {"clock_set": False, "start_ms": (1 << 30) * 1000 + 1},
        {"uptime_ms": 0},
        {"uptime_ms": 90_000_123},
        {"uptime_ms": (1 << 30) * 1000},
        {"uptime_ms": (1 << 30) * 1000 + 1},
        {"start_ms": (1 << 28) * 1000 - 1},
        {"start_ms": 4_102_444_799_999},
        {"held": 1234},
        {"held": 1235},
        {"seq": (1 << 30) - 1},
        {"seq": 1 << 30},
        {"device": "board-2"},
        {"device": "board 1"},
        {"boot": 65535, "stream": "00000000"},
        {"columns": (("", "", 0),) * 3},
        {"columns": (("a", "", 10),) * 3},
        {"columns": (("a\n", "", 0),) * 3},
        {"step_ms": 65535},
    ],
)
def test_headers_at_their_limits(header):
    columns = {"columns": header.pop("columns")} if "columns" in header else {}
    one = series_writer.payload(ROWS, **columns, **header)
    for ms in (1000, series_writer.START_MS):
        assert_same(arrived(one, ms=ms))
        assert_same(arrived(series_writer.payload(ROWS), one, pack(), b"junk", ms=ms))


DAY_MS = 86_400_000


@pytest.mark.parametrize("days", [-31, 0, 5 * 365])
@pytest.mark.parametrize("edge_ms", [-1, 0, 1, 600_000])
def test_times_far_from_the_arrival(days, edge_ms):
    assert_same(
        arrived(series_writer.payload(ROWS), ms=series_writer.START_MS + days * DAY_MS + edge_ms)
    )


def test_a_flood_of_headers_mixes_no_names(monkeypatch):
    """More than are remembered, in one read and over several."""
    monkeypatch.setattr(series_rows.Schemas, "_MOST", 5)
    monkeypatch.setattr(series_batches, "_BYTES_PER_BATCH", 1000)
    columns = [((f"first-{n}", "Cel", 0), (f"second-{n}", f"u{n}", 0)) for n in range(60)]
    rows = [(0, (1, 2)), (10, (3, 4))]
    payloads = [series_writer.payload(rows, one, seq=2000 + n) for n, one in enumerate(columns)]
    assert reads_fast(arrived(*payloads), monkeypatch)
    assert len(assert_same(arrived(*payloads))) == 240


def test_frames_that_are_refused():
    one = series_writer.payload(ROWS)
    assert_same(arrived(one, one, retain=True))
    assert_same(arrived(one, topic=b"outpost/board-2/data"))
    assert_same(arrived(one, topic=b"\xff"))
    assert_same(arrived(one + bytes(20_000), one))
    assert_same(arrived(b"\xf5", b"", one[:31], one[:30], one))


def test_a_flipped_bit_and_a_cut_anywhere():
    one = series_writer.payload(list(rows_of(6)), COLUMNS, uptime_ms=5)
    flipped = [
        bytes(byte ^ (1 << bit) * (at == place) for at, byte in enumerate(one))
        for place in range(len(one))
        for bit in range(8)
    ]
    assert_same(arrived(*flipped))
    assert_same(arrived(*(one[:end] for end in range(len(one)))))


def test_a_payload_of_the_shortest_samples_is_bounded(monkeypatch):
    """Two bits a sample: as many as 16 KiB hold."""
    monkeypatch.setattr(series_steps, "_MOST_STEPS", 100)
    for count in (99, 100, 101, 8000):
        many = series_writer.payload([(0, [1])] * count, [("a", "", 0)], parameters=[0])
        rows = assert_same(arrived(many, series_writer.payload(ROWS)))
        assert [row[REASON] for row in rows] == [None] * (count + 180)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 255), st.integers(0, 12)),
        min_size=1,
        max_size=4,
    )
)
def test_any_changed_bytes_give_the_same_rows(changes):
    one = bytearray(series_writer.payload(list(rows_of(12)), COLUMNS))
    for place, value, cut in changes:
        one[place % len(one)] = value
        del one[len(one) - cut :]
    assert_same(arrived(bytes(one), series_writer.payload(ROWS)))
