# cpython-only: a desktop tool
"""Once when it begins, once when it ends; what lasts too short a time, what only happened, what was
told before a restart; messages folded, dropped and bounded.
"""

import dataclasses

import pytest

from alerts_rig import NOW_S, Clock, Hook, close_store, stored, toml
from outpost_tools import cli
from outpost_tools.machine import files
from outpost_tools.servers.alerts import courier, settings, store
from outpost_tools.servers.alerts.channels import Failed
from outpost_tools.servers.alerts.courier import NEVER_S, Courier, pause_s
from outpost_tools.servers.alerts.ledger import BEGIN, END, MORE, Condition, Ledger, iso
from outpost_tools.servers.alerts.store import HOUR_S, Queue
from outpost_tools.servers.alerts.text import message

FRIDGE = Condition("reading", "fridge", "fridge: 9 °C, above 8 °C")
LOST = Condition("lost", "a", "a: 3 lost", size=3, has_end=False)


def states(events):
    return [one["state"] for one in events]


def test_it_is_told_once_when_it_begins_and_once_when_it_ends():
    ledger = Ledger()
    [event] = ledger.update(NOW_S, 0, {"x": FRIDGE})
    assert (event["state"], event["text"]) == (BEGIN, FRIDGE.text)
    for minute in range(1, 600):
        changed = dataclasses.replace(FRIDGE, text=f"fridge: {minute} °C")
        assert ledger.update(NOW_S + 60 * minute, 60 * minute, {"x": changed}) == []
    [over] = ledger.update(NOW_S + 36000, 36000, {}, over=lambda *_: "fridge: 7 °C")
    assert (over["state"], over["text"], over["id"]) == (END, "fridge: 7 °C", event["id"])
    assert over["began"] == event["began"] != over["time"]
    assert ledger.update(NOW_S + 36060, 36060, {}) == [] and not ledger.told


def test_what_lasts_too_short_a_time_is_not_told_and_a_short_pause_is_no_end():
    ledger, slow = Ledger(), dataclasses.replace(FRIDGE, wait_s=300)
    for at_s in (0, 299):
        assert ledger.update(NOW_S + at_s, at_s, {"x": slow}) == []
    assert ledger.update(NOW_S + 310, 310, {}) == []
    assert ledger.update(NOW_S + 320, 320, {"x": slow}) == []
    # the clock that people set does not count
    assert ledger.update(NOW_S + 9999, 619, {"x": slow}) == []
    [event] = ledger.update(NOW_S + 620, 620, {"x": slow})
    assert event["began"] == iso(NOW_S + 320)
    for at_s in (700, 999):
        assert ledger.update(NOW_S + at_s, at_s, {}) == []
    assert ledger.update(NOW_S + 999, 999, {"x": slow}) == []
    assert ledger.update(NOW_S + 1000, 1000, {}) == []
    assert states(ledger.update(NOW_S + 1300, 1300, {})) == [END]


def test_what_only_happened_has_no_end_and_is_told_again_when_there_is_more_once_a_day():
    ledger = Ledger()
    assert states(ledger.update(NOW_S, 0, {"x": LOST})) == [BEGIN]
    more = dataclasses.replace(LOST, text="a: 9 lost", size=9)
    assert ledger.update(NOW_S + 60, 60, {"x": more}) == []
    assert ledger.update(NOW_S + 80000, 80000, {}) == []  # a restart that read less of the log
    [event] = ledger.update(NOW_S + 86400, 86400, {"x": more})
    assert (event["state"], event["text"]) == (MORE, "a: 9 lost")
    assert ledger.update(NOW_S + 200000, 200000, {"x": more}) == []


def test_of_what_nothing_is_known_nothing_ends():
    ledger = Ledger()
    ledger.update(NOW_S, 0, {"x": FRIDGE})
    assert ledger.update(NOW_S + 9, 9, {}, is_known=lambda key: key != "x") == []
    assert states(ledger.update(NOW_S + 9, 9, {})) == [END]


# --- The file, and couriers ---


@pytest.fixture
def place(tmp_path):
    """(folder, settings, clock). Of the four messages an hour, a board has three at most."""
    path = toml(tmp_path, 'most_per_hour = 4\n[[command]]\nrun = "cat"\n[attention]\n')
    return tmp_path, settings.load(path), Clock()


class Receiver:
    """In the place of channels.send."""

    def __init__(self):
        self.sent, self.tries, self.trouble = [], [], ""

    def __call__(self, _channel, message):
        self.tries.append(message)
        if self.trouble:
            raise Failed(self.trouble)
        self.sent.append(message)
        return ""


def a_courier(place, kept, said=None):
    _, wish, clock = place
    receiver = Receiver()
    made = Courier(
        wish.channels[0], kept, wish.most_per_hour, (said if said is not None else []).append,
        clock=clock.now, steady=clock.steady, send=receiver,
    )  # fmt: skip
    return made, receiver


def begins(kept, clock, *names):
    told = dict.fromkeys(kept.ledger.told, FRIDGE)
    events = kept.ledger.update(
        clock.now(),
        clock.steady(),
        told | {one: dataclasses.replace(FRIDGE, text=one) for one in names},
    )
    kept.add(events)
    kept.save()


