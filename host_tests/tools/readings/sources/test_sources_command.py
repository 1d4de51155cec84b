# cpython-only: it tests the desktop tools
"""`outpost sources`: what it prints, on which stream, and its exit status."""

import json
import re

import pytest

from outpost_tools import cli
from outpost_tools.readings.sources import reference, schema
from outpost_tools.readings.sources.listen import is_filter


def outpost(*words):
    return cli.main(["sources", *map(str, words)])


def test_the_reference_names_every_key():
    for table in (schema.Source, schema.State, schema.Value, schema.Example, schema.File):
        for key in table.__struct_encode_fields__:
            assert re.search(rf"\b{key}\b", reference.KEYS), key
    assert "devices = 1000" in reference.KEYS and "metrics = 1000" in reference.KEYS


@pytest.mark.parametrize("word", ["", "ready", "check", "learn"])
def test_the_help_teaches(word, capsys):
    with pytest.raises(SystemExit) as ended:
        outpost(*word.split(), "--help")
    said = capsys.readouterr().out
    assert ended.value.code == 0 and f"outpost sources {word}" in said and "examples:" in said


def test_ready_lists_and_prints(capsys):
    assert outpost("ready") == 0
    assert len(capsys.readouterr().out.splitlines()) == 8
    assert outpost("ready", "shelly") == 0
    assert "[[source]]" in capsys.readouterr().out
    assert outpost("ready", "tesla") == 2
    assert capsys.readouterr().err.startswith("outpost: no ready file 'tesla'; there are ")


def test_check_runs_the_examples(tmp_path, capsys):
    path = tmp_path / "s.toml"
    assert outpost("ready", "numbers") == 0
    path.write_text(capsys.readouterr().out)
    assert outpost("check", path) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        f"{path}: 1 sources and states, 3 examples: as they must be\n", "",
    )  # fmt: skip
    path.write_text(path.read_text().replace('"Cel"', '"K"', 1))
    assert outpost("check", path) == 1
    told = capsys.readouterr()
    assert "4 differences" in told.out
    assert f"{path}: 'numbers', example 1 (sensors/boiler): lacks 'temperature'" in told.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--broker", "127.0.0.1:1", "--seconds", "2"], "127.0.0.1:1: the broker does not answer"),
        (["--topic", "a/#"], "--topic, --user, --tls and --ca-file go with --broker HOST:PORT"),
        (["--broker", "127.0.0.1:1", "--topic", "a/#/b"], "--topic 'a/#/b': a topic filter is"),
    ],
)
def test_what_is_wrong_with_listening_is_said(words, says, tmp_path, capsys):
    path = tmp_path / "s.toml"
    path.write_text('[[source]]\nname = "a"\ntopic = "a/{device}"\nvalues = ["*"]\n')
    assert outpost("check", path, *words) == 2
    assert f"outpost: {says}" in capsys.readouterr().err


def test_learn_needs_a_broker(capsys):
    with pytest.raises(SystemExit) as ended:
        outpost("learn")
    assert ended.value.code == 2 and "--broker --credentials" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["#", "+", "a/+/b", "a/#", "a"])
def test_a_filter(text):
    assert is_filter(text)


@pytest.mark.parametrize("text", ["", "a/#/b", "a+", "#a", "$SYS/#", "a\0"])
def test_no_filter(text):
    assert not is_filter(text)


def test_without_msgspec_the_command_says_what_to_install(monkeypatch, capsys):
    from outpost_tools.machine import needs

    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    assert outpost("ready") == 2
    assert "not installed: msgspec" in capsys.readouterr().err


def test_a_hostile_topic_cannot_manipulate_the_terminal(tmp_path):
    from outpost_tools.readings.sources import file, survey
    from outpost_tools.readings.sources.heard import Heard, Sample

    mapping = file.parse('[[source]]\nname = "a"\ntopic = "a/{device}"\nvalues = ["**"]', "s")
    heard = Heard()
    for topic in (b"a/\x1b[2J", b"\x1b]0;x\x07", b"a/ok"):
        heard.add(Sample(topic, json.dumps({"\x1b": 1}).encode(), 0, False))
    assert all(line.isprintable() for line in survey.lines(survey.of(mapping, heard), mapping))
