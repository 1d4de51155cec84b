# cpython-only: Arrow
"""`outpost export` against a ground truth and, for which copy counts, against silver's own
function. Beside silver made by Spark: pipeline_export.py.
"""

import contextlib
import csv
import datetime
import itertools
import json
import os
import pty
import random
import resource
import signal
import subprocess
import sys
import threading

import pytest

import outpost_command
from ground_truth import SEED, START_MS, WEEK_MS, Board, Log
from optional_packages import needed
from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.text import csv_cells

with needed("the pipeline's packages"):
    import pyarrow as pa
    import pyarrow.parquet

    from outpost_tools.readings.export import log_files, run, sinks
    from outpost_tools.readings.export.copies import Copies
    from outpost_tools.readings.export.selection import Selection
    from outpost_tools.readings.pipeline import fingerprints, promises, schemas, transforms

T0 = START_MS / 1000
COMMAND = outpost_command.line("export")


def pack(seq, *, boot=1, up=None, bt=None, value=None, name="load", device="board-5", unit=None):
    head = {"bn": f"{device}/", "sid": "00000005", "seq": seq, "boot": boot, "held": 0, "ver": 1}
    head |= {label: one for label, one in (("bt", bt), ("up", up), ("u", unit)) if one is not None}
    return json.dumps([head | {"n": name, "v": seq if value is None else value}]).encode()


def frame(content, received_ms, device="board-5"):
    return segments.encode_frame(received_ms, f"outpost/{device}/data".encode(), content)


def put(log, *contents, collector="collector-1", received_ms=START_MS + WEEK_MS, seal=True):
    """A segment of that collector."""
    writer = segments.SegmentWriter(log / collector)
    writer.append_all([frame(content, received_ms + n) for n, content in enumerate(contents)])
    writer.commit()
    return writer.seal() if seal else None


def exported(log, *options) -> tuple[int, list[dict]]:
    """(exit status, rows) of the command, by Parquet."""
    out = log.parent / f"{log.name}-exported.parquet"
    status = cli.main(["export", "--log", str(log), "--out", str(out), *options])
    return status, pyarrow.parquet.read_table(out).to_pylist()


def truth(rows: list[dict]) -> list[tuple]:
    """In the form of ground_truth."""
    names = ("device", "stream", "seq", "record", "boot", "name", "unit", "value")
    return [
        (
            *(row[name] for name in names),
            row["time"] and round(row["time"].timestamp() * 1000),
            row["uptime_s"],
        )
        for row in rows
    ]


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """Three collectors, four boards, repeats, disorder, refused frames; segments of two kinds."""
    log = Log(tmp_path_factory.mktemp("export") / "log", SEED)
    boards = [Board(f"board-{n}", f"{n:08x}", clock_ms=START_MS if n else None) for n in range(4)]
    for seq, board in itertools.product(range(500), boards):
        log.message(board, seq)
    log.refuse("board-1", b"{", "not JSON")
    log.refuse("board-1", b"[]", "no list of records")
    log.refuse("board-1", b"[", "not JSON")
    log.repeat_some(0.2)
    log.disorder(500)
    log.seal(["collector-1", "collector-2", "collector-3"], per_segment=300)
    log.message(boards[1], 500)
    log.message(boards[1], 499)
    log.seal(["collector-2"], per_segment=50)
    return log


def test_it_is_the_ground_truth_row_for_row(big, capfd, monkeypatch):
    for kept_bytes in (run._KEPT_BYTES, 0):  # held in memory, and read twice
        monkeypatch.setattr(run, "_KEPT_BYTES", kept_bytes)
        status, rows = exported(big.directory, "--columns", "all")
        found = truth(rows)
        assert status == 0 and len(found) == len(set(found)) and set(found) == big.rows
        said = capfd.readouterr().err
        copies = big.copies - len(big.rows) // 2
        assert f"{len(big.rows):,} readings" in said and f"{copies:,} of them copies" in said
        assert "3 frames are not valid messages" in said and "2  not JSON" in said


def test_the_rows_stand_as_in_the_log_or_by_time(big):
    _, rows = exported(big.directory, "--columns", "all")
    places = [(row["collector"], row["segment"], row["offset"], row["record"]) for row in rows]
    assert places == sorted(places)
    _, by_time = exported(big.directory, "--columns", "all", "--order", "time")
    times = [row["time"] for row in by_time if row["time"] is not None]
    assert times == sorted(times) and by_time[-1]["time"] is None
    assert sorted(map(str, by_time)) == sorted(map(str, rows))


