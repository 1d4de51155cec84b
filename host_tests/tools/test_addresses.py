# cpython-only: arguments of desktop tools
"""A host or a topic that no resolver, or no broker, takes is bad input: said at the start, in one
line, by every command; it raises no OSError later, and a thread of paho's would die of it."""

import json

import pytest

from outpost_tools import cli
from outpost_tools.common import credentials
from outpost_tools.common.errors import ToolError

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
    from outpost_tools.mq.arguments import bridge

    for name in ("#", "+", "/", "+/+", "a/+/b/#", "/a", "a//b", "$SYS/#"):
        assert bridge._FILTER.match(name), name


@pytest.mark.parametrize(
    "line",
    [
        "collect --broker 127.0.0.1:1 --log {}",
        "export --log {}",
        "export --log log --days {}",
        "pipeline run --log log --tables {}",
        "pipeline run --log {} --tables tables",
        "report --tables {} --out x.html",
        "live --log {}",
        "run {}",
        "broker init {} --host localhost",
        "broker list {}",
        "republish --credentials {}",
        "setup {}",
    ],
)
@pytest.mark.parametrize("url", ["s3://bucket/log", "gs://b", "http://host/x", "abfss://c@a/x"])
def test_a_folder_that_is_a_url_is_refused_in_words(line, url, tmp_path, monkeypatch, capsys):
    """`s3://bucket/log` became a folder `s3:` beside the others."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(line.format(url).split()) == 2
    said = capsys.readouterr().err
    assert f"{url} " in said and "object storage is not supported" in said
    assert list(tmp_path.iterdir()) == []
