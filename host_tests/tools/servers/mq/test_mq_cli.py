# cpython-only: runs a desktop command
"""`outpost mq`: the examples that the help prints run as printed; bad input is one line and status
2.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import paho.mqtt.publish as mqtt_publish
import pytest

from mq_bridge import outpost_message
from mq_cases import COMPACT, message
from outpost_tools import cli
from outpost_tools.log import segments
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from paths import FAKES

FAKE = FAKES / "fake_ibmmq"
SUBCOMMANDS = ([], ["build"], ["parse"], ["check"], ["bridge"])


def help_of(words):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit) as stopped:
        cli.main(["mq", *words, "--help"])
    assert stopped.value.code == 0
    return shown.getvalue()


def examples(words):
    """The command lines of a help text: indented lines that begin with `outpost`, with what
    continues them.
    """
    text = help_of(words).replace("\\\n", "")
    return [line.strip() for line in text.splitlines() if line.startswith("  outpost ")]


@pytest.fixture
def place(tmp_path):
    """A folder to run examples in, with the command `outpost` on the path."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "outpost"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m outpost_tools.cli "$@"\n')
    command.chmod(0o755)
    return tmp_path


def shell(place, line, **more):
    env = children.tools_environment(
        PATH=f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", **more
    )
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        check=False,
        cwd=place,
        env=env,
        capture_output=True,
        timeout=300,
    )


@pytest.mark.parametrize("words", SUBCOMMANDS[:4], ids=lambda words: " ".join(words) or "mq")
def test_the_examples_of_the_help_run_as_printed(place, words):
    lines = examples(words)
    assert len(lines) >= 2
    for line in lines:
        done = shell(place, line)
        assert (done.returncode, done.stderr) == (0, b""), line
        assert done.stdout or "--out" in line or " check " in line


@pytest.fixture
def broker(tmp_path):
    """On a port of its own, in place of 1883, which another run may have."""
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    with Broker("mosquitto", tmp_path / "broker") as running:
        yield running


def test_the_examples_of_bridge_run_as_printed(place, broker):
    """With a broker, a collector's log and (for --put) a fake of IBM's package where the examples
    expect them.
    """
    writer = segments.SegmentWriter(place / "build" / "log" / "collector-1")
    writer.append(segments.encode_frame(1763694000500, b"outpost/b1/data", outpost_message(5)))
    writer.seal()
    mqtt_publish.single("outpost/b1/state", b"up", qos=1, retain=True, port=broker.port)
    lines = examples(["bridge"])
    outputs = ("publish.jsonl", "commands/000000000001.mq", "from-log.jsonl", None, "put.jsonl")
    assert len(lines) == len(outputs)
    for line, output in zip(lines, outputs, strict=True):
        more = {"OUTPOST_FAKE_MQ": str(place / "put.jsonl")}
        if "--put" in line:
            more["PYTHONPATH"] = os.pathsep.join(
                [str(FAKE), children.tools_environment()["PYTHONPATH"]]
            )
        # a client id of its own would have the retained message again; one session has it once
        if "--broker" in line:
            forget_session(broker.port)
        done = shell(place, line.replace("1883", str(broker.port)), **more)
        assert done.returncode == 0, (line, done.stderr)
        assert output is None or (place / output).stat().st_size > 100
    (record,) = map(json.loads, (place / "from-log.jsonl").read_text().splitlines())
    assert record["md"]["Format"] == "MQHRF2  "


def forget_session(port):
    """A clean session under the same client id ends the one that is there, so each example begins
    with the retained message.
    """
    import paho.mqtt.client as mqtt

    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, client_id="outpost-mq", clean_session=True
    )
    client.connect("127.0.0.1", port)
    until = time.monotonic() + 60
    while not client.is_connected() and time.monotonic() < until:
        client.loop(0.1)
    client.disconnect()
    client.loop(0.1)


@pytest.mark.parametrize("words", SUBCOMMANDS, ids=lambda words: " ".join(words) or "mq")
def test_each_help_names_its_options_and_has_examples(words):
    text = help_of(words)
    assert (
        "examples" in text and f"usage: outpost mq{''.join(' ' + word for word in words)}" in text
    )


def run(capsysbinary, *words, stdin=b"", monkeypatch=None):
    if monkeypatch is not None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    status = cli.main(["mq", *words])
    out, err = capsysbinary.readouterr()
    return status, out, err


def test_build_makes_the_seeds_first_example_in_hex(capsysbinary):
    status, out, _ = run(
        capsysbinary,
        "build",
        "--topic",
        "Sport/Soccer/Event/MatchStarted",
        "--text",
        "",
        "--form",
        "hex",
    )
    assert status == 0 and bytes.fromhex(out.decode()) == message(
        [COMPACT["match started"]], format_bytes=b"MQSTR   "
    )