def test_all_formats_say_the_same(big, tmp_path):
    _, expected = exported(big.directory)
    for name in ("readings.csv", "readings.jsonl"):
        assert cli.main(["export", "--log", str(big.directory), "--out", str(tmp_path / name)]) == 0
    with (tmp_path / "readings.csv").open(newline="") as file:
        as_csv = list(csv.DictReader(file))
    lines = (tmp_path / "readings.jsonl").read_text().splitlines()
    as_json = [json.loads(line) for line in lines]
    for rows in (as_csv, as_json):
        for row in rows:
            for column in ("time", "received"):
                row[column] = row[column] and datetime.datetime.fromisoformat(row[column])
    assert as_json == expected
    kinds = {"value": float, "seq": int, "record": int}
    texts = [{name: kinds.get(name, str)(text) for name, text in row.items()} for row in as_csv]
    absent = {"time": "None", "unit": ""}
    for row in expected:
        row.update({name: text for name, text in absent.items() if row[name] is None})
        row.update({name: str(row[name]) for name in ("time", "received")})
    assert [row | {"time": row["time"] or "None"} for row in texts] == expected


def test_any_text_survives_csv(tmp_path):
    names = ['a "b", c', "line\nbreak", "=1+1", "größe", "x,y", "-x", "'=1", "@SUM(A1)", "+a"]
    names += ["\tb", "-5", "'x"]
    put(tmp_path / "log", *(pack(n, bt=T0, name=name) for n, name in enumerate(names)))
    out = tmp_path / "out.csv"
    assert cli.main(["export", "--log", str(tmp_path / "log"), "--out", str(out)]) == 0
    with out.open(newline="") as file:
        written = [row["name"] for row in csv.DictReader(file)]
    assert [csv_cells.original(name) for name in written] == names
    assert [name for name in written if name[0] in "=+-@\t\r"] == ["-5"], "a number runs nothing"


def test_open_segments_are_read_and_an_unfinished_write_is_told(big, tmp_path, capfd):
    log = tmp_path / "log"
    put(log, *(pack(n, bt=T0 + n) for n in range(5)))
    put(log, *(pack(n, bt=T0 + n) for n in range(5, 9)), seal=False)
    (opened,) = segments.open_segments(log / "collector-1")
    with opened.open("ab") as file:
        file.write(frame(pack(9), START_MS)[:-3])
    status, rows = exported(log)
    assert status == 0 and [row["seq"] for row in rows] == list(range(9))
    assert f"{opened}: its last" in capfd.readouterr().err
    segments.SegmentWriter(log / "collector-1")  # the collector's next start
    assert exported(log) == (0, rows)
    assert "its last" not in capfd.readouterr().err


def test_an_open_segment_that_is_sealed_between_the_two_readings_counts_as_it_was(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(run, "_KEPT_BYTES", 0)
    writer = segments.SegmentWriter(tmp_path / "log" / "collector-1")
    writer.append_all([frame(pack(n, bt=T0), START_MS + n) for n in range(3)])
    writer.commit()
    log, seen = log_files.find(tmp_path / "log"), []

    def seal(size: int) -> None:
        if not seen:
            writer.append(frame(pack(3, bt=T0), START_MS + 3))
            writer.seal()
        seen.append(size)

    with (tmp_path / "out.jsonl").open("wb") as file:
        sink = sinks.sink("jsonl", file, run.schema_of(["seq"]))
        run.export(log, Selection(), ["seq"], sink, step=seal)
    assert (tmp_path / "out.jsonl").read_text() == '{"seq":0}\n{"seq":1}\n{"seq":2}\n'
    assert sum(seen) == run.bytes_to_read(log)


_COLLECTOR = """
import sys
from outpost_tools.log import segments
from test_export import START_MS, frame, pack
writer = segments.SegmentWriter(__import__("pathlib").Path(sys.argv[1]), max_bytes=20_000)
for seq in range(1_000_000):
    writer.append(frame(pack(seq, bt=START_MS / 1000 + seq), START_MS + seq))
    writer.commit()
    print(seq, flush=True)
"""


def test_a_collector_that_writes_on_and_is_killed_costs_nothing(tmp_path):
    """Each export has all that was durable when it began, each message once."""
    folder = tmp_path / "log" / "collector-1"
    line = [sys.executable, "-c", _COLLECTOR, str(folder)]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=os.environ | paths)
    try:
        for _ in range(4):
            for _ in range(100):
                durable = int(writer.stdout.readline())
            status, rows = exported(tmp_path / "log")
            numbers = [row["seq"] for row in rows]
            assert status == 0 and numbers == list(range(len(numbers))) and len(numbers) > durable
    finally:
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
    status, rows = exported(tmp_path / "log")
    assert status == 0 and len(rows) > int(rest[-1] if rest else durable)


