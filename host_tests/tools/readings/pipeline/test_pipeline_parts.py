# cpython-only: Arrow and Spark's classes
"""The pipeline's parts without a Spark session: the state against a plain model, clocks,
percentiles, the command line.
"""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outpost_command
from optional_packages import needed

with needed("PySpark"):
    import numpy as np
    import pyarrow as pa

    from outpost_tools import cli
    from outpost_tools.readings.pipeline import clocks, fingerprints, schemas, summaries, transforms

# (device, seq, boot, offset in the segment, second since 1970 or None, uptime or None)
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 12),
        st.integers(1, 2),
        st.integers(0, 30),
        st.none() | st.just(1),
        st.booleans(),
    ),
    max_size=25,
)


def table(rows: list[tuple], number: int) -> pa.Table:
    """Two readings a message; the same offset is the same frame."""
    found = []
    frames = {}
    for device, seq, boot, offset, second, up in rows:
        frames.setdefault(offset, (device, seq, boot, second, up))
    for offset, (device, seq, boot, second, up) in frames.items():
        time = None if second is None else 1_763_694_000_000_000 + boot * 10**12 + seq * 1_000_000
        head = {
            "device": device,
            "stream": "s",
            "seq": seq,
            "boot": boot,
            "held": offset % (seq + 1),  # what a board still holds may differ between sendings
            "offset": offset,
            "segment": number,
        }
        head |= {
            "time": time,
            "uptime_s": float(seq) if up else None,
            "shift_s": 0.0,
            "received": number,
            "collector": "c",
        }
        found += [head | {"record": record, "name": "n", "value": 1.0} for record in (0, 1)]
    return pa.Table.from_pylist(found, schema=schemas.READING)


def model(batches: list[pa.Table]) -> tuple[dict, dict, dict]:
    """({(device, seq): origin of the copy that was kept}, {device: copies}, {device: what else was
    said under a number}) by sets."""
    kept, copies, said = {}, {}, {}
    for rows in batches:
        frames = {
            (r["device"], r["seq"], r["received"], r["collector"], r["segment"], r["offset"])
            for r in rows.to_pylist()
        }
        for frame in sorted(frames):
            copies[frame[0]] = copies.get(frame[0], 0) + 1
            kept.setdefault(frame[:2], frame[4:])
        for r in rows.to_pylist():
            contents = (r["boot"], r["time"], r["uptime_s"])
            said.setdefault(r["device"], set()).add((r["seq"], contents))
    more = {device: len(every) - len({seq for seq, _ in every}) for device, every in said.items()}
    return kept, copies, more


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, max_size=4))
def test_the_state_over_batches_is_that_of_plain_sets(parts):
    batches = [table(rows, number) for number, rows in enumerate(parts)]
    state, kept, said = schemas.STREAM.empty_table(), [], []
    for rows in batches:
        marked = transforms.mark_streams(rows, state, fingerprints.Known(said))
        fresh, state = marked.readings, marked.state
        said.append(np.sort(marked.fingerprints))
        assert (fresh.schema, state.schema) == (schemas.READING, schemas.STREAM)
        kept += fresh.to_pylist()
    expected, copies, more = model(batches)
    assert sorted((r["device"], r["seq"], r["record"]) for r in kept) == sorted(
        (*key, i) for key in expected for i in (0, 1)
    )
    assert {(r["device"], r["seq"]): (r["segment"], r["offset"]) for r in kept} == expected
    found = {row["device"]: row for row in state.to_pylist()}
    assert {device: row["copies"] for device, row in found.items()} == copies
    assert {device: row["conflicts"] for device, row in found.items()} == more
    for device, row in found.items():
        numbers = {
            n
            for a, b in zip(row["ranges"][0::2], row["ranges"][1::2], strict=True)
            for n in range(a, b + 1)
        }
        assert numbers == {seq for name, seq in expected if name == device}
        boots = [clock["boot"] for clock in row["clocks"]]
        assert len(boots) == len(set(boots))
        assert all(
            b - a > 1 for a, b in zip(row["ranges"][1::2], row["ranges"][2::2], strict=False)
        )


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=3))
def test_times_do_not_depend_on_how_messages_fall_into_batches(parts):
    """Each boot's clock is exact here, so a placed reading has the time of its number."""
    rows = [table(part, number) for number, part in enumerate(parts)]
    results = []
    for order in (rows, [pa.concat_tables(rows)]):
        state, placed = schemas.STREAM.empty_table(), schemas.READING.empty_table()
        for batch in order:
            marked = transforms.mark_streams(batch, state, fingerprints.Known())
            state = marked.state
            before = clocks.place(placed, marked.clocks)  # moves.py
            placed = pa.concat_tables([before, marked.readings])
        results.append(
            {(r["device"], r["seq"], r["record"]): r["time"] for r in placed.to_pylist()}
        )
        for row in placed.to_pylist():
            if row["placed"]:
                assert row["time"].timestamp() == 1_763_694_000 + row["boot"] * 10**6 + row["seq"]
    assert results[0] == results[1]


