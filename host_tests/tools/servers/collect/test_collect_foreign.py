# cpython-only: tests a desktop tool
# ruff: noqa: F811 - a fixture of collector_process
"""Other people's messages in the collector: stored as they are, once, and never confirmed."""

import json
import os
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
from faulty_folder import Faults, FaultyFolder
from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.mqtt.packets import DUP
from outpost_tools.readings.sources import file, ready_files
from outpost_tools.readings.sources.decode import of_frame
from outpost_tools.readings.sources.result import Message, Refused
from outpost_tools.servers.collect.batch import Batch, Entry
from outpost_tools.servers.collect.disk_log import DiskLog
from outpost_tools.servers.collect.foreign import Foreign
from outpost_tools.servers.collect.identifiers import digest
from outpost_tools.servers.collect.log import frame_key
from outpost_tools.servers.collect.store_log import StoreLog
from outpost_tools.store import at
from outpost_tools.store.local import LocalStore
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


KINDS = {
    "disk": lambda folder: DiskLog(folder, "c1"),
    "bucket": lambda folder: StoreLog(LocalStore(folder), "c1", segment_seconds=0.0),
}


@pytest.fixture
def log(tmp_path):
    return DiskLog(tmp_path, "c1")


@pytest.fixture
def foreign(log):
    return made(log)


def made(log, text=TEXT):
    return Foreign(file.parse(text, "s.toml") if text else None, "outpost", log)


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


def test_a_source_below_our_own_prefix_is_refused(log):
    text = '[[source]]\nname = "a"\ntopic = "outpost/{device}/x"\nvalues = ["*"]'
    with pytest.raises(ToolError, match="'a': topics below outpost/ are those of Outpost's boards"):
        made(log, text)


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
    assert foreign.take(0, topic, ONE, data) is None
    assert foreign.imitations == 1


# --- Copies ---


def test_a_copy_has_the_same_identifier_topic_and_bytes_and_dup(foreign):
    assert foreign.take(0, TOPIC, ONE, DATA)
    assert foreign.take(DUP, TOPIC, ONE, DATA) is None
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
    foreign.take(0, TOPIC, ONE, DATA)
    assert foreign.take(kind, topic, packet_id, data)
    assert foreign.copies == 0


def test_dup_alone_drops_nothing(foreign):
    """It is also set if the first attempt never reached us."""
    taken = [foreign.take(DUP, TOPIC, n.to_bytes(2, "big"), b"%d" % n) for n in range(1, 1000)]
    assert None not in taken


def test_without_an_identifier_nothing_is_a_copy(foreign):
    for packet_id in (b"", b"\0\0"):
        for _ in range(2):
            assert foreign.take(DUP, TOPIC, packet_id, DATA) == b""


def test_only_the_last_message_under_an_identifier_counts(foreign):
    for data in (DATA, b"2"):
        foreign.take(0, TOPIC, ONE, data)
    assert foreign.take(DUP, TOPIC, ONE, DATA)
    assert foreign.take(DUP, TOPIC, ONE, DATA) is None


def batch_of(foreign, *messages):
    """Between messages of boards."""
    batch = Batch(1)
    for packet_id, data in messages:
        batch.frames.append(segments.encode_frame(NOW_MS, b"outpost/b1/data", b"x"))
        found = foreign.take(0, TOPIC, packet_id, data)
        batch.foreign.append(Entry(len(batch.frames), packet_id, found, NOW_MS))
        batch.frames.append(segments.encode_frame(NOW_MS, TOPIC, data))
    return batch


def commit(log, batch):
    log.add(batch)
    wait_until(lambda: log.commit(at_once=True) is not None)


def killed(log):
    """The same log in the next life; only its lock is given back."""
    if isinstance(log, DiskLog):
        os.close(log._lock)
        return DiskLog(log.directory.parent, "c1")
    return StoreLog(LocalStore(log.folder.path.parent), "c1", segment_seconds=0.0)


