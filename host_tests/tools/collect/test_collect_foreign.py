# cpython-only: tests a desktop tool
# ruff: noqa: F811 - a fixture of collector_process
"""Other people's messages in the collector: stored as they are, once, and never confirmed."""

import json
import threading
import time
from collections import Counter

import pytest

from collector_process import (  # noqa: F401 - a fixture
    GATED,
    Process,
    Watcher,
    connect,
    disconnect,
    mosquitto,
    payload,
    wait_until,
)
from outpost_tools import cli
from outpost_tools.collect.foreign import Foreign
from outpost_tools.collect.log import frame_key
from outpost_tools.common import segments
from outpost_tools.common.errors import ToolError
from outpost_tools.common.mqtt_packets import DUP
from outpost_tools.sources import file, ready_files
from outpost_tools.sources.decode import of_frame
from outpost_tools.sources.result import Message, Refused
from real_broker import Link

TEXT = """
ignore = ["plugs/secret"]
[[source]]
name = "plugs"
topic = "plugs/{device}"
values = ["*"]
[[source]]
name = "meters"
topic = "m-{device}/values"
payload = "number"
metric = "v"
"""
ONE, TWO, NOW_MS = b"\0\1", b"\0\2", 1_768_478_400_000
TOPIC, DATA = b"plugs/a", b'{"v":1}'


@pytest.fixture
def foreign(tmp_path):
    return Foreign(file.parse(TEXT, "s.toml"), "outpost", tmp_path)


# --- What is stored ---


@pytest.mark.parametrize(
    ("topic", "is_taken"),
    [
        (b"plugs/a", True),
        (b"m-1/values", True),
        (b"x/values", True),  # the filter asked for it: a mended pattern may want it
        (b"plugs/secret", False),
        (b"plugs/a/b", False),
        (b"outpost/values", False),
        (b"plugs/\xff", False),
    ],
)
def test_which_topics_are_taken(foreign, topic, is_taken):
    assert foreign.takes(topic) is is_taken
    assert foreign.takes(topic) is is_taken


def test_a_source_below_our_own_prefix_is_refused(tmp_path):
    text = '[[source]]\nname = "a"\ntopic = "outpost/{device}/x"\nvalues = ["*"]'
    with pytest.raises(ToolError, match="'a': topics below outpost/ are those of Outpost's boards"):
        Foreign(file.parse(text, "s.toml"), "outpost", tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        payload(5),
        payload(5).replace(b'"sid"', b'"\\u0073id"'),
        payload(5).decode().encode("utf-16"),
        payload(5).decode().encode("utf-32-le"),
    ],
)
def test_what_looks_like_a_message_of_a_board_is_not_stored(foreign, data):
    """A later start would read its key from the log, and confirm what no board has sent."""
    topic = b"plugs/b1/data"
    frame = next(
        iter(segments.scan(segments.sealed_bytes([segments.encode_frame(1, topic, data)])))
    )
    assert frame_key(frame) is not None
    assert foreign.entry(0, topic, ONE, data, NOW_MS) is None
    assert foreign.imitations == 1


# --- Copies ---


def test_a_copy_has_the_same_identifier_topic_and_bytes_and_dup(foreign):
    entry = foreign.entry(0, TOPIC, ONE, DATA, NOW_MS)
    foreign.stored([entry])
    assert foreign.entry(DUP, TOPIC, ONE, DATA, NOW_MS) is None
    assert foreign.copies == 1


@pytest.mark.parametrize(
    ("kind", "topic", "packet_id", "data"),
    [
        (0, TOPIC, ONE, DATA),
        (DUP, TOPIC, TWO, DATA),
        (DUP, b"plugs/b", ONE, DATA),
        (DUP, TOPIC, ONE, b'{"v":2}'),
        (DUP, b"plugs/", ONE, b"a" + DATA),
    ],
)
def test_what_differs_in_anything_is_no_copy(foreign, kind, topic, packet_id, data):
    foreign.stored([foreign.entry(0, TOPIC, ONE, DATA, NOW_MS)])
    assert foreign.entry(kind, topic, packet_id, data, NOW_MS) is not None
    assert foreign.copies == 0


def test_dup_alone_drops_nothing(foreign):
    """It is also set if the first attempt never reached us."""
    entries = [
        foreign.entry(DUP, TOPIC, n.to_bytes(2, "big"), b"%d" % n, NOW_MS) for n in range(1, 1000)
    ]
    assert None not in entries
    assert foreign.entry(DUP, TOPIC, ONE, DATA, NOW_MS) is not None, (
        "not stored yet, so no copy of it"
    )


