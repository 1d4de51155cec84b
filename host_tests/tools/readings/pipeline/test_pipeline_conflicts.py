# cpython-only: Arrow and Spark's classes
"""Conflicts: fingerprints, their files, and what tells two boards from one
that went back. Through all tables: pipeline_conflicts.py.
"""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optional_packages import needed

with needed("PySpark"):
    import numpy as np
    import pyarrow as pa

    import hostile_messages
    from outpost_tools.readings.pipeline import (
        clocks,
        conflicts,
        decode,
        delta,
        displaced,
        exact,
        fingerprints,
        quarantine,
        schemas,
        tables,
        transforms,
    )
    from outpost_tools.store.at import at

SECOND = 1_000_000
ROW = {
    "device": "a",
    "stream": "0000000a",
    "seq": 5,
    "record": 0,
    "boot": 1,
    "held": 0,
    "uptime_s": None,
    "shift_s": 0.0,
    "version": 1,
    "name": "load",
    "unit": None,
    "value": 1.5,
    "time": 1_763_694_000 * SECOND,
    "received": 1_763_694_001 * SECOND,
    "collector": "c",
    "segment": 0,
    "offset": 4,
}
CONTENTS = {
    "boot": 2,
    "uptime_s": 0.0,
    "shift_s": 1.0,
    "version": 2,
    "name": "lod",
    "unit": "",
    "value": 1.25,
    "time": None,
    "record": 1,
}
KEY = {"device": "b", "stream": "0000000b", "seq": 6}
WAY = {"held": 3, "received": 0, "collector": "d", "segment": 7, "offset": 9}


def table(*rows: dict) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schemas.READING)


def fingerprint(*rows: dict) -> int:
    (found,) = fingerprints.of_messages(table(*rows), np.zeros(1, int)).tolist()
    return found


def test_a_fingerprint_is_of_all_that_was_said_and_of_nothing_on_the_way():
    changed = [fingerprint(ROW | {name: value}) for name, value in (CONTENTS | KEY).items()]
    changed.append(fingerprint(ROW, ROW | {"record": 1}))
    changed.append(fingerprint(ROW, ROW | {"record": 1, "value": 2.0}))
    assert len({fingerprint(ROW), *changed}) == len(changed) + 1
    assert {fingerprint(ROW | {name: value}) for name, value in WAY.items()} == {fingerprint(ROW)}


def test_a_time_that_was_put_in_later_is_not_what_the_board_said():
    assert fingerprint(ROW | {"placed": True}) == fingerprint(ROW | {"time": None})


def test_the_files_hold_what_all_rounds_added_and_stay_few(tmp_path):
    tables.create(tmp_path)
    place, chance, written = tmp_path / fingerprints.TABLE, np.random.default_rng(1), []
    for _ in range(40):
        files = delta.files_of(delta.open_table(place))
        assert len(files) <= 6
        known = fingerprints.Known(place=at(place), files=map(delta.name_of, files))
        wanted = np.concatenate([np.array([0, 2**64 - 1], np.uint64), *written])
        assert known.contains(wanted).tolist() == [False, False] + [True] * (len(wanted) - 2)
        size = int(chance.integers(0, 300))
        written.append(chance.integers(1, 2**64 - 1, size, dtype=np.uint64))
        fingerprints.added(at(place), files, 3, written[-1])  # a driver that was killed
        made, gone = fingerprints.added(at(place), files, 3, written[-1])
        delta.commit(place, made, gone=gone)
    assert sum(one["rows"] for one in files) == sum(map(len, written[:-1]))


# Numbers in order of arrival: 'A' and 'B' are two lives of one stream, with their boot.
def lives(story: str) -> list[dict]:
    """ "A5.1 B3.2": A's message 5 of boot 1, then B's message 3 of boot 2."""
    found = []
    for arrival, word in enumerate(story.split()):
        seq, boot = map(int, word[1:].split("."))
        more = {"seq": seq, "boot": boot, "value": float(ord(word[0])), "offset": arrival}
        found.append(ROW | more | {"received": (1_763_694_001 + arrival) * SECOND})
    return found


def state_after(rows: list[dict], per_batch: int) -> dict:
    state, said = schemas.STREAM.empty_table(), []
    for begin in range(0, len(rows), per_batch):
        known = fingerprints.Known([np.sort(one) for one in said])
        marked = transforms.mark_streams(table(*rows[begin : begin + per_batch]), state, known)
        state = marked.state
        said.append(marked.fingerprints)
    (row,) = state.to_pylist()
    return row


