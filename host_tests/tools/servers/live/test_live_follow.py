# cpython-only: reads files as a desktop tool does
"""What the live page makes of the log: any order, copies, damage, deletion, a new beginning; and
that nothing that boards send makes it grow without bound.
"""

import errno
import random
import time
import tracemalloc

import pytest

from collector_process import wait_until
from live_server import Writer, payload
from outpost_tools import cli
from outpost_tools.attention import attention, restarts
from outpost_tools.errors import ToolError
from outpost_tools.log.segment_frames import Frame, encode_frame
from outpost_tools.log.segments import SegmentWriter, open_segments, sealed_segments
from outpost_tools.servers.home import job_notes
from outpost_tools.servers.live import (
    card,
    device,
    device_page,
    fleet,
    follow,
    history,
    page,
    sensor,
    words,
)
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.follow import Follower

NOW_MS = 1_795_000_000_000
MIB = 1 << 20


def frame(device, seq, records, *, at_s=0.0, **more):
    time_s = NOW_MS / 1000 + at_s
    more.setdefault("time_s", time_s)
    data = payload(device, seq, records, **more)
    return Frame(int(time_s * 1000), 0, len(data), f"outpost/{device}/data".encode(), data)


def a_fleet():
    return Fleet(clock=lambda: NOW_MS)


def followed(log, *, history_mib=64):
    made = Fleet()
    follower = Follower(log, made, history_bytes=history_mib * MIB)
    read_all(follower, made)
    return follower, made


def read_all(follower, made):
    """Turn until the history is read, and once more."""
    follower._listed_at = float("-inf") if follower._history is None else follower._listed_at
    for _ in range(10_000):
        follower.turn()
        if made.reading is None:
            break
    follower.turn()


def newest(made, device, sensor):
    return made.boards[device].sensors[sensor].newest.value


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1)])
def test_a_value_has_the_unit_in_which_it_was_measured(order):
    """The board's driver says another one now; the log is read from its end."""
    made = a_fleet()
    readings = [("t", "Cel", 20), ("t", "Cel", 21), ("t", "degF", 68), ("t", "degF", 69)]
    for seq in order:
        made.take([frame("kitchen", seq, [readings[seq]], at_s=seq)])
    found = made.boards["kitchen"].sensors["t"]
    assert (found.unit, [point.value for point in found.recent]) == ("degF", [68, 69])


def test_a_folder_that_may_not_be_read_is_told_and_the_others_are_followed(tmp_path, monkeypatch):
    for name in ("mine", "theirs"):
        Writer(tmp_path / "log", name).store(f"board-{name}", ("x", "", 1))
    may_read = follow.segments.sealed_segments

    def refuse(folder, after=-1):
        if folder.name == "theirs":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return may_read(folder, after)

    made = Fleet()
    follower = Follower(tmp_path / "log", made, history_bytes=MIB)
    follower.start()
    try:
        wait_until(lambda: "board-mine" in made.boards)
        monkeypatch.setattr(follow.segments, "sealed_segments", refuse)
        monkeypatch.setattr(follow, "_LIST_S", 0.0)
        wait_until(lambda: follower.reason.endswith("theirs: Permission denied"))
        monkeypatch.setattr(follow, "_LIST_S", 1e9)
        Writer(tmp_path / "log", "mine").store("board-new", ("x", "", 1))
        wait_until(lambda: "board-new" in made.boards)
        assert follower.reason.endswith("theirs: Permission denied")
    finally:
        follower.stop()


def told(made, device):
    one = made.boards[device]
    row = one.row(count_missing=True)
    days = [
        [(b.begin_ms, b.least, b.mean, b.greatest, b.count) for b in s.history.bins("day", NOW_MS)]
        for _, s in sorted(one.sensors.items())
    ]
    points = [[(p.time_ms, p.value) for p in s.recent] for _, s in sorted(one.sensors.items())]
    return row, days, points, one.messages