def test_only_the_last_message_under_an_identifier_counts(foreign):
    for data in (DATA, b"2"):
        foreign.stored([foreign.entry(0, TOPIC, ONE, data, NOW_MS)])
    assert foreign.entry(DUP, TOPIC, ONE, DATA, NOW_MS) is not None
    assert foreign.entry(DUP, TOPIC, ONE, b"2", NOW_MS) is None


def log_of(folder, *messages):
    """Seals a segment with these (topic, payload, arrival)."""
    writer = segments.SegmentWriter(folder, max_bytes=1 << 20)
    for topic, data, ms in messages:
        writer.append(segments.encode_frame(ms, topic, data))
    writer.commit()
    writer.seal()


def made_again(folder):
    return Foreign(file.parse(TEXT, "s.toml"), "outpost", folder)


def store(foreign, *entries):
    foreign.announce([*entries])
    foreign.stored([*entries])


def test_what_is_known_survives_a_restart_and_not_a_lost_session(foreign, tmp_path):
    store(foreign, foreign.entry(0, TOPIC, ONE, DATA, NOW_MS))
    store(foreign, foreign.entry(0, TOPIC, TWO, b"2", NOW_MS))
    log_of(tmp_path, (TOPIC, DATA, NOW_MS), (TOPIC, b"2", NOW_MS))
    again = made_again(tmp_path)
    assert again.entry(DUP, TOPIC, ONE, DATA, NOW_MS) is None
    assert again.entry(DUP, TOPIC, TWO, b"2", NOW_MS) is None
    again.forget()
    assert again.entry(DUP, TOPIC, ONE, DATA, NOW_MS) is not None
    assert made_again(tmp_path).entry(DUP, TOPIC, TWO, b"2", NOW_MS) is not None


@pytest.mark.parametrize(
    ("in_log", "is_known"),
    [
        ([(TOPIC, b"2", NOW_MS)], [True, False]),
        ([], [False, False]),
        ([(TOPIC, b"2", NOW_MS), (TOPIC, b"2", NOW_MS)], [True, True]),
        ([(TOPIC, b"2", NOW_MS - 1)], [False, False]),
        ([(b"plugs/b", b"2", NOW_MS)], [False, False]),
    ],
)
def test_of_the_last_batch_only_what_is_in_the_log_is_believed(foreign, tmp_path, in_log, is_known):
    """Two equal messages, announced; the process ended before or while they were stored."""
    store(foreign, foreign.entry(0, TOPIC, b"\0\7", b"earlier", NOW_MS - 9))
    foreign.announce([foreign.entry(0, TOPIC, one, b"2", NOW_MS) for one in (ONE, TWO)])
    log_of(tmp_path, (TOPIC, b"earlier", NOW_MS - 9), *in_log)
    again = made_again(tmp_path)
    for _ in range(2):
        known = [again.entry(DUP, TOPIC, one, b"2", NOW_MS) is None for one in (ONE, TWO)]
        assert known == is_known
        store(again, again.entry(0, TOPIC, b"\0\x08", b"later", NOW_MS))
        again = made_again(tmp_path)
    assert again.entry(DUP, TOPIC, b"\0\7", b"earlier", NOW_MS) is None


def test_a_torn_end_of_the_file_costs_nothing_else(foreign, tmp_path):
    store(foreign, foreign.entry(0, TOPIC, ONE, DATA, NOW_MS))
    log_of(tmp_path, (TOPIC, DATA, NOW_MS), (TOPIC, b"2", NOW_MS))
    with (tmp_path / "foreign.ids").open("ab") as torn:
        torn.write(b"\0\1\2")
    for _ in range(2):
        again = made_again(tmp_path)
        assert again.entry(DUP, TOPIC, ONE, DATA, NOW_MS) is None
        store(again, again.entry(0, TOPIC, TWO, b"2", NOW_MS))
    assert (tmp_path / "foreign.ids").stat().st_size % 18 == 0


def test_the_file_stays_bounded(foreign, tmp_path):
    for turn in range(7):
        ids = (n.to_bytes(2, "big") for n in range(1, 65_536))
        store(foreign, *((one, b"%08d" % turn, NOW_MS) for one in ids))
    assert (tmp_path / "foreign.ids").stat().st_size <= 5 * 18 * 65_536


def test_filters_that_are_left_are_known_at_the_next_start(foreign, tmp_path):
    assert (foreign.filters, foreign.left) == (["+/values", "plugs/+"], [])
    foreign.note(foreign.filters)
    text = TEXT.replace("plugs/{device}", "other/{device}")
    later = Foreign(file.parse(text, "s.toml"), "outpost", tmp_path)
    assert (later.filters, later.left) == (["+/values", "other/+"], ["plugs/+"])
    assert Foreign(None, "outpost", tmp_path).left == ["+/values", "plugs/+"]


# --- At a real broker ---


