# cpython-only: tests a desktop tool
"""Every fault that the validator names, each with IBM's reason code; and that what is right has
none.
"""

import dataclasses

import pytest

from mq_cases import COMPACT, EVERY_PROPERTY, message, requester
from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq import psc, pscr, reasons, service
from outpost_tools.servers.mq.check import check, check_sequence, check_topic, errors, is_pub_time
from outpost_tools.servers.mq.descriptor import Descriptor, from_json
from outpost_tools.servers.mq.header import parse
from outpost_tools.servers.mq.reasons import MqError


def faults(*texts, md=None, **more):
    return check(parse(message(texts)), md, **more)


def command(inside, name="Publish"):
    return f"<psc><Command>{name}</Command>{inside}</psc>"


@pytest.mark.parametrize(
    "text", [*COMPACT.values(), EVERY_PROPERTY.text().replace("<PubOpt>None</PubOpt>", "")]
)
def test_what_is_right_has_no_fault(text):
    assert faults(text, md=requester()) == []


TOPIC = "<Topic>a</Topic>"


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("<psc><Topic>a</Topic></psc>", "command-missing", 2339),
        ("<psc><Command/><Topic>a</Topic></psc>", "command-unknown", 2336),
        (command(TOPIC, "publish"), "command-unknown", 2336),
        (command(TOPIC + "<Command>Publish</Command>"), "property-repeated", 2338),
        (command(""), "topic-missing", 2339),
        (command("<Topic/>"), "topic-empty", 3072),
        (command("<Topic>a/+</Topic>"), "topic-wildcard", 3072),
        (command("<Topic>a/#</Topic>"), "topic-wildcard", 3072),
        (command("<Topic>a+b</Topic>"), "topic-wildcard", 3072),
        (command(TOPIC + "<Topic>#</Topic>"), "topic-wildcard", 3072),
        (command(f"<Topic>{'é' * 5120}a</Topic>"), "topic-long", 3072),
        (command("<Topic>a&#10;b</Topic>"), "topic-control", 3072),
        (command("<Topic>&#x1F600;</Topic>"), "topic-character", 3072),
        (command("<Topic>$SYS/MQ/x</Topic>"), "topic-system", 2598),
        (command(TOPIC + "<topic>b</topic>"), "property-unknown", 2337),
        (command(TOPIC + "<RegOpt>Local</RegOpt>"), "property-unknown", 2337),
        (
            command(TOPIC + "<SubPoint>a</SubPoint><SubPoint>b</SubPoint>"),
            "property-repeated",
            2338,
        ),
        (command(TOPIC + "<PubTime>2025112103000012</PubTime>" * 2), "property-repeated", 2338),
        (command(TOPIC + "<SeqNum>1</SeqNum><SeqNum>2</SeqNum>"), "property-repeated", 2338),
        (
            command(TOPIC + "<QMgrName>A</QMgrName><QMgrName>A</QMgrName>"),
            "property-repeated",
            2338,
        ),
        (command(TOPIC + "<QName>A</QName><QName>A</QName>"), "property-repeated", 2338),
        (command("<Topic><x/></Topic>"), "property-nested", 2337),
        (command(TOPIC + "<PubOpt>retainpub</PubOpt>"), "option-unknown", 3084),
        (command(TOPIC + "<PubOpt/>"), "option-unknown", 3084),
        (command(TOPIC + "<PubOpt>IsRetainedPub</PubOpt>"), "option-is-retained", 3084),
        (command(TOPIC + "<QMgrName>a b</QMgrName>"), "qmgrname-name", 3074),
        (command(TOPIC + f"<QName>{'Q' * 49}</QName>"), "qname-name", 3076),
        (command(TOPIC + "<DelOpt>All</DelOpt>", "DeletePub"), "delete-option", 3087),
        (command(TOPIC + "<PubOpt>Local</PubOpt>", "DeletePub"), "property-unknown", 2337),
        ("<usr><a>1</a></usr>", "psc-missing", 2339),
        ("<psc><Command>Publish</Command>", "folder-end-tag-missing", 2335),
    ],
)
def test_errors(text, name, reason):
    found = errors(faults(text))
    assert (name, reason) in [(fault.name, fault.reason) for fault in found]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (command("<Topic>a*</Topic>"), "topic-characters"),
        (command("<Topic>a?</Topic>"), "topic-characters"),
        (command(TOPIC + "<PubOpt>None</PubOpt><PubOpt>Local</PubOpt>"), "option-none"),
        (command(TOPIC + "<PubOpt>Local</PubOpt><PubOpt>Local</PubOpt>"), "option-repeated"),
        (command(TOPIC + "<PubTime>202511210300001</PubTime>"), "pub-time"),
        (command(TOPIC + "<PubTime>2025023003000012</PubTime>"), "pub-time"),
        (command(TOPIC + "<SeqNum>-1</SeqNum>"), "seq-num"),
        (command(TOPIC + "<SeqNum>1.5</SeqNum>"), "seq-num"),
        (command("<Topic dt='i4'>1</Topic>"), "property-type"),
        (command(TOPIC, "RegSub"), "command-other"),
        (command(TOPIC + "<PubOpt>OtherSubsOnly</PubOpt>"), "other-subs-only"),
        (command(TOPIC + "<PubOpt>CorrelAsId</PubOpt>"), "correl-as-id"),
    ],
)
def test_warnings(text, name):
    """What a queue manager does not check, or what only the MQMD could tell."""
    found = faults(text)
    assert name in [fault.name for fault in found] and errors(found) == []