@pytest.mark.parametrize("form", ["json", "hex", "raw"])
def test_parse_and_check_read_what_build_writes_in_every_form(
    capsysbinary, monkeypatch, tmp_path, form
):
    file = str(tmp_path / "m")
    words = "--topic a --topic b --option RetainPub --option Local --sub-point s --pub-time now"
    more = ["--seq-num", "3", "--text", "hé", "--form", form, "--out", file]
    assert run(capsysbinary, "build", *words.split(), *more)[0] == 0
    status, out, _ = run(capsysbinary, "parse", file)
    shown = json.loads(out)
    values = shown["headers"][0]["folders"][0]["values"]
    assert (
        status == 0
        and shown["body"] == {"length": 3, "text": "hé"}
        and ["Topic", "b"] in values
        and ["SeqNum", "3"] in values
    )
    assert run(capsysbinary, "check", file) == (0, b"", b"")
    stdin = Path(file).read_bytes()
    assert run(capsysbinary, "parse", "-", stdin=stdin, monkeypatch=monkeypatch)[1] == out


def test_check_lists_faults_and_tells_by_its_status(capsysbinary, tmp_path):
    bad = message(["<psc><Command>Publish</Command><Topic>#</Topic><SeqNum>x</SeqNum></psc>"])
    (tmp_path / "bad").write_bytes(bad)
    status, out, _ = run(capsysbinary, "check", str(tmp_path / "bad"))
    assert status == 1
    assert (
        b"error topic-wildcard" in out
        and b"(3072 MQRCCF_TOPIC_ERROR)" in out
        and b"warning seq-num" in out
    )


def test_check_finds_a_step_in_seq_num_over_several_messages(capsysbinary, tmp_path):
    lines = b""
    for number in ("1", "2", "4"):
        lines += run(capsysbinary, "build", "--topic", "a", "--seq-num", number)[1]
    (tmp_path / "lines").write_bytes(lines)
    status, out, _ = run(capsysbinary, "check", str(tmp_path / "lines"))
    assert status == 0 and out.count(b"seq-num-step") == 1


BRIDGE = ("bridge", "--broker", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("build", "--topic", "a/#"), "3072 MQRCCF_TOPIC_ERROR"),
        (("build", "--topic", "a", "--option", "OtherSubsOnly"), "3076 MQRCCF_Q_NAME_ERROR"),
        (("build", "--topic", "a", "--option", "CorrelAsId"), "3080 MQRCCF_CORREL_ID_ERROR"),
        (("build", "--topic", "a", "--request"), "2027 MQRC_MISSING_REPLY_TO_Q"),
        (("build", "--topic", "a\U0001f600"), "U+1F600"),
        (("build", "--topic", "a", "--text", "x", "--body", "y"), "give one of them"),
        (("build", "--topic", "a", "--body", "/nonexistent"), "/nonexistent"),
        (("build", "--topic", "a", "--usr", "a.b=1"), "2442 MQRC_PROPERTY_NAME_ERROR"),
        (("parse", "/nonexistent"), "/nonexistent"),
        (("parse", __file__), "not b'RFH '"),
        (("parse", "/dev/null"), "short"),
        (("check", "/dev/null", "--form", "json"), "no message in it"),
        ((*BRIDGE,), "name one output"),
        ((*BRIDGE, "--lines", "x", "--files", "y"), "name one output"),
        (("bridge", "--lines", "x"), "name one source"),
        (("bridge", "--lines", "x", "--credentials", "y", "--broker", "h:1"), "name one source"),
        (("bridge", "--lines", "x", "--credentials", "y", "--user", "u"), "only with --broker"),
        (("bridge", "--lines", "x", "--segments", "y", "--ca-file", "c"), "only with --broker"),
        ((*BRIDGE, "--lines", "x", "--password-file", "y"), "needs --user"),
        (("bridge", "--lines", "x", "--credentials", "no-file"), "--credentials no-file"),
        ((*BRIDGE, "--lines", "x", "--ca-file", "no-file"), "--ca-file no-file"),
        ((*BRIDGE, "--lines", "x", "--queue", "a b"), "--queue 'a b'"),
        ((*BRIDGE, "--lines", "x", "--reply-to-q", "a b"), "--reply-to-q 'a b'"),
        ((*BRIDGE, "--put", "QM1"), "ibmmq is not installed"),
        (
            ("bridge", "--segments", "/nonexistent", "--lines", "x"),
            "/nonexistent: no such directory",
        ),
        (
            (*BRIDGE, "--lines", "x", "--user", "u", "--password-file", "/nonexistent"),
            "/nonexistent",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsysbinary, tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ibmmq", None)
    status, _, err = run(capsysbinary, *words)
    assert status == 2 and complaint in err.decode() and err.count(b"\n") == 1


def test_options_that_argparse_refuses(capsys):
    for words in (
        ["build"],
        ["build", "--topic", "a", "--option", "IsRetainedPub"],
        ["build", "--topic", "a", "--correl-id", "00"],
        [*BRIDGE, "--lines", "x", "--until-idle", "nan"],  # would never end,
        [*BRIDGE, "--lines", "x", "--until-idle", "-1"],  # or at once
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["mq", *words])
        assert stopped.value.code == 2


def test_parse_says_which_byte_order_to_try(capsysbinary, tmp_path):
    (tmp_path / "m").write_bytes(message(["<psc/>"], encoding=546))
    status, _, err = run(capsysbinary, "parse", str(tmp_path / "m"))
    assert status == 2 and b"try encoding 546 (little)" in err
    assert run(capsysbinary, "parse", "--encoding", "little", str(tmp_path / "m"))[0] == 0