def test_the_lowest_message_with_both_times_gives_the_clock_also_when_it_comes_later():
    state, second = schemas.STREAM.empty_table(), 1_000_000
    for seq, offset_s in ((7, 70), (5, 50), (9, 90)):
        row = {
            "device": "a",
            "stream": "s",
            "seq": seq,
            "record": 0,
            "boot": 1,
            "held": 0,
            "uptime_s": 1.0,
            "shift_s": 0.0,
        }
        row |= {
            "received": 0,
            "collector": "c",
            "segment": 0,
            "offset": seq,
            "time": (1_763_694_001 + offset_s) * second,
        }
        rows = pa.Table.from_pylist([row], schema=schemas.READING)
        state = transforms.mark_streams(rows, state, fingerprints.Known()).state
    assert state["clocks"].to_pylist() == [
        [{"boot": 1, "seq": 5, "offset_us": (1_763_694_000 + 50) * second}]
    ]


COUNTS = st.dictionaries(st.integers(-1000, 1000), st.integers(1, 50), min_size=1)


@settings(deadline=None)
@given(st.lists(COUNTS, min_size=1, max_size=4), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_of_counts_are_those_of_the_values(devices, part):
    values = [np.array(sorted(counts)) for counts in devices]
    weights = [
        np.array([counts[value] for value in sorted(counts)], np.int64) for counts in devices
    ]
    begins = np.cumsum([0, *map(len, values[:-1])])
    found = summaries.percentiles(np.concatenate(values), np.concatenate(weights), begins, part)
    plain = [np.quantile(np.repeat(*one), part) for one in zip(values, weights, strict=True)]
    assert found.tolist() == pytest.approx(plain)


def outpost(*arguments: object) -> subprocess.CompletedProcess:
    return outpost_command.run("pipeline", *arguments)


@pytest.mark.parametrize("command", [["replay", "--reason", "x"], ["compact"]])
def test_commands_on_no_tables_say_what_to_do(tmp_path, command):
    answer = outpost(*command, "--tables", tmp_path)
    assert answer.returncode == 2
    assert "run `outpost pipeline run` first" in answer.stderr and answer.stderr.count("\n") == 1


def test_status_and_prune_of_no_log_name_it(tmp_path):
    for command in (["status", "--tables", tmp_path], ["prune"]):
        answer = outpost(*command, "--log", tmp_path / "nothing")
        assert answer.returncode == 2 and "no such directory" in answer.stderr


@pytest.mark.parametrize(
    "words",
    [["compact", "--keep", value] for value in ("-1", "9" * 30, "x")]
    + [["run", "--log", ".", "--window", value] for value in ("nan", "inf", "0.0004", "-1")]
    + [["run", "--log", ".", "--interval", value] for value in ("nan", "inf", "0")],
)
def test_a_number_that_cannot_be_is_named_at_once(tmp_path, words, capsys):
    try:
        status = cli.main(["pipeline", *words, "--tables", str(tmp_path)])
    except SystemExit as ended:  # argparse
        status = ended.code
    said = capsys.readouterr().err
    assert status == 2 and words[-2] in said and "Traceback" not in said


def test_help_teaches_with_examples():
    assert "outpost pipeline compact --tables tables" in outpost("--help").stdout