def random_copies(chance: random.Random) -> dict[str, list[bytes]]:
    """Frames of three collectors: copies, contents of another, clocks that go back."""
    frames = {f"collector-{n}": [] for n in range(3)}
    clock = dict.fromkeys(frames, START_MS)
    for _ in range(150):
        name = chance.choice(list(frames))
        clock[name] += chance.choice((0, 0, 1, 5, -3))
        seq, device = chance.randrange(25), f"board-{chance.randrange(2)}"
        up = chance.choice((None, float(seq)))
        bt = T0 + seq if up is None or chance.random() < 0.3 else None
        content = pack(
            seq, boot=1 + seq // 10, up=up, bt=bt, value=chance.choice((0, 0, 0, 1)), device=device
        )
        frames[name].append(frame(content, clock[name], device))
    return frames


@pytest.mark.parametrize("seed", range(8))
def test_which_copy_counts_is_silvers_choice(seed, tmp_path, monkeypatch):
    """Copies of two boards in three logs, read in portions, beside transforms.mark_streams()."""
    chance = random.Random(seed)
    for name, frames in random_copies(chance).items():
        writer = segments.SegmentWriter(tmp_path / name, max_bytes=1500)
        for one in frames:
            writer.append(one)
            writer.commit()
        writer.seal()
    monkeypatch.setattr(log_files, "_PORTION_BYTES", 4000)
    monkeypatch.setattr(run, "_SMALL_BYTES", chance.choice((0, 1 << 20)))
    log, held = log_files.find(tmp_path), []
    sink = type("Sink", (), {"write": staticmethod(held.append)})
    account = run.export(log, Selection(), schemas.READING.names, sink)
    everything = [
        run._Export(log, Selection(), [], sink, False, print)._read([f]) for f in log.files
    ]
    rows = pa.concat_tables([readings for readings, _ in everything])
    marked = transforms.mark_streams(rows, schemas.STREAM.empty_table(), fingerprints.Known())
    assert sorted(map(repr, pa.concat_tables(held).to_pylist())) == sorted(
        map(repr, promises.written(marked.readings).to_pylist())
    )
    assert account.conflicts.total() == marked.conflicts.num_rows > 0
    assert account.messages == 150 and account.repeats > 50


def test_a_log_that_changes_between_the_readings_is_told():
    def rows(*offsets):
        row = {"device": "d", "stream": "0000000a", "seq": 1, "record": 0, "boot": 1, "version": 1}
        row |= {"name": "n", "value": 1.0, "collector": "c", "segment": 1}
        found = [row | {"offset": offset, "received": offset} for offset in offsets]
        return pa.Table.from_pylist(found, schemas.READING)

    copies = Copies(["c"], lambda places: rows())
    copies.note(rows(8, 90))
    copies.settle()
    with pytest.raises(ToolError, match="changed while it was read"):
        copies.keep(rows(8, 95))


def test_conflicts_are_told_and_not_exported(tmp_path, capfd):
    log = tmp_path / "log"
    put(log, pack(0, bt=T0), pack(0, bt=T0, value=7), pack(0, bt=T0), pack(0, bt=T0, value=7))
    status, rows = exported(log)
    assert status == 1 and [row["value"] for row in rows] == [0]
    assert "1 messages have the number of another" in (said := capfd.readouterr().err)
    assert "board-5 (1)" in said


