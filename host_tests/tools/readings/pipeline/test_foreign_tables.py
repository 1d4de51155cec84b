# cpython-only: Arrow and Delta Lake
"""Other people's messages in the tables. What they must hold is computed from the log, plainly:
of each identity the message received first, one message at a time."""

import json
import random
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ground_truth import START_MS
from optional_packages import needed

with needed("the pipeline's packages"):
    import pyarrow as pa
    import pyarrow.parquet as pq

    import driver_steps
    from driver_steps import Driver
    from outpost_tools import cli
    from outpost_tools.errors import ToolError
    from outpost_tools.log import segments
    from outpost_tools.readings.pipeline import decode as decoding
    from outpost_tools.readings.pipeline import (
        delta,
        exact,
        fingerprints,
        job,
        plan,
        quarantine,
        schemas,
        tables,
    )
    from outpost_tools.readings.pipeline import reread as rereading
    from outpost_tools.readings.pipeline.logs import Log
    from outpost_tools.readings.sources import decode, file, guarantee, ready_files
    from outpost_tools.readings.sources.result import Message, State
    from outpost_tools.store.at import at
    from pipeline_features import DAY_MS, message, put
    from plain_windows import recomputed_windows, windows_of
    from serial_engine import Serial
    from test_plan import contents, without_gold

RETAIN = segments.FLAG_RETAIN
MAPPING = """
[[source]]
name = "meter"
topic = "plant/{device}/meter"
values = ["power", "total"]
units = { power = "W" }
time = "at"

[[source]]
name = "gauge"
topic = "plant/{device}/gauge/{metric}"
payload = "number"

[[source]]
name = "radio"
topic = "plant/{device}/radio"
values = ["*"]
id = "id"

[[state]]
name = "link"
topic = "plant/{device}/link"
online = "up"
offline = "down"
"""


