# cpython-only: a board under 32-bit MicroPython, mosquitto of `outpost broker init`, the collector
"""A board in collector mode that gets another name while it holds messages: they have the topic of
the earlier name, which the user of the new name may not publish on. mosquitto acknowledges them and
passes none on.
"""

import json
import ssl
import time

import pytest

from collector_process import Process, wait_until
from made_broker import HOST, MadeBroker
from outpost_tools import cli
from outpost_tools.attention import attention
from outpost_tools.boards.outbox.shelf import read_shelf
from outpost_tools.machine import children
from outpost_tools.messages import message
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.trying.simulate.journal import read_journal
from paths import REPOSITORY
from real_broker import environment, micropython

OLD, NEW = "cellar", "kitchen"
HELD = 12  # messages that the board holds when it is renamed
SENT = 40  # and at least that many with its new name
LIMIT_S = 420
RETRIES_S = 150  # by then the board has sent one of the shelf again, twice


class Board:
    """firmware/main.py on the UNIX board. Its flash stays while its settings change."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self._process = None

    def start(self, **settings):
        """As `outpost flash` would: other settings, the same flash."""
        whole = {
            "mode": "collector",
            "interval_ms": 100,
            "confirm_timeout_ms": 1000,
            "outbox_blocks": 16,
            "sensors": ["load"],
            **settings,
        }
        (self.folder / "settings.json").write_text(json.dumps(whole))
        command = [*micropython("i386"), str(REPOSITORY / "firmware" / "main.py")]
        log = self.folder / "board.log"
        self._process = children.start(command, log=log, cwd=self.folder, env=environment())

    def cut(self):
        if self._process is not None:
            children.kill(self._process)

    def stored(self):
        """{number: payload} of the messages for which publish() returned OK."""
        journal = self.folder / "journal.txt"
        found = read_journal(journal) if journal.exists() else []
        return {one.seq: one.payload for one in found if one.kind == "ok"}

    def shelf(self):
        """[(number, topic)] of the messages set aside."""
        found = read_shelf((self.folder / "flash.img").read_bytes())
        return sorted((one.seq, one.topic.decode()) for one in found.messages)


class World:
    def __init__(self, folder):
        self.broker = MadeBroker(folder, OLD, NEW)
        self.collector = Process(folder, 0, name="collector-1", credentials=self.broker.folder)
        self.board = Board(folder / "board")
        self.words = []  # confirmations and gap reports

    def rename(self):
        """Store messages with no broker in reach, then start again with the other name."""
        self.board.start(device_id=OLD, broker_host=HOST, broker_port=1)
        wait_until(lambda: len(self.board.stored()) >= HELD)
        self.board.cut()
        held = len(self.board.stored())
        found = self.broker.credentials(NEW)
        (self.board.folder / "ca.der").write_bytes(ssl.PEM_cert_to_DER_cert(found.ca))
        user = {"user": found.user, "password": found.password, "tls": True, "ca_file": "ca.der"}
        self.board.start(device_id=NEW, broker_host=HOST, broker_port=self.broker.port, **user)
        return held

    def arrived(self):
        """{number: message} in the collector's log."""
        frames = [one for one in self.collector.frames() if one.topic.endswith(b"/data")]
        decoded = [message.decode(one.topic.decode(), one.payload) for one in frames]
        assert {one.device for one in decoded} <= {NEW}
        return {one.seq: one for one in decoded}

    def told(self, name):
        """What the board reported last under this name; -1: nothing yet."""
        found = [
            (one.seq, reading.value)
            for one in self.arrived().values()
            for reading in one.readings
            if reading.name == name
        ]
        return max(found, default=(0, -1))[1]

    def findings(self):
        """As on the live page, of what the log has."""
        fleet = Fleet()
        fleet.take(self.collector.frames())
        row = fleet.boards[NEW].row(count_missing=False)
        return attention.of_device(row, silent_s=0, usual_s=0)


@pytest.fixture
def world(tmp_path):
    """The broker, the collector, and somebody who listens to what the board is told."""
    micropython("i386")
    made = World(tmp_path)
    with made.broker, made.collector:
        made.collector.wait_subscribed()
        with made.broker.peer("monitor-1", "monitor") as monitor:
            monitor.client.on_message = lambda _c, _u, one: made.words.append(one.payload)
            assert monitor.subscribe(f"outpost/{NEW}/durable") in (0, 1)
            monitor.client.loop_start()
            try:
                yield made
            finally:
                made.board.cut()
                monitor.client.loop_stop()


def missing(world, held):
    """Numbers that the board stored with its new name, and the collector does not have."""
    return {seq for seq in world.board.stored() if seq >= held} - set(world.arrived())


def test_the_messages_of_the_new_name_arrive_and_the_collector_reports_the_gap(world):
    """mosquitto does not close the connection at those of the earlier name."""
    held = world.rename()
    wait_until(lambda: len(world.arrived()) >= SENT, LIMIT_S)
    assert min(world.arrived()) >= held
    wait_until(lambda: any(b" -1 %d-" % held in data for data in world.words), LIMIT_S)


def test_the_others_are_set_aside_and_named_and_the_flash_gets_empty(world, capsys):
    held = world.rename()
    wait_until(lambda: world.told("aside") == held, LIMIT_S)
    wait_until(lambda: world.told("not_passed") >= held, LIMIT_S)
    assert world.board.shelf() == [(seq, f"outpost/{OLD}/data") for seq in range(held)]
    # what was stored by now arrives, is confirmed, and is released
    newest = max(world.board.stored())
    wait_until(lambda: not {seq for seq in missing(world, held) if seq <= newest}, LIMIT_S)
    wait_until(lambda: max(one.held for one in world.arrived().values()) > newest, LIMIT_S)
    [finding] = [one for one in world.findings() if one.key in ("notpassed", "aside", "takeover")]
    assert (finding.key, finding.text) == ("notpassed", f"{held} set aside")
    world.board.cut()
    capsys.readouterr()
    assert cli.main(["outbox", "health", str(world.board.folder / "flash.img")]) == 1
    said = capsys.readouterr().out
    assert f"{held} messages on outpost/{OLD}/data" in said
    assert "takes these messages and does not pass them on" in said


@pytest.mark.long
def test_a_retry_that_the_broker_acknowledges_and_does_not_pass_on_loses_none(world):
    """The board sends the messages of its shelf again, a minute after they were set aside and
    later. PUBACK says nothing about them in collector mode."""
    held = world.rename()
    wait_until(lambda: world.told("aside") == held, LIMIT_S)
    since_s = time.time()
    wait_until(
        lambda: max(map(measured_s, world.arrived().values())) > since_s + RETRIES_S, LIMIT_S
    )
    assert world.board.shelf() == [(seq, f"outpost/{OLD}/data") for seq in range(held)]
    assert world.told("aside") == held


def measured_s(one):
    return one.readings[0].time_s or 0.0
