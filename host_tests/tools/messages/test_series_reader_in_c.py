# cpython-only: a desktop tool
"""The reader in C (`tools/series_reader.c`) reads what the exact reader reads, and refuses what it
refuses: good messages, and mutated ones.
"""

import random
import subprocess

import pytest

import c_program
import fuzz_series
import series_writer
from outpost_tools.messages import series
from outpost_tools.messages.senml import Malformed
from paths import REPOSITORY

SOURCE = REPOSITORY / "tools" / "series_reader.c"
MUTATED = 3_000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return c_program.compiled(SOURCE, tmp_path_factory.mktemp("series"))


def read_in_c(program, payloads):
    data = b"".join(len(one).to_bytes(2, "little") + one for one in payloads)
    done = subprocess.run([program], input=data, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().splitlines()


def expected(payload):
    try:
        found = series.decode(payload)
    except Malformed:
        return ["refused"]
    flags, start_ms = payload[3], found.start_ms
    head = found.device, found.stream, found.seq, found.held, found.boot, flags, start_ms
    lines = [" ".join(map(str, (*head, found.step_ms, len(found.columns))))]
    for time_ms, values in found.samples:
        lines.append(" ".join([str(time_ms), *("-" if v is None else str(v) for v in values)]))
    return [*lines, "end"]


def test_good_messages_are_read_alike(program):
    dice = random.Random(3)
    payloads = [series_writer.payload(series_writer.climate(60), step_ms=100)]
    for count in range(1, 17):
        columns = [(f"c{i}", "u" * i if i < 16 else "", i % 19 - 9) for i in range(count)]
        rows = [
            (
                i * 500,
                [dice.choice((None, 3, dice.randrange(-(1 << 29), 1 << 29))) for _ in columns],
            )
            for i in range(9)
        ]
        rows = [(time, [0, *values[1:]]) for time, values in rows]
        payloads.append(series_writer.payload(rows, columns, uptime_ms=5 if count & 1 else None))
    wanted = [line for payload in payloads for line in expected(payload)]
    assert "refused" not in wanted
    assert read_in_c(program, payloads) == wanted


def test_mutated_messages_are_read_or_refused_alike(program):
    dice = random.Random(11)
    good = fuzz_series.seeds(dice)
    payloads = [fuzz_series.mutated(dice, good) for _ in range(MUTATED)]
    found = read_in_c(program, payloads)
    wanted = [line for payload in payloads for line in expected(payload)]
    assert found == wanted
    assert 300 < wanted.count("refused") < MUTATED - 300


def test_a_message_that_is_not_all_there_is_not_shown(program):
    """Its start may be a sound message with fewer samples."""
    whole = series_writer.payload(series_writer.climate(60), step_ms=100)
    data = len(whole).to_bytes(2, "little") + whole
    for missing in (1, len(whole) // 2, len(whole), len(whole) + 1):
        cut = data + data[:-missing]
        found = subprocess.run([program], input=cut, capture_output=True, check=False)
        assert found.stdout.decode().splitlines() == expected(whole)
        assert found.returncode == 1 and b"the input ends within a message" in found.stderr


def test_what_cannot_be_written_is_a_status(program):
    with open("/dev/full", "wb") as full:
        found = subprocess.run([program], input=b"\x01\x00x", stdout=full, check=False)
    assert found.returncode == 1


def test_it_has_at_most_200_lines():
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) <= 200
