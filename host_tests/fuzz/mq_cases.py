"""Cases that several tests of the MQ tools share: the seed's two examples, and a sample of valid
messages.
"""

from outpost_tools.servers.mq import mapping, psc
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.header import Header, Message, build, make_folder

# IBM's page "Publish message": its two examples verbatim, with one blank before the folder and
# three before a property.
SEED_EXAMPLES = {
    "match started": """\
 <psc>
   <Command>Publish</Command>
   <Topic>Sport/Soccer/Event/MatchStarted</Topic>
 </psc>
""",
    "latest score": """\
 <psc>
   <Command>Publish</Command>
   <PubOpt>RetainPub</PubOpt>
   <Topic>Sport/Soccer/State/LatestScore/Team1 Team2</Topic>
 </psc>
""",
}
COMPACT = {
    "match started": "<psc><Command>Publish</Command>"
    "<Topic>Sport/Soccer/Event/MatchStarted</Topic></psc>",
    "latest score": "<psc><Command>Publish</Command><PubOpt>RetainPub</PubOpt>"
    "<Topic>Sport/Soccer/State/LatestScore/Team1 Team2</Topic></psc>",
}
ENCODINGS = (273, 546, 785)  # big, little, S/390 (big)
CCSIDS = (1208, 1200, 13488, 17584)
EVERY_PROPERTY = psc.publish(
    ["a/b", "Zürich/温度 <&>\"'", " blanks "],
    options=["RetainPub", "Local", "OtherSubsOnly", "CorrelAsId", "None"],
    sub_point="imperial",
    pub_time="2025112103000012",
    seq_num=41,
    q_mgr_name="QM.1",
    q_name="MY/QUEUE%",
)


def message(texts, body=b"", *, encoding=273, ccsid=1208, **header):
    """Returns the bytes of one MQRFH2 with these folders."""
    folders = tuple(make_folder(text, name_value_ccsid=ccsid, encoding=encoding) for text in texts)
    return build(
        Message((Header(folders, encoding, name_value_ccsid=ccsid, **header),), body, encoding)
    )


def samples():
    """Returns (encoding, bytes) of valid messages of every shape, the seeds of mutations."""
    texts = [
        *COMPACT.values(),
        SEED_EXAMPLES["latest score"],
        EVERY_PROPERTY.text(),
        "<psc><!-- why --><Command>Publish</Command><Topic>a</Topic><New at='1'><x/></New></psc>",
        "<pscr><Completion>warning</Completion>"
        "<Response><Reason>3081</Reason><Topic>b</Topic></Response></pscr>",
        "<usr><mqttQos dt='i4'>1</mqttQos></usr>",
    ]
    found = [
        (encoding, message([text], b"body", encoding=encoding, ccsid=c))
        for text in texts
        for encoding, c in pairs()
    ]
    published = mapping.to_mq(
        mapping.Publication(b"a/b", b"\x00\xff", 2, True, True),
        mapping.Options(usr=True, domain="jms_bytes"),
    )
    found.append((273, published.data))
    folder = make_folder(COMPACT["match started"], encoding=546)
    first = Header((make_folder("<usr><a>1</a></usr>"),), 546, format_bytes=b"MQHRF2  ")
    found.append((273, build(Message((first, Header((folder,), 273)), b"body", 273))))
    return found


def pairs():
    return [(encoding, ccsid) for encoding in ENCODINGS for ccsid in CCSIDS]


def requester():
    """Returns an MQMD with which EVERY_PROPERTY is valid."""
    return Descriptor(correl_id=b"\x01" * 24)
