# cpython-only: tests a desktop tool
"""--confirm-tables: what is confirmed is in the tables, in whatever order messages are stored,
segments sealed and taken in, and the collector killed."""

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outpost_tools.log import segments
from outpost_tools.messages.message import Key
from outpost_tools.servers.collect import admission as admission_module
from outpost_tools.servers.collect.admission import Admission, AfterTables, Extent
from outpost_tools.servers.collect.disk_log import DiskLog
from outpost_tools.servers.collect.durable import Durable
from outpost_tools.servers.collect.exchange import Exchange
from outpost_tools.servers.collect.store_log import StoreLog
from outpost_tools.store.local import LocalStore
from test_collect_store_log import STREAM, batch_of, put_is_over


def key(seq, *, device="b1", stream=STREAM, held=0):
    return Key(device, stream, seq, held)


def confirmed(durable, device="b1"):
    """The number of its confirmation; -1: it has none."""
    found = durable.confirmation(device)
    return -1 if found is None else int(found.split()[1])


def waiting():
    durable = Durable()
    return durable, AfterTables(durable, -1)


def test_without_the_option_keys_are_known_at_once():
    durable = Durable()
    gate = Admission(durable)
    assert gate.add([key(0)], 0) == {"b1"} and confirmed(durable) == 0
    assert gate.waiting_segments == 0 and gate.covered(7) == 7


def test_a_key_waits_for_the_whole_of_its_segment():
    durable, gate = waiting()
    assert gate.add([key(0), key(1)], 4) == set()
    assert gate.reach(Extent(0, 3)) == set() and confirmed(durable) == -1
    assert gate.waiting_segments == 1 and gate.covered(9) == 3
    assert gate.reach(Extent(0, 4)) == {"b1"} and confirmed(durable) == 1
    assert gate.waiting_segments == 0 and gate.covered(9) == 9


def test_a_segment_that_was_taken_in_before_its_answer_arrived_waits_no_longer():
    durable, gate = waiting()
    gate.reach(Extent(0, 5))
    assert gate.add([key(0)], 5) == {"b1"} and confirmed(durable) == 0


def test_what_a_board_no_longer_holds_waits_too():
    durable, gate = waiting()
    gate.add([key(7, held=5)], 0)
    gate.add([key(6, held=6), key(5, held=6)], 1)
    gate.reach(Extent(0, 0))
    assert confirmed(durable) == 4
    gate.reach(Extent(0, 1))
    assert confirmed(durable) == 7


def test_the_stream_used_last_is_confirmed_as_without_the_option():
    plain, (durable, gate) = Durable(), waiting()
    keys = [key(0), key(0, stream="00000002"), key(1), key(0, device="b2")]
    plain.add_all(keys)
    gate.add(keys, 0)
    gate.reach(Extent(0, 0))
    assert durable.to_json() == plain.to_json()


def test_other_collectors_hear_of_it_when_the_tables_have_it():
    durable = Durable(keep_news=True)
    gate = AfterTables(durable, -1)
    gate.add([key(3, held=2)], 0)
    assert durable.take_news() == []
    gate.reach(Extent(0, 0))
    assert [one.ranges for one in durable.take_news()] == [[[0, 1], [3, 3]]]


def test_other_collectors_forget_what_recreated_tables_lack():
    """It was not confirmed, so nothing rests on it."""
    mine, theirs = Durable(keep_news=True), Durable()
    gate = AfterTables(mine, -1)
    speaker, hearer = Exchange("c1", mine), Exchange("c2", theirs)

    def say(now):
        for statement in speaker.due(now, everything=True):
            hearer.heard("c1", statement, now)

    gate.add([key(1)], 0)
    say(0.0)
    assert theirs.gap_report("b1") is None
    gate.reach(Extent(0, 0))
    say(1.0)
    assert theirs.gap_report("b1") == b"0badcafe -1 1-1"
    gate.reach(Extent(0, -1))
    assert gate.take_withdrawn()
    speaker.say_everything()
    say(2.0)
    assert theirs.gap_report("b1") is None


