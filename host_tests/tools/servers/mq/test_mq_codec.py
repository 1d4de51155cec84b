# cpython-only: tests a desktop tool
"""MQRFH2 and its folders: the seed's examples byte for byte, every byte order and CCSID, and each
thing that is refused.
"""

import struct
import textwrap
import tracemalloc
from dataclasses import replace

import pytest

from mq_cases import (
    CCSIDS,
    COMPACT,
    ENCODINGS,
    EVERY_PROPERTY,
    SEED_EXAMPLES,
    message,
    pairs,
    samples,
)
from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq import psc
from outpost_tools.servers.mq.folder import Element
from outpost_tools.servers.mq.header import Header, Message, build, make_folder, parse
from outpost_tools.servers.mq.reasons import MqError

# The first example under MQMD.Encoding 273, with a body of text: written out by hand from IBM's
# layout.
EXAMPLE_1_BYTES = (
    bytes.fromhex(
        "52464820 00000002 0000007c 00000111 000004b8 4d51535452202020 00000000 000004b8 00000054"
    )
    + b"<psc><Command>Publish</Command><Topic>Sport/Soccer/Event/MatchStarted</Topic></psc> "
)
EXAMPLE_2_BYTES = (
    bytes.fromhex(
        "52464820 00000002 000000a0 00000111 000004b8 4d51535452202020 00000000 000004b8 00000078"
    )
    + b"<psc><Command>Publish</Command><PubOpt>RetainPub</PubOpt>"
    + b"<Topic>Sport/Soccer/State/LatestScore/Team1 Team2</Topic></psc>"
)


def text_message(text, body=b""):
    return message([text], body, format_bytes=b"MQSTR   ")


def test_seed_example_1_byte_for_byte():
    command = psc.publish(["Sport/Soccer/Event/MatchStarted"])
    assert text_message(command.text()) == EXAMPLE_1_BYTES
    assert psc.read(parse(EXAMPLE_1_BYTES).folders()[0].text) == command


def test_seed_example_2_byte_for_byte():
    """PubOpt stands before Topic there; the order that was read is the order that is written."""
    command = psc.read(COMPACT["latest score"])
    assert [element.name for element in command.properties] == ["Command", "PubOpt", "Topic"]
    assert text_message(command.text()) == EXAMPLE_2_BYTES
    assert (command.options, command.topics) == (
        ["RetainPub"],
        ["Sport/Soccer/State/LatestScore/Team1 Team2"],
    )


@pytest.mark.parametrize("name", SEED_EXAMPLES)
def test_seed_examples_as_printed(name):
    """IBM's page has line breaks and an indent of one blank: so does the pretty writer."""
    command = psc.read(COMPACT[name])
    assert psc.read(SEED_EXAMPLES[name]) == command
    assert textwrap.indent(command.text(pretty=True), " ") + "\n" == SEED_EXAMPLES[name]


@pytest.mark.parametrize("name", SEED_EXAMPLES)
@pytest.mark.parametrize(("encoding", "ccsid"), pairs())
def test_seed_examples_in_every_byte_order_and_ccsid(name, encoding, ccsid):
    data = message([SEED_EXAMPLES[name]], b"2:1", encoding=encoding, ccsid=ccsid)
    read = parse(data, encoding=encoding)
    assert (build(read), read.body) == (data, b"2:1")
    assert psc.read(read.folders()[0].text) == psc.read(COMPACT[name])


@pytest.mark.parametrize(("encoding", "data"), samples())
def test_parse_then_build_changes_no_byte(encoding, data):
    assert build(parse(data, encoding=encoding)) == data


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_fields_are_where_ibm_puts_them(encoding):
    order = "<" if encoding == 546 else ">"
    header = Header((make_folder("<a/>", encoding=encoding),), 273, 37, b"MQSTR   ", 5, 1208)
    data = build(Message((header,), b"B", encoding))
    assert (
        data
        == struct.pack(f"{order}4s4i8s2ii", b"RFH ", 2, 44, 273, 37, b"MQSTR   ", 5, 1208, 4)
        + b"<a/>B"
    )


