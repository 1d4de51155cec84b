# cpython-only: tests a desktop tool
"""The demo's judge finds what is wrong: every kind of wrong is made on purpose here."""

import json
from collections import Counter

import pytest

from outpost_tools.messages.message import decode
from outpost_tools.trying.demo import accounts
from outpost_tools.trying.demo.verify import Row, verify
from outpost_tools.trying.simulate.fleet import Events
from outpost_tools.trying.simulate.journal import Entry

STREAM = "0badcafe"
TIME_S = 1763694000.5


def payload(seq, value=1.5, *, stream=STREAM, device="b1", time_s=TIME_S):
    first = {
        "bn": f"{device}/",
        "ver": 1,
        "sid": stream,
        "seq": seq,
        "held": 0,
        "boot": 1,
        "bt": time_s,
    }
    return json.dumps(
        [{**first, "n": "load", "v": value}, {"n": "memory", "u": "KiB", "v": seq}]
    ).encode()


def ok(seq, **more):
    return Entry("ok", more.get("stream", STREAM), seq, payload(seq, **more))


def cut(stream=STREAM):
    return Entry("cut", stream)


def rows_of(*entries, device="b1"):
    rows = []
    for entry in entries:
        for r in decode(f"outpost/{device}/data", entry.payload).readings:
            time_ms = None if r.time_s is None else round(r.time_s * 1000)
            rows.append(
                Row(device, entry.stream, entry.seq, r.index, r.name, r.unit, r.value, time_ms)
            )
    return rows


JOURNAL = [Entry("boot", STREAM), ok(0), ok(1), cut(), Entry("boot", STREAM), ok(2), ok(3)]
GOOD = rows_of(*(entry for entry in JOURNAL if entry.kind == "ok"))


def judge(rows, journal=JOURNAL):
    (result,) = verify({"b1": journal}, rows)
    return result


def figures(result):
    return result.lost, result.duplicate_rows, result.invented


def test_all_well():
    result = judge(reversed(GOOD))
    assert result.exact
    assert (result.published, result.stored, result.rows, result.power_cuts) == (4, 4, 8, 1)


@pytest.mark.parametrize("missing", range(8))
def test_a_lost_row_is_found(missing):
    result = judge(GOOD[:missing] + GOOD[missing + 1 :])
    assert figures(result) == (1, 0, 0)
    assert f"message {missing // 2} of stream" in result.examples[0]


def test_a_lost_message_is_found():
    assert figures(judge(GOOD[2:])) == (1, 0, 0)


def test_an_empty_table_is_found():
    assert figures(judge([])) == (4, 0, 0)


@pytest.mark.parametrize("doubled", range(8))
def test_a_duplicate_row_is_found(doubled):
    assert figures(judge([*GOOD, GOOD[doubled]])) == (0, 1, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"value": 1.5000001},
        {"name": "loud"},
        {"unit": "W"},
        {"time_ms": 1763694000501},
        {"time_ms": None},
        {"unit": ""},
    ],
)
def test_an_altered_reading_is_found(change):
    altered = [GOOD[0]._replace(**change), *GOOD[1:]]
    assert figures(judge(altered)) == (1, 0, 1)


@pytest.mark.parametrize(
    "row",
    [
        GOOD[0]._replace(seq=9),
        GOOD[0]._replace(seq=4),  # the next number, but no cut explains it
        GOOD[0]._replace(stream="ffffffff"),
        GOOD[0]._replace(record=2),
    ],
)
def test_an_invented_row_is_found(row):
    assert figures(judge([*GOOD, row])) == (0, 0, 1)


def test_rows_of_a_device_without_a_journal_are_invented():
    results = verify({"b1": JOURNAL}, [*GOOD, GOOD[0]._replace(device="b9")])
    assert [(r.device, figures(r)) for r in results] == [("b1", (0, 0, 0)), ("b9", (0, 0, 1))]


