# cpython-only: runs a desktop tool as a process, against real mosquitto
"""`outpost collect` with mosquitto: kills, confirmations given again, foreign payloads, a broker
that comes back.
"""

import threading
import time

import cbor2
import paho.mqtt.client as mqtt

import series_writer
from collector_process import (
    LIMIT_S,
    STREAM,
    TOPIC,
    Process,
    Watcher,
    connect,
    disconnect,
    mosquitto,
    payload,
    wait_until,
)
from outpost_tools.log import segments

_ = mosquitto  # a fixture
ROWS = series_writer.climate(60)


def publish_all(client, count):
    """Numbers 0..count-1 from each of two devices at some 2,000 messages/s, with a bad payload now
    and then.
    """
    for seq in range(count):
        for device in ("b1", "b2"):
            client.publish(f"outpost/{device}/data", payload(seq, device=device), qos=1)
        if seq % 100 == 0:
            client.publish(TOPIC, b"\xff bad %d" % seq, qos=1)
        time.sleep(0.001)


def test_kills_in_the_middle_lose_nothing_and_confirm_only_what_is_stored(tmp_path, mosquitto):
    count = 2500
    with Process(
        tmp_path, mosquitto.port, options=["--segment-bytes", "60000", "--segment-seconds", "0.3"]
    ) as collector:
        collector.wait_subscribed()
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        publisher = threading.Thread(target=publish_all, args=(board, count))
        publisher.start()
        for pause in (0.4, 0.7, 0.25, 0.9):
            time.sleep(pause)
            collector.kill()
            stored = set(collector.payloads())
            for device in ("b1", "b2"):
                confirmed = max(watcher.numbers(device), default=-1)
                assert all(payload(n, device=device) in stored for n in range(confirmed + 1))
            collector.start()
        publisher.join()
        wait_until(lambda: all(watcher.numbers(d)[-1:] == [count - 1] for d in ("b1", "b2")))
        assert collector.terminate() == 0
        disconnect(watcher.client, board)
        assert len(watcher.numbers("b1")) > 1  # how many depends on the machine
        bad = {b"\xff bad %d" % seq for seq in range(0, count, 100)}
        good = {payload(n, device=d) for n in range(count) for d in ("b1", "b2")}
        assert set(collector.payloads()) == good | bad
        assert segments.open_segments(collector.directory) == []


def test_confirmation_is_given_again_for_duplicates_and_after_a_restart(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port) as collector:
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        collector.wait_subscribed()
        for seq in (0, 1, 3):
            board.publish(TOPIC, payload(seq), qos=1)
        wait_until(lambda: (f"{TOPIC[:-4]}durable", b"0badcafe 1") in watcher.seen)
        time.sleep(0.3)
        watcher.seen.clear()
        board.publish(TOPIC, payload(1), qos=1)
        wait_until(lambda: watcher.numbers("b1") == [1])
        board.publish(TOPIC, payload(5, held=5), qos=1)
        wait_until(lambda: watcher.numbers("b1")[-1] == 5)
        collector.kill()
        watcher.seen.clear()
        collector.start()
        wait_until(lambda: watcher.numbers("b1") == [5])
        disconnect(watcher.client, board)


def test_what_is_beyond_a_gap_is_reported_after_the_confirmation_and_not_retained(
    tmp_path, mosquitto
):
    with Process(tmp_path, mosquitto.port) as collector:
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        collector.wait_subscribed()
        for seq in (1, 2, 5):
            board.publish(TOPIC, payload(seq), qos=1)
        wait_until(lambda: watcher.gap_reports("b1")[-1:] == ["-1 1-2 5-5"])
        assert watcher.numbers("b1") == []
        watcher.seen.clear()
        board.publish(TOPIC, payload(0), qos=1)
        wait_until(lambda: watcher.gap_reports("b1") == ["2 5-5"])
        assert [data for _, data in watcher.seen] == [b"0badcafe 2", b"0badcafe 2 5-5"]
        watcher.seen.clear()
        board.publish(TOPIC, payload(1), qos=1)  # as a board asks
        wait_until(lambda: watcher.gap_reports("b1") == ["2 5-5"])
        assert watcher.numbers("b1") == [2]
        late = Watcher(mosquitto, "late")
        wait_until(lambda: late.seen)
        collector.kill()
        watcher.seen.clear()
        collector.start()  # from the disk alone
        wait_until(lambda: watcher.gap_reports("b1") == ["2 5-5"])
        wait_until(lambda: late.gap_reports("b1") == ["2 5-5"])  # each subscriber in its time
        assert late.seen[0][1] == b"0badcafe 2"
        watcher.seen.clear()
        board.publish(TOPIC, payload(6, held=6), qos=1)
        wait_until(lambda: watcher.numbers("b1") == [6])
        assert watcher.gap_reports("b1") == []
        disconnect(watcher.client, late.client, board)


