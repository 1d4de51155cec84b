# cpython-only: drives the interpreters from outside
"""The benchmarks' programs on tiny runs: Outpost's promises hold in their cells, and tables can be
built. Figures: `make bench`.
"""

import json

import pytest

import bench_diff
import fetch_peers
import peers
from outpost_tools.machine import interpreters

COUNT = 50


@pytest.fixture(scope="module")
def rig():
    if interpreters.find_micropython("i386") is None or interpreters.find_mosquitto() is None:
        pytest.skip("missing: MicroPython for i386 or mosquitto; run `make setup`")
    with peers.rig(offline=True) as found:
        yield found


@pytest.fixture(scope="module")
def section(rig):
    return {
        "cells": peers.cells(*rig, ["outpost_ram_1", "outpost_nor_1"], COUNT),
        "arm": {},
        "missing": rig[0].missing(),
    }


@pytest.fixture(scope="module")
def rates(rig):
    names = ("raw", "raw_polling", "outpost_ram_1", "outpost_flash_16")
    return peers.rates([peers.rates_block(True, 2, COUNT, COUNT, names) for _ in range(3)])


@pytest.mark.parametrize("name", ["outpost_ram_1", "outpost_nor_1"])
def test_outpost_publishes_without_heap_and_in_one_write(section, name):
    row = section["cells"][name]
    assert "why" not in row
    for qos in (0, 1):
        assert row[f"qos{qos}_heap"] == [0, 0]
        assert row[f"qos{qos}_locked"] is True
        assert row[f"qos{qos}_writes"] == 1.0
    assert row["idle_heap"] == [0, 0]


def test_rates_have_a_spread_and_a_ratio_to_the_raw_loop(rates):
    for kind in peers.KINDS:
        assert rates["raw"][kind]["ratio"]["low"] == rates["raw"][kind]["ratio"]["high"] == 1
    for row in rates.values():
        for kind in peers.KINDS:
            assert 0 < row[kind]["low"] <= row[kind]["median"] <= row[kind]["high"]
            assert row[kind]["ratio"]["blocks"] == 3
    assert 0 < rates["outpost_ram_1"]["qos1"]["polling"]["low"]


def test_on_arm_a_publish_takes_no_heap_either():
    if interpreters.find_micropython("armhf") is None:
        pytest.skip("optional: no MicroPython for ARM; run `python3 tools/setup.py --arm`")
    with peers.rig(offline=True, architecture="armhf") as (one, port):
        row = peers.cells(one, port, ["outpost_nor_1"], 20)["outpost_nor_1"]
    assert row["qos1_heap"] == [0, 0] and row["qos1_locked"] is True


def test_a_peer_allocates_where_outpost_does_not():
    simple = fetch_peers.fetch("micropython-umqtt.simple")
    if simple.folder is None or interpreters.find_micropython("i386") is None:
        pytest.skip(f"optional: micropython-umqtt.simple {simple.reason}")
    with peers.rig() as (one, port):
        row = peers.cells(one, port, ["simple"], 10)["simple"]
    assert row["qos1_heap"][0] > 0 and row["qos1_writes"] == 5
    assert row["qos1_locked"] is False


def test_what_cannot_be_fetched_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fetch_peers, "_PIP", "import sys; sys.exit('no network')")
    peer = fetch_peers.fetch("micropython-umqtt.simple")
    assert peer.folder is None and peer.reason == "could not be fetched: no network"


def test_an_archive_with_another_hash_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fetch_peers, "_PIP", "print('something else')")
    assert "not the pinned one" in fetch_peers.fetch("micropython-umqtt.simple").reason


def test_the_difference_tells_change_from_noise():
    assert bench_diff.change("x of raw", [0.4, 0.5, 0.6], [0.5, 0.55, 0.7])[1] is False
    assert bench_diff.change("x of raw", [0.4, 0.5, 0.6], [0.65, 0.7, 0.8])[1] is True
    assert bench_diff.change("heap", [0.0], [16.0])[1] is True


def test_the_baseline_names_figures_that_a_run_gives(section, rates):
    kept = json.loads(bench_diff.BASELINE.read_text(encoding="utf-8"))
    given = bench_diff.figures({"peers": section, "peer_rates": rates})
    assert given and given.keys() <= kept.keys()
