# cpython-only: a desktop tool
"""What a real log says of boards, collector and disk becomes alerts, over restarts; the clock is
the test's. No second is waited.
"""

import http.client
import shutil
from collections import namedtuple

import pytest

from alerts_rig import NOW_S, Clock, Hook, close_store, stored, toml
from live_server import Writer
from outpost_tools.servers.alerts import conditions, settings, watch
from outpost_tools.servers.alerts.channels import Failed
from outpost_tools.servers.alerts.courier import Courier
from outpost_tools.servers.alerts.watch import Alerts
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.follow import Follower

MIB = 1 << 20
HOUR_S = 3600.0
ALL = '[[command]]\nrun = "cat"\n[attention]\nfor = "1m"\n'
Usage = namedtuple("Usage", "total used free")


class House:
    """A live page's log, fleet and alerts in a folder, started and ended as often as a test wants.
    told: (state, text) of all that was sent."""

    def __init__(self, folder, text, monkeypatch):
        self.folder, self.clock, self.told, self.trouble = folder, Clock(), [], ""
        self.writer = Writer(folder / "log")
        self.path = toml(folder, text)
        self.collected, self.free, self.failed_jobs = True, 10 << 30, {}
        self.said = []
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(0, 0, self.free))
        monkeypatch.setattr(watch, "_RECENT_S", 600.0)
        self.start()

    def start(self, *, history_mib=64, health=""):
        wish = settings.load(self.path)
        self.store = stored(
            self.folder, wish, self.said, is_wanted=lambda key: conditions.is_wanted(wish, key)
        )
        self.fleet = Fleet(clock=self.clock.now_ms)
        self.follower = Follower(self.folder / "log", self.fleet, history_bytes=history_mib * MIB)
        self._couriers = []
        self.alerts = Alerts(
            wish, self.store, self.fleet, self.follower, self.folder / "log", self.said.append,
            health=health, clock=self.clock.now, steady=self.clock.steady, couriers=self._courier,
        )  # fmt: skip
        while self.fleet.reading is not None:
            self.follower.turn()
        self.look()

    def _courier(self, *arguments):
        made = Courier(*arguments, clock=self.clock.now, steady=self.clock.steady, send=self._send)
        self._couriers.append(made)
        return made

    def _send(self, _channel, message):
        if self.trouble:
            raise Failed(self.trouble)
        self.told += [(one["state"], one["text"]) for one in message.document["alerts"]]
        return ""

    def end(self):
        close_store(self.store)

    def restart(self, away_s=0.0, **more):
        self.end()
        self.clock.passes(away_s)
        if away_s:
            self.clock.steady_s = 5.0  # the machine was off
        self.start(**more)

    def look(self):
        self.follower.turn()
        self.fleet.is_collected, self.fleet.failed_jobs = self.collected, self.failed_jobs
        self.fleet.look(at_once=True)
        self.alerts.turn()
        for courier in self._couriers:
            courier.step()

    def passes(self, seconds, step_s=30.0):
        for _ in range(int(seconds / step_s)):
            self.clock.passes(step_s)
            self.look()

    def store_reading(self, device, *records, late_s=0.0, **more):
        now, seq = self.clock.now_s, self.writer._seqs.get(device, -1) + 1
        more.setdefault("held", more.get("seq", seq))
        self.writer.store(device, *records, received_s=now, time_s=now - late_s, **more)
        self.look()

    def works(self, seconds, *devices, step_s=30.0):
        for _ in range(int(seconds / step_s)):
            self.clock.passes(step_s)
            for device in devices:
                self.store_reading(device, ("temperature", "Cel", 5))

    def take(self):
        told, self.told = self.told, []
        return told


@pytest.fixture
def house(tmp_path, monkeypatch):
    made = []

    def make(text=ALL):
        made.append(House(tmp_path, text, monkeypatch))
        return made[0]

    yield make
    for one in made:
        one.end()


def told_of(name, *words):
    return [(state, f"{name}: {text}") for state, text in words]


# --- Silence ---

SILENCE = '[[command]]\nrun = "cat"\n[[silence]]\nlonger_than = "2h"\nboards = ["kitchen", "a*"]\n'


def test_a_silent_board_is_told_once_and_once_that_it_is_heard_again(house):
    home = house(SILENCE)
    home.works(600, "kitchen", "other")
    home.passes(2 * HOUR_S)
    assert home.take() == []
    home.passes(60)
    assert home.take() == [("begin", "kitchen: nothing for 2 h")]
    home.passes(9 * HOUR_S, 300)
    assert home.take() == []
    home.store_reading("kitchen", ("temperature", "Cel", 5), late_s=9000)
    assert home.take() == [("end", "kitchen: heard again")]