def run_for(made, clock, seconds):
    """Turns of the courier, as its thread would make them; nothing waits."""
    until = clock.steady_s + seconds
    while clock.steady_s < until:
        wait_s = made.step()
        clock.passes(min(wait_s if wait_s > 0 else 0.001, until - clock.steady_s))


def test_a_receiver_that_is_down_for_an_hour_gets_all_in_one_message_when_it_is_back(place):
    folder, wish, clock = place
    said = []
    kept = stored(folder, wish)
    made, receiver = a_courier(place, kept, said)
    receiver.trouble = "nothing listens there"
    for number in range(7):
        begins(kept, clock, f"alert {number}")
        run_for(made, clock, 500)
    assert receiver.sent == [] and len(receiver.tries) == 8  # after 0, 15, 30, 60 ... 1920 s
    assert kept.queues[wish.channels[0].key].trouble == "nothing listens there"
    receiver.trouble = ""
    run_for(made, clock, 3600)
    [message] = receiver.sent
    lines = message.text.splitlines()
    assert [line.split(" (")[0] for line in lines] == [f"alert {n}" for n in range(7)]
    assert message.title == "alert 0 (and 6 more)" and made.step() == NEVER_S
    receiver.trouble = "nothing listens there"
    begins(kept, clock, "the next one")
    assert made.step() == 15, "it begins again at the first distance"
    assert said[0].endswith("not sent: nothing listens there; trying again")
    assert len([line for line in said if "not sent" in line]) < 8, "the same again is folded"
    assert ": sent after " in said[-2]
    assert [pause_s(n) for n in (1, 2, 3, 9, 10_000)] == [15, 30, 60, 3600, 3600]


def test_no_more_messages_an_hour_than_asked_for_and_the_rest_comes_later(place):
    folder, wish, clock = place
    kept = stored(folder, wish)
    made, receiver = a_courier(place, kept)
    began_s = clock.now()
    times = []
    for number in range(120):  # one each minute, for two hours
        begins(kept, clock, f"alert {number}")
        before = len(receiver.sent)
        run_for(made, clock, 60)
        times += [clock.now()] * (len(receiver.sent) - before)
    run_for(made, clock, 7200)
    for time_s in times:
        assert len([one for one in times if time_s - 3600 < one <= time_s]) <= 3
    texts = "\n".join(one.text for one in receiver.sent).splitlines()
    texts = [line for line in texts if not line.endswith("they wait")]
    assert sorted(line.split(" (")[0] for line in texts) == sorted(f"alert {n}" for n in range(120))
    assert len(receiver.sent) <= 9 and clock.now() - began_s == pytest.approx(14400)


def test_the_bound_and_the_queue_survive_a_restart(place):
    folder, wish, clock = place
    kept = stored(folder, wish)
    made, receiver = a_courier(place, kept)
    for number in range(5):
        begins(kept, clock, f"alert {number}")
        made.step()
        clock.passes(1)
    assert len(receiver.sent) == 3
    close_store(kept)
    kept = stored(folder, wish)
    made, again = a_courier(place, kept)
    assert 3500 < made.step() < 3600 and again.tries == []
    run_for(made, clock, 3700)
    assert [one.title for one in again.sent] == ["alert 3 (and 1 more)"]
    assert set(kept.ledger.told) == {f"alert {n}" for n in range(5)}
    begins(kept, clock)
    assert made.step() == NEVER_S, "what was told before is not told again"


def test_a_clock_that_is_set_back_does_not_hold_alerts_up(place):
    folder, wish, clock = place
    kept = stored(folder, wish)
    made, receiver = a_courier(place, kept)
    for number in range(3):
        begins(kept, clock, f"alert {number}")
        made.step()
    clock.is_set(-86_400)
    begins(kept, clock, "alert 4")
    assert made.step() == 0 and len(receiver.sent) == 4


def test_too_many_that_wait_drop_the_oldest_and_say_so(place, monkeypatch):
    folder, wish, clock = place
    monkeypatch.setattr(store, "MOST_WAITING", 10)
    monkeypatch.setattr(courier, "_MOST_LINES", 20)
    kept = stored(folder, wish)
    made, receiver = a_courier(place, kept)
    begins(kept, clock, *(f"alert {n:02}" for n in range(25)))
    made.step()
    assert receiver.sent[0].title == "alert 15 (and 9 more)"
    assert receiver.sent[0].text.endswith(
        "15 older alerts of fridge are not sent: too many were waiting"
    )
    begins(kept, clock, "alert 26")
    made.step()
    assert "older" not in receiver.sent[1].text


def test_a_fault_of_ours_while_sending_keeps_the_alert_and_tells_no_secret(place):
    folder, wish, clock = place
    said = []
    kept = stored(folder, wish)
    made, receiver = a_courier(place, kept, said)

    def fails(*_):
        raise UnicodeEncodeError("ascii", "open sesame", 0, 1, "no")

    made._send = fails
    begins(kept, clock, "alert")
    made.step()
    assert "UnicodeEncodeError" in said[0] and "sesame" not in said[0]
    made._send = receiver
    run_for(made, clock, 20)
    assert len(receiver.sent) == 1


