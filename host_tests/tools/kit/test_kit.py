# cpython-only: tests a desktop tool
"""`outpost test` and the fixture `bench`: runs in virtual time, planted faults and what is said of
them, one trace on both Pythons, the page as printed."""

import json
import re

import pytest

from built_package import done, installed, source, wheel  # noqa: F401 - fixtures
from built_package import run as run_there
from kit_rig import EXAMPLES, GARDEN, PROGRAM, PROGRAMS, bench_of
from outpost_tools import cli
from outpost_tools.kit import trial
from outpost_tools.kit.bench import Bench
from outpost_tools.machine.firmware import status_numbers
from paths import BENCH_BOARD

PAGE = (BENCH_BOARD / "README.md").read_text("utf-8")


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """`outpost test ...` in an empty folder: (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def go(*words):
        status = cli.main(["test", *map(str, words)])
        return status, *capsys.readouterr()

    return go


# --- Runs ---


def test_an_hour_with_an_outage_brings_all_in_order():
    bench = Bench(GARDEN.parent)
    bench.values["adc 34"] = lambda second: second // 60
    bench.outage(10, 25)
    world = bench.run("garden.py", hours=1)
    assert [one.payload for one in world.broker.came] == [b"%d" % minute for minute in range(60)]
    assert len(world.accepted) == 60 and not world.lost() and not world.out_of_order()
    assert world.broker.came[11].ms >= 25 * 60_000 > world.accepted[11].ms  # the outage was there
    assert world.longest_poll_us < 100_000 and world.why == "time"


@pytest.mark.parametrize("kind", ["silent", "half_open", "slow", "no_wifi"])
def test_each_kind_of_outage_delays_and_loses_nothing(kind):
    bench = Bench(GARDEN.parent)
    bench.outage(5, 8, kind)
    world = bench.run("garden.py", minutes=20)
    assert len(world.broker.came) - len(world.duplicates()) == 20 and not world.lost()
    late = [one.ms for one in world.broker.came if 6 * 60_000 <= one.ms < 8 * 60_000]
    assert (kind == "slow") == bool(late)


def test_what_another_client_says_reaches_the_program():
    bench = Bench(EXAMPLES)
    bench.said = [(30, b"home/kitchen/lamp/set", b"on"), (60, b"home/kitchen/lamp/set", b"quit")]
    world = bench.run("subscribe.py", minutes=5)
    assert world.why == "ended" and 60 <= world.seconds < 120
    assert b"on" in [one.payload for one in world.broker.came]


def test_a_sleeping_board_boots_again_and_again():
    world = Bench(EXAMPLES).run("deep_sleep.py", hours=1)
    assert world.boots == 60 and not world.lost()
    assert len(world.accepted) == 60 and len(world.broker.came) >= 56
    assert world.pending() == world.accepted[len(world.broker.came) - len(world.duplicates()) :]


def test_with_asyncio_a_program_runs_in_virtual_time():
    world = Bench(EXAMPLES).run("with_asyncio.py", minutes=10)
    assert world.broker.came and not world.lost() and world.why in ("ended", "time")


def test_what_the_broker_denies_is_seen():
    bench = Bench(GARDEN.parent)
    bench.broker = {"denied": ["garden/#"], "denied_by": "drops"}
    world = bench.run("garden.py", minutes=5)
    assert world.accepted and not world.broker.came and len(world.lost()) == len(world.accepted)


def test_a_full_outbox_refuses_and_says_so():
    bench = Bench(PROGRAMS)
    bench.blocks = 3
    bench.outage(0, 600)
    world = bench.run("quick.py", minutes=10)
    assert {status for _, status in world.refused} == {status_numbers().FULL}
    assert not world.lost()


# --- Two Pythons, one trace ---


@pytest.mark.parametrize(
    "program", ["garden.py", "subscribe.py", "deep_sleep.py", "with_asyncio.py"]
)
def test_one_scenario_gives_the_same_trace_on_both_pythons(program):
    """Byte for byte, and millisecond for millisecond."""
    found = []
    for python in ("c", "m", "m64"):
        bench = bench_of(python, GARDEN.parent if program == "garden.py" else EXAMPLES)
        bench.outage(3, 5, "silent")
        bench.outage(7, 8)
        bench.said = [(30, b"home/kitchen/lamp/set", b"on")]
        bench.values["adc 34"] = lambda second: second
        found.append(bench.run(program, minutes=25 if program == "deep_sleep.py" else 12)._report)
    assert found[0]["came"] and found[0]["connects"]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("program", "end"), [("many_tasks", "over"), ("tasks_that_end", "none")])
def test_what_tasks_do_is_the_same_on_both_pythons_to_the_millisecond(program, end):
    worlds = [bench_of(python).run(f"{program}.py", minutes=2) for python in ("c", "m", "m64")]
    said = [world.output for world in worlds]
    assert said[0][-1].endswith(end) and len(said[0]) > 15 and worlds[0].broker.came
    assert said[0] == said[1] == said[2]
    assert worlds[0]._report == worlds[1]._report == worlds[2]._report


def test_a_name_that_micropython_lacks_is_missing_on_cpython_too(here):
    (here / "main.py").write_text("import asyncio\nasyncio.TaskGroup()\n")
    with pytest.raises(AssertionError, match="TaskGroup"):
        bench_of("c", here).run("main.py", minutes=1)


# --- Planted faults ---


def fault(program, minutes=10, **options):
    """What `every_cut` raises."""
    bench = Bench(PROGRAMS)
    for name, value in options.items():
        setattr(bench, name, value)
    with pytest.raises(AssertionError) as raised:
        bench.every_cut(program, minutes=minutes)
    return str(raised.value)


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_program_that_formats_at_its_start_loses(here):
    said = fault("starts_clean.py")
    assert re.match(r"garden/number b'\d+' at \d+ ms was accepted, never came", said), said
    assert re.search(r"power cut \d+ at .*, while at starts_clean\.py:\d+", said)
    repeat = re.search(r"repeat: outpost test (\S+) --scenario (\S+) --cut (\d+)/(\w+)", said)
    assert repeat, said
    words = [PROGRAMS / "starts_clean.py", "--scenario", here / "outpost-test.json"]
    assert cli.main(["test", *map(str, words), "--cut", f"{repeat[3]}/{repeat[4]}"]) == 1
    other = str(int(repeat[3]) + 1000)
    assert cli.main(["test", *map(str, words), "--cut", f"{other}/{repeat[4]}"]) == 0


def test_outages_and_time_that_a_fault_does_not_need_are_left_out(here):
    bench = Bench(PROGRAMS)
    bench.outage(2, 3)
    bench.outage(5, 6, "silent")
    with pytest.raises(AssertionError, match="outages: none"):
        bench.every_cut("starts_clean.py", minutes=16)
    kept = json.loads((here / "outpost-test.json").read_text())
    assert kept["outages"] == [] and kept["seconds"] < 200


def counts_on(world):
    """The counts go up. One that a cut kept from being published may be missing."""
    messages = {(one.stream, one.packet_id): int(one.payload) for one in world.broker.came}
    counts = list(messages.values())
    assert counts == sorted(set(counts)), f"the count went {counts}"


@pytest.mark.parametrize("filesystem", ["littlefs", "fat"])
def test_a_counter_file_is_lost_on_fat_and_not_on_littlefs(here, filesystem):
    bench = Bench(PROGRAMS)
    bench.filesystem = filesystem
    if filesystem == "littlefs":
        assert bench.every_cut("counter_file.py", counts_on, minutes=4).cuts > 20
        return
    with pytest.raises(AssertionError) as raised:
        bench.every_cut("counter_file.py", counts_on, minutes=4)
    assert re.search(
        r"in a change of a file \(before\), while at counter_file\.py:2\d", str(raised.value)
    )


def test_a_program_that_sleeps_without_close_sends_twice():
    world = Bench(PROGRAMS).run("no_close.py", minutes=10)
    assert len(world.duplicates()) >= 5
    fixed = Bench(EXAMPLES).run("deep_sleep.py", minutes=10)
    assert not fixed.duplicates()


@pytest.mark.parametrize("python", ["c", "m"])
def test_samples_in_an_open_record_are_held_and_those_forgotten_in_the_same_boot_are_lost(python):
    bench = bench_of(python)
    assert bench.run("forgets_samples.py", minutes=1).fault == ""
    bench.values["pin 3"] = 1
    world = bench.run("forgets_samples.py", minutes=1)
    assert re.match(r"sample \(0,\) of garden/data, stored at \d+ ms, is lost", world.fault)
    assert world.samples == 3


def test_a_message_past_the_outbox_is_invented(here):
    said = fault("own_packets.py", 3)
    assert said.startswith("garden b'hi' at ") and "was never published" in said
    assert "without any power cut" in said


def test_a_loop_that_calls_nothing_hangs_though_it_catches_everything(here, monkeypatch):
    monkeypatch.setattr("outpost_tools.kit.on_cpython.STUCK_S", 0.3)
    assert "it hangs" in fault("counts_for_ever.py", 1)


def test_it_hangs_under_micropython_too():
    with pytest.raises(AssertionError, match="it hangs"):
        bench_of("m").run("counts_for_ever.py", minutes=1)


@pytest.mark.parametrize("python", ["c", "m"])
def test_a_sleep_is_a_sleep_though_the_program_catches_everything(python):
    world = bench_of(python).run("catches_all.py", minutes=10)
    assert world.boots == 10 and len(world.broker.came) == 10


def test_a_loop_that_waits_for_a_button_ends_with_the_time(run):
    status, out, _ = run(PROGRAMS / "waits_for_button.py", "--value", "pin 3=1", "--hours", "0.01")
    assert status == 0 and "published nothing, and never connected" in out


def test_a_sensor_that_blocks_the_loop_is_told_by_the_watchdog(here):
    assert fault("slow_sensor.py", 3).startswith("the watchdog ended the program ")


def test_a_program_that_allocates_is_told_its_line():
    bench = bench_of("m", GARDEN.parent)
    bench.heap_after_s = 90
    with pytest.raises(AssertionError, match=r"MemoryError.*garden\.py:18"):
        bench.run("garden.py", minutes=5)
    quiet = bench_of("m", PROGRAMS)
    quiet.heap_after_s = 90
    assert len(quiet.run("quiet_garden.py", minutes=5).broker.came) == 5


# --- The command ---


def test_the_command_says_what_was_shown(run):
    status, out, _ = run(GARDEN, "--hours", "0.1", "--outage", "2-3")
    assert status == 0
    assert re.search(r"power cuts \d+ \(.*program.*\): nothing lost, invented or out of order", out)
    assert re.search(r"messages   6 accepted, 6 came, 0 lost", out)


def test_a_fault_is_said_with_the_line_that_repeats_it(run):
    status, out, err = run(PROGRAMS / "starts_clean.py", "--hours", "0.1")
    assert status == 1 and "failed: garden/number" in out and "repeat: outpost test" in out
    assert "looking for the smallest run" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.py"], "absent.py: no such program"),
        ([GARDEN, "--board", "PICO"], "--board PICO: one of BENCH, ESP32_GENERIC"),
        ([GARDEN, "--outage", "5"], "say MINUTE-MINUTE"),
        ([GARDEN, "--outage", "5-6:rain"], "refuses, silent"),
        ([GARDEN, "--value", "adc 34"], "say NAME=NUMBER"),
        ([GARDEN, "--cut", "x"], "say NUMBER/WAY"),
        ([GARDEN, "--board", "RPI_PICO_W"], "use --python m"),
        ([GARDEN, "--settings", GARDEN], "not JSON"),
    ],
)
def test_bad_input_is_named(run, words, said):
    status, _, err = run(*words)
    assert status == 2 and said in err and err.count("\n") == 1


def test_an_exception_is_told_with_its_line(run, tmp_path):
    (tmp_path / "bad.py").write_text("import time\n\ntime.sleep(1)\nint('x')\n")
    status, out, _ = run("bad.py")
    assert status == 1 and "ValueError" in out and "bad.py:4" in out


# --- The page ---


def printed(name):
    return re.search(rf"(?s)<!-- {name} -->\n```python\n(.*?)```", PAGE)[1]


@pytest.mark.parametrize("name", ["garden.py", "test_garden.py"])
def test_the_page_prints_the_files(name):
    text = (BENCH_BOARD / "example" / name).read_text("utf-8")
    assert text.split('"""\n', 1)[1].strip() == printed(name).strip()


