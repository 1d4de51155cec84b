# cpython-only: reads the tests of a desktop tool
"""The seed, IBM's page "Publish message", line by line: each property, option and rule, and the
tests that hold it.

A rule without a test fails, as does a test that is named here and is not there, a property or an
option of the page that the code does not know, and one of the code that no rule is about.
"""

import ast
from pathlib import Path

import pytest

from outpost_tools.servers.mq import psc

HERE = Path(__file__).parent

# (what of the page, its rule, tests)
RULES = [
    (
        "message",
        "is put to a queue, or from a queue manager to a subscriber",
        "queue_manager:a_publication_reaches_each_subscriber",
    ),
    (
        "message",
        "authority to put a message onto a queue is necessary",
        "queue_manager:authority_for_the_queue_is_needed",
    ),
    (
        "message",
        "authority to publish on a topic is necessary",
        "queue_manager:without_authority_for_any_topic",
    ),
    (
        "message",
        "if the user has authority for some topics only, only those are used; "
        "a warning response indicates the others",
        "queue_manager:only_authorised_topics_are_published check:responses_survive",
    ),
    (
        "message",
        "forwarded to the subscriber queues with matching subscriptions",
        "queue_manager:a_publication_reaches_each_subscriber",
    ),
    (
        "message",
        "MQMD parameters of a command, a response and a forwarded publication",
        "check:errors_with_the_descriptor queue_manager:a_datagram_is_answered "
        "queue_manager:forwarded_md_has_the_publishers",
    ),
    (
        "message",
        "forwarded to other queue managers with matching subscriptions",
        "queue_manager:a_publication_goes_to_other",
    ),
    (
        "message",
        "unless it is a local publication",
        "queue_manager:local_stays_at_this_queue_manager",
    ),
    (
        "message",
        "publication data, if any, is in the body",
        "queue_manager:a_publication_may_have_no_data codec:seed_examples_in_every",
    ),
    (
        "message",
        "the data can be described in an <mcd> folder",
        "check:mcd_and_usr queue_manager:mcd_and_usr_reach_the_subscriber",
    ),
    ("Command", "the value is Publish", "check:errors codec:seed_example_1_byte_for_byte"),
    ("Command", "must be specified", "check:errors queue_manager:a_bad_command_is_answered"),
    (
        "Topic",
        "a string that contains a topic",
        "codec:seed_example_1_byte_for_byte property:any_valid_command_survives",
    ),
    (
        "Topic",
        "no wildcard characters are allowed",
        "check:errors mapping:what_mq_cannot_hold_is_refused cli:bad_input_is_one_line",
    ),
    (
        "Topic",
        "the queue is in SYSTEM.QPUBSUB.QUEUE.NAMELIST: adding a stream",
        "queue_manager:a_stream_added_to_the_namelist",
    ),
    ("Topic", "must be specified", "check:errors"),
    (
        "Topic",
        "can be repeated for as many topics as needed",
        "queue_manager:a_message_with_several_topics mapping:a_message_with_several",
    ),
    (
        "SubPoint",
        "the subscription point on which the publication is published",
        "queue_manager:sub_point_must_be_the_name",
    ),
    (
        "SubPoint",
        "must match the name of a subscription point",
        "check:a_sub_point_is_checked queue_manager:sub_point_must_be_the_name",
    ),
    (
        "PubOpt",
        "takes the six values and no other",
        "check:errors check:what_is_right_has_no_fault",
    ),
    (
        "PubOpt",
        "more than one option by additional <PubOpt> elements",
        "cli:parse_and_check_read check:what_is_right_has_no_fault",
    ),
    (
        "PubOpt",
        "the default is that no options are set",
        "queue_manager:without_retain_pub_nothing_is_kept",
    ),
    (
        "RetainPub",
        "the queue manager is to retain a copy",
        "queue_manager:retain_pub_keeps_the_last_copy bridge:the_demos_messages",
    ),
    (
        "RetainPub",
        "not set: deleted as soon as it has been sent to all current subscribers",
        "queue_manager:without_retain_pub_nothing",
    ),
    (
        "IsRetainedPub",
        "can only be set by a queue manager",
        "check:errors queue_manager:is_retained_pub_of_an_application",
    ),
    (
        "IsRetainedPub",
        "notifies a subscriber that registered with InformIfRetained",
        "queue_manager:is_retained_pub_is_set_for_a",
    ),
    (
        "IsRetainedPub",
        "set only in response to Register Subscriber or Request Update",
        "queue_manager:is_retained_pub_is_not_set",
    ),
    (
        "IsRetainedPub",
        "retained publications sent directly do not have it set",
        "queue_manager:is_retained_pub_is_not_set",
    ),
    (
        "Local",
        "must not be sent to other queue managers",
        "queue_manager:local_stays_at_this_queue_manager",
    ),
    (
        "Local",
        "all subscribers registered at this queue manager receive it",
        "queue_manager:local_stays_at_this_queue_manager",
    ),
    (
        "OtherSubsOnly",
        "not sent to the publisher's own queue, even if it matches",
        "queue_manager:other_subs_only_spares",
    ),
    (
        "OtherSubsOnly",
        "that queue is QMgrName, QName and optional CorrelId",
        "queue_manager:q_mgr_name_and_q_name queue_manager:correl_as_id",
    ),
    (
        "CorrelAsId",
        "the CorrelId in the MQMD is part of the publisher's queue",
        "queue_manager:correl_as_id_makes",
    ),
    (
        "CorrelAsId",
        "the CorrelId must not be zero",
        "check:errors_with_the_descriptor queue_manager:correl_as_id_with_a_zero",
    ),
    (
        "None",
        "has the same effect as omitting the options",
        "queue_manager:none_has_the_effect_of_no_option",
    ),
    (
        "None",
        "is ignored if other options are specified",
        "queue_manager:none_has_the_effect_of_no_option check:warnings",
    ),
    (
        "PubTime",
        "optional, set by the publisher",
        "mapping:seq_num_is_the_outbox_sequence mapping:other_payloads_have_neither",
    ),
    (
        "PubTime",
        "16 characters, YYYYMMDDHHMMSSTH",
        "check:pub_time_format check:pub_time_is_universal_time",
    ),
    ("PubTime", "Universal Time", "check:pub_time_is_universal_time"),
    (
        "PubTime",
        "not checked before being sent to the subscribers",
        "queue_manager:pub_time_and_seq_num_are_transmitted check:warnings",
    ),
    (
        "SeqNum",
        "optional, set by the publisher",
        "mapping:seq_num_is_the_outbox_sequence mapping:other_payloads_have_neither",
    ),
    (
        "SeqNum",
        "must be incremented by 1 with each publication",
        "check:seq_num_steps cli:check_finds_a_step bridge:the_demos_messages",
    ),
    (
        "SeqNum",
        "not checked, merely transmitted",
        "queue_manager:pub_time_and_seq_num_are_transmitted",
    ),
    (
        "SeqNum",
        "meaningful across queue managers by the publishers' care: each topic is one board's",
        "check:seq_num_steps",
    ),
    (
        "QMgrName",
        "the queue manager of the publisher's subscriber queue",
        "queue_manager:q_mgr_name_and_q_name_come_before",
    ),
    (
        "QMgrName",
        "default: ReplyToQMgr, and if blank the queue manager's name",
        "queue_manager:the_publishers_queue_defaults",
    ),
    (
        "QName",
        "the queue of the publisher's subscriber queue",
        "queue_manager:other_subs_only_spares",
    ),
    (
        "QName",
        "default: ReplyToQ",
        "queue_manager:the_publishers_queue_defaults check:other_subs_only_is_right",
    ),
    (
        "QName",
        "which must not be blank if OtherSubsOnly is set",
        "check:errors_with_the_descriptor cli:bad_input_is_one_line",
    ),
    (
        "example",
        "first example: a match has started",
        "codec:seed_example_1_byte_for_byte codec:seed_examples_as_printed",
    ),
    (
        "example",
        "second example: a retained publication, PubOpt before Topic",
        "codec:seed_example_2_byte codec:seed_examples_as_printed",
    ),
]


def names_in(part):
    tree = ast.parse((HERE / f"test_mq_{part}.py").read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


@pytest.mark.parametrize(
    ("what", "rule", "tests"), RULES, ids=[f"{what}: {rule[:50]}" for what, rule, _ in RULES]
)
def test_each_rule_has_its_tests(what, rule, tests):
    assert tests.split(), f"no test for: {what}: {rule}"
    for test in tests.split():
        part, name = test.split(":")
        assert any(found.startswith(f"test_{name}") for found in names_in(part)), (
            f"{test} is not there"
        )


def test_each_property_and_option_of_the_page_has_a_rule_and_is_known():
    page = {"Command", "Topic", "SubPoint", "PubOpt", "PubTime", "SeqNum", "QMgrName", "QName"}
    options = {"RetainPub", "IsRetainedPub", "Local", "OtherSubsOnly", "CorrelAsId", "None"}
    assert set(psc.PUBLISH_PROPERTIES) == page and set(psc.PUBLICATION_OPTIONS) == options
    assert page | options | {"message", "example"} == {what for what, _, _ in RULES}
    assert {name for name, repeats in psc.PUBLISH_PROPERTIES.items() if repeats} == {
        "Topic",
        "PubOpt",
    }
