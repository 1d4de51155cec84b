# cpython-only: mosquitto with users and rights, and boards as processes of MicroPython
"""`outpost send` to simulated boards over TLS: each command is done once and answered once, to a
board that is awake and one that sleeps, over power cuts and a broker that is restarted."""

import asyncio
import json
import re
import threading
import time

import pytest

from collector_process import Process, wait_until
from made_broker import MadeBroker
from outpost_tools import cli
from outpost_tools.boards.send import arguments, delivery, wording
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import settings_rules
from outpost_tools.messages.message import decode
from outpost_tools.mqtt import credentials
from outpost_tools.trying.simulate.fleet import Fleet
from outpost_tools.trying.simulate.journal import read_journal
from real_broker import micropython

WAITING = {"is_waiting": True, "tell": lambda name, answer: None}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with MadeBroker(tmp_path_factory.mktemp("made"), "board-1", "cellar") as made:
        assert made.outpost("add", "--operator", "desk") == 0
        yield made


def send(broker, *words, timeout_s=100):
    return cli.main(
        ["send", "--credentials", str(broker.folder), "--timeout", str(timeout_s), *words]
    )


def with_board(broker, folder, play, *, cuts=0, seconds=10.0, **settings):
    """play(fleet) in a thread, while board-1 runs."""
    micropython("i386")

    async def run():
        fleet = Fleet(
            folder, count=1, broker=("127.0.0.1", broker.port), seconds=seconds, interval_ms=200,
            cuts=cuts, settings={"mode": "broker", "commands": True, **settings},
            credentials={"board-1": credentials.find(broker.folder, "board", "board-1")},
        )  # fmt: skip
        async with fleet:
            while not fleet.published and not fleet.failures:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(play, fleet)
            assert not fleet.failures, fleet.failures

    asyncio.run(run())


def answered(fleet):
    """{id: results} of what the board's journal says that it stored."""
    found = {}
    for entry in read_journal(fleet.boards[0].directory / "journal.txt"):
        head = json.loads(entry.payload)[0] if entry.kind == "ok" else {}
        if "cmd" in head:
            found.setdefault(head["cmd"], []).append(head["v"])
    return found


@pytest.mark.parametrize("is_asleep", [False, True])
def test_each_command_is_answered(broker, tmp_path, capsys, is_asleep):
    def play(fleet):
        settings = fleet.boards[0].directory / "settings.json"
        assert send(broker, "board-1", "report") == 0
        assert re.match(r"board-1: done load=", capsys.readouterr().out)
        assert send(broker, "board-1", "set", "interval_ms=150") == 0
        assert json.loads(settings.read_text())["interval_ms"] == 150
        boots = fleet.boards[0].boots
        assert send(broker, "board-1", "restart") == 0
        assert fleet.boards[0].boots > boots
        assert send(broker, "--within", "2s", "board-1", "set", "broker_port=1") == 1
        assert "taken back: no connection within 2 s" in capsys.readouterr().out
        assert json.loads(settings.read_text())["broker_port"] != 1
        assert send(broker, "board-1", "set", "keep_alive_s=7") == 0
        assert json.loads(settings.read_text())["keep_alive_s"] == 7
        assert send(broker, "board-1", "stay-awake", "0s") == (0 if is_asleep else 1)
        assert all(len(one) == 1 for one in answered(fleet).values())

    with_board(broker, tmp_path / "fleet", play, deep_sleep=is_asleep)


def test_power_cuts_and_a_restarted_broker_do_nothing_twice(broker, tmp_path, capsys):
    def play(fleet):
        for number in range(12):
            words = ("restart",) if number % 3 == 2 else ("report",)
            assert send(broker, "--id", f"n-{number}", "board-1", *words) == 0
            if number == 5:
                broker.stop()
                broker.start()
        assert send(broker, "--id", "n-0", "board-1", "report") == 0
        assert "answered before" in capsys.readouterr().out
        found = answered(fleet)
        # a cut may come between an answer that is on flash, and its line in the journal
        assert all(one == [0] for one in found.values())
        assert len(found) >= 12 - fleet.power_cuts
        assert fleet.boards[0].boots >= 4

    try:
        with_board(broker, tmp_path / "fleet", play, cuts=3)
    finally:  # what a thread started ends with it
        broker.stop()
        broker.start()


