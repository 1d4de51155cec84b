# cpython-only: starts boards as processes of MicroPython, against mosquitto and a real collector
"""Deep sleep: a board that lives for a moment at a time, connects every k-th, and is cut off at
random, loses nothing.

OUTPOST_WAKES=1000 OUTPOST_CONNECT_EVERY=20 runs the long form (three minutes); OUTPOST_SEED its
cuts; OUTPOST_MODE=broker without the collector's word; -s shows what a wake cost.
"""

import asyncio
import os

import pytest

from collector_process import Process, mosquitto
from outpost_tools.messages.message import key_of
from outpost_tools.trying.simulate.fleet import Fleet
from outpost_tools.trying.simulate.journal import read_journal
from real_broker import micropython
from sleeper import Sleeper, cost_of

WAKES = int(os.environ.get("OUTPOST_WAKES", "60"))
EVERY = int(os.environ.get("OUTPOST_CONNECT_EVERY", "5"))
SEED = int(os.environ.get("OUTPOST_SEED", "1"))
MODE = os.environ.get("OUTPOST_MODE", "collector")
CUTS = 0.15
ERASES = 0.08  # a wake: a block holds some 20 of these messages

_ = mosquitto  # a fixture
pytestmark = pytest.mark.timeout(1800)


def drain(board):
    """The simulator's stop file: connect at once, deliver all, end."""
    (board.folder / "stop").touch()
    for _ in range(20):
        if board.wake().status == 0:
            return
    raise AssertionError("it does not drain")


def compare(board, frames):
    """Nothing whose publish() returned OK is lost or changed, and the first copies stand in order.
    How many came twice.
    """
    entries = read_journal(board.folder / "journal.txt")
    promised = {(entry.stream, entry.seq): entry.payload for entry in entries if entry.kind == "ok"}
    stored = {}
    for frame in frames:
        key = key_of(frame.topic, frame.payload)
        assert stored.setdefault((key.stream, key.seq), frame.payload) == frame.payload
    lost = [key for key in promised if stored.get(key) != promised[key]]
    assert not lost, f"lost: {lost[:5]}; OUTPOST_SEED={SEED}"
    cuts = sum(wake.was_cut for wake in board.wakes)
    # whole on flash, but the power went before publish() could say so
    assert len(stored) - len(promised) <= cuts
    numbers = [seq for _, seq in stored]
    assert numbers == sorted(numbers), f"order; OUTPOST_SEED={SEED}"
    return len(promised), len(frames) - len(stored)


def whole_wakes(board):
    """Those that were not cut, and did not find what a cut had left behind."""
    pairs = zip(board.wakes, board.wakes[1:], strict=False)
    return [wake for before, wake in pairs if not before.was_cut and not wake.was_cut]


def test_nothing_is_lost_over_sleep_and_power_cuts(tmp_path, mosquitto):
    settings = {
        "broker_port": mosquitto.port,
        "connect_every": EVERY,
        "outbox_blocks": 8,
        "mode": MODE,
    }
    board = Sleeper(tmp_path / "board", micropython("i386"), SEED, **settings)
    with Process(tmp_path, mosquitto.port) as collector:
        for _ in range(WAKES):
            board.wake_with_luck(CUTS)
        usual = whole_wakes(board)
        drain(board)
        promised, twice = compare(board, collector.frames())
    for wake in usual:
        assert wake.did_connect == ((wake.counters["next_seq"] - 1) % EVERY == 0), wake
        assert wake.counters["programs"] <= 2 + wake.did_connect, wake
    assert sum(wake.counters["erases"] for wake in usual) <= ERASES * len(usual)
    # A sector's header is copied once, after the first mount that found it with one record.
    copies = [wake for wake in usual if wake.counters["programs"] > 1 + wake.did_connect]
    assert len(copies) <= ERASES * len(usual)
    cuts = sum(wake.was_cut for wake in board.wakes)
    assert promised >= WAKES - cuts > WAKES / 2 and cuts > 0
    silent, connecting = ([w for w in usual if w.did_connect == kind] for kind in (False, True))
    print(f"\n{WAKES} wakes, {cuts} power cuts, {promised} published, 0 lost, {twice} came twice")
    print(f"without connection: {cost_of(silent)}\nwith connection:    {cost_of(connecting)}")


