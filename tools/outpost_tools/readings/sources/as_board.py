"""A mapping's message as those readers take it that know boards' messages: which values are current
(servers/republish/newest.py), and the rules of alerts.

It has the device's identifier (idents.py) as its device. Its readings have the message's arrival as
their time if the device gave none, so a reader never treats it as a board without a clock: an
arrival is not late. A message that is_last_known must not come here. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpost_tools.messages import message, senml
from outpost_tools.readings.sources.idents import ident

if TYPE_CHECKING:
    from outpost_tools.readings.sources.result import Message


def as_board(found: Message, received_s: float) -> message.Message:
    """received_s: its arrival, in seconds since 1970."""
    readings = [
        senml.Reading(
            index, one.name, one.unit, one.value,
            received_s if one.time_us is None or found.time_from != "device" else one.time_us / 1e6,
        )
        for index, one in enumerate(found.readings)
    ]  # fmt: skip
    return message.Message(ident(found.device), "", 0, 0, 0, None, readings=readings)
