# cpython-only: the collector and the pipeline as processes, against real mosquitto
"""`outpost collect --confirm-tables`: a board is told when the tables have its message, and not
before, whatever is killed."""

import urllib.error
import urllib.request
from contextlib import closing

import pytest

import outpost_command
from collector_process import (
    TOPIC,
    Process,
    ScriptedBroker,
    Watcher,
    disconnect,
    mosquitto,
    payload,
    wait_until,
)
from optional_packages import needed
from outpost_tools.log import segments
from outpost_tools.machine import children
from outpost_tools.store import at

_ = mosquitto  # a fixture

with needed("the pipeline's packages"):
    from outpost_tools.readings.pipeline import tables


class World:
    """A collector, a board, and the command that makes a round. place: of log and tables."""

    def __init__(self, tmp_path, broker, place):
        self.tables, self.port = place / "tables", children.free_port()
        options = ["--confirm-tables", str(self.tables), "--segment-seconds", "0.2"]
        options += ["--metrics-port", str(self.port)]
        self.collector = Process(tmp_path, broker.port, options=options, log=place / "log")
        self.board = Watcher(broker)

    def __enter__(self):
        self.collector.start()
        self.collector.wait_subscribed()
        return self

    def __exit__(self, *_):
        disconnect(self.board.client)
        self.collector.kill()

    @property
    def told(self):
        return self.board.numbers("b1")

    def send(self, *payloads):
        """Returns when they are in sealed segments."""
        for one in payloads:
            self.board.client.publish(TOPIC, one, qos=1)
        wait_until(lambda: {*payloads} <= {*self.sealed()})

    def sealed(self):
        found = segments.sealed_segments(self.collector.directory)
        return [frame.payload for one in found for frame in segments.read_segment(one)]

    def wait_until_it_waits(self, segments_waiting):
        """It has had time to confirm."""
        wait_until(lambda: f"{segments_waiting} segments wait for" in self.health())
        assert f"outpost_collector_waiting_segments {segments_waiting}.0" in self.asked("metrics")

    def health(self):
        try:
            return self.asked("healthz")
        except urllib.error.URLError:  # it starts, or there is no broker yet
            return ""

    def asked(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}") as answer:
            return answer.read().decode()

    def round(self):
        where = ["--log", str(self.collector.log), "--tables", str(self.tables)]
        outpost_command.run("pipeline", "run", *where, "--engine", "local", check=True)

    def restart(self):
        self.collector.kill()
        starts = self.collector.text().count("subscribed to")
        self.collector.start()
        self.collector.wait_subscribed(starts + 1)


def refused(seq):
    """A message that goes to quarantine, and has a number."""
    return payload(seq).replace(b'"ver": 1', b'"ver": 9')


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.long)])
def world(request, tmp_path, mosquitto):
    is_disk = request.param == "disk"
    place = tmp_path if is_disk else at.at(request.getfixturevalue("bucket_url"))
    with World(tmp_path, mosquitto, place) as made:
        yield made


def test_a_board_is_told_after_the_round_that_has_its_message(world):
    world.send(payload(0), refused(1), payload(2))
    world.wait_until_it_waits(len(segments.sealed_segments(world.collector.directory)))
    assert world.told == []
    world.restart()  # SIGKILL before the round: what waits is read from the log again
    world.round()
    assert tables.read_table(world.tables, "quarantine").num_rows == 1
    wait_until(lambda: world.told[-1:] == [2])
    world.send(payload(3))
    world.wait_until_it_waits(1)
    assert {*world.told} == {2}
    world.collector.kill()
    world.round()
    assert {*world.told} == {2}
    world.collector.start()  # SIGKILL between the round and the confirmation
    wait_until(lambda: world.told[-1:] == [3])
    assert world.collector.terminate() == 0
    assert "no tables yet; does the pipeline run?" in world.collector.text()


@pytest.fixture
def scripted():
    with closing(ScriptedBroker()) as broker:
        yield broker


def test_puback_does_not_wait_for_the_tables(tmp_path, scripted):
    """Nor for tables that cannot be read."""
    (tmp_path / "tables").write_text("not a folder")
    options = ["--confirm-tables", str(tmp_path / "tables"), "--segment-seconds", "0.1"]
    with Process(tmp_path, scripted.port, options=options) as collector:
        scripted.accept()
        for seq in range(3):
            scripted.publish(seq + 1, payload(seq))
        assert scripted.acknowledged(3) == [1, 2, 3]
        scripted.publish(9, payload(3))
        while (said := scripted.packet())[0] != 0x40:
            assert b"/durable" not in said[1]
        wait_until(lambda: "nothing new is confirmed meanwhile" in collector.text())
        assert collector.payloads() == [payload(seq) for seq in range(4)]
