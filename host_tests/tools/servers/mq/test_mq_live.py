# cpython-only: tests a desktop tool
"""The live put: commit before acknowledgement, backout and retry, over a fake `ibmmq` and over
IBM's own Python layer.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import mq_readers
from outpost_tools.errors import ToolError
from outpost_tools.machine import children
from outpost_tools.servers.mq import live, storage
from outpost_tools.servers.mq.bridge import Bridge, Incoming
from outpost_tools.servers.mq.mapping import Options, Publication, to_mq
from paths import FAKES

FAKE = FAKES / "fake_ibmmq" / "ibmmq.py"


def load_fake():
    spec = importlib.util.spec_from_file_location("fake_ibmmq", FAKE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fake_ibmmq = load_fake()


@pytest.fixture
def server():
    """The queue manager."""
    fake_ibmmq.server.reset()
    return fake_ibmmq.server


@pytest.fixture(scope="module", params=["fake", "ibmmq"])
def ibmmq(request):
    """The fake, and IBM's own Python layer with only its C part replaced."""
    if request.param == "fake":
        yield fake_ibmmq
        return
    with mq_readers.ibmmq(fake_ibmmq.server) as module:
        yield module


@pytest.fixture
def sink(ibmmq, server, monkeypatch):
    """What `import ibmmq` finds is one of the two."""
    monkeypatch.setitem(sys.modules, "ibmmq", ibmmq)
    return live.QueueManager(
        live.Connection("QM1", "DEV.APP.SVRCONN", "localhost(1414)", "app", "secret")
    )


class Source:
    """Gives its batches, and notes in the server's list of calls when they are acknowledged."""

    def __init__(self, server, batches):
        self._server = server
        self._batches = list(batches)
        self.acknowledged = []
        self.idled = 0
        self.is_finished = False

    def take(self, wait_s):
        if self._batches:
            return self._batches.pop(0)
        self.is_finished = True
        return []

    def ack(self, received):
        self._server.calls.append("PUBACK")
        self.acknowledged += received

    def idle(self):
        self.idled += 1

    def close(self):
        pass


def incoming(*payloads):
    return [Incoming(Publication(b"a", payload, 1), 0, None) for payload in payloads]


def run(server, sink, tmp_path, *batches):
    source = Source(server, batches)
    refused = storage.Lines(tmp_path / "refused.jsonl")
    bridge = Bridge(source, sink, refused, Options())
    status = bridge.run()
    sink.close()
    refused.close()
    return source, bridge, status


def committed(server):
    return [data[-1:] for _, _, data in server.committed]


def test_put_under_syncpoint_then_commit_then_puback(server, sink, tmp_path):
    source, bridge, status = run(server, sink, tmp_path, incoming(b"1", b"2"), incoming(b"3"))
    once = ["MQPUT", "MQCMIT", "PUBACK"]
    assert server.calls == ["MQCONNX", "MQOPEN", "MQPUT", *once, *once, "MQCLOSE", "MQDISC"]
    assert (committed(server), status, bridge.forwarded, len(source.acknowledged)) == (
        [b"1", b"2", b"3"],
        0,
        3,
        3,
    )


def test_what_is_put_is_the_message_with_its_descriptor(server, sink, ibmmq):
    outgoing = to_mq(Publication(b"a/b", b"\x00", 0, retain=True), Options(queue="SPORT"))
    sink.put([outgoing])
    queue, md, data = server.committed[0]
    # the real one packs it for the C part
    md = ibmmq.MD().unpack(md) if isinstance(md, bytes) else md
    assert (queue, data, md.Format, md.Persistence, md.Encoding) == (
        "SPORT",
        outgoing.data,
        b"MQHRF2  ",
        0,
        273,
    )
    assert (md.MsgType, md.CodedCharSetId, md.Expiry, md.Priority, md.Report) == (
        8,
        1208,
        -1,
        -1,
        0,
    )


def test_a_connection_by_bindings(server, sink):
    live.QueueManager(live.Connection("QM1")).put([to_mq(Publication(b"a", b"1", 1), Options())])
    assert committed(server) == [b"1"]


