# cpython-only: starts mosquitto
"""Observes what the page of brokers says that mosquitto drops."""

import pytest

import broker_drops
from paths import REPOSITORY
from real_broker import micropython, need_mosquitto

PAGE = REPOSITORY / "tools" / "BROKERS.md"


@pytest.mark.parametrize("row", ["nobody", "denied", "too-large", "queue-full"])
def test_what_mosquitto_acknowledges_and_drops(row):
    need_mosquitto()
    micropython(broker_drops.ARCHITECTURE)
    acknowledged, received = broker_drops.measure(row)
    line = f"| {broker_drops.ROWS[row][0]} | {acknowledged} | {received} |"
    assert line in PAGE.read_text(encoding="utf-8").splitlines()
