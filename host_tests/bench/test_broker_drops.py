# cpython-only: starts mosquitto
"""Observes what the page of brokers says that mosquitto drops."""

import pytest

import broker_drops
from real_broker import micropython, need_mosquitto


@pytest.mark.parametrize(("row", "figures"), [("denied", (20, 0)), ("too-large", (20, 10))])
def test_what_mosquitto_acknowledges_and_drops(row, figures):
    need_mosquitto()
    micropython(broker_drops.ARCHITECTURE)
    assert broker_drops.measure(row) == figures