def test_readings_before_the_clock_get_their_time(tmp_path, capfd):
    log = tmp_path / "log"
    put(log, pack(0, boot=7, up=10), pack(1, boot=8, up=5))
    put(log, pack(2, boot=7, up=30, bt=T0 + 30), collector="collector-2")
    _, rows = exported(log, "--columns", "seq,time,placed")
    found = {row["seq"]: (row["time"] and row["time"].timestamp(), row["placed"]) for row in rows}
    assert found == {0: (T0 + 10, True), 1: (None, None), 2: (T0 + 30, None)}
    assert exported(log, "--until", "2030-01-01")[1] != []
    assert "1 readings have no time" in capfd.readouterr().err


def test_devices_metrics_and_times(tmp_path, capfd):
    log = tmp_path / "log"
    for device in ("lab-1", "lab-2", "kitchen"):
        contents = [pack(n, bt=T0 + 3600 * n, device=device, name=f"m{n % 2}") for n in range(6)]
        writer = segments.SegmentWriter(log / "collector-1")
        writer.append_all([frame(one, START_MS + WEEK_MS, device) for one in contents])
        writer.seal()

    def found(*options):
        _, rows = exported(log, *options)
        return sorted((row["device"], row["seq"]) for row in rows)

    assert found("--device", "lab-*") == [(f"lab-{n}", seq) for n in (1, 2) for seq in range(6)]
    assert found("--device", "lab-2", "--device", "kitchen", "--metric", "m1") == [
        (name, seq) for name in ("kitchen", "lab-2") for seq in (1, 3, 5)
    ]
    # 2025-11-21T03:00Z is number 0; the end is excluded
    since, until = ("--since", "2025-11-21T05:00+01:00"), ("--until", "2025-11-21T06:00")
    assert found("--device", "kitchen", *since, *until) == [("kitchen", 1), ("kitchen", 2)]
    assert found("--device", "kitchen", "--since", "2025-11-22") == []
    assert "the newest is from 2025-11-21T08:00:00Z" in capfd.readouterr().err
    assert found("--device", "attic") == [] and found("--metric", "x") == []
    said = capfd.readouterr().err
    assert "no message of attic in the log" in said and "no reading of these metrics" in said
    assert found("--last", "1h") == [] and len(found("--last", "36500d")) == 18


def test_a_metric_that_nobody_sends_ends_with_1_and_the_names_that_are_near(tmp_path, capfd):
    writer = segments.SegmentWriter(tmp_path / "log" / "collector-1")
    names = ("temperature", "humidity", "temp_out")
    contents = [pack(n, bt=T0, device="lab", name=name) for n, name in enumerate(names)]
    writer.append_all([frame(one, START_MS + WEEK_MS, "lab") for one in contents])
    writer.seal()
    assert exported(tmp_path / "log", "--metric", "temprature") == (1, [])
    assert "nothing matched --metric temprature; there are: temperature" in capfd.readouterr().err
    assert exported(tmp_path / "log", "--metric", "humidity")[0] == 0
    # it is there, but not at that time: that is an answer
    assert exported(tmp_path / "log", "--metric", "humidity", "--since", "2030-01-01") == (0, [])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--since", "yesterday"], "--since yesterday: not a date or time"),
        (["--last", "24"], "--last 24: not a duration"),
        (["--last", "1h", "--since", "2026-01-01"], "give one of them"),
        (["--since", "2026-01-02", "--until", "2026-01-02"], "--until is not after --since"),
        (["--columns", "time,volts"], "no column 'volts'; there are device"),
        (["--out", "x.xlsx"], "which format?"),
        (["--out", ".", "--format", "csv"], ".: Is a directory"),
        (["--out", "nowhere/x.csv"], "nowhere/x.csv: No such file or directory"),
        (["--out", "/dev/null/x.csv"], "/dev/null/x.csv: Not a directory"),
        (["--out", "x" * 251 + ".csv"], ".csv: File name too long"),
    ],
)
def test_bad_input_is_named(options, says, tmp_path, capfd, monkeypatch):
    put(tmp_path / "log", pack(0, bt=T0))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", "--log", "log", *options]) == 2
    assert says in capfd.readouterr().err