def test_a_message_that_begins_with_a_text_tells_how_often_and_how_far_ahead_a_board_is():
    made = a_fleet()
    for seq, at_s in enumerate((-180, -120, -60)):
        data = payload("a", seq, [("state", "", 0), ("x", "", 1)], time_s=NOW_MS / 1000 + at_s + 5)
        data = data.replace(b'"n": "state", "v": 0', b'"n": "state", "vs": "open"')
        received_ms = NOW_MS + at_s * 1000
        made.take([Frame(received_ms, 0, len(data), b"outpost/a/data", data)])
    one = made.boards["a"]
    assert list(one.sensors) == ["x"]
    assert (one.usual_s, one.row(count_missing=False)["clock_ahead_s"]) == (60.0, 5.0)


def test_the_order_and_the_copies_of_messages_do_not_matter():
    rng = random.Random(5)
    frames = [
        frame("a", n, [("x", "", n % 7), ("y", "V", n)], at_s=-60 * (200 - n), held=max(n - 3, 0))
        for n in range(200)
        if n not in (50, 51, 199)
    ]
    straight, mixed = a_fleet(), a_fleet()
    straight.take(frames)
    shuffled = frames + rng.sample(frames, 60)
    rng.shuffle(shuffled)
    mixed.take(shuffled)
    assert told(mixed, "a") == told(straight, "a")
    row = told(mixed, "a")[0]
    assert (row["missing_closed"], row["missing_open"]) == (2, 0)


def test_numbers_the_board_still_holds_are_not_lost_yet():
    made = a_fleet()
    made.take([frame("a", n, [("x", "", n)], held=min(n, 4)) for n in (0, 1, 4, 9)])
    row = made.boards["a"].row(count_missing=True)
    assert (row["missing_closed"], row["missing_open"], row["backlog_last"]) == (2, 4, 5)


def test_a_clock_that_was_set_late_places_what_follows_by_uptime():
    made = a_fleet()
    made.take([frame("a", 0, [("x", "", 1)], at_s=-50, up=50.0, time_s=NOW_MS / 1000 - 50)])
    made.take([frame("a", 1, [("x", "", 2)], at_s=0, up=90.0, time_s=None)])
    found = made.boards["a"].sensors["x"]
    assert found.newest.time_ms == NOW_MS - 10_000 and not found.is_arrival
    made.take([frame("b", 0, [("x", "", 2)], at_s=0, up=90.0, time_s=None)])
    assert made.boards["b"].sensors["x"].is_arrival


def test_health_of_each_boot_adds_up_and_of_a_state_the_newest_counts():
    made = a_fleet()
    told_ = [(1, "not_published", 2), (1, "not_published", 5), (2, "not_published", 3),
             (2, "aside", 4), (2, "aside", 1)]  # fmt: skip
    made.take(
        [frame("a", n, [(name, "", v)], boot=boot) for n, (boot, name, v) in enumerate(told_)]
    )
    row = made.boards["a"].row(count_missing=True)
    assert (row["not_published"], row["aside"]) == (8, 1) and made.boards["a"].sensors == {}


def test_messages_that_the_broker_does_not_pass_on_are_named_and_no_other_client_is():
    made = a_fleet()
    told_ = [(0, "aside", 3), (1, "not_passed", 3), (2, "takeovers", 5)]
    made.take([frame("a", n, [(name, "", v)]) for n, name, v in told_])
    row = made.boards["a"].row(count_missing=True)
    [found] = attention.of_device(row, silent_s=0, usual_s=0)
    assert (found.key, found.text) == ("notpassed", "3 set aside")
    assert "takes these messages and does not pass them on: check the board's rights" in (
        found.kind.todo
    )
    assert attention.takeovers(row) == 0 and attention.takeovers(row | {"aside": 0}) == 5


def test_bins_end_where_a_span_ends():
    one = history.History()
    for hours, value in ((0, 1), (23.9, 2), (24.1, 3), (24 * 6.9, 4), (24 * 30.5, 5), (24 * 32, 6)):
        one.add(NOW_MS - int(hours * 3600_000), value, NOW_MS)
    one.add(NOW_MS + 3600_000, 7, NOW_MS)  # of the future
    counts = {span: sum(b.count for b in one.bins(span, NOW_MS)) for span in history.SPANS}
    expected = {"hour": 1, "hours": 1, "day": 2, "week": 4, "month": 5, "year": 7}
    assert counts == expected
    assert [b.mean for b in one.bins("day", NOW_MS)] == [2, 1]