class Frames:
    """Writes a log of other people's messages, and says what the tables must hold of it."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.sent: list[tuple[tuple, bytes, bytes, int]] = []  # place, topic, payload, flags

    def put(self, *frames, collector="collector-1") -> None:
        """frames: (topic, payload, arrival in ms after START_MS[, flags]); a sealed segment."""
        writer = segments.SegmentWriter(self.log / collector)
        for topic, payload, after_ms, *flags in frames:
            payload = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            given = (START_MS + after_ms, topic.encode(), payload)
            writer.append(segments.encode_frame(*given, retain=any(flags)))
        name = writer.seal().name
        number = int(str(name).partition("-")[2].partition(".")[0])
        found = segments.Contents((self.log / collector / str(name)).read_bytes())
        for frame in found.frames():
            place = (frame.received_ms, collector, number, frame.offset)
            flags = RETAIN if frame.retained else 0
            self.sent.append((place, frame.topic, frame.payload, flags))

    def expected(self, text: str = MAPPING) -> Counter:
        """(device, stream, name, unit, value, time, guarantee, place) of each reading."""
        mapping, first, rows = file.parse(text, "test"), set(), Counter()
        for place, topic, payload, flags in sorted(self.sent):
            found = decode.decode(mapping, topic, payload, place[0], bool(flags & RETAIN))
            if not isinstance(found, Message | State) or found.is_last_known:
                continue
            if isinstance(found, State):
                time = datetime.fromtimestamp(place[0] / 1000, UTC)
                said = ("online", "/", float(found.is_online), time, guarantee.NONE)
                rows[(found.device, found.source, *said, *place[1:])] += 1
                continue
            identity = guarantee.identity(found, topic, payload) or place
            if (found.device, found.source, identity) in first:
                continue
            first.add((found.device, found.source, identity))
            for one in found.readings:
                time = datetime.fromtimestamp(one.time_us / 1_000_000, UTC)
                said = (one.name, one.unit, one.value, time, found.guarantee)
                rows[(found.device, found.source, *said, *place[1:])] += 1
        return rows


COLUMNS = ["device", "stream", "name", "unit", "value", "time", "guarantee"]
PLACE = ["collector", "segment", "offset"]


def readings(place: Path) -> Counter:
    rows = tables.read_table(place, "readings", [*COLUMNS, *PLACE]).to_pylist()
    foreign = [row for row in rows if row["guarantee"] != guarantee.OUTPOST]
    return Counter(tuple(row.values()) for row in foreign)


def run(log: Path, place: Path, text: str | None = MAPPING, **named) -> int:
    return job.run(Serial(), log, place, sources=text, **named)


def at_s(after_ms: int) -> float:
    return (START_MS + after_ms) / 1000


def meter(number: int, after_ms: int | None = None, power: float = 1.5) -> dict:
    """It says its own time, a second before it arrives at the earliest."""
    at = at_s(1000 * number if after_ms is None else after_ms) - 1
    return {"at": at, "power": power + number, "total": 10 * number}


@pytest.fixture
def frames(tmp_path) -> Frames:
    return Frames(tmp_path / "log")


def test_each_kind_of_message_becomes_rows_with_its_guarantee(frames, tmp_path):
    frames.put(
        ("plant/oven/meter", meter(1), 1000),
        ("plant/oven/gauge/pressure", b"3.25", 1500),
        ("plant/hall/radio", {"id": "a1", "temperature": 21.5}, 2000),
        ("plant/oven/link", b"up", 2500),
        ("plant/oven/link", b"down", 3500),
    )
    assert run(frames.log, tmp_path / "tables") == 1
    found = readings(tmp_path / "tables")
    assert found == frames.expected()
    promised = {row[1]: row[6] for row in found}
    assert promised == {
        "meter": guarantee.TIME, "gauge": guarantee.NONE, "radio": guarantee.IDENTIFIER,
        "link": guarantee.NONE,
    }  # fmt: skip
    states = sorted((row[5], row[4]) for row in found if row[1] == "link")
    assert [value for _, value in states] == [1.0, 0.0]


def test_a_boards_readings_have_its_guarantee_and_stay_a_boards(frames, tmp_path):
    """Also under a topic that the mapping has."""
    text = MAPPING + '[[source]]\nname = "all"\ntopic = "outpost/{device}/data"\nvalues = ["*"]\n'
    put(frames.log, message(0, 1, bt=at_s(0)), message(1, 1, bt=at_s(500)))
    run(frames.log, tmp_path / "tables", text)
    rows = tables.read_table(tmp_path / "tables", "readings", ["stream", "seq", "guarantee"])
    assert {row["guarantee"] for row in rows.to_pylist()} == {guarantee.OUTPOST}
    assert sorted(rows["seq"].to_pylist()) == [0, 1]
    assert not quarantine.reasons(tmp_path / "tables")


def test_copies_count_once_over_rounds_and_collectors(frames, tmp_path):
    """The meter's copies have its time, the radio's an identifier; a gauge has neither. Of the
    copies, the one received first counts, also if a later round brings it."""
    a, b = ("plant/oven/meter", meter(1)), ("plant/hall/radio", {"id": "a1", "x": 1})
    c = ("plant/oven/gauge/pressure", b"3.25")
    frames.put((*a, 5000), (*a, 5000), (*b, 5000), (*c, 5000), (*c, 6000), (*b, 7000))
    run(frames.log, tmp_path / "tables")
    frames.put((*a, 8000), (*b, 8000), (*c, 8000))
    frames.put((*a, 3000), (*b, 2000), collector="collector-2")
    assert run(frames.log, tmp_path / "tables") == 1
    found = readings(tmp_path / "tables")
    assert found == frames.expected()
    assert Counter(row[1] for row in found) == {"meter": 2, "radio": 1, "gauge": 3}
    assert {row[-3] for row in found if row[1] != "gauge"} == {"collector-2"}
    (oven,) = (row for row in devices(tmp_path / "tables") if row["device"] == "oven")
    assert (oven["received"], oven["messages"], oven["redelivered"]) == (7, 4, 3)
    assert windows_of(tmp_path / "tables") == recomputed_windows(tmp_path / "tables")


def devices(place: Path) -> list[dict]:
    return tables.read_table(place, "devices").to_pylist()


def test_other_contents_under_one_identifier_are_a_copy(frames, tmp_path):
    first, second = ({"id": "a1", "x": value} for value in (1, 2))
    frames.put(("plant/hall/radio", first, 1000), ("plant/hall/radio", second, 2000))
    run(frames.log, tmp_path / "tables")
    assert [row[4] for row in readings(tmp_path / "tables")] == [1.0]
    assert not quarantine.reasons(tmp_path / "tables")


def test_a_retained_message_is_no_reading(frames, tmp_path):
    """It is the last known value, which the broker tells every new subscriber."""
    frames.put(("plant/oven/meter", meter(1), 1000, RETAIN), ("plant/oven/link", b"up", 1, RETAIN),
               ("plant/oven/meter", meter(2), 2000))  # fmt: skip
    run(frames.log, tmp_path / "tables")
    assert readings(tmp_path / "tables") == frames.expected()
    assert sum(readings(tmp_path / "tables").values()) == 2
    assert not quarantine.reasons(tmp_path / "tables")


def test_there_are_no_gaps_and_no_latency_where_nothing_tells_them(frames, tmp_path):
    frames.put(*(("plant/oven/gauge/pressure", b"%d" % n, 1000 * n) for n in range(30)))
    frames.put(*(("plant/hall/meter", meter(n), 1000 * n) for n in range(30)))
    run(frames.log, tmp_path / "tables")
    for name in ("gaps", "latency"):
        rows = tables.read_table(tmp_path / "tables", name).to_pylist()
        assert [row["device"] for row in rows] == (["hall"] if name == "latency" else [])
    assert rows[0]["p50_ms"] == 1000.0  # the meter's clock is a second behind the arrival
    assert {row["missing_closed"] for row in devices(tmp_path / "tables")} == {0}
    assert {row["boots"] for row in devices(tmp_path / "tables")} == {0}
    assert not tables.read_table(tmp_path / "tables", "boots").num_rows


def test_a_receipt_counts_messages_that_have_no_numbers(frames, tmp_path, capsys):
    frames.put(*(("plant/oven/gauge/pressure", b"%d" % n, 1000 * n) for n in range(30)))
    run(frames.log, tmp_path / "tables")
    line = ["pipeline", "receipt", "--tables", str(tmp_path / "tables"), "--device", "oven"]
    assert cli.main(line) == 0
    said = "oven, source 'gauge': 30 messages, without numbers, are in `readings` version 1, "
    assert capsys.readouterr().out.startswith(said)


# --- The two readers ---


def odd_frames() -> list[bytes]:
    """Of each kind, also with an unset clock, retained, cut, and of a board."""
    said = [
        ("plant/oven/meter", json.dumps(meter(1)).encode()),
        ("plant/oven/meter", b'{"at": 5, "power": 1}'),
        ("plant/oven/meter", b'{"power": "none"}'),
        ("plant/oven/gauge/pressure", b"3.25"),
        ("plant/oven/gauge/pressure", b"nan"),
        ("plant/hall/radio", b'{"id": "a1", "x": 1, "y": 2.5}'),
        ("plant/hall/radio", b'{"x": true}'),
        ("plant/oven/link", b"up"),
        ("plant/oven/link", b"sideways"),
        ("plant/oven/meter", b"[" * 70_000),
        ("outpost/board-5/data", message(3, 1, bt=at_s(3))),
        ("elsewhere", b"1"),
    ]
    made = []
    for topic, payload in said:
        for flags in ({}, {"retain": True}, {"clock_unset": True}, {"dup": True}):
            made.append(segments.encode_frame(START_MS, topic.encode(), payload, **flags))
    return made


def test_the_two_readers_return_the_same_rows():
    mapping, data = file.parse(MAPPING, "test"), segments.sealed_bytes(odd_frames())
    fast = pa.Table.from_batches(
        decoding.segment_batches(data, "collector-1", 7, mapping=mapping), schemas.FRAME
    )
    exactly = pa.Table.from_batches(
        exact.arrow_batches(exact.segment_rows(data, "collector-1", 7, mapping=mapping)),
        schemas.FRAME,
    )
    order = [(name, "ascending") for name in ("offset", "record", "reason")]
    assert fast.sort_by(order).to_pylist() == exactly.sort_by(order).to_pylist()
    assert set(fast["guarantee"].to_pylist()) == {
        None, guarantee.TIME, guarantee.IDENTIFIER, guarantee.NONE
    }  # fmt: skip
    assert fast["reason"].null_count and fast["reason"].null_count < fast.num_rows


# --- However it is divided ---


def many(frames: Frames, seed: int) -> None:
    """Ten devices in two logs, with copies near and far and refused messages."""
    pick = random.Random(seed)
    for part in range(6):
        made = []
        for _ in range(40):
            number, device = pick.randrange(60), f"d{pick.randrange(5)}"
            after_ms = part * DAY_MS // 4 + pick.randrange(100_000)
            made += [
                (f"plant/{device}/meter", meter(number, number * 1000), after_ms),
                (f"plant/{device}/gauge/level", b"%d" % number, after_ms),
                (f"plant/{device}/radio", {"id": f"i{number}", "v": number}, after_ms),
                (f"plant/{device}/meter", b"{", after_ms),
            ][: pick.randrange(1, 5)]
        frames.put(*made, collector=f"collector-{part % 2}")


@pytest.mark.parametrize("seed", range(4))
def test_the_tables_do_not_depend_on_how_the_log_is_divided(frames, tmp_path, seed):
    many(frames, seed)
    put(frames.log, *(message(n, 1, bt=at_s(n)) for n in range(9)), collector="collector-0")
    run(frames.log, tmp_path / "one")
    assert readings(tmp_path / "one") == frames.expected()
    rounds = run(frames.log, tmp_path / "many", batch_bytes=1)
    assert rounds == 7
    one, other = (contents(tmp_path / name) for name in ("one", "many"))
    for name in set(tables.ALL) - {"totals"}:
        assert one[name] == other[name], name
    assert windows_of(tmp_path / "one") == recomputed_windows(tmp_path / "one")


def test_fingerprints_can_be_made_again(frames, tmp_path):
    many(frames, 9)
    run(frames.log, tmp_path / "tables")
    opened = delta.Opened(tmp_path / "tables")
    before = {name: Counter() for name in "ab"}
    for one in delta.files_of(opened["fingerprints"]):
        before["a"].update(prints_in(tmp_path / "tables", one))
    for one in fingerprints.of_tables(opened):
        before["b"].update(prints_in(tmp_path / "tables", one))
    assert before["a"] == before["b"] and before["a"].total() > 100


def prints_in(place: Path, one: dict) -> list:
    rows = tables.read_files(at(place / "fingerprints"), [delta.name_of(one)], schemas.FINGERPRINT)
    return [(one["partition"], value) for value in rows["fingerprint"].to_pylist()]


# --- The export ---


@pytest.mark.parametrize("seed", range(3))
def test_the_export_has_the_rows_of_the_table(frames, tmp_path, seed):
    many(frames, seed)
    put(frames.log, *(message(n, 1, bt=at_s(n)) for n in range(9)), collector="collector-0")
    run(frames.log, tmp_path / "tables")
    (tmp_path / "sources.toml").write_text(MAPPING)
    said = ["export", "--log", frames.log, "--sources", tmp_path / "sources.toml"]
    out = tmp_path / "readings.parquet"
    assert cli.main([*map(str, said), "--columns", "all", "--out", str(out)]) == 0
    found = pq.read_table(out)
    silver = tables.read_table(tmp_path / "tables", "readings", found.column_names)
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, silver.to_pylist()))
    days = tmp_path / "days"
    days.mkdir()
    assert cli.main([*map(str, said), "--days", str(days)]) == 0
    lines = sum(one.read_text().count("\n") - 1 for one in days.glob("*.csv"))
    assert lines == found.num_rows


# --- A mapping that was wrong ---

WRONG = MAPPING.replace('values = ["power", "total"]', 'values = ["watts"]')


def test_what_a_wrong_mapping_refused_is_replayed_once(frames, tmp_path):
    many(frames, 3)
    run(frames.log, tmp_path / "tables", WRONG)
    refused = quarantine.reasons(tmp_path / "tables")
    assert refused["meter: none of the values is in it"] > 50
    assert run(frames.log, tmp_path / "tables", MAPPING) == 0
    frames.put(("plant/oven/meter", meter(1), 1000))
    assert run(frames.log, tmp_path / "tables", MAPPING) == 1  # the tables know the mended one
    taken, _ = quarantine.replay(tmp_path / "tables", "meter: none of the values")
    assert taken == refused["meter: none of the values is in it"]
    run(frames.log, tmp_path / "tables", None)
    left = quarantine.reasons(tmp_path / "tables")
    assert set(left) == {"meter: not JSON"}
    found, expected = (
        Counter(row[:7] for row in rows.elements())
        for rows in (readings(tmp_path / "tables"), frames.expected())
    )
    assert found == expected


def test_a_mended_mapping_frees_what_it_can_read_before_any_round_by_it(frames, tmp_path):
    """Nothing new has come. A run by the old mapping puts it back."""
    many(frames, 3)
    run(frames.log, tmp_path / "tables", WRONG)
    refused = quarantine.reasons(tmp_path / "tables")
    none = "meter: none of the values is in it"
    for mapping in (WRONG, MAPPING):
        assert quarantine.replay(tmp_path / "tables", none) == (0, refused[none])
        found = quarantine.replay(tmp_path / "tables", none, sources=MAPPING)
        assert found == (refused[none], 0)
        assert run(frames.log, tmp_path / "tables", mapping) == 1
        left = quarantine.reasons(tmp_path / "tables")
        assert left[none] == (refused[none] if mapping == WRONG else 0)
    found, expected = map(without_places, (readings(tmp_path / "tables"), frames.expected()))
    assert found == expected


def replay(place: Path, *words: object) -> int:
    return cli.main(["pipeline", "replay", "--tables", str(place), *map(str, words)])


def test_the_command_says_what_follows_and_what_is_in_quarantine(frames, tmp_path, capsys):
    many(frames, 3)
    run(frames.log, place := tmp_path / "tables", WRONG)
    (mended := tmp_path / "mended.toml").write_text(MAPPING)
    refused = quarantine.reasons(place)["meter: none of the values is in it"]
    assert replay(place, "--reason", "metre:", "--sources", mended) == 0
    said = capsys.readouterr().out
    assert "no reason in quarantine begins with 'metre:'; there are: 'meter: none of" in said
    assert replay(place, "--reason", "meter: none", "--sources", mended) == 0
    assert f"{refused} frames leave quarantine with the next `outpost pipeline run --sources " in (
        capsys.readouterr().out
    )
    run(frames.log, place, MAPPING)
    assert set(quarantine.reasons(place)) == {"meter: not JSON"}
    for words, missing in (((), "give --reason"), (("--sources", mended), "give --log")):
        assert replay(place, *words) == 2
        assert missing in capsys.readouterr().err
    mended.write_text("[[source]]")
    assert replay(place, "--reason", "", "--sources", mended) == 2
    assert "mended.toml, line 1" in capsys.readouterr().err


@pytest.fixture
def in_steps():
    with driver_steps.in_steps(), without_gold():
        yield


def test_a_round_keeps_its_mapping_whoever_finishes_it(frames, tmp_path, in_steps):
    """The first driver dies after each of its commits; the second was given another mapping."""
    many(frames, 5)
    for mappings in ((WRONG, MAPPING), (MAPPING, WRONG)):
        run(frames.log, plain := tmp_path / f"plain-{len(mappings[0])}", mappings[0])
        for deaths in range(1, len(tables.SILVER_TABLES)):
            place = tmp_path / f"tables-{len(mappings[0])}-{deaths}"
            driver = Driver(lambda place=place, text=mappings[0]: run(frames.log, place, text))
            for _ in range(deaths + 1):
                assert driver.step()
            driver.step(dies=True)
            run(frames.log, place, mappings[1])
            found, expected = (contents(one, tables.SILVER_TABLES) for one in (place, plain))
            assert found == expected, deaths


def test_two_drivers_with_different_mappings_lose_nothing(frames, tmp_path, in_steps):
    """Every message is in silver or in quarantine, by one of the two."""
    many(frames, 6)
    for first in (1, 2, 4):
        place = tmp_path / f"tables-{first}"
        drivers = [
            Driver(lambda text=text, place=place: run(frames.log, place, text, batch_bytes=1))
            for text in (WRONG, MAPPING)
        ]
        while not all(one.is_over for one in drivers):
            for _ in range(first):
                drivers[0].step()
            drivers[1].step()
        placed = {
            tuple(row.values())
            for name in ("readings", "quarantine")
            for row in tables.read_table(place, name, PLACE).to_pylist()
        }
        mapping, seen, due = file.parse(MAPPING, "test"), set(), set()
        for where, topic, payload, _ in sorted(frames.sent):
            found = decode.decode(mapping, topic, payload, where[0])
            identity = where
            if isinstance(found, Message):
                identity = guarantee.identity(found, topic, payload) or where
                identity = (found.device, found.source, identity)
            if identity not in seen:
                due.add(where[1:])
            seen.add(identity)
        assert due - placed == set()
        marks = {plan.mark(delta.open_table(place / name)) for name in tables.SILVER_TABLES}
        assert len(marks) == 1


SCALED = MAPPING.replace('units = { power = "W" }', 'units = { power = "kW" }').replace(
    'topic = "plant/{device}/radio"', 'topic = "plant/{device}/radio"\ndevice = "radio-{device}"'
)


def reread(frames: Frames, place: Path, text: str) -> int:
    return rereading.reread(Log.at(frames.log), at(place), text)


def without_places(rows: Counter) -> Counter:
    return Counter(row[:7] for row in rows.elements())


def assert_read_by(text: str, frames: Frames, place: Path) -> None:
    assert without_places(readings(place)) == without_places(frames.expected(text))
    names = {row[0] for row in readings(place)} | {"board-5"}
    assert {row["device"] for row in devices(place)} == names
    assert windows_of(place) == recomputed_windows(place)
    opened = delta.Opened(place)
    prints = [len(prints_in(place, one)) for one in delta.files_of(opened["fingerprints"])]
    again = [len(prints_in(place, one)) for one in fingerprints.of_tables(opened)]
    assert sum(prints) == sum(again)


def test_wrong_values_are_read_again_by_a_mended_mapping(frames, tmp_path):
    """A unit and the names of devices change; a board's readings stay."""
    many(frames, 4)
    put(frames.log, *(message(n, 1, bt=at_s(n)) for n in range(9)), collector="collector-0")
    frames.put(("plant/d1/link", b"up", 99, RETAIN))
    run(frames.log, place := tmp_path / "tables")
    boards = [row for row in tables.read_table(place, "readings").to_pylist() if row["boot"]]
    assert reread(frames, place, SCALED) == len(frames.sent)
    assert not readings(place)
    frames.put(("plant/oven/meter", meter(1), 1000))
    assert run(frames.log, place, None) == 1
    assert_read_by(SCALED, frames, place)
    after = [row for row in tables.read_table(place, "readings").to_pylist() if row["boot"]]
    assert Counter(map(str, boards)) == Counter(map(str, after))
    assert len(boards) == 9
    assert set(quarantine.reasons(place)) == {"meter: not JSON"}


