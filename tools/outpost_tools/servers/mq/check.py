"""Finds all faults of a command message, with the reason code that a queue manager would return.

check() does not stop at the first fault: it returns all of them, errors and warnings. A warning
(reason 0) marks what a queue manager does not check (PubTime, SeqNum), or what might trouble
another reader.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from outpost_tools.servers.mq import descriptor as mqmd
from outpost_tools.servers.mq import psc, pscr, service
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.folder import Element
from outpost_tools.servers.mq.header import FORMAT_RFH2, RESTRICTED_FLAGS, Folder, Message
from outpost_tools.servers.mq.psc import Command
from outpost_tools.servers.mq.reasons import ERROR, WARNING, Fault, MqError

MAX_TOPIC_BYTES = 10240  # MQ_TOPIC_STR_LENGTH
_CONTROL = re.compile("[\x00-\x1f]")
_NAME = re.compile(r"[A-Za-z0-9._/%]{1,48}\Z")  # an MQ object name
_PUB_TIME = re.compile(r"[0-9]{16}\Z")
_DIGITS = re.compile(r"[0-9]+\Z")


def check(
    message: Message, md: Descriptor | None = None, *, sub_points: Collection[str] | None = None
) -> list[Fault]:
    """All faults.

    Without `md`, faults that depend on it are only warnings; without `sub_points`, any name may be
    a subscription point.
    """
    faults = list(_check_headers(message)) + (list(_check_descriptor(md)) if md is not None else [])
    roots, texts = [], []
    for folder in message.folders():
        faults += _beyond_bmp(folder)
        try:
            roots.append(folder.root())
            texts.append(folder.text)
        except MqError as error:
            faults.append(error.fault)
    faults += _check_folders(roots)
    for root, text in zip(roots, texts, strict=True):
        if root.name == psc.FOLDER:
            faults += check_command(psc.read(text), md, sub_points=sub_points)
    return faults


def _check_headers(message: Message) -> Iterator[Fault]:
    if not message.headers:
        yield Fault("format", 2110, f"no MQRFH2: the MQMD's Format must be {FORMAT_RFH2}")
    for header in message.headers:
        if header.flags & RESTRICTED_FLAGS:
            yield Fault("flags", 2228, f"Flags {header.flags:#010x}: the upper 16 bits are IBM's")
        elif header.flags:
            yield Fault("flags", 2228, f"Flags {header.flags:#010x} is not 0", WARNING)


def _check_descriptor(md: Descriptor) -> Iterator[Fault]:
    if md.format != FORMAT_RFH2:
        yield Fault("format", 2110, f"MQMD.Format is {md.format!r}, not {FORMAT_RFH2!r}")
    if md.msg_type not in (mqmd.REQUEST, mqmd.DATAGRAM):
        yield Fault(
            "msg-type",
            2029,
            f"MQMD.MsgType is {md.msg_type}; a command is a request (1) or a datagram (8)",
        )
    wants_answer = md.msg_type == mqmd.REQUEST or md.report & (mqmd.REPORT_PAN | mqmd.REPORT_NAN)
    if wants_answer and not md.reply_to_q:
        yield Fault("reply-to-q", 2027, "a response is asked for, and MQMD.ReplyToQ is blank")
    if md.persistence not in (0, 1, 2):
        yield Fault("persistence", 2047, f"MQMD.Persistence is {md.persistence}, not 0, 1 or 2")
    if md.expiry != mqmd.UNLIMITED and md.expiry <= 0:
        yield Fault(
            "expiry", 2013, f"MQMD.Expiry is {md.expiry}, not tenths of a second above 0, or -1"
        )


def _beyond_bmp(folder: Folder) -> Iterator[Fault]:
    # Two UTF-16 units, or a UTF-8 sequence of four bytes.
    text = folder.data.decode(folder.codec, "replace")
    found = next((character for character in text if character > "\uffff"), None)
    if found is not None:
        yield Fault(
            "character",
            2335,
            f"U+{ord(found):04X}: MQ takes no character above U+FFFF in NameValueData",
        )


def _check_folders(roots: list[Element]) -> Iterator[Fault]:
    counts = Counter(root.name for root in roots)
    if not counts[psc.FOLDER] and not counts[pscr.FOLDER]:
        yield Fault("psc-missing", 2339, "no <psc> folder")
    for name in (psc.FOLDER, pscr.FOLDER, "usr"):
        if counts[name] > 1:
            yield Fault("folder-repeated", 2338, f"{counts[name]} times <{name}>; one is allowed")
    for root in roots:
        if root.name.lower() in ("psc", "pscr", "mcd", "usr") and root.name != root.name.lower():
            yield Fault(
                "folder-case", 0, f"<{root.name}>: IBM's folders have lower-case names", WARNING
            )
        if root.name == "mcd":
            yield from service.check_mcd(root)
        elif root.name == "usr":
            yield from service.check_usr(root)


def check_command(
    command: Command, md: Descriptor | None, *, sub_points: Collection[str] | None = None
) -> list[Fault]:
    """The faults of one `<psc>`."""
    faults = list(_check_name(command))
    if command.name not in (psc.PUBLISH, psc.DELETE):
        return faults
    allowed = psc.PUBLISH_PROPERTIES if command.name == psc.PUBLISH else psc.DELETE_PROPERTIES
    faults += _check_shape(command, allowed)
    for topic in command.topics:
        faults += check_topic(topic)
    if command.name == psc.DELETE:
        return faults + list(_check_delete_options(command))
    faults += _check_sub_point(command, sub_points)
    faults += _check_options(command)
    faults += _check_identity(command, md)
    return faults + list(_check_time_and_number(command))


def _check_name(command: Command) -> Iterator[Fault]:
    names = command.values("Command")
    if not names:
        yield Fault("command-missing", 2339, "no <Command>: it must be specified")
    for name in names:
        if name not in psc.COMMANDS:
            yield Fault(
                "command-unknown", 2336, f"Command {name!r} is none of {', '.join(psc.COMMANDS)}"
            )
        elif name not in (psc.PUBLISH, psc.DELETE):
            yield Fault(
                "command-other",
                0,
                f"Command {name!r}: only Publish and DeletePub are checked here",
                WARNING,
            )


def _check_shape(command: Command, allowed: dict[str, bool]) -> Iterator[Fault]:
    counts = Counter(element.name for element in command.properties)
    if not counts["Topic"]:
        yield Fault("topic-missing", 2339, "no <Topic>: it must be specified")
    for name, count in counts.items():
        if name not in allowed:
            hint = next(
                (
                    f"; did you mean <{known}>?"
                    for known in allowed
                    if known.lower() == name.lower()
                ),
                "",
            )
            yield Fault(
                "property-unknown", 2337, f"<{name}> is not allowed in {command.name}{hint}"
            )
        elif count > 1 and not allowed[name]:
            yield Fault("property-repeated", 2338, f"{count} times <{name}>; one is allowed")
    for element in command.properties:
        if element.name in allowed and element.children:
            yield Fault(
                "property-nested", 2337, f"<{element.name}> contains elements instead of a string"
            )
        if element.name in allowed and element.type != "string":
            yield Fault(
                "property-type",
                2337,
                f"<{element.name}> has dt {element.type!r}; values in <psc> are strings",
                WARNING,
            )


def check_topic(topic: str) -> Iterator[Fault]:
    """The faults of one topic string. In MQ's topic scheme the wildcards are `+` and `#`."""
    length = len(topic.encode("utf-8", "surrogatepass"))
    if not topic:
        yield Fault("topic-empty", 3072, "an empty Topic")
    if length > MAX_TOPIC_BYTES:
        yield Fault(
            "topic-long", 3072, f"a Topic of {length} bytes; {MAX_TOPIC_BYTES} is the limit"
        )
    if "+" in topic or "#" in topic:
        yield Fault(
            "topic-wildcard",
            3072,
            f"Topic {topic[:60]!r}: no wildcard characters (+ #) are allowed",
        )
    if _CONTROL.search(topic):
        yield Fault(
            "topic-control",
            3072,
            f"Topic {topic[:60]!r} contains a control character (U+0000 to U+001F)",
        )
    if any(character > "\uffff" for character in topic):
        yield Fault(
            "topic-character",
            3072,
            f"Topic {topic[:60]!r} contains a character above U+FFFF, which MQ cannot take",
        )
    if topic == "$SYS" or topic.startswith("$SYS/"):
        yield Fault("topic-system", 2598, f"Topic {topic[:60]!r}: $SYS is the queue manager's own")
    if "*" in topic or "?" in topic:
        yield Fault(
            "topic-characters",
            0,
            f"Topic {topic[:60]!r}: * and ? are wildcards in the character scheme",
            WARNING,
        )


