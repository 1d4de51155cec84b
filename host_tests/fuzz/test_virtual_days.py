# cpython-only: an hour of each day in one interpreter
"""The short form of virtual_days.py: half an hour of each day for two clients, and a proof that it
can fail."""

import pytest

import virtual_days
from outpost import client
from virtual_days import CLIENTS, DAYS, Client

SOME = (Client(1, 0, 60), Client(0, virtual_days.BOUND, 0))


@pytest.mark.parametrize("name", DAYS)
def test_each_day_stays_within_its_bounds(name):
    for each in SOME:
        found = virtual_days.run(name, each, 0.5)
        assert not found.faults, each


def test_the_long_form_has_every_kind_of_client():
    assert len(CLIENTS) == 12 and set(SOME) <= set(CLIENTS)


def test_it_finds_a_client_that_backs_off_from_nothing(monkeypatch):
    monkeypatch.setattr(client, "backoff_ms", lambda attempt, bits: 250)
    found = virtual_days.run("closes after CONNACK", SOME[0], 0.2)
    assert "attempts in an hour" in found.faults[0]


def test_it_finds_a_client_that_waits_for_an_acknowledgement_indefinitely(monkeypatch):
    from outpost.session import Session

    monkeypatch.setattr(Session, "_on_late", lambda session, spared_ms: False)
    found = virtual_days.run("never PUBACKs", SOME[0], 0.2)
    assert "noticed after" in found.faults[0]
