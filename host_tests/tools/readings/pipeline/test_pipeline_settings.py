# cpython-only: PySpark's configuration
"""Whose settings of Spark apply; the zip for executors; what is said while a run waits. What is in
force on a cluster: test_pipeline_cluster.py.
"""

import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from optional_packages import needed
from outpost_tools import cli
from outpost_tools.errors import ToolError

with needed("PySpark"):
    from pyspark import SparkConf

    from outpost_tools.machine import java
    from outpost_tools.readings.pipeline import archive, settings, waiting


def completed(users: dict[str, str], *, said: dict[str, str] | None = None):
    """(settings of the session, what was told), of a user's."""
    conf, told = SparkConf(loadDefaults=False), []
    for name, value in users.items():
        conf.set(name, value)
    return dict(settings.complete(conf, said or {}, told.append).getAll()), told


def test_defaults_are_for_one_machine_on_loopback():
    found, told = completed({})
    assert found["spark.master"] == "local[*]" and found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.app.name"] == "outpost" and not told
    assert "spark.driver.memory" not in found  # of the environment: the lowest of all places


def test_what_the_user_says_wins():
    users = {
        "spark.master": "spark://host:7077",
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.adaptive.enabled": "true",
        "spark.ui.enabled": "true",
        "spark.app.name": "mine",
    }
    found, _ = completed(users)
    assert users.items() <= found.items()
    # machines apart: the addresses are the user's, or Spark's choice
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & found.keys()
    found, _ = completed({"spark.driver.host": "10.0.0.1"})
    assert found["spark.driver.host"] == "10.0.0.1"


def test_our_own_options_are_over_all():
    said = settings.of_command("local[3]", 5, ["spark.ui.enabled=true"])
    found, _ = completed(
        {"spark.master": "spark://host:7077", "spark.ui.enabled": "false"}, said=said
    )
    assert (found["spark.master"], found["spark.sql.shuffle.partitions"]) == ("local[3]", "5")
    assert found["spark.ui.enabled"] == "true"
    with pytest.raises(ToolError, match="--conf driver.memory=3g: write it as spark.NAME=VALUE"):
        settings.of_command(None, None, ["driver.memory=3g"])


def test_what_the_tables_depend_on_stays_and_is_told():
    found, told = completed({"spark.sql.session.timeZone": "Asia/Tokyo"})
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert told == ["spark.sql.session.timeZone is UTC, not Asia/Tokyo: the tables depend on it"]


NAMES = ("PYSPARK_PYTHON", "SPARK_DRIVER_MEMORY", "SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS")


