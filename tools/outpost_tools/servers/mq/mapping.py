"""MQTT to MQ and back: one PUBLISH packet is one Publish command message.

    topic            <Topic>
    RETAIN           <PubOpt>RetainPub</PubOpt>
    QoS              MQMD.Persistence: 0 not persistent, 1 and 2 persistent
    payload          body, untouched; Format blank
    RETAIN, empty    refused, or DeletePub if asked for: MQ does not document that an empty
                     publication clears

SeqNum and PubTime are taken from an Outpost message if asked for. MQ has no place for QoS 1 or 2
and DUP. `usr` puts them into `<usr>` (mqttQos, mqttDup: our names), and then the way back yields
the same packet. The packet identifier belongs to one connection and is not kept. Raises MqError for
what MQ cannot hold; `tools/MQ.md` has the list.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from outpost_tools.messages import message as outpost
from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq import psc, service
from outpost_tools.servers.mq.check import check_topic, refuse
from outpost_tools.servers.mq.descriptor import NOT_PERSISTENT, PERSISTENT, Descriptor
from outpost_tools.servers.mq.header import (
    CCSID_INHERIT,
    FORMAT_NONE,
    FORMAT_STRING,
    Header,
    Message,
    build,
    make_folder,
    pad_format,
    parse,
)
from outpost_tools.servers.mq.psc import Command
from outpost_tools.servers.mq.reasons import MqError

# IBM's pages disagree whether Publish may also go to SYSTEM.BROKER.CONTROL.QUEUE.
DEFAULT_QUEUE = "SYSTEM.BROKER.DEFAULT.STREAM"
USR_QOS = "mqttQos"
USR_DUP = "mqttDup"
# Properties for which an MQTT packet has no place; it has one for RetainPub.
_NO_PLACE = ("SubPoint", "PubTime", "SeqNum", "QMgrName", "QName")


@dataclass(frozen=True, slots=True)
class Publication:
    """The contents of a PUBLISH packet. `topic` is its bytes: they may not be valid UTF-8."""

    topic: bytes
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """How to map.

    `pub_time`: none, reading (the first reading's time) or receive; `on_clear`: refuse or delete.
    """

    queue: str = DEFAULT_QUEUE
    descriptor: Descriptor = field(default_factory=Descriptor)
    name_value_ccsid: int = 1208
    seq_num: bool = False
    pub_time: str = "none"
    usr: bool = False
    domain: str = ""
    on_clear: str = "refuse"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that is ready to be put: its queue, its MQMD and its bytes."""

    queue: str
    md: Descriptor
    data: bytes


def to_mq(publication: Publication, options: Options, received_ms: int = 0) -> Outgoing:
    """The command message for one PUBLISH. Raises MqError."""
    topic = decode_topic(publication.topic)
    refuse(check_topic(topic))
    command = _command(publication, topic, options, received_ms)
    md = replace(options.descriptor, persistence=PERSISTENT if publication.qos else NOT_PERSISTENT)
    texts = [command.text()]
    if options.domain:
        texts.append(xml.write(service.mcd(options.domain)))
    if options.usr:
        texts.append(xml.write(service.usr({USR_QOS: publication.qos, USR_DUP: publication.dup})))
    return Outgoing(
        options.queue, md, encode(texts, publication.payload, md, options.name_value_ccsid)
    )


def encode(
    texts: list[str], body: bytes, md: Descriptor, name_value_ccsid: int, *, is_text: bool = False
) -> bytes:
    """One MQRFH2 with these folders, then the body: bytes, or UTF-8 text. Raises MqError."""
    format_bytes, ccsid = (
        (pad_format(FORMAT_STRING), 1208) if is_text else (pad_format(FORMAT_NONE), CCSID_INHERIT)
    )
    folders = tuple(
        make_folder(text, name_value_ccsid=name_value_ccsid, encoding=md.encoding) for text in texts
    )
    header = Header(folders, md.encoding, ccsid, format_bytes, 0, name_value_ccsid)
    return build(Message((header,), body, md.encoding))


def decode_topic(topic: bytes) -> str:
    """Raises MqError when it is not UTF-8 (required by MQTT 3.1.1 section 1.5.3)."""
    try:
        return topic.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MqError("topic-utf8", 3072, f"the topic is not UTF-8 at byte {error.start}") from None


def _command(publication: Publication, topic: str, options: Options, received_ms: int) -> Command:
    if publication.retain and not publication.payload:
        if options.on_clear == "delete":
            return psc.delete([topic])
        raise MqError(
            "retained-empty",
            0,
            "RETAIN with an empty payload clears in MQTT; MQ needs DeletePub (--on-clear delete)",
        )
    reading = (
        _outpost_message(publication, topic)
        if options.seq_num or options.pub_time == "reading"
        else None
    )
    return psc.publish(
        [topic],
        options=[psc.RETAIN_PUB] if publication.retain else [],
        seq_num=reading.seq if reading is not None and options.seq_num else None,
        pub_time=_pub_time(reading, options.pub_time, received_ms),
    )


def _outpost_message(publication: Publication, topic: str) -> outpost.Message | None:
    """None if it is not an Outpost message: it then has neither a sequence number nor a time."""
    try:
        return outpost.decode(topic, publication.payload)
    except outpost.Malformed:
        return None


def _pub_time(reading: outpost.Message | None, wanted: str, received_ms: int) -> str | None:
    """A board whose clock was not set sends no time, and we do not invent one."""
    if wanted == "receive":
        return psc.pub_time(received_ms / 1000)
    if wanted != "reading" or reading is None:
        return None
    times = [one.time_s for one in reading.readings if one.time_s is not None]
    return psc.pub_time(times[0]) if times else None


def to_mqtt(md: Descriptor, data: bytes) -> tuple[list[Publication], list[str]]:
    """The PUBLISH packets for one command message, one per Topic, and what did not fit into them.

    Raises MqError.
    """
    message = parse(data, encoding=md.encoding, format=md.format)
    texts = {}
    for folder in message.folders():
        texts.setdefault(folder.root().name, folder.text)
    if psc.FOLDER not in texts:
        raise MqError("psc-missing", 2339, "no <psc> folder: this is not a command message")
    command = psc.read(texts.pop(psc.FOLDER))
    if command.name not in (psc.PUBLISH, psc.DELETE):
        raise MqError("command-other", 2336, f"Command {command.name!r} is not a publication")
    if not command.topics:
        raise MqError("topic-missing", 2339, "no <Topic>: it must be specified")
    usr = xml.parse(texts.pop("usr")) if "usr" in texts else xml.Element("usr")
    qos, dup = _quality(usr, md)
    is_delete = command.name == psc.DELETE
    retain = (
        is_delete or psc.RETAIN_PUB in command.options or psc.IS_RETAINED_PUB in command.options
    )
    payload = b"" if is_delete else message.body
    packets = [
        Publication(_mqtt_topic(topic), payload, qos, retain, dup) for topic in command.topics
    ]
    others = [
        f"<usr> {child.name}" for child in usr.children if child.name not in (USR_QOS, USR_DUP)
    ]
    return packets, [*_dropped(command), *others, *(f"<{name}>" for name in texts)]


def _mqtt_topic(topic: str) -> bytes:
    """MQTT allows every topic that MQ allows, up to 65,535 bytes. Raises MqError."""
    refuse(fault for fault in check_topic(topic) if fault.name != "topic-system")
    return topic.encode("utf-8")


def _quality(usr: xml.Element, md: Descriptor) -> tuple[int, bool]:
    """QoS and DUP: ours from `<usr>` if they are there, otherwise QoS from the persistence."""
    qos, dup = usr.values(USR_QOS), usr.values(USR_DUP)
    default = 0 if md.persistence == NOT_PERSISTENT else 1
    return int(qos[0]) if qos and qos[0] in ("0", "1", "2") else default, dup[:1] == ["1"]


def _dropped(command: Command) -> list[str]:
    named = [element.name for element in command.properties if element.name in _NO_PLACE]
    unknown = [
        e.name
        for e in command.properties
        if e.name not in psc.PUBLISH_PROPERTIES and e.name != "DelOpt"
    ]
    options = [
        f"PubOpt {o}" for o in command.options if o not in (psc.RETAIN_PUB, psc.IS_RETAINED_PUB)
    ]
    options += [f"DelOpt {o}" for o in command.values("DelOpt") if o != psc.NONE]
    several = (
        [f"that {len(command.topics)} topics were one message"] if len(command.topics) > 1 else []
    )
    return named + options + unknown + several
