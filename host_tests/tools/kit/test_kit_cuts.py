# cpython-only: tests a desktop tool
"""Every power cut of README's program, of each example, and of main.py in its modes, on the bench:
nothing is lost, and the board recovers. Under both Pythons, on three kinds of boards.
"""

import pytest

from kit_rig import EXAMPLES, GARDEN, PROGRAM, bench_of
from paths import FIRMWARE

MODES = {
    "broker": {"mode": "broker"},
    "collector": {"mode": "collector"},
    "series": {"mode": "broker", "series": True, "series_age_s": 60},
    "deep sleep": {"mode": "broker", "deep_sleep": True},
}


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
    bench.blocks = 64 if board.startswith("RPI") else 16
    bench.settings = {"interval_ms": 20_000, "outbox_blocks": 8}
    ways = ("nothing", "first half") if board.startswith("RPI") else ()
    assert counts(bench.every_cut(f"{name}.py", ways=ways, minutes=6)) > 10


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_of_main(mode):
    bench = bench_of("c", FIRMWARE)
    bench.settings = {"interval_ms": 30_000, "outbox_blocks": 16} | MODES[mode]
    if mode == "collector":
        bench.broker = {"collector": "outpost/kitchen/durable"}
    bench.outage(2, 3)
    assert counts(bench.every_cut("main.py", minutes=5)) > 30


def test_of_the_garden():
    bench = bench_of("c", GARDEN.parent)
    bench.outage(3, 4)
    assert counts(bench.every_cut("garden.py", minutes=6)) > 30
