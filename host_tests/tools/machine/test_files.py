# cpython-only: desktop tools
"""Small files that are replaced: durable before the name is theirs, and the old one until then."""

import os
import threading

import pytest

from outpost_tools.machine import files


def test_the_text_is_on_the_disk_before_it_has_the_name(tmp_path, monkeypatch):
    path, said = tmp_path / "note", []
    path.write_text("old")

    def note(handle):
        said.append((os.path.isdir(f"/proc/self/fd/{handle}"), path.read_text()))

    monkeypatch.setattr(os, "fsync", note)
    files.replace_text(path, "new")
    assert said == [(False, "old"), (True, "new")]  # the file, then its folder
    assert os.listdir(tmp_path) == ["note"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    """As root, a device such as /dev/null, too."""
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    files.replace_text(path, "new")
    reader.join()
    assert (got, path.is_fifo(), os.listdir(tmp_path)) == ([b"new"], True, ["pipe"])


def test_a_link_stays_and_its_file_keeps_its_mode(tmp_path):
    path, link = tmp_path / "note", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to("note")
    files.replace_text(link, "new")
    assert (link.is_symlink(), path.read_text()) == (True, "new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_folder_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (files.Path("."), files.Path(), tmp_path):
        with pytest.raises(IsADirectoryError):
            files.replace_text(path, "new")
    assert os.listdir(tmp_path) == []


def test_a_disk_that_refuses_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "note"
    path.write_text("old")

    def refuse(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        files.replace_text(path, "new")
    assert (os.listdir(tmp_path), path.read_text()) == (["note"], "old")
