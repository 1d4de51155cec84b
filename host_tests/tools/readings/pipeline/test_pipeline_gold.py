# cpython-only: Arrow
"""Gold's sums without Spark: what is added up in any order is what all readings give together."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optional_packages import needed

with needed("the pipeline's packages"):
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from outpost_tools.log import segments
    from outpost_tools.messages.ranges import cover
    from outpost_tools.readings.pipeline import (
        closing,
        exact,
        gold_schemas,
        schemas,
        summaries,
        totals,
        windows,
    )

BEGIN = 1_763_694_000_000_000
SECOND = 1_000_000
# (device, boot, number, metric, value, second or None, whether that was put in later, delay in ms)
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(1, 4),
        st.integers(0, 9),
        st.sampled_from(["load", "battery", "mended", None]),
        st.sampled_from([0.1, 0.2, 0.3, 1e300]),
        st.none() | st.integers(0, 40),
        st.booleans(),
        st.integers(-3000, 3000),
    ),
    max_size=20,
    unique_by=lambda row: row[2],
)


def table(rows: list[tuple]) -> pa.Table:
    found = []
    for device, boot, seq, name, value, second, placed, delay_ms in rows:
        time = None if second is None else BEGIN + second * SECOND
        row = {"device": device, "stream": "0000000a", "boot": boot, "seq": seq, "record": seq % 2}
        row |= {"held": seq // 2, "name": name, "value": value, "time": time}
        row |= {"placed": True if placed and time else None}
        row |= {"received": (time or BEGIN) + delay_ms * 1000}
        found.append(row)
    return pa.Table.from_pylist(found, schema=schemas.READING)


def plain(found: pa.Table) -> list[str]:
    assert found.schema == gold_schemas.TOTALS
    return sorted(map(str, found.to_pylist()))


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 20), st.integers(0, 20))
def test_totals_add_up_to_those_of_all_readings(rows, first, second):
    cuts = sorted((first, second))
    parts = [rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]]
    together = totals.of_rows(table(rows))
    assert plain(totals.added([totals.of_rows(table(part)) for part in parts])) == plain(together)
    assert plain(totals.added([together])) == plain(together)
    assert sum(together["readings"].to_pylist()) == len(rows)


def test_a_message_that_begins_with_a_text_has_a_latency():
    records = [
        {"bn": "a/", "sid": "0000000a", "seq": 1, "boot": 1, "held": 0, "ver": 1, "bt": BEGIN / 1e6}
        | {"n": "state", "vs": "open"},
        {"n": "load", "v": 1.0},
        {"n": "free", "v": 2.0},
    ]
    body = json.dumps(records).encode()
    frame = segments.Frame(BEGIN // 1000 + 250, 0, len(body), b"outpost/a/data", body)
    batches = exact.arrow_batches(iter(exact.frame_rows(frame, "c", 0)))
    rows = pa.Table.from_batches(batches).filter(pc.is_null(pc.field("reason")))
    assert rows["record"].to_pylist() == [0, 1]
    found = totals.of_rows(rows.select(schemas.READING.names))
    assert found["delays"].to_pylist() == [[(250, 1)]]
    assert summaries.latency(found)["count"].to_pylist() == [1]


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_readings_that_get_their_time_later_add_it_to_the_totals(rows):
    after = table(rows)
    late = [row for row in rows if row[5] is not None and row[6]]
    times, flags = after["time"], after["placed"]
    is_late = flags.is_valid()
    before = after.set_column(after.schema.get_field_index("time"), after.schema.field("time"),
                              pa.compute.if_else(is_late, None, times))  # fmt: skip
    before = before.set_column(before.schema.get_field_index("placed"),
                               before.schema.field("placed"),
                               pa.nulls(len(rows), pa.bool_()))  # fmt: skip
    parts = [totals.of_rows(before), totals.of_placed(table(late))]
    assert plain(totals.added(parts)) == plain(totals.of_rows(after))


def bounds(boots: list[dict]) -> list[tuple]:
    """(device, boot, not_before, not_after), plainly, of rows of totals."""
    found = []
    for boot in boots:
        ends = (None, None)
        if boot["without_time"]:
            mine = [one for one in boots if one["device"] == boot["device"]]
            near = [one for one in mine if abs(one["boot"] - boot["boot"]) <= closing.NEAR]
            before = [one["last_time"] for one in near if one["boot"] < boot["boot"]]
            after = [one["first_time"] for one in near if one["boot"] > boot["boot"]]
            ends = (
                max(filter(None, before), default=None),
                min([*filter(None, after), boot["first_received"]]),
            )
        found.append((boot["device"], boot["boot"], *ends))
    return sorted(found, key=str)


@settings(max_examples=60, deadline=None)
@given(ROWS.filter(bool), st.randoms(use_true_random=False))
def test_a_boot_without_a_clock_was_between_its_neighbours(rows, chance):
    pieces = totals.of_rows(table(rows))
    order = list(range(pieces.num_rows))
    chance.shuffle(order)
    head = closing.head_of(gold_schemas.TOTALS.empty_table())
    head = closing.advanced(head, pieces.take(order), lookup=None).head
    found = summaries.boots(head.opens).to_pylist()
    names = ("device", "boot", "not_before", "not_after")
    assert sorted((tuple(row[n] for n in names) for row in found), key=str) == bounds(
        pieces.to_pylist()
    )


STREAMS = st.lists(
    st.tuples(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 30), st.integers(0, 30)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(STREAMS)
def test_gaps_are_the_numbers_between_the_lowest_held_and_the_last(streams):
    states, expected = [], set()
    for number, (seqs, low, more) in enumerate(streams):
        known = []
        for seq in sorted(seqs):
            cover(known, seq, seq)
        row = {
            "device": f"board-{number}",
            "stream": "0000000a",
            "ranges": [end for one in known for end in one],
        }
        states.append(row | {"held_min": low, "held_max": low + more})
        for seq in set(range(low, max(seqs))) - seqs:
            expected.add((row["device"], seq, "closed" if seq < low + more else "open"))
    rows = summaries.gaps(pa.Table.from_pylist(states, schema=schemas.STREAM)).to_pylist()
    assert expected == {
        (row["device"], seq, row["state"])
        for row in rows
        for seq in range(row["first"], row["last"] + 1)
    }
    assert sum(row["count"] for row in rows) == len(expected)
    after = {(row["device"], row["state"], row["last"] + 1) for row in rows}
    assert not after & {(row["device"], row["state"], row["first"]) for row in rows}


def test_a_window_has_what_a_plain_sum_in_the_order_of_time_has():
    rows = [("a", 1, n, "load", value, 20 - n, False, 0) for n, value in enumerate([0.1] * 9)]
    rows += [("a", 2, 9, None, 3.0, 11, False, 0), ("b", 1, 10, "load", 1.0, None, False, 0)]
    found = windows.of_rows(windows.with_start(table(rows), 10.0)).to_pylist()
    assert {(row["name"], row["count"]) for row in found} == {("load", 1), ("load", 8), (None, 1)}
    row = next(row for row in found if row["count"] == 8)
    plain = 0.0
    for _ in range(8):  # from Python 3.12 on sum() is more exact than that
        plain += 0.1
    assert row["mean"] == plain / 8 and row["last"] == 0.1


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 20))
def test_a_window_that_goes_on_is_the_one_made_of_all_its_readings(rows, cut):
    first, second = (windows.with_start(table(part), 10.0) for part in (rows[:cut], rows[cut:]))
    there = windows.of_rows(first)
    is_there = windows.is_of(second, there)
    there = there.filter(pa.array(windows.is_of(there, second)))
    longer, others, left = windows.going_on(there, second.filter(pa.array(is_there)))
    whole = windows.of_rows(pa.concat_tables([first, second])).to_pylist()
    assert all(row in whole for row in longer.to_pylist())
    assert longer.num_rows + others.num_rows == there.num_rows
    assert windows.is_of(left, others).all()


def test_windows_are_told_apart_by_device_metric_unit_and_time():
    rows = windows.with_start(table([("a", 1, 0, "load", 1.0, 5, False, 0)]), 10.0)
    key = windows.of_rows(rows)
    assert windows.is_of(rows, key).tolist() == [True]
    for name, value in (("device", "b"), ("name", None), ("unit", ""), ("unit", "V")):
        other = rows.set_column(
            rows.schema.get_field_index(name), name, pa.array([value], pa.string())
        )
        assert windows.is_of(other, key).tolist() == [False], name
    assert windows.is_of(rows.slice(0, 0), key).tolist() == []


def test_no_unit_is_told_from_any_text():
    rows = windows.with_start(table([("a", 1, 0, "load", 1.0, 5, False, 0)] * 6), 10.0)
    units = pa.array([None, "", "\0", "-", "null", ":"], pa.string())
    rows = rows.set_column(rows.schema.get_field_index("unit"), "unit", units)
    for place in range(rows.num_rows):
        key = windows.of_rows(rows.slice(place, 1))
        assert windows.is_of(rows, key).tolist() == [at == place for at in range(6)]


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(0, 0), (7, 7), (999, 999), (1000, 1000), (1004, 1000), (1005, 1010), (-1005, -1010),
     (99_950, 100_000), (123_456_789, 123_000_000)],
)  # fmt: skip
def test_delays_are_kept_to_three_digits(number, rounded):
    assert totals.three_digits(np.array([number])).tolist() == [rounded]