@pytest.fixture
def sources(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text(TEXT)
    return path


def collector(tmp_path, port, sources, **how):
    options = ["--sources", str(sources)] if sources else []
    return Process(tmp_path, port, options=options, **how)


def publish(client, pairs, *, retain=False):
    """Returns when the broker has acknowledged all of them."""
    for one in [client.publish(topic, data, 1, retain) for topic, data in pairs]:
        one.wait_for_publish(60)


def stored(process, prefix="plugs/"):
    return [
        (frame.topic.decode(), frame.payload)
        for frame in process.frames()
        if frame.topic.decode().startswith(prefix)
    ]


def test_messages_are_stored_as_they_are_beside_those_of_boards(mosquitto, tmp_path, sources):
    client = connect(mosquitto, "sender")
    pairs = [("plugs/a", b'{"v":1}'), ("plugs/b", b"\xff\0no json"), ("m-7/values", b"3")]
    publish(client, [("plugs/old", b"retained")], retain=True)
    with collector(tmp_path, mosquitto.port, sources) as process:
        process.wait_subscribed(3)
        watcher = Watcher(mosquitto)
        publish(client, [*pairs, ("plugs/secret", b"x"), ("elsewhere/a", b"x")])
        publish(client, [("outpost/b1/data", payload(0)), ("plugs/b1/data", payload(9))])
        wait_until(lambda: watcher.numbers("b1") == [0] and len(process.frames()) >= 5)
        assert process.interrupt() == 0
        found = [(one.topic.decode(), one.payload) for one in process.frames()]
        assert sorted(found) == sorted(
            [*pairs, ("plugs/old", b"retained"), ("outpost/b1/data", payload(0))]
        )
        retained = [one.topic for one in process.frames() if one.retained]
        assert retained == [b"plugs/old"]
        assert {topic for topic, _ in watcher.seen} == {"outpost/b1/durable"}
        disconnect(client, watcher.client)


def test_nothing_is_acknowledged_before_fsync(mosquitto, tmp_path, sources):
    client = connect(mosquitto, "sender")
    with collector(tmp_path, mosquitto.port, sources, program=GATED) as process:
        process.wait_subscribed(3)
        publish(client, [("plugs/a", b"%d" % n) for n in range(5)])
        time.sleep(0.3)
        process.kill()  # nothing was fsynced
        process.gate.touch()
        process.start()
        wait_until(lambda: len({data for _, data in stored(process)}) == 5)
        assert process.interrupt() == 0
    disconnect(client)


def test_a_killed_connection_stores_each_message_once(mosquitto, tmp_path, sources):
    """The broker sends again what was stored while the connection was gone, with DUP, and what has
    never arrived, perhaps with DUP. Equal payloads are different messages."""
    client = connect(mosquitto, "sender")
    sent = []
    with Link(mosquitto.port) as link, collector(
        tmp_path, link.port, sources, program=GATED
    ) as process:  # fmt: skip
        process.wait_subscribed(3)
        for turn in range(4):
            process.gate.unlink(missing_ok=True)
            pairs = [("plugs/a", b"same"), *(("plugs/b", b"%d %d" % (turn, n)) for n in range(15))]
            publish(client, pairs)
            sent += pairs
            time.sleep(0.3)  # they are taken, and wait for their fsync
            link.cut()
            process.gate.touch()
            publish(client, [("plugs/c", b"while away %d" % turn)])
            sent += [("plugs/c", b"while away %d" % turn)]
            link.restore()
            count = len(sent)
            wait_until(lambda count=count: len(stored(process)) >= count)
        time.sleep(0.5)
        assert process.interrupt() == 0
        assert sorted(stored(process)) == sorted(sent)
    disconnect(client)


# The collector, killed as soon as the first of other people's messages are written: before or after
# their fsync, and always before their PUBACKs.
KILLED = """
import os, signal, sys
from outpost_tools.collect import log
def store(self, frames):
    if any(b"plugs/" in one for one in frames):
        WHEN
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, frames)
real, log.Log.store = log.Log.store, store
from outpost_tools.cli import main
sys.exit(main())
"""
MOMENTS = {
    "after the fsync": "real(self, frames)",
    "before anything is written": "pass",
    "when half is written": "w = self._open_writer(); w.append_all(frames[: len(frames) // 2]); "
    "w.commit()",
    "before the fsync": "w = self._open_writer(); w.append_all(frames); w._file.flush()",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_around_the_fsync_stores_each_message_once(mosquitto, tmp_path, sources, moment):
    client = connect(mosquitto, "sender")
    pairs = [("plugs/a", b"same" if n % 2 else b"%d" % n) for n in range(20)]
    program = KILLED.replace("WHEN", MOMENTS[moment])
    with collector(tmp_path, mosquitto.port, sources, program=program) as killed:
        killed.wait_subscribed(3)
        publish(client, pairs)
        wait_until(lambda: not killed.alive)
    with collector(tmp_path, mosquitto.port, sources) as process:
        wait_until(lambda: len(stored(process)) >= len(pairs))
        time.sleep(0.5)
        assert process.interrupt() == 0
        assert sorted(stored(process)) == sorted(pairs)
    disconnect(client)


def test_kills_at_random_moments_store_each_message_once(mosquitto, tmp_path, sources):
    client = connect(mosquitto, "sender")
    pairs, is_over = [], threading.Event()

    def send():
        while not is_over.wait(0.002):
            pairs.append((f"plugs/{len(pairs) % 7}", b"%d" % len(pairs)))
            client.publish(*pairs[-1], 1)

    sender = threading.Thread(target=send)
    with collector(tmp_path, mosquitto.port, sources) as process:
        process.wait_subscribed(3)
        sender.start()
        for turn in range(5):
            time.sleep(0.7 + turn / 9)
            process.kill()
            process.start()
        is_over.set()
        sender.join()
        wait_until(lambda: {*pairs} <= {*stored(process)})
        assert process.interrupt() == 0
        assert sorted(stored(process)) == sorted(pairs)
    disconnect(client)


def readings(mapping, frames):
    """Of the frames that are for this mapping: {(device, name, time, value)} with how often."""
    found = Counter()
    for frame in frames:
        result = of_frame(mapping, frame)
        if isinstance(result, Message) and not result.is_last_known:
            for one in result.readings:
                at = one.time_us if result.time_from == "device" else None
                found[result.device, one.name, at, one.value] += 1
    return found


def test_a_wrong_mapping_is_mended_and_applied_to_the_log(mosquitto, tmp_path):
    """50 devices, two kills of the collector, and a mapping that reads the wrong field. Afterwards
    the readings are those of what was sent, computed without our code."""
    text = ready_files.text("numbers")
    wrong = text.replace('time = "time"', 'time = "at"').replace('["**"]', '["pump.*"]')
    (tmp_path / "sources.toml").write_text(wrong)
    client, wanted = connect(mosquitto, "sender"), Counter()
    with collector(tmp_path, mosquitto.port, tmp_path / "sources.toml") as process:
        process.wait_subscribed(2)
        for turn in range(6):
            pairs = []
            for device in range(50):
                at, value = 1_768_478_400 + turn, device + turn / 4
                document = {"time": at, "temperature": value, "pump": {"on": True}, "mode": "x"}
                pairs.append((f"sensors/d{device}", json.dumps(document).encode()))
                wanted[f"d{device}", "temperature", at * 1_000_000, value] += 1
                wanted[f"d{device}", "pump.on", at * 1_000_000, 1.0] += 1
            publish(client, pairs)
            if turn in (2, 4):
                process.kill()
                process.start()
        wait_until(lambda: len(process.frames()) >= 300)
        assert process.interrupt() == 0
        frames = process.frames()
    disconnect(client)
    assert readings(file.parse(wrong, "s.toml"), frames).keys().isdisjoint(wanted)
    mended = file.parse(text, "s.toml")
    assert all(mended.has(one.topic) for one in frames)
    assert readings(mended, frames) == wanted


def test_a_frame_that_was_cut_is_refused_as_such():
    data = segments.sealed_bytes([segments.encode_frame(1, TOPIC, b"1" * 70_000)])
    (frame,) = segments.scan(data)
    found = of_frame(file.parse(TEXT, "s.toml"), frame)
    assert found == Refused("longer than 65536 bytes", "plugs", "a")


def test_a_filter_that_the_file_no_longer_has_is_unsubscribed(mosquitto, tmp_path, sources):
    client = connect(mosquitto, "sender")
    with collector(tmp_path, mosquitto.port, sources) as process:
        process.wait_subscribed(3)
        assert process.interrupt() == 0
    with collector(tmp_path, mosquitto.port, None) as process:
        filters = process.directory / "foreign.filters"
        wait_until(lambda: json.loads(filters.read_text()) == [])
        assert process.interrupt() == 0
    publish(client, [("plugs/a", b"1"), ("outpost/b1/data", payload(0))])
    with collector(tmp_path, mosquitto.port, sources) as process:
        wait_until(lambda: b"outpost/b1/data" in [one.topic for one in process.frames()])
        assert stored(process) == [], "the session had no such filter any more"
        assert process.interrupt() == 0
    disconnect(client)


def test_a_fault_in_the_file_ends_the_start(tmp_path, capsys):
    path = tmp_path / "s.toml"
    path.write_text("[[source]]\nname = 1")
    words = ["--broker", "127.0.0.1:1", "--log", tmp_path / "log", "--sources", path]
    assert cli.main(["collect", *map(str, words)]) == 2
    assert "s.toml, line 1: source 1: " in capsys.readouterr().err