RESTORED = "A1.1 A2.1 A3.2 A4.2 A5.2 B3.2 B4.2 A4.2 B4.2 B5.2 B6.2 B7.3"
OVERTAKEN = "A1.1 A2.1 A3.2 A4.2 A5.2 A6.2 B4.2 B3.2 B6.2 B5.2 B7.2 B9.2 B8.2"
TAKING_TURNS = "A5.4 A6.5 A7.5 A8.5 A9.5 B5.3 A10.5 B6.3 A11.5 A12.5 B7.3 B8.3 A13.5 A14.6 B9.3"
IN_STEP = "A0.1 B0.1 A1.1 B1.1 A2.1 B2.1 B3.1 A3.1 A4.1 B4.1"


@pytest.mark.parametrize(
    ("story", "number", "two_boards"),
    [
        ("A1.1 A2.1 A1.1 A3.1 A2.1", 0, False),
        (RESTORED, 3, False),
        (OVERTAKEN, 4, False),
        (TAKING_TURNS, 5, True),
        (IN_STEP, 5, True),
    ],
)
def test_two_boards_take_turns_and_a_restored_one_goes_back_once(story, number, two_boards):
    rows = lives(story)
    for per_batch in (1, 2, 5, len(rows)):
        row = state_after(rows, per_batch)
        assert (row["twin_signs"] >= conflicts.TWIN_SIGNS) == two_boards, (row, per_batch)
        assert row["conflicts"] == number, per_batch


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 3),  # number
        st.sampled_from("AB"),  # which board says it
        st.integers(0, 9),  # second of its arrival
        st.sampled_from("cde"),  # collector
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda one: one[:2],
)


class Silver:
    """mark_streams() over batches, with what Spark and the files do around it."""

    def __init__(self) -> None:
        self.state, self.known = schemas.STREAM.empty_table(), []
        self.written, self.quarantined = schemas.READING.empty_table(), []
        self.seen: list[dict] = []

    @staticmethod
    def _of(rows: pa.Table, wanted: set) -> pa.Table:
        keys = [(r["device"], r["stream"], r["seq"]) in wanted for r in rows.to_pylist()]
        return rows.filter(pa.array(keys, pa.bool_()))

    def take(self, rows: list[dict]) -> None:
        known = fingerprints.Known(self.known)
        self.seen += rows
        marked = transforms.mark_streams(
            table(*rows), self.state, known,
            lambda wanted: self._of(self.written, wanted),
            lambda wanted: self._of(table(*self.quarantined), wanted),
        )  # fmt: skip
        self.state = marked.state
        self.known.append(np.sort(marked.fingerprints))
        gone = pa.concat_tables([marked.displaced, marked.outgrown])
        self.written = displaced.without(self.written, gone)
        self.written = pa.concat_tables([self.written, marked.readings])
        left = displaced.without(table(*self.quarantined), marked.freed).to_pylist()
        new = {tuple(row.values()) for row in marked.conflicts.to_pylist()}
        left += [
            row for row in self.seen if (row["collector"], row["segment"], row["offset"]) in new
        ]
        self.quarantined = left + marked.displaced.to_pylist()

    def tables(self) -> tuple:
        """All that must not depend on the batches."""
        columns = [*schemas.STREAM.names[:8], "conflicts", "received_max"]
        parts = (self.written, table(*self.quarantined), self.state.select(columns))
        return tuple(sorted(map(str, part.to_pylist())) for part in parts)

    def values(self) -> dict[int, float]:
        found = self.written.select(["seq", "value"]).to_pylist()
        assert len({row["seq"] for row in found}) == len(found)
        return {row["seq"]: row["value"] for row in found}


