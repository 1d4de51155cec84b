# cpython-only: runs desktop tools as processes
"""Other people's devices from a real broker through the real collector to the page: Tasmota,
Zigbee2MQTT and Shelly, beside a board.
"""

import json
import time

import pytest

from collector_process import wait_until
from foreign_house import SHELLY, house
from live_server import Server, payload
from outpost_tools.readings.sources import guarantee

pytestmark = pytest.mark.timeout(300)

OTHERS = ("washer", "shed", "cellar", "front door", "button", "attic", SHELLY)


@pytest.fixture
def home(tmp_path):
    with house(tmp_path) as made, made.collector() as collector:
        collector.wait_subscribed()
        made.collector_process = collector
        yield made


def card_of(page, name):
    (found,) = (one for one in page.split("<article")[1:] if f'data-name="{name}"' in one)
    return found


def apower(number):
    params = {"ts": round(time.time(), 2), "switch:0": {"id": 0, "apower": number}}
    return json.dumps({"src": SHELLY, "method": "NotifyStatus", "params": params}).encode()


def test_devices_of_three_kinds_are_on_the_page_beside_a_board(home, tmp_path):
    home.publish()
    home.say("outpost/kitchen/data", payload("kitchen", 0, [("t", "Cel", 1)], time_s=time.time()))
    reading = apower(77)
    home.say(f"{SHELLY}/events/rpc", reading)
    home.say(f"{SHELLY}/events/rpc", reading)  # the device sends it twice
    home.say("tele/shed/LWT", b"Offline", retain=True)
    wait_until(lambda: len(home.collector_process.frames()) >= 20)
    options = ("--sources", str(home.sources))
    with Server(tmp_path / "log", tmp_path, *options) as server:
        server.wait_for("<b>77</b> W")
        page = server.wait_for("<dd>offline</dd>")
        assert {name for name in OTHERS if f'data-name="{name}"' in page} == {*OTHERS} - {"button"}
        washer, attic, shelly = (card_of(page, name) for name in ("washer", "attic", SHELLY))
        assert "<b>39</b> W" in washer and "ENERGY.Power" in washer and "✓</span> fine" in washer
        assert "<dt>state</dt><dd>online</dd>" in washer and "<dt>seen</dt>" in washer
        assert "offline</li>" in card_of(page, "shed")
        assert "<b>4.25</b> °C" in attic and "last known" in attic
        assert "no new reading yet" in attic and "fine" not in attic and "seen" not in attic
        assert guarantee.MEANING[guarantee.TIME] in shelly and "waiting on" not in shelly
        assert "waiting on the board" in card_of(page, "kitchen")
        assert "⊝ other devices offline: 1" in page and "Not messages of Outpost" not in page
        alone = server.text(f"/board/other:{SHELLY}?span=hour")
        assert "switch:0.apower as a table" in alone and "<td>2</td>" in alone  # not 3
        assert f'board="other:{SHELLY}"' in server.text("/metrics")
        assert "attic" not in server.text("/metrics")
        home.say("zigbee2mqtt/attic", b'{"temperature":4.75}')
        attic = card_of(server.wait_for("<b>4.75</b> °C"), "attic")
        assert "last known" not in attic and "<dt>seen</dt>" in attic
    assert "Traceback" not in server.output.read_text()
