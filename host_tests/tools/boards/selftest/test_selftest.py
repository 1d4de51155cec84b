# cpython-only: tests a desktop tool
"""`outpost selftest`: a board proves itself over the real mpremote and a real broker; what fails is
told, secrets are not."""

import json
import re

import pytest

from outpost_tools.boards.port import kinds
from outpost_tools.boards.selftest import health, health_report, live_run, wake_ledger
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.messages.message import decode
from paths import REPOSITORY
from real_broker import Observer, need_mosquitto

PRIVATE = {
    "device_id": "attic-board-7",
    "user": "mallory-the-user",
    "password": "tr0ub4dor & 3 ümläut",
    "topic_prefix": "my-own-house",
}
CHECKS = "board space locked outbox sensors link messages flash loop watchdog wake crash".split()
SHORT = ("--messages", 3, "--seconds", 9)  # a watchdog's period, and a second
HASTY = ("--messages", 3, "--seconds", 1)  # its check fails

pytestmark = pytest.mark.timeout(600)


def flash(rig, port=1, **more):
    settings = {
        "broker_host": "127.0.0.1",
        "broker_port": port,
        "mode": "broker",
        "outbox_blocks": 8,
        **PRIVATE,
        **more,
    }
    path = rig.folder / "settings.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    assert rig.outpost("flash", "--settings", path, "--no-link") == 0, rig.err


def results(rig):
    lines = [line.split(None, 2) for line in rig.out.splitlines()]
    return {words[0]: words[1] for words in lines if len(words) > 1 and words[0] in CHECKS}


def report(rig, *more):
    """Exit status, and the report: as JSON, and all that strangers may see."""
    status = rig.outpost("selftest", *more, "--report", rig.folder / "report")
    text = (rig.folder / "report.json").read_text()
    return (
        status,
        json.loads(text),
        text + (rig.folder / "report.txt").read_text() + rig.out + rig.err,
    )


def no_secret_in(shown):
    for key, value in PRIVATE.items():
        assert value not in shown and json.dumps(value)[1:-1] not in shown, key
    assert "127.0.0.1" not in shown


def figures(found, name):
    return next(check["figures"] for check in found["checks"] if check["name"] == name)


def test_a_board_proves_itself_and_goes_on(rig, tmp_path):
    need_mosquitto()
    topic = f"{PRIVATE['topic_prefix']}/{PRIVATE['device_id']}/data"
    with (
        Broker("mosquitto", tmp_path / "broker") as broker,
        Observer(broker.port, "observer", (topic, 1)) as observer,
    ):
        flash(rig, broker.port, interval_ms=50)
        observer.wait(3)
        status, found, shown = report(rig, *SHORT)
        assert status == 0, shown
        assert [check["name"] for check in found["checks"]] == CHECKS
        assert {check["result"] for check in found["checks"]} == {"pass"} and found[
            "result"
        ] == "passed"
        messages, timed = figures(found, "messages"), figures(found, "flash")
        assert (
            messages["stored"] == 3 and messages["acknowledged"] >= 3 and messages["errors"] == []
        )
        assert timed["program"]["count"] >= 3 and timed["program"]["mean_ms"] > 0
        assert timed["erase"]["count"] >= 1 and timed["erase"]["mean_ms"] > 0
        assert figures(found, "loop")["left_by_100_turns"] == [0, 0, 0, 0]
        assert figures(found, "watchdog")["took_ms"] >= 9000
        assert figures(found, "space")["heap_largest"] > 100_000
        steps = figures(found, "wake")["ms"]
        assert [*steps] == [one for one in wake_ledger.STEPS if one in steps]
        assert {"import", "mount", "store", "link", "connect", "acknowledge"} <= {*steps}
        observer.wait(len(observer.messages) + 10)  # its own program goes on
        seen = [
            decode(message.topic, message.payload.encode()).seq for message in observer.messages
        ]
    assert list(dict.fromkeys(seen)) == list(range(max(seen) + 1)), "its own numbers, none left out"
    no_secret_in(shown)
    text = (rig.folder / "report.txt").read_text()
    assert re.search(
        r"^messages   pass  3 of 3 stored, \d+ sent, \d+ acknowledged by the broker$",
        text,
        re.MULTILINE,
    )