@settings(max_examples=60, deadline=None)
@given(ARRIVALS, st.integers(1, 5))
def test_silver_has_what_was_received_first_however_it_falls_into_batches(arrivals, per_batch):
    rows = []
    for offset, (seq, board, second, collector) in enumerate(arrivals):
        more = {"seq": seq, "value": float(ord(board)), "offset": offset, "collector": collector}
        rows.append(ROW | more | {"received": (1_763_694_001 + second) * SECOND})
    silver = Silver()
    for begin in range(0, len(rows), per_batch):
        silver.take(rows[begin : begin + per_batch])
    first = sorted(rows, key=lambda row: (row["received"], row["collector"], 0, row["offset"]))
    expected = {row["seq"]: row["value"] for row in reversed(first)}
    assert silver.values() == expected
    both = sum(len({r["value"] for r in rows if r["seq"] == seq}) == 2 for seq in expected)
    assert silver.state["conflicts"].to_pylist() == [both]
    assert sorted(row["offset"] for row in silver.quarantined) == sorted(
        row["offset"] for row in rows if expected[row["seq"]] != row["value"]
    )


def test_the_whole_of_a_message_that_loses_its_place_is_the_conflict_and_its_part_is_none():
    part, whole, other = (ROW | {"offset": at, "received": ROW["received"] + received * SECOND}
                          for at, received in ((0, 5), (1, 9), (2, 1)))  # fmt: skip
    silver = Silver()
    silver.take([part])
    silver.take([whole, whole | {"record": 1, "value": 8.0}, other | {"value": 9.0}])
    assert silver.values() == {ROW["seq"]: 9.0}
    assert silver.state["conflicts"].to_pylist() == [1]
    assert {row["offset"] for row in silver.quarantined} == {1}


# (which board says it, which of three readings)
SAID = st.lists(
    st.tuples(st.sampled_from("AB"), st.frozensets(st.integers(0, 2), min_size=1)),
    min_size=1,
    max_size=6,
)


def said(arrival: int, board: str, which: frozenset) -> list[dict]:
    more = {"offset": arrival, "received": ROW["received"] + arrival * SECOND}
    more |= {"value": float(ord(board))}
    return [ROW | more | {"record": at, "name": str(n)} for at, n in enumerate(sorted(which))]


def silver_of(batches: list[list[list[dict]]]) -> list[tuple]:
    silver = Silver()
    for batch in batches:
        silver.take([row for message in batch for row in message])
    found = silver.written.select(["name", "value"]).to_pylist()
    return sorted((chr(int(row["value"])), row["name"]) for row in found)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(SAID, st.sets(st.integers(1, 5)))
def test_parts_and_others_in_their_order_are_the_same_in_silver_in_any_batches(found, cuts):
    messages = [said(arrival, *one) for arrival, one in enumerate(found)]
    ends = [0, *sorted(cuts), len(messages)]
    batches = [messages[a:b] for a, b in itertools.pairwise(ends) if messages[a:b]]
    assert silver_of(batches) == silver_of([messages])


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(SAID.map(lambda found: found[:2]))
def test_two_messages_are_the_same_in_silver_in_any_order(found):
    messages = [said(arrival, *one) for arrival, one in enumerate(found)]
    for order in itertools.permutations(messages):
        assert silver_of([[one] for one in order]) == silver_of([messages])


# (which board says it, which of three readings, second of its arrival, collector)
COPIES = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.frozensets(st.integers(0, 2), min_size=1),
        st.integers(0, 4),
        st.sampled_from("cd"),
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(COPIES, st.data())
def test_any_batches_in_any_order_give_the_tables_of_one_run(found, data):
    """Parts, wholes, another board's messages, and repeats of them, in the logs of two collectors;
    the tables with their origins, and quarantine."""
    messages = []
    for offset, (board, which, second, collector) in enumerate(found):
        more = {"received": ROW["received"] + second * SECOND, "collector": collector}
        more |= {"held": second}
        messages.append([row | more for row in said(offset, board, which)])
    order = data.draw(st.permutations(messages))
    cuts = data.draw(st.sets(st.integers(1, len(order))))
    whole, pieces = Silver(), Silver()
    whole.take([row for message in messages for row in message])
    ends = [0, *sorted(cuts), len(order)]
    for begin, end in itertools.pairwise(ends):
        if order[begin:end]:
            pieces.take([row for message in order[begin:end] for row in message])
    assert pieces.tables() == whole.tables()


def test_an_earlier_copy_of_the_first_message_comes_with_the_later_one_that_differs():
    """The first collector's log is read last: it had got A before B."""
    late, early, other = said(2, "A", {0}), said(0, "A", {0}), said(1, "B", {0})
    for batches in ([[late], [early, other]], [[late], [early], [other]], [[late, early, other]]):
        assert silver_of(batches) == [("A", "0")]


