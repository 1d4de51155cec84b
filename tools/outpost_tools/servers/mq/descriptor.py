"""The MQMD fields that belong to a command message: half of the contract, but not part of the
message's bytes.

In JSON they have IBM's names; MsgId and CorrelId are 48 hex digits, Format has its 8 characters.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from outpost_tools.servers.mq.header import BIG_ENDIAN, FORMAT_RFH2, pad_format
from outpost_tools.servers.mq.reasons import MqError

REQUEST, REPLY, DATAGRAM = 1, 2, 8  # MQMT_*
REPORT_PAN, REPORT_NAN = 1, 2  # MQRO_PAN, MQRO_NAN: answer on success, on failure
NOT_PERSISTENT, PERSISTENT = 0, 1
UNLIMITED = -1
NO_ID = bytes(24)

_NAMES = {
    "report": "Report",
    "msg_type": "MsgType",
    "expiry": "Expiry",
    "encoding": "Encoding",
    "ccsid": "CodedCharSetId",
    "format": "Format",
    "priority": "Priority",
    "persistence": "Persistence",
    "msg_id": "MsgId",
    "correl_id": "CorrelId",
    "reply_to_q": "ReplyToQ",
    "reply_to_q_mgr": "ReplyToQMgr",
}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Defaults are those of a Publish command that wants no response.

    `expiry` is in tenths of a second.
    """

    report: int = 0
    msg_type: int = DATAGRAM
    expiry: int = UNLIMITED
    encoding: int = BIG_ENDIAN
    ccsid: int = 1208
    format: str = FORMAT_RFH2
    priority: int = -1  # the queue's default
    persistence: int = PERSISTENT
    msg_id: bytes = NO_ID
    correl_id: bytes = NO_ID
    reply_to_q: str = ""
    reply_to_q_mgr: str = ""

    def to_json(self) -> dict[str, Any]:
        """With IBM's names."""
        record = {name: getattr(self, attribute) for attribute, name in _NAMES.items()}
        record["Format"] = pad_format(self.format).decode()
        return {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in record.items()
        }


def from_json(record: Any) -> Descriptor:
    """Raises MqError for unknown fields and wrong types; missing fields get their defaults."""
    attributes = {name: attribute for attribute, name in _NAMES.items()}
    if not isinstance(record, dict) or not record.keys() <= attributes.keys():
        known = ", ".join(attributes)
        raise MqError("descriptor", 2334, f"md: expected an object with only these fields: {known}")
    kinds = {field.name: field.type for field in fields(Descriptor)}
    return Descriptor(
        **{
            attributes[name]: _value(name, value, kinds[attributes[name]])
            for name, value in record.items()
        }
    )


def _value(name: str, value: Any, kind: str) -> Any:
    if kind == "int" and type(value) is int and -(1 << 31) <= value < 1 << 31:
        return value
    if kind == "str" and isinstance(value, str) and len(value) <= 48:
        return value.rstrip(" ")
    if kind == "bytes" and isinstance(value, str):
        try:
            identifier = bytes.fromhex(value)
        except ValueError:
            identifier = b""
        if len(identifier) == 24:
            return identifier
    wanted = {
        "int": "a 32-bit number",
        "str": "a string of at most 48 characters",
        "bytes": "48 hex digits",
    }[kind]
    raise MqError("descriptor", 2334, f"md: {name} is {value!r}; expected {wanted}")
