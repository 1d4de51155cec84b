"""As much of IBM's `ibmmq` 2.1 as outpost_tools.servers.mq.live uses, over a queue manager that
lives in
this module.

`server` holds what was put and committed, and a list of failures to come. With OUTPOST_FAKE_MQ=FILE
in the environment each committed message is also a JSON line in FILE, fsynced, so that another
process can see it.
"""

import json
import os
from types import SimpleNamespace

CMQC = SimpleNamespace(
    MQOO_OUTPUT=0x10,
    MQOO_FAIL_IF_QUIESCING=0x2000,
    MQPMO_SYNCPOINT=0x2,
    MQPMO_NEW_MSG_ID=0x40,
    MQPMO_FAIL_IF_QUIESCING=0x2000,
    MQCC_OK=0,
    MQCC_WARNING=1,
    MQCC_FAILED=2,
)


class Server:
    """One queue manager with one connection. A unit of work is open between the first put and
    MQCMIT, MQBACK or MQDISC.
    """

    def __init__(self):
        self.reset()

    def reset(self):
        self.committed, self.pending, self.calls, self.failures = [], [], [], []

    def fail(self, verb, comp, reason, *, after=False):
        """The next `verb` returns this; `after`: it is done anyway, only the answer is bad."""
        self.failures.append((verb, comp, reason, after))

    def call(self, verb, action=lambda: None):
        """(completion code, reason code)"""
        self.calls.append(verb)
        for failure in self.failures:
            if failure[0] == verb:
                self.failures.remove(failure)
                if failure[3]:
                    action()
                return failure[1:3]
        action()
        return 0, 0

    def commit(self):
        self.committed += self.pending
        path = os.environ.get("OUTPOST_FAKE_MQ")
        if path and self.pending:
            with open(path, "a") as file:
                file.write(
                    "".join(
                        json.dumps([queue, data.hex()]) + "\n" for queue, _, data in self.pending
                    )
                )
                file.flush()
                os.fsync(file.fileno())
        self.pending = []

    def backout(self):
        self.pending = []


server = Server()


class Error(Exception):
    pass


class MQMIError(Error):
    def __init__(self, comp, reason):
        super().__init__(comp, reason)
        self.comp, self.reason = comp, reason

    def __str__(self):
        return f"MQI Error. Comp {self.comp}, Reason {self.reason}"


class PYIFError(Error):
    pass


def _check(codes):
    if codes[0]:
        raise MQMIError(*codes)


class _Structure:
    """Takes the fields that IBM's structure has, and no others."""

    FIELDS: tuple = ()

    def __init__(self, **fields):
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise PYIFError(f"{type(self).__name__} has no field {name}")
            setattr(self, name, value)


class MD(_Structure):
    FIELDS = (
        *(
            "Report",
            "MsgType",
            "Expiry",
            "Feedback",
            "Encoding",
            "CodedCharSetId",
            "Format",
            "Priority",
            "Persistence",
        ),
        *(
            "MsgId",
            "CorrelId",
            "BackoutCount",
            "ReplyToQ",
            "ReplyToQMgr",
            "UserIdentifier",
            "PutApplType",
            "GroupId",
        ),
    )


class PMO(_Structure):
    FIELDS = ("Options", "Timeout", "Context", "ResolvedQName", "ResolvedQMgrName")


class CD(_Structure):
    FIELDS = ("ChannelName", "ConnectionName", "ChannelType", "TransportType")


class QueueManager:
    def __init__(self, name="", disconnect_on_exit=True):
        self._connected = False
        if name is not None:
            self.connect_with_options(name)

    def connect_with_options(self, name, *, user=None, password=None, cd=None):
        if user and password is None:
            raise ValueError("Password must not be None if user is provided")
        _check(server.call("MQCONNX"))
        self._connected = True

    def connect_tcp_client(self, name, cd, channel, conn_name, user=None, password=None):
        if not isinstance(cd, CD):
            raise TypeError("cd must be an instance of CD")
        self.connect_with_options(name, user=user, password=password, cd=cd)

    def commit(self):
        _check(server.call("MQCMIT", server.commit))

    def backout(self):
        _check(server.call("MQBACK", server.backout))

    def disconnect(self):
        if not self._connected:
            raise PYIFError("not connected")
        self._connected = False
        _check(server.call("MQDISC", server.commit))  # MQDISC commits what is open


class Queue:
    def __init__(self, manager, *opts):
        self._name = opts[0].encode("ascii") if isinstance(opts[0], str) else opts[0]
        _check(server.call("MQOPEN"))
        self._open = True

    def put(self, data, *opts):
        md, pmo = opts
        if not isinstance(data, bytes) or not isinstance(md, MD) or not isinstance(pmo, PMO):
            raise TypeError("bytes, MD and PMO are due")
        assert pmo.Options & CMQC.MQPMO_SYNCPOINT
        _check(server.call("MQPUT", lambda: server.pending.append((self._name.decode(), md, data))))

    def close(self, options=0):
        if not self._open:
            raise PYIFError("not open")
        self._open = False
        _check(server.call("MQCLOSE"))