def test_of_two_that_have_all_of_a_third_the_first_is_in_silver():
    part, shorter, longer = said(0, "A", {0}), said(1, "A", {0, 1}), said(2, "A", {0, 2, 3})
    for batches in ([[part, shorter, longer]], [[part, shorter], [longer]], [[part], [shorter]]):
        assert silver_of(batches) == [("A", "0"), ("A", "1")]


def test_the_whole_of_a_message_keeps_its_place_from_one_received_later():
    """The part had been received last, in the log of another collector, and was read first."""
    whole, other, part = said(0, "A", {0, 1}), said(1, "B", {0}), said(2, "A", {0})
    for batches in ([[part], [whole, other]], [[part], [whole], [other]], [[whole, other, part]]):
        assert silver_of(batches) == [("A", "0"), ("A", "1")]


def test_a_message_whose_readings_an_earlier_version_counted_otherwise_is_a_repeat():
    """With the text that it begins with."""
    silver = Silver()
    for offset, first in enumerate((1, 0)):
        rows = [ROW | {"record": first + at, "name": str(at), "offset": offset} for at in range(2)]
        silver.take(rows)
    assert silver.written["record"].to_pylist() == [1, 2]
    assert silver.state["conflicts"].to_pylist() == [0] and not silver.quarantined


def test_a_message_whose_segment_is_gone_is_made_of_its_readings():
    rows = [ROW | {"uptime_s": 3.0}, ROW | {"record": 1, "name": "x", "unit": "V", "shift_s": -2.5}]
    rows[1] |= {"uptime_s": 3.0, "time": ROW["time"] - 2_500_000}
    origin = ("c", 0, 4)

    def gone(collector, number):
        raise FileNotFoundError

    (made,) = conflicts.refused(schemas.READING.empty_table(), gone, table(*rows)).to_pylist()
    assert (made["collector"], made["segment"], made["offset"]) == origin
    read = exact.frame_rows(quarantine.frame(made), *origin[:2])
    again = pa.Table.from_batches(exact.arrow_batches(iter(read))).select(schemas.READING.names)
    before = fingerprints.of_messages(table(*rows), np.zeros(1, int))
    assert fingerprints.of_messages(again, np.zeros(1, int)).tolist() == before.tolist()


def good_after(tries: list[bytes]) -> tuple[list[str], list[str]]:
    """(readings, states) of the boards that mean well, after a log that comes twice."""
    state, known, found = schemas.STREAM.empty_table(), [], []
    for number in range(2):
        batches = decode.segment_batches(hostile_messages.segment(tries), "c", number)
        rows = pa.Table.from_batches(batches, schema=schemas.FRAME)
        rows = rows.filter(pa.compute.is_null(rows["reason"])).select(schemas.READING.names)
        marked = transforms.mark_streams(rows, state, fingerprints.Known(known))
        state = marked.state
        known.append(np.sort(marked.fingerprints))
        placed = clocks.place(marked.readings, clocks.from_state(state))
        found += placed.drop_columns(["segment", "offset"]).to_pylist()
    good = [
        sorted(str(row) for row in rows if row["device"] in hostile_messages.GOOD)
        for rows in (found, state.to_pylist())
    ]
    return good[0], good[1]


@pytest.mark.parametrize("name", hostile_messages.TRIES)
def test_each_hostile_message_leaves_the_readings_of_others_as_they_were(name):
    before = good_after([])
    assert len(before[0]) == 2 * 36 and len(before[1]) == 2
    tries = hostile_messages.TRIES[name]
    assert good_after(tries) == before
    for one in tries[:30]:
        assert good_after([one]) == before, one


def test_open_boots_are_the_same_in_whichever_order_they_were_read():
    """Of two drivers, one finds one collector's segments before the other's."""
    rows = [("a", "s", 5), ("b", "s", 2), ("a", "s", 3), ("b", "s", 1)]
    for order in itertools.permutations(range(len(rows))):
        mine = [dict(zip(clocks.BOOT, rows[at], strict=True)) for at in order]
        codes = np.array(["ab".index(one["device"]) for one in mine])
        found = clocks.boots_to_state(pa.Table.from_pylist(mine, clocks.BOOTS), 2, codes)
        assert found.to_pylist() == [[3, 5], [1, 2]]
