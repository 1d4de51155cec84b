# cpython-only: tests a desktop tool
"""Programs out of Debian packages, and which Java runs Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outpost_tools import DISTRIBUTION, cli
from outpost_tools.errors import ToolError
from outpost_tools.machine import java, needs
from outpost_tools.trying.fetch import arguments, programs
from outpost_tools.trying.fetch.debian_packages import unpack_packages
from outpost_tools.trying.fetch.program import Program

USES_SPARK = """
import sys
from pathlib import Path
from outpost_tools.readings.pipeline import session
spark = session.start("local[1]", Path(sys.argv[1]))
frame = spark.createDataFrame([(20,)], "a int")
print(frame.mapInArrow(lambda batches: batches, "a int").collect()[0].a)
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
"""


def stand_in(folder: Path, version: str) -> Path:
    """A `java` that says its version and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Without Java, and with an empty cache; a Java may be put on PATH, or into the cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_java_of_the_path_runs_spark_as_it_is(machine):
    stand_in(machine / "path", "17.0.15")
    stand_in(java.private().parent, "21.0.12.1")
    assert java.environment() == {}


@pytest.mark.parametrize("on_path", [None, "11.0.2", "1.8.0_392"])
def test_the_private_java_stands_in_for_none_and_for_one_too_old(machine, on_path):
    if on_path:
        stand_in(machine / "path", on_path)
    stand_in(java.private().parent, "21.0.12.1")
    assert java.environment() == {"JAVA_HOME": str(machine / "cache" / "outpost")}


def test_without_any_java_one_line_says_what_to_do(machine):
    with pytest.raises(ToolError, match="no Java found: run `outpost fetch java`"):
        java.environment()
    stand_in(machine / "path", "1.8.0_392")
    with pytest.raises(ToolError, match="it is Java 8, Spark needs 17: run `outpost fetch java`"):
        java.environment()


@pytest.mark.parametrize("version", [None, "11.0.2"])
def test_a_java_home_that_does_not_do_is_an_error(machine, monkeypatch, version):
    """Somebody named it on purpose: no other is taken in its place."""
    stand_in(machine / "path", "17.0.15")
    if version:
        stand_in(machine / "home" / "bin", version)
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    with pytest.raises(ToolError, match=str(machine / "home")):
        java.environment()


@pytest.mark.parametrize("command", ["demo", "pipeline"])
def test_a_missing_java_is_said_before_anything_starts(machine, capsys, command):
    (machine / "log").mkdir()
    words = {
        "demo": ["demo", "--out", str(machine / "out")],
        "pipeline": f"pipeline run --log {machine}/log --tables {machine}/out".split(),
    }[command]
    assert cli.main(words) == 2
    complaint = capsys.readouterr().err
    assert "no Java found" in complaint and complaint.count("\n") == 1
    assert not (machine / "out").exists()


def test_missing_packages_are_said_before_anything_starts(tmp_path, monkeypatch, capsys):
    there = needs.find_spec
    gone = {"pyarrow", "plotly"}
    monkeypatch.setattr(needs, "find_spec", lambda name: None if name in gone else there(name))
    assert cli.main(["demo", "--out", str(tmp_path / "out")]) == 2
    complaint = capsys.readouterr().err
    assert "not installed: pyarrow, plotly; run `make setup`" in complaint
    monkeypatch.setattr(needs.source_tree, "is_checkout", lambda: False)
    assert cli.main(["demo", "--out", str(tmp_path / "out")]) == 2
    assert f"pip install '{DISTRIBUTION}[pipeline,report]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_links_of_a_package_stay_inside_the_folder_that_it_is_unpacked_in(tmp_path):
    """Debian's Java has its settings as links to /etc/java-21-openjdk."""
    source = tmp_path / "source"
    (source / "DEBIAN").mkdir(parents=True)
    (source / "DEBIAN" / "control").write_text(
        "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a\n"
    )
    (source / "etc" / "a").mkdir(parents=True)
    (source / "etc" / "a" / "settings").write_text("from the package")
    (source / "usr" / "lib" / "a").mkdir(parents=True)
    (source / "usr" / "lib" / "a" / "settings").symlink_to("/etc/a/settings")
    (source / "usr" / "lib" / "conf").symlink_to("/etc/a")
    package = tmp_path / "a.deb"
    subprocess.run(["dpkg-deb", "-b", str(source), str(package)], check=True, capture_output=True)
    unpack_packages([package], tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "moved")
    lib = tmp_path / "moved" / "usr" / "lib"
    assert (lib / "a" / "settings").read_text() == "from the package"
    assert (lib / "conf" / "settings").read_text() == "from the package"


def test_a_programs_own_options_come_first():
    program = Program("java", "jre", "amd64", "/usr/bin/java", options=("-Da=b",))
    assert program.wrapper().endswith('"$root/usr/bin/java" -Da=b "$@"\n')


def test_fetch_refuses_a_program_that_it_does_not_know(capsys):
    assert cli.main(["fetch", "java", "postgres"]) == 2
    complaint = capsys.readouterr().err
    assert "postgres" in complaint and all(name in complaint for name in programs.KINDS)
    assert arguments.SUMMARY


@pytest.mark.long
@pytest.mark.timeout(600)
def test_spark_and_its_python_workers_run_on_the_private_java(tmp_path, monkeypatch):
    """On a PATH that holds every command of this machine but `java`."""
    if not java.private().exists():
        pytest.skip("missing: the private Java; run `.venv/bin/outpost fetch --private java`")
    pytest.importorskip("pyspark", reason="missing: PySpark; run `make setup`")
    commands = tmp_path / "path"
    commands.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for path in Path(folder).glob("*"):
            link = commands / path.name
            link.unlink(missing_ok=True)
            if path.name != "java":
                link.symlink_to(path)
    environment = os.environ | {"PATH": str(commands)}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", USES_SPARK, str(tmp_path / "spark.log")],
        check=False, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    log = (tmp_path / "spark.log").read_text()
    assert done.returncode == 0, done.stderr + log
    value, home = done.stdout.splitlines()[-2:]
    assert value == "20"
    assert Path(home).resolve().is_relative_to((java.private().parents[1] / "roots").resolve())
