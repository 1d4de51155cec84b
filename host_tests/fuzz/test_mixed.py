# cpython-only: thousands of connections in one interpreter
"""The short form of hunt_mixed.py: some seeds, and a proof that it finds defects that were once
fixed."""

import random
import types

import pytest

import hunt_mixed
import paths
from fuzz_facts import Violation, require
from hunt_mixed import Account
from mixed_choices import SESSIONS, choose
from mixed_world import World
from outpost.exactly_once import ExactlyOnceSession
from outpost.mqtt5.level5_session import Level5
from outpost.session import Session

SEEDS = range(40)


def played(seeds) -> Account:
    account = Account()
    for seed in seeds:
        account.play(seed)
    return account


@pytest.fixture
def breaks(monkeypatch):
    """Changes a text in retry.py, which sessions unload and import again."""
    original = Session._load_suspects

    def install(old, new):
        source = paths.library_module("retry").read_text()
        assert source.count(old) == 1
        module = types.ModuleType("retry")
        exec(source.replace(old, new), module.__dict__)

        def load(session):
            original(session)
            session.suspects._shelved = session.suspects._shelved or module.Retry(session)
            return True

        monkeypatch.setattr(Session, "_load_suspects", load)

    return install


def test_all_is_well_in_the_end():
    account = played(SEEDS)
    assert not account.failures, "\n".join(account.failures)
    assert account.accepted > 1500 and account.connections > 250


def test_the_seeds_have_every_kind_of_session():
    assert {choose(random.Random(seed)).kind for seed in SEEDS} == set(SESSIONS)


def test_it_finds_messages_of_the_shelf_that_share_an_identifier(breaks):
    sent = "self._packet_id = packets.packet_id_of("
    breaks(sent + "outbox.shelf().seq)", sent + "session.base + 32767)")
    failures = played([50, 92]).failures
    assert "DUP of 32765 without a session" in failures[0]
    assert "a request with identifier 15, which is in use" in failures[1]


def test_it_finds_what_is_sent_again_after_pubrec(breaks):
    breaks("session.note_aside(packet_id)", "pass")
    assert "delivered twice" in played([2050]).failures[0]


def test_it_finds_what_a_power_cut_forgets_after_pubrec(monkeypatch):
    take = ExactlyOnceSession._take_note

    def forget(session, note, length):
        take(session, note, length)
        session.aside_id = 0

    monkeypatch.setattr(ExactlyOnceSession, "_take_note", forget)
    assert "delivered twice" in played([2050]).failures[0]


def test_it_finds_dup_in_a_new_exchange(monkeypatch):
    monkeypatch.setattr(Level5, "_begin_anew", lambda session, seq: None)
    assert "DUP after 27 was refused" in played([8]).failures[0]


def test_it_finds_what_goes_beyond_the_limits_of_a_server(monkeypatch):
    prepare = Level5._prepare

    monkeypatch.setattr(  # of the shelf: whatever this server takes
        Level5, "_prepare", lambda session, seq: seq < 0 or prepare(session, seq)
    )
    failures = played([12, 80]).failures
    assert "PUBLISH of 103 bytes" in failures[0] and "PUBLISH of QoS 1" in failures[1]


def test_a_failure_is_told_with_what_the_seed_chose_and_ends_in_status_1(monkeypatch, capsys):
    monkeypatch.setattr(World, "run", lambda world, steps: require(False, "lost: %d", 1))
    assert hunt_mixed.main(["--first", "7", "--seeds", "1"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"seed 7: {World(7).choices}: lost: 1\n1 seeds, 1 failed")


def test_a_handler_of_the_firmware_cannot_catch_a_violation():
    assert not issubclass(Violation, Exception)
