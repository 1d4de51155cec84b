# cpython-only: a desktop tool
"""Units and container recipe: their commands are commands of ours, systemd takes the files, and the
collector runs where it may write its log alone.
"""

import json
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from collector_process import Process, ScriptedBroker, payload
from outpost_tools import cli
from outpost_tools.servers.service.units import STATE, Service

OUTPOST = Path(sys.executable).with_name("outpost")
MORE = ("--ca-file", "/etc/outpost/ca file.pem", "--user", "100%", "--password-file", "$word")


@pytest.fixture
def made(tmp_path):
    arguments = ["service", "--out", str(tmp_path / "units"), "--broker", "broker.example:8883"]
    assert cli.main([*arguments, "--command", str(OUTPOST), "--", *MORE]) == 0
    return tmp_path / "units"


def commands(path, key="ExecStart="):
    """The words of each line with this key, as systemd takes them."""
    lines = [line for line in path.read_text().splitlines() if line.startswith(key)]
    return [
        [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.partition("=")[2])]
        for line in lines
    ]


def test_the_units_run_commands_that_exist(made):
    [collect], [pipeline] = (
        commands(made / f"outpost-{n}.service") for n in ("collector", "pipeline")
    )
    for words in (collect, pipeline):
        assert words[0] == str(OUTPOST)
        parsed = cli.build_parser(words[1]).parse_args(words[1:])
        assert parsed.log.path == Path("/var/lib/outpost/log")
    assert tuple(collect[-len(MORE) :]) == MORE


def test_the_tables_are_compacted_once_a_day(made, tmp_path):
    """And again at the next round, if that failed."""
    [(_, _, script)] = commands(made / "outpost-pipeline.service", "ExecStartPost=-")
    _, _, compact = script.partition("|| { ")
    words = shlex.split(compact.partition(" && ")[0])
    assert cli.build_parser("pipeline").parse_args(words[1:]).tables.path == STATE / "tables"
    stub, runs = tmp_path / "stub", tmp_path / "runs"
    stub.write_text(f'#!/bin/sh\necho run >> {runs}\ntest "$(grep -c run {runs})" -gt 1\n')
    stub.chmod(0o755)
    script = script.replace(str(OUTPOST), str(stub)).replace(str(STATE), str(tmp_path))
    statuses = [subprocess.run(["/bin/sh", "-c", script], check=False).returncode for _ in "1234"]
    assert statuses == [1, 0, 0, 0] and runs.read_text() == "run\n" * 2


def test_a_made_broker_is_reached_by_its_credentials(tmp_path):
    file = tmp_path / "collector-1.json"
    arguments = ["service", "--out", str(tmp_path / "units"), "--credentials", str(file)]
    assert cli.main([*arguments, "--command", str(OUTPOST)]) == 0
    [words] = commands(tmp_path / "units" / "outpost-collector.service")
    assert cli.build_parser("collect").parse_args(words[1:]).credentials == file


def test_the_container_runs_the_same_command(made):
    lines = (made / "Containerfile").read_text().splitlines()
    [command] = [json.loads(line[4:]) for line in lines if line.startswith("CMD ")]
    assert [[str(OUTPOST), *command]] == commands(made / "outpost-collector.service")
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]


def test_one_service_runs_all_that_a_home_needs(tmp_path):
    out = tmp_path / "units"
    words = ["service", "--out", str(out), "--home", "--command", str(OUTPOST)]
    more = ["--host", "192.168.1.10", "--collect=--ca-file=a b.pem"]
    assert cli.main([*words, "--", *more]) == 0
    [command] = commands(out / "outpost-home.service")
    parsed = cli.build_parser("run").parse_args(command[1:])
    assert parsed.state == Path("/var/lib/outpost") and parsed.host == ["192.168.1.10"]
    assert parsed.collect == ["--ca-file=a b.pem"]
    lines = (out / "Containerfile").read_text().splitlines()
    [inside] = [json.loads(line[4:]) for line in lines if line.startswith("CMD ")]
    assert inside == command[1:] and "USER 10001:10001" in lines
    assert any("install" in line and "mosquitto" in line for line in lines)
    # Debian's pip refuses to install outside of a virtual environment
    assert "RUN python3 -m venv /opt/outpost \\" in lines
    assert any(line.startswith("ENV PATH=/opt/outpost/bin:") for line in lines)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="optional: systemd-analyze, of systemd"
)
def test_systemd_takes_the_units(made):
    words = ["service", "--out", str(made), "--home", "--command", str(OUTPOST)]
    assert cli.main(words) == 0
    assert (made / "outpost-home.service").is_file()
    units = sorted(map(str, [*made.glob("*.service"), *made.glob("*.timer")]))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in found.stderr.splitlines() if "outpost" in line]
    assert (found.returncode, ours) == (0, [])


def test_a_command_in_a_home_directory_can_be_read_in_the_unit():
    for path, rule in (("/home/a/bin/outpost", "read-only"), ("/opt/outpost/bin/outpost", "yes")):
        files = Service(Path(path), ("--broker", "b:1")).files()
        assert f"\nProtectHome={rule}\n" in files["outpost-collector.service"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--credentials"),
        (["--broker", "b"], "--broker"),
        (["--broker", "b:1", "--credentials", "fleet"], "--credentials"),
        (["--broker", "b:1", "--command", "/nowhere/outpost"], "--command"),
        (["--broker", "b:1", "--", "--no-such"], "--no-such"),
        (["--broker", "b:1", "--minutes", "0"], "--minutes"),
        (["--home", "--", "--no-such"], "--no-such"),
        (["--home", "--broker", "b:1"], "--broker"),
    ],
)
def test_wrong_arguments_are_told_now(tmp_path, capsys, words, reason):
    try:
        status = cli.main(["service", "--out", str(tmp_path / "units"), *words])
    except SystemExit as end:
        status = end.code
    assert status == 2 and reason in capsys.readouterr().err
    assert not (tmp_path / "units").exists()


READ_ONLY = (
    'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"'
)


def test_the_collector_runs_on_a_read_only_system(tmp_path):
    """As with ProtectSystem=strict: only its log can be written."""
    log = tmp_path / "log"
    log.mkdir()
    alone = ["unshare", "-m", "sh", "-c", READ_ONLY, str(log)]
    probe = subprocess.run(
        [*alone, "sh", "-c", f"! touch {tmp_path}/x && touch {log}/x"],
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        pytest.skip(f"optional: root may mount what it likes: {probe.stderr.decode()}")
    with closing(ScriptedBroker()) as broker:
        collector = Process(tmp_path, broker.port)
        collector.command = [*alone, *collector.command]
        with collector:
            broker.accept()
            broker.publish(1, payload(0))
            assert broker.acknowledged(1) == [1]
            assert collector.terminate() == 0
        assert collector.payloads() == [payload(0)]
        assert len(list(collector.directory.glob("*.seg"))) == 1
