# cpython-only: starts mosquitto and runs the README's program under MicroPython
"""What the README shows is run, and what it says about the files is so."""

import os
import subprocess
import threading

import paho.mqtt.client as mqtt
import pytest

from outpost_tools.common.broker import Broker
from outpost_tools.common.interpreters import find_micropython
from paths import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


def program() -> str:
    return README.split("```python\n")[1].split("```")[0]


def test_the_program_is_short():
    assert len([line for line in program().splitlines() if line.strip()]) <= 15


def test_the_program_publishes(tmp_path):
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    arrived, message = threading.Event(), []
    with Broker("mosquitto", tmp_path / "broker") as broker:
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.on_message = lambda _client, _user, got: (message.append((got.topic, got.payload)), arrived.set())
        subscribed = threading.Event()
        client.on_subscribe = lambda *_: subscribed.set()
        client.connect("127.0.0.1", broker.port)
        client.subscribe("home/#", 1)
        client.loop_start()
        assert subscribed.wait(10)
        (tmp_path / "program.py").write_text(program().replace("1883", str(broker.port)))
        path = f"{REPOSITORY}/firmware:{REPOSITORY}/boards:{REPOSITORY}/boards/UNIX"
        env = {**os.environ, "MICROPYPATH": path}
        subprocess.run([*command, "program.py"], cwd=tmp_path, env=env, check=True, timeout=60)
        assert arrived.wait(10)
        client.loop_stop()
    assert message == [("home/kitchen", b"21.5")]


def test_the_files_it_names_exist():
    words = {word.strip("`,.;:()").rstrip("/") for word in README.split()}
    files = {word for word in words if word.startswith(("host_tests/", "firmware/", "boards/", "tools/"))}
    assert files
    assert [name for name in sorted(files) if not (REPOSITORY / name).exists()] == []


def test_the_targets_it_names_exist():
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = {line.split("make ")[1].split()[0].strip("`;:,.)") for line in README.splitlines() if "make " in line}
    assert targets
    assert [name for name in sorted(targets) if f"\n{name}:" not in makefile] == []
