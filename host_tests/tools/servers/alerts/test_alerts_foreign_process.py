# cpython-only: runs desktop tools as processes
"""Alerts about other people's devices: from a real broker through the real collector and
the page to a receiver.
"""

import pytest

from alerts_rig import Hook, toml
from collector_process import wait_until
from foreign_house import house
from live_server import Server

pytestmark = pytest.mark.timeout(300)


def test_alerts_name_them_and_tell_offline(tmp_path):
    with house(tmp_path) as home, home.collector() as collector, Hook() as hook:
        collector.wait_subscribed()
        rules = '[[reading]]\nsensor = "ENERGY.Power"\nabove = 100\nboards = ["wash*"]\n'
        rules += '[attention]\nfor = "1s"\nboards = ["washer"]\n'
        path = toml(tmp_path, f'[[webhook]]\nurl = "{hook.url}"\n{rules}')
        options = ("--sources", str(home.sources), "--alerts", str(path))
        with Server(tmp_path / "log", tmp_path, *options) as server:
            home.say("tele/washer/SENSOR", b'{"ENERGY":{"Power":2100}}')
            wait_until(lambda: len(hook.alerts()) == 1)
            home.say("tele/washer/LWT", b"Offline", retain=True)
            wait_until(lambda: len(hook.alerts()) == 2)
            home.say("tele/washer/SENSOR", b'{"ENERGY":{"Power":4}}')
            home.say("tele/washer/LWT", b"Online", retain=True)
            wait_until(lambda: len(hook.alerts()) == 4)
        assert "Traceback" not in server.output.read_text()
    first, second, *ends = hook.alerts()
    assert first == ("begin", "washer: ENERGY.Power 2100 W, above 100 W")
    assert second == ("begin", "washer: offline")
    assert sorted(ends) == [
        ("end", "washer: ENERGY.Power 4 W, no longer above 100 W"),
        ("end", "washer: online again"),
    ]