def are_known(foreign, *messages):
    return [foreign.take(DUP, TOPIC, packet_id, data) is None for packet_id, data in messages]


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_kill_what_was_stored_is_known_and_no_more(tmp_path, kind):
    log = KINDS[kind](tmp_path)
    foreign = made(log)
    commit(log, batch_of(foreign, (ONE, DATA), (TWO, b"2")))
    log.add(batch_of(foreign, (b"\0\3", b"3"), (TWO, b"later")))
    again = made(killed(log))
    messages = (ONE, DATA), (b"\0\3", b"3"), (TWO, b"later")
    assert are_known(again, *messages) == [True, False, False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_of_what_is_not_yet_durable_is_one(tmp_path, kind):
    """The connection broke during the PUT: the broker sends again what has no PUBACK."""
    log = KINDS[kind](tmp_path)
    foreign = made(log)
    log.add(batch_of(foreign, (ONE, DATA)))
    assert are_known(foreign, (ONE, DATA)) == [True]


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_session_ends_what_is_known_also_of_what_is_held(tmp_path, kind):
    log = KINDS[kind](tmp_path)
    foreign = made(log)
    commit(log, batch_of(foreign, (ONE, DATA)))
    if kind == "bucket":  # on a disk, nothing is held while there is a connection
        log.add(batch_of(foreign, (TWO, b"2")))
        log.commit(at_once=True)
        log.add(batch_of(foreign, (b"\0\3", b"3")))
    foreign.forget()
    assert are_known(foreign, (ONE, DATA)) == [False]
    while log.held:
        log.commit(at_once=True)
    commit(log, batch_of(foreign, (b"\0\4", b"4")))
    messages = (ONE, DATA), (TWO, b"2"), (b"\0\3", b"3"), (b"\0\4", b"4")
    assert are_known(made(killed(log)), *messages) == [False, False, False, True]


def test_in_a_bucket_a_forgetting_that_was_refused_precedes_the_next_segment(tmp_path):
    faulty = FaultyFolder(tmp_path, Faults())
    log = StoreLog(faulty, "c1", segment_seconds=0.0)
    foreign = made(log)
    commit(log, batch_of(foreign, (ONE, DATA)))
    faulty.faults.before = 1
    foreign.forget()
    assert not (log.folder.path / "foreign.after").exists()
    commit(log, batch_of(foreign, (TWO, b"2")))
    assert are_known(made(killed(log)), (ONE, DATA), (TWO, b"2")) == [False, True]


def test_in_a_bucket_the_newest_segments_are_read_and_the_last_message_counts(tmp_path):
    log = KINDS["bucket"](tmp_path)
    foreign = made(log)
    for number in range(70):
        packet_id = (number % 68 + 1).to_bytes(2, "big")
        commit(log, batch_of(foreign, (packet_id, b"%d" % number)))
    found = killed(log).identifiers()
    assert found.keys() == {(n % 68 + 1).to_bytes(2, "big") for n in range(6, 70)}
    assert found[ONE] == digest(TOPIC, b"68")


def test_a_refused_batch_that_was_tried_again_is_still_in_doubt(tmp_path, monkeypatch):
    log = DiskLog(tmp_path, "c1")
    foreign = made(log)
    log.add(batch_of(foreign, (ONE, DATA)))
    monkeypatch.setattr(log, "store", lambda _: (_ for _ in ()).throw(OSError("full")))
    for _ in range(3):
        with pytest.raises(OSError, match="full"):
            log.commit()
    assert are_known(made(killed(log)), (ONE, DATA)) == [False]


@pytest.mark.parametrize("kind", KINDS)
def test_filters_that_are_left_are_known_at_the_next_start(tmp_path, kind):
    log = KINDS[kind](tmp_path)
    foreign = made(log)
    assert (foreign.filters, foreign.left) == (["+/values", "plugs/+"], [])
    foreign.note(foreign.filters)
    later = made(log, TEXT.replace("plugs/{device}", "other/{device}"))
    assert (later.filters, later.left) == (["+/values", "other/+"], ["plugs/+"])
    assert made(log, None).left == ["+/values", "plugs/+"]


# --- At a real broker ---


@pytest.fixture
def sources(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text(TEXT)
    return path


def collector(tmp_path, port, sources, *, more=(), **how):
    options = ["--sources", str(sources)] if sources else []
    return Process(tmp_path, port, options=[*options, *more], **how)


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
from outpost_tools.servers.collect.disk_log import DiskLog
def store(self, frames):
    if any(b"plugs/" in one for one in frames):
        WHEN
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, frames)
real, DiskLog.store = DiskLog.store, store
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


@pytest.mark.parametrize("kind", KINDS)
def test_kills_at_random_moments_store_each_message_once(
    mosquitto, tmp_path, sources, kind, request
):
    log = None
    if kind == "bucket":
        log = at.at(f"{request.getfixturevalue('bucket_url')}/log")
    client = connect(mosquitto, "sender")
    pairs, is_over = [], threading.Event()

    def send():
        while not is_over.wait(0.002):
            pairs.append((f"plugs/{len(pairs) % 7}", b"%d" % len(pairs)))
            client.publish(*pairs[-1], 1)

    sender = threading.Thread(target=send)
    with collector(tmp_path, mosquitto.port, sources, log=log) as process:
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


def test_a_connection_that_ends_during_a_put_stores_each_message_once(
    mosquitto, tmp_path, sources, bucket_url, faulty_store
):
    """The broker sends them again while they are neither durable nor acknowledged."""
    client, sent, log = connect(mosquitto, "sender"), [], at.at(f"{bucket_url}/log")
    with Link(mosquitto.port) as link, collector(
        tmp_path, link.port, sources, log=log
    ) as process:  # fmt: skip
        process.wait_subscribed(3)
        for turn in range(3):
            held = threading.Event()
            faulty_store.hold(held, kinds={"PUT"}, times=1, part="segment-")
            puts = faulty_store.counts["PUT"]
            pairs = [("plugs/a", b"same"), *(("plugs/b", b"%d %d" % (turn, n)) for n in range(15))]
            publish(client, pairs)
            sent += pairs
            wait_until(lambda puts=puts: faulty_store.counts["PUT"] > puts)
            count = process.text().count("session resumed")
            link.cut()
            link.restore()
            wait_until(lambda count=count: process.text().count("session resumed") > count)
            time.sleep(0.3)
            held.set()
            count = len(sent)
            wait_until(lambda count=count: len(stored(process)) >= count)
        assert process.interrupt() == 0
        assert sorted(stored(process)) == sorted(sent)
    disconnect(client)


def test_a_kill_after_a_put_and_before_its_answer_stores_each_message_once(
    mosquitto, tmp_path, sources, bucket_url, faulty_store
):
    client, log = connect(mosquitto, "sender"), at.at(f"{bucket_url}/log")
    pairs = [("plugs/a", b"same" if n % 2 else b"%d" % n) for n in range(20)]
    one_segment = ["--segment-seconds", "3"]
    with collector(tmp_path, mosquitto.port, sources, more=one_segment, log=log) as process:
        process.wait_subscribed(3)
        faulty_store.cut_after(kinds={"PUT"}, times=1000, part="segment-")
        publish(client, pairs)
        wait_until(lambda: len(stored(process)) == len(pairs))
        process.kill()
        faulty_store.clear()
        process.start()
        publish(client, [("plugs/b", b"later")])
        wait_until(lambda: ("plugs/b", b"later") in stored(process))
        assert process.interrupt() == 0
        assert sorted(stored(process)) == sorted([*pairs, ("plugs/b", b"later")])
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
