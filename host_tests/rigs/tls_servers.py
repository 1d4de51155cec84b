"""A mosquitto that listens with TLS, too, and a collector that takes its messages: what boards on
an emulated chip connect to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collector_process import Process
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children


@contextmanager
def tls_servers(folder: Path, certificates: Path) -> Iterator[tuple[Broker, int, Process]]:
    """(broker, its port with TLS, collector). certificates: a folder of make_certificates.py."""
    port = children.free_port()
    listener = (
        f"listener {port} 127.0.0.1\nallow_anonymous true\ncafile {certificates}/ca.pem\n"
        f"certfile {certificates}/server.pem\nkeyfile {certificates}/server.key\n"
    )
    with (
        Broker("mosquitto", folder / "broker", more_listeners=listener) as broker,
        Process(folder, broker.port) as collector,
    ):
        collector.wait_subscribed()
        yield broker, port, collector