def test_a_full_outbox_connects_out_of_turn_and_stores_what_was_refused(tmp_path, mosquitto):
    """Two blocks hold some 25 long messages; every 1,000th connects."""
    settings = {
        "mode": "broker",
        "broker_port": mosquitto.port,
        "connect_every": 1000,
        "outbox_blocks": 2,
    }
    settings |= {"device_id": "d" * 32, "topic_prefix": "p" * 64}
    board = Sleeper(tmp_path / "board", micropython("i386"), SEED, **settings)
    for _ in range(100):
        if board.wake().counters["refused"]:
            break
    before, last = (wake.counters for wake in board.wakes[-2:])
    assert [wake.did_connect for wake in board.wakes] == [
        True,
        *[False] * (len(board.wakes) - 2),
        True,
    ]
    assert last["next_seq"] - before["next_seq"] == 1
    assert (last["refused"], last["next_seq"] - last["held"]) == (1, 1)
    assert last["acknowledged"] == last["next_seq"] - 2


def test_without_a_broker_a_wake_has_its_end_and_nothing_is_lost(tmp_path, mosquitto):
    settings = {"mode": "broker", "connect_every": 1, "wake_limit_ms": 1000, "interval_ms": 20_000}
    board = Sleeper(
        tmp_path / "board", micropython("i386"), SEED, broker_port=mosquitto.port, **settings
    )
    mosquitto.stop()
    wake = board.wake()
    one = wake.counters
    assert (one["connects"], one["held"], one["next_seq"]) == (0, 0, 1)
    assert 1000 <= one["awake_ms"]
    sleep = int((board.folder / "journal.txt").read_text().split("sleep ")[1])
    # the interval counts from wake to wake
    assert 20_000 - wake.process_ms - 100 <= sleep <= 20_000 - 1000 + 100
    mosquitto.start()
    board.set(wake_limit_ms=60_000)  # a busy machine may take more than one second to connect
    two = board.wake().counters
    assert (two["connects"], two["held"], two["acknowledged"]) == (1, 2, 2)
    # what was acknowledged was kept over the sleep
    assert board.wake().counters["acknowledged"] == 1


def test_a_sleeping_board_that_hears_no_collector_says_so(tmp_path, mosquitto):
    """From the second message on: the first one is an interval old, an hour."""
    settings = {"broker_port": mosquitto.port, "interval_ms": 3_600_000, "wake_limit_ms": 1500}
    board = Sleeper(tmp_path / "board", micropython("i386"), SEED, **settings)
    said = ["no collector has confirmed" in board.wake().said for _ in range(3)]
    assert said == [False, True, True]
    with Process(tmp_path, mosquitto.port) as collector:
        # a slow machine: it may take more than one wake until the collector has subscribed
        assert any("no collector" not in board.wake().said for _ in range(20))
        drain(board)
        promised, _ = compare(board, collector.frames())
    assert promised >= 4


def test_the_simulators_fleet_wakes_its_sleepers_and_drains_them(tmp_path, mosquitto):
    micropython("i386")
    settings = {"mode": "broker", "deep_sleep": True, "connect_every": 100}
    plan = {"count": 1, "seconds": 60, "interval_ms": 100, "cuts": 0}

    async def run():
        async with Fleet(
            tmp_path / "fleet", broker=("127.0.0.1", mosquitto.port), settings=settings, **plan
        ) as fleet:
            while fleet.published < 4 and not fleet.failures:
                await asyncio.sleep(0.05)
            return await fleet.drain(60), fleet.failures, fleet.boards[0].boots

    late, failures, boots = asyncio.run(run())
    assert (late, failures) == ([], [])
    kinds = [entry.kind for entry in read_journal(tmp_path / "fleet" / "board-1" / "journal.txt")]
    assert kinds.count("boot") == kinds.count("ok") == boots >= 5
    assert kinds.count("sleep") == boots - 1  # the last wake has delivered all, and ends
