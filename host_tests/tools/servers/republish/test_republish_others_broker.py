# cpython-only: runs desktop tools as processes
"""Other people's devices at a real broker: `outpost republish` beside Tasmota, Zigbee2MQTT and
Shelly. Home Assistant is told of what it does not have.
"""

import json

import paho.mqtt.client as mqtt
import pytest

import ha_rules
import outpost_command
from collector_process import wait_until
from foreign_house import SHELLY, house
from outpost_tools.loopback.broker import ANY_USER
from outpost_tools.machine import children
from outpost_tools.servers.republish import discovery
from outpost_tools.servers.republish.topics import Topics

TOPICS = Topics("outpost")
pytestmark = pytest.mark.timeout(300)


class Watcher:
    """last: the payload on each topic."""

    def __init__(self, port):
        self.last = {}
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.username_pw_set(ANY_USER)
        self._client.on_message = lambda _client, _data, one: self.last.update(
            {one.topic: one.payload.decode()}
        )
        self._client.on_connect = lambda client, *_: client.subscribe(
            [("outpost/#", 0), ("homeassistant/device/#", 0)]
        )
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


def test_values_are_on_plain_topics_and_home_assistant_hears_of_what_it_has_not(tmp_path):
    with house(tmp_path) as home:
        watcher = Watcher(home.port)
        command = outpost_command.line(
            "republish", "--home-assistant", "--broker", f"127.0.0.1:{home.port}",
            "--user", ANY_USER, "--sources", home.sources,
        )  # fmt: skip
        output = tmp_path / "republish.txt"
        process = children.start(command, log=output, env=children.tools_environment())
        shelly = f"other:{SHELLY}"
        topic = discovery.config_topic("homeassistant", shelly)
        try:
            with home.publishing():
                wait_until(lambda: topic in watcher.last)
                wanted = [
                    TOPICS.value("other:washer", "ENERGY.Power"),
                    TOPICS.value("other:cellar", "temperature"),
                    TOPICS.value("other:front:20door", "contact"),
                    TOPICS.value(shelly, "switch:0.apower"),
                ]
                wait_until(lambda: all(one in watcher.last for one in wanted))
            given = ha_rules.check(topic, watcher.last[topic].encode())
            assert given["device"]["name"] == SHELLY
            announced = [one for one in watcher.last if one.startswith("homeassistant/device/")]
            assert announced == [topic]
            pack = json.loads(watcher.last[TOPICS.latest(shelly)])
            assert [one["n"] for one in pack] == [f"{shelly}/switch:0.apower"]
            # what the broker remembered is not current: nobody has heard of it since
            assert not any("other:attic" in one for one in watcher.last)
            assert watcher.last[TOPICS.available("other:washer")] == "online"
            home.say("tele/washer/LWT", b"Offline", retain=True)
            wait_until(lambda: watcher.last[TOPICS.available("other:washer")] == "offline")
        finally:
            children.stop(process)
            watcher.close()
    assert "Traceback" not in output.read_text()
