# cpython-only: emulates an RP2040
"""The shipped firmware on the emulated chip with the real MicroPython port: it delivers, and comes
back from everything. As files, which `outpost flash` installs, and frozen into the image.

Chip, flash, file system, pinned blocks, watchdog, USB console and main.py are real; the network is
a UART to a real mosquitto and a real collector. Long form: `make rp2`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

import chip_image
from collector_process import Process, Watcher, disconnect, wait_until
from outpost_tools.boards.files import payload
from outpost_tools.boards.port import kinds
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.messages.message import decode
from paths import BOARDS, FIRMWARE, HOST_TESTS, REPOSITORY, RIGS
from rp2040 import compiled, image, littlefs, outbox, tracebacks
from rp2040.board import ON_CHIP, Board, flash_image
from rp2040.uart_link import CRASH, HANG, Network

ROOTS = [FIRMWARE, BOARDS, BOARDS / "RPI_PICO_W", ON_CHIP]
WATCHDOG_S = 8
TURNS = 400
IMAGES = {"files": "pico", "frozen": "pico-outpost"}
BLOCKS = 16
SETTINGS = {
    "device_id": "b1",
    "broker_host": "broker.example",
    "wifi_ssid": "Home",
    "wifi_password": "correct horse",
    "interval_ms": 1000,
    "outbox_blocks": BLOCKS,
}


@dataclass
class Scene:
    """A board that was started once, its broker and its collector. form: a key of IMAGES.

    firmware: the interpreter's image; files: what of the firmware is in the file system.
    """

    form: str
    firmware: Path
    files: dict[str, bytes]
    broker: Broker
    collector: Process
    watcher: Watcher
    installed: bytes = b""
    boards: list[Board] = field(default_factory=list)

    def power_on(self, flash: bytes, **options) -> Board:
        ports = {SETTINGS.get("broker_port", 1883): self.broker.port}
        self.boards.append(Board(flash, Network(ports=ports), seed=len(self.boards) + 1, **options))
        return self.boards[-1]

    def stored(self) -> list:
        return [decode(frame.topic.decode(), frame.payload) for frame in self.collector.frames()]

    def wait_stored(self, count: int) -> None:
        """In real time, in which broker and collector live: ten seconds of the chip are one."""
        wait_until(lambda: len(self.stored()) >= count)

    def wait_held(self, held: set[tuple[str, int]]) -> None:
        wait_until(lambda: held <= {(one.stream, one.seq) for one in self.stored()})

    def confirmed(self) -> int:
        return max(self.watcher.numbers("b1"), default=-1)


@pytest.fixture(
    scope="module",
    params=["files", pytest.param("frozen", marks=pytest.mark.long)],
)
def scene(request, tmp_path_factory):
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    form, folder = request.param, tmp_path_factory.mktemp("rp2")
    firmware, files = chip_image.found_or_skip(IMAGES[form]), {}
    if form == "files":
        files = payload.build(REPOSITORY, kinds.load(REPOSITORY, "RPI_PICO_W"), "armv6m")
    with (
        Broker("mosquitto", folder / "broker") as broker,
        Process(folder, broker.port) as collector,
    ):
        collector.wait_subscribed()  # what it misses comes minutes of the chip later
        scene = Scene(form, firmware, files, broker, collector, Watcher(broker))
        board = scene.power_on(flash_image(image.load(firmware), files, SETTINGS))
        board.run_for(60, lambda: scene.confirmed() >= 2)
        assert scene.confirmed() >= 2, (
            f"no message was confirmed in {board.seconds:.0f} s of the chip:\n{board.text}"
        )
        scene.installed = board.image
        yield scene
        for board in scene.boards:
            board.close()
        disconnect(scene.watcher.client)


def in_order_without_gaps(messages) -> bool:
    """First appearance of each number: 0, 1, 2, ... in each stream."""
    for stream in {message.stream for message in messages}:
        first = list(dict.fromkeys(message.seq for message in messages if message.stream == stream))
        if first != list(range(len(first))):
            return False
    return True


def test_a_flashed_board_delivers_and_lives_on_for_periods_of_the_watchdog(scene):
    board = scene.boards[0]
    board.run_for(3.2 * WATCHDOG_S)
    assert board.chip.resets == [], board.text
    assert board.feeds > 3 * TURNS
    scene.wait_stored(3 * WATCHDOG_S)  # a reading a second
    assert in_order_without_gaps(scene.stored())
    assert "Traceback" not in board.text


def test_the_firmware_runs_from_where_it_should(scene):
    paths = littlefs.read(scene.installed)
    found = [
        path
        for path in paths
        if re.match(r"/(lib/)?(outpost|station|support)/\w+\.m?py|/(main|board)\.", path)
    ]
    assert bool(found) is (scene.form == "files"), found


@pytest.mark.long
def test_machine_code_is_used_and_computes_what_portable_code_does(scene):
    """The tests of both themselves on the chip, ahead of main.py. Their portable code takes over
    silently."""
    tests = {"/boot.py": ON_CHIP / "machine_code.py"}
    tests["/unittest.py"] = RIGS / "unittest_lite" / "unittest.py"
    files = scene.files | {path: source.read_bytes() for path, source in tests.items()}
    for name in ("test_bytes.py", "test_series_bits.py"):
        source = HOST_TESTS / "firmware" / "outpost" / name
        files[f"/{name[:-3]}.mpy"] = compiled.compile_one(source, name, 0)
    board = Board(flash_image(image.load(scene.firmware), files, SETTINGS))
    board.run_for(120, lambda: re.search("end of the tests|Traceback", board.text))
    board.close()
    assert "machine code: used" in board.text, board.text
    results = re.findall(r"^RESULT (\d+) (\d+) (\d+)", board.text, re.MULTILINE)
    assert len(results) == 2, board.text
    assert all(int(passed) > 5 and bad == skipped == "0" for passed, bad, skipped in results)


def test_what_is_held_survives_a_reset_and_is_sent(scene):
    board = scene.power_on(scene.boards[-1].image)
    board.run_for(30, lambda: board.feeds > 0)
    board.network.broker = False
    board.run_for(6)
    held = read_outbox(board.image)
    assert len(held) >= 4
    board.link.provoke(HANG)
    board.run_for(2 * WATCHDOG_S, lambda: bool(board.chip.resets))
    assert board.chip.resets[0].by_timeout
    board.network.broker = True
    newest = max(seq for _, seq in held)
    board.run_for(40, lambda: scene.confirmed() >= newest)
    scene.wait_held(held)
    assert in_order_without_gaps(scene.stored())
    assert len(board.chip.resets) == 1


def test_what_is_held_survives_power_off_and_is_sent(scene):
    board = scene.power_on(scene.boards[-1].image)
    board.run_for(30, lambda: board.feeds > 0)
    board.network.broker = False
    before = len(scene.stored())
    board.run_for(6)
    assert len(scene.stored()) <= before + 2
    held = read_outbox(board.image)
    assert len(held) >= 4
    again = scene.power_on(board.image)
    newest = max(seq for _, seq in held)
    again.run_for(40, lambda: scene.confirmed() >= newest)
    scene.wait_held(held)
    assert in_order_without_gaps(scene.stored())
    assert len({message.boot for message in scene.stored()}) >= 2


def read_outbox(flash: bytes) -> set[tuple[str, int]]:
    """(stream, number) of the messages that the board still holds."""
    return {
        (message.stream, message.seq) for message in outbox.read(flash, outbox.blocks(flash)).held
    }


def test_turns_of_the_loop_take_no_heap(scene):
    """Not one call of the allocator, readings and their delivery included."""
    board = scene.power_on(scene.boards[-1].image)
    start = len(scene.stored())
    board.run_for(
        40,
        lambda: (
            len(scene.stored()) >= start + 4 and scene.confirmed() >= scene.stored()[-1].seq - 1
        ),
    )
    board.count_calls(scene.firmware, "gc_alloc")
    feeds, stored = board.feeds, len(scene.stored())
    board.run_for(30, lambda: board.feeds >= feeds + TURNS and len(scene.stored()) >= stored + 3)
    assert board.feeds >= feeds + TURNS
    assert board.calls == 0


@pytest.mark.parametrize(
    "missing",
    ["broker", *(pytest.param(name, marks=pytest.mark.long) for name in ("time", "wifi", "names"))],
)
def test_waiting_for_what_does_not_answer_takes_no_heap(scene, missing):
    """Asking again allocates, a few times in a row; the turns between take nothing."""
    board = scene.power_on(scene.boards[-1].image)
    setattr(board.network, missing, False)
    board.run_for(30, lambda: board.feeds >= 200)
    board.count_calls(scene.firmware, "gc_alloc")
    quiet, in_a_row, most_in_a_row, stretches = 0, 0, 0, 8 * TURNS // 100
    for _ in range(stretches):
        calls, feeds = board.calls, board.feeds
        board.run_for(5, lambda feeds=feeds: board.feeds >= feeds + 100)
        quiet += board.calls == calls
        in_a_row = in_a_row + 100 if board.calls == calls else 0
        most_in_a_row = max(most_in_a_row, in_a_row)
    print(f"{missing}: {board.calls} allocations, {most_in_a_row} turns in a row without one")
    assert quiet >= stretches // 2
    assert most_in_a_row >= TURNS
    assert board.feeds >= 200 + 8 * TURNS
    assert board.chip.resets == []


@pytest.mark.long
def test_a_loop_that_hangs_is_ended_by_the_watchdog(scene):
    board = scene.power_on(scene.boards[-1].image)
    board.run_for(30, lambda: board.feeds > 100)
    hung_s = board.seconds
    board.link.provoke(HANG)
    board.run_for(2 * WATCHDOG_S, lambda: bool(board.chip.resets))
    reset = board.chip.resets[0]
    assert reset.by_timeout
    assert WATCHDOG_S - 0.1 <= reset.cycle / 125e6 - hung_s <= WATCHDOG_S + 0.5
    before = len(scene.stored())
    board.run_for(30, lambda: len(scene.stored()) >= before + 2)
    scene.wait_stored(before + 2)
    assert len(board.chip.resets) == 1


@pytest.mark.long
def test_a_traceback_names_file_line_and_function(scene):
    board = scene.power_on(scene.boards[-1].image)
    board.run_for(30, lambda: board.feeds > 100)
    # One that meets the reading of a sensor (signal) is the guard's, and no crash. The guard feeds
    # the watchdog before each reading: so not right after a feed, and not each time at one moment
    # of the second that lies between two measurements.
    for _ in range(9):
        board.run_for(0.3)
        board.link.provoke(CRASH)
        if board.run_for(10, lambda: bool(board.chip.resets)):
            break
    assert "provoked by the test" in board.text
    assert not board.chip.resets[0].by_timeout
    found = tracebacks.frames(board.text)
    assert found[0].file == "main.py"
    assert [frame for frame in found if frame.file.startswith(("outpost/", "support/"))]
    assert [problem for frame in found if (problem := tracebacks.misplaced(frame, ROOTS))] == []
    before = len(scene.stored())
    board.run_for(30, lambda: len(scene.stored()) >= before + 2)
    scene.wait_stored(before + 2)
    assert "provoked by the test" in littlefs.read(board.image)["/crash.txt"].decode()
