# cpython-only: tests a desktop tool
"""Every power cut of README's program, of each example, and of main.py in its modes, on the bench:
nothing is lost, and the board recovers. Under both Pythons, on three kinds of boards.
"""

import os

import pytest

import kit_modes
from kit_rig import EXAMPLES, GARDEN, PROGRAM, bench_of
from paths import FIRMWARE

# 1: each cut of all. Else one in 40 under 32-bit MicroPython, whose whole run takes half an hour.
EVERY = int(os.environ.get("KIT_EVERY", "40"))


def counts(result):
    print(f"{result.cuts} cuts, {dict(result.kinds)}, {result.most_duplicates} twice at most")
    return result.cuts


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """A failure writes its scenario here."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("python", ["c", "m"])
def test_of_readme_s_program(here, python):
    (here / "hello.py").write_text(PROGRAM)
    bench = bench_of(python, here)
    assert counts(bench.every_cut("hello.py", minutes=5)) > 15


def test_double_cuts_of_readme_s_program(here):
    (here / "hello.py").write_text(PROGRAM)
    assert counts(bench_of("c", here).every_cut("hello.py", minutes=5, double=True)) > 200


@pytest.mark.parametrize(
    ("name", "minutes"), [("publish", 5), ("deep_sleep", 9), ("own_sensor", 5), ("plain_client", 5)]
)
def test_of_an_example(name, minutes):
    bench = bench_of("c", EXAMPLES)
    bench.settings = {"interval_ms": 20_000}
    assert counts(bench.every_cut(f"{name}.py", minutes=minutes)) > 10


def test_of_the_example_that_listens():
    bench = bench_of("c", EXAMPLES)
    bench.said = [(20, b"home/kitchen/lamp/set", b"on"), (40, b"home/kitchen/lamp/set", b"quit")]

    def told(world):
        assert not world.lost() and not world.invented() and not world.out_of_order()

    assert counts(bench.every_cut("subscribe.py", told, minutes=3)) > 5


@pytest.mark.long
@pytest.mark.parametrize("name", ["publish", "deep_sleep", "own_sensor"])
@pytest.mark.parametrize("board", ["ESP32_GENERIC", "RPI_PICO_W"])
def test_of_an_example_on_a_board_under_32_bit_micropython(name, board):
    bench = bench_of("m", EXAMPLES)
    bench.board = board
    bench.settings = {"interval_ms": 20_000, "outbox_blocks": 8}
    ways = ("nothing", "first half") if board.startswith("RPI") else ()
    assert counts(bench.every_cut(f"{name}.py", ways=ways, minutes=6)) > 10


def cuts_of_main(python, board, mode, every):
    bench = bench_of(python, FIRMWARE)
    bench.board = board
    kit_modes.set_up(bench, mode)
    check, minutes = kit_modes.MODES[mode][1], 1
    if not check:
        bench.outage(2, 3)
        minutes = 4
    return counts(bench.every_cut("main.py", check, every=every, minutes=minutes))


@pytest.mark.long
@pytest.mark.parametrize("mode", kit_modes.MODES)
def test_of_main(mode):
    assert cuts_of_main("c", "BENCH", mode, 1 if EVERY == 1 else 2) > 30


@pytest.mark.long
@pytest.mark.parametrize("mode", kit_modes.MODES)
@pytest.mark.parametrize("board", ["ESP32_GENERIC", "RPI_PICO_W"])
def test_of_main_on_a_board_under_32_bit_micropython(board, mode):
    assert cuts_of_main("m", board, mode, EVERY) > 0


@pytest.mark.parametrize("python", ["c", "m"])
def test_of_the_example_with_tasks(python):
    assert counts(bench_of(python, EXAMPLES).every_cut("with_asyncio.py", minutes=2)) > 10


def test_one_cut_in_seven():
    bench = bench_of("c", GARDEN.parent)
    whole = bench.every_cut("garden.py", minutes=3).cuts
    assert bench.every_cut("garden.py", every=7, minutes=3).cuts == (whole + 6) // 7


def test_of_the_garden():
    bench = bench_of("c", GARDEN.parent)
    bench.outage(3, 4)
    assert counts(bench.every_cut("garden.py", minutes=6)) > 30