def prepared(monkeypatch, said=None, *, is_short=False, **environment) -> dict[str, str]:
    for name in (*NAMES, *settings._PLACES, "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(java, "environment", dict)
    settings.prepare_environment(said or {}, lambda text: None, is_short=is_short)
    found = {name: os.environ[name] for name in (*NAMES, "SPARK_HOME") if name in os.environ}
    for name in NAMES:  # what was not there goes again, with monkeypatch's own
        monkeypatch.setenv(name, os.environ.get(name, ""))
    return found


def test_the_environment_is_the_users_too(monkeypatch):
    mine = {"PYSPARK_PYTHON": "/opt/python", "SPARK_DRIVER_MEMORY": "3g", "SPARK_LOCAL_IP": "::1"}
    assert prepared(monkeypatch, SPARK_SUBMIT_OPTS="-Xint", is_short=True, **mine) == {
        **mine,
        "SPARK_SUBMIT_OPTS": "-Xint",
    }
    ours = {"PYSPARK_PYTHON": sys.executable, "SPARK_DRIVER_MEMORY": "2g"}
    assert prepared(monkeypatch) == ours | {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert prepared(monkeypatch, {"spark.master": "spark://host:7077"}) == ours
    assert prepared(monkeypatch, SPARK_CONF_DIR="/etc/spark") == ours
    assert "UseSerialGC" in prepared(monkeypatch, is_short=True)["SPARK_SUBMIT_OPTS"]
    # spark-submit has settled all but which Python
    assert prepared(monkeypatch, PYSPARK_GATEWAY_PORT="1") == {"PYSPARK_PYTHON": sys.executable}


def test_another_spark_is_not_taken_for_ours(monkeypatch, tmp_path):
    import pyspark

    assert "SPARK_HOME" not in prepared(monkeypatch, SPARK_HOME=str(tmp_path))
    ours = str(Path(pyspark.__file__).parent)
    assert prepared(monkeypatch, SPARK_HOME=ours)["SPARK_HOME"] == ours


def test_the_zip_holds_what_executors_import(tmp_path, capsys):
    assert cli.main(["pipeline", "package", str(tmp_path / "outpost.zip")]) == 0
    assert "spark-submit --py-files" in capsys.readouterr().out
    first = (tmp_path / "outpost.zip").read_bytes()
    archive.write(tmp_path / "outpost.zip")
    assert (tmp_path / "outpost.zip").read_bytes() == first
    names = zipfile.ZipFile(tmp_path / "outpost.zip").namelist()
    assert all(name.startswith("outpost_tools/") and name.endswith(".py") for name in names)
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from outpost_tools.readings.pipeline import archive, decode, transforms\n"
        "print(json.dumps([archive.is_zip(), decode.__file__]))"
    )
    line = [sys.executable, "-c", code, str(tmp_path / "outpost.zip")]
    is_zip, file = json.loads(subprocess.check_output(line, cwd=tmp_path))
    assert is_zip and file.startswith(str(tmp_path / "outpost.zip"))
    assert cli.main(["pipeline", "package", str(tmp_path / "outpost.tar")]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outpost.zip", "outpost_submit.py"]


@pytest.mark.long
def test_settings_of_every_place_are_in_force(tmp_path):
    """A JVM of our own: of spark-defaults.conf, PYSPARK_SUBMIT_ARGS and the environment."""
    defaults = "spark.sql.shuffle.partitions 7\nspark.ui.enabled=false\nspark.app.name: mine\n"
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    probe = Path(__file__).with_name("cluster_probe.py")
    places = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": (
        "--master local[1] --driver-memory 600m --conf spark.executor.memory=1g pyspark-shell"
    )}  # fmt: skip
    out = subprocess.check_output(
        [sys.executable, probe, tmp_path / "log"], env=os.environ | places, text=True
    )
    seen = json.loads(out.splitlines()[-1])
    assert (seen["spark.master"], seen["spark.sql.shuffle.partitions"]) == ("local[1]", "7")
    assert (seen["spark.app.name"], seen["spark.executor.memory"]) == ("mine", "1g")
    assert 500 << 20 < seen["driver_bytes"] <= 600 << 20


@pytest.mark.long
def test_a_start_that_fails_ends_its_jvm_and_is_told(tmp_path):
    """With it its memory; the next try starts another one."""
    code = (
        "import sys; from pathlib import Path\n"
        "from outpost_tools.readings.pipeline import session, settings\n"
        "complete = settings.complete\n"
        "def failing(conf, said, say):\n"
        "    say('the JVM is up')\n"
        "    settings.complete = complete\n"
        "    raise ConnectionError\n"
        "settings.complete = failing\n"
        "say = lambda text: print(text, file=sys.stderr)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        spark = session.start('local[1]', Path(sys.argv[1]), say=say)\n"
        "    except ConnectionError: pass\n"
        "session.stop(spark)"
    )
    line = [sys.executable, "-c", code, tmp_path / "spark.log"]
    done = subprocess.run(line, check=True, stderr=subprocess.PIPE, text=True)
    assert "the JVM is up" in done.stderr
    assert "the JVM is up" not in (tmp_path / "spark.log").read_text()


def test_what_is_waited_for_is_said_with_the_time(monkeypatch):
    monkeypatch.setattr(waiting, "EVERY_S", 0.05)
    said, heard = [], threading.Event()

    def say(text: str) -> None:
        said.append(text)
        heard.set()

    with waiting.Waiting(say) as wait:
        wait.set("Spark's JVM")
        assert heard.wait(60)
    assert all(re.fullmatch(r"waiting for \d+ s: Spark's JVM", one) for one in said), said
    assert not any(thread is wait._thread for thread in threading.enumerate())
    failing = waiting.Waiting(say, lambda: 1 / 0)
    assert failing._current() == ""
