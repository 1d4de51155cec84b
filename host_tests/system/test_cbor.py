# cpython-only: mosquitto, the collector, and boards as processes of MicroPython
"""Boards whose messages are CBOR: over a real broker and power cuts, into the collector's log, and
commands are answered."""

import pytest

from exact_fleet import Run
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.messages.message import decode, is_cbor
from real_broker import micropython


@pytest.mark.parametrize("series", [False, pytest.param(True, marks=pytest.mark.long)])
def test_boards_that_send_cbor_lose_nothing(tmp_path, series):
    """With series, what is no sample is CBOR all the same."""
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    micropython("i386")
    with Broker("mosquitto", tmp_path / "broker") as broker:
        settings = {"encoding": "cbor", "series": series}
        run = Run(tmp_path, broker.port, settings=settings)
        account = run.play()
    assert account["published"] > (0 if series else 50) and account["power_cuts"] >= 1
    assert (account["lost"], account["changed"]) == (0, 0)
    payloads = [frame.payload for one in run.collectors for frame in one.frames()]
    packs = [payload for payload in payloads if payload[0] != 0xF5]
    assert packs and all(map(is_cbor, packs))
    assert decode("outpost/board-1/data", next(one for one in packs if b"board-1/" in one)).readings
