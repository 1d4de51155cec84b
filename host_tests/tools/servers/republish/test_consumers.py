# cpython-only: the desktop's tools; runs Node-RED and promtool where they are named
"""The configurations on the page for Telegraf, Node-RED and Prometheus: they parse, they name what
is published; and the programs take them, where they are here."""

import json
import os
import re
import subprocess
import tomllib
import urllib.request
from types import SimpleNamespace

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.client import topic_matches_sub
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from collector_process import wait_until
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.messages.message import Message
from outpost_tools.messages.senml import Reading
from outpost_tools.servers.republish import metrics, run
from outpost_tools.servers.republish.newest import Newest
from outpost_tools.servers.republish.topics import ONLINE, Topics
from paths import REPOSITORY
from real_broker import need_mosquitto

PAGE = REPOSITORY / "tools/outpost_tools/servers/republish/README.md"
NOW = 1_800_000_000.0
NODE_RED, PROMTOOL = os.environ.get("NODE_RED"), os.environ.get("PROMTOOL")


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return found


@pytest.fixture
def newest():
    made = Newest()
    readings = [Reading(0, "temperature", "Cel", 21.5, NOW), Reading(1, "load", None, 0.5, NOW)]
    made.take(Message("kitchen", "0badcafe", 1, 1, 0, None, readings=readings), NOW)
    return made


@pytest.fixture
def published(newest):
    """[(topic, payload)] of a board with two sensors."""
    link = SimpleNamespace(has_learned=True)
    made = run.Republisher(link, Topics("outpost"), "homeassistant", lambda: NOW, lambda: NOW)
    made.newest = newest
    (out,) = made._due(0.0)
    return out


def test_telegraf_reads_what_is_published(published):
    (consumer,) = tomllib.loads(block("toml"))["inputs"]["mqtt_consumer"]
    (parser,) = consumer["json_v2"]
    (objects,) = parser["object"]
    packs = [
        json.loads(data)
        for topic, data in published
        if any(topic_matches_sub(one, topic) for one in consumer["topics"])
    ]
    assert packs == [
        [
            {"n": "kitchen/load", "v": 0.5, "t": NOW},
            {"n": "kitchen/temperature", "u": "Cel", "v": 21.5, "t": NOW},
        ]
    ]
    for record in packs[0]:
        assert objects["timestamp_key"] in record and objects["tags"][0] in record
        assert set(record) - {objects["timestamp_key"], *objects["tags"]} == {"v"}


def flow():
    return json.loads(block("json"))


def test_node_reds_flow_names_what_is_published(published):
    nodes = {node["id"]: node for node in flow()}
    inputs = [node for node in nodes.values() if node["type"] == "mqtt in"]
    for node in inputs:
        assert any(topic_matches_sub(node["topic"], topic) for topic, _ in published)
        assert nodes[node["broker"]]["type"] == "mqtt-broker"
    assert all(
        to in nodes for node in nodes.values() for out in node.get("wires", []) for to in out
    )


@pytest.mark.skipif(not NODE_RED, reason="optional: NODE_RED names node-red's package")
def test_node_red_runs_the_flow(published, tmp_path):
    need_mosquitto()
    nodes, log = flow(), tmp_path / "node-red.log"
    with Broker("mosquitto", tmp_path / "broker") as broker:
        for node in nodes:
            if node["type"] == "mqtt-broker":
                node |= {"broker": "127.0.0.1", "port": str(broker.port)}
        (tmp_path / "flows.json").write_text(json.dumps(nodes))
        port = str(children.free_port())
        command = ["node", f"{NODE_RED}/red.js", "-u", str(tmp_path), "-p", port, "flows.json"]
        process = children.start(command, log=log, env={**os.environ})
        try:
            wait_until(lambda: "Connected to broker" in log.read_text())
            client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
            client.connect("127.0.0.1", broker.port)
            client.loop_start()
            for topic, data in published:
                client.publish(topic, data, retain=True)
            wait_until(lambda: "outpost/kitchen/available" in log.read_text())
            client.loop_stop()
        finally:
            children.stop(process)
    text = log.read_text()
    assert "topic: 'outpost/kitchen/latest/temperature'" in text and "payload: 21.5" in text


def test_prometheus_gets_the_values_of_boards_that_are_current(newest):
    text = generate_latest(metrics.registry_of(newest)).decode()
    found = {
        (family.name, *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert found == {
        ("outpost_board_current", "kitchen"): 1,
        ("outpost_value", "", "kitchen", "load"): 0.5,
        ("outpost_value", "Cel", "kitchen", "temperature"): 21.5,
    }
    newest.tick(NOW + 7200)
    text = generate_latest(metrics.registry_of(newest)).decode()
    assert 'outpost_board_current{board="kitchen"} 0.0' in text and "outpost_value{" not in text


def test_they_are_served(newest):
    port = children.free_port()
    metrics.serve(newest, port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert b"outpost_value{" in answer.read()


def test_prometheus_configuration_names_both_ports(tmp_path):
    assert re.findall(r'"127\.0\.0\.1:(\d+)"', block("yaml")) == ["9100", "9101"]


@pytest.mark.skipif(not PROMTOOL, reason="optional: PROMTOOL names promtool")
def test_promtool_takes_the_configuration_and_the_values(newest, tmp_path):
    (tmp_path / "prometheus.yml").write_text(block("yaml"))
    words = [PROMTOOL, "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and "is valid" in done.stdout, done.stderr
    text = generate_latest(metrics.registry_of(newest))
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_home_assistant_is_told_that_the_board_is_there(published):
    assert published[-1] == ("outpost/kitchen/available", ONLINE), "after its values"