def test_a_device_that_never_published_is_listed():
    assert [r.device for r in verify({"b1": [], "b2": []}, [])] == ["b1", "b2"]


def test_one_message_for_each_cut_is_explained_and_no_more():
    journal = [Entry("boot", STREAM), ok(0), cut(), ok(2), cut(), cut(), ok(5)]
    said = [entry for entry in journal if entry.kind == "ok"]
    result = judge(rows_of(*said, ok(1), ok(3), ok(4)), journal)
    assert result.exact
    assert (result.published, result.unacknowledged) == (3, 3)
    # The number after the next one is not explained by one cut.
    assert figures(judge(rows_of(*said, ok(1), ok(3), ok(4), ok(6)), journal)) == (0, 0, 1)
    alone = [Entry("boot", STREAM), ok(0), cut(), ok(3)]
    assert figures(judge(rows_of(ok(0), ok(3), ok(2)), alone)) == (0, 0, 1)


def test_a_cut_in_the_first_publish_is_explained():
    assert judge(rows_of(ok(0)), [Entry("boot", STREAM), cut()]).exact


def test_a_number_published_twice_is_found():
    assert figures(judge(rows_of(ok(0)), [Entry("boot", STREAM), ok(0), ok(0)]))[0] == 1


def test_a_time_that_the_pipeline_placed_is_accepted():
    journal = [Entry("boot", STREAM), ok(0, time_s=None)]
    rows = [row._replace(time_ms=1763694000500) for row in rows_of(ok(0, time_s=None))]
    assert judge(rows, journal).exact


def test_two_streams_of_a_device_are_apart():
    journal = [
        Entry("boot", STREAM),
        ok(0),
        cut(),
        Entry("boot", "ffffffff"),
        ok(0, stream="ffffffff", value=2),
    ]
    rows = rows_of(journal[1], journal[4])
    assert judge(rows, journal).exact
    assert figures(judge(rows[:2], journal)) == (1, 0, 0)


