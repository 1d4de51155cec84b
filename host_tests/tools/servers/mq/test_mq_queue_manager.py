# cpython-only: tests a desktop tool
"""Each rule and publication option of the Publish command at work, in a stand-in for a queue
manager.
"""

from dataclasses import replace

import pytest

from outpost_tools.servers.mq import mapping, psc, pscr
from outpost_tools.servers.mq.descriptor import (
    PERSISTENT,
    REPORT_NAN,
    REPORT_PAN,
    REQUEST,
    Descriptor,
)
from outpost_tools.servers.mq.header import parse
from queue_manager import NotAuthorized, QueueManager

QUEUE = mapping.DEFAULT_QUEUE
MINE = b"\x01" * 24


@pytest.fixture
def manager():
    return QueueManager()


def put(manager, topics, body=b"x", *, md=None, queue=QUEUE, **properties):
    md = md or Descriptor()
    topics = [topics] if isinstance(topics, str) else topics
    manager.put(
        queue, md, mapping.encode([psc.publish(topics, **properties).text()], body, md, 1208)
    )


def bodies(manager, queue):
    return [parse(data, encoding=md.encoding).body for md, data in manager.queues[queue]]


def commands(manager, queue):
    return [
        psc.read(parse(data, encoding=md.encoding).folders()[0].text)
        for md, data in manager.queues[queue]
    ]


def answers(manager, queue="REPLY"):
    return [
        pscr.read(parse(data, encoding=md.encoding).folders()[0].text)
        for md, data in manager.queues[queue]
    ]


def test_a_publication_reaches_each_subscriber_that_matches(manager):
    for topic, queue in (("Sport/#", "A"), ("Sport/+/Event", "B"), ("News/#", "C")):
        manager.register(topic, queue)
    put(manager, "Sport/Soccer/Event", b"started")
    assert (bodies(manager, "A"), bodies(manager, "B"), bodies(manager, "C")) == (
        [b"started"],
        [b"started"],
        [],
    )


def test_a_message_with_several_topics_is_published_on_each(manager):
    for topic, queue in (("a", "A"), ("b", "B"), ("c", "C"), ("#", "ALL")):
        manager.register(topic, queue)
    put(manager, ["a", "b"])
    assert [len(manager.queues[queue]) for queue in ("A", "B", "C", "ALL")] == [1, 1, 0, 1]
    assert commands(manager, "ALL")[0].topics == ["a", "b"]


def test_a_publication_may_have_no_data(manager):
    manager.register("a", "A")
    put(manager, "a", b"")
    assert bodies(manager, "A") == [b""]


def test_forwarded_md_has_the_publishers_expiry_priority_and_persistence(manager):
    manager.register("a", "A")
    put(
        manager,
        "a",
        md=Descriptor(
            expiry=99, priority=3, persistence=PERSISTENT, msg_type=REQUEST, reply_to_q="REPLY"
        ),
    )
    md = manager.queues["A"][0][0]
    assert (md.expiry, md.priority, md.persistence, md.msg_type, md.format) == (
        99,
        3,
        PERSISTENT,
        8,
        "MQHRF2",
    )


def test_authority_for_the_queue_is_needed(manager):
    manager.forbidden_queues.add(QUEUE)
    with pytest.raises(NotAuthorized):
        put(manager, "a")


def test_only_authorised_topics_are_published_and_a_warning_names_the_others(manager):
    manager.register("#", "ALL")
    manager.forbidden_topics = {"b", "d"}
    put(
        manager,
        ["a", "b", "c", "d"],
        md=Descriptor(msg_type=REQUEST, reply_to_q="REPLY", msg_id=MINE),
    )
    assert commands(manager, "ALL")[0].topics == ["a", "c"]
    (answer,) = answers(manager)
    assert (answer.completion, answer.refused_topics()) == ("warning", ["b", "d"])
    md, data = manager.queues["REPLY"][0]
    assert (md.msg_type, md.correl_id) == (2, MINE)
    assert psc.read(parse(data).folders()[1].text).topics == ["a", "b", "c", "d"]


def test_without_authority_for_any_topic_the_answer_is_an_error(manager):
    manager.register("#", "ALL")
    manager.forbidden_topics = {"a"}
    put(manager, "a", md=Descriptor(msg_type=REQUEST, reply_to_q="REPLY"))
    assert manager.queues["ALL"] == [] and answers(manager)[0].completion == "error"