def _check_delete_options(command: Command) -> Iterator[Fault]:
    for option in command.values("DelOpt"):
        if option not in (psc.LOCAL, psc.NONE):
            yield Fault("delete-option", 3087, f"DelOpt {option!r} is neither Local nor None")


def _check_sub_point(command: Command, known: Collection[str] | None) -> Iterator[Fault]:
    for name in command.values("SubPoint"):
        if known is not None and name and name not in known:
            yield Fault(
                "sub-point", 3309, f"SubPoint {name!r} is not the name of a subscription point"
            )


def _check_options(command: Command) -> Iterator[Fault]:
    values = command.values("PubOpt")
    for option in values:
        if option not in psc.PUBLICATION_OPTIONS:
            yield Fault(
                "option-unknown",
                3084,
                f"PubOpt {option!r} is none of {', '.join(psc.PUBLICATION_OPTIONS)}",
            )
    if psc.IS_RETAINED_PUB in values:
        yield Fault(
            "option-is-retained", 3084, "PubOpt IsRetainedPub can only be set by a queue manager"
        )
    if psc.NONE in values and len(values) > 1:
        yield Fault("option-none", 0, "PubOpt None is ignored beside other options", WARNING)
    if len(set(values)) != len(values):
        yield Fault("option-repeated", 0, f"a PubOpt twice: {', '.join(values)}", WARNING)


