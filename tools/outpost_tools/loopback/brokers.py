"""Makes a broker by its kind: mosquitto, amqtt, NATS (one node, or three). The classes are in
broker.py and nats.py.

    with open_broker("mosquitto", directory) as broker: ...   # broker.port, .kill(), .start()
"""

from __future__ import annotations

from pathlib import Path

from outpost_tools.loopback import nats
from outpost_tools.loopback.broker import Broker


def open_broker(kind: str, directory: Path) -> Broker:
    """Returns the broker without starting it. Raises BrokerError for a kind not in KINDS."""
    found = {"nats": nats.Node, "nats3": nats.Cluster}.get(kind, Broker)
    return found(kind, directory)
