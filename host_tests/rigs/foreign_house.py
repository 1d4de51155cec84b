"""A house with Tasmota, Zigbee2MQTT and Shelly devices: mosquitto, their traffic, a file of sources
made of the ready ones, and `outpost collect` with it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import foreign_traffic
from collector_process import Process
from foreign_traffic import TASMOTA_ZONE
from outpost_tools.loopback.broker import ANY_USER, Broker
from outpost_tools.readings.sources import file, ready_files
from real_broker import need_mosquitto

KINDS = ("tasmota", "zigbee2mqtt", "shelly")
SHELLY = "shellyplus1pm-0a1b2c3d4e5f"
# What a broker remembers from before anybody listened.
ATTIC = ("zigbee2mqtt/attic", b'{"temperature":4.25}')


def sources(folder: Path, *, more: str = "") -> Path:
    """The file. more: further tables."""
    lines = [line for kind in KINDS for line in ready_files.text(kind).splitlines()]
    # a key of the file as a whole comes first
    of_file = [line for line in lines if line.startswith('ignore = ["zigbee2mqtt/')]
    text = "\n".join([*of_file, *(line for line in lines if line not in of_file), more])
    text = text.replace('zone = "UTC"', f'zone = "{TASMOTA_ZONE}"')
    online = 'topic = "{device}/online"\n'  # a Zigbee device might be called "online"
    text = text.replace(online, f'{online}except = ["zigbee2mqtt/+"]\n')
    file.parse(text, "sources.toml")
    path = folder / "sources.toml"
    path.write_text(text, encoding="utf-8")
    return path


class House:
    """port: of the broker. publish(): a round of all devices' messages. say(): one message."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.sources = sources(folder)
        self._publisher = foreign_traffic.Publisher("127.0.0.1", port)
        self.sent = self._publisher.sent
        self.say(*ATTIC, retain=True)
        self.publish()

    def publish(self) -> None:
        self._publisher.publish()

    def say(self, topic: str, data: bytes, *, retain: bool = False) -> None:
        self._publisher._client.publish(topic, data, 1, retain).wait_for_publish(30)

    def close(self) -> None:
        self._publisher.close()

    @contextlib.contextmanager
    def publishing(self, every_s: float = 0.3) -> Iterator[None]:
        """Publishes rounds meanwhile."""
        is_over = threading.Event()

        def run() -> None:
            while not is_over.wait(every_s):
                self.publish()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def collector(self) -> Process:
        options = ("--user", ANY_USER, "--sources", str(self.sources))
        return Process(self.folder, self.port, options=options)


@contextlib.contextmanager
def house(folder: Path) -> Iterator[House]:
    """A first round has been published, before anybody listens."""
    need_mosquitto()
    with Broker("mosquitto", folder / "broker") as broker:
        made = House(folder, broker.port)
        try:
            yield made
        finally:
            made.close()
