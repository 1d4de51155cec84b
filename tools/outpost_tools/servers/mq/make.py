"""Builds a command message from the arguments of `outpost mq build`."""

from __future__ import annotations

import argparse
import time

from outpost_tools.errors import ToolError
from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq import form, mapping, psc, service
from outpost_tools.servers.mq.check import check, refuse
from outpost_tools.servers.mq.descriptor import DATAGRAM, PERSISTENT, REQUEST, Descriptor
from outpost_tools.servers.mq.header import BIG_ENDIAN, LITTLE_ENDIAN, parse
from outpost_tools.servers.mq.mapping import Outgoing

ENCODINGS = {"big": BIG_ENDIAN, "little": LITTLE_ENDIAN}


def make(args: argparse.Namespace) -> Outgoing:
    """The message, checked as a queue manager would. Raises MqError or ToolError."""
    if args.text is not None and args.body is not None:
        raise ToolError("--text and --body: give one of them")
    body = form.read_file(args.body) if args.body else b""
    if args.text is not None:
        try:
            body = args.text.encode()
        except UnicodeEncodeError:
            raise ToolError("--text: not UTF-8; pass such bytes with --body FILE") from None
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
        texts.append(
            xml.write(
                xml.Element(
                    "usr", children=tuple(xml.Element(name, value) for name, _, value in pairs)
                )
            )
        )
    return texts
