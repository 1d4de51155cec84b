# cpython-only: tests a desktop tool
"""MQTT to MQ and back: what goes where, and the stated outcome of everything that MQ has no place
for.
"""

import pytest

from mq_bridge import outpost_message
from outpost_tools.servers.mq import mapping, psc
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.header import parse
from outpost_tools.servers.mq.mapping import Options, Publication
from outpost_tools.servers.mq.reasons import MqError

TOPIC = b"outpost/b1/data"


def command(outgoing):
    return psc.read(parse(outgoing.data, encoding=outgoing.md.encoding).folders()[0].text)


def test_topic_retain_qos_and_payload():
    for qos, persistence in ((0, 0), (1, 1), (2, 1)):
        for retain in (False, True):
            outgoing = mapping.to_mq(Publication(b"a/b", b"\x00\xff", qos, retain), Options())
            message = parse(outgoing.data)
            assert command(outgoing) == psc.publish(
                ["a/b"], options=["RetainPub"] if retain else []
            )
            assert (outgoing.md.persistence, outgoing.md.format, outgoing.md.msg_type) == (
                persistence,
                "MQHRF2",
                8,
            )
            header = message.headers[0]
            assert (message.body, header.format, header.ccsid, header.encoding) == (
                b"\x00\xff",
                "",
                -2,
                273,
            )


def test_seq_num_is_the_outbox_sequence_and_pub_time_the_readings():
    outgoing = mapping.to_mq(
        Publication(TOPIC, outpost_message(), 1), Options(seq_num=True, pub_time="reading")
    )
    assert (command(outgoing).first("SeqNum"), command(outgoing).first("PubTime")) == (
        "41",
        "2025112103000012",
    )


def test_a_reading_with_an_offset_and_a_board_without_a_clock():
    options = Options(seq_num=True, pub_time="reading")
    later = mapping.to_mq(Publication(TOPIC, outpost_message(t=60.5), 1), options)
    assert command(later).first("PubTime") == "2025112103010062"
    clockless = mapping.to_mq(Publication(TOPIC, outpost_message(bt=None, up=12.5), 1), options)
    assert (command(clockless).first("SeqNum"), command(clockless).first("PubTime")) == ("41", None)


def test_other_payloads_have_neither_and_nothing_is_asked_unless_wanted():
    other = mapping.to_mq(Publication(TOPIC, b"21.5", 1), Options(seq_num=True, pub_time="reading"))
    plain = mapping.to_mq(Publication(TOPIC, outpost_message(), 1), Options())
    assert command(other) == command(plain) == psc.publish([TOPIC.decode()])


def test_pub_time_may_be_the_time_of_receipt():
    outgoing = mapping.to_mq(Publication(b"a", b"21.5"), Options(pub_time="receive"), 1763694000129)
    assert command(outgoing).first("PubTime") == "2025112103000012"


@pytest.mark.parametrize(
    ("packet", "name"),
    [
        (Publication(b"a", b"", 1, retain=True), "retained-empty"),
        (Publication(b"a/+", b"x"), "topic-wildcard"),
        (Publication(b"a/#", b"x"), "topic-wildcard"),
        (Publication(b"$SYS/broker/uptime", b"x"), "topic-system"),
        (Publication(b"", b"x"), "topic-empty"),
        (Publication(b"a\nb", b"x"), "topic-control"),
        (Publication(b"a\0b", b"x"), "topic-control"),
        (Publication("a/\U0001f600".encode(), b"x"), "topic-character"),
        (Publication(b"a/\xff", b"x"), "topic-utf8"),
        (Publication(b"a" * 10241, b"x"), "topic-long"),
        (Publication("a\uffff".encode(), b"x"), "character"),
    ],
)
def test_what_mq_cannot_hold_is_refused_by_name(packet, name):
    with pytest.raises(MqError) as caught:
        mapping.to_mq(packet, Options())
    assert caught.value.name == name


