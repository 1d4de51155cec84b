# cpython-only: tests a desktop tool
"""Several collectors and one truth: a word to a board stands on logs, whatever is lost, late,
killed, added or restored.
"""

import json
import random

import pytest

from outpost_tools.messages.message import Key
from outpost_tools.servers.collect.durable import Durable
from outpost_tools.servers.collect.exchange import HEARTBEAT_S, LIVE_S, SETTLE_S, Exchange

STREAM = "0badcafe"
DEVICES = tuple(f"b{n}" for n in range(6))


class Node:
    """A collector without broker and disk: `log` is what it fsynced, all else dies with it."""

    def __init__(self, name, log=()):
        self.name, self.log = name, list(log)
        self.begin()

    def begin(self):
        self.durable = Durable(keep_news=True)
        for key in self.log:
            self.durable.add(key)
        self.exchange = Exchange(self.name, self.durable)
        self.marked = set()

    def store(self, key):
        self.log.append(key)
        self.durable.add(key)
        self.marked.add(key.device)

    def hear(self, sender, data, now):
        changes = self.exchange.heard(sender, data, now)
        self.marked |= changes.devices
        if changes.everybody:
            self.marked |= set(self.durable.devices())

    def words(self, now):
        """(device, seq) of each confirmation that this collector publishes now."""
        if self.exchange.look_round(now):
            self.marked |= set(self.durable.devices())
        ours = [device for device in sorted(self.marked) if self.exchange.is_ours(device)]
        self.marked.clear()
        said = [(device, self.durable.confirmation(device)) for device in ours]
        return [(device, int(word.split()[1])) for device, word in said if word is not None]


class Group:
    """Nodes on one topic, boards that send again what is not confirmed, and the check of every
    word.
    """

    def __init__(self, seed, count=3, *, loss=0.0):
        self.rng, self.loss, self.now = random.Random(seed), loss, 0.0
        self.nodes = {f"c{n}": Node(f"c{n}") for n in range(count)}
        self.absent = {}
        self.confirmed = dict.fromkeys(DEVICES, -1)
        self.sent = dict.fromkeys(DEVICES, -1)
        self.words = 0
        # (when, key): messages that are acknowledged to the board and not yet stored anywhere
        self.queue = []

    def logs(self):
        return [key for node in (*self.nodes.values(), *self.absent.values()) for key in node.log]

    def publish(self, device, seq, *, delay_s=0.0):
        held = self.confirmed[device] + 1
        self.queue.append((self.now + delay_s, Key(device, STREAM, seq, min(held, seq))))

    def store_due(self):
        due = [key for when, key in self.queue if when <= self.now]
        self.queue = [(when, key) for when, key in self.queue if when > self.now]
        for key in due:
            self.rng.choice(list(self.nodes.values())).store(key)

    def tick(self, seconds=0.2):
        self.now += seconds
        self.store_due()
        said = [
            (name, data)
            for name, node in self.nodes.items()
            for data in node.exchange.due(self.now)
        ]
        for name, data in said:
            for other in self.nodes.values():
                if self.rng.random() >= self.loss:
                    other.hear(name, data, self.now)
        for node in self.nodes.values():
            for device, seq in node.words(self.now):
                self.check(device, seq)

    def check(self, device, seq):
        self.words += 1
        keys = [key for key in self.logs() if key.device == device]
        numbers, held = {key.seq for key in keys}, max(key.held for key in keys)
        missing = [n for n in range(held, seq + 1) if n not in numbers]
        assert not missing, f"{device} received confirmation {seq}, but {missing} are in no log"
        self.confirmed[device] = max(self.confirmed[device], seq)

    def disturb(self):
        what, name = self.rng.random(), self.rng.choice(list(self.nodes))
        if what < 0.3:  # killed, and up again at once
            self.nodes[name] = Node(name, self.nodes[name].log)
        elif what < 0.5 and len(self.nodes) > 1:  # gone, for a while or for good; its log stays
            self.absent[name] = self.nodes.pop(name)
        elif what < 0.8 and self.absent:
            name = self.rng.choice(list(self.absent))
            self.nodes[name] = Node(name, self.absent.pop(name).log)
        elif len(self.nodes) + len(self.absent) < 6:
            name = f"c{len(self.nodes) + len(self.absent)}"
            self.nodes[name] = Node(name)

    def settle(self):
        """Until all is confirmed; boards send again what is not, as they do after a while."""
        for n in range(400):
            self.tick()
            if self.confirmed == self.sent:
                return
            if n % 50 == 49:
                for device in DEVICES:
                    for seq in range(self.confirmed[device] + 1, self.sent[device] + 1):
                        self.publish(device, seq)
        raise AssertionError(f"never confirmed: {self.confirmed} of {self.sent}")