def answers_in(frames):
    """[value] of the answers in a collector's log, each message once."""
    found = {}
    for frame in frames:
        topic = frame.topic if isinstance(frame.topic, str) else frame.topic.decode()
        message = decode(topic, frame.payload)
        for reading in message.readings:
            if reading.name == "command":
                found[message.stream, message.seq] = reading.value
    return list(found.values())


def test_in_collector_mode_each_answer_is_on_the_collectors_disk_once(broker, tmp_path):
    with Process(tmp_path, broker.port, name="collector-1", credentials=broker.folder) as collector:

        def play(fleet):
            for words in (["report"], ["restart"], ["set", "interval_ms=300"], ["report"]):
                assert send(broker, "board-1", *words) == 0
            wait_until(lambda: len(answers_in(collector.frames())) >= 4)

        wait_until(lambda: "subscribed" in collector.text())
        with_board(broker, tmp_path / "fleet", play, mode="collector")
        assert answers_in(collector.frames()) == [0, 0, 0, 0]


def test_a_board_that_is_away_gets_it_later_and_the_answer_can_be_asked_for(broker, capsys):
    """cellar has a session, and does not come in this test."""
    with broker.peer("cellar", clean=False) as peer:
        assert peer.subscribe("outpost/cellar/command") == 1
    assert send(broker, "cellar", "report", timeout_s=3) == 3
    said = capsys.readouterr().err
    assert said.startswith("waiting at most 3 s for the answer of cellar; a board that is away")
    assert "no answer yet; the broker keeps the command" in said and "--id " in said
    assert send(broker, "--no-wait", "cellar", "report") == 0
    assert "waiting" not in capsys.readouterr().err
    with broker.peer("cellar", clean=False) as peer:
        peer.until(lambda: len(peer.received) == 2, "the commands")
    broker.peer("cellar").client.disconnect()


def test_a_command_that_the_broker_took_for_nobody_is_sent_again(broker, monkeypatch):
    """cellar has no session yet, as after a broker that was killed."""
    monkeypatch.setattr(delivery, "_FIRST_REPEAT_S", 0.2)
    broker.peer("cellar").client.disconnect()
    found = credentials.find(broker.folder, "operator", "desk")
    access = delivery.Access(
        found.address, found.topic_prefix, found.login, found.tls(), found.client_id
    )
    one = delivery.Delivery(access, {"cellar": ("c-1", b'{"id":"c-1","do":"report"}')})
    sending = threading.Thread(target=one.run, args=(100,), kwargs=WAITING)
    sending.start()
    wait_until(lambda: one.sent == {"cellar"})
    with broker.peer("cellar") as board:
        assert board.subscribe("outpost/cellar/command") == 1
        board.until(lambda: board.received, "the command")
        board.client.publish("outpost/cellar/data", b'[{"n":"command","v":0,"cmd":"c-1"}]', 1)
        sending.join(100)
    assert one.answers["cellar"].result == 0


def test_an_acknowledgement_between_two_commands_that_go_out_again(broker, monkeypatch):
    """paho tells of a PUBACK while it holds the lock that its publish() takes: who then waits for
    a lock that is held around publish() waits for ever.
    """
    monkeypatch.setattr(delivery, "_FIRST_REPEAT_S", 0.1)
    found = credentials.find(broker.folder, "operator", "desk")
    access = delivery.Access(
        found.address, found.topic_prefix, found.login, found.tls(), found.client_id
    )
    commands = {name: (f"c-{name}", b"{}") for name in ("board-1", "cellar")}
    one = delivery.Delivery(access, commands)
    publish, published = one.line._client.publish, []

    def slowly(*words):
        made = publish(*words)
        time.sleep(0.2)  # meanwhile its PUBACK comes
        published.append(words[0])
        return made

    monkeypatch.setattr(one.line._client, "publish", slowly)
    sending = threading.Thread(target=one.run, args=(6,), kwargs=WAITING, daemon=True)
    sending.start()
    sending.join(60)
    assert not sending.is_alive(), "it waits for ever"
    assert one.sent == set(commands) and len(published) >= 4


