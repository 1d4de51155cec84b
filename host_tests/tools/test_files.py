# cpython-only: desktop tools
"""Small files that are replaced: durable before the name is theirs, and the old one until then."""

import os

import pytest

from outpost_tools.common import files


def test_the_text_is_on_the_disk_before_it_has_the_name(tmp_path, monkeypatch):
    path, said = tmp_path / "note", []
    path.write_text("old")

    def note(handle):
        said.append((os.path.isdir(f"/proc/self/fd/{handle}"), path.read_text()))

    monkeypatch.setattr(os, "fsync", note)
    files.replace_text(path, "new")
    assert said == [(False, "old"), (True, "new")]  # the file, then its folder
    assert os.listdir(tmp_path) == ["note"]


def test_a_disk_that_refuses_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "note"
    path.write_text("old")

    def refuse(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        files.replace_text(path, "new")
    assert (os.listdir(tmp_path), path.read_text()) == (["note"], "old")