@pytest.mark.long
def test_from_the_package_the_page_runs_as_printed(installed, tmp_path):  # noqa: F811
    for name in ("garden.py", "test_garden.py"):
        (tmp_path / name).write_text(printed(name))
    pytest_there = [installed.parent / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    finished = run_there([*pytest_there, "--rootdir", ".", "test_garden.py"], tmp_path)
    assert "3 passed" in finished.stdout, finished.stdout + finished.stderr
    (tmp_path / "hello.py").write_text(PROGRAM)
    said = done([installed, "test", "hello.py"], tmp_path)
    assert "1 accepted, 1 came, 0 lost" in said and "nothing lost, invented or out of" in said


def first_column(title):
    """The names in the first column of a table of the page."""
    rows = PAGE.split(f"| `{title}.` |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [row.split(" | ")[0] for row in rows]
    return {name for cell in cells for name in re.findall(r"`\.?(\w+)", cell)}


def test_what_the_page_lists_is_there():
    bench = Bench(GARDEN.parent)
    world = bench.run("garden.py", minutes=1)
    assert len(first_column("bench")) > 9 and len(first_column("world")) > 15
    assert [name for name in first_column("bench") if not hasattr(bench, name)] == []
    missing = [name for name in first_column("world") if not hasattr(world, name)]
    assert [name for name in missing if not hasattr(world.broker, name)] == []


def test_the_flash_is_as_large_as_the_board_s():
    bench = bench_of("m", EXAMPLES)
    bench.board = "RPI_PICO_W"
    assert len(bench.run("publish.py", minutes=1).broker.came) > 0  # pins the default, 64 blocks
    assert bench.scenario(60)["blocks"] == 212


def test_a_case_alone_is_followed_alone():
    bench = Bench(GARDEN.parent)
    asked = trial.Asked(GARDEN, bench.scenario(300), only=(3, "nothing"))
    assert trial.every_cut(asked).cuts == 1
