"""IBM's reason codes for publish/subscribe commands, and the two forms of a fault: Fault (a
record) and MqError (raised).

Numbers and names are those of IBM's cmqc.h and cmqcfc.h.
"""

from __future__ import annotations

from dataclasses import dataclass

MNEMONICS = {
    0: "MQRC_NONE",
    2005: "MQRC_BUFFER_LENGTH_ERROR",
    2013: "MQRC_EXPIRY_ERROR",
    2027: "MQRC_MISSING_REPLY_TO_Q",
    2029: "MQRC_MSG_TYPE_ERROR",
    2030: "MQRC_MSG_TOO_BIG_FOR_Q",
    2047: "MQRC_PERSISTENCE_ERROR",
    2110: "MQRC_FORMAT_ERROR",
    2111: "MQRC_SOURCE_CCSID_ERROR",
    2112: "MQRC_SOURCE_INTEGER_ENC_ERROR",
    2228: "MQRC_RFH_HEADER_FIELD_ERROR",
    2334: "MQRC_RFH_ERROR",
    2335: "MQRC_RFH_STRING_ERROR",
    2336: "MQRC_RFH_COMMAND_ERROR",
    2337: "MQRC_RFH_PARM_ERROR",
    2338: "MQRC_RFH_DUPLICATE_PARM",
    2339: "MQRC_RFH_PARM_MISSING",
    2421: "MQRC_RFH_FORMAT_ERROR",
    2442: "MQRC_PROPERTY_NAME_ERROR",
    2551: "MQRC_SELECTION_NOT_AVAILABLE",
    2554: "MQRC_CONTENT_ERROR",
    2598: "MQRC_ADMIN_TOPIC_STRING_ERROR",
    3008: "MQRCCF_COMMAND_FAILED",
    3071: "MQRCCF_STREAM_ERROR",
    3072: "MQRCCF_TOPIC_ERROR",
    3073: "MQRCCF_NOT_REGISTERED",
    3074: "MQRCCF_Q_MGR_NAME_ERROR",
    3075: "MQRCCF_INCORRECT_STREAM",
    3076: "MQRCCF_Q_NAME_ERROR",
    3077: "MQRCCF_NO_RETAINED_MSG",
    3078: "MQRCCF_DUPLICATE_IDENTITY",
    3079: "MQRCCF_INCORRECT_Q",
    3080: "MQRCCF_CORREL_ID_ERROR",
    3081: "MQRCCF_NOT_AUTHORIZED",
    3082: "MQRCCF_UNKNOWN_STREAM",
    3083: "MQRCCF_REG_OPTIONS_ERROR",
    3084: "MQRCCF_PUB_OPTIONS_ERROR",
    3087: "MQRCCF_DEL_OPTIONS_ERROR",
    3150: "MQRCCF_FILTER_ERROR",
    3151: "MQRCCF_WRONG_USER",
    3152: "MQRCCF_DUPLICATE_SUBSCRIPTION",
    3153: "MQRCCF_SUB_NAME_ERROR",
    3309: "MQRCCF_SUBSCRIPTION_POINT_ERR",
}

ERROR = "error"  # a queue manager would refuse it, or no reader could read it
WARNING = "warning"  # a queue manager does not check it, or is not documented to


def mnemonic(reason: int) -> str:
    """`MQRC_RFH_ERROR` for 2334; `reason N` for a number that is not in the table."""
    return MNEMONICS.get(reason, f"reason {reason}")


@dataclass(frozen=True, slots=True)
class Fault:
    """A single fault.

    `name` is stable (`topic-wildcard`); `reason` is IBM's, 0 where IBM has none.
    """

    name: str
    reason: int
    text: str
    severity: str = ERROR

    @property
    def mnemonic(self) -> str:
        return mnemonic(self.reason)

    def __str__(self) -> str:
        code = f" ({self.reason} {self.mnemonic})" if self.reason else ""
        return f"{self.severity} {self.name}: {self.text}{code}"


class MqError(ValueError):
    """Bytes or values that are not a Publish command message; `fault` names the cause."""

    def __init__(self, name: str, reason: int, text: str) -> None:
        self.fault = Fault(name, reason, text)
        super().__init__(str(self.fault))

    @property
    def name(self) -> str:
        return self.fault.name

    @property
    def reason(self) -> int:
        return self.fault.reason
