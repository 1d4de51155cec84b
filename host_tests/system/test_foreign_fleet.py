# cpython-only: Arrow and Delta Lake, and real mosquitto
"""Fifty foreign devices beside twenty boards at real mosquitto; broker, collector and the
pipeline's driver killed with SIGKILL at random moments; a mapping that is wrong at first, and is
mended in two steps. At the end the tables are a plain recomputation (foreign_truth.py).

`make kills-foreign` runs the long form, 50 kills; OUTPOST_FOREIGN_KILLS and OUTPOST_FOREIGN_BOARDS
(messages of the boards) are its numbers, OUTPOST_FOREIGN_SEED its moments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

import outpost_command
from collector_boards import Boards
from collector_process import Process, wait_until
from optional_packages import needed
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from real_broker import need_mosquitto

with needed("the pipeline's packages"):
    import foreign_devices
    import foreign_truth
    from foreign_fleet import Senders
    from outpost_tools.readings.pipeline import quarantine, tables
    from outpost_tools.readings.sources import file
    from outpost_tools.store.at import at
    from pipeline_driver import LIMIT_S, Driver, open_round, rounds
    from plain_windows import assert_windows_are_plain

KILLS = int(os.environ.get("OUTPOST_FOREIGN_KILLS", "5"))
MESSAGES = int(os.environ.get("OUTPOST_FOREIGN_BOARDS", "2000"))
SEED = int(os.environ.get("OUTPOST_FOREIGN_SEED", "1"))
BOARDS = 20
PAUSE_S = 1.5
ROUND_S = 5.0  # for a round to begin
VICTIMS = ("broker", "collector", "collector", "both", "driver")
pytestmark = [pytest.mark.long, pytest.mark.timeout(600 + 60 * KILLS)]


class SavingBroker(Broker):
    """mosquitto that saves after each 50 changes, twice a second: a SIGKILL loses what came since.
    After each single one, it would do nothing else as soon as it has a queue."""

    def _command(self) -> list[str]:
        command = super()._command()
        path = self.directory / "mosquitto.conf"
        text = path.read_text()
        for key, value in (("on_changes false", "on_changes true"), ("interval 30", "interval 50")):
            assert text.count(f"\nautosave_{key}\n") == 1
            text = text.replace(f"autosave_{key}", f"autosave_{value}")
        path.write_text(text)
        return command


class Site:
    """Everything that runs, and the kills. kills: of the broker, in s since 1970."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self.broker, self.chance = folder, broker, random.Random(SEED)
        self.sources, self.tables = folder / "sources.toml", folder / "tables"
        self.write(foreign_devices.wrong_mapping(foreign_devices.mapping()))
        options = ["--sources", str(self.sources)]
        segments = ["--segment-bytes", "200000", "--segment-seconds", "0.5"]
        self.collector = Process(folder, broker.port, options=[*options, *segments])
        self._options, self._said = options, folder / "driver.txt"
        self._filters = 1 + len(file.parse(self.sources.read_text(), "s.toml").topics)
        self.kills: list[float] = []
        self.tally: Counter[str] = Counter()
        self.driver: Driver | None = None
        self._next: list[str] = []  # victims: each of VICTIMS before one comes again

    def __enter__(self) -> Site:
        self.collector.start()
        self.collector.wait_subscribed(self._filters)
        return self

    def __exit__(self, *_: object) -> None:
        children.kill(self.collector._process)
        if self.driver is not None:
            self.driver.close()

    def write(self, text: str) -> None:
        new = self.sources.with_suffix(".new")
        new.write_text(text)
        new.replace(self.sources)

    # --- Kills ---

    def strike(self) -> None:
        self._next = self._next or self.chance.sample(VICTIMS, len(VICTIMS))
        victim = self._next.pop()
        self.tally[victim] += 1
        if victim == "driver":
            self._kill_driver()
        if victim in ("collector", "both"):
            self._kill_collector()
        if victim in ("broker", "both"):
            self.broker.kill()
            self.kills.append(time.time())
            time.sleep(self.chance.uniform(0, 0.5))
            self.broker.start()
        if victim in ("collector", "both"):
            time.sleep(self.chance.uniform(0, 1))
            self._start_collector(waits=self.chance.random() < 0.8)

    def _kill_collector(self) -> None:
        """At work; or after it has stood still: what the broker has sent meanwhile comes again,
        with DUP, and for the first time."""
        if self.collector.alive and self.chance.random() < 0.5:
            os.kill(self.collector.pid, signal.SIGSTOP)
            time.sleep(self.chance.uniform(0.1, 0.7))
        self.collector.kill()

    def _start_collector(self, *, waits: bool) -> None:
        """waits: otherwise it may be killed while it starts."""
        before = self.collector.text().count("subscribed to")
        self.collector.start()
        if waits:
            self.collector.wait_subscribed(before + self._filters)

    def start_driver(self) -> None:
        """A run refuses a log without a sealed segment."""
        wait_until(lambda: any((self.folder / "log").rglob("*.seg")), LIMIT_S)
        self.driver = Driver(self.log, at(self.tables), self._said, options=self._options)

    @property
    def log(self):
        return at(self.folder / "log")

    def _kill_driver(self) -> None:
        """While it starts, at any moment, or between the commits of a round."""
        moment = self.chance.choice(("starts", "any", "a round is open", "a round is open"))
        if moment != "starts":
            wait_until(self.driver.is_at_work, LIMIT_S)
            time.sleep(self.chance.uniform(0, 1))
        until = time.monotonic() + ROUND_S
        while moment == "a round is open" and time.monotonic() < until:
            if open_round(at(self.tables)):
                break
        self.driver.kill()
        self.tally["a round was open"] += open_round(at(self.tables)) != ""
        self.start_driver()

    # --- The mapping ---

    def mend_what_was_refused(self) -> None:
        """The driver goes on with the mended file; then the refused messages are replayed."""
        wait_until(lambda: self._refused() > 0, LIMIT_S)
        self.write(foreign_devices.half_mended(foreign_devices.mapping()))
        self.driver.kill()
        self.start_driver()
        wait_until(self.driver.is_at_work, LIMIT_S)
        words = ("replay", "--tables", self.tables, "--reason", foreign_devices.REFUSED)
        self._killed_and_repeated(*words)
        wait_until(lambda: self._refused() == 0, LIMIT_S)

    def _refused(self) -> int:
        self.driver.check()
        reasons = quarantine.reasons(self.tables)
        return sum(n for one, n in reasons.items() if one.startswith(foreign_devices.REFUSED))

    def mend_the_values(self) -> None:
        """All messages are read again, while nothing else reads."""
        self.write(foreign_devices.mapping())
        self.driver.stop()
        assert self.run().returncode == 0
        words = ("replay", "--tables", self.tables, "--log", self.log, "--sources", self.sources)
        said = self._killed_and_repeated(*words)
        assert int(said.split()[0]) > 0, said
        self.start_driver()

    def _killed_and_repeated(self, *words: object) -> str:
        """The command, killed at two random moments; a run in between works, or says what to do."""
        for _ in range(2):
            log = self.folder / "killed.txt"
            process = children.start(_line(*words), log=log, env=children.tools_environment())
            time.sleep(self.chance.uniform(1, 2.5))
            children.kill(process)
            between = self.run()
            assert between.returncode == 0 or "repeat it first" in between.stderr, between.stderr
        finished = _outpost(*words)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def run(self) -> subprocess.CompletedProcess:
        """One run of the pipeline over all that is sealed."""
        places = ("--log", self.log, "--tables", self.tables)
        return _outpost("run", *places, "--engine", "local", *self._options)