@pytest.mark.parametrize(
    ("verb", "comp", "reason"),
    [
        ("MQCONNX", 2, 2059),
        ("MQOPEN", 2, 2085),
        ("MQPUT", 2, 2053),
        ("MQCMIT", 2, 2009),
        ("MQCMIT", 1, 2003),
    ],
)
def test_a_failure_is_backed_out_and_tried_again(
    server, sink, tmp_path, capsys, verb, comp, reason
):
    server.fail(verb, comp, reason)
    source, _, status = run(server, sink, tmp_path, incoming(b"1", b"2"))
    assert (committed(server), status, len(source.acknowledged)) == ([b"1", b"2"], 0, 2)
    assert (
        server.calls.count("PUBACK") == 1 and server.calls.index("PUBACK") > len(server.calls) - 4
    )
    assert str(reason) in capsys.readouterr().err
    assert source.idled > 0


def test_a_put_that_fails_in_the_middle_is_not_committed_by_the_disconnect(server, sink, tmp_path):
    """MQDISC commits what is open: without MQBACK before it, message 1 would be there twice."""
    original = server.call
    seen = []

    def second_put_fails(verb, action=lambda: None):
        seen.append(verb)
        if verb == "MQPUT" and seen.count("MQPUT") == 2:
            server.calls.append(verb)
            return 2, 2053
        return original(verb, action)

    server.call = second_put_fails
    try:
        run(server, sink, tmp_path, incoming(b"1", b"2"))
    finally:
        del server.call
    assert committed(server) == [b"1", b"2"]
    assert seen.index("MQBACK") < seen.index("MQDISC")


def test_a_commit_whose_answer_is_lost_may_repeat_but_does_not_lose(server, sink, tmp_path):
    server.fail("MQCMIT", 2, 2009, after=True)
    run(server, sink, tmp_path, incoming(b"1"))
    assert committed(server) == [b"1", b"1"]


def test_a_warning_at_the_put_is_no_failure(server, sink, tmp_path):
    server.fail("MQPUT", 1, 2049, after=True)
    run(server, sink, tmp_path, incoming(b"1", b"2"))
    assert committed(server) == [b"1", b"2"] and "MQBACK" not in server.calls


def test_a_message_that_is_too_big_is_set_aside_and_the_others_go_on(server, sink, tmp_path):
    server.fail("MQPUT", 2, 2030)
    source, bridge, _ = run(server, sink, tmp_path, incoming(b"1", b"2", b"3"))
    assert (committed(server), len(source.acknowledged), bridge.refusals) == ([b"2", b"3"], 3, 1)
    line = (tmp_path / "refused.jsonl").read_text()
    assert '"payload_base64": "MQ=="' in line and '"name": "message-length"' in line


def test_a_stop_during_retries_acknowledges_nothing(server, sink, tmp_path, capsys):
    for _ in range(100):
        server.fail("MQCONNX", 2, 2059)
    source = Source(server, [incoming(b"1")])
    refused = storage.Lines(tmp_path / "refused.jsonl")
    bridge = Bridge(source, sink, refused, Options())
    source.idle = bridge.ending.set
    assert bridge.run() == 1
    assert (source.acknowledged, committed(server)) == ([], [])
    assert "not acknowledged; their source keeps them" in capsys.readouterr().err


def test_without_ibmmq_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ibmmq", None)
    with pytest.raises(ToolError, match="ibmmq"):
        live.load()


def broken(tmp_path, monkeypatch, text):
    (tmp_path / "ibmmq.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ibmmq", raising=False)


def test_without_the_client_library_the_message_says_so(tmp_path, monkeypatch):
    text = "libmqm_r.so: cannot open shared object file: No such file or directory"
    broken(tmp_path, monkeypatch, f"raise ImportError({text!r})")
    with pytest.raises(ToolError, match=r"libmqm_r\.so.*LD_LIBRARY_PATH"):
        live.load()


def test_another_module_that_is_missing_is_named(tmp_path, monkeypatch):
    broken(tmp_path, monkeypatch, "import no_such_module_here")
    with pytest.raises(ToolError, match="no_such_module_here"):
        live.load()


def test_nothing_but_live_knows_ibmmq_and_importing_the_command_does_not_load_it():
    folder = Path(live.__file__).parent
    assert [path.name for path in folder.glob("*.py") if "import ibmmq" in path.read_text()] == [
        "live.py"
    ]
    code = (
        "import sys; from outpost_tools import cli; cli.build_parser('mq'); "
        "import outpost_tools.servers.mq.make;"
        "sys.exit(bool({'ibmmq', 'paho'} & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=False, env=children.tools_environment()
        ).returncode
        == 0
    )
