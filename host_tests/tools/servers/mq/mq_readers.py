"""Other people's RFH2 code, with its C part stubbed: pymqi and IBM's ibmmq, as fetch_mq_readers.py
left them.
"""

import importlib
import struct
import sys
import types
from contextlib import contextmanager

import pytest

from fetch_mq_readers import folder

HINT = "run `.venv/bin/python host_tests/tools/servers/mq/fetch_mq_readers.py`"


@contextmanager
def _imported(name, path, stub):
    """The package from `path`; sys.path and sys.modules are as before when this ends (ibmmq puts
    itself on sys.path).
    """
    if not (path / name / "__init__.py").exists():
        pytest.skip(f"optional: {name} is not in {folder()}; {HINT}")
    modules, paths = dict(sys.modules), list(sys.path)
    sys.modules[stub.__name__] = stub
    sys.path.insert(0, str(path))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path[:] = paths
        for added in set(sys.modules) - set(modules):
            del sys.modules[added]


def pymqi():
    stub = types.ModuleType("pymqi.pymqe")
    stub.__mqlevels__, stub.__mqbuild__ = (), "client"
    return _imported("pymqi", folder() / "pymqi-1.12.13" / "code", stub)


def ibmmq(server=None):
    """With `server` (of fake_ibmmq) behind the C calls that a put needs."""
    stub = types.ModuleType("ibmmq.ibmmqc")
    stub.__version__, stub.__cmdlevel__, stub.__mqbuild__, stub.__strucversions__ = (
        "2.1.2",
        940,
        "client",
        {},
    )
    stub.MQCBINIT = stub.MQLOGCF = lambda *_: None
    if server is not None:
        _connect(stub, server)
    return _imported("ibmmq", folder(), stub)


def _connect(stub, server):
    """The C functions of a put, as ibmmq's Python calls them."""
    names = {}

    def mqopen(_manager, od, _options):
        handle = len(names) + 1
        names[handle] = od[12:60].rstrip(b"\0 ").decode()  # after StrucId, Version and ObjectType
        return (handle, od, *server.call("MQOPEN"))

    def mqput(_manager, handle, md, pmo, data):
        assert struct.unpack_from("=i", pmo, 8)[0] & 2, "not under syncpoint"
        return (
            md,
            pmo,
            *server.call("MQPUT", lambda: server.pending.append((names[handle], md, data))),
        )

    stub.MQCONNX = lambda *_: (1, *server.call("MQCONNX"))
    stub.MQOPEN, stub.MQPUT = mqopen, mqput
    stub.MQCMIT = lambda _: server.call("MQCMIT", server.commit)
    stub.MQBACK = lambda _: server.call("MQBACK", server.backout)
    stub.MQDISC = lambda _: server.call("MQDISC", server.commit)
    stub.MQCLOSE = lambda *_: server.call("MQCLOSE")
