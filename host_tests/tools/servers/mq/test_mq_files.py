# cpython-only: tests a desktop command
"""`outpost mq` with files that are not what it takes them for: one line and status 2, and the file
as it was."""

import contextlib
import fcntl
import subprocess

import pytest

import outpost_command
from outpost_tools import cli
from outpost_tools.log import segments
from outpost_tools.machine import children
from outpost_tools.servers.mq import sources


@pytest.fixture
def bridge(tmp_path, monkeypatch, capfd):
    """Runs `outpost mq bridge --segments log ...`; (status, stderr)."""
    (tmp_path / "log").mkdir()
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = cli.main(["mq", "bridge", "--segments", "log", *words])
        return status, capfd.readouterr().err

    return run


@pytest.mark.parametrize(
    "text",
    [
        '{"segment": 1e999, "offset": 8}', '{"segment": 1, "offset": -5}', "[" * 100_000,
        '{"segment": true, "offset": 8}', '{"segment": 1, "offset": "8"}', '{"segment": 1}', "\xff",
    ],
    ids=lambda one: one[:30],
)  # fmt: skip
def test_a_position_that_is_none_is_told(bridge, tmp_path, text):
    (tmp_path / "position.json").write_bytes(text.encode("latin-1"))
    status, err = bridge("--lines", "out.jsonl")
    assert status == 2 and "position.json contains no position" in err


@pytest.mark.parametrize("data", [b"a = 'x'\nb", b"\x00\xff\n\x01", b"{\n}", b"[1]\n"])
@pytest.mark.parametrize("option", ["--lines", "--refused"])
def test_a_file_of_something_else_is_not_cut(bridge, tmp_path, option, data):
    (tmp_path / "mine").write_bytes(data)
    status, err = bridge(option, "mine", *(["--files", "out"] if option == "--refused" else []))
    assert status == 2 and "mine: contains something other than JSON lines" in err
    assert (tmp_path / "mine").read_bytes() == data


def test_what_a_torn_write_left_is_cut(bridge, tmp_path):
    for data in (b"{", b'{"queue": "A'):
        (tmp_path / "out.jsonl").write_bytes(data)
        assert bridge("--lines", "out.jsonl")[0] == 0
        assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_what_is_no_file_is_told(bridge):
    """Also if another program of this machine has locked the device."""
    with open("/dev/full") as device:
        with contextlib.suppress(BlockingIOError):  # another run of this test has
            fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status, err = bridge("--lines", "/dev/full")
    assert status == 2 and "/dev/full: not a regular file" in err


@pytest.mark.parametrize(
    "words, said",
    [
        (["--lines", "a", "--position", "./a"], "--lines and --position: a cannot be both"),
        (["--lines", "a", "--refused", "a"], "--lines and --refused: a cannot be both"),
        (["--lines", "position.json"], "--lines and --position: position.json cannot be both"),
        (["--files", "f", "--refused", "p", "--position", "p"], "--refused and --position: p"),
    ],
)
def test_no_file_is_two_things(bridge, tmp_path, words, said):
    status, err = bridge(*words)
    assert status == 2 and said in err
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_only_parts_of_messages_are_removed(bridge, tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("film.mkv.part", "000000000003.part"):
        (tmp_path / "out" / name).write_bytes(b"x")
    assert bridge("--files", "out")[0] == 0
    assert (tmp_path / "out" / "film.mkv.part").exists()
    assert not (tmp_path / "out" / "000000000003.part").exists()


def test_a_text_that_is_no_utf_8_is_told(capfd):
    assert cli.main(["mq", "build", "--topic", "a", "--text", "\udcff"]) == 2
    assert "--text: not UTF-8" in capfd.readouterr().err


@pytest.mark.parametrize("form", ["json", "raw"])
def test_a_full_disk_is_told(form):
    words = outpost_command.line("mq", "build", "--topic", "a")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*words, "--form", form], stdout=full, stderr=subprocess.PIPE, check=False,
            env=children.tools_environment(),
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, b"outpost: stdout: No space left on device\n")


def test_positions_are_read_back(tmp_path):
    for begins in (None, 0, 0xFFFF_FFFF):
        sources._write_position(tmp_path / "p", (3, 1 << 40), begins)
        assert sources._read_position(tmp_path / "p") == ((3, 1 << 40), begins)
    (tmp_path / "p").write_text('{"segment": 3, "offset": 8}')  # of an earlier version
    assert sources._read_position(tmp_path / "p") == ((3, 8), None)


def write_log(directory, payloads, received_ms=1):
    """Each in a segment of its own."""
    writer = segments.SegmentWriter(directory)
    for payload in payloads:
        writer.append(segments.encode_frame(received_ms, b"a", payload))
        writer.seal()


@pytest.mark.parametrize("segments_of_it", [2, 3, 4])
def test_the_position_in_another_log_is_told_and_nothing_is_skipped(
    bridge, tmp_path, monkeypatch, segments_of_it
):
    """Its segments are fewer, as many, or more."""
    write_log(tmp_path / "log", [b"1", b"2", b"3"])
    assert bridge("--lines", "out.jsonl")[0] == 0
    (tmp_path / "log").rename(tmp_path / "old")
    write_log(tmp_path / "log", [b"4"] * segments_of_it, 2)
    before = (tmp_path / "out.jsonl").read_bytes()
    status, err = bridge("--lines", "out.jsonl")
    assert status == 2 and "position.json belongs to another log than log" in err
    assert (tmp_path / "out.jsonl").read_bytes() == before
    assert bridge("--lines", "out.jsonl", "--position", "its")[0] == 0
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == 3 + segments_of_it


def test_a_log_that_was_pruned_goes_on(bridge, tmp_path):
    """The newest segment stays then."""
    write_log(tmp_path / "log", [b"1", b"2"])
    assert bridge("--lines", "out.jsonl")[0] == 0
    segments.sealed_segments(tmp_path / "log")[0].unlink()
    assert bridge("--lines", "out.jsonl")[0] == 0
    write_log(tmp_path / "log", [b"3"])
    assert bridge("--lines", "out.jsonl")[0] == 0
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == 3
