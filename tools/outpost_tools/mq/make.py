"""`outpost mq build`: options to a command message."""

from __future__ import annotations

import argparse
import time

from outpost_tools.errors import ToolError
from outpost_tools.mq import folder as xml
from outpost_tools.mq import form, mapping, psc, service
from outpost_tools.mq.check import check, refuse
from outpost_tools.mq.descriptor import DATAGRAM, NO_ID, PERSISTENT, REQUEST, Descriptor
from outpost_tools.mq.header import BIG_ENDIAN, CODECS, LITTLE_ENDIAN, parse
from outpost_tools.mq.mapping import Outgoing

ENCODINGS = {"big": BIG_ENDIAN, "little": LITTLE_ENDIAN}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command = parser.add_argument_group("the command (<psc>)")
    command.add_argument("--topic", action="append", required=True, help="may be repeated; no wildcards")
    options = [option for option in psc.PUBLICATION_OPTIONS if option != psc.IS_RETAINED_PUB]
    command.add_argument("--option", action="append", default=[], choices=options, help="PubOpt; may be repeated")
    command.add_argument("--sub-point", metavar="NAME", help="SubPoint")
    command.add_argument("--pub-time", metavar="TIME", help="PubTime: YYYYMMDDHHMMSSTH, or `now`")
    command.add_argument("--seq-num", metavar="N", help="SeqNum")
    command.add_argument("--q-mgr-name", metavar="NAME", help="QMgrName of the publisher's subscriber queue")
    command.add_argument("--q-name", metavar="NAME", help="QName of the publisher's subscriber queue")
    command.add_argument("--pretty", action="store_true", help="a property per line, as IBM prints it")
    body = parser.add_argument_group("the body")
    body.add_argument("--text", help="the body, as UTF-8 text (Format MQSTR)")
    body.add_argument("--body", metavar="FILE", help="the body, as bytes (Format blank); - is standard input")
    body.add_argument(
        "--domain", metavar="MSD", default="", help="describe it by <mcd><Msd>MSD</Msd></mcd>, jms_bytes for instance"
    )
    body.add_argument("--usr", action="append", default=[], metavar="NAME=VALUE", help="into <usr>; may be repeated")
    _add_message_arguments(parser.add_argument_group("the message"))


def _add_message_arguments(group: argparse._ArgumentGroup) -> None:
    add_layout(group)
    group.add_argument("--request", action="store_true", help="MsgType request: a response is always sent (needs --reply-to-q)")
    group.add_argument("--correl-id", type=_identifier, default=NO_ID, metavar="HEX", help="MQMD.CorrelId, 48 hex digits")
    group.add_argument(
        "--form", choices=form.FORMS, default="json", help="output: JSON line with the MQMD (default), hex, raw bytes"
    )
    group.add_argument("--out", metavar="FILE", help="default: standard output")


def add_layout(group: argparse._ArgumentGroup) -> None:
    """What build and bridge share."""
    group.add_argument("--encoding", choices=ENCODINGS, default="big", help="byte order (MQMD.Encoding 273 or 546)")
    group.add_argument("--ccsid", type=int, choices=sorted(CODECS), default=1208, help="NameValueCCSID")
    group.add_argument("--queue", default=mapping.DEFAULT_QUEUE, help="a stream queue (default: %(default)s)")
    group.add_argument("--reply-to-q", default="", metavar="NAME", help="MQMD.ReplyToQ")
    group.add_argument("--reply-to-q-mgr", default="", metavar="NAME", help="MQMD.ReplyToQMgr")


def _identifier(text: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != 24:
        raise argparse.ArgumentTypeError(f"{text!r} is not 48 hex digits")
    return value


def make(args: argparse.Namespace) -> Outgoing:
    """The message, checked as a queue manager would. Raises MqError or ToolError."""
    if args.text is not None and args.body is not None:
        raise ToolError("--text and --body: give one of them")
    body = args.text.encode() if args.text is not None else form.read_file(args.body) if args.body else b""
    md = Descriptor(
        msg_type=REQUEST if args.request else DATAGRAM,
        encoding=ENCODINGS[args.encoding],
        persistence=PERSISTENT,
        correl_id=args.correl_id,
        reply_to_q=args.reply_to_q,
        reply_to_q_mgr=args.reply_to_q_mgr,
    )
    data = mapping.encode(_folders(args), body, md, args.ccsid, is_text=args.text is not None)
    refuse(check(parse(data, encoding=md.encoding), md))
    return Outgoing(args.queue, md, data)


def _folders(args: argparse.Namespace) -> list[str]:
    command = psc.publish(
        args.topic,
        options=args.option,
        sub_point=args.sub_point,
        pub_time=psc.pub_time(time.time()) if args.pub_time == "now" else args.pub_time,
        seq_num=args.seq_num,
        q_mgr_name=args.q_mgr_name,
        q_name=args.q_name,
    )
    texts = [command.text(pretty=args.pretty)]
    if args.domain:
        texts.append(xml.write(service.mcd(args.domain)))
    if args.usr:
        pairs = [pair.partition("=") for pair in args.usr]
        texts.append(xml.write(xml.Element("usr", children=tuple(xml.Element(name, value) for name, _, value in pairs))))
    return texts