def test_what_is_no_log_and_what_is_empty(tmp_path, capfd):
    def said(folder):
        return cli.main(["export", "--log", str(folder)]), *capfd.readouterr()

    assert said(tmp_path / "none")[0] == 2
    status, out, error = said(tmp_path)
    assert (status, out) == (2, "") and "no collector's folder" in error
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"")
    assert said(tmp_path)[0] == 2
    (tmp_path / "log" / "collector-1").mkdir(parents=True)
    status, out, error = said(tmp_path / "log")
    assert status == 0 and out.startswith('"time","device"') and out.count("\n") == 1
    assert "no message yet" in error and "no message in the log" in error
    put(tmp_path / "log", pack(0, bt=T0))
    status, out, error = said(tmp_path / "log" / "collector-1")
    assert status == 2 and f"--log {tmp_path / 'log'}" in error


def test_damaged_lost_and_deleted_segments_are_told(tmp_path, capfd):
    log = tmp_path / "log"
    paths = [put(log, *(pack(4 * n + k, bt=T0) for k in range(4))) for n in range(5)]
    data = bytearray(paths[3].read_bytes())
    data[len(data) // 3] ^= 1
    paths[3].write_bytes(data)
    paths[4].write_bytes(b"no segment at all")
    paths[0].unlink()
    status, rows = exported(log)
    said = capfd.readouterr().err
    assert status == 1 and [row["seq"] for row in rows] == [4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15]
    assert "begins at segment 1" in said and "unreadable, 1 message" in said
    assert "segment 4, byte 0: not a segment: wrong magic" in said
    paths[2].unlink()
    status, rows = exported(log)
    assert status == 1 and f"{log / 'collector-1'}: segment 2 missing" in capfd.readouterr().err
    assert len(rows) == 7


def test_a_segment_deleted_meanwhile_is_told(tmp_path):
    path = put(tmp_path, pack(0, bt=T0))
    log = log_files.find(tmp_path)
    path.unlink()
    with pytest.raises(ToolError, match="deleted while the log was read"):
        log.files[0].read()


def test_a_full_disk_leaves_the_file_that_was_there(big, tmp_path):
    out = tmp_path / "readings.csv"
    out.write_text("mine")
    done = subprocess.run(
        [*COMMAND, "--log", str(big.directory), "--out", str(out)],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
    )  # fmt: skip
    assert done.returncode == 2 and "File too large; nothing was exported" in done.stderr
    assert out.read_text() == "mine" and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_it_writes_into_a_pipe_without_spark_pandas_and_java(big, form, tmp_path):
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'py4j', 'deltalake')));"
        "from outpost_tools import cli; sys.exit(cli.main())"
    )
    line = [sys.executable, "-c", code, "export", "--log", str(big.directory), "--format", form]
    without_java = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    paths = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(line, capture_output=True, check=False, env=without_java | paths)
    assert done.returncode == 0, done.stderr
    if form == "parquet":
        assert pyarrow.parquet.read_table(pa.BufferReader(done.stdout)).num_rows == len(big.rows)
    else:
        assert done.stdout.count(b"\n") == len(big.rows) + (form == "csv")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_pipe_and_a_link_are_not_replaced(form, tmp_path, capfd):
    """As root, --out /dev/null would make a file of the device."""
    put(tmp_path / "log", pack(0, bt=T0))
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    (tmp_path / "link").symlink_to("file")
    for name in ("pipe", "link"):
        words = ["--out", str(tmp_path / name), "--format", form]
        assert cli.main(["export", "--log", str(tmp_path / "log"), *words]) == 0
    reader.join()
    assert pipe.is_fifo() and (tmp_path / "link").is_symlink()
    assert got == [(tmp_path / "file").read_bytes()] and b"board-5" in got[0]


def test_nobody_reads_stdout_any_more(big):
    with subprocess.Popen(
        [*COMMAND, "--log", str(big.directory), "--format", "jsonl"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 141)


def test_control_characters_do_not_reach_a_terminal(tmp_path):
    put(tmp_path / "log", pack(0, bt=T0, name="a\x1b[2Jb"))
    ours, theirs = pty.openpty()
    line = [*COMMAND, "--log", str(tmp_path / "log")]
    done = subprocess.run(line, stdout=theirs, stderr=subprocess.PIPE, check=False)
    refused = subprocess.run(
        [*line, "--format", "parquet"], stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert done.returncode == 0 and b"\x1b" not in shown and rb"a\x1b[2Jb" in shown
    assert refused.returncode == 2 and b"Parquet is not for a terminal" in refused.stderr
