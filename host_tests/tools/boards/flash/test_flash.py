# cpython-only: tests a desktop tool
"""`outpost flash`: the real mpremote, real MicroPython over littlefs on a NOR image, a real broker.
Killed, cut off, repeated.

OUTPOST_FLASH_KILLS=20 is the long form of the kills and of the power cuts, and flashes a 64-bit
board, too.
"""

import contextlib
import json
import os
import random
import re
import shutil
import time

import pytest

import make_certificates
from flash_rig import BLOCKS, SETTINGS, Rig, source_tree
from moved_module import MODULE, ROOM, into_room
from outpost_tools.boards.files import install, inventory, plan
from outpost_tools.boards.port import connection, kinds, progress
from outpost_tools.boards.selftest import selftest
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.messages.message import decode
from paths import REPOSITORY
from real_broker import Observer, need_mosquitto, wait_for

KILLS = int(os.environ.get("OUTPOST_FLASH_KILLS", "2"))
CUTS = max(2, KILLS // 2)
SEED = int(os.environ.get("OUTPOST_FLASH_SEED", "1"))
OPERATIONS = 130  # programs and erases of an installation, about

pytestmark = pytest.mark.timeout(900)


def settings_file(rig, **more):
    path = rig.folder / "settings.toml"
    settings = SETTINGS | {"outbox_blocks": 16} | more
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    return path


# --- From a blank board to messages ---


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates.made_or_skip(tmp_path_factory.mktemp("certificates"))


@contextlib.contextmanager
def tls_broker(folder, certificates):
    """It wants a certificate of the board, too."""
    need_mosquitto()
    port = children.free_port()
    lines = [
        f"listener {port} 127.0.0.1",
        "allow_anonymous true",
        "require_certificate true",
        f"cafile {certificates}/ca.pem",
    ]
    lines += [f"certfile {certificates}/server.pem", f"keyfile {certificates}/server.key", ""]
    with Broker("mosquitto", folder, more_listeners="\n".join(lines)) as broker:
        broker.tls_port = port
        yield broker


def tls_settings(rig, broker, certificates, ca="ca.pem"):
    files = {"ca_file": ca, "client_cert_file": "client.pem", "client_key_file": "client.key"}
    paths = {key: str(certificates / name) for key, name in files.items()}
    return settings_file(rig, broker_port=broker.tls_port, tls=True, **paths)


class BoardThatSays:
    """Of `connection.Board`, what the link's test calls."""

    port = "port"

    def __init__(self, *lines):
        self._lines, self.is_fresh = lines, False

    def renew(self):
        self.is_fresh = True

    def run(self, script, take):
        assert self.is_fresh
        for line in self._lines:
            take(line)
        return list(self._lines)


def test_no_memory_for_a_connection_says_what_to_do():
    is_up, text = selftest.link(BoardThatSays("E 12", "L 0 12"), 1.0)
    assert not is_up and text.startswith("not accepted within 1 s: ENOMEM (12): the heap has no")
    assert "leave out some of 'series', 'commands', 'update_key', 'level' 5" in text


def numbers(observer):
    return [decode(message.topic, message.payload.encode()).seq for message in observer.messages]


@pytest.mark.parametrize("architecture", ["i386", "amd64"] if KILLS > 2 else ["i386"])
def test_a_blank_board_publishes_over_tls(architecture, tmp_path, tree, certificates):
    with (
        Rig(tmp_path / "rig", tree, architecture) as rig,
        tls_broker(tmp_path / "broker", certificates) as broker,
        Observer(broker.port, "observer", ("outpost/rig-1/data", 1)) as observer,
    ):
        assert rig.outpost("flash", "--settings", tls_settings(rig, broker, certificates)) == 0, (
            rig.err + rig.out
        )
        assert rig.row("link").startswith("the broker answered") and "pinned now" in rig.row(
            "outbox"
        )
        assert "heap locked" in rig.row("heap")
        # Link and first message each in a fresh interpreter: TLS takes 17 KB in one piece.
        assert rig.starts == ["main", "raw", "raw", "raw", "main"]
        observer.wait(20)
        assert rig.outpost("flash") == 0, rig.err + rig.out
        assert rig.row("files").startswith("0 copied (0 bytes)")
        rig.power_cut()
        observer.wait(len(observer.messages) + 20)
        held = rig.outpost("provision", tls_settings(rig, broker, certificates, "other-ca.pem"))
        assert held == 0 and rig.row("settings").startswith("written: /tls/ca-")
        assert rig.outpost("flash", "--link-timeout", 8) == 1  # a handshake, on a busy machine
        assert "TLS_UNTRUSTED" in rig.row("link")
        refused = len(observer.messages)
        time.sleep(0.5)
        assert len(observer.messages) == refused
        assert rig.outpost("provision", tls_settings(rig, broker, certificates)) == 0
        observer.wait(refused + 30)
        seen = list(dict.fromkeys(numbers(observer)))
        assert seen == list(range(len(seen)))
        tls_files = [path for path in rig.hashes() if path.startswith("/tls/")]
        assert sorted(re.sub("-.*", "", path) for path in tls_files) == [
            "/tls/ca",
            "/tls/client",
            "/tls/key",
        ]


def test_an_outbox_with_messages_survives_a_flash(rig, tmp_path):
    need_mosquitto()
    port = children.free_port()
    settings = settings_file(rig, broker_port=port, interval_ms=5)
    assert rig.outpost("flash", "--settings", settings, "--no-link") == 0, rig.err + rig.out
    held = 0
    for _ in range(60):
        time.sleep(1)
        assert rig.outpost("flash", "--no-link") == 0
        held = int(re.search(r"(\d+) messages held", rig.row("outbox"))[1])
        if held >= 10:
            break
    assert held >= 10 and "left as they were" in rig.row("outbox")
    change(rig.tree / "boards" / "support" / "crash_log.py", "const(1000)", "const(900)")
    assert rig.outpost("flash", "--settings", settings, "--no-link") == 0
    assert rig.row("files").startswith("1 copied")
    assert int(re.search(r"(\d+) messages held", rig.row("outbox"))[1]) >= held
    rig.mpremote("exec", "1")  # its program stands still until there is an observer
    with Broker("mosquitto", tmp_path / "broker", port=port) as broker:
        with Observer(broker.port, "observer", ("outpost/rig-1/data", 1)) as observer:
            rig.power_cut()
            observer.wait(held + 20)
            seen = list(dict.fromkeys(numbers(observer)))
    assert seen[:held] == list(range(held)), "all that were held, in order"
    assert seen == list(range(len(seen)))


# --- What is copied ---


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_second_flash_copies_nothing_and_a_changed_file_alone(rig):
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert rig.is_whole()
    assert rig.outpost("flash", "--no-link") == 0
    assert re.match(r"0 copied \(0 bytes\), \d+ unchanged$", rig.row("files"))
    before = rig.hashes()
    change(rig.tree / "boards" / "support" / "crash_log.py", "const(1000)", "const(900)")
    assert rig.outpost("flash", "--no-link") == 0
    assert rig.row("files").startswith("1 copied")
    after = rig.hashes()
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {"/support/crash_log.mpy", plan.RECORD} and rig.is_whole()  # it has the time


def test_bytes_that_changed_on_the_board_are_seen(rig):
    """The board's own bytes count, not what was sent some day."""
    assert rig.outpost("flash", "--no-link") == 0
    rig.mpremote(
        "exec", "f = open('/outpost/client.mpy', 'r+b'); f.seek(100); f.write(b'!'); f.close()"
    )
    assert rig.outpost("flash", "--no-link") == 0 and rig.row("files").startswith("1 copied")
    assert rig.is_whole()


def test_dry_run_changes_nothing(rig):
    rig.mpremote("exec", "1")
    before = rig.image.read_bytes()
    assert (
        rig.outpost(
            "flash",
            "--dry-run",
            "--settings",
            settings_file(rig, user="a", password="hunter2hunter2"),
        )
        == 0
    )
    assert (
        "copy /main.py" in rig.out
        and "to copy" in rig.row("files")
        and "settings.json" in rig.row("settings")
    )
    assert rig.image.read_bytes() == before
    assert "hunter2" not in rig.out + rig.err
    wait_for(lambda: rig.starts[-1] == "main", "its program again")


@pytest.mark.long
def test_old_files_of_ours_go_and_the_users_stay(rig, tmp_path):
    assert rig.outpost("flash", "--no-link") == 0
    (tmp_path / "x.py").write_text("raise SystemExit\n")
    mine = ["/mine.py", "/lib/thing.py", "/outpost/notes.txt"]
    ours = ["/outpost/client.py", "/outpost/gone.mpy", "/outpost/gone.mpy.new"]
    rig.mpremote("mkdir", ":/lib")
    for path in [*mine, *ours]:
        rig.mpremote("cp", tmp_path / "x.py", f":{path}")
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert rig.row("files").startswith("0 copied") and "3 old ones removed" in rig.row("files")
    found = rig.hashes()
    assert not set(ours) & set(found) and set(mine) <= set(found) and rig.is_whole()


@pytest.mark.long
def test_a_flash_ends_an_update_over_the_air_that_is_under_way(rig, tmp_path):
    """Its files would be moved over these, or its old ones back."""
    assert rig.outpost("flash", "--no-link") == 0
    (tmp_path / "phase").write_text("back u-1 no connection")
    (tmp_path / "plan").write_text("0 = outpost/client.mpy\n")
    rig.mpremote("mkdir", ":/update")
    for name in ("phase", "plan"):
        rig.mpremote("cp", tmp_path / name, f":/update/{name}")
    rig.mpremote("cp", tmp_path / "plan", ":/update/0.old")
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert not [path for path in rig.hashes() if path.startswith("/update/")] and rig.is_whole()


@pytest.mark.parametrize(("made_s", "now_s", "expected_s"), [(77, 100, 100), (177, 100, 177)])
def test_a_flash_is_a_time_before_which_no_update_is_taken(monkeypatch, made_s, now_s, expected_s):
    """Who has recorded an old update could send it again."""
    monkeypatch.setattr(plan.time, "time", lambda: now_s)
    record = plan.read_record('{"files": {}, "modules": [], "made": %d}' % made_s)
    todo = plan.Plan(copy={"/outpost/client.mpy": b""})
    plan.add_record(todo, {}, inventory.Inventory({}, 0), "RPI_PICO_W", record)
    assert plan.read_record(todo.copy[plan.RECORD].decode()).made_s == expected_s


@pytest.mark.parametrize("name", ["main.py", pytest.param("board.py", marks=pytest.mark.long)])
def test_a_program_of_the_users_own_is_not_overwritten(name, rig, tmp_path):
    (tmp_path / name).write_text("print('mine')\n")
    rig.mpremote("cp", tmp_path / name, f":{name}")
    before = rig.hashes()
    assert rig.outpost("flash", "--no-link") == 2
    assert (
        f"/{name} on the board is not Outpost's" in rig.err
        and "--replace" in rig.err
        and rig.err.count("outpost: ") == 1
    )
    assert rig.hashes() == before
    assert rig.outpost("flash", "--no-link", "--replace") == 0, rig.err
    assert rig.hashes()[f"/{name}.kept"] == before[f"/{name}"] and rig.is_whole()
    assert rig.outpost("flash", "--no-link") == 0, "what was flashed is ours"


@pytest.mark.long
def test_what_was_copied_by_hand_from_here_is_ours(rig):
    rig.mpremote("cp", "boards/RIG/board.py", ":")
    rig.mpremote("cp", "firmware/main.py", ":")
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert "/board.py" not in rig.hashes() and rig.is_whole()


def test_a_new_main_is_an_update_not_a_stranger(rig):
    assert rig.outpost("flash", "--no-link") == 0
    change(rig.tree / "firmware" / "main.py", "composition only", "composition")
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert rig.row("files").startswith("1 copied") and rig.is_whole()


MERGED = ("memory", "packets", "session", "text", "ticks")
_MAKE_FORMER = """
import os
for name in {merged!r}:
    os.remove("/outpost/" + name + ".mpy")
rooms = ["/outpost/", "/station/", "/support/"]
for room in rooms:
    for name in os.listdir(room) + ["fused.mpy"] * (room == "/outpost/"):
        if name.endswith(".mpy"):
            with open(room + name, "wb") as file:
                file.write(b"M another form")
        elif os.stat(room + name)[0] & 0x4000:
            rooms.append(room + name + "/")
"""


@pytest.mark.long
def test_a_board_with_the_former_build_is_taken_over(rig):
    """Which had fewer files, as several modules came into one, and other bytes in all of them."""
    board = rig.tree / "boards" / "RIG" / "board.py"
    now = board.read_text()
    board.write_text(now + "\n_former = 1\n")
    assert rig.outpost("flash", "--settings", settings_file(rig), "--no-link") == 0, rig.err
    board.write_text(now)
    rig.mpremote("exec", _MAKE_FORMER.format(merged=MERGED))
    before = rig.hashes()
    assert rig.outpost("flash", "--settings", settings_file(rig), "--no-link") == 0, rig.err
    modules = len([path for path in _modules(rig) if path.endswith(".mpy")])
    assert rig.row("files").startswith(
        f"{modules + 1} copied"
    ) and "1 unchanged, 1 old ones removed" in rig.row("files")
    after = rig.hashes()
    assert "/outpost/fused.mpy" in before and "/outpost/fused.mpy" not in after and rig.is_whole()
    assert {f"/outpost/{name}.mpy" for name in MERGED} <= after.keys() - before.keys()


_MAKE_ONE_ROOM = """
import json, os
for room in ("/station", "/support"):
    for name in os.listdir(room):
        os.rename(room + "/" + name, "/outpost/" + name)
    os.rmdir(room)
os.rename("/outpost/memory.mpy", "/outpost/crc.mpy")
with open("/outpost/installed.json") as file:
    record = json.load(file)
del record["modules"]
with open("/outpost/installed.json", "w") as file:
    json.dump(record, file)
"""


@pytest.mark.long
def test_modules_that_moved_to_another_room_are_not_left_behind(rig):
    """A board that was flashed when all modules were in /outpost: a stale one would be imported by
    whoever still names it.
    """
    assert rig.outpost("flash", "--settings", settings_file(rig), "--no-link") == 0, rig.err
    before = _modules(rig)
    rig.mpremote("exec", _MAKE_ONE_ROOM)
    assert {
        "/outpost/pinned.mpy",
        "/outpost/clock.mpy",
        "/outpost/crc.mpy",
    } <= rig.hashes().keys()
    assert rig.outpost("flash", "--settings", settings_file(rig), "--no-link") == 0, rig.err
    assert _modules(rig) == before
    assert rig.is_whole()


def _modules(rig):
    return {path for path in rig.hashes() if path.count("/") >= 2 and "/outbox/" not in path}


FLAT, IN_ROOM = f"/outpost/{MODULE}.mpy", f"/outpost/{ROOM}/{MODULE}.mpy"
_FOLDERS = "import os\nprint(*[one[0] for one in os.ilistdir('/outpost') if one[1] == 0x4000])"


def test_a_module_goes_to_a_room_and_back_without_leftovers(rig):
    """Old boards have no rooms. Both ways, and an attempt that ended in between is mended."""
    settings = settings_file(rig)
    assert rig.outpost("flash", "--settings", settings, "--no-link") == 0, rig.err
    rooms = set(rig.mpremote("exec", _FOLDERS).split())
    into_room(rig.tree)
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert "1 old ones removed" in rig.row("files") and rig.is_whole()
    assert IN_ROOM in rig.hashes() and FLAT not in rig.hashes()
    assert set(rig.mpremote("exec", _FOLDERS).split()) == rooms | {ROOM}
    rig.mpremote(
        "exec", f"open('{IN_ROOM}.new', 'w').write('half'); import os; os.mkdir('/outpost/x')"
    )
    shutil.rmtree(rig.tree)
    source_tree(rig.tree)
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert rig.is_whole() and FLAT in rig.hashes()
    assert set(rig.mpremote("exec", _FOLDERS).split()) == rooms
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert rig.row("files").startswith("0 copied")


def test_a_room_needs_blocks_of_its_own():
    """A folder of littlefs has two."""
    copy = {"/outpost/client.mpy": b"1", "/outpost/a/x.mpy": b"1", "/outpost/b/y.mpy": b"1"}
    todo = plan.Plan(copy=copy)
    assert todo.folders == ["/outpost", "/outpost/a", "/outpost/b"]
    found = inventory.Inventory({}, (8 + 3 + 2) * 4096, frozenset({"/outpost/a"}))
    plan.check_room(todo, found, 0, "port")
    found = inventory.Inventory({}, (8 + 3 + 2) * 4096)
    with pytest.raises(ToolError, match="13 blocks of 4,096 bytes are free, 15 are needed"):
        plan.check_room(todo, found, 0, "port")


def test_parts_are_as_large_as_the_flash_has_room_for():
    """A file that replaces one frees its block for the next part."""
    copy = {f"/outpost/{name}.mpy": b"1" for name in "abcdef"} | {plan.MAIN: b"1"}
    todo = plan.Plan(copy=copy, remove=["/outpost/x.mpy"])
    old = inventory.Inventory(dict.fromkeys(copy, "0"), (8 + 2) * 4096)
    plan.check_room(todo, old, 0, "port")
    assert [len(part) for part in todo.parts] == [3, 3, 1] and todo.parts[-1] == [plan.MAIN]
    assert [path for part in todo.parts for path in part] == todo.renames
    new = inventory.Inventory({}, (8 + 2) * 4096)
    with pytest.raises(ToolError, match="10 blocks of 4,096 bytes are free, 15 are needed"):
        plan.check_room(todo, new, 0, "port")


@pytest.mark.long
def test_in_the_shared_folders_what_flash_wrote_goes_and_what_the_user_wrote_stays(rig, tmp_path):
    """/station and /support may be names of the user's folders, too."""
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    gone = rig.tree / "boards" / "support" / "gone.py"
    gone.write_text("x = 1\n")
    board = rig.tree / "boards" / "RIG" / "board.py"
    now = board.read_text()
    board.write_text(now + "\nimport support.gone\n")
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    board.write_text(now)
    gone.unlink()
    (tmp_path / "mine.py").write_text("x = 2\n")
    for path in ("/support/mine.py", "/support/mine.mpy", "/station/mine.txt"):
        rig.mpremote("cp", tmp_path / "mine.py", f":{path}")
    rig.mpremote("cp", tmp_path / "mine.py", ":/support/cut.mpy.new")
    assert "/support/gone.mpy" in rig.hashes()
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    found = rig.hashes().keys()
    assert not {"/support/gone.mpy", "/support/cut.mpy.new"} & found and rig.is_whole()
    assert {"/support/mine.py", "/support/mine.mpy", "/station/mine.txt"} <= found


@pytest.mark.parametrize(
    "path", ["/support/pinned.py", pytest.param("/support/pinned.mpy", marks=pytest.mark.long)]
)
def test_a_module_of_the_users_in_a_shared_folder_is_not_overwritten(path, rig, tmp_path):
    (tmp_path / "mine.py").write_text("x = 2\n")
    rig.mpremote("mkdir", ":support")
    rig.mpremote("cp", tmp_path / "mine.py", f":{path}")
    before = rig.hashes()
    assert rig.outpost("flash", "--no-link") == 2
    assert f"{path} on the board is not Outpost's" in rig.err and "--replace" in rig.err
    assert rig.hashes() == before
    assert rig.outpost("flash", "--no-link", "--replace") == 0, rig.err
    assert rig.hashes()[f"{path}.kept"] == before[path] and rig.is_whole()
    assert rig.outpost("flash", "--no-link") == 0, "what was flashed is ours"


# --- Slow ---

SLOW = "import rig, time\nrig.state['flash'].chip.on_operation = lambda: time.sleep_ms(12)"


@pytest.mark.long
def test_pinning_that_takes_longer_than_an_answer_may_is_waited_for_line_by_line(rig):
    """The limit is scaled: 2 s, and pinning takes 3 (on an RP2040: 10 s, and 10.1)."""
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    steps = []
    with connection.connected(rig.port) as board:
        board.write("/settings.json", json.dumps(SETTINGS | {"outbox_blocks": 32}).encode())
        board.run(SLOW)
        began = time.monotonic()
        outbox = selftest.outbox(board, lambda done, total: steps.append((done, total)), 2.0)
        took_s = time.monotonic() - began
    assert not isinstance(outbox, str) and outbox.blocks == 32
    assert took_s > 2.5, "the flash is not slow"
    assert steps == [(done, 64) for done in range(4, 65, 4)]


@pytest.mark.long
def test_a_slow_board_is_flashed_with_the_defaults(rig):
    rig.order_slow_flash(5)
    assert (
        rig.outpost("flash", "--settings", settings_file(rig, outbox_blocks=64), "--no-link") == 0
    ), rig.err
    assert rig.row("outbox") == "64 blocks, pinned now; empty"


# --- What is said meanwhile ---


def test_each_step_is_said_when_it_begins(rig):
    """Where nobody looks at a bar, too."""
    port = children.free_port()
    settings = settings_file(rig, broker_port=port)
    assert rig.outpost("flash", "--settings", settings, "--link-timeout", 8) == 1
    lines = rig.err.splitlines()
    assert re.match(r"\[ *\d+\.\d s\] /dev/\S+: stopping the board's program$", lines[0])
    steps = [line.partition("] ")[2] for line in lines]
    order = (
        "compiling",
        "comparing",
        "copying",
        "self-test",
        "waiting until",
        "restart",
    )
    found = [next(n for n, step in enumerate(steps) if word in step) for word in order]
    assert found == sorted(found)
    assert any("not accepted yet: ECONNREFUSED" in step for step in steps), steps
    assert "nothing listens at 'broker_host', 'broker_port'" in rig.err


def test_progress_without_a_terminal_is_lines_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = progress.Progress()
    with shown.bar("copying", "B") as show:
        for done in range(0, 101, 10):
            show(done, 100)
            now[0] += 2.0
    shown.note("same")
    shown.note("same")
    assert capsys.readouterr().err.splitlines() == [
        "[  6.0 s] copying: 30 %",
        "[ 12.0 s] copying: 60 %",
        "[ 18.0 s] copying: 90 %",
        "[ 22.0 s] same",
    ]


# --- Cut off ---


@pytest.mark.long
def test_killed_at_random_and_repeated(rig):
    """SIGKILL of `outpost flash`, at a random moment from the first byte on; the board is then
    flashed, and whole.
    """
    chance = random.Random(SEED)
    print(f"OUTPOST_FLASH_SEED={SEED}")
    killed, runs, longest_s = 0, 0, 1.5
    while killed < KILLS:
        change_all(rig.tree, runs % 2)
        before = rig.image.read_bytes()
        with rig.flashing("--no-link") as process:
            rig.wait_for_change(before)
            time.sleep(chance.uniform(0, longest_s))
            alive = process.poll() is None
        # a fast machine
        killed, runs, longest_s = killed + alive, runs + 1, longest_s if alive else longest_s / 2
        assert rig.outpost("flash", "--no-link") == 0, (
            f"seed {SEED}, run {runs}: {rig.err}{rig.out}"
        )
        assert rig.is_whole(), f"seed {SEED}, run {runs}"
        assert runs < KILLS + 12, "every flash is faster than its kill"


def change_all(tree, number):
    """Each module gets other bytes (0: those of the repository), and main.py: nothing that is on
    the board will do.
    """
    code = ("firmware/main.py", "boards/RIG/board.py")
    patterns = ("firmware/*/**/*.py", "boards/support/*.py", *code)
    for path in [path for pattern in patterns for path in tree.glob(pattern)]:
        text = re.sub(r"\n__mark = .*", "", path.read_text().rstrip()).rstrip()
        path.write_text(
            f"{text}\n\n__mark = {number + 1000}\n"
            if number and path.name != "native.py"
            else text + "\n"
        )


@pytest.mark.long
def test_power_cut_at_random_and_repeated(rig):
    """Power off in the middle of a program or an erase of the flash, left half done."""
    chance = random.Random(SEED + 1)
    print(f"OUTPOST_FLASH_SEED={SEED}")
    cuts, number = 0, 0
    rig.mpremote("exec", "1")
    while cuts < CUTS:
        number += 1
        change_all(rig.tree, number % 2)
        operation, mode = (
            chance.randrange(1, OPERATIONS),
            chance.choice(["nothing", "all", "first", "last", "random"]),
        )
        rig.order_power_cut(operation, mode)
        starts = len(rig.starts)
        first = rig.outpost("flash", "--no-link", "--timeout", 3)
        cuts += first != 0
        # a busy machine: given up before the board was stopped, and the next flash is not to be cut
        (rig.folder / "orders.json").unlink(missing_ok=True)
        what = f"seed {SEED}, cut {number}: operation {operation}, {mode}, {rig.starts[starts:]}"
        assert rig.outpost("flash", "--no-link") == 0, f"{what}: {rig.err}{rig.out}"
        assert rig.is_whole(), what
        assert number < CUTS + 12, "no cut comes before the end"


@pytest.mark.long
def test_what_arrived_before_the_cut_is_not_sent_again(rig):
    rig.mpremote("exec", "1")
    before = rig.image.read_bytes()
    rig.order_power_cut(60, "nothing")
    assert (
        rig.outpost("flash", "--no-link", "--timeout", 4) == 2 and rig.image.read_bytes() != before
    )
    assert rig.outpost("flash", "--no-link") == 0, rig.err
    assert rig.is_whole()
    copied = int(re.search(r"\(([\d,]+) bytes", rig.row("files"))[1].replace(",", ""))
    assert copied < sum(map(len, rig.built().values()))


@pytest.mark.long
def test_an_old_version_runs_until_the_new_one_has_arrived(tmp_path, tree):
    """On a flash that has room for both."""
    with Rig(tmp_path / "rig", tree, blocks=2 * BLOCKS) as rig:
        assert rig.outpost("flash", "--no-link") == 0
        old = rig.wanted()
        change_all(rig.tree, 1)
        before = rig.image.read_bytes()
        with rig.flashing("--no-link"):
            rig.wait_for_change(before)
        assert old.items() <= rig.hashes().items()


def test_a_flash_without_room_for_two_versions_is_replaced_in_parts(
    tmp_path, tree, monkeypatch
):  # fmt: skip
    """Its outbox stays. Interrupted, the board waits at its prompt, and the same again mends it."""
    with Rig(tmp_path / "rig", tree, blocks=108) as rig:
        assert rig.outpost("flash", "--settings", settings_file(rig), "--no-link") == 0, rig.err
        pins = {path: one for path, one in rig.hashes().items() if path.startswith("/outbox/")}
        change_all(rig.tree, 1)
        rename, calls = install._commit, []

        def cut_off(board, *words, is_last):
            if len(calls) == 3:
                raise ToolError("cut off")
            calls.append(is_last)
            rename(board, *words, is_last=is_last)

        monkeypatch.setattr(install, "_commit", cut_off)
        assert rig.outpost("flash", "--no-link") == 2 and calls == [False] * 3
        assert "no room for the old files beside the new ones" in rig.err
        assert "/main.py" not in rig.hashes()
        monkeypatch.setattr(install, "_commit", rename)
        assert rig.outpost("flash", "--no-link") == 0, rig.err
        assert rig.is_whole() and "left as they were" in rig.row("outbox")
        assert {*pins} == {path for path in rig.hashes() if path.startswith("/outbox/")}


def test_bytes_damaged_on_the_way_do_not_come_into_use(rig, monkeypatch):
    assert rig.outpost("flash", "--no-link") == 0
    old = rig.wanted()
    change(rig.tree / "boards" / "support" / "crash_log.py", "const(1000)", "const(900)")
    write = connection.Board.write

    def spoilt(board, path, data, show):
        write(board, path, data[:50] + b"?" + data[51:], show)

    monkeypatch.setattr(connection.Board, "write", spoilt)
    assert rig.outpost("flash", "--no-link") == 2
    assert ".new did not arrive as it was sent" in rig.err
    assert old.items() <= rig.hashes().items()


# --- Refused ---


def test_a_board_of_another_kind_is_left_alone(rig):
    rig.mpremote("exec", "1")
    before = rig.image.read_bytes()
    assert rig.outpost("flash", "--board", "RPI_PICO_W") == 2
    assert re.search(r"is linux.*, not RPI_PICO_W \(rp2, RP2040\); name the right --board", rig.err)
    assert rig.image.read_bytes() == before


PICO = ("micropython", (1, 25, 0), "Raspberry Pi Pico W with RP2040", 4 << 10 | 3 << 8 | 6, "rp2")


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (
            0,
            "circuitpython",
            "install MicroPython from https://micropython.org/download/RPI_PICO_W/",
        ),
        (1, (1, 24, 1), "1.25.0 or newer is needed: https://micropython.org/download/RPI_PICO_W/"),
        (
            2,
            "Raspberry Pi Pico 2 W with RP2350",
            "not RPI_PICO_W (rp2, RP2040); name the right --board",
        ),
        (
            3,
            4 << 10 | 2 << 8 | 6,
            "takes .mpy files 6.2 armv6m, this Outpost makes 6.3: update the older of the two",
        ),
        (3, 6 | 3 << 8, "takes .mpy files 6.3 without machine code"),
        (4, "esp32", "name the right --board"),
    ],
)
def test_what_the_board_says_of_itself_must_fit(place, value, complaint):
    kind = kinds.load(REPOSITORY, "RPI_PICO_W")
    kinds.check(kind, kinds.Facts(*PICO), "/dev/ttyX")
    facts = [*PICO]
    facts[place] = value
    with pytest.raises(ToolError) as error:
        kinds.check(kind, kinds.Facts(*facts), "/dev/ttyX")
    assert complaint in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    ["RPI_PICO_W", "RPI_PICO2_W", "ESP32_GENERIC", "ESP32_GENERIC_S3", "ESP32_GENERIC_C3", "UNIX"],
)
def test_every_board_has_its_facts(name):
    kind = kinds.load(REPOSITORY, name)
    assert (kind.name, kind.micropython) == (name, (1, 25, 0)) and kind.sensors


