# cpython-only: tests a desktop tool
"""Ranges, confirmations and their pace: the pure half of the collector, against plain models."""

import datetime
import json
import random
from itertools import pairwise

import cbor2
import pytest

from outpost.durable import parse_confirmation
from outpost_tools.messages.message import Key, key_of
from outpost_tools.servers.collect.confirm import Pacing
from outpost_tools.servers.collect.durable import MAX_STREAMS, Durable, News, Stream


def payload(seq, held=0, stream="0badcafe", device="b1", **more):
    record = {
        "bn": device + "/",
        "sid": stream,
        "seq": seq,
        "boot": 1,
        "held": held,
        "ver": 1,
        "n": "x",
        "v": 1,
    }
    return json.dumps([{**record, **more}]).encode()


class Model:
    """A set of numbers, with those that `held` says will never come: the definition in full."""

    def __init__(self):
        self.covered = set()

    def add(self, seq, held):
        self.covered |= {seq, *range(held)}

    @property
    def next(self):
        n = 0
        while n in self.covered:
            n += 1
        return n


@pytest.mark.parametrize("seed", range(30))
def test_stream_agrees_with_a_set_of_numbers(seed):
    """Also when words are given in between, or other collectors have a part of the numbers."""
    rng = random.Random(seed)
    stream, model = Stream(), Model()
    for _ in range(400):
        seq = rng.randrange(200)
        held = rng.randrange(seq + 1) if rng.random() < 0.02 else 0
        if rng.random() < 0.5:
            stream.add(seq, held)
        else:
            stream.add_of(rng.choice("xyz"), [[0, held - 1], [seq, seq]] if held else [[seq, seq]])
        model.add(seq, held)
        if rng.random() < 0.2:
            stream.raise_base(stream.next)
        assert stream.next == model.next
        everywhere = [stream.own, *(stream.others or {}).values()]
        covered = {n for ranges in everywhere for a, b in ranges for n in range(a, b + 1)}
        assert covered == {n for n in model.covered if n >= stream.base}
        for ranges in everywhere:
            assert all(a <= b for a, b in ranges) and all(
                x[1] + 1 < y[0] for x, y in pairwise(ranges)
            )


def test_ranges_stay_apart_and_grow_with_gaps_only():
    stream = Stream()
    for seq in (5, 9, 7, 6, 20, 8, 19):
        stream.add(seq, 0)
    assert (stream.next, stream.own) == (0, [[5, 9], [19, 20]])
    stream.add(10, 10)
    assert (stream.next, stream.own) == (11, [[0, 10], [19, 20]])
    stream.raise_base(11)
    assert (stream.next, stream.own) == (11, [[19, 20]])


def test_confirmation_counts_from_held_and_names_the_latest_stream():
    durable = Durable()
    durable.add(Key("b1", "aaaaaaaa", 4, 0))
    assert durable.confirmation("b1") is None
    durable.add(Key("b1", "aaaaaaaa", 5, 4))
    assert durable.confirmation("b1") == b"aaaaaaaa 5"
    durable.add(Key("b1", "bbbbbbbb", 0, 0))
    assert durable.confirmation("b1") == b"bbbbbbbb 0"
    assert durable.confirmation("b2") is None


def test_what_is_beyond_the_first_gap_is_reported_and_confirms_nothing():
    durable = Durable()
    assert durable.gap_report("b1") is None
    for seq, report in ((0, None), (2, b"0 2-2"), (3, b"0 2-3"), (7, b"0 2-3 7-7")):
        durable.add(Key("b1", "aaaaaaaa", seq, 0))
        assert durable.confirmation("b1") == b"aaaaaaaa 0"
        assert durable.gap_report("b1") == (report and b"aaaaaaaa " + report)
    for seq in (10, 12, 14, 16):
        durable.add(Key("b1", "aaaaaaaa", seq, 0))
    assert durable.gap_report("b1") == b"aaaaaaaa 0 2-3 7-7 10-10 12-12"  # no more than four
    durable.add(Key("b1", "aaaaaaaa", 17, 13))  # held: 1 to 12 will not come any more
    assert durable.confirmation("b1") == b"aaaaaaaa 12"
    assert durable.gap_report("b1") == b"aaaaaaaa 12 14-14 16-17"
    for seq in (13, 15):
        durable.add(Key("b1", "aaaaaaaa", seq, 0))
    assert durable.confirmation("b1") == b"aaaaaaaa 17" and durable.gap_report("b1") is None


def test_while_number_0_is_missing_the_gap_report_begins_with_minus_1():
    durable = Durable()
    durable.add(Key("b1", "aaaaaaaa", 4, 0))
    durable.add(Key("b1", "aaaaaaaa", 5, 0))
    assert durable.confirmation("b1") is None
    assert durable.gap_report("b1") == b"aaaaaaaa -1 4-5"
    assert durable.to_json()["streams"] == {"b1": {"aaaaaaaa": [0, [[4, 5]]]}}