@pytest.mark.parametrize(
    ("age_s", "span"), [(0, "hour"), (3601, "hours"), (21_601, "day"), (10**8, "day")]
)
def test_the_charts_of_a_new_board_have_a_span_that_fits(age_s, span):
    assert history.fitting(age_s) == span


def test_a_forgotten_board_is_gone_until_it_sends_again(tmp_path, writer):
    writer.store("old", ("x", "", 1))
    writer.store("other", ("x", "", 1))
    follower, made = followed(tmp_path / "log")
    made.look(at_once=True)
    assert set(made.boards) == {"old", "other"}
    assert cli.main(["live", "--log", str(tmp_path / "log"), "--forget", "old"]) == 0
    follower._listed_at = 0
    follower.turn()
    assert set(made.boards) == {"other"}
    _, again = followed(tmp_path / "log")  # of a page that starts later
    assert set(again.boards) == {"other"}
    writer.store("old", ("x", "", 2), received_s=time.time() + 1)
    follower.turn()
    assert newest(made, "old", "x") == 2
    (tmp_path / "log" / "forgotten.json").write_text("[1]")
    follower._listed_at = 0
    follower.turn()
    assert set(made.boards) == {"old", "other"}


def test_what_a_board_says_of_itself_is_in_words():
    made = a_fleet()
    own = [("firmware", "", 10203), ("report_s", "s", 600), ("reset_cause", "", 3)]
    own += [("memory", "B", 105_312), ("free", "KiB", 23_573_344), ("humidity", "%RH", 40)]
    made.take([frame("a", 1, own)])
    one = made.boards["a"]
    said = {name: words.text(each, each.newest.value) for name, each in one.sensors.items()}
    assert list(said.values()) == [
        "1.2.3", "every 10 min", "watchdog or crash", "105 kB", "24.1 GB", "40 %",
    ]  # fmt: skip
    measured = [each.name for each in words.parted(one)[0]]
    assert measured == ["free", "humidity"]
    text = card.card(made, one)
    assert text.index("humidity") < text.index("About the board") < text.index("firmware")
    assert (words.axis(23_573_344), words.axis(21.5)) == ("23.57 M", "21.5")


@pytest.mark.parametrize(
    ("collected", "said"),
    [(True, "verdict calm"), (None, "verdict calm"), (False, "was fine when last heard")],
)
def test_nothing_is_fine_while_nobody_writes_to_the_log(collected, said):
    made = a_fleet()
    made.take([frame("a", 1, [("x", "", 1)])])
    made.look(at_once=True)
    made.is_collected = collected
    assert said in page.head(made)


def test_what_a_board_said_of_itself_once_is_no_chart():
    made = a_fleet()
    made.take([frame("a", 1, [("x", "", 1), ("memory", "B", 5)])])
    charts = device_page.all_charts(made, made.boards["a"], "day")
    assert "x as a table" in charts and "free memory" not in charts
    made.take([frame("a", 2, [("memory", "B", 6)], at_s=-3600)])
    assert "free memory" in device_page.all_charts(made, made.boards["a"], "day")


def test_one_of_a_kind_is_no_plural():
    made = a_fleet()
    made.take([frame("a", 1, [("pins_lost", "", 1)]), frame("b", 1, [("pins_lost", "", 1200)])])
    made.look(at_once=True)
    texts = [one.findings[0].text for one in made.boards.values()]
    assert texts == ["1 outbox file gone", "1,200 outbox files gone"]


@pytest.mark.parametrize("value", [61.3, -0.1, 1e-9, 3e12, 0.0])
def test_a_value_that_stays_the_same_has_no_band(value):
    one = history.History()
    for ago_s in range(5):
        one.add(NOW_MS - ago_s, value, NOW_MS)
    (found,) = one.bins("hour", NOW_MS)
    assert found.least == found.mean == found.greatest == pytest.approx(value, rel=1e-12)


def a_full_sensor():
    one = sensor.Sensor(0, "x", "")
    for span in history.SPANS.values():
        for ago_s in range(0, span.seconds, span.width_s):
            point = sensor.Point(NOW_MS - 1000 * ago_s, ago_s + 0.5, 1)
            one.add(point, is_arrival=False, now_ms=NOW_MS)
    return one