def test_a_named_board_that_never_sent_is_told_and_a_pattern_names_none(house):
    home = house(SILENCE)
    home.passes(2 * HOUR_S + 60, 60)
    assert home.take() == [("begin", "kitchen: has never sent anything")]


def test_boards_were_not_silent_while_we_were_away(house):
    """The machine was off for a day; after it boards have their time to come back."""
    home = house(SILENCE)
    home.works(600, "kitchen")
    home.restart(24 * HOUR_S)
    home.passes(HOUR_S, 60)
    home.store_reading("kitchen", ("temperature", "Cel", 5))
    home.restart(24 * HOUR_S)
    home.passes(2 * HOUR_S, 60)
    assert home.take() == []
    home.passes(120)
    assert [state for state, _ in home.take()] == ["begin"]


def test_short_restarts_do_not_begin_the_silence_anew(house):
    home = house(SILENCE)
    home.works(600, "kitchen")
    for _ in range(30):
        home.passes(240)
        home.restart(20.0)
    assert [state for state, _ in home.take()] == ["begin"]


def test_silence_that_was_told_stays_told_over_a_day_without_us(house):
    home = house(SILENCE)
    home.works(600, "kitchen")
    home.passes(3 * HOUR_S, 300)
    assert len(home.take()) == 1
    home.restart(24 * HOUR_S)
    home.passes(5 * HOUR_S, 300)
    assert home.take() == []
    home.store_reading("kitchen", ("temperature", "Cel", 5))
    assert home.take() == [("end", "kitchen: heard again")]


def test_while_the_collector_stores_nothing_no_board_is_silent(house):
    home = house(SILENCE + '[attention]\nfor = "5m"\n')
    home.works(600, "kitchen", "a1")
    home.collected = False
    home.passes(5 * HOUR_S, 60)
    assert home.take() == [("begin", "collector: no collector stores what arrives")]
    home.collected = True
    home.passes(HOUR_S, 60)
    # they have their two hours, and the page's own rule told them silent after its time
    assert ("end", "collector: no collector stores what arrives") in home.told
    assert not [text for _, text in home.told if "nothing for" in text]


@pytest.mark.parametrize("by_s", [7200, 86_400])
def test_a_clock_that_jumps_makes_nobody_silent(by_s, house):
    """A machine without a clock of its own gets its time after the start; or it slept."""
    home = house(SILENCE)
    home.works(600, "kitchen")
    home.clock.is_set(by_s)
    home.passes(HOUR_S)
    assert home.take() == []


# --- What needs attention ---


def test_each_line_that_needs_attention_is_told_with_what_to_do(house):
    home = house()
    home.works(300, "kitchen")
    home.store_reading("kitchen", ("left_out", "", 2), ("soil.fault", "", 1), ("air.fault", "", 6))
    home.passes(30)
    assert home.take() == []
    home.works(90, "kitchen")
    assert sorted(home.take()) == sorted(told_of(
        "kitchen", ("begin", "2 flash blocks left out"), ("begin", "soil: no answer"),
        ("begin", "air: out of range"),
    ))  # fmt: skip
    home.store_reading("kitchen", ("soil.fault", "", 0))
    home.works(90, "kitchen")
    assert home.take() == told_of("kitchen", ("end", "soil: no answer"))
    home.restart(20.0)
    home.works(300, "kitchen")
    assert home.take() == [], "a restart tells nothing again"


def test_a_board_that_is_silent_by_its_own_usual_interval_is_told(house):
    home = house()
    home.works(900, "kitchen")
    home.passes(660)
    assert home.take() == []
    home.passes(60)
    [(state, text)] = home.take()
    assert state == "begin" and text.startswith("kitchen: silent for 1")
    home.restart(20.0, history_mib=1)
    home.passes(HOUR_S)
    home.works(120, "kitchen")
    assert home.take() == [("end", "kitchen: heard again")]


def test_after_a_restart_with_little_of_the_log_nothing_ends_that_may_go_on(house, monkeypatch):
    """A board tells what does not change with each 64th message."""
    home = house()
    home.store_reading("kitchen", ("left_out", "", 2))
    home.works(200, "kitchen")
    assert home.take() == [("begin", "kitchen: 2 flash blocks left out")]
    home.writer.segments.seal()
    home.end()
    for path in (home.folder / "log").glob("*/*.seg"):
        path.unlink()
    now = home.clock.now_s
    home.writer.store("kitchen", ("temperature", "Cel", 5), received_s=now, seq=7, held=7)
    home.start()
    home.works(1800, "kitchen")
    assert home.take() == []
    home.works(1200, "kitchen")
    assert home.take() == [("end", "kitchen: 2 flash blocks left out")]


