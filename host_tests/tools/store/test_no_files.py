# cpython-only: runs the commands on a real S3 server
"""With log and tables in a bucket, no command touches a file of this machine that is named like
one of them, or writes to its working directory."""

import json
import os
import subprocess
import sys

import pytest

from outpost_tools.log import segments
from outpost_tools.machine import children
from outpost_tools.store import at

# sys.audit() tells of each file that Python opens, lists, makes, renames or deletes.
PROGRAM = """
import sys
def see(event, arguments):
    if event == "open" or event.startswith(("os.", "shutil.", "glob.", "tempfile.")):
        names = [one for one in arguments if isinstance(one, (str, bytes))]
        for name in (one.decode() if isinstance(one, bytes) else one for one in names):
            if "s3:" in name or "BUCKET" in name:
                print(f"touched: {event} {name}", file=sys.stderr)
sys.addaudithook(see)
WHAT
"""
RUN = "from outpost_tools import cli; sys.exit(cli.main(ARGUMENTS))"
LIVE = """
from outpost_tools.servers.live import fleet, follow
follower = follow.Follower("LOG", fleet.Fleet(), history_bytes=1 << 20)
follower.start()
follower.turn()
follower.stop()
assert not follower.reason, follower.reason
"""


def run(url: str, folder, what: str) -> None:
    program = PROGRAM.replace("WHAT", what).replace("BUCKET", url.removeprefix("s3://"))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=children.tools_environment(),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    touched = [line for line in done.stderr.splitlines() if line.startswith("touched: ")]
    assert not touched and not os.listdir(folder), (touched, os.listdir(folder))


@pytest.fixture
def log(bucket_url):
    """A log of two collectors."""
    message = b'[{"bn":"b/","ver":1,"sid":"00000001","seq":%d,"held":0,"boot":1,"bt":1763694000,'
    message += b'"n":"load","v":1}]'
    for number, name in enumerate(("a", "b")):
        frame = segments.encode_frame(1_763_694_001_000, b"outpost/b/data", message % number)
        folder = at.at(f"{bucket_url}/log/{name}")
        folder.put(segments.sealed_name(0), segments.sealed_bytes([frame]))
    return f"{bucket_url}/log"


@pytest.fixture
def made(log, tmp_path):
    """Tables of it."""
    tables = log.removesuffix("log") + "tables"
    run(tables, tmp_path, command("pipeline run --engine local", log, tables))
    return tables


def command(text: str, log: str, tables: str) -> str:
    words = [
        *text.split(),
        *(["--log", log] if log else []),
        *(["--tables", tables] * bool(tables)),
    ]
    return RUN.replace("ARGUMENTS", json.dumps(words))


@pytest.mark.parametrize(
    "text", ["status", "prune", "compact", "replay --reason x", "delete --device b"]
)
def test_the_pipelines_commands(made, log, tmp_path, text):
    has_log = text in ("status", "prune")
    run(made, tmp_path, command(f"pipeline {text}", log * has_log, made * (text != "prune")))


def test_export_and_report(made, log, tmp_path):
    out = tmp_path / "out"
    (out / "days").mkdir(parents=True)
    folder = tmp_path / "work"
    folder.mkdir()
    run(made, folder, command(f"export --out {out / 'all.csv'}", log, ""))
    run(made, folder, command(f"export --days {out / 'days'}", log, ""))
    run(made, folder, command(f"report --out {out / 'report.html'}", "", made))
    assert sorted(os.listdir(out)) == ["all.csv", "days", "report.html"]


def test_the_live_page(log, tmp_path):
    run(log, tmp_path, LIVE.replace("LOG", log))


def test_a_path_like_that_is_seen(bucket_url, tmp_path):
    with pytest.raises(AssertionError, match="touched: open s3:"):
        run(bucket_url, tmp_path, "\ntry: open('s3://x')\nexcept OSError: pass")
    with pytest.raises(AssertionError, match="a file"):
        run(bucket_url, tmp_path, "open('a file', 'w')")