def test_the_byte_order_of_a_chained_header_comes_from_the_header_before():
    little = make_folder("<psc/>", encoding=546)
    first = Header((make_folder("<usr/>"),), 546, format_bytes=b"MQHRF2  ")
    second = Header((little,), 273, format_bytes=b"MQSTR   ")
    data = build(Message((first, second), b"text", 273))
    assert data[4:8] == b"\0\0\0\2" and data[first.length :][4:8] == b"\2\0\0\0"
    assert parse(data) == Message((first, second), b"text", 273)


def test_utf_16_has_the_headers_byte_order_and_no_mark():
    for ccsid in CCSIDS[1:]:
        assert make_folder("<a/>", name_value_ccsid=ccsid, encoding=273).data == b"\0<\0a\0/\0>"
        assert make_folder("<a/>", name_value_ccsid=ccsid, encoding=546).data == b"<\0a\0/\0>\0"
    assert make_folder("<ab/>", name_value_ccsid=1200).data.endswith(b"\0>\0 ")


def test_a_body_without_any_header_is_a_message_too():
    assert parse(b"plain", format="MQSTR") == Message((), b"plain", 273)


def test_a_format_that_only_resembles_mqhrf2_begins_the_body():
    """Found by fuzz_mq.py: rstrip() takes a form feed for a blank."""
    data = message(["<a/>"], b"body", format_bytes=b"MQHRF2 \x0c")
    assert parse(data).body == b"body" and build(parse(data)) == data


def test_a_header_from_zos_that_was_not_converted():
    format_bytes = "MQSTR   ".encode("cp500")
    header = Header((make_folder("<a/>"),), 785, 1208, format_bytes, struc_id=b"\xd9\xc6\xc8\x40")
    data = build(Message((header,), b"", 785))
    assert (
        parse(data, encoding=785).headers[0].format == "MQSTR"
        and build(parse(data, encoding=785)) == data
    )


def test_several_folders_and_unknown_ones_keep_their_order_and_bytes():
    texts = [
        "<mqtt><Qos>1</Qos></mqtt>",
        COMPACT["match started"],
        "<x:y xmlns:x='u'><!-- c --><z/></x:y>",
        "<usr></usr>",
    ]
    data = message(texts, b"\x00\x01")
    read = parse(data)
    assert [folder.text for folder in read.folders()] == texts and build(read) == data


def test_a_nul_tail_is_tolerated_and_kept():
    data = message(["<a/>"]).replace(b"\0\0\0\4<a/>", b"\0\0\0\x08<a/>\0\0 \0")
    data = data[:8] + struct.pack(">i", 48) + data[12:]
    read = parse(data)
    assert read.folders()[0].root() == Element("a") and build(read) == data


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        (lambda d: d[:35], "short", 2334),
        (lambda d: b"", "short", 2334),
        (lambda d: b"RFH2" + d[4:], "struc-id", 2334),
        (lambda d: d[:4] + b"\0\0\0\1" + d[8:], "version", 2334),
        (lambda d: d[:8] + b"\0\0\0\x20" + d[12:], "struc-length", 2334),
        (lambda d: d[:8] + b"\xff\xff\xff\xff" + d[12:], "struc-length", 2334),
        (lambda d: d[:8] + b"\0\0\0\x2d" + d[12:] + b"zz", "struc-length", 2334),
        (lambda d: d[:8] + b"\0\0\1\0" + d[12:], "struc-length", 2334),
        (lambda d: d[:32] + b"\0\0\3\x33" + d[36:], "name-value-ccsid", 2111),
        (lambda d: d[:36] + b"\xff\xff\xff\xfc" + d[40:], "name-value-length", 2334),
        (lambda d: d[:36] + b"\0\0\0\2" + d[40:], "name-value-length", 2334),
        (lambda d: d[:36] + b"\0\0\0\x08" + d[40:], "name-value-length", 2334),
        (lambda d: d[:20] + b"MQHRF2  " + d[28:], "short", 2334),
        (lambda d: d[:12] + b"\0\0\0\0" + d[16:20] + b"MQHRF2  " + d[28:], "encoding", 2112),
    ],
)
def test_bad_headers_are_refused_by_name(change, name, reason):
    with pytest.raises(MqError) as caught:
        parse(change(message(["<a/>"])))
    assert (caught.value.name, caught.value.reason) == (name, reason)


