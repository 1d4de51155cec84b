"""The command folder `<psc>`: an ordered list of properties, known and unknown.

The order is free in MQ (IBM's own examples differ), so commands that were read keep their order;
publish() writes IBM's usual one. Property names, option names and their case are those of IBM's
cmqpsc.h.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq.descriptor import NO_ID, Descriptor
from outpost_tools.servers.mq.folder import Element
from outpost_tools.servers.mq.reasons import MqError

FOLDER = "psc"
PUBLISH = "Publish"
DELETE = "DeletePub"
COMMANDS = (PUBLISH, DELETE, "RegSub", "DeregSub", "ReqUpdate")

RETAIN_PUB = "RetainPub"
IS_RETAINED_PUB = "IsRetainedPub"
LOCAL = "Local"
OTHER_SUBS_ONLY = "OtherSubsOnly"
CORREL_AS_ID = "CorrelAsId"
NONE = "None"
PUBLICATION_OPTIONS = (RETAIN_PUB, IS_RETAINED_PUB, LOCAL, OTHER_SUBS_ONLY, CORREL_AS_ID, NONE)

# True: may be repeated.
PUBLISH_PROPERTIES = {
    "Command": False,
    "Topic": True,
    "SubPoint": False,
    "PubOpt": True,
    "PubTime": False,
    "SeqNum": False,
    "QMgrName": False,
    "QName": False,
}
DELETE_PROPERTIES = {"Command": False, "Topic": True, "SubPoint": False, "DelOpt": True}


@dataclass(frozen=True, slots=True)
class Command:
    """A `<psc>` folder. Values are not checked here: outpost_tools.servers.mq.check lists their
    faults."""

    properties: tuple[Element, ...]

    @property
    def name(self) -> str:
        """`Publish`; empty when there is no Command."""
        return self.first("Command") or ""

    @property
    def topics(self) -> list[str]:
        return self.values("Topic")

    @property
    def options(self) -> list[str]:
        """The publication options that have an effect: None is ignored beside others, and alone it
        means no option."""
        return [option for option in self.values("PubOpt") if option != NONE]

    def values(self, name: str) -> list[str]:
        return [element.text for element in self.properties if element.name == name]

    def first(self, name: str) -> str | None:
        """The first value of a property, None when it is missing."""
        return next(iter(self.values(name)), None)

    def with_properties(self, properties: Iterable[Element]) -> Command:
        return replace(self, properties=tuple(properties))

    def element(self) -> Element:
        return Element(FOLDER, children=self.properties)

    def text(self, *, pretty: bool = False) -> str:
        """The folder's text. Raises MqError for a character that XML cannot hold."""
        return xml.write_pretty(self.element()) if pretty else xml.write(self.element())


def read(text: str) -> Command:
    """The command in a folder's text; anything but a known property keeps its text verbatim.

    Raises MqError.
    """
    root = xml.parse(text)
    if root.name != FOLDER:
        raise MqError("psc-missing", 2339, f"the folder is <{root.name}>, not <psc>")
    return Command(tuple(_kept(child, text) for child in root.children))


def _kept(child: Element, text: str) -> Element:
    is_plain = child.name in PUBLISH_PROPERTIES and not child.children and not child.attributes
    return child if is_plain else replace(child, raw=text[slice(*child.span)])


def publish(
    topics: Sequence[str],
    *,
    options: Sequence[str] = (),
    sub_point: str | None = None,
    pub_time: str | None = None,
    seq_num: int | str | None = None,
    q_mgr_name: str | None = None,
    q_name: str | None = None,
) -> Command:
    """A Publish command in IBM's usual order, without the properties that are None."""
    values = [("Command", PUBLISH)]
    values += [("Topic", topic) for topic in topics]
    values += [("SubPoint", sub_point)] if sub_point is not None else []
    values += [("PubOpt", option) for option in options]
    last = {"PubTime": pub_time, "SeqNum": seq_num, "QMgrName": q_mgr_name, "QName": q_name}
    values += [(name, str(value)) for name, value in last.items() if value is not None]
    return Command(tuple(Element(name, value) for name, value in values))


def delete(topics: Sequence[str], *, local: bool = False) -> Command:
    """A Delete Publication command: the queue manager forgets its retained copies."""
    values = [
        ("Command", DELETE),
        *(("Topic", topic) for topic in topics),
        *([("DelOpt", LOCAL)] if local else []),
    ]
    return Command(tuple(Element(name, value) for name, value in values))


def pub_time(seconds: float) -> str:
    """Seconds since 1970 as YYYYMMDDHHMMSSTH, Universal Time; truncated to hundredths.

    Raises MqError.
    """
    # through milliseconds: 0.29 is 0.28999… as a float
    hundredths = int(seconds * 1000 + 0.5) // 10
    try:
        moment = datetime.datetime.fromtimestamp(hundredths // 100, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise MqError(
            "pub-time", 0, f"{seconds!r} seconds since 1970 is not a time in the years 1 to 9999"
        ) from None
    return f"{moment.year:04}{moment:%m%d%H%M%S}{hundredths % 100:02}"


def subscriber_queue(
    command: Command, md: Descriptor, queue_manager: str
) -> tuple[str, str, bytes]:
    """The publisher's subscriber queue: queue manager, queue, CorrelId (zeros unless CorrelAsId).

    Queue may be blank.
    """
    manager = command.first("QMgrName") or md.reply_to_q_mgr or queue_manager
    queue = command.first("QName") or md.reply_to_q
    correl_id = md.correl_id if CORREL_AS_ID in command.options else NO_ID
    return manager, queue, correl_id