def sample(seq, time_ms, *readings, step_ms=1, is_set=1):
    facts = [is_set, time_ms // 86_400_000, time_ms % 86_400_000, step_ms, readings]
    return Entry("sample", STREAM, seq, json.dumps(facts).encode())


T_MS = 20_410 * 86_400_000 + 5
SERIES = [
    Entry("boot", STREAM),
    ok(0),
    sample(1, T_MS, ["a", "Cel", 2150, -2], ["b", "", 3, 0]),
    sample(1, T_MS + 50, ["b", "", 4, 0]),
    sample(1, T_MS + 101, ["a", "Cel", 2151, -2], ["b", "", 5, 0], step_ms=100),
    cut(),
    Entry("boot", STREAM),
    ok(2),
    sample(3, T_MS + 500, ["a", "Cel", -1, -2], is_set=0),
]
OF_SERIES = [
    Row("b1", STREAM, 1, 0, "a", "Cel", 21.5, T_MS),
    Row("b1", STREAM, 1, 1, "b", None, 3.0, T_MS),
    Row("b1", STREAM, 1, 2, "b", None, 4.0, T_MS + 50),
    Row("b1", STREAM, 1, 3, "a", "Cel", 21.51, T_MS + 100),
    Row("b1", STREAM, 1, 4, "b", None, 5.0, T_MS + 100),
    Row("b1", STREAM, 3, 0, "a", "Cel", -0.01, 77),  # placed by the pipeline
]
GOOD_SERIES = [*rows_of(ok(0), ok(2)), *OF_SERIES]
NEXT = [  # whole on flash, but the power went before the board could say so
    Row("b1", STREAM, 1, 5, "a", "Cel", 21.52, T_MS + 150),
    Row("b1", STREAM, 1, 6, "b", None, 6.0, T_MS + 150),
]


def test_samples_of_series_are_compared_row_for_row():
    result = judge(GOOD_SERIES, SERIES)
    assert result.exact and not result.unacknowledged
    assert (result.published, result.stored, result.messages, result.series) == (6, 6, 4, 2)
    text = accounts.table(summary([result]))
    assert "b1 store samples of series: 6 measurements in 4 messages\n" in text


@pytest.mark.parametrize("missing", range(len(OF_SERIES)))
def test_a_lost_row_of_a_sample_is_found(missing):
    rows = [row for row in GOOD_SERIES if row != OF_SERIES[missing]]
    assert judge(rows, SERIES).lost == 1


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("change", [{"value": 9.0}, {"time_ms": T_MS + 7}, {"name": "c"}])
def test_an_altered_sample_is_found(place, change):
    rows = [row._replace(**change) if row == OF_SERIES[place] else row for row in GOOD_SERIES]
    assert figures(judge(rows, SERIES)) == (1, 0, 1)


def test_one_sample_more_is_explained_by_a_cut_right_after_and_no_more():
    result = judge([*GOOD_SERIES, *NEXT], SERIES)
    assert result.exact
    assert (result.stored, result.unacknowledged) == (7, 1)
    for more in (
        [*NEXT, NEXT[1]._replace(record=7, time_ms=T_MS + 151)],  # two samples
        [*NEXT, NEXT[1]._replace(record=7)],  # twice the same reading
        [OF_SERIES[5]._replace(record=1, name="b")],  # no cut after that series
        [*NEXT, *rows_of(ok(4))],
    ):
        assert judge([*GOOD_SERIES, *more], SERIES).invented == 1, more
    # the cut stored one thing: the sample, or the next message
    without_cut = [entry for entry in SERIES if entry.kind != "cut"]
    assert judge([*GOOD_SERIES, *NEXT], without_cut).invented == 1


def test_a_cut_explains_a_sample_or_a_message_and_not_both():
    journal = [*SERIES[:6], Entry("boot", STREAM), ok(3)]
    rows = [*rows_of(ok(0), ok(3)), *OF_SERIES[:5]]
    assert judge([*rows, *NEXT], journal).exact
    assert judge([*rows, *rows_of(ok(2))], journal).exact
    assert figures(judge([*rows, *NEXT, *rows_of(ok(2))], journal)) == (0, 0, 1)


def summary(results):
    events = Events()
    events.report("broker killed")
    run = {"seed": 1, "broker": "mosquitto", "interpreter": "MicroPython", "seconds": 2.0}
    offline = {"b1": 1.26}
    return accounts.summarize(
        results,
        redelivered=Counter(b1=3),
        offline_s=offline,
        events=events,
        reasons=Counter(retained=2),
        run=run,
    )


def test_accounts_add_up_and_judge():
    good = summary(verify({"b1": JOURNAL}, GOOD))
    assert accounts.is_exact(good)
    assert (good["published"], good["silver_rows"], good["redelivered"], good["broker_kills"]) == (
        4,
        8,
        3,
        1,
    )
    assert good["devices"][0]["longest_offline_s"] == 1.3
    for rows in (GOOD[1:], [*GOOD, GOOD[0]], [*GOOD, GOOD[0]._replace(seq=9)]):
        assert not accounts.is_exact(summary(verify({"b1": JOURNAL}, rows)))


def test_nothing_published_is_not_exact():
    assert not accounts.is_exact(summary(verify({"b1": []}, [])))


def test_table_is_readable_and_shows_what_was_wrong():
    text = accounts.table(summary(verify({"b1": JOURNAL}, GOOD[1:])))
    lines = text.splitlines()
    assert lines[0].split()[:4] == ["device", "published", "stored", "lost"]
    assert lines[2].split() == ["b1", "4", "4", "1", "0", "0", "3", "1", "1.3"]
    assert any("was published, None is stored" in line for line in lines)
    assert any("2 in quarantine, 2 x retained" in line for line in lines)
    assert text.isascii()