def test_a_sensor_takes_as_much_memory_as_the_help_says():
    a_full_sensor()  # what only the first one in a process takes is not a sensor's
    tracemalloc.start()
    try:
        one = a_full_sensor()
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Not what other threads of this process took meanwhile:
    files = [
        tracemalloc.Filter(True, name) for name in (sensor.__file__, history.__file__, __file__)
    ]
    used = sum(trace.size for trace in snapshot.filter_traces(files).traces)
    assert len(one.recent) == sensor.RECENT and used < 34 * 1024


def test_what_boards_invent_without_end_is_bounded():
    made = a_fleet()
    frames = []
    for n in range(300):  # names, units, streams, boots, gaps, health
        records = [(f"name-{n}-{k}" + "x" * 200, f"u{n}", n) for k in range(5)] + [("aside", "", n)]
        frames.append(
            frame("a", n * 10, records, stream=f"{n % 40:08x}", boot=n, at_s=-n, held=n * 10)
        )
    made.take(frames)
    one = made.boards["a"]
    assert len(one.sensors) == device.MOST_SENSORS and one.hidden_sensors > 1000
    assert max(map(len, one.sensors)) <= 64 and len(one._streams) <= 8
    assert len(one._restarts._starts) <= restarts.MOST
    gaps = a_fleet()
    gaps.take([frame("b", n * 2, [("x", "", 1)]) for n in range(2000)])
    assert len(gaps.boards["b"]._streams["0badcafe"].numbers) <= 501
    many = a_fleet()
    many.take([frame(f"b{n}", 0, [("x", "", 1)]) for n in range(fleet.MOST_BOARDS + 5)])
    assert len(many.boards) == fleet.MOST_BOARDS and len(many.not_shown) == 5
    noise = [Frame(NOW_MS, 0, 1, b"outpost/a/data", b"[" + b"%d" % n) for n in range(500)]
    many.take([one for one in noise])
    assert many.refused.total() == 500 and len(many.refused) <= 21


@pytest.fixture
def writer(tmp_path):
    return Writer(tmp_path / "log")


def test_open_sealed_and_later_segments_are_followed(tmp_path, writer):
    writer.store("a", ("x", "", 1))
    follower, made = followed(tmp_path / "log")
    assert newest(made, "a", "x") == 1
    for value in range(2, 8):
        writer.store("a", ("x", "", value))
        if value % 2:
            writer.segments.seal()
        if value % 3 == 0:
            follower.turn()
            assert newest(made, "a", "x") == value
    follower.turn()
    assert made.boards["a"].messages == 7 and made.damaged_pieces == 0


def test_a_torn_write_waits_and_a_restarted_collector_goes_on(tmp_path, writer):
    writer.store("a", ("x", "", 1))
    follower, made = followed(tmp_path / "log")
    [path] = open_segments(tmp_path / "log" / "collector-1")
    with path.open("ab") as file:
        file.write(encode_frame(1, b"t", b"payload")[:-3])
    follower.turn()
    again = Writer(tmp_path / "log")  # cuts the torn tail, seals
    again._seqs = writer._seqs
    again.store("a", ("x", "", 2))
    follower.turn()
    assert newest(made, "a", "x") == 2 and made.boards["a"].messages == 2
    assert made.damaged_pieces == 0 and not made.refused


def test_damage_inside_a_segment_costs_what_it_hit_and_is_told(tmp_path, writer):
    follower, made = followed(tmp_path / "log")
    for value in range(10):
        writer.store("a", ("x", "", value))
    [path] = open_segments(tmp_path / "log" / "collector-1")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    read_all(follower, made)
    writer.segments.seal()
    follower.turn()
    assert made.boards["a"].messages == 9 and newest(made, "a", "x") == 9
    assert made.damaged_pieces == 1


def test_segments_deleted_under_it_and_numbers_that_begin_again(tmp_path, writer):
    for value in range(4):
        writer.store("a", ("x", "", value))
        writer.segments.seal()
    follower, made = followed(tmp_path / "log")
    assert made.is_complete
    folder = tmp_path / "log" / "collector-1"
    writer.store("a", ("x", "", 4))
    writer.segments.seal()
    for path in sealed_segments(folder):  # pruned, the unread one too
        path.unlink()
    writer.store("a", ("x", "", 5))
    read_all(follower, made)
    assert newest(made, "a", "x") == 5
    for path in open_segments(folder):
        path.unlink()
    fresh = Writer(tmp_path / "log")
    fresh._seqs = writer._seqs
    fresh.store("a", ("x", "", 6))
    read_all(follower, made)
    assert newest(made, "a", "x") == 6