@pytest.mark.parametrize(
    ("md", "inside", "name", "reason"),
    [
        (Descriptor(), "<PubOpt>OtherSubsOnly</PubOpt>", "other-subs-only", 3076),
        (Descriptor(), "<PubOpt>OtherSubsOnly</PubOpt><QName/>", "other-subs-only", 3076),
        (Descriptor(reply_to_q="Q"), "<PubOpt>CorrelAsId</PubOpt>", "correl-as-id", 3080),
        (Descriptor(msg_type=4), "", "msg-type", 2029),
        (Descriptor(msg_type=1), "", "reply-to-q", 2027),
        (Descriptor(report=1), "", "reply-to-q", 2027),
        (Descriptor(persistence=3), "", "persistence", 2047),
        (Descriptor(expiry=0), "", "expiry", 2013),
        (Descriptor(format="MQSTR"), "", "format", 2110),
    ],
)
def test_errors_with_the_descriptor(md, inside, name, reason):
    assert (name, reason) in [
        (fault.name, fault.reason) for fault in errors(faults(command(TOPIC + inside), md=md))
    ]


def test_other_subs_only_is_right_with_a_queue_name_or_a_reply_to_q():
    for md, inside in ((Descriptor(reply_to_q="Q"), ""), (Descriptor(), "<QName>Q</QName>")):
        assert faults(command(TOPIC + "<PubOpt>OtherSubsOnly</PubOpt>" + inside), md=md) == []


def test_a_sub_point_is_checked_when_the_points_are_known():
    text = command(TOPIC + "<SubPoint>metric</SubPoint>")
    assert faults(text) == [] == faults(text, sub_points=["metric"])
    assert [fault.reason for fault in faults(text, sub_points=[])] == [3309]


def test_the_longest_topic_is_right():
    assert list(check_topic("é" * 5120)) == []


def test_headers_and_folders():
    text = COMPACT["match started"]
    assert [f.name for f in check(parse(message([text], flags=0x10000)))] == ["flags"]
    assert [(f.name, f.severity) for f in check(parse(message([text], flags=1)))] == [
        ("flags", "warning")
    ]
    assert [(f.name, f.reason) for f in faults(text, text)] == [("folder-repeated", 2338)]
    assert [f.name for f in faults(text, "<usr/>", "<usr/>")] == ["folder-repeated"]
    assert [f.name for f in faults(text, "<MCD/>")] == ["folder-case"]
    assert [f.name for f in check(parse(b"x", format=""))] == ["format", "psc-missing"]


def test_all_faults_are_listed_not_only_the_first():
    text = (
        "<psc><Command>Publish</Command><Topic>#</Topic><Topic/>"
        "<SeqNum>x</SeqNum><PubOpt>No</PubOpt><Foo/></psc>"
    )
    names = {fault.name for fault in faults(text, md=Descriptor(msg_type=4))}
    assert names == {
        "topic-wildcard",
        "topic-empty",
        "seq-num",
        "option-unknown",
        "property-unknown",
        "msg-type",
    }


@pytest.mark.parametrize(
    ("time", "is_right"),
    [
        ("2025112103000012", True),
        ("2024022923595999", True),
        ("2025022900000000", False),
        ("2025112124000000", False),
        ("20251121030000", False),
        ("20251121030000123", False),
        ("2025112103000O12", False),
        ("٢٠٢٥١١٢١٠٣٠٠٠٠١٢", False),
    ],
)
def test_pub_time_format(time, is_right):
    assert is_pub_time(time) == is_right


@pytest.mark.parametrize(
    ("seconds", "time"),
    [
        (1763694000.123, "2025112103000012"),
        (0.29, "1970010100000029"),
        (0.999, "1970010100000099"),
        (4102444799.99, "2099123123595999"),
    ],
)
def test_pub_time_is_universal_time_with_hundredths(seconds, time):
    assert psc.pub_time(seconds) == time and is_pub_time(time)


def test_pub_time_out_of_range_is_refused():
    with pytest.raises(MqError, match="pub-time"):
        psc.pub_time(1e18)


