"""What pytest needs to run host_tests: the paths, which files are not for CPython, and the rule for
skips under CI.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

import paths

sys.path[:0] = paths.ALL

import cpu_times  # noqa: E402 - the path must be set first

# A test's JVM lives for a minute: the second compiler and the parallel collector cost more than
# they bring.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# What asks a cloud's metadata service for credentials, at an address outside this machine.
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")

# The same examples in each run: a newcomer's `make test` must not fail on one that nobody has seen.
# New ones are looked for with HUNT=1.
# No deadline of an example, and none of making them: a busy machine takes 200 ms for an import.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)  # fmt: skip
if not os.environ.get("HUNT"):
    hypothesis.settings.load_profile("repeatable")


def _is_left_out(path: Path) -> bool:
    """QUICK=1 leaves out, as on 64-bit MicroPython, the files that take long there."""
    with path.open(encoding="utf-8") as file:
        head = file.readline() + file.readline()
    is_long = ("# long:" in head or "# slow:" in head) and bool(os.environ.get("QUICK"))
    return head.startswith("# micropython-only:") or is_long


collect_ignore = [str(path) for path in paths.HOST_TESTS.rglob("test_*.py") if _is_left_out(path)]


def _fails(reason: str) -> bool:
    """With CI=true a test skipped because something is missing has failed: nobody reads the skips
    of a green run."""
    is_missing = reason.removeprefix("Skipped: ").startswith("missing")
    return is_missing and os.environ.get("CI") == "true"


# Begun first, so that no long one is left alone at the end.
_LONGEST = (
    "test_flash.py", "test_pipeline.py", "test_pipeline_features.py", "test_rp2.py",
    "test_selftest.py", "test_real_sockets.py", "test_pipeline_kill.py", "test_pipeline_damage.py",
    "test_soak.py", "test_tables_kill.py", "test_plan.py",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    slow = cpu_times.listed()
    for item in items:
        if cpu_times.name_of(item.nodeid) in slow:
            item.add_marker("slow")
    place = {name: number for number, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    reason = str(call.excinfo.value) if call.excinfo else ""
    if report.skipped and not hasattr(report, "wasxfail") and _fails(reason):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: skipped although CI=true: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A file that skips itself when it is imported."""
    report = yield
    if report.skipped and _fails(reason := str(report.longrepr[2])):
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: skipped although CI=true: {reason}"
    return report


def pytest_terminal_summary(terminalreporter):
    """What was skipped: each reason once, with the number of tests."""
    skipped = terminalreporter.stats.get("skipped", [])
    counts = Counter(str(report.longrepr[-1]).removeprefix("Skipped: ") for report in skipped)
    if counts:
        terminalreporter.section("skipped, and what they need", sep="=")
    for reason in sorted(counts):
        terminalreporter.write_line(f"{counts[reason]:4} {reason}")


@pytest.fixture
def ram_path(tmp_path):
    """As tmp_path, in memory where there is some: on a disk each rename over a file takes a
    millisecond, under load five, and some tests make ten thousand."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="outpost-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def object_server(tmp_path_factory):
    """A real S3 server; one for each process of pytest."""
    import object_store

    with object_store.ObjectServer(tmp_path_factory.mktemp("object-store")) as server:
        yield server


@pytest.fixture
def bucket_url(object_server, monkeypatch):
    """A new bucket of it, s3://NAME. Its address and keys are in the environment."""
    for name, text in object_server.environment.items():
        monkeypatch.setenv(name, text)
    return object_server.bucket()


@pytest.fixture
def faulty_store(object_server, bucket_url, monkeypatch):
    """A proxy before that server, which the environment names in its place."""
    import faulty_store

    with faulty_store.FaultyStore(object_server.port) as proxy:
        for name, text in proxy.environment.items():
            monkeypatch.setenv(name, text)
        yield proxy