def test_a_full_disk_delays_no_alert(place, monkeypatch):
    folder, wish, clock = place
    said = []
    kept = stored(folder, wish)
    made, receiver = a_courier(place, kept, said)
    begins(kept, clock, "alert")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "replace_text", full)
    made.step()
    assert len(receiver.sent) == 1 and "No space left on device" in said[0]
    assert made.step() == NEVER_S


def test_the_status_names_what_is_wrong_and_what_waits(place, capsys):
    folder, wish, clock = place
    words = ["alerts", "status", str(folder)]
    assert cli.main(words) == 0 and "nothing was checked yet" in capsys.readouterr().out
    kept = stored(folder, wish)
    begins(kept, clock)
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "nothing is wrong\ncommand cat: nothing waits\n"
    made, receiver = a_courier(place, kept)
    receiver.trouble = "ended with status 3"
    begins(kept, clock, "fridge\x1b[2J")
    made.step()
    assert cli.main(words) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"since {iso(NOW_S)}  fridge\\x1b[2J",
        "command cat: 1 waits, ended with status 3",
    ]
    (folder / "alerts.state.json").write_text("[]")
    assert cli.main(words) == 2 and "move it away" in capsys.readouterr().err


def test_a_damaged_file_is_put_aside_and_a_second_teller_is_refused(place):
    folder, wish, _ = place
    (folder / "alerts.state.json").write_text('{"version": 1, "told": 3}')
    said = []
    kept = stored(folder, wish, said)
    assert "alerts.state.json.bad" in said[0] and (folder / "alerts.state.json.bad").exists()
    assert kept.ledger.told == {}
    with pytest.raises(store.ToolError, match="another page sends these alerts"):
        stored(folder, wish)


def test_what_no_rule_asks_for_any_more_is_forgotten_and_channels_that_left_get_nothing(place):
    folder, wish, clock = place
    kept = stored(folder, wish)
    begins(kept, clock, "old", "new")
    close_store(kept)
    text = '[[command]]\nrun = "tee"\n[attention]\n'
    other = settings.load(toml(folder, text))
    kept = stored(folder, other, is_wanted=lambda key: key == "new")
    assert set(kept.ledger.told) == {"new"}
    assert [one.waiting for one in kept.queues.values()] == [[]]


def test_the_file_holds_no_secret(tmp_path):
    with Hook() as hook:
        path = toml(tmp_path, f'[[webhook]]\nurl = "{hook.url}"\n[attention]\n')
        wish = settings.load(path)
        kept = stored(tmp_path, wish)
        begins(kept, Clock(), "alert")
        text = store.path_beside(path).read_text()
        assert "alert" in text and "secret-path" not in text and "hidden" not in text


# --- Shares of the boards ---


def event_of(board, number):
    return {"id": f"{board}-{number}", "state": "begin", "kind": "reading", "board": board,
            "text": f"{board}: {number}", "began": iso(NOW_S), "time": iso(NOW_S)}  # fmt: skip


def sent_of(queue, board, count, clock, most):
    """How many messages of a board that reports without end go out at once."""
    sent = 0
    for number in range(count):
        queue.add([event_of(board, number)])
        if queue.room_in_s(clock.now(), most) <= 0:
            queue.delivered(queue.batch(clock.now(), most, 50), {}, clock.now())
            sent += 1
    return sent


@pytest.mark.parametrize("most", [2, 3, 20, 1000])
def test_a_board_that_uses_up_its_alerts_leaves_another_its_own(most):
    """One loose contact let the alarm of another board wait for 3,400 s."""
    clock, queue = Clock(), Queue()
    sent = sent_of(queue, "loose", 2000, clock, most)
    assert sent == most - max(1, most // 4)
    assert queue.room_in_s(clock.now(), most) == HOUR_S
    queue.add([event_of("kitchen", 0)])
    assert queue.room_in_s(clock.now(), most) == 0
    batch = queue.batch(clock.now(), most, 50)
    assert batch[0]["board"] == "kitchen", "it has the title"
    assert (
        f"and {len(queue.waiting) - 50} more of loose: they wait"
        in message(batch, queue.dropped, queue.rest(batch)).text.splitlines()
    )


def test_a_flood_of_one_board_drops_no_alert_of_another_and_is_told():
    queue = Queue()
    queue.add([event_of("kitchen", 0)])
    queue.add([event_of("loose", number) for number in range(1100)])
    assert [one["board"] for one in queue.waiting].count("kitchen") == 1
    assert queue.dropped == {"loose": 601} and len(queue.waiting) == 500
    made = message(queue.batch(NOW_S, 20, 50), queue.dropped, queue.rest([]))
    assert "601 older alerts of loose are not sent" in made.text
    assert made.document["dropped"] == 601


def test_the_state_of_an_earlier_version_is_read():
    assert Queue(dropped=3).dropped == {"": 3} and Queue(dropped=0).dropped == {}
