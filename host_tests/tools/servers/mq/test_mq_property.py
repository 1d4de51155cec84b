# cpython-only: tests a desktop tool with hypothesis
"""Properties of the MQ codec: valid commands survive, any bytes give a message or a named error."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzz_mq
from mq_cases import CCSIDS, ENCODINGS, message, requester, samples
from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq import mapping, psc
from outpost_tools.servers.mq.check import check, errors
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.header import build, parse
from outpost_tools.servers.mq.reasons import MqError

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

letters = st.characters(min_codepoint=0x20, max_codepoint=0xFFFD, exclude_categories=["Cs"])
topics = st.text(letters.filter(lambda c: c not in "+#"), min_size=1, max_size=60).filter(
    lambda topic: topic != "$SYS" and not topic.startswith("$SYS/")
)
names = st.from_regex(r"[A-Za-z0-9._/%]{1,48}", fullmatch=True)
commands = st.builds(
    psc.publish,
    st.lists(topics, min_size=1, max_size=4),
    options=st.lists(
        st.sampled_from([o for o in psc.PUBLICATION_OPTIONS if o != psc.IS_RETAINED_PUB]),
        unique=True,
    ),
    sub_point=st.none() | topics,
    pub_time=st.none() | st.integers(0, 4_000_000_000_000).map(lambda ms: psc.pub_time(ms / 1000)),
    seq_num=st.none() | st.integers(0, 1 << 40),
    q_mgr_name=st.none() | names,
    q_name=names,
)


@QUICK
@given(commands, st.sampled_from(ENCODINGS), st.sampled_from(CCSIDS), st.binary(max_size=50))
def test_any_valid_command_survives_build_parse_build(command, encoding, ccsid, body):
    data = message([command.text()], body, encoding=encoding, ccsid=ccsid)
    read = parse(data, encoding=encoding)
    assert errors(check(read, requester())) == []
    again = psc.read(read.folders()[0].text)
    assert (again, read.body, build(read)) == (command, body, data)
    assert message([again.text()], read.body, encoding=encoding, ccsid=ccsid) == data


elements = st.recursive(
    st.builds(
        xml.Element, st.sampled_from(["a", "b.c", "x:y", "é"]), st.text(letters, max_size=20)
    ),
    lambda inner: st.builds(
        xml.Element,
        st.sampled_from(["a", "b"]),
        st.just(""),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=12,
)


@QUICK
@given(elements)
def test_any_folder_survives_write_and_parse(element):
    assert xml.parse(xml.write(element)) == element


packets = st.builds(
    mapping.Publication,
    topics.map(str.encode),
    st.binary(max_size=100),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)


@QUICK
@given(packets, st.sampled_from(ENCODINGS), st.sampled_from(CCSIDS))
def test_any_packet_comes_back_from_mq_as_it_was(packet, encoding, ccsid):
    options = mapping.Options(
        descriptor=Descriptor(encoding=encoding),
        name_value_ccsid=ccsid,
        usr=True,
        on_clear="delete",
    )
    outgoing = mapping.to_mq(packet, options)
    assert errors(check(parse(outgoing.data, encoding=encoding), outgoing.md)) == []
    assert mapping.to_mqtt(outgoing.md, outgoing.data) == ([packet], [])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(ENCODINGS))
def test_any_bytes_give_a_message_or_a_named_error(data, encoding):
    fuzz_mq.outcome(data, encoding)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("<>/abc &;#x'=\"-!?[]\n"), max_size=40))
def test_any_text_gives_a_folder_or_a_named_error(text):
    try:
        xml.write(xml.parse(text))
    except MqError as error:
        assert error.reason == 2335


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 2), st.booleans())
def test_any_packet_has_a_stated_outcome(topic, payload, qos, retain):
    try:
        outgoing = mapping.to_mq(
            mapping.Publication(topic, payload, qos, retain), mapping.Options()
        )
    except MqError as error:
        assert error.name
    else:
        assert mapping.to_mqtt(outgoing.md, outgoing.data)[0][0].topic == topic


def test_every_truncation_is_refused_by_name_or_is_a_shorter_body():
    for encoding, data in samples():
        whole = parse(data, encoding=encoding)
        for length in range(len(data)):
            try:
                cut = parse(data[:length], encoding=encoding)
            except MqError as error:
                assert error.reason in (2334, 2112)
            else:
                assert cut.headers == whole.headers and whole.body.startswith(cut.body)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_and_mutated_inputs_short_form(seed):
    """The long form, a million: python host_tests/fuzz/fuzz_mq.py"""
    outcomes = fuzz_mq.fuzz(6_000, seed)
    assert outcomes["message"] > 100 and len(outcomes) > 15