@pytest.mark.parametrize(
    "topic", ["a*b?", " a ", "/", "$share", "$SYSTEM/x", "a<b>&\"'", "\u007f", "é/温度"]
)
def test_odd_topics_that_mq_can_hold_come_back(topic):
    packet = Publication(topic.encode(), b"x", 1)
    outgoing = mapping.to_mq(packet, Options())
    assert mapping.to_mqtt(outgoing.md, outgoing.data) == ([packet], [])


def test_clear_becomes_delete_pub_when_asked_for_and_comes_back():
    packet = Publication(b"a", b"", 1, retain=True)
    outgoing = mapping.to_mq(packet, Options(on_clear="delete"))
    assert command(outgoing) == psc.delete(["a"])
    assert mapping.to_mqtt(outgoing.md, outgoing.data) == ([packet], [])


def test_an_empty_payload_without_retain_is_a_publication_without_data():
    outgoing = mapping.to_mq(Publication(b"a", b"", 1), Options())
    assert (command(outgoing).name, parse(outgoing.data).body) == ("Publish", b"")


def test_without_usr_qos_2_comes_back_as_1_and_dup_is_gone():
    outgoing = mapping.to_mq(Publication(b"a", b"x", 2, dup=True), Options())
    assert mapping.to_mqtt(outgoing.md, outgoing.data) == ([Publication(b"a", b"x", 1)], [])


def encoded(command, md=None, others=(), body=b"x"):
    md = md or Descriptor()
    return md, mapping.encode([command.text(), *others], body, md, 1208)


def test_a_message_with_several_topics_becomes_several_packets():
    packets, dropped = mapping.to_mqtt(*encoded(psc.publish(["a", "b"])))
    assert packets == [Publication(b"a", b"x", 1), Publication(b"b", b"x", 1)]
    assert dropped == ["that 2 topics were one message"]


def test_what_mqtt_has_no_place_for_is_reported():
    properties = {"sub_point": "s", "pub_time": "t", "seq_num": 1, "q_mgr_name": "m", "q_name": "q"}
    full = psc.publish(
        ["a"], options=["RetainPub", "Local", "OtherSubsOnly", "CorrelAsId", "None"], **properties
    )
    packets, dropped = mapping.to_mqtt(
        *encoded(full, others=["<mcd><Msd>none</Msd></mcd>", "<usr><mine>1</mine></usr>"])
    )
    assert packets == [Publication(b"a", b"x", 1, retain=True)]
    options = ["PubOpt Local", "PubOpt OtherSubsOnly", "PubOpt CorrelAsId"]
    assert dropped == [
        "SubPoint",
        "PubTime",
        "SeqNum",
        "QMgrName",
        "QName",
        *options,
        "<usr> mine",
        "<mcd>",
    ]


def test_is_retained_pub_sets_retain():
    packets, _ = mapping.to_mqtt(*encoded(psc.publish(["a"], options=["IsRetainedPub"])))
    assert packets[0].retain


def test_quality_by_persistence_and_a_foreign_usr_does_not_disturb():
    for persistence, qos in ((0, 0), (1, 1), (2, 1)):
        usr = ["<usr><mqttQos>7</mqttQos><mqttDup>yes</mqttDup></usr>"]
        packets, _ = mapping.to_mqtt(
            *encoded(psc.publish(["a"]), Descriptor(persistence=persistence), usr)
        )
        assert packets == [Publication(b"a", b"x", qos)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<usr/>", "psc-missing"),
        ("<psc><Command>RegSub</Command><Topic>a</Topic></psc>", "command-other"),
        ("<psc><Command>Publish</Command></psc>", "topic-missing"),
        ("<psc><Command>Publish</Command><Topic>a/#</Topic></psc>", "topic-wildcard"),
    ],
)
def test_what_is_no_publication_is_refused(text, name):
    with pytest.raises(MqError) as caught:
        mapping.to_mqtt(Descriptor(), mapping.encode([text], b"", Descriptor(), 1208))
    assert caught.value.name == name