@pytest.mark.parametrize("seed", range(24))
def test_every_word_is_true_and_everything_is_confirmed_in_the_end(seed):
    group = Group(seed, loss=group_loss(seed))
    for _ in range(150):
        for device in DEVICES:
            if group.rng.random() < 0.6:
                group.sent[device] += 1
                if group.rng.random() < 0.95:  # the rest is lost by the broker
                    group.publish(
                        device, group.sent[device], delay_s=group.rng.choice((0, 0, 0, 0.5, 3))
                    )
            if group.rng.random() < 0.05 and group.sent[device] >= 0:  # a duplicate
                group.publish(
                    device, group.rng.randint(max(0, group.sent[device] - 9), group.sent[device])
                )
        group.tick()
        if group.rng.random() < 0.08:
            group.disturb()
    group.settle()


def group_loss(seed):
    return (0.0, 0.02, 0.2)[seed % 3]


def test_without_disturbance_nothing_needs_to_be_sent_again():
    group = Group(1, loss=0.1)
    for seq in range(60):
        for device in DEVICES:
            group.sent[device] = seq
            group.publish(device, seq)
        group.tick()
    for _ in range(100):
        group.tick()
    assert group.confirmed == group.sent


def test_each_device_is_confirmed_by_one_collector():
    group = Group(2)
    for _ in range(20):
        group.tick()
    for seq in range(50):
        for device in DEVICES:
            group.sent[device] = seq
            group.publish(device, seq)
        group.tick()
    assert group.words <= 52 * len(DEVICES)


def two():
    """Two that know each other, and a clock."""
    a, b, now = Node("a"), Node("b"), 0.0
    while now < SETTLE_S + 1:
        talk(a, b, now)
        now += 0.25
    return a, b, now


def talk(a, b, now):
    for one, other in ((a, b), (b, a)):
        for data in one.exchange.due(now):
            other.hear(one.name, data, now)


def words(nodes, now):
    return [word for node in nodes for word in node.words(now)]


def test_an_old_disk_takes_back_what_was_said_and_not_yet_confirmed():
    a, b, now = two()
    b.store(Key("b1", STREAM, 0, 0))
    for seq in range(2, 9):
        a.store(Key("b1", STREAM, seq, 0))
    talk(a, b, now)
    assert words((a, b), now) == [("b1", 0)]  # 1 is missing; b knows that a has 2..8
    a = Node("a", [key for key in a.log if key.seq < 5])  # a disk of yesterday
    now += 1
    talk(a, b, now)
    b.store(Key("b1", STREAM, 1, 0))
    for _ in range(10):
        now += 0.25
        talk(a, b, now)
        for _, seq in words((a, b), now):
            assert seq <= 4, "confirmed what is in no log"
    assert b.durable.confirmation("b1") == b"0badcafe 4"


def test_a_gap_is_one_of_the_union_and_an_old_disk_takes_its_part_back():
    a, b, now = two()
    a.store(Key("b1", STREAM, 0, 0))
    for seq in (2, 4, 6):
        a.store(Key("b1", STREAM, seq, 0))
    for seq in (3, 7):
        b.store(Key("b1", STREAM, seq, 0))
    talk(a, b, now)
    assert words((a, b), now) == [("b1", 0)]  # one of them is the speaker
    assert a.durable.gap_report("b1") == b.durable.gap_report("b1") == b"0badcafe 0 2-4 6-7"
    a = Node("a", a.log[:2])  # a disk of yesterday: 0 and 2
    talk(a, b, now + 1)
    assert b.durable.gap_report("b1") == b"0badcafe 0 2-3 7-7"


def test_what_was_confirmed_stays_so_when_a_collector_comes_back_with_an_empty_disk():
    a, b, now = two()
    for seq in range(5):
        (a if seq % 2 else b).store(Key("b1", STREAM, seq, 0))
    talk(a, b, now)
    assert words((a, b), now) == [("b1", 4)]
    talk(a, b, now + 0.25)
    a = Node("a")
    for n in range(10):
        talk(a, b, now + 1 + n / 4)
        assert all(seq == 4 for _, seq in words((a, b), now + 1 + n / 4))
    assert a.durable.confirmation("b1") == b.durable.confirmation("b1") == b"0badcafe 4"


def test_a_duplicate_is_confirmed_again_whoever_got_it():
    a, b, now = two()
    a.store(Key("b1", STREAM, 0, 0))
    talk(a, b, now)
    assert words((a, b), now) == [("b1", 0)]
    for node in (a, b):
        now += 0.25
        talk(a, b, now)
        words((a, b), now)
        node.store(Key("b1", STREAM, 0, 0))
        now += 0.25
        talk(a, b, now)
        assert words((a, b), now) == [("b1", 0)]