def test_who_may_not_send_is_told(broker, capsys):
    with pytest.raises(ToolError, match="an operator's rights"):
        found = credentials.find(broker.folder, "board", "cellar")
        access = delivery.Access(
            found.address, found.topic_prefix, found.login, found.tls(), found.client_id
        )
        one = delivery.Delivery(access, {"board-1": ("a", b"{}")})
        one.line._client._client_id = b"cellar"
        one.run(20, is_waiting=True, tell=print)
    assert cli.main(["send", "--broker", "127.0.0.1:1", "board-1", "report"]) == 2
    assert "nothing was sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, said",
    [
        (["dance"], "known: report, restart"),
        (["report", "now"], "is not a command"),
        (["set"], "is not a command"),
        (["set", "interval_ms"], "give KEY=VALUE"),
        (["set", "interval_ms=soon"], "key 'interval_ms' must be a whole number"),
        (["set", "colour=red"], "unknown key 'colour'"),
        (["set", "password=" + "x" * 129], "must be of length 0 to 128"),
        (["set", "password=@/nowhere"], "set password from /nowhere: "),
        (["stay-awake", "long"], "give a time as 90s"),
    ],
)
def test_a_command_that_is_none_is_not_sent(words, said):
    with pytest.raises(ToolError, match=said):
        wording.command(words, "a")


def sent(*words):
    """What the parser of the command makes of a command line: the settings in the payload."""
    line = ["send", "--broker", "127.0.0.1:1", "kitchen", *words]
    args = cli.build_parser("send").parse_args(line)
    ((_, payload),) = arguments._commands(args, *arguments._boards(args)).values()
    return json.loads(payload)["settings"]


CHOICES = {key: rule[0] for key, rule in settings_rules().items() if isinstance(rule[0], tuple)}


@pytest.mark.parametrize("key, value", [(key, one) for key in CHOICES for one in CHOICES[key]])
def test_each_choice_of_a_setting_can_be_sent(key, value):
    """`set level=5` was refused: "must be one of 3, 4, 5, not '5'"."""
    assert sent("set", f"{key}={value}") == {key: value}


@pytest.mark.parametrize("key", CHOICES)
@pytest.mark.parametrize("value", ["7", "4.0", "true", "[4]", "colour", '"4"'])
def test_what_is_no_choice_of_a_setting_is_refused(key, value):
    with pytest.raises(ToolError, match=f"set: key '{key}' must be one of "):
        sent("set", f"{key}={value}")


def test_the_id_that_asks_again_can_be_typed():
    assert not [one for one in (wording.new_id() for _ in range(1000)) if one.startswith("-")]


@pytest.mark.parametrize("value, text", [(1_234_567, "1234567"), (23_769_360.5, "23769360")])
def test_a_reading_in_an_answer_keeps_its_digits(value, text):
    assert str(delivery.Answer(0, readings=(("pulses", value),))) == f"done pulses={text}"


def test_words_become_a_command():
    assert json.loads(wording.command(["stay-awake", "90s"], "a", until_s=5)) == {
        "id": "a", "do": "stay_awake", "minutes": 2, "until": 5,
    }  # fmt: skip
    # no escapes: MicroPython's json makes two characters of those above U+FFFF
    assert '"wifi_ssid":"📶"'.encode() in wording.command(["set", "wifi_ssid=📶"], "a")
    settings = json.loads(wording.command(["set", "user=12", "tls=true", "alpn="], "a"))["settings"]
    assert settings == {"user": "12", "tls": True, "alpn": None}
    with pytest.raises(ToolError, match="a board takes 512"):
        wording.command(["set", *(f"{key}={'x' * 128}" for key in (
            "password", "ca_file", "client_cert_file", "client_key_file"))], "a")  # fmt: skip


@pytest.mark.parametrize(
    ("words", "held", "key"),
    [
        (("set", "broker_host=b"), None, "refuse"),
        (("set", "broker_port=1"), "send", "send"),
        (("set", "broker_port=1"), "move", None),
        (("set", "keep_alive_s=9"), None, None),
    ],
)
def test_who_changes_the_broker_says_what_becomes_of_held_messages(words, held, key):
    made = json.loads(wording.command([*words], "one", held=held))
    assert made.get("held") == key


def test_held_is_for_a_change_of_the_broker():
    with pytest.raises(ToolError, match="--held is for `set` with broker_host or broker_port"):
        wording.command(["set", "keep_alive_s=9"], "one", held="send")


def test_what_is_no_answer_is_passed_over():
    for payload in (b"", b"[]", b"\xff", b'[{"n":"load","v":1}]', b'{"cmd":1,"v":0}', b"[" * 9999):
        assert delivery.answer_in(payload) is None
    endless = b'[{"cmd":"a","v":0},{"n":"x","v":1' + b"0" * 400 + b'},{"n":"y","v":1e999}]'
    assert str(delivery.answer_in(endless)[1]) == "done"