def test_a_rereading_that_dies_at_any_commit_is_repeated(frames, tmp_path, in_steps):
    """No run goes on in between: it says what to do."""
    many(frames, 4)
    put(frames.log, message(1, 1, bt=at_s(1)), collector="collector-0")
    run(frames.log, plain := tmp_path / "tables")
    for deaths in range(20):
        place = shutil.copytree(plain, tmp_path / f"tables-{deaths}")
        driver = Driver(lambda place=place: reread(frames, place, SCALED))
        alive = [driver.step() for _ in range(deaths + 1)][-1]
        driver.step(dies=True)
        if not alive:
            break
        if deaths:
            with pytest.raises(ToolError, match="was interrupted: repeat it first"):
                run(frames.log, place, None)
        reread(frames, place, SCALED)
        run(frames.log, place, None)
        assert without_places(readings(place)) == without_places(frames.expected(SCALED))
    assert deaths >= 3


def test_a_round_that_began_before_a_rereading_starts_again(frames, tmp_path, in_steps):
    many(frames, 4)
    run(frames.log, plain := tmp_path / "tables")
    frames.put(*((f"plant/d{n}/meter", meter(70 + n), 1000 * n) for n in range(5)))
    for steps in range(1, 5):
        place = shutil.copytree(plain, tmp_path / f"tables-{steps}")
        driver = Driver(lambda place=place: run(frames.log, place, None))
        for _ in range(steps):
            driver.step()
        if steps == 1:  # before its first commit
            reread(frames, place, SCALED)
            driver.finish()
        else:
            with pytest.raises(ToolError, match="a round was interrupted, or is being committed"):
                reread(frames, place, SCALED)
            driver.finish()
            reread(frames, place, SCALED)
        run(frames.log, place, None)
        assert without_places(readings(place)) == without_places(frames.expected(SCALED))


