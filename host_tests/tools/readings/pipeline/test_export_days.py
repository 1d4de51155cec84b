# cpython-only: Arrow
"""`outpost export --days`: a file of each day, whatever a board sends late, and whatever was
deleted from the log since.
"""

import csv
import datetime
import random

import pytest

from optional_packages import needed
from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.servers.home import plan
from outpost_tools.servers.home.state import State

with needed("the pipeline's packages"):
    from outpost_tools.readings.export import days, log_files
    from test_export import T0, exported, pack, put

DAY_S = 86_400
FIRST = datetime.datetime.fromtimestamp(T0, datetime.UTC).date()
AFTER = FIRST + datetime.timedelta(days=40)


@pytest.fixture
def place(tmp_path):
    """(log, folder of the files)."""
    folder = tmp_path / "export"
    folder.mkdir()
    return tmp_path / "log", folder


def taken(seq: int, day: int, **more) -> bytes:
    return pack(seq, bt=T0 // DAY_S * DAY_S + day * DAY_S + seq, **more)


def write(place, today=AFTER) -> int:
    return days.export(log_files.find(place[0]), place[1], today, lambda size: None)[1]


def read(place) -> dict[str, list[dict]]:
    found = {}
    for path in place[1].glob("*.csv"):
        with path.open(newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found


def numbers(place) -> dict[str, list[int]]:
    return {name: [int(row["seq"]) for row in rows] for name, rows in read(place).items()}


def day(number: int) -> str:
    return str(FIRST + datetime.timedelta(days=number))


def test_a_name_that_a_spreadsheet_would_run_stays_the_same_when_its_day_is_written_again(place):
    put(place[0], taken(1, 0, name="=1+1"), taken(2, 0, name="'-x"))
    write(place)
    put(place[0], taken(3, 0, name="a"))
    write(place)
    assert [row["name"] for row in read(place)[day(0)]] == ["'=1+1", "''-x", "a"]
    table = days._read(place[1] / f"{day(0)}.csv")
    assert table["name"].to_pylist() == ["=1+1", "'-x", "a"]


def test_what_a_board_sends_a_week_late_is_in_the_file_of_its_day(place):
    put(place[0], taken(1, 0), taken(9, 6))
    assert write(place) == 2
    put(place[0], *(taken(seq, 0) for seq in (2, 3)), taken(8, 5))
    before = (place[1] / f"{day(6)}.csv").stat().st_mtime_ns
    assert write(place) == 2 and write(place) == 0
    assert numbers(place) == {day(0): [1, 2, 3], day(5): [8], day(6): [9]}
    assert (place[1] / f"{day(6)}.csv").stat().st_mtime_ns == before


def test_today_has_its_file_tomorrow(place):
    put(place[0], taken(1, 0), taken(2, 1))
    assert write(place, FIRST + datetime.timedelta(days=1)) == 1
    assert write(place, FIRST + datetime.timedelta(days=2)) == 1
    assert numbers(place) == {day(0): [1], day(1): [2]}


def test_readings_without_a_time_have_a_file_and_leave_it_for_their_day(place):
    put(place[0], pack(1, up=1.0))
    write(place)
    assert numbers(place) == {days.WITHOUT_TIME: [1]}
    put(place[0], taken(2, 0, up=2.0))
    assert write(place) == 2
    assert numbers(place) == {day(0): [1, 2], days.WITHOUT_TIME: []}


def test_rows_of_deleted_segments_stay(place):
    text = 'a "b",\nc'
    gone = put(place[0], taken(1, 0, name=text, unit="", value=0.1), taken(5, 1))
    put(place[0], taken(2, 0, unit="V", value=1e30))
    write(place)
    before = read(place)
    gone.unlink()
    assert write(place) == 2 and write(place) == 0
    assert read(place) == before
    put(place[0], taken(3, 0), taken(1, 0, name=text, unit="", value=0.1))
    assert write(place) == 1
    assert numbers(place) == {day(0): [1, 2, 3], day(1): [5]}
    (place[0] / "collector-1").rename(place[0].with_name("elsewhere"))  # a new disk
    put(place[0], taken(7, 0))
    write(place)
    assert numbers(place) == {day(0): [1, 2, 3, 7], day(1): [5]}


def test_a_file_that_was_deleted_or_changed_is_written_again(place):
    put(place[0], taken(1, 0), taken(2, 1), taken(3, 2))
    write(place)
    (place[1] / f"{day(0)}.csv").unlink()
    (place[1] / f"{day(1)}.csv").write_text("device;value\nkitchen;1,5\n")
    put(place[0], taken(4, 1))
    assert write(place) == 2
    assert numbers(place) == {day(0): [1], day(1): [2, 4], day(2): [3]}
    (aside,) = place[1].glob("*.old")
    assert "1,5" in aside.read_text()
    (place[1] / ".days.json").write_text("[")  # after a bad disk
    assert write(place) == 3 and write(place) == 0


def test_many_days_are_written_some_at_a_time(place, monkeypatch):
    monkeypatch.setattr(days, "_ROWS_HELD", 3)
    put(place[0], *(taken(seq, seq // 2) for seq in range(14)))
    assert write(place) == 7
    assert numbers(place) == {day(n): [2 * n, 2 * n + 1] for n in range(7)}


@pytest.mark.parametrize("seed", range(5))
def test_the_files_have_the_readings_of_the_export_however_they_arrive(seed, place):
    chance = random.Random(seed)
    sent = []
    for seq in range(60):
        boot = 1 + seq // 20
        known = chance.random() < 0.7 and boot != 2
        bt = {"bt": T0 + seq * DAY_S / 9} if known else {}
        sent.append(pack(seq, boot=boot, up=float(seq * DAY_S // 9), **bt))
    chance.shuffle(sent)
    while sent:
        some, sent = sent[:7], sent[7:]
        put(place[0], *some, *chance.sample(some, 2), collector=chance.choice("ab"))
        write(place)
    _, rows = exported(place[0])
    expected = {}
    for row in rows:
        name = str(row["time"].date()) if row["time"] else days.WITHOUT_TIME
        expected.setdefault(name, set()).add(row["seq"])
    assert {name: set(found) for name, found in numbers(place).items() if found} == expected


def test_the_command_writes_the_files_and_names_what_does_not_fit(place, capfd):
    put(place[0], taken(1, 0))
    words = ["export", "--log", str(place[0]), "--days"]
    assert cli.main([*words, str(place[1])]) == 0
    said = capfd.readouterr().err
    assert "1 files written" in said and "1 readings" in said
    assert numbers(place) == {day(0): [1]}
    for more, why in ((["--since", "2026-01-01"], "does not go with --since"),):
        args = cli.build_parser("export").parse_args([*words, str(place[1]), *more])
        with pytest.raises(ToolError, match=why):
            args.func(args)
    args = cli.build_parser("export").parse_args([*words, str(place[1] / "none")])
    with pytest.raises(ToolError, match="no such directory"):
        args.func(args)


def test_outpost_run_exports_what_was_offline_for_ten_days(tmp_path, monkeypatch):
    monkeypatch.setattr(plan.needs, "check_spark", lambda *_: None)
    state = State(tmp_path / "home")
    state.take()
    wish = plan.Wish(state, [], None, ["--broker", "h:1"], [], "http://127.0.0.1:1/", 0, 1)
    (job,) = (one for one in plan.plan(wish).jobs if one.name == "export")
    assert not job.commands()
    now = datetime.datetime.now(datetime.UTC).timestamp()
    for seq in (1, 2):
        content = pack(seq, bt=now - 10 * DAY_S)
        put(state.log, content, received_ms=round(now * 1000) + seq)
        for command in job.commands():
            assert command[: len(plan.OUTPOST)] == plan.OUTPOST
            assert cli.main(command[len(plan.OUTPOST) :]) == 0
        found = [number for some in numbers((None, state.export)).values() for number in some]
        assert sorted(found) == list(range(1, seq + 1))