def test_seq_num_steps():
    def sequence(*numbers):
        return [psc.publish(["a"], seq_num=number) for number in numbers]

    assert check_sequence(sequence(7, 8, 8, 9)) == []
    assert [fault.name for fault in check_sequence(sequence(1, 2, 4, 3))] == ["seq-num-step"] * 2
    other = psc.publish(["b"], seq_num=50)
    assert check_sequence([*sequence(1), other, *sequence(2)]) == []


@pytest.mark.parametrize(
    ("root", "names"),
    [
        (service.mcd("jms_bytes"), []),
        (service.mcd("mrm", set="S", type="T", fmt="F"), []),
        (service.mcd("mrm", set="S"), ["mcd-needs", "mcd-needs"]),
        (service.mcd("dfdl"), ["mcd-domain"]),
        (xml.parse("<mcd><Msd>none</Msd><Foo/></mcd>"), ["mcd-unknown"]),
        (service.usr({"a": "x", "b": 1, "c": True, "d": 1 << 40}), []),
        (xml.parse("<usr><a/><a/></usr>"), ["usr-repeated"]),
        (xml.parse("<usr><a.b/></usr>"), ["usr-name"]),
        (xml.parse("<usr><JMSType/><Like/></usr>"), ["usr-name", "usr-name"]),
        (xml.parse("<usr><a><b/></a></usr>"), ["usr-nested"]),
        (xml.parse("<usr><a dt='i3'>1</a></usr>"), ["usr-type"]),
    ],
)
def test_mcd_and_usr(root, names):
    found = [*(service.check_mcd(root) if root.name == "mcd" else service.check_usr(root))]
    assert [fault.name for fault in found] == names


def test_usr_values_are_typed():
    text = xml.write(service.usr({"a": "<x>", "b": 1, "c": True, "d": 1 << 40}))
    assert text == (
        '<usr><a>&lt;x&gt;</a><b dt="i4">1</b><c dt="boolean">1</c>'
        '<d dt="i8">1099511627776</d></usr>'
    )


@pytest.mark.parametrize(
    "text",
    [
        "<pscr><Completion>ok</Completion></pscr>",
        "<pscr><Completion>error</Completion><Response><Reason>????</Reason></Response></pscr>",
        "<pscr><Completion>warning</Completion>"
        "<Response><Reason>3081</Reason><Topic>a</Topic></Response>"
        "<Response><Reason>3081</Reason><Topic>b</Topic></Response></pscr>",
    ],
)
def test_responses_survive(text):
    assert xml.write(pscr.read(text).element()) == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<psc/>", "pscr-missing"),
        ("<pscr/>", "pscr-completion"),
        ("<pscr><Completion>fine</Completion></pscr>", "pscr-completion"),
        ("<pscr><Completion>error</Completion></pscr>", "pscr-responses"),
        (
            "<pscr><Completion>ok</Completion><Response><Reason>1</Reason></Response></pscr>",
            "pscr-responses",
        ),
        ("<pscr><Completion>error</Completion><Response/></pscr>", "pscr-reason"),
        (
            "<pscr><Completion>error</Completion><Response><Reason>-1</Reason></Response></pscr>",
            "pscr-reason",
        ),
        # The end tag as IBM's page prints it.
        (
            "<pscr><Completion>error</Completion><Response><Reason>1</Reason></Reponse></pscr>",
            "folder-end-tag",
        ),
    ],
)
def test_bad_responses_are_refused_by_name(text, name):
    with pytest.raises(MqError) as caught:
        pscr.read(text)
    assert caught.value.name == name


def test_a_response_names_the_reason():
    (problem,) = pscr.read(
        "<pscr><Completion>error</Completion><Response><Reason>3084</Reason></Response></pscr>"
    ).problems
    assert problem.mnemonic == "MQRCCF_PUB_OPTIONS_ERROR"
    assert pscr.Problem(None).mnemonic == "unreadable"


def test_every_reason_that_is_given_has_a_name():
    for number in (2335, 2336, 2337, 2338, 2339, 3072, 3074, 3076, 3080, 3081, 3084):
        assert reasons.mnemonic(number).startswith(("MQRC_", "MQRCCF_"))
    assert reasons.mnemonic(9999) == "reason 9999"


def test_the_descriptor_as_json_and_back():
    md = Descriptor(3, 1, 99, 546, 1208, "MQHRF2", 4, 0, b"\1" * 24, b"\2" * 24, "Q", "QM")
    assert from_json(md.to_json()) == md and set(md.to_json()) >= {"Format", "MsgType", "CorrelId"}
    assert len(md.to_json()) == len(dataclasses.fields(Descriptor))
    assert from_json({}) == Descriptor()


@pytest.mark.parametrize(
    "record",
    [
        [],
        {"Foo": 1},
        {"Report": "1"},
        {"Report": True},
        {"Report": 1 << 31},
        {"MsgId": "00"},
        {"MsgId": 1},
        {"ReplyToQ": "Q" * 49},
    ],
)
def test_a_bad_descriptor_is_refused(record):
    with pytest.raises(MqError, match="descriptor"):
        from_json(record)