def test_a_broker_that_is_not_there_and_a_crash_are_told_without_a_secret(rig):
    flash(rig, children.free_port())
    reason = (
        f"Traceback: user {PRIVATE['user']}, b'{PRIVATE['password'][:9]}'\n"
        f"\x1b[2JOSError: {PRIVATE['password']} at 127.0.0.1"
    )
    (rig.folder / "crash.txt").write_text(reason)
    rig.mpremote("cp", rig.folder / "crash.txt", ":crash.txt")
    status, found, shown = report(rig, *HASTY, "--link-timeout", 6)
    assert status == 1 and found["result"] == "failed: link, messages, watchdog, crash"
    assert "ECONNREFUSED" in rig.row("link") and "nothing listens" in rig.row("link")
    assert "3 of 3 stored; no link" in rig.row("messages")
    assert results(rig)["flash"] == results(rig)["loop"] == "pass"
    assert "\x1b" not in shown
    assert rig.row("crash").startswith(
        "fail  \\x1b[2JOSError: <password> at <broker_host>; when that is mended: mpremote "
    )
    assert "<user>" in figures(found, "crash")["crash.txt"][0]
    no_secret_in(shown)


@pytest.mark.long
def test_a_board_that_is_cut_off_in_the_middle_leaves_a_report_all_the_same(rig, monkeypatch):
    flash(rig)
    run = live_run.run

    def cut(board, count, seconds, limit_s, tell):
        signs = []
        return run(board, count, seconds, limit_s, lambda: signs or signs.append(rig.power_cut()))

    monkeypatch.setattr(live_run, "run", cut)
    status, found, shown = report(rig, "--no-link", "--timeout", 10)
    assert status == 1 and found["result"] == "failed: connection"
    assert [check["name"] for check in found["checks"]] == [*CHECKS[:6], "connection"]
    assert "does not answer within" in shown
    no_secret_in(shown)


@pytest.mark.long
def test_without_a_link_the_rest_is_tried(rig):
    flash(rig)
    assert rig.outpost("selftest", *SHORT, "--no-link") == 0, rig.out
    assert results(rig) == dict.fromkeys(CHECKS, "pass") | {"link": "skip", "wake": "skip"}
    assert "report" not in rig.out


def test_an_outbox_that_cannot_be_opened_does_not_stop_the_other_checks(rig):
    flash(rig)
    rig.mpremote("rm", ":/outbox/0003.pin")
    assert rig.outpost("selftest", *HASTY, "--no-link") == 1
    assert results(rig) == dict.fromkeys(CHECKS[:3], "pass") | {
        "outbox": "fail",
        "sensors": "skip",
        "link": "skip",
        "crash": "pass",
    }
    assert "/outbox/0003.pin: gone" in rig.row("outbox") and "/outbox/0003.pin: gone" in rig.row(
        "program"
    )


@pytest.mark.long
def test_a_board_whose_loop_takes_heap_fails(rig):
    board = rig.tree / "boards" / "RIG" / "board.py"
    idle = "        time.sleep_ms(_IDLE_MS)"
    board.write_text(board.read_text().replace(idle, f"{idle}\n        bytes(20)"))
    flash(rig)
    assert rig.outpost("selftest", *HASTY, "--no-link") == 1
    assert [name for name, result in results(rig).items() if result == "fail"] == [
        "loop",
        "watchdog",
    ]
    assert re.search(r"left by 100 turns, 4 times: \d{4}, \d{4}, \d{4}, \d{4};", rig.row("loop"))


def test_a_board_without_outpost_is_named(rig):
    assert rig.outpost("selftest") == 2
    assert (
        "Outpost is not on this board" in rig.err and "outpost flash --board RIG --port" in rig.err
    )


def test_a_report_that_cannot_be_written_is_refused_before_the_board_is_touched(rig):
    starts = len(rig.starts)
    assert rig.outpost("selftest", "--report", rig.folder / "nowhere" / "report") == 2
    assert "no such folder" in rig.err and len(rig.starts) == starts


# --- What is made of the figures ---

GOOD = [
    "started, boot 3", "H 2 150000", ".", "E 0", "C 4100 1", "N 3 3 5 5 0", "A 0 64 0 0",
    "W 1900 4000 20100", "F 8 3600 700 1 45200 45200",
]  # fmt: skip