def test_another_one_confirms_when_one_is_silent_or_says_farewell():
    for is_farewell in (True, False):
        a, b, now = two()
        for n, device in enumerate(DEVICES):
            (a if n % 2 else b).store(Key(device, STREAM, 0, 0))
        talk(a, b, now)
        assert {device for device, _ in a.words(now)} | {
            device for device, _ in b.words(now)
        } == set(DEVICES)
        if is_farewell:
            b.hear("a", a.exchange.farewell, now)
        else:
            assert b.words(now + LIVE_S - 1) == []
            now += LIVE_S + 1
        assert {device for device, _ in b.words(now)} == set(DEVICES)


def test_a_farewell_of_an_earlier_life_is_not_believed():
    a, b, now = two()
    late = a.exchange.farewell
    a = Node("a")
    talk(a, b, now)
    b.hear("a", late, now)
    assert "a" in b.exchange._living


def test_a_lost_last_statement_is_noticed_by_the_next_heartbeat():
    a, b, now = two()
    a.store(Key("b1", STREAM, 0, 0))
    list(a.exchange.due(now))  # lost
    for _ in range(30):
        now += 0.2
        talk(a, b, now)
    assert b.durable.confirmation("b1") == b"0badcafe 0"
    assert HEARTBEAT_S < 6


def test_five_thousand_streams_are_said_in_parts_and_an_old_stream_does_not_come_back():
    a, now = Node("a"), 0.0
    for n in range(5000):
        a.store(Key(f"d{n}", STREAM, 0, 0))
    b = Node("b")
    b.store(Key("d4999", "aaaaaaaa", 0, 0))  # the device was formatted; a does not know yet
    parts = list(a.exchange.due(now))
    assert len(parts) > 1 and max(map(len, parts)) < 200_000
    for data in parts:
        b.hear("a", data, now)
    assert len(b.durable.devices()) == 5000
    assert b.durable.confirmation("d4999") == b"aaaaaaaa 0"
    assert b.durable.confirmation("d4998") == b"0badcafe 0"


@pytest.mark.parametrize(
    "change",
    [
        {"life": 1},
        {"number": "1"},
        {"begins": 1},
        {"streams": {}},
        {"streams": [["b1", STREAM, 0]]},
        {"streams": [["b 1", STREAM, 5, []]]},
        {"streams": [["b1", "xyz", 5, []]]},
        {"streams": [["b1", STREAM, -1, []]]},
        {"streams": [["b1", STREAM, 1.5, []]]},
        {"streams": [["b1", STREAM, True, []]]},
        {"streams": [["b1", STREAM, 0, [1]]]},
        {"streams": [["b1", STREAM, 0, [5, 1]]]},
        {"streams": [["b1", STREAM, 0, [0, 1 << 40]]]},
        {"streams": [[["b1"], STREAM, 0, []]]},
    ],
)
def test_rubbish_is_no_statement(change):
    node = Node("a")
    good = {
        "life": "1",
        "number": 0,
        "begins": True,
        "fresh": True,
        "ask": [],
        "streams": [["b1", STREAM, 7, [7, 9]]],
    }
    node.hear("x", json.dumps({**good, **change}).encode(), 0.0)
    assert node.exchange.refused == 1 and node.durable.devices() == []
    for data in (b"", b"\xff", b"[]", b"7", b"[" * 100_000, b'{"life":"x"}'):
        node.hear("x", data, 0.0)
    assert node.exchange.refused == 7
    node.hear("x", json.dumps(good).encode(), 0.0)
    assert node.durable.confirmation("b1") == b"0badcafe 9"


def test_no_statement_is_longer_than_brokers_take():
    """AWS IoT closes the connection on 128 KiB, mosquitto drops what exceeds its limit: a stream
    with many gaps, and many streams, are said in parts.
    """
    speaker, listener = Node("c1"), Node("c2")
    for seq in range(0, 20_000, 2):
        speaker.store(Key("gaps", STREAM, seq, 0))
    for number in range(3000):
        speaker.store(Key(f"device-with-a-long-name-{number:05d}", STREAM, 7, 0))
    statements = list(speaker.exchange.due(1.0, everything=True))
    assert max(map(len, statements)) < 128 << 10
    for number, statement in enumerate(statements):
        assert json.loads(statement)["begins"] is (number == 0)
        listener.hear("c1", statement, 1.0)
    assert listener.durable._streams["gaps"][STREAM].others == {
        "c1": [[seq, seq] for seq in range(0, 20_000, 2)]
    }
    assert listener.durable.stream_count() == 3001