def test_a_group_reports_gaps_of_the_union_only(tmp_path, mosquitto):
    options = ["--share", "fleet"]
    with (
        Process(tmp_path, mosquitto.port, options=options, name="c1") as one,
        Process(tmp_path, mosquitto.port, options=options, name="c2") as two,
    ):
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        for collector in (one, two):
            collector.wait_subscribed(2)
        for seq in (*range(20), *range(21, 40)):
            board.publish(TOPIC, payload(seq), qos=1)
        wait_until(lambda: watcher.gap_reports("b1")[-1:] == ["19 21-39"])
        assert one.frames() and two.frames()  # each has a part
        board.publish(TOPIC, payload(20), qos=1)
        wait_until(lambda: watcher.numbers("b1")[-1:] == [39])
        disconnect(watcher.client, board)


def test_queued_confirmations_are_followed_by_queued_gap_reports(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port, options=["--confirmation", "queued"]) as collector:
        collector.wait_subscribed()
        session = {"client_id": "b1", "clean_session": False}
        absent = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, **session)
        seen = []
        absent.on_message = lambda _c, _u, m: seen.append((m.payload, m.qos, m.retain))
        absent.on_connect = lambda client, *_: client.subscribe("outpost/b1/durable", qos=1)
        subscribed = threading.Event()
        absent.on_subscribe = lambda *_: subscribed.set()
        absent.connect("127.0.0.1", mosquitto.port)
        absent.loop_start()
        assert subscribed.wait(LIMIT_S)
        disconnect(absent)
        board = connect(mosquitto, "boards")
        for seq in (0, 2):
            board.publish(TOPIC, payload(seq), qos=1).wait_for_publish(LIMIT_S)
        wait_until(lambda: len(collector.payloads()) == 2)
        absent.connect("127.0.0.1", mosquitto.port)
        absent.loop_start()
        wait_until(lambda: seen[-1:] == [(b"0badcafe 0 2-2", 1, False)])
        assert seen[-2] == (b"0badcafe 0", 1, False)
        disconnect(absent, board)


def test_messages_in_cbor_and_series_are_stored_and_confirmed(tmp_path, mosquitto):
    """With a bad reading too, which is quarantined: its board must not send it indefinitely."""
    head = {-2: "b1/", "sid": STREAM, "boot": 1, "held": 0, "ver": 1, 0: "x"}
    packs = [
        cbor2.dumps([head | {"seq": seq, 2: value}])
        for seq, value in enumerate((0.5, 1, -2.5, "text"))
    ]
    where = {"device": "b1", "stream": STREAM, "held": 0}
    packs += [series_writer.payload(ROWS, seq=seq, **where) for seq in (4, 5)]
    packs[4] = packs[4][:-1]  # cut short
    with Process(tmp_path, mosquitto.port) as collector:
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        collector.wait_subscribed()
        for data in packs:
            board.publish(TOPIC, data, qos=1)
        wait_until(lambda: watcher.numbers("b1")[-1:] == [5])
        collector.kill()
        watcher.seen.clear()
        collector.start()  # and from the disk alone
        wait_until(lambda: watcher.numbers("b1") == [5])
        assert collector.payloads() == packs
        disconnect(watcher.client, board)


def test_foreign_payloads_are_stored_and_acknowledged(tmp_path, mosquitto):
    strange = [b"", b"\xff\xfe", b"{}", b"[" * 5000, b"x" * 100_000, payload(1)[:-1]]
    with Process(tmp_path, mosquitto.port) as collector:
        board = connect(mosquitto, "boards")
        board.publish(TOPIC, b"kept by the broker", qos=1, retain=True).wait_for_publish(LIMIT_S)
        collector.wait_subscribed()
        for data in strange:
            board.publish(TOPIC, data, qos=1).wait_for_publish(LIMIT_S)
        wait_until(lambda: len(collector.frames()) == len(strange) + 1)
        assert collector.terminate() == 0
        frames = collector.frames()
        assert {f.payload for f in frames if not f.truncated and not f.retained} == {
            d for d in strange if len(d) < 65536
        }
        assert [f.original_length for f in frames if f.truncated] == [100_000]
        assert [f.payload for f in frames if f.retained] == [b"kept by the broker"]
        disconnect(board)


def test_broker_that_comes_back_is_found_again(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port) as collector:
        collector.wait_subscribed()
        mosquitto.kill()
        wait_until(lambda: "connection lost" in collector.text())
        mosquitto.start()
        collector.wait_subscribed(2)
        board = connect(mosquitto, "boards")
        board.publish(TOPIC, payload(0), qos=1).wait_for_publish(LIMIT_S)
        wait_until(lambda: collector.payloads() == [payload(0)])
        disconnect(board)
