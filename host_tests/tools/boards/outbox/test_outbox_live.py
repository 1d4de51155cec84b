# cpython-only: tests a desktop tool
"""`outpost outbox ... --live`: mpremote reads MicroPython behind a pseudo-terminal; it shows what
the image file shows.
"""

import contextlib
import json
import re
import threading
import time

import pytest
import serial

import power_loss  # noqa: F401 - gives the firmware zlib's CRC
import series_image
from fake_flash import flash_in_ram, image_of
from outpost.outbox import Outbox
from outpost_tools import cli
from outpost_tools.machine.interpreters import find_micropython
from paths import REPOSITORY
from pty_board import PtyBoard

FIRMWARE = REPOSITORY / "firmware"
MODULES = f"{FIRMWARE}:{REPOSITORY / 'boards'}:{REPOSITORY / 'boards' / 'UNIX'}"
SETTINGS = {
    "device_id": "board-1",
    "broker_host": "127.0.0.1",
    "broker_port": 1,
    "outbox_blocks": 8,
    "interval_ms": 20,
}
BLOCKS = SETTINGS["outbox_blocks"]
IDLE = "import time\nwhile True:\n    time.sleep_ms(10)\n"
BROKEN_FLASH = """
class Flash:
    def ioctl(self, op, arg):
        return 8 if op == 4 else 4096

    def readblocks(self, block, buf, offset):
        {what}

class Board:
    def open(self, settings):
        self.device = Flash()
        return self
"""
FORMER_BOARD = """
import nor_flash

def outbox_device(settings):
    return nor_flash.NorFlash(open("flash.img", "r+b"), settings["outbox_blocks"])

def feed_watchdog():
    pass
"""

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def micropython():
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython i386: run make setup")
    return command


def image_with_messages(messages=150, freed=20):
    flash = flash_in_ram(BLOCKS)
    outbox = Outbox(flash)
    outbox.format(b"3fa9c1d2")
    for number in range(messages):
        payload = b"payload %d " % number + bytes(range(number % 100))
        assert outbox.append(b"outpost/board-1/data", payload, len(payload)) == 0
        if outbox.oldest_seq < freed:
            outbox.discard_through(freed - 1)
    return image_of(flash)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A board whose program does nothing, so that its flash stays as it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "flash.img").write_bytes(image_with_messages())
    (tmp_path / "idle.py").write_text(IDLE)
    return tmp_path