def _line(*words: object) -> list[str]:
    return outpost_command.line("pipeline", *words)


def _outpost(*words: object) -> subprocess.CompletedProcess:
    around = children.tools_environment()
    return subprocess.run(_line(*words), capture_output=True, text=True, check=False, env=around)


def fleet(broker: Broker) -> Boards:
    """Their time is now, so that the collector trusts its clock as soon as it hears one."""
    now = int(time.time())
    return Boards(broker.port, count=BOARDS, messages=MESSAGES, seed=SEED, start_s=now)


def play(site: Site, boards: Boards, senders: Senders) -> None:
    site.start_driver()
    for kill in range(KILLS):
        boards.allowed = MESSAGES * (kill + 1) // KILLS
        time.sleep(site.chance.uniform(0.1, PAUSE_S))
        if kill == KILLS // 3:
            site.mend_what_was_refused()
        if kill == 2 * KILLS // 3:
            site.mend_the_values()
        site.strike()
        assert boards.failure is None and senders.failure is None
        print(f"{kill + 1} kills: {dict(site.tally)}, {rounds(at(site.tables))} rounds", flush=True)


def finish(site: Site, boards: Boards, senders: Senders) -> None:
    """All that was sent is in the log, and in the tables."""
    senders.stop()
    wait_until(lambda: not boards.is_publishing and boards.unconfirmed() == 0, LIMIT_S)
    last = senders.say_last()  # the broker delivers in order: what it acknowledged comes before
    wait_until(lambda: any(one.payload == last for one in site.collector.frames()), LIMIT_S)
    site.driver.stop()
    assert site.collector.terminate() == 0
    assert site.run().returncode == 0


def test_the_tables_of_a_killed_fleet_are_a_plain_recomputation(tmp_path):
    need_mosquitto()
    print(f"seed {SEED}, {KILLS} kills")
    with (
        SavingBroker("mosquitto", tmp_path / "broker") as broker,
        Site(tmp_path, broker) as site,
        Senders(broker.port, SEED) as senders,
        fleet(broker) as boards,
    ):
        play(site, boards, senders)
        finish(site, boards, senders)
    frames = foreign_truth.stored(site.collector.directory)
    lost, copied = foreign_truth.assert_log_is_what_was_sent(frames, senders, site.kills)
    assert_right(site.tables, frames, senders, boards)
    sent, unset = senders.attempts.total(), sum(one.is_clock_unset for one in frames)
    print(
        f"{dict(site.tally)}; devices sent {sent:,} messages, {senders.repeated} of them again "
        f"with DUP; {len(frames):,} frames, {unset:,} of them while the clock was not known to be "
        f"right; killed brokers lost {lost}, and delivered {copied} twice; "
        f"{rounds(at(site.tables))} rounds: exact"
    )


def assert_right(place: Path, frames, senders: Senders, boards: Boards) -> None:
    rows, refused = foreign_truth.expected(frames, senders.said)
    found = foreign_truth.found(place)
    assert found == rows, ([*(found - rows)][:5], [*(rows - found)][:5])
    assert quarantine.reasons(place) == refused and refused.total() > 0
    assert {row[6] for row in rows} == {
        foreign_devices.BY_ID, foreign_devices.BY_TIME, foreign_devices.AT_LEAST,
    }  # fmt: skip
    assert {frame.payload for frame in frames if frame.is_boards} == boards.payloads()
    assert foreign_truth.boards_found(place) == foreign_truth.of_boards(boards.payloads())
    assert_windows_are_plain(place)
    counts = Counter(row["device"] for row in tables.read_table(place, "readings").to_pylist())
    devices = tables.read_table(place, "devices").to_pylist()
    assert {row["device"]: row["readings"] for row in devices} == counts
    assert len(counts) == BOARDS + len(foreign_devices.DEVICES)
    assert {row["missing_closed"] for row in devices} == {0}
