"""A live put through IBM's `ibmmq`: under syncpoint, one commit per batch. The only module that
uses `ibmmq`.

`ibmmq` needs IBM's client library, so it is imported only when a put is asked for. The order: put
all messages, commit, and only then may the caller acknowledge. After any failure we back out what
we can, and the batch is retried. If the commit's answer was lost, messages may be there twice (at
least once).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.machine import needs
from outpost_tools.servers.mq.header import pad_format
from outpost_tools.servers.mq.mapping import Outgoing
from outpost_tools.servers.mq.reasons import MqError
from outpost_tools.servers.mq.storage import SinkError, Unputtable

# The message itself is the reason, so a retry cannot help: MQRC_DATA_LENGTH_ERROR,
# MSG_TOO_BIG_FOR_Q, _Q_MGR, _CHANNEL.
_NEVER = (2010, 2030, 2031, 2218)
_TOO_BIG = 2030


@dataclass(frozen=True, slots=True)
class Connection:
    """`channel` and `address` ("host(1414)") for a client connection; if both are empty: bindings,
    or MQSERVER and the CCDT."""

    queue_manager: str
    channel: str = ""
    address: str = ""
    user: str | None = None
    password: str | None = None


def load() -> Any:
    """The module `ibmmq`.

    Raises ToolError that says what is missing: the package, or IBM's client library.
    """
    try:
        import ibmmq
    except ModuleNotFoundError as error:
        if error.name != "ibmmq":
            raise ToolError(f"ibmmq cannot be used: {error}") from None
        raise ToolError(
            f"ibmmq is not installed; run: {needs.install('mq')}; and IBM's MQ client"
        ) from None
    except (ImportError, OSError) as error:  # the loader cannot find libmqm
        raise ToolError(
            f"IBM's MQ client cannot be loaded ({error}); install it, or set LD_LIBRARY_PATH to it"
        ) from None
    return ibmmq


class QueueManager:
    """A sink. Connects at the first put, and reconnects after any failure."""

    def __init__(self, connection: Connection) -> None:
        self._mq = load()
        self._connection = connection
        self._manager: Any = None
        self._queues: dict[str, Any] = {}

    def put(self, messages: Sequence[Outgoing]) -> None:
        """Put and commit all of them.

        Raises SinkError or Unputtable; nothing of the batch was then committed.
        """
        done = 0
        try:
            if self._manager is None:
                self._manager = self._connect()
            for message in messages:
                self._put_one(message)
                done += 1
        except self._mq.Error as error:
            self._give_up()
            if getattr(error, "reason", None) in _NEVER:
                raise Unputtable(done, MqError("message-length", _TOO_BIG, str(error))) from None
            raise SinkError(f"queue manager {self._connection.queue_manager}: {error}") from None
        self._commit()

    def close(self) -> None:
        self._disconnect()

    def _commit(self) -> None:
        """Any completion code but OK means that the unit of work was backed out, or that its
        outcome is not known yet."""
        try:
            self._manager.commit()
        except self._mq.Error as error:
            self._give_up()
            raise SinkError(
                f"queue manager {self._connection.queue_manager}: commit: {error}"
            ) from None

    def _connect(self) -> Any:
        mq, with_ = self._mq, self._connection
        manager = mq.QueueManager(None)
        if with_.channel:
            manager.connect_tcp_client(
                with_.queue_manager,
                mq.CD(),
                with_.channel,
                with_.address,
                with_.user,
                with_.password,
            )
        else:
            manager.connect_with_options(
                with_.queue_manager, user=with_.user, password=with_.password
            )
        return manager

    def _queue(self, name: str) -> Any:
        if name not in self._queues:
            options = self._mq.CMQC.MQOO_OUTPUT | self._mq.CMQC.MQOO_FAIL_IF_QUIESCING
            self._queues[name] = self._mq.Queue(self._manager, name, options)
        return self._queues[name]

    def _put_one(self, message: Outgoing) -> None:
        constants = self._mq.CMQC
        queue = self._queue(message.queue)
        options = self._mq.PMO(
            Options=constants.MQPMO_SYNCPOINT
            | constants.MQPMO_FAIL_IF_QUIESCING
            | constants.MQPMO_NEW_MSG_ID
        )
        try:
            queue.put(message.data, self._descriptor(message), options)
        except self._mq.MQMIError as error:
            if error.comp != constants.MQCC_WARNING:  # with a warning, the message was put
                raise

    def _descriptor(self, message: Outgoing) -> Any:
        md = message.md
        return self._mq.MD(
            Report=md.report,
            MsgType=md.msg_type,
            Expiry=md.expiry,
            Encoding=md.encoding,
            CodedCharSetId=md.ccsid,
            Format=pad_format(md.format),
            Priority=md.priority,
            Persistence=md.persistence,
            CorrelId=md.correl_id,
            ReplyToQ=md.reply_to_q.encode("ascii"),
            ReplyToQMgr=md.reply_to_q_mgr.encode("ascii"),
        )

    def _give_up(self) -> None:
        """Back out, and drop the connection: after an error its handles may be invalid."""
        if self._manager is not None:
            with contextlib.suppress(self._mq.Error):
                self._manager.backout()
        self._disconnect()

    def _disconnect(self) -> None:
        """MQDISC commits an open unit of work, so backout() must come before it."""
        manager, self._manager = self._manager, None
        queues, self._queues = self._queues, {}
        for close in [
            *(queue.close for queue in queues.values()),
            *([manager.disconnect] if manager else []),
        ]:
            with contextlib.suppress(self._mq.Error):
                close()