@contextlib.contextmanager
def board(micropython, folder, path=MODULES, program="idle.py", **more):
    with PtyBoard(micropython, folder, path, program, **more) as found:
        wait_for(lambda: found.is_running_its_program)
        yield found


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def outbox(capsys, *words):
    status = cli.main(["outbox", *map(str, words)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def refused(capsys, port, *words):
    """The one line on stderr."""
    status, out, err = outbox(capsys, "show", "--live", port, *words)
    assert (status, out, err.count("\n")) == (2, "", 1), (status, out, err)
    return err


def test_a_live_board_shows_what_its_image_file_shows(micropython, folder, capsys):
    before = (folder / "flash.img").read_bytes()
    with board(micropython, folder) as found:
        live = outbox(capsys, "show", "--records", "--live", found.port, "--save", "copy.img")
        wait_for(lambda: found.is_running_its_program)
    assert live == outbox(capsys, "show", "--records", "flash.img")
    assert live[0] == 0 and live[1].count(" held outpost/board-1/data ") == 130
    assert (folder / "copy.img").read_bytes() == (folder / "flash.img").read_bytes() == before
    assert found.starts == ["main", "raw", "main"]  # its program goes on


def test_series_of_a_live_board_are_those_of_its_image_file(micropython, folder, capsys):
    image = image_of(series_image.made(700)[0])
    erased = b"\xff" * 4096 * (BLOCKS - series_image.BLOCKS)
    (folder / "flash.img").write_bytes(image + erased)
    with board(micropython, folder) as found:
        for words in (["show", "--records"], ["export", "--readings", "-"]):
            live = outbox(capsys, *words, "--live", found.port)
            assert live == outbox(capsys, *words, "flash.img")
        status, _, err = outbox(capsys, "new", "--live", found.port)
    assert live[1].count("\n") > 2000
    assert status == 2 and re.search(r"\b1\d messages are held in it", err), err
    assert (folder / "flash.img").read_bytes() == image + erased


def test_every_job_reads_a_live_board(micropython, folder, capsys):
    with board(micropython, folder) as found:
        for words in (["check"], ["wear"], ["export", "--json-lines", "-"]):
            live = outbox(capsys, *words, "--live", found.port)
            assert [text.replace(found.port, "flash.img") for text in live[1:]] == list(
                outbox(capsys, *words, "flash.img")[1:]
            )
            assert live[0] == 0 and live[1]
        status, _, err = outbox(
            capsys, "export", "--segments", "log", "--id", "rescue-1", "--live", found.port
        )
        assert (status, "130 messages exported" in err) == (0, True)


def test_a_real_port_is_polled_and_that_works_too(micropython, folder, capsys):
    """mpremote treats a pseudo-terminal by its name; a link to it takes the path that a USB port
    takes.
    """
    with board(micropython, folder) as found:
        (folder / "port").symlink_to(found.port)
        assert (
            outbox(capsys, "show", "--live", folder / "port")[:2]
            == outbox(capsys, "show", "flash.img")[:2]
        )


def test_a_board_at_work_is_read_and_goes_on(micropython, folder, capsys):
    (folder / "flash.img").unlink()
    with board(micropython, folder, program=FIRMWARE / "main.py") as found:
        wait_for(lambda: journal(folder).count("ok ") > 10)
        status, out, err = outbox(capsys, "export", "--json-lines", "-", "--live", found.port)
        told = journal(folder)
        wait_for(
            lambda: (
                journal(folder).count("boot ") == 2
                and journal(folder).count("ok ") > told.count("ok ")
            )
        )
    payloads = [json.loads(line)["payload"] for line in out.splitlines()]
    stored = re.findall(r"^ok \d+ (.*)$", told, re.MULTILINE)
    assert status == 0 and "fault" not in err
    assert len(stored) > 10 and payloads[: len(stored)] == stored[: len(payloads)]


def journal(folder):
    path = folder / "journal.txt"
    return path.read_text() if path.exists() else ""


class Spoiler:
    """Damages the first byte of the base64 text of block 1, that many times."""

    def __init__(self, times):
        self.times, self.left = times, times
        self._tail = b""

    def __call__(self, data):
        found = re.search(rb"\nB 1 [0-9a-f]{8} .", self._tail + data)
        at = found.end() - len(self._tail) - 1 if found else -1
        self._tail = (self._tail + data)[-20:]
        if at < 0 or not self.left:
            return data
        self.left -= 1
        return data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :]


def test_a_damaged_block_is_asked_for_again(micropython, folder, capsys):
    spoiler = Spoiler(1)
    with board(micropython, folder, spoil=spoiler) as found:
        assert (
            outbox(capsys, "show", "--live", found.port)[:2]
            == outbox(capsys, "show", "flash.img")[:2]
        )
    assert spoiler.left == 0


def test_a_block_damaged_twice_is_an_error(micropython, folder, capsys):
    with board(micropython, folder, spoil=Spoiler(2)) as found:
        assert "block 1 arrived damaged twice" in refused(capsys, found.port, "--save", "copy.img")
    assert not (folder / "copy.img").exists()


def test_a_board_without_outpost(micropython, folder, capsys):
    with board(micropython, folder, path="") as found:
        assert "no Outpost on the board: no module named 'board'" in refused(capsys, found.port)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, "the board's settings are invalid: settings.json: not found"),
        (
            '{"broker_host": "x"}',
            "the board's settings are invalid: settings.json: key 'device_id' is missing",
        ),
    ],
)
def test_bad_settings(settings, expected, micropython, folder, capsys):
    (folder / "settings.json").unlink()
    if settings is not None:
        (folder / "settings.json").write_text(settings)
    with board(micropython, folder) as found:
        assert expected in refused(capsys, found.port)


