# cpython-only: an explorer
"""The explorer of the law of progress, on a few mixtures, and that it finds what breaks the law."""

import pytest

import prove_progress
from progress_world import COLLECTOR, FLASH, RAM, TWICE, Setting, Verdict, World

CLOSE, SILENCE, PASS_OVER = Verdict("close"), Verdict("silence"), Verdict("pass over")
MIXED = CLOSE, SILENCE, Verdict("hang"), Verdict("garbage")


@pytest.mark.parametrize("store", [RAM, FLASH, COLLECTOR, TWICE])
@pytest.mark.parametrize("level", [3, 4, 5])
def test_good_messages_arrive_beside_each_kind_of_bad_one(level, store):
    setting = Setting(level=level, store=store, order="mixed")
    world, is_done = prove_progress.run(setting, MIXED)
    assert is_done
    last = max(at for number, at in world.taken.items() if number < prove_progress.MORE)
    assert last <= prove_progress.bound(setting, MIXED)


def test_pauses_of_a_minute_leave_the_others_their_turn():
    """0x9C makes the client wait longer than a message of the shelf does."""
    setting = Setting(level=5, store=COLLECTOR, window=1)
    verdicts = Verdict("disconnect", 0x9C), CLOSE, CLOSE, Verdict("garbage")
    world, is_done = prove_progress.run(setting, verdicts)
    last = max(at for number, at in world.taken.items() if number < prove_progress.MORE)
    assert is_done
    assert last <= prove_progress.bound(setting, verdicts)


def test_what_the_broker_does_not_pass_on_is_set_aside():
    world, is_done = prove_progress.run(Setting(store=COLLECTOR), (PASS_OVER,) * 4)
    assert (is_done, world.outbox.aside, world.client.session.not_passed) == (True, 4, 4)


@pytest.mark.parametrize("method", ["_judge", "_count", "_choose"])
def test_it_finds_a_broken_law(monkeypatch, method):
    monkeypatch.setattr("outpost.session.unload", lambda name: None)
    monkeypatch.setattr("outpost.suspects.Suspects.unload", lambda suspects: None)
    monkeypatch.setattr(f"outpost.suspects.Suspects.{method}", lambda *_: -1)
    monkeypatch.setattr(prove_progress, "LONGEST_S", 1800)
    assert not prove_progress.run(Setting(), MIXED)[1]


def test_it_finds_a_verdict_on_a_bad_network(monkeypatch):
    monkeypatch.setattr("outpost.suspects.Suspects.unload", lambda suspects: None)
    monkeypatch.setattr("outpost.suspects.Suspects._is_proved", lambda suspects: True)
    monkeypatch.setattr(prove_progress, "BAD_S", 1800)
    aside, _, _ = prove_progress.bad_network(Setting(rtt_ms=900), prove_progress.ends_at(300))
    assert aside


def test_the_networks_are_bad():
    for network in prove_progress.NETWORKS.values():
        world = World(Setting(rtt_ms=300), network=network)
        for number in range(60):
            world.publish(number)
            if world.run(10, lambda world=world: world.client.failures > 0):
                break
        assert world.client.failures