def test_a_job_that_failed_is_on_the_page_with_its_reason(tmp_path, writer):
    writer.store("a", ("x", "", 1))
    job_notes.write(tmp_path, {"tables": "status 2: <no room>"})
    made = Fleet()
    read_all(Follower(tmp_path / "log", made, history_bytes=MIB, jobs=tmp_path), made)
    assert "The job tables of <code>outpost run</code> failed: status 2: &lt;no room&gt;." in (
        page.head(made)
    )


def test_the_newest_segment_is_there_before_the_history(tmp_path, writer):
    for value in range(60):
        writer.store("a", ("x", "", value), received_s=time.time() - 6000 + 60 * value)
        if value % 20 == 19:
            writer.segments.seal()
    made = Fleet()
    follower = Follower(tmp_path / "log", made, history_bytes=MIB)
    follower._read_history = lambda: None
    follower.turn()
    assert newest(made, "a", "x") == 59 and made.boards["a"].messages == 20
    del follower._read_history
    read_all(follower, made)
    assert made.boards["a"].messages == 60 and made.is_complete
    points = made.boards["a"].sensors["x"].recent
    assert [point.value for point in points] == list(range(20, 60))


def test_a_bounded_history_takes_no_gap_for_a_loss(tmp_path, writer):
    for value in range(300):
        writer.store("a", ("x", "", value), received_s=time.time() - 300 + value, held=value)
        if value % 30 == 29:
            writer.segments.seal()
    writer.store("a", ("x", "", 0), seq=5, held=5)  # a copy from before what is read
    made = Fleet()
    follower = Follower(tmp_path / "log", made, history_bytes=6_000)
    read_all(follower, made)
    one = made.boards["a"]
    assert not made.is_complete and one.messages < 150
    assert one.row(count_missing=True)["missing_closed"] == 0
    writer.store("a", ("x", "", 1), seq=304, held=304)
    follower.turn()
    assert one.row(count_missing=True)["missing_closed"] == 4


def test_what_of_the_history_cannot_be_read_costs_only_itself(tmp_path, writer):
    for value in range(4):
        writer.store("a", ("x", "", value))
        writer.segments.seal()
    unreadable = sealed_segments(tmp_path / "log" / "collector-1")[1]
    unreadable.unlink()
    unreadable.mkdir()
    _, made = followed(tmp_path / "log")
    assert made.boards["a"].messages == 3 and not made.is_complete
    assert made.boards["a"].row(count_missing=True)["missing_closed"] == 0


def test_several_collectors_and_what_is_no_log(tmp_path, writer):
    writer.store("a", ("x", "", 1))
    follower, made = followed(tmp_path / "log")
    second = Writer(tmp_path / "log", "collector-2")
    second.store("b", ("x", "", 2))
    second.segments.seal()
    second.store("b", ("x", "", 3))
    (tmp_path / "log" / "notes.txt").write_text("mine")
    read_all(follower, made)
    assert newest(made, "b", "x") == 3
    with pytest.raises(ToolError, match="folder of one collector"):
        Follower(tmp_path / "log" / "collector-1", Fleet(), history_bytes=MIB).start()
    with pytest.raises(ToolError, match="not a directory"):
        Follower(tmp_path / "log" / "notes.txt", Fleet(), history_bytes=MIB).start()
    nowhere = Follower(tmp_path / "nowhere", Fleet(), history_bytes=MIB)
    nowhere.turn()  # it may come later
    SegmentWriter(tmp_path / "nowhere" / "c")


def test_a_fault_of_our_own_is_told_and_ends_with_its_cause(tmp_path, monkeypatch):
    (tmp_path / "log").mkdir()
    made = Fleet()
    monkeypatch.setattr(made, "look", lambda: 1 // 0)
    follower = Follower(tmp_path / "log", made, history_bytes=MIB)
    follower.start()
    try:
        wait_until(lambda: "ZeroDivisionError" in follower.reason)
        monkeypatch.undo()
        wait_until(lambda: follower.reason == "")
    finally:
        follower.stop()