def test_lost_messages_are_told_and_more_of_them_on_another_day(house):
    home = house()
    home.works(300, "kitchen")
    home.store_reading("kitchen", ("temperature", "Cel", 5), seq=20, held=20)
    home.works(120, "kitchen")
    assert home.take() == [("begin", "kitchen: 10 lost")]
    home.store_reading("kitchen", ("temperature", "Cel", 5), seq=30, held=30)
    home.works(HOUR_S, "kitchen", step_s=600)
    assert home.take() == []
    home.works(24 * HOUR_S, "kitchen", step_s=600)
    assert home.take() == [("more", "kitchen: 15 lost")]


def test_kinds_and_boards_that_are_left_out_are_not_told(house):
    home = house(ALL + 'leave_out = ["worn"]\nboards = ["k*"]\n')
    home.works(300, "kitchen", "bath")
    for board in ("kitchen", "bath"):
        home.store_reading(board, ("left_out", "", 2), ("soil.fault", "", 1))
    home.works(300, "kitchen", "bath")
    assert home.take() == told_of("kitchen", ("begin", "soil: no answer"))


def test_messages_that_the_broker_does_not_pass_on_are_told_and_not_as_another_client(house):
    home = house()
    home.works(300, "kitchen")
    home.store_reading("kitchen", ("aside", "", 3), ("not_passed", "", 3), ("takeovers", "", 5))
    home.works(600, "kitchen")
    assert home.take() == [("begin", "kitchen: 3 set aside")]
    home.store_reading("kitchen", ("aside", "", 0))
    home.works(HOUR_S, "kitchen")
    assert ("end", "kitchen: 3 set aside") in home.take()


# --- The house ---


def test_a_disk_that_gets_full_is_told_also_when_nothing_can_be_written(house, monkeypatch):
    home = house()
    home.free = 150 * MIB

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("outpost_tools.machine.files.replace_text", full)
    home.look()
    [(state, text)] = home.take()
    assert state == "begin" and text.startswith(
        "the disk has 150 MiB left; when it is full, nothing is"
    )
    home.free = 220 * MIB
    home.passes(300)
    assert home.take() == []
    home.free = 300 * MIB
    home.passes(60)
    assert [state for state, _ in home.take()] == ["end"]


def test_a_job_that_fails_is_told_and_its_end(house):
    home = house()
    home.failed_jobs = {"tables": "status 2: no room"}
    home.passes(600)
    assert home.take() == [("begin", "the job tables failed: status 2: no room")]
    home.failed_jobs = {"tables": "status 2: less room"}
    home.passes(600)
    assert home.take() == [], "it is the same trouble, in other words"
    home.failed_jobs = {}
    home.passes(600)
    assert [state for state, _ in home.take()] == ["end"]


def test_collector_and_disk_can_be_left_out(house):
    home = house(ALL + 'leave_out = ["collector", "disk"]\n')
    home.free, home.collected = 0, False
    home.passes(300)
    assert home.take() == []


def test_the_collectors_own_word_is_told(house):
    home = house()
    with Hook() as health:
        home.restart(1.0, health=f"http://127.0.0.1:{health.port}/healthz")
        home.passes(90)  # it answers with 501: no GET there
        assert [one[0] for one in home.take()] == ["begin"]
    home.passes(90)
    assert home.take() == [], "it is the same trouble, in other words"


def test_a_fault_in_a_look_stops_neither_the_page_nor_the_next_look(house, monkeypatch):
    home = house()
    monkeypatch.setattr(watch, "_TURN_S", 0.001)
    turns = []

    def turn():
        turns.append(1)
        if len(turns) == 5:
            home.alerts._stopping.set()
        raise http.client.HTTPException("x")

    home.alerts.turn = turn
    home.alerts._run()
    assert len(turns) == 5 and len([one for one in home.said if "trying again" in one]) == 1


# --- Readings ---

FRIDGE = """\
[[command]]
run = "cat"
[[reading]]
sensor = "temperature"
above = 8
hysteresis = 0.5
for = "10m"
[[reading]]
sensor = "leak"
above = 0
"""


def test_a_reading_must_last_before_it_is_told(house):
    home = house(FRIDGE)
    for value in (9, 9, 7, 9):
        home.store_reading("fridge", ("temperature", "Cel", value))
        home.passes(240)
    assert home.take() == []
    home.passes(420)
    assert home.take() == told_of("fridge", ("begin", "temperature 9 °C, above 8 °C"))
    home.store_reading("fridge", ("temperature", "Cel", 7.4))
    home.passes(570)
    assert home.take() == []
    home.passes(60)
    assert home.take() == told_of("fridge", ("end", "temperature 7.4 °C, no longer above 8 °C"))


def test_what_is_over_before_anybody_looks_is_told_all_the_same(house):
    home = house(FRIDGE)
    for value in (1, 0):
        now = home.clock.now_s
        home.clock.passes(0.5)
        home.writer.store("sink", ("leak", "", value), received_s=now, time_s=now)
    home.look()
    assert home.take() == told_of(
        "sink", ("begin", "leak 1, above 0"), ("end", "leak 0, no longer above 0")
    )
    home.passes(60)
    assert home.take() == []