def _check_identity(command: Command, md: Descriptor | None) -> Iterator[Fault]:
    """The publisher's subscriber queue: QMgrName, QName, CorrelId."""
    for name, reason in (("QMgrName", 3074), ("QName", 3076)):
        for value in command.values(name):
            if value.strip(" ") and not _NAME.match(value.rstrip(" ")):
                yield Fault(
                    f"{name.lower()}-name",
                    reason,
                    f"{name} {value[:60]!r}: 1 to 48 of A-Z a-z 0-9 . _ / %",
                )
    severity = ERROR if md is not None else WARNING
    known = md or Descriptor()
    if psc.OTHER_SUBS_ONLY in command.options and not psc.subscriber_queue(command, known, "")[
        1
    ].strip(" "):
        yield Fault(
            "other-subs-only",
            3076,
            "OtherSubsOnly needs QName, or an MQMD.ReplyToQ that is not blank",
            severity,
        )
    if psc.CORREL_AS_ID in command.options and known.correl_id == mqmd.NO_ID:
        yield Fault(
            "correl-as-id", 3080, "CorrelAsId needs an MQMD.CorrelId that is not zero", severity
        )


def _check_time_and_number(command: Command) -> Iterator[Fault]:
    for value in command.values("PubTime"):
        if not is_pub_time(value):
            yield Fault(
                "pub-time",
                0,
                f"PubTime {value[:40]!r} is not YYYYMMDDHHMMSSTH (16 digits, Universal Time)",
                WARNING,
            )
    for value in command.values("SeqNum"):
        if not _DIGITS.match(value):
            yield Fault("seq-num", 0, f"SeqNum {value[:40]!r} is not a number", WARNING)


def is_pub_time(value: str) -> bool:
    """16 digits that are a moment: year 1 or later, month, day, hour, minute, second,
    hundredths."""
    if not _PUB_TIME.match(value):
        return False
    try:
        datetime.datetime.strptime(value[:14], "%Y%m%d%H%M%S")
    except ValueError:
        return False
    return True


def check_sequence(commands: Iterable[Command]) -> list[Fault]:
    """SeqNum "must be incremented by 1 with each publication": a warning, by topic, for each step
    that is not 1.

    The same number again is a repetition (delivery is at least once), not a fault.
    """
    faults, last = [], {}
    for command in commands:
        number = command.first("SeqNum")
        if number is None or not _DIGITS.match(number) or len(number) > 18:
            continue
        for topic in command.topics:
            step = int(number) - last.get(topic, int(number) - 1)
            if step not in (0, 1):
                faults.append(
                    Fault(
                        "seq-num-step",
                        0,
                        f"Topic {topic[:60]!r}: SeqNum {number} after {last[topic]}",
                        WARNING,
                    )
                )
            last[topic] = int(number)
    return faults


def errors(faults: Iterable[Fault]) -> list[Fault]:
    return [fault for fault in faults if fault.severity == ERROR]


def refuse(faults: Iterable[Fault]) -> None:
    """Raises MqError for the first error."""
    for fault in errors(faults):
        raise MqError(fault.name, fault.reason, fault.text)


def is_object_name(name: str) -> bool:
    """The name of a queue or a queue manager: 1 to 48 of A-Z a-z 0-9 . _ / %."""
    return bool(_NAME.match(name))
