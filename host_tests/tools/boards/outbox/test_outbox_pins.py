# cpython-only: tests a desktop tool
"""A board whose pinned files are gone, or whose filesystem was made again: what the tools save of
its outbox, and how it gets a new one.
"""

import json
import time

import pytest

from flash_rig import SETTINGS, Rig
from outpost_tools import cli
from real_broker import wait_for

pytestmark = pytest.mark.timeout(600)
FORGET = """
import os
for name in os.listdir("/outbox"):
    os.remove("/outbox/" + name)
os.rmdir("/outbox")
"""


@pytest.fixture
def rig(tmp_path, tree):
    """A board at work, without a broker: its outbox fills."""
    with Rig(tmp_path / "rig", tree) as found:
        path = found.folder / "settings.toml"
        path.write_text(
            "".join(
                f"{key} = {json.dumps(value)}\n"
                for key, value in {**SETTINGS, "outbox_blocks": 8}.items()
            )
        )
        assert found.outpost("flash", "--settings", path, "--no-link") == 0, found.err
        wait_for(lambda: found.is_running_its_program, "its program")
        wait_for(lambda: held(found) > 30, "30 messages")
        yield found


def held(found):
    try:
        return found.image.read_bytes().count(b"outpost/rig-1/data")
    except OSError:
        return 0


def leave_to_make_its_outbox(found):
    """To look is to stop its program, so it gets more time each time."""
    for patience_s in (2, 4, 8, 16, 32, 64):
        time.sleep(patience_s)
        if "map" in found.mpremote("ls", "/outbox"):
            return
        found.power_cut()
    raise AssertionError("it makes no outbox")


def outbox(capsys, *words):
    capsys.readouterr()
    status = cli.main(["outbox", *map(str, words)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def exported(text):
    return [json.loads(line)["seq"] for line in text.splitlines()]


@pytest.mark.long
def test_a_lost_pin_is_told_what_it_held_is_saved_and_a_new_outbox_made(rig, capsys):
    rig.mpremote("exec", "import os; os.remove('/outbox/0005.pin')")
    status, out, err = outbox(capsys, "health", "--live", rig.port)
    assert status == 1 and "0005.pin: gone" in err and "new outbox (outpost outbox new)" in out
    status, out, _ = outbox(capsys, "export", "--live", rig.port, "--json-lines", "-")
    saved = exported(out)
    assert status == 0 and len(saved) > 30 and saved == list(range(len(saved)))
    status, out, err = outbox(capsys, "new", "--live", rig.port)
    assert status == 2 and "messages are held in it: save them" in err and "--yes" in err
    assert "0004.pin" in rig.mpremote("ls", "/outbox")
    status, out, err = outbox(capsys, "new", "--live", rig.port, "--yes")
    assert status == 0 and "the board makes a new outbox now" in out
    leave_to_make_its_outbox(rig)
    rig.power_cut()
    wait_for(lambda: rig.is_running_its_program, "its program")
    status, out, _ = outbox(capsys, "health", "--live", rig.port)
    assert status == 0 and "sound" in out


@pytest.mark.long
def test_after_its_folder_is_gone_the_board_refuses_and_raw_saves_all(rig, capsys):
    before = outbox(capsys, "export", "--live", rig.port, "--json-lines", "-")[1]
    rig.mpremote("exec", FORGET)
    status, out, err = outbox(capsys, "export", "--live", rig.port, "--json-lines", "-")
    assert (status, out) == (2, "") and "parts of an earlier outbox in" in err
    status, out, _ = outbox(capsys, "export", "--live", rig.port, "--raw", "--json-lines", "-")
    assert set(exported(before)) <= set(exported(out))
    status, out, err = outbox(capsys, "new", "--live", rig.port)
    assert status == 2 and "--raw" in err


@pytest.mark.long
def test_a_sound_board_is_sound_and_its_outbox_is_not_thrown_away(rig, capsys):
    status, out, _ = outbox(capsys, "health", "--live", rig.port)
    assert status == 0 and "room for" in out and "no block" in out
    status, _, err = outbox(capsys, "new", "--live", rig.port)
    assert status == 2 and "messages are held in it: save them" in err
    status, out, _ = outbox(capsys, "health", "--live", rig.port, "--json")
    found = json.loads(out)
    assert found["sound"] and found["held"] > 30 and found["left_out"] == []