@pytest.mark.parametrize(
    ("report", "fate", "answered"),
    [
        (0, "ok", False),
        (REPORT_PAN, "ok", True),
        (REPORT_NAN, "ok", False),
        (REPORT_PAN, "error", False),
        (REPORT_NAN, "error", True),
        (REPORT_PAN, "warning", True),
        (REPORT_NAN, "warning", True),
        (0, "error", False),
    ],
)
def test_a_datagram_is_answered_as_its_report_options_say(manager, report, fate, answered):
    manager.forbidden_topics = {"ok": set(), "error": {"a", "b"}, "warning": {"b"}}[fate]
    put(manager, ["a", "b"], md=Descriptor(report=report, reply_to_q="REPLY"))
    assert [answer.completion for answer in answers(manager)] == ([fate] if answered else [])


def test_a_bad_command_is_answered_with_its_reason_and_not_published(manager):
    manager.register("#", "ALL")
    md = Descriptor(msg_type=REQUEST, reply_to_q="REPLY")
    manager.put(QUEUE, md, mapping.encode(["<psc><Command>Publish</Command></psc>"], b"", md, 1208))
    assert answers(manager)[0].problems[0].mnemonic == "MQRC_RFH_PARM_MISSING"
    assert manager.queues["ALL"] == []


def test_a_command_is_for_stream_queues_and_another_queue_just_holds_it(manager):
    manager.register("#", "ALL")
    put(manager, "a", queue="OTHER")
    assert manager.queues["ALL"] == [] and len(manager.queues["OTHER"]) == 1


def test_a_stream_added_to_the_namelist_puts_its_name_before_the_topic(manager):
    manager.add_stream("Sport")
    manager.register("Sport/Soccer/Results", "A")
    put(manager, "Soccer/Results", queue="Sport")
    assert commands(manager, "A")[0].topics == ["Sport/Soccer/Results"]


def test_retain_pub_keeps_the_last_copy_for_subscribers_to_come(manager):
    put(manager, "score", b"1:0", options=[psc.RETAIN_PUB])
    put(manager, "score", b"1:1", options=[psc.RETAIN_PUB])
    manager.register("score", "LATE")
    assert bodies(manager, "LATE") == [b"1:1"]


def test_without_retain_pub_nothing_is_kept(manager):
    put(manager, "score", b"1:0")
    manager.register("score", "LATE")
    assert manager.queues["LATE"] == [] and manager.retained == {}


def test_is_retained_pub_is_set_for_a_subscriber_that_wants_to_be_told(manager):
    put(manager, "score", b"1:0", options=[psc.RETAIN_PUB])
    manager.register("score", "TOLD", inform_if_retained=True)
    manager.register("score", "PLAIN")
    assert psc.IS_RETAINED_PUB in commands(manager, "TOLD")[0].options
    assert psc.IS_RETAINED_PUB not in commands(manager, "PLAIN")[0].options


def test_is_retained_pub_is_not_set_for_what_is_sent_directly(manager):
    subscription = manager.register("score", "TOLD", inform_if_retained=True)
    put(manager, "score", b"1:0", options=[psc.RETAIN_PUB])
    manager.request_update(subscription)
    assert [psc.IS_RETAINED_PUB in command.options for command in commands(manager, "TOLD")] == [
        False,
        True,
    ]


def test_is_retained_pub_of_an_application_is_refused(manager):
    put(
        manager,
        "a",
        options=[psc.IS_RETAINED_PUB],
        md=Descriptor(msg_type=REQUEST, reply_to_q="REPLY"),
    )
    assert answers(manager)[0].problems[0].reason == 3084


def test_a_publication_goes_to_other_queue_managers_that_have_subscribers(manager):
    other, idle = QueueManager("QM2"), QueueManager("QM3")
    manager.neighbours = [other, idle]
    other.register("a", "REMOTE")
    put(manager, "a")
    assert len(other.queues["REMOTE"]) == 1 and manager.forwards == 1


def test_local_stays_at_this_queue_manager_and_reaches_all_its_subscribers(manager):
    other = QueueManager("QM2")
    manager.neighbours = [other]
    other.register("a", "REMOTE")
    for queue in ("ONE", "TWO"):
        manager.register("a", queue)
    put(manager, "a", options=[psc.LOCAL])
    assert [len(manager.queues[queue]) for queue in ("ONE", "TWO")] == [1, 1] and other.queues[
        "REMOTE"
    ] == []


def test_other_subs_only_spares_the_publishers_own_queue(manager):
    for queue in ("MINE", "YOURS"):
        manager.register("room", queue)
    put(manager, "room", options=[psc.OTHER_SUBS_ONLY], q_name="MINE")
    assert (manager.queues["MINE"], len(manager.queues["YOURS"])) == ([], 1)
    put(manager, "room", q_name="MINE")
    assert len(manager.queues["MINE"]) == 1


