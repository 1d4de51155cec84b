# cpython-only: the fuzzer's engine
"""The short form of `fuzz_level5.py`, and the proof that it can fail."""

import pytest

import fuzz_level5
import outpost.mqtt5.level5_session
from outpost.mqtt5 import properties


def test_some_thousand_inputs_have_a_stated_outcome_each():
    found = fuzz_level5.fuzz(4000, 1)
    packets = found.pop(fuzz_level5.PACKETS)
    assert found.total() == 4000 < packets
    assert set(found) >= {"taken, the connection stays", "protocol error", "the server left"}


def test_properties_that_nobody_checks_are_found(monkeypatch):
    monkeypatch.setattr(
        outpost.mqtt5.level5_session, "check_start", lambda buf, at, end, where: end
    )
    with pytest.raises(fuzz_level5.Failure, match="IndexError"):
        fuzz_level5.fuzz(4000, 1)


def test_a_message_released_by_a_refusal_is_found(monkeypatch):
    def release(self, seq, code):
        self._slide(seq - self.base)
        self._release(seq)

    monkeypatch.setattr(outpost.mqtt5.level5_session.Level5, "_refuse", release)
    with pytest.raises(fuzz_level5.Failure, match="nobody answered for"):
        fuzz_level5.fuzz(20_000, 1)


def test_the_table_knows_every_property_of_the_fake():
    assert all(properties.TABLE[2 * number] for number in fuzz_level5.PROPERTIES)