def test_a_backlog_after_an_outage_tells_nothing_of_then(house):
    home = house(FRIDGE)
    for late_s in range(7200, 120, -60):
        home.store_reading("fridge", ("temperature", "Cel", 20), ("leak", "", 1), late_s=late_s)
    home.passes(HOUR_S)
    assert home.take() == []
    home.store_reading("fridge", ("leak", "", 1))
    assert home.take() == told_of("fridge", ("begin", "leak 1, above 0"))


def test_a_reading_that_was_told_is_not_told_again_after_a_restart_nor_is_its_end(house):
    home = house(FRIDGE)
    home.store_reading("sink", ("leak", "", 1))
    home.clock.passes(5)
    home.store_reading("sink", ("leak", "", 0))
    assert [state for state, _ in home.take()] == ["begin", "end"]
    for _ in range(3):
        home.restart(10.0)
        home.passes(60)
        assert home.take() == []
    home.store_reading("sink", ("leak", "", 2))
    assert len(home.take()) == 1
    for away_s in (10.0, 86_400.0):
        home.restart(away_s)
        home.passes(60)
        assert home.take() == []
    home.store_reading("sink", ("leak", "", 0))
    assert home.take() == told_of("sink", ("end", "leak 0, no longer above 0"))


def test_what_came_while_the_page_was_being_started_again_is_told(house):
    """The collector went on: in a sealed segment and in the open one."""
    home = house(FRIDGE)
    home.end()
    home.clock.passes(20)
    now = home.clock.now_s
    home.writer.store("sink", ("leak", "", 1), received_s=now, time_s=now)
    home.writer.segments.seal()
    home.writer.store("fridge", ("leak", "", 1), received_s=now, time_s=now)
    home.clock.passes(20)
    home.start()
    assert sorted(home.take()) == [
        ("begin", f"{name}: leak 1, above 0") for name in ("fridge", "sink")
    ]


def test_at_the_start_readings_count_in_the_order_of_their_arrival(house):
    """The history is read with the newest segment first."""
    home = house(FRIDGE)
    home.end()
    for value in (1, 0):
        home.clock.passes(20)
        now = home.clock.now_s
        home.writer.store("sink", ("leak", "", value), received_s=now, time_s=now)
        home.writer.segments.seal()
    home.start()
    assert [state for state, _ in home.take()] == ["begin", "end"]


def test_a_board_without_a_clock_is_not_late_when_ours_is_set(house):
    home = house(FRIDGE)
    for up, by_s in ((10, 0), (40, 0), (70, 7200)):
        home.clock.passes(30)
        home.clock.is_set(by_s)
        home.look()
        now = home.clock.now_s
        home.writer.store("sink", ("leak", "", int(up == 70)), received_s=now, time_s=None, up=up)
        home.look()
    home.passes(30)
    assert home.take() == told_of("sink", ("begin", "leak 1, above 0"))


def test_what_came_an_hour_ago_is_no_news_at_the_start(house):
    home = house(FRIDGE)
    home.end()
    now = home.clock.now_s
    home.writer.store("sink", ("leak", "", 1), received_s=now, time_s=now)
    home.clock.passes(HOUR_S)
    home.start()
    assert home.take() == []


def test_an_alert_that_could_not_be_sent_before_the_end_is_sent_after_the_next_start(house):
    home = house(FRIDGE)
    home.trouble = "nothing listens there"
    home.store_reading("sink", ("leak", "", 1))
    home.trouble = ""
    home.restart(86_400.0)
    assert home.take() == told_of("sink", ("begin", "leak 1, above 0"))


def test_a_rule_that_was_taken_out_is_forgotten_without_a_word(house):
    home = house(FRIDGE)
    home.store_reading("sink", ("leak", "", 1))
    assert len(home.take()) == 1
    toml(home.folder, FRIDGE.replace("above = 0", "above = 5"))
    home.restart(10.0)
    assert home.take() == [] and not home.store.ledger.told


def test_nothing_is_looked_at_while_the_history_is_read_and_nothing_grows_without_bound(
    house, monkeypatch
):
    monkeypatch.setattr(watch, "_MOST_MESSAGES", 50)
    home = house(FRIDGE)
    home.end()
    home.start()
    home.fleet.reading = 0.5
    for number in range(200):
        now = home.clock.now_s
        home.writer.store("sink", ("leak", "", number % 2), received_s=now, time_s=now)
    home.follower.turn()
    home.alerts.turn()
    assert home.take() == [] and len(home.alerts._arrived) == 50
    assert NOW_S <= home.clock.now_s