def test_tables_that_begin_later_never_have_what_came_before():
    durable, gate = waiting()
    gate.add([key(0)], 3)
    gate.add([key(1)], 4)
    assert gate.reach(Extent(4, 4)) == {"b1"} and gate.waiting_segments == 0
    assert confirmed(durable) == -1 and durable.gap_report("b1") == b"0badcafe -1 1-1"


def test_what_was_not_confirmed_waits_again_for_recreated_tables():
    durable, gate = waiting()
    gate.add([key(0), key(2)], 0)
    gate.add([key(1)], 1)
    gate.reach(Extent(0, 0))
    assert confirmed(durable) == 0 and not gate.take_withdrawn()
    gate.reach(Extent(0, -1))
    assert gate.take_withdrawn() and not gate.take_withdrawn()
    assert durable.gap_report("b1") is None and confirmed(durable) == 0
    gate.reach(Extent(0, 1))
    assert confirmed(durable) == 2


def test_a_snapshot_counts_once_the_tables_have_its_segments():
    """It may be from a run without the option."""
    before = Durable()
    before.add_all([key(0), key(2), key(0, stream="00000002")])
    assert confirmed(before) == 0
    loaded = Durable.from_json(before.to_json())
    gate = AfterTables(loaded, 9)
    gate.add([key(1, stream="00000002")], 10)
    gate.reach(Extent(0, 8))
    assert confirmed(loaded) == 0 and gate.covered(12) == -1
    gate.reach(Extent(0, 10))
    assert confirmed(loaded) == 1
    assert loaded.to_json()["streams"]["b1"][STREAM] == [0, [[0, 0], [2, 2]]]