def judged(*changed, has_link=True, link_s=60.0):
    kind = kinds.load(REPOSITORY, "RPI_PICO_W")
    lines = [next((one for one in changed if one[:2] == line[:2]), line) for line in GOOD]
    found = live_run.parse(lines)
    assert found.is_whole
    checks = health.judge(found, health.Job(kind, "/dev/ttyX", 3, 20, link_s), has_link)
    return {check.name: check for check in checks}


def test_a_good_run_passes_and_says_its_figures():
    checks = judged()
    assert {check.result for check in checks.values()} == {"pass"}
    assert checks["messages"].text == "3 of 3 stored, 5 sent, 5 acknowledged by the broker"
    assert (
        checks["flash"].text
        == "8 programs, 0.45 ms each, 0.70 at most; 1 erases, 45.20 ms each, 45.20 at most"
    )
    assert checks["watchdog"].text == "fed for 20.1 s, 1,900 ms between two at most, of 8,000"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("N 3 2 2 2 1", "messages"),  # one not stored
        ("N 3 3 5 2 0", "messages"),  # not acknowledged
        ("A 16 64 16 16", "loop"),  # each window takes some
        ("H 2 12000", "loop"),  # no room left
        ("W 8000 4000 20100", "watchdog"),  # as long as the watchdog waits
        ("W 1900 4000 7900", "watchdog"),  # not long enough to tell
    ],
)
def test_each_figure_that_is_not_good_fails_its_check_alone(line, name):
    checks = judged(line)
    assert [check.name for check in checks.values() if check.result == "fail"] == [name]


def test_no_program_of_the_flash_is_a_skip_and_a_link_that_was_wanted_a_fail():
    assert judged("F 0 0 0 0 0 0")["flash"].result == "skip"
    assert judged(has_link=False)["messages"].result == "fail"
    assert judged(has_link=False, link_s=0.0)["messages"].result == "pass"


def test_a_run_that_broke_off_is_not_taken_for_one():
    assert not live_run.parse(GOOD[:-1]).is_whole
    assert (
        live_run.parse(["X settings: key 'mode' is wrong"]).reason
        == "settings: key 'mode' is wrong"
    )


def test_private_values_go_in_each_form_the_longest_first():
    scrub = health.scrubber(
        {
            "password": "pä'ss",
            "user": "s",
            "wifi_ssid": "home",
            "broker_host": "home.example",
            "mode": "broker",
        }
    )
    assert scrub("join home, ask home.example") == "join <wifi_ssid>, a<user>k <broker_host>"
    assert scrub(repr("pä'ss")) == '"<password>"' and repr("pä'ss".encode())[2:-1] not in scrub(
        repr("pä'ss".encode())
    )
    assert scrub("mode broker") == "mode broker"
    listed = {"wifi_networks": [{"ssid": "barn", "password": "hay and straw"}, "no network"]}
    assert health.scrubber(listed)("join barn by hay and straw") == (
        "join <wifi_networks.ssid> by <wifi_networks.password>"
    )
    assert (
        health.scrubber({"ntp_host": "pool.ntp.org", "user": ""})("user of pool.ntp.org")
        == "user of pool.ntp.org"
    )


@pytest.mark.parametrize("name", ["kitchen", "kitchen.json", "kitchen.txt"])
def test_the_two_files_of_a_report(name, tmp_path):
    checks = [health.Check("board", "pass", "good"), health.Check("link", "fail", "no broker")]
    as_json, as_text = health_report.write(tmp_path / name, checks)
    assert (as_json.name, as_text.name) == ("kitchen.json", "kitchen.txt")
    assert json.loads(as_json.read_text())["result"] == "failed: link"
    assert as_text.read_text().splitlines()[2:] == [
        "board      pass  good",
        "link       fail  no broker",
    ]
    with pytest.raises(ToolError, match="Is a directory"):
        (tmp_path / "sub.json").mkdir()
        health_report.write(tmp_path / "sub", checks)


def test_the_ledger_of_a_wake_sums_up_and_names_its_charge():
    lines = [
        "connected 1",
        "W import 500",
        "W mount 200",
        "W join 1000",
        "W acknowledge 20",
        "W end 0",
    ]
    found = wake_ledger.parse(lines)
    assert found.is_whole and not wake_ledger.parse(lines[:-1]).is_whole
    assert found.text().startswith("1,720 ms: import 500, mount 200, join 1,000")
    assert found.mas("ESP32_GENERIC") == pytest.approx(0.7 * 44 + 1.02 * 100)
    assert found.mas("RPI_PICO_W") is None