@pytest.mark.parametrize("name", ["mine", "./mine", "my board"])
def test_a_board_of_ones_own_is_a_folder_here(name, tmp_path, monkeypatch):
    """As boards/PORTING.md says; a name without a slash was looked for among ours alone."""
    shutil.copytree(REPOSITORY / "boards" / "RPI_PICO_W", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert kinds.load(REPOSITORY, name).folder == (tmp_path / name).resolve()
    about = tmp_path / name / "board.json"
    about.write_text(about.read_text().replace('"1.25.0"', "1.25"))
    with pytest.raises(ToolError, match="compare it with boards/RPI_PICO_W"):
        kinds.load(REPOSITORY, name)


def test_no_such_board(capsys, rig):
    assert rig.outpost("flash", "--board", "RPI_PICO_X") == 2
    assert "no such board; one of ESP32_GENERIC" in rig.err


def test_no_room(tmp_path, tree):
    with Rig(tmp_path / "small", tree, blocks=50) as rig:
        rig.mpremote("exec", "1")
        before = rig.image.read_bytes()
        assert rig.outpost("flash", "--settings", settings_file(rig)) == 2
        assert (
            "'outbox_blocks'" in rig.err
            and "16 of them for the outbox" in rig.err
            and rig.err.count("outpost: ") == 1
        )
        assert rig.image.read_bytes() == before


def test_bad_settings_stop_a_flash_before_the_port_is_opened(rig):
    assert (
        rig.outpost(
            "flash", "--settings", settings_file(rig, interval_ms=0), "--port", "/dev/nothing"
        )
        == 2
    )
    assert "settings.toml: key 'interval_ms' must be 1 to" in rig.err


def test_an_outbox_that_cannot_be_opened_is_told_and_left_alone(rig):
    settings = settings_file(rig)
    assert rig.outpost("flash", "--settings", settings, "--no-link") == 0, rig.err
    rig.mpremote("rm", ":/outbox/0003.pin")
    assert rig.outpost("flash", "--settings", settings, "--no-link") == 1
    assert "failed: /outbox/0003.pin: gone, and its block with it" in rig.row("outbox")