def test_what_the_log_no_longer_has_is_not_read_again(frames, tmp_path):
    many(frames, 4)
    run(frames.log, place := tmp_path / "tables")
    before = readings(place)
    min((frames.log / "collector-0").glob("*.seg")).unlink()
    with pytest.raises(ToolError, match="segments that the tables have read are deleted"):
        reread(frames, place, SCALED)
    assert readings(place) == before
    assert run(frames.log, place, SCALED) == 0


def test_without_the_option_a_run_reads_as_the_last_one_did(frames, tmp_path):
    frames.put(("plant/oven/meter", meter(1), 1000))
    run(frames.log, tmp_path / "tables")
    frames.put(("plant/oven/meter", meter(2), 2000))
    run(frames.log, tmp_path / "tables", None)
    assert readings(tmp_path / "tables") == frames.expected()
    shutil.rmtree(tmp_path / "tables" / "sources")
    frames.put(("plant/oven/meter", meter(3), 3000))
    with pytest.raises(Exception, match="is missing: the mapping that the tables were made with"):
        run(frames.log, tmp_path / "tables", None)


# --- Floods ---


def test_a_flood_of_names_costs_its_sender_only(frames, tmp_path):
    text = MAPPING + "[limits]\ndevices = 32\nmetrics = 5\n"
    honest = [("plant/oven/gauge/pressure", b"1", n) for n in range(5)]
    frames.put(*honest)
    run(frames.log, tmp_path / "tables", text)
    flood = [(f"plant/d{n}/gauge/level", b"1", 1000 + n) for n in range(400)]
    flood += [(f"plant/oven/gauge/m{n}", b"1", 2000 + n) for n in range(50)]
    frames.put(*flood, *honest)
    run(frames.log, tmp_path / "tables", text)
    rows = readings(tmp_path / "tables")
    assert len({row[0] for row in rows}) <= 16 * (2 + 6)
    assert len({row[2] for row in rows if row[0] == "oven"}) == 5
    assert sum(row[2] == "pressure" for row in rows.elements()) == 10
    refused = quarantine.reasons(tmp_path / "tables")
    assert sum(refused.values()) + sum(rows.values()) == len(frames.sent)
    taken, _ = quarantine.replay(tmp_path / "tables", "")
    frames.put(*honest)
    run(frames.log, tmp_path / "tables", text.replace("= 32", "= 4000").replace("= 5", "= 500"))
    assert taken == sum(refused.values())
    assert not quarantine.reasons(tmp_path / "tables")
    assert sum(readings(tmp_path / "tables").values()) == len(frames.sent)