def test_an_outbox_that_cannot_be_opened(micropython, folder, capsys):
    (folder / "simulation.json").write_text("no JSON")
    with board(micropython, folder) as found:
        assert "the board cannot open its outbox: ValueError" in refused(capsys, found.port)


def test_a_flash_that_cannot_be_read(micropython, folder, capsys):
    (folder / "board.py").write_text(BROKEN_FLASH.format(what="raise OSError(5)"))
    with board(micropython, folder, path=f"{folder}:{FIRMWARE}") as found:
        assert "the board failed: OSError: [Errno 5] EIO" in refused(capsys, found.port)


def test_a_board_py_of_functions_is_read_too(micropython, folder, capsys):
    """As boards were flashed before a board was an object."""
    (folder / "board.py").write_text(FORMER_BOARD)
    with board(micropython, folder, path=f"{folder}:{MODULES}") as found:
        live = outbox(capsys, "show", "--live", found.port)
    assert live == outbox(capsys, "show", "flash.img") and live[0] == 0


def test_a_board_that_hangs_is_interrupted(micropython, folder, capsys):
    (folder / "board.py").write_text(BROKEN_FLASH.format(what="while True: pass"))
    with board(micropython, folder, path=f"{folder}:{FIRMWARE}") as found:
        # until it hangs it must answer in time, on a busy machine too
        assert "does not answer within 4 s" in refused(capsys, found.port, "--timeout", "4")
        wait_for(lambda: found.starts == ["main", "raw", "main"])


def test_a_port_in_use(folder, capsys):
    with PtyBoard([], folder, "", "") as found, serial.Serial(found.port, exclusive=True):
        assert "in use by another program" in refused(capsys, found.port)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_silent_port(is_linked, folder, capsys):
    (folder / "port").unlink(missing_ok=True)
    with PtyBoard([], folder, "", "") as found:
        (folder / "port").symlink_to(found.port)
        began = time.monotonic()
        line = refused(capsys, folder / "port" if is_linked else found.port, "--timeout", "0.5")
    assert re.search("does not answer|no MicroPython", line) and time.monotonic() - began < 20


def test_a_port_that_never_stops_talking(folder, capsys):
    """Something else than a board: mpremote alone would read indefinitely."""
    with PtyBoard([], folder, "", "") as found:
        ended = threading.Event()
        talker = threading.Thread(target=talk, args=(found, ended), daemon=True)
        talker.start()
        assert "does not answer within 0.5 s" in refused(capsys, found.port, "--timeout", "0.5")
        ended.set()
        talker.join()


def talk(found, ended):
    while not ended.is_set():
        found.send(b"the weather is fine\r\n")


def test_a_board_that_is_unplugged(folder, capsys):
    found = PtyBoard([], folder, "", "")
    found.__enter__()

    def pull():
        wait_for(found._typed)  # somebody has the port open, and knocks
        found.__exit__()

    pulling = threading.Thread(target=pull, daemon=True)
    pulling.start()
    assert "connection lost" in refused(capsys, found.port, "--timeout", "60")
    pulling.join()


def test_no_such_port_and_no_port_at_all(folder, capsys):
    assert "no such port" in refused(capsys, folder / "nothing")
    assert "is not a serial port" in refused(capsys, folder / "flash.img")


@pytest.mark.parametrize("words", [[], ["flash.img", "--live", "x"], ["flash.img", "--save", "x"]])
def test_one_source(words, folder, capsys):
    for job in (["show"], ["check"], ["export", "--json-lines", "-"]):
        assert outbox(capsys, *job, *words)[0] == 2


def test_save_keeps_what_is_there(folder, capsys):
    assert "exists already" in refused(capsys, folder / "nothing", "--save", "flash.img")
