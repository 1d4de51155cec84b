# cpython-only: arguments of desktop tools
"""A host or a topic that no resolver, or no broker, takes is bad input: said at the start, in one
line, by every command; it raises no OSError later, and a thread of paho's would die of it."""

import json
import os

import pytest

from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.mqtt import credentials
from outpost_tools.store import objects

pytestmark = pytest.mark.timeout(30)
NO_HOSTS = ["192.168.1..10", ".home", "a" * 64, "b\udcff"]
NO_TOPICS = ["#", "a/+", "", "/a", "a//b", "a\0", "a\udcff"]
BROKER = ["--broker", "127.0.0.1:1"]


def status_of(words):
    try:
        return cli.main(words)
    except SystemExit as stopped:
        return stopped.code


def refused(capsys, *words):
    assert status_of(list(words)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.mark.parametrize("host", NO_HOSTS)
@pytest.mark.parametrize(
    "words",
    [
        ["collect", "--log", "log", "--broker"],
        ["republish", "--broker"],
        ["send", "kitchen", "report", "--broker"],
        ["simulate", "--out", "out", "--broker"],
        ["mq", "bridge", "--lines", "lines", "--broker"],
        ["live", "--log", "log", "--password-file", "word", "--listen"],
        ["run", "home", "--broker"],
    ],
    ids=lambda words: words[0],
)
def test_a_host_that_no_resolver_takes_is_no_address(words, host, capsys):
    assert "is not HOST:PORT" in refused(capsys, *words, f"{host}:1883")


@pytest.mark.parametrize("host", NO_HOSTS)
def test_no_broker_is_made_for_it(host, tmp_path, capsys):
    for words in (["broker", "init"], ["run"]):
        refused(capsys, *words, str(tmp_path / "made"), "--host", host)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("change", [{"host": "a..b"}, {"port": 0}, {"port": 65536}])
def test_credentials_with_it_are_refused(change, tmp_path):
    path = tmp_path / "mine.json"
    made = credentials.Credentials("operator", "broker.home", 8883, "", "id", "user", "word")
    path.write_text(made.text())
    path.chmod(0o600)
    assert credentials.load(path, "operator") == made
    path.write_text(json.dumps(json.loads(made.text()) | change))
    with pytest.raises(ToolError, match="are not an address"):
        credentials.load(path, "operator")


@pytest.mark.parametrize("topic", NO_TOPICS)
@pytest.mark.parametrize(
    "words",
    [
        ["collect", "--log", "log", "--prefix"],
        ["send", "kitchen", "report", "--prefix"],
        ["republish", "--prefix"],
        ["republish", "--home-assistant"],
    ],
    ids=" ".join,
)
def test_a_topic_that_no_broker_takes_is_refused(words, topic, capsys):
    wanted = f"outpost: {words[-1]} {topic!r}: a topic without"
    assert refused(capsys, words[0], *BROKER, *words[1:], topic).startswith(wanted)


@pytest.mark.parametrize("name", ["", "a#", "a/#/b", "a+/b", "a/+b", "a\udcff"])
def test_a_filter_that_no_broker_takes_is_refused(name, tmp_path, capsys):
    lines = ["--lines", str(tmp_path / "lines")]
    assert "--filter" in refused(capsys, "mq", "bridge", *BROKER, *lines, "--filter", name)
    assert not (tmp_path / "lines").exists()


def test_a_filter_may_have_empty_levels_and_wildcards():
    from outpost_tools.servers.mq.arguments import bridge

    for name in ("#", "+", "/", "+/+", "a/+/b/#", "/a", "a//b", "$SYS/#"):
        assert bridge._FILTER.match(name), name


IN_A_BUCKET = [
    "collect --broker 127.0.0.1:1 --log {}",
    "export --log {}",
    "pipeline status --log {} --tables {}",
    "pipeline compact --tables {}",
    "report --tables {} --out x.html",
    "live --log {}",
]
HERE = [
    "export --log log --days {}",
    "run {}",
    "broker init {} --host localhost",
    "broker list {}",
    "republish --credentials {}",
    "setup {}",
]


@pytest.mark.parametrize("line", [*IN_A_BUCKET, *HERE])
@pytest.mark.parametrize("url", ["http://host/x", "hdfs://host/x"])
def test_a_url_of_no_storage_is_refused_in_words(line, url, tmp_path, monkeypatch, capsys):
    """It became a folder `http:` beside the others."""
    monkeypatch.chdir(tmp_path)
    assert ended_with(line.format(*[url] * 2)) == 2
    said = capsys.readouterr().err
    assert f"{url}" in said
    assert "not a place that Outpost can store in" in said or "only files and folders" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", HERE)
@pytest.mark.parametrize("url", ["s3://bucket/log", "abfss://c@a/x"])
def test_a_bucket_where_a_folder_is_needed_is_refused_in_words(
    line, url, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert ended_with(line.format(url)) == 2
    assert f"{url} (--" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", IN_A_BUCKET)
@pytest.mark.parametrize("url", ["s3://bucket/log", "gs://bucket/log"])
def test_a_bucket_without_keys_is_told_at_once(line, url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("AWS_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    objects._client.cache_clear()
    assert ended_with(line.format(*[url] * 2)) in (1, 2)
    assert "no keys for it; set " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def ended_with(line: str) -> int:
    try:
        return cli.main(line.split())
    except SystemExit as ended:  # argparse's way
        return ended.code
