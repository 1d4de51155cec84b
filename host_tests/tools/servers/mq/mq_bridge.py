"""The bridge as a process, and the way of its messages: into the stand-in for a queue manager, and
out as MQTT again.
"""

import json

import paho.mqtt.client as mqtt
from paho.mqtt.subscribeoptions import SubscribeOptions

import outpost_command
from collector_process import disconnect, wait_until
from outpost_tools.machine import children
from outpost_tools.servers.mq import mapping, psc, storage
from outpost_tools.servers.mq.header import parse
from queue_manager import QueueManager


def outpost_message(seq=41, **more):
    record = {
        "bn": "b1/",
        "bt": 1763694000.123,
        "sid": "0badcafe",
        "seq": seq,
        "boot": 1,
        "held": 0,
        "ver": 1,
        "n": "x",
        "v": 1,
    }
    return json.dumps([{**record, **more}]).encode()


class BridgeProcess:
    """One bridge at a time, on the same output and client id."""

    def __init__(self, folder, *options, environment=None):
        self.output = folder / "bridge.log"
        self.lines = folder / "publish.jsonl"
        self._environment = environment or {}
        self._command = outpost_command.line("mq", "bridge", *options)
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        children.kill(self._process)

    def start(self):
        self._process = children.start(
            self._command, log=self.output, env=children.tools_environment(**self._environment)
        )

    def kill(self):
        """SIGKILL."""
        children.kill(self._process)

    def terminate(self):
        """SIGTERM; the exit status."""
        self._process.terminate()
        return self._process.wait(120)

    def wait(self):
        return self._process.wait(120)

    def text(self):
        return self.output.read_text() if self.output.exists() else ""

    def commands(self):
        """What is in the JSON lines, without a torn last one."""
        data = self.lines.read_bytes() if self.lines.exists() else b""
        return [storage.from_line(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def connect(port, name, on_message=None):
    """An MQTT 5 client whose thread runs."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
    client.max_inflight_messages_set(500)
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.loop_start()
    wait_until(client.is_connected)
    return client


def record(port, name, topic="#"):
    """(client, list): every packet of `topic` as it was published, RETAIN included."""
    seen, subscribed = [], []
    client = connect(port, name, lambda _c, _u, m: seen.append((m.topic, m.payload, m.retain)))
    client.on_subscribe = lambda *_: subscribed.append(True)
    client.subscribe(topic, options=SubscribeOptions(qos=1, retainAsPublished=True))
    wait_until(lambda: subscribed)
    return client, seen


def retained_state(port):
    """{topic: payload} as a new subscriber receives it."""
    client, seen = record(port, "retained-state")
    client.publish("sentinel", b"end", qos=1)
    wait_until(lambda: ("sentinel", b"end", False) in seen)
    disconnect(client)
    return {topic: payload for topic, payload, retain in seen if retain}


def through_queue_manager(commands):
    """(queue manager, packets): the commands put, and what a subscriber to everything got, as MQTT
    packets in order.

    A DeletePub reaches no subscriber in MQ; it is what a packet with RETAIN and an empty payload
    was, so it is one again.
    """
    manager, packets = QueueManager(), []
    manager.register("#", "OUT")
    for command in commands:
        manager.put(command.queue, command.md, command.data)
        read = psc.read(parse(command.data, encoding=command.md.encoding).folders()[0].text)
        if read.name == psc.DELETE:
            packets += mapping.to_mqtt(command.md, command.data)[0]
        for md, data in manager.queues["OUT"]:
            packets += mapping.to_mqtt(md, data)[0]
        manager.queues["OUT"].clear()
    return manager, packets


def retained_in(manager):
    """{topic: payload} of the queue manager's retained copies."""
    found = {}
    for (_, topic), (md, data) in manager.retained.items():
        (packet,), _ = mapping.to_mqtt(md, data)
        assert packet.topic.decode() == topic and packet.retain
        found[topic] = packet.payload
    return found


def publish_all(port, packets):
    """Out as MQTT; returns when the broker has acknowledged all."""
    client = connect(port, "out")
    last = [client.publish(p.topic.decode(), p.payload, p.qos, p.retain) for p in packets]
    for info in last:
        info.wait_for_publish(120)
    disconnect(client)


def by_topic(packets):
    """{topic: payloads in order}, each payload once: where it came first."""
    found = {}
    for topic, payload in packets:
        found.setdefault(topic, {}).setdefault(payload)
    return {topic: list(payloads) for topic, payloads in found.items()}


def put_by_fake(path):
    """(queue, bytes) of each message that the fake ibmmq committed; a torn last line is none."""
    data = path.read_bytes() if path.exists() else b""
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return [(queue, bytes.fromhex(text)) for queue, text in map(json.loads, lines)]
