# cpython-only: the fuzzer's engine and model
"""The short form of `fuzz_client.py`: its seeds, property tests, some thousand inputs, and the
proof that it can fail.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzz_client
from fuzz_client import SHARES, Firmware, Fuzzer, execute, failure_of, hunt_mutants, words_of
from fuzz_mutants import MUTANTS
from fuzz_program import WORDS, minimised, program_of, text_of
from fuzz_seeds import seeds_of

FIRMWARE = Firmware()
CLIENTS = [target for target in SHARES if target not in ("reader", "segments")]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
SEEDS = [(target, name, text) for target in SHARES for name, text in seeds_of(target).items()]


def operations(target):
    """Any words, the useful numbers, and bytes that begin like packets or not."""
    packets = st.sampled_from(
        (
            b"\x20\x02\x00\x00",
            b"\x40\x02\x00\x01",
            b"\x32\x06\x00\x01a\x00\x07x",
            b"\x62\x02\x00\x07",
            b"\xd0\x00",
        )
    )
    data = st.one_of(
        packets, st.binary(max_size=40), st.tuples(packets, st.binary(max_size=6)).map(b"".join)
    )

    def one(word):
        numbers = st.sampled_from(WORDS[word])
        return st.tuples(st.just(word), numbers, data if word == "say" else st.binary(max_size=3))

    return st.sampled_from(words_of(target)).flatmap(one)


@pytest.mark.parametrize(
    ("target", "name", "text"), SEEDS, ids=[f"{target}-{name}" for target, name, _ in SEEDS]
)
def test_seed(target, name, text):
    execute(FIRMWARE, target, program_of(text))


@pytest.mark.parametrize("target", CLIENTS)
def test_any_operations_in_any_order(target):
    @settings(max_examples=60, deadline=None, suppress_health_check=SLOW, derandomize=True)
    @given(st.lists(operations(target), max_size=10))
    def check(program):
        execute(FIRMWARE, target, [("hello", 2, b""), *program])

    check()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(0, 2))
def test_any_bytes_in_any_segments_are_the_same(segments, mode):
    program = [("start", mode, b""), *(("say", 0, segment) for segment in segments)]
    execute(FIRMWARE, "segments", program)
    execute(FIRMWARE, "reader", program[1:])


def test_some_thousand_mutated_inputs_give_nothing_unnamed():
    fuzzer = Fuzzer(FIRMWARE, list(SHARES), 1)
    fuzzer.fuzz(8000, 8)
    assert fuzzer.total > 500
    assert not [failure.text for failure in fuzzer.failures.values()]


@pytest.mark.long
def test_each_mutant_is_found(capsys):
    assert hunt_mutants(40_000, 1) == []
    assert capsys.readouterr().out.count("found after") == len(MUTANTS)


def test_a_failure_is_saved_small_and_can_be_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fuzz_client, "OUT", tmp_path / "build" / "fuzz")
    monkeypatch.setattr(fuzz_client, "ROOT", tmp_path)
    _, target, module, old, new = next(
        mutant for mutant in MUTANTS if "handler raised" in mutant[0]
    )
    broken = Firmware({module: (old, new)})
    fuzzer = Fuzzer(broken, [target], 1, FIRMWARE)
    fuzzer.fuzz(5000, 30)
    assert fuzz_client.report(fuzzer, 1.0) == 1
    (path,) = (tmp_path / "build" / "fuzz").iterdir()
    program = program_of(path.read_text())
    assert (
        len(program) <= 4
        and failure_of(broken, target, program)
        and not failure_of(FIRMWARE, target, program)
    )
    assert f"--target {target} --replay build/fuzz/{path.name}" in capsys.readouterr().out


def test_status_is_1_on_failure_only(tmp_path, monkeypatch, capsys):
    path = tmp_path / "one.txt"
    path.write_text("hello=2 say.30060003612f6278\n")
    assert fuzz_client.main(["--target", "subscriber", "--replay", str(path)]) == 0
    monkeypatch.setattr(fuzz_client, "execute", lambda *_: {}[0])
    assert fuzz_client.main(["--target", "subscriber", "--replay", str(path)]) == 1
    assert "KeyError" in capsys.readouterr().out


def test_text_and_program_are_the_same():
    text = "start=65525.10 hello=2 say.30060003612f6278 poll=3 finale"
    assert text_of(program_of(text)) == text


def test_minimised_keeps_what_fails():
    program = program_of("poll=1 say.0102ff04 time=5 poll=2")
    assert minimised(program, lambda found: any(b"\xff" in data for _, _, data in found)) == [
        ("say", 0, b"\xff")
    ]


def test_a_mutant_whose_text_is_gone_is_an_error():
    with pytest.raises(ValueError, match="does not have once"):
        Firmware({"session": ("no such text", "")})