def test_the_wrong_byte_order_is_recognised():
    with pytest.raises(MqError, match="the other one, try encoding 546"):
        parse(message(["<a/>"], encoding=546), encoding=273)
    with pytest.raises(MqError, match="try encoding 273"):
        parse(message(["<a/>"]), encoding=546)


def test_a_message_that_contradicts_itself_is_not_built():
    said, silent = (
        Header((make_folder("<a/>"),), format_bytes=format_bytes)
        for format_bytes in (b"MQHRF2  ", b" " * 8)
    )
    wide = Header((make_folder("<a/>", name_value_ccsid=1200),), name_value_ccsid=1200)
    for wrong, name in (
        (Message((said,)), "format"),
        (Message((silent, silent)), "format"),
        (Message((replace(silent, name_value_ccsid=1200),)), "folder-codec"),
        (Message((replace(silent, name_value_ccsid=819),)), "name-value-ccsid"),
        (Message((wide,), encoding=546), "folder-codec"),
        (Message((silent,), encoding=0), "encoding"),
    ):
        with pytest.raises(MqError) as caught:
            build(wrong)
        assert caught.value.name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "folder-empty"),
        ("   ", "folder-empty"),
        ("x", "folder-text-outside"),
        ("<a/>x", "folder-text-outside"),
        ("x<a/>", "folder-text-outside"),
        ("<a/><b/>", "folder-second-folder"),
        ("<a>", "folder-end-tag-missing"),
        ("<a></b>", "folder-end-tag"),
        ("</a>", "folder-end-tag"),
        ("<a></a x='1'>", "folder-end-tag"),
        ("<a", "folder-tag"),
        ("< a/>", "folder-tag"),
        ("<1/>", "folder-tag"),
        ("<a b/>", "folder-tag"),
        ("<a b=1/>", "folder-tag"),
        ("<a b='<'/>", "folder-tag"),
        ("<a b='1' b='2'/>", "folder-attribute-repeated"),
        ("<a>&</a>", "folder-reference"),
        ("<a>&nbsp;</a>", "folder-reference"),
        ("<a>&#0;</a>", "folder-reference"),
        ("<a>&#xD800;</a>", "folder-reference"),
        ("<a>&#9999999;</a>", "folder-reference"),
        ("<a>\x01</a>", "folder-character"),
        ("<a>\uffff</a>", "folder-character"),
        ("<a><![CDATA[x]]></a>", "folder-cdata"),
        ("<?xml version='1.0'?><a/>", "folder-processing-instruction"),
        ("<!DOCTYPE a><a/>", "folder-dtd"),
        ("<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "folder-dtd"),
        ("<a><!ENTITY x SYSTEM 'file:///etc/passwd'>&x;</a>", "folder-dtd"),
        ("<a><!-- x -- y --></a>", "folder-comment"),
        ("<a><!-- x", "folder-comment"),
    ],
)
def test_bad_folders_are_refused_by_name(text, name):
    with pytest.raises(MqError) as caught:
        xml.parse(text)
    assert (caught.value.name, caught.value.reason) == (name, 2335)


@pytest.mark.parametrize(
    ("data", "codec", "name"),
    [
        (b"<a>\xff</a>", "utf-8", "folder-characters"),
        (b"<a>\xed\xa0\x80</a>", "utf-8", "folder-characters"),
        (b"\xd8\x00\x00<", "utf-16-be", "folder-characters"),
        (b"<a/>\0</a>", "utf-8", "folder-text-outside"),
    ],
)
def test_bad_characters_are_refused_by_name(data, codec, name):
    from outpost_tools.servers.mq.header import Folder

    with pytest.raises(MqError) as caught:
        Folder(data, codec).root()
    assert (caught.value.name, caught.value.reason) == (name, 2335)


