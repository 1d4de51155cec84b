# cpython-only: a folder of this machine, and places that a user may name
"""A Store in a folder, and what is refused as a place."""

import threading

import pytest

from outpost_tools.errors import ToolError
from outpost_tools.store import at, probe
from outpost_tools.store.base import Entry


def test_a_file_is_put_created_once_listed_and_deleted(tmp_path):
    store = at.at(tmp_path / "log") / "c1"
    assert store.create("a", b"first") and not store.create("a", b"second")
    assert store.create("a", b"first")  # a repeat of the same is the same file
    store.put("b", b"12")
    store.put("b", b"123")
    store.write("sub/c", b"1")
    store.sync(["sub/c", "gone"])
    assert store.entries() == [Entry("a", 5), Entry("b", 3)]
    assert store.entries(after="a") == [Entry("b", 3)]
    assert (store.folders(), at.at(tmp_path / "log").folders()) == (["sub"], ["c1"])
    assert (store.get("a"), store.size("b"), store.exists("sub/c")) == (b"first", 3, True)
    store.delete(["a", "a", "nothing"])
    assert not store.exists("a")
    with pytest.raises(FileNotFoundError):
        store.get("a")


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    store = at.at(tmp_path / "nothing")
    assert (store.entries(), store.folders(), store.exists("a")) == ([], [], False)


def test_a_folder_needs_no_probe(tmp_path):
    probe.check(at.at(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["hdfs://host/log", "ftp://host/log", "http://host/log", "x1:/y"])
def test_a_scheme_that_is_not_known_is_refused(place):
    with pytest.raises(ToolError, match="not a place that Outpost can store in"):
        at.at(place)


@pytest.mark.parametrize("place", ["s3://", "s3:/bucket/log", "s3://user:word@bucket/log"])
def test_a_url_without_a_plain_bucket_is_refused(place):
    with pytest.raises(ToolError, match="write it as s3://BUCKET/FOLDER"):
        at.at(place)


@pytest.mark.parametrize("folder", ["a%20b", "a#b", "a?b=c", "a\\b", "a\nb"])
def test_a_folder_whose_name_delta_reads_differently_is_refused(folder):
    with pytest.raises(ToolError, match="not in the name of a folder"):
        at.at(f"s3://bucket/{folder}/log")


def test_a_folder_that_begins_with_a_dot_is_not_listed(tmp_path):
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "seen").mkdir()
    assert at.at(tmp_path).folders() == ["seen"]


def test_a_listing_beside_renames_has_all_files_that_stay(tmp_path):
    """A collector seals its segment while it is listed: once the whole listing was empty then."""
    store, stays = at.at(tmp_path), [f"segment-{n}.seg" for n in range(50)]
    for name in stays:
        store.put(name, b"x")
    stopping = threading.Event()

    def rename() -> None:
        while not stopping.is_set():
            (tmp_path / "segment.open").write_bytes(b"x")
            (tmp_path / "segment.open").rename(tmp_path / "segment.sealed")

    renaming = threading.Thread(target=rename)
    renaming.start()
    try:
        for _ in range(500):
            assert {*stays} <= {one.name for one in store.entries()}
    finally:
        stopping.set()
        renaming.join()
