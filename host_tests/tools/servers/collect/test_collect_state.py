# cpython-only: tests a desktop tool
"""The snapshot and the lines of changes: a seal costs what changed; what is torn or damaged costs
time and no key.
"""

import errno
import json

import pytest

from outpost_tools.messages.message import Key
from outpost_tools.servers.collect import state as state_module
from outpost_tools.servers.collect.durable import Durable
from outpost_tools.servers.collect.state import Saved


def add(durable, device, seq, *, confirmed=True):
    durable.add(Key(device, "0badcafe", seq, 0))
    if confirmed:
        durable.confirmation(device)


@pytest.fixture
def saved(tmp_path):
    """Two boards in the snapshot (segment 0), two lines (segments 1 and 2)."""
    one, durable = Saved(tmp_path, "c1"), Durable()
    for device in ("b1", "b2"):
        add(durable, device, 0)
    one.save(durable, 0)
    add(durable, "b2", 1)
    one.save(durable, 1)
    add(durable, "b3", 5, confirmed=False)
    one.save(durable, 2)
    return tmp_path, durable


def loaded(folder):
    one = Saved(folder, "c1")
    return one.load(keep_news=False), one


def test_all_that_was_saved_is_loaded(saved):
    folder, durable = saved
    again, one = loaded(folder)
    assert again.to_json() == durable.to_json() and one.sealed_through == 2
    assert json.loads((folder / "state.json").read_text())["sealed_through"] == 0


def test_a_seal_writes_the_devices_that_changed_and_no_other(saved):
    folder, _ = saved
    lines = (folder / "state.changes").read_bytes().splitlines()
    found = [json.loads(line.partition(b" ")[2]) for line in lines]
    assert [list(one["streams"]) for one in found] == [["b2"], ["b3"]]


def test_lines_cut_anywhere_are_as_if_the_seal_had_not_been_saved(saved):
    folder, _ = saved
    changes = folder / "state.changes"
    data = changes.read_bytes()
    first = data.index(b"\n") + 1
    for cut in range(len(data)):
        changes.write_bytes(data[:cut])
        again, one = loaded(folder)
        assert one.sealed_through == (1 if cut >= first else 0)
        assert again.confirmation("b2") == b"0badcafe %d" % one.sealed_through
        assert again.devices() == ["b1", "b2"]


def test_a_flipped_bit_ends_the_lines_and_the_next_save_replaces_them(saved):
    folder, _ = saved
    changes = folder / "state.changes"
    data = bytearray(changes.read_bytes())
    for at in range(0, len(data), 5):
        data[at] ^= 4
        changes.write_bytes(data)
        again, one = loaded(folder)
        assert one.sealed_through in (0, 1)
        data[at] ^= 4
    add(again, "b3", 5)
    one.save(again, 2)
    assert not changes.exists()
    assert loaded(folder)[0].to_json() == again.to_json()


def test_killed_between_the_snapshot_and_the_end_of_the_lines(saved):
    folder, durable = saved
    lines = (folder / "state.changes").read_bytes()
    add(durable, "b2", 2)
    Saved(folder, "c1").save_all(durable, 3)
    (folder / "state.changes").write_bytes(lines)  # older than the snapshot
    again, one = loaded(folder)
    assert one.sealed_through == 3 and again.to_json() == durable.to_json()


def test_the_snapshot_is_replaced_when_the_lines_outgrow_it(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module, "_SPARE_BYTES", 0)
    one, durable = Saved(tmp_path, "c1"), Durable()
    for number in range(50):
        add(durable, f"b{number}", 0)
    one.save(durable, 0)
    written = []
    for number in range(1, 200):
        add(durable, "b1", number)
        one.save(durable, number)
        snapshot = json.loads((tmp_path / "state.json").read_text())["sealed_through"]
        written.append(snapshot)
        again, other = loaded(tmp_path)
        assert other.sealed_through == number and again.to_json() == durable.to_json()
    assert 3 <= len(set(written)) <= 20


def test_a_line_that_could_not_be_written_is_never_appended_to(saved, monkeypatch):
    folder, _ = saved
    again, one = loaded(folder)
    add(again, "b1", 1)
    real = state_module.Path.open

    def refuses(path, mode="r", **more):
        if mode == "ab":
            with real(path, "ab") as file:
                file.write(b"0000")
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, mode, **more)

    monkeypatch.setattr(state_module.Path, "open", refuses)
    with pytest.raises(OSError, match="No space"):
        one.save(again, 3)
    monkeypatch.undo()
    one.save(again, 3)
    assert loaded(folder)[0].to_json() == again.to_json()


def test_a_snapshot_of_an_older_version_of_outpost_is_taken_over(tmp_path):
    old = {"version": 1, "collector": "c1", "sealed_through": 7}
    old |= {"streams": {"b1": {"0badcafe": [3, [[5, 6]]]}}, "latest": {"b1": "0badcafe"}}
    (tmp_path / "state.json").write_text(json.dumps(old))
    again, one = loaded(tmp_path)
    assert again.to_json() == {"streams": old["streams"], "latest": old["latest"]}
    assert one.sealed_through == 7


def test_a_large_snapshot_is_written_in_portions_and_is_one_json(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module, "_DEVICES_AT_ONCE", 3)
    for count in (0, 1, 3, 7):
        one, durable = Saved(tmp_path, "c1"), Durable()
        for number in range(count):
            add(durable, f"b{number}", 0)
        one.save_all(durable, 0)
        again, _ = loaded(tmp_path)
        assert again.to_json() == durable.to_json() and len(again.all_devices()) == count