def test_the_publishers_queue_defaults_to_reply_to_q_and_reply_to_q_mgr(manager):
    manager.register("room", "MINE")
    manager.register("room", "MINE", q_mgr_name="QM9")
    md = Descriptor(reply_to_q="MINE")
    put(manager, "room", options=[psc.OTHER_SUBS_ONLY], md=md)
    assert len(manager.queues["MINE"]) == 1  # blank ReplyToQMgr: this queue manager's own name
    put(manager, "room", options=[psc.OTHER_SUBS_ONLY], md=replace(md, reply_to_q_mgr="QM9"))
    assert len(manager.queues["MINE"]) == 2
    put(manager, "room", options=[psc.OTHER_SUBS_ONLY], md=md, q_mgr_name="QM7")
    # QMgrName names a queue manager that neither subscription has
    assert len(manager.queues["MINE"]) == 4


def test_q_mgr_name_and_q_name_come_before_the_md(manager):
    manager.register("room", "MINE", q_mgr_name="QM9")
    md = Descriptor(reply_to_q="ELSE", reply_to_q_mgr="QM1")
    put(manager, "room", options=[psc.OTHER_SUBS_ONLY], md=md, q_name="MINE", q_mgr_name="QM9")
    assert manager.queues["MINE"] == []


def test_correl_as_id_makes_the_correl_id_part_of_the_queue(manager):
    manager.register("room", "SHARED", correl_id=MINE)
    manager.register("room", "SHARED", correl_id=b"\x02" * 24)
    options = [psc.OTHER_SUBS_ONLY, psc.CORREL_AS_ID]
    put(manager, "room", options=options, q_name="SHARED", md=Descriptor(correl_id=MINE))
    assert [md.correl_id for md, _ in manager.queues["SHARED"]] == [b"\x02" * 24]


def test_correl_as_id_with_a_zero_correl_id_is_refused(manager):
    put(
        manager,
        "room",
        options=[psc.CORREL_AS_ID],
        q_name="Q",
        md=Descriptor(msg_type=REQUEST, reply_to_q="REPLY"),
    )
    assert answers(manager)[0].problems[0].mnemonic == "MQRCCF_CORREL_ID_ERROR"


def test_none_has_the_effect_of_no_option_and_is_ignored_beside_others(manager):
    manager.register("a", "A")
    put(manager, "a", options=[psc.NONE])
    assert manager.retained == {} and len(manager.queues["A"]) == 1
    put(manager, "a", options=[psc.NONE, psc.RETAIN_PUB])
    assert list(manager.retained) == [("", "a")]


def test_sub_point_must_be_the_name_of_a_subscription_point():
    manager = QueueManager(sub_points=["imperial"])
    manager.register("a", "IMPERIAL", sub_point="imperial")
    manager.register("a", "DEFAULT")
    put(manager, "a", sub_point="imperial")
    assert (len(manager.queues["IMPERIAL"]), manager.queues["DEFAULT"]) == (1, [])
    put(manager, "a", sub_point="metric", md=Descriptor(msg_type=REQUEST, reply_to_q="REPLY"))
    assert answers(manager)[0].problems[0].reason == 3309


def test_pub_time_and_seq_num_are_transmitted_and_not_checked(manager):
    manager.register("a", "A")
    for time, number in (("2025112103000012", 1), ("soon", "next"), ("2025112103000012", 7)):
        put(manager, "a", pub_time=time, seq_num=number)
    found = [
        (command.first("PubTime"), command.first("SeqNum")) for command in commands(manager, "A")
    ]
    assert found == [("2025112103000012", "1"), ("soon", "next"), ("2025112103000012", "7")]


def test_delete_pub_forgets_the_retained_copy_here_and_there(manager):
    other = QueueManager("QM2")
    manager.neighbours = [other]
    other.register("a", "REMOTE")
    put(manager, ["a", "b"], options=[psc.RETAIN_PUB])
    assert len(manager.retained) == 2 and len(other.retained) == 2
    md = Descriptor()
    manager.put(QUEUE, md, mapping.encode([psc.delete(["a"]).text()], b"", md, 1208))
    assert list(manager.retained) == [("", "b")] == list(other.retained)
    manager.put(QUEUE, md, mapping.encode([psc.delete(["b"], local=True).text()], b"", md, 1208))
    assert manager.retained == {} and list(other.retained) == [("", "b")]


def test_mcd_and_usr_reach_the_subscriber_as_they_were_put(manager):
    manager.register("a", "A")
    options = mapping.Options(usr=True, domain="jms_bytes")
    outgoing = mapping.to_mq(mapping.Publication(b"a", b"\x00\xff", 2), options)
    manager.put(outgoing.queue, outgoing.md, outgoing.data)
    assert manager.queues["A"][0][1] == outgoing.data
