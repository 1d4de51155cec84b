"""The rules for all names: device ids, topic prefixes, readings, and the ids of collectors.

Law: wherever messages arrive, every name that a board in the field may have is accepted (`is_...`).
The names allowed for a new board are fewer, so that every broker, folder and table can take them
(`..._fault`: "", or a text that follows the name of the key and says what is wrong and what to
write). `firmware/station/settings.py` checks names when a board starts, and accepts all that are
accepted here. Pure.
"""

from __future__ import annotations

import re
from typing import Any

from outpost_tools.messages.board_words import COMMANDS, DIAGNOSTIC, OF_SENSORS

_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")
_CLIENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}\Z")
_LEVEL = r"[^+#/\0\ud800-\udfff]+"  # the last range: bytes of the command line that are not UTF-8
_TOPIC = re.compile(rf"{_LEVEL}(/{_LEVEL})*\Z")
_NOT_IN_PREFIX = re.compile(r"[+#\0\s%]")
_OF_SERVERS = ("$SYS", "$share", "$CONTROL", "$queue")
_MOST_LEVELS = 5
RESERVED = (
    "collectors",
    "admin",
)  # below PREFIX/collectors/ is what collectors say; a broker's user


# --- Names that exist already ---


def is_device(name: str) -> bool:
    return _DEVICE.match(name) is not None


def is_base_name(name: Any) -> bool:
    """Whether it is a SenML base name as our boards send it: the device and a slash."""
    return isinstance(name, str) and name.endswith("/") and is_device(name[:-1])


def is_topic_of(topic: str, device: str) -> bool:
    return topic.split("/")[-2:-1] == [device]


def device_of(topic: str, base_name: Any) -> str | None:
    """The device, if base name and topic `<prefix>/<device>/data` agree; otherwise None."""
    return (
        base_name[:-1] if is_base_name(base_name) and is_topic_of(topic, base_name[:-1]) else None
    )


def is_client(text: str) -> bool:
    """Whether it can name a collector or a group: an MQTT client identifier and a folder."""
    return _CLIENT.match(text) is not None


def is_topic(text: str) -> bool:
    """Whether clients can publish below it: it has no wildcard and no empty level, and is not one
    of the server's own topics."""
    return _TOPIC.match(text) is not None and text.partition("/")[0] not in _OF_SERVERS


def is_prefix(text: str) -> bool:
    """Whether it can be written in the access rights of our broker."""
    return is_topic(text) and not _NOT_IN_PREFIX.search(text)


# --- New names ---


def member_fault(name: str) -> str:
    """For the name of a board, a collector or a reader at the broker that we configure."""
    if not is_device(name):
        return "is not a valid name: use 1 to 32 of A-Z a-z 0-9 _ . -"
    if name.startswith("."):
        return f"begins with a full stop, and files get its name; write {_plain(name)!r}"
    if name in RESERVED:
        return f"is reserved for the broker's own use; write {name + '-1'!r}"
    return ""


def device_fault(name: str) -> str:
    fault = member_fault(name)
    if not fault and "." in name:
        return (
            "has a full stop, and NATS refuses the connection of such a board (tools/BROKERS.md); "
            f"write {_plain(name)!r}"
        )
    return fault


def prefix_fault(prefix: str) -> str:
    levels = [one for one in prefix.split("/") if one]
    if "/".join(levels) != prefix or not levels:
        return (
            f"has an empty level, which collectors refuse; write {'/'.join(levels) or 'outpost'!r}"
        )
    if prefix.startswith("$"):
        meant = prefix.lstrip("$").lower() or "outpost"
        return f"begins with '$', which is for the broker's own topics; write {meant!r}"
    if found := _NOT_IN_PREFIX.search(prefix):
        meant = _NOT_IN_PREFIX.sub("-", prefix)
        return f"holds {found[0]!r}, which not every broker's rights can name; write {meant!r}"
    if len(levels) > _MOST_LEVELS:
        meant = "/".join(levels[:_MOST_LEVELS])
        return (
            f"has {len(levels)} levels, and AWS IoT takes {_MOST_LEVELS} (tools/BROKERS.md); "
            f"write {meant!r}"
        )
    return ""


def reading_fault(name: str) -> str:
    """For a reading of a sensor with a driver. It must differ from the board's own readings, which
    are in the same tables."""
    if name in DIAGNOSTIC or name in COMMANDS or name.endswith(OF_SENSORS):
        return (
            f"has a sensor with the reading {name!r}, by which the board reports its own state; "
            "give the sensor another 'name'"
        )
    return ""


def _plain(name: str) -> str:
    return name.strip(".").replace(".", "-") or "board-1"