def test_the_gap_report_is_about_the_stream_that_is_confirmed():
    durable = Durable()
    durable.add(Key("b1", "aaaaaaaa", 3, 0))
    durable.add(Key("b1", "bbbbbbbb", 0, 0))
    assert durable.confirmation("b1") == b"bbbbbbbb 0" and durable.gap_report("b1") is None


@pytest.mark.parametrize("seed", range(10))
def test_the_gap_report_agrees_with_a_set_of_numbers_and_survives_a_restart(seed):
    rng, durable, truth = random.Random(seed), Durable(), set()
    for _ in range(200):
        seq = rng.randrange(120)
        truth.add(seq)
        if rng.random() < 0.5:
            durable.add(Key("b1", "aaaaaaaa", seq, 0))
        else:
            news = News("b1", "aaaaaaaa", 0, [[seq, seq]])
            durable.add_news(rng.choice("xyz"), news, is_fresh=True)
        if rng.random() < 0.2:
            durable.confirmation("b1")
        report = durable.gap_report("b1")
        words = (report or b"aaaaaaaa %d" % max(truth)).split()
        gap = int(words[1]) + 1
        assert truth >= set(range(gap)) and gap not in truth
        ranges = [tuple(map(int, word.split(b"-"))) for word in words[2:]]
        said = {n for first, last in ranges for n in range(first, last + 1)}
        above = {n for n in truth if n > gap}
        assert said == (above if len(ranges) < 4 else {n for n in above if n <= max(said)})
    own = Durable.from_json(json.loads(json.dumps(durable.to_json())))
    durable.forget("x"), durable.forget("y"), durable.forget("z")
    assert own.gap_report("b1") == durable.gap_report("b1")


def test_firmware_that_does_not_know_gap_reports_takes_them_for_garbled_confirmations():
    stream = b"0badcafe"
    for report in (
        b"-1 1-1",
        b"-1 4-5 7-7",
        b"0 2-2",
        b"12 14-14 16-17",
        b"1073741821 1073741823-1",
    ):
        text = stream + b" " + report
        assert parse_confirmation(text, 0, len(text), stream) == -1
    assert parse_confirmation(b"0badcafe 12", 0, 11, stream) == 12


def test_held_alone_confirms_what_will_never_come():
    durable = Durable()
    durable.add(Key("b1", "aaaaaaaa", 90, 80))
    assert durable.confirmation("b1") == b"aaaaaaaa 79"


def test_durable_survives_json():
    durable = Durable()
    for seq in (0, 1, 5, 9):
        durable.add(Key("b1", "aaaaaaaa", seq, 0))
    durable.add(Key("b2", "cccccccc", 3, 3))
    again = Durable.from_json(json.loads(json.dumps(durable.to_json())))
    assert again.to_json() == durable.to_json()
    assert again.confirmation("b1") == b"aaaaaaaa 1"


@pytest.mark.parametrize(
    "data", [{}, {"streams": {}, "latest": {"b1": "x"}}, {"streams": {"b": {"s": 1}}, "latest": {}}]
)
def test_damaged_state_is_refused(data):
    with pytest.raises((LookupError, TypeError, ValueError)):
        Durable.from_json(data)


def test_key_of_a_good_message():
    assert key_of(b"outpost/b1/data", payload(7, 3)) == Key("b1", "0badcafe", 7, 3)


def test_key_of_a_message_with_a_bad_reading_still_counts():
    assert key_of(b"outpost/b1/data", payload(7, v="text")) is not None


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[]",
        b"[1]",
        b'"text"',
        b"[" * 100_000,
        payload(-1),
        payload(1 << 30),
        payload(3, held=4),
        payload(True),
        payload(1.0),
        payload(1, stream="XYZ"),
        payload(1, stream=None),
    ],
)
def test_no_key(bad):
    assert key_of(b"outpost/b1/data", bad) is None


def cbor_payload(seq, *, stream="0badcafe", value=1.5, **more):
    record = {
        -2: "b1/",
        "sid": stream,
        "seq": seq,
        "boot": 1,
        "held": 0,
        "ver": 1,
        0: "x",
        2: value,
    }
    return cbor2.dumps([record | more, {0: "y", 1: "KiB", 2: 7}])


@pytest.mark.parametrize("value", [1.5, "text", None, True])
def test_key_of_a_message_in_cbor_also_with_a_bad_reading(value):
    assert key_of(b"outpost/b1/data", cbor_payload(7, value=value, held=3)) == Key(
        "b1", "0badcafe", 7, 3
    )


