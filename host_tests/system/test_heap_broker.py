# cpython-only: starts mosquitto and lets MicroPython talk to it
"""The heap promise over the real thing: a real socket, a real broker, both word sizes of real
MicroPython.
"""

import os
import subprocess
from pathlib import Path

import pytest

from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import REQUIRED_ARCHITECTURES, find_micropython
from paths import PRODUCT, joined

MESSAGES = 1000


@pytest.mark.parametrize("architecture", REQUIRED_ARCHITECTURES)
def test_publishing_through_a_real_broker_takes_no_heap(architecture, tmp_path):
    command = find_micropython(architecture)
    if command is None:
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    with Broker("mosquitto", tmp_path) as broker:
        done = subprocess.run(
            [
                *command,
                Path(__file__).with_name("heap_over_socket.py"),
                str(broker.port),
                str(MESSAGES),
            ],
            env={**os.environ, "MICROPYPATH": joined(*PRODUCT)},
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    print(done.stderr)
    net, gross, acknowledged = map(int, done.stdout.split())
    print(f"{architecture}: {MESSAGES} publishes, net {net} B, gross {gross} B")
    assert (net, gross, acknowledged) == (0, 0, MESSAGES)
