# cpython-only: runs a desktop tool as a process, against a scripted broker
"""A collector whose machine has a wrong clock: no confirmed reading is kept from its readers."""

import contextlib
import json
import time
import urllib.error
import urllib.request
from contextlib import closing

import pyarrow.parquet
import pytest

from collector_process import Process, ScriptedBroker, wait_until
from outpost_tools import cli
from outpost_tools.attention.attention import CLOCK_AHEAD_S
from outpost_tools.log import segments
from outpost_tools.log.collector_notes import CLOCK, REASONS, reason_of
from outpost_tools.log.segments import encode_frame
from outpost_tools.machine import children
from outpost_tools.machine.machine_clock import MachineClock
from outpost_tools.servers.collect import clock
from outpost_tools.servers.collect.clock import CollectorClock, newest_arrival_s
from outpost_tools.servers.live.fleet import Fleet

DAY_S = 86_400

# The collector, on a machine whose clock is SECONDS off until the file $GATE exists.
SHIFTED = """
import os, sys, time
from outpost_tools.machine import machine_clock
real, real_ns = time.time, time.time_ns
def off():
    return 0 if os.path.exists(os.environ["GATE"]) else SECONDS
time.time = lambda: real() + off()
time.time_ns = lambda: real_ns() + off() * 10**9
machine_clock.MachineClock.__init__.__kwdefaults__.update(now=time.time, kernel=lambda: KERNEL)
from outpost_tools.cli import main
sys.exit(main())
"""


def message(seq, device="b1", ago_s=0.0):
    head = {"bn": f"{device}/", "sid": "0badcafe", "seq": seq, "boot": 1, "held": 0, "ver": 1}
    return json.dumps([head | {"bt": time.time() - ago_s, "n": "x", "v": seq}]).encode()


@pytest.fixture
def broker():
    with closing(ScriptedBroker()) as made:
        yield made


def exported(log):
    out = log.parent / "exported.parquet"
    status = cli.main(["export", "--log", str(log), "--out", str(out)])
    rows = pyarrow.parquet.read_table(out).to_pylist()
    return status, sorted((row["device"], row["seq"]) for row in rows if row["time"])


@pytest.mark.parametrize(
    ("seconds", "kernel", "boards"),
    [(-60 * DAY_S, False, 1), (-60 * DAY_S, True, 2), (6 * 365 * DAY_S, False, 1)],
)
def test_readings_reach_the_export_whatever_the_clock_was(
    tmp_path, broker, seconds, kernel, boards
):
    """19 while it is wrong, the last one after NTP came. 2: the kernel vouches for it wrongly."""
    program = SHIFTED.replace("SECONDS", str(seconds)).replace("KERNEL", str(kernel))
    names, sent = [f"b{n + 1}" for n in range(boards)], []
    with Process(tmp_path, broker.port, program=program) as collector:
        broker.accept()

        def publish(seq):
            for device in names:
                sent.append((device, seq))
                data = message(seq, device)
                broker.publish(len(sent), data, topic=f"outpost/{device}/data")

        for seq in range(19):
            publish(seq)
        broker.acknowledged(len(sent))
        wait_until(lambda: "this machine's clock" in collector.text())
        collector.gate.touch()
        wait_until(lambda: "clock was set by" in collector.text())
        publish(19)
        broker.acknowledged(boards)
        status = collector.terminate()
    assert exported(collector.log) == (0, sorted(sent))
    is_wrong = seconds < 0  # an old outbox explains a clock that seems fast
    assert status == int(is_wrong)
    frames = collector.frames()
    notes = [one for one in frames if reason_of(one.topic.decode(), one.payload)]
    assert [json.loads(one.payload)["note"] for one in notes] == [CLOCK] * is_wrong
    assert [one.is_clock_unset for one in frames if one not in notes][-boards:] == [False] * boards
    fleet = Fleet()
    fleet.take(frames)
    assert not fleet.refused and fleet.clock_wrong == is_wrong
    for board in fleet.boards.values():
        assert abs(board.last_seen_ms / 1000 - time.time()) < 120
        # a time is rounded to the nearest ms, an arrival down
        assert board.row(count_missing=True)["clock_ahead_s"] <= CLOCK_AHEAD_S


def test_healthz_and_metrics_name_the_clock(tmp_path, broker):
    program = SHIFTED.replace("SECONDS", str(-60 * DAY_S)).replace("KERNEL", "False")
    port = children.free_port()
    options = ("--metrics-port", str(port))

    def asked(path):
        with contextlib.closing(_open(f"http://127.0.0.1:{port}{path}")) as answer:
            return answer.status, answer.read().decode()

    with Process(tmp_path, broker.port, program=program, options=options) as collector:
        broker.accept()
        wait_until(lambda: "is not known to be right" in asked("/healthz")[1])
        assert asked("/healthz")[0] == 200
        broker.publish(1, message(0))
        broker.acknowledged(1)
        wait_until(lambda: asked("/healthz")[0] == 503)
        assert "60 days behind" in asked("/healthz")[1]
        assert "outpost_collector_clock_set 0.0" in asked("/metrics")[1]
        assert "outpost_collector_clock_unset_messages 1.0" in asked("/metrics")[1]
        collector.gate.touch()
        wait_until(lambda: asked("/healthz") == (200, "ok\n"))
        assert collector.terminate() == 1


def _open(url):
    try:
        return urllib.request.urlopen(url)
    except urllib.error.HTTPError as error:
        return error


def test_few_messages_of_a_batch_are_read(monkeypatch):
    read = []
    made = CollectorClock(MachineClock(1, 1, kernel=lambda: True))
    monkeypatch.setattr(made, "_take", lambda topic, payload: read.append(topic))
    made.hear([(0x30, b"outpost/b%d/data" % (n % 100), b"", b"") for n in range(4000)])
    assert len(read) == len(set(read)) == clock._SAMPLES


def test_the_newest_arrival_of_a_log_counts_no_marked_one(tmp_path):
    assert newest_arrival_s(None) == 0
    writer = segments.SegmentWriter(tmp_path)
    writer.append(encode_frame(7000, b"t", b"x"))
    writer.append(encode_frame(9000, b"t", b"x", clock_unset=True))
    assert newest_arrival_s(segments.contents(writer.seal())) == 7
    assert REASONS[CLOCK].startswith("collector: ")