# --- The ready files ---


@pytest.mark.parametrize("name", ready_files.names())
def test_the_examples_of_each_ready_file_reach_the_tables(name, frames, tmp_path):
    """Every value, unit and time that the file itself says."""
    mapping, said, expected = ready_files.ready(name), [], Counter()
    for reader in mapping.readers:
        for one in reader.examples:
            received = datetime.fromisoformat(one.received)
            after_ms = round(received.timestamp() * 1000) - START_MS
            said.append((one.topic, one.payload.encode(), after_ms, RETAIN * one.retained))
            if one.readings is not None and not one.retained:
                expected += Counter(_told(one))
            if one.online is not None and not one.retained:
                expected[one.device, "online", "/", float(one.online)] += 1
    frames.put(*said)
    run(frames.log, tmp_path / "tables", ready_files.text(name))
    rows = readings(tmp_path / "tables")
    assert Counter(row[:1] + row[2:5] for row in rows.elements()) == expected
    assert rows == frames.expected(ready_files.text(name))


def _told(one) -> list[tuple]:
    rows = []
    for name, given in one.readings.items():
        several = given if isinstance(given, list) and isinstance(given[0], list) else [given]
        for said in several:
            value, unit, *_ = [*said, None] if isinstance(said, list) else [said, None]
            rows.append((one.device, name, unit, float(value)))
    return rows