@pytest.mark.parametrize("lag", [1, 16, 40, 400])
def test_tables_that_lag_are_followed_with_few_entries(lag):
    """Keys that wait are merged, and are confirmed late, but not ever later."""
    durable, gate = waiting()
    for number in range(5 * lag):
        gate.add([key(number)], number)
        gate.reach(Extent(0, number - lag))
        assert len(gate._waiting) <= admission_module._MOST
        got = confirmed(durable)
        assert got <= max(number - lag, -1)
        assert number < 2 * lag or got >= number - lag - max(1, lag // 4)


def test_many_boards_are_followed_in_fewer_entries(monkeypatch):
    monkeypatch.setattr(admission_module, "_MOST_BOARDS", 10)
    durable, gate = waiting()
    for number in range(200):
        gate.add([key(number, device=f"b{n}") for n in range(5)], number)
        gate.reach(Extent(0, number - 20))
        assert sum(len(entry.keys) for entry in gate._waiting) <= 10
        assert number - 61 <= confirmed(durable) <= max(number - 20, -1)


# --- Every order of events ---


class World:
    """A board that sends its numbers by threes, the last first; a log; tables; and what the board
    was told. Each event is a method."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        self.sent, self.told = 0, -1
        self.first, self.last, self.rows = 0, -1, set()
        self.is_on, self.log = True, None
        self.restart()

    def end(self):
        """In order."""
        self.log.close()
        self.is_ended = True

    def close(self):
        """As a kill leaves it."""
        if self.kind == "disk" and not self.is_ended:
            os.close(self.log._lock)
            self.log._leave_writer()

    def restart(self):
        if self.log is not None:
            self.close()
        self.is_ended = False
        if self.kind == "disk":
            self.log = DiskLog(self.folder, "c1", waits_for_tables=self.is_on)
        else:
            store = LocalStore(self.folder)
            self.log = StoreLog(store, "c1", segment_seconds=0.0, waits_for_tables=self.is_on)
        self.confirm()

    def switch(self):
        self.is_on = not self.is_on
        self.restart()

    def store(self):
        self.send(self.sent // 3 * 3 + 2 - self.sent % 3)
        self.sent += 1

    def send(self, *numbers):
        self.log.add(batch_of(*numbers))
        while (stored := self.log.commit(at_once=True)) is None:
            put_is_over(self.log)
        for batch in stored.batches:
            self.log.learn(batch)
        self.confirm()

    def seal(self):
        if self.kind == "disk":
            self.log.seal_when_older(0)
        else:  # always due
            data = self.log._snapshot.data(self.log.durable, self.covered())
            self.log.folder.put("state.json", data)
        self.confirm()

    def covered(self):
        return self.log.admission.covered(self.log.stored_through)

    def take(self):
        """A round."""
        for one in segments.sealed_segments(self.log.folder, after=self.last):
            number = segments.segment_number(one)
            self.first = number if self.last < 0 else self.first
            self.last = number
            self.rows |= {int(f.payload.split(b'"seq": ')[1].split(b",")[0])
                          for f in segments.read_segment(one)}  # fmt: skip

    def look(self):
        if self.is_on:
            self.log.admission.reach(Extent(self.first, self.last))
            self.confirm()

    def prune(self):
        """As readings/pipeline/consumed.py, which deletes nothing that the snapshot does not
        cover."""
        sealed = segments.sealed_segments(self.log.folder)
        if sealed and segments.segment_number(sealed[0]) <= min(self.last, self.saved()):
            self.log.folder.delete([one.name for one in sealed[:1] if len(sealed) > 1])

    def saved(self):
        try:
            data = self.log.folder.get("state.json")
        except FileNotFoundError:
            return -1
        return int(data.split(b'"sealed_through": ')[1].split(b",")[0])

    def recreate(self):
        """The collector sees it before the next round, or not."""
        self.first, self.last, self.rows = 0, -1, set()

    def confirm(self):
        told = confirmed(self.log.durable)
        if self.is_on:
            new = set(range(self.told + 1, told + 1))
            assert new <= self.rows or self.told >= told, (self.told, told, self.rows)
        self.told = max(self.told, told)

    def ends_well(self):
        """The board sends again what is not confirmed; a round later, it is."""
        self.is_on = True
        self.restart()
        wanted = max(self.sent - 1, 0) // 3 * 3 + 2
        for number in range(self.told + 1, wanted + 1):
            self.send(number)
        self.seal()
        self.take()
        self.look()
        assert self.told == wanted, (self.told, wanted)


EVENTS = ("store", "seal", "take", "look", "restart", "switch", "prune", "recreate")
BEGINNING = ("store", "store", "store", "seal", "take")


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """Nothing is cut off here, and there are thousands of cases."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def run(folder, kind, events):
    world = World(folder, kind)
    try:
        for event in events:
            getattr(world, event)()
        world.ends_well()
    finally:
        world.close()


def test_recreated_tables_never_have_what_was_deleted(tmp_path):
    events = ["store", "seal", "take", "look", "store", "seal", "take", "look", "seal", "prune"]
    run(tmp_path, "disk", [*events, "recreate", "take", "look", "store", "seal", "take", "look"])


@pytest.mark.parametrize("kind", ["disk", "bucket"])
def test_a_snapshot_of_a_run_without_the_option_stays_until_the_tables_have_it(tmp_path, kind):
    """Segments that it covers may be deleted, so nothing else has their keys."""
    world = World(tmp_path, kind)
    world.switch()
    world.store()
    world.end()
    before = world.log.folder.get("state.json")
    world.switch()
    world.end()
    assert world.log.folder.get("state.json") == before and b"[[2, 2]]" in before
    world.restart()
    world.take()
    world.look()
    assert world.log.durable.gap_report("b1") == b"0badcafe -1 2-2"
    world.close()


@pytest.mark.parametrize("first", EVENTS)
def test_every_order_of_a_few_events(tmp_path, first):
    for number, rest in enumerate(itertools.product(EVENTS, repeat=2)):
        run(tmp_path / f"{number}", "disk", (*BEGINNING, first, *rest, "look"))


@pytest.mark.long
@pytest.mark.parametrize("first", [*itertools.product(EVENTS, repeat=2)], ids="-".join)
def test_every_order_of_more_events(tmp_path, first):
    for number, rest in enumerate(itertools.product(EVENTS, repeat=3)):
        run(tmp_path / f"{number}", "disk", (*BEGINNING, *first, *rest, "look"))


@pytest.mark.parametrize(("kind", "lives"), [("disk", 60), ("bucket", 15)])
def test_long_lives(tmp_path_factory, kind, lives):
    @settings(max_examples=lives, deadline=None, derandomize=True)
    @given(st.lists(st.sampled_from(EVENTS), min_size=10, max_size=40))
    def lived(events):
        run(tmp_path_factory.mktemp("log"), kind, events)

    lived()