@pytest.mark.parametrize("text", ["<a>\U0001f600</a>", "<a>\ud800</a>", "<a>\0</a>"])
@pytest.mark.parametrize("ccsid", CCSIDS)
def test_characters_that_mq_cannot_take_are_not_written(text, ccsid):
    with pytest.raises(MqError, match="U\\+0001 to U\\+FFFF"):
        make_folder(text, name_value_ccsid=ccsid)


@pytest.mark.parametrize("ccsid", [0, 819, 37, 1201, -2])
def test_other_name_value_ccsids_are_refused(ccsid):
    with pytest.raises(MqError, match="is none of 1200, 1208, 13488, 17584"):
        make_folder("<a/>", name_value_ccsid=ccsid)


def test_references_are_read_and_what_must_be_is_escaped():
    assert xml.parse("<a>&amp;&lt;&gt;&quot;&apos;&#65;&#x42;</a>").text == "&<>\"'AB"
    assert xml.write(Element("a", "<&>\"'\r\n\t")) == "<a>&lt;&amp;&gt;\"'&#13;&#10;&#9;</a>"
    assert xml.write(Element("a", attributes=(("b", "\"<&'"),))) == '<a b="&quot;&lt;&amp;\'"></a>'


def test_blanks_of_a_value_count_and_blanks_between_tags_do_not():
    spaced = "<psc>\n <Command>Publish</Command>\t<Topic> a b </Topic> </psc>"
    assert psc.read(spaced) == psc.publish([" a b "])
    assert (
        psc.publish([" a b "]).text() == "<psc><Command>Publish</Command><Topic> a b </Topic></psc>"
    )


def test_unknown_elements_are_kept_verbatim_and_in_place():
    new = "<New  at = '1'><!-- why --><x a='&quot;'/> </New>"
    text = f"<psc><Command>Publish</Command>{new}<Topic>a</Topic><Topic dt='string'>b</Topic></psc>"
    command = psc.read(text)
    assert command.text() == text and command.topics == ["a", "b"]


def test_a_dt_of_string_is_accepted_and_none_is_written():
    assert psc.read(
        "<psc><Command dt='string'>Publish</Command><Topic dt=\"string\">a</Topic></psc>"
    ).topics == ["a"]
    assert "dt" not in EVERY_PROPERTY.text()


def test_a_bomb_of_entities_is_refused_before_it_is_read():
    text = (
        "<!DOCTYPE z ["
        + "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 10))
        + "]><z>&a9;</z>"
    )
    with pytest.raises(MqError, match="folder-dtd"):
        xml.parse(text)


@pytest.mark.parametrize(
    "text",
    ["<a>" * 100_000, "<a>" + "<b/>" * 100_000 + "</a>", "<a " + "b='1' " * 100_000, "<" * 400_000],
)
def test_depth_and_number_of_elements_are_limited(text):
    with pytest.raises(MqError):
        xml.parse(text)


def test_memory_is_bounded_by_the_length_of_the_text():
    """The worst that is accepted: as many empty elements as may be; and long texts take a small
    multiple of themselves.
    """
    many, long = f"<a>{'<b/>' * 19_999}</a>", f"<a>{'&amp;x' * 500_000}</a>"
    for text, limit in ((many, 12_000_000), (long, 8 * len(long))):
        tracemalloc.start()
        xml.parse(text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < limit


def test_long_tags_take_linear_time():
    for text in (
        "<a" + " " * 2_000_000,
        "<a " + "b" * 2_000_000,
        "<a" + " b='1'" * 300_000,
        "<a>" + "&" * 2_000_000,
    ):
        with pytest.raises(MqError):
            xml.parse(text)


def test_only_names_are_written_as_names():
    for name in ("", "a b", "1a", "a>", "<"):
        with pytest.raises(MqError, match="element-name"):
            xml.write(Element(name))