@pytest.mark.parametrize(
    "bad",
    [
        b"\x80",
        b"\x81\x01",
        b"\x81" * 20_000,
        b"\x9b" + b"\xff" * 8,
        b"\x81\xbb" + b"\xff" * 8,
        cbor_payload(1)[:-1],
        cbor_payload(1) + b"\0",
        cbor_payload(1.0),
        cbor_payload(True),
        cbor_payload(1, stream=b"0badcafe"),
        # a tag: the pipeline's reader refuses the whole
        cbor_payload(1, value=datetime.date(2026, 1, 1)),
    ],
)
def test_no_key_in_cbor(bad):
    assert key_of(b"outpost/b1/data", bad) is None


@pytest.mark.parametrize(
    "topic", [b"data", b"outpost/../b 1/data", b"outpost/\xff/data", b"o/" + b"x" * 33 + b"/data"]
)
def test_no_key_without_a_device(topic):
    assert key_of(topic, payload(1)) is None


def test_pacing_sends_the_first_at_once_and_the_last_always():
    pacing, sent = Pacing(0.2), []
    for tick in range(100):  # 1 s of messages, one each 10 ms
        now = tick / 100
        pacing.mark("b1")
        sent += [now for _ in pacing.due(now)]
    assert sent[0] == 0.0
    assert len(sent) == 5
    pacing.mark("b1")
    assert pacing.due(1.0) == []
    assert pacing.due(1.0 + pacing.wait_s(1.0) + 1e-9) == ["b1"]
    assert pacing.due(9.9) == []


def test_pacing_is_for_each_device_and_can_be_overruled():
    pacing = Pacing(0.2)
    pacing.mark("b1")
    assert pacing.due(0.0) == ["b1"]
    pacing.mark("b1")
    pacing.mark("b2")
    assert pacing.due(0.1) == ["b2"]
    assert pacing.due(0.1, everything=True) == ["b1"]


def test_a_new_stream_a_message_is_bounded_and_told_and_harms_no_other_device():
    durable = Durable(keep_news=True)
    for n in range(20_000):
        durable.add(Key("rogue", f"{n:08x}", 0, 0))
        durable.add(Key("good", "0badcafe", n, 0))
        assert durable.confirmation("rogue") == b"%08x 0" % n
    assert durable.confirmation("good") == b"0badcafe 19999"
    assert durable.stream_count() == MAX_STREAMS + 1
    assert durable.take_forgotten() == {"rogue": 20_000 - MAX_STREAMS}
    assert durable.take_forgotten() == {}
    assert len(durable.take_news()) == MAX_STREAMS + 1
    assert len(json.dumps(durable.to_json())) < 2000


def test_the_streams_used_last_are_kept_over_a_restart():
    durable = Durable()
    for n in range(MAX_STREAMS):
        durable.add(Key("b1", f"{n:08x}", 0, 0))
    durable.add(Key("b1", f"{0:08x}", 1, 0))  # used again
    again = Durable.from_json(json.loads(json.dumps(durable.to_json())))
    again.add(Key("b1", "0badcafe", 0, 0))
    again.add(Key("b1", f"{0:08x}", 2, 0))
    assert again.confirmation("b1") == b"00000000 2" and again.take_forgotten() == {"b1": 1}


def test_a_snapshot_with_more_streams_than_the_bound_is_read():
    streams = {f"{n:08x}": [1, []] for n in range(50)}
    state = {"streams": {"b1": streams}, "latest": {"b1": "00000003"}}
    durable = Durable.from_json(state)
    assert durable.stream_count() == MAX_STREAMS and durable.confirmation("b1") == b"00000003 0"


@pytest.mark.parametrize("seed", range(20))
def test_with_a_flood_of_streams_nothing_is_confirmed_that_is_in_no_log(seed):
    """An honest board beside a flood under its own name: late at most, and complete in the end."""
    rng, durable, in_log, held = random.Random(seed), Durable(), set(), 0
    for step in range(600):
        if step < 500 and rng.random() < 0.7:  # what it has in flight, in any order; some get lost
            for n in range(rng.randrange(40)):
                durable.add(Key("b1", f"{step:04x}{n:04x}", rng.randrange(5), 0))
        numbers = [n for n in range(held, held + 20) if step >= 500 or rng.random() < 0.8]
        for seq in numbers:
            durable.add(Key("b1", "0badcafe", seq, held))
            in_log.add(seq)
        stream, confirmed = (durable.confirmation("b1") or b"none -1").split()
        if stream == b"0badcafe":
            assert set(range(held, int(confirmed) + 1)) <= in_log
            held = max(held, int(confirmed) + 1)
    assert held >= 100 * 20
