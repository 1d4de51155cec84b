# cpython-only: tests a desktop tool
"""Our bytes read by others: pymqi's and ibmmq's RFH2 classes, and Wireshark. Each is optional, and
its absence is said.
"""

import shutil
import struct
import subprocess

import pytest

import mq_readers
from mq_cases import COMPACT, EVERY_PROPERTY, message
from outpost_tools.servers.mq import mapping, psc, reasons
from outpost_tools.servers.mq.header import build, parse

FULL = EVERY_PROPERTY.text().replace(" blanks ", "blanks")
RETAINED = mapping.to_mq(
    mapping.Publication("été/1".encode(), b"\x00\xff", 1, retain=True), mapping.Options(usr=True)
)
# name: (MQMD.Encoding, bytes, texts of its folders)
CASES = {
    "example 1": (273, message([COMPACT["match started"]], b"go"), [COMPACT["match started"]]),
    "example 2": (
        273,
        message([COMPACT["latest score"]], b"2:1", format_bytes=b"MQSTR   "),
        [COMPACT["latest score"]],
    ),
    "little": (
        546,
        message([COMPACT["latest score"]], b"2:1", encoding=546),
        [COMPACT["latest score"]],
    ),
    "everything": (273, message([FULL], b"x"), [FULL]),
    "everything little": (546, message([FULL], b"x", encoding=546), [FULL]),
    "mapped": (273, RETAINED.data, [folder.text for folder in parse(RETAINED.data).folders()]),
    "three folders": (
        273,
        message(["<mcd><Msd>jms_bytes</Msd></mcd>", FULL, "<usr><a>1</a></usr>"]),
        None,
    ),
    "flags, no body": (546, message([COMPACT["match started"]], encoding=546, flags=7), None),
}
FIELDS = ("StrucLength", "Encoding", "CodedCharSetId", "Format", "Flags", "NameValueCCSID")


def ours(encoding, data):
    message = parse(data, encoding=encoding)
    header = message.headers[0]
    values = (
        header.length,
        header.encoding,
        header.ccsid,
        header.format_bytes,
        header.flags,
        header.name_value_ccsid,
    )
    return dict(zip(FIELDS, values, strict=True)), {
        folder.root().name: folder.data for folder in message.folders()
    }


@pytest.fixture(scope="module", params=["pymqi", "ibmmq"])
def reader(request):
    with getattr(mq_readers, request.param)() as module:
        yield module


@pytest.mark.parametrize("case", CASES)
def test_their_reader_finds_the_same_fields(reader, case):
    encoding, data, texts = CASES[case]
    theirs = reader.RFH2()
    theirs.unpack(data, encoding)
    fields, folders = ours(encoding, data)
    found = theirs.get()
    assert {name: found[name] for name in FIELDS} == fields
    assert {name: found[name] for name in folders} == folders
    if texts is not None:
        assert [
            value.decode().rstrip(" ") for name, value in found.items() if name in folders
        ] == texts


@pytest.mark.parametrize("case", CASES)
def test_their_writer_makes_the_same_bytes(reader, case):
    encoding, data, _ = CASES[case]
    fields, folders = ours(encoding, data)
    theirs = reader.RFH2(**{name: value for name, value in fields.items() if name != "StrucLength"})
    for folder in folders.values():
        theirs.add_folder(folder.rstrip(b" "))
    packed = theirs.pack(encoding=encoding)
    assert packed == data[: fields["StrucLength"]]
    read = parse(packed, encoding=encoding)
    assert build(read) == packed


def test_reason_codes_have_ibms_names_and_numbers():
    with mq_readers.ibmmq() as ibmmq:
        for number, name in reasons.MNEMONICS.items():
            assert getattr(ibmmq.CMQCFC if "MQRCCF" in name else ibmmq.CMQC, name) == number, name


def test_limits_and_constants_are_ibms():
    from outpost_tools.servers.mq import check, descriptor, header

    with mq_readers.ibmmq() as ibmmq:
        theirs = ibmmq.CMQC
        assert check.MAX_TOPIC_BYTES == theirs.MQ_TOPIC_STR_LENGTH
        assert (header.FIXED_BYTES, header.STRUC_ID) == (
            theirs.MQRFH_STRUC_LENGTH_FIXED_2,
            theirs.MQRFH_STRUC_ID,
        )
        assert header.RESTRICTED_FLAGS == theirs.MQRFH_FLAGS_RESTRICTED_MASK
        assert header.CCSID_INHERIT == theirs.MQCCSI_INHERIT
        assert (descriptor.REQUEST, descriptor.REPLY, descriptor.DATAGRAM) == (
            theirs.MQMT_REQUEST,
            theirs.MQMT_REPLY,
            theirs.MQMT_DATAGRAM,
        )
        assert (descriptor.REPORT_PAN, descriptor.REPORT_NAN) == (theirs.MQRO_PAN, theirs.MQRO_NAN)


TSHARK_FIELDS = (
    *("mq.head.length", "mq.head.encoding", "mq.head.ccsid", "mq.head.format", "mq.head.flags"),
    *("mq.rfh.ccsid", "mq.rfh.length", "mq.rfh.string", "data.data"),
)


def mqput_packet(port, encoding, data):
    """An Ethernet frame from `port` to port 1414 with the MQPUT of `data`, as an MQ client on the
    wire would send it.
    """
    order = ">" if encoding == 273 else "<"
    md = b"MD  " + struct.pack(f"{order}7i", 2, 0, 8, -1, 0, encoding, 1208) + b"MQHRF2  "
    md += struct.pack(f"{order}2i", -1, 1) + bytes(48) + bytes(4) + b" " * 96
    md += b" " * 12 + bytes(32) + b" " * 32 + bytes(4) + b" " * 28 + b" " * 16 + b" " * 4
    md += bytes(24) + struct.pack(f"{order}4i", 1, 0, 0, -1)
    pmo = b"PMO " + struct.pack(f"{order}8i", 1, 0, -1, 0, 0, 0, 0, 0)[:28] + b" " * 96
    assert (len(md), len(pmo)) == (364, 128)
    body = md + pmo + struct.pack(f"{order}i", len(data)) + data
    length = 28 + 16 + len(body)
    tsh = (
        b"TSH "
        + struct.pack(">I", length)
        + bytes((1 if encoding == 273 else 2, 0x86, 0x30, 0))
        + bytes(8)
    )
    tsh += struct.pack(f"{order}iHH", encoding, 1208, 0)
    payload = tsh + struct.pack(">I", length) + struct.pack(f"{order}3i", 0, 0, 1) + body
    tcp = struct.pack(">HHIIBBHHH", port, 1414, 1, 1, 0x50, 0x18, 65535, 0, 0) + payload
    ip = (
        struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0, b"\x7f\0\0\1", b"\x7f\0\0\1"
        )
        + tcp
    )
    return b"\x02" * 12 + b"\x08\x00" + ip


def dissect(tmp_path, packets):
    """tshark's fields, a list of values for each packet."""
    if shutil.which("tshark") is None:
        pytest.skip("optional: tshark is not installed (apt-get install tshark)")
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for packet in packets:
        capture += struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet
    path = tmp_path / "put.pcap"
    path.write_bytes(capture)
    command = [
        "tshark",
        "-r",
        str(path),
        "-T",
        "fields",
        "-E",
        "separator=\t",
        "-E",
        "aggregator=\x1e",
    ]
    command += [part for field in TSHARK_FIELDS for part in ("-e", field)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=180)
    # splitlines() would split at the aggregator
    lines = done.stdout.decode().removesuffix("\n").split("\n")
    assert len(lines) == len(packets)
    return [dict(zip(TSHARK_FIELDS, line.split("\t"), strict=True)) for line in lines]


def test_tshark_dissects_the_same_fields(tmp_path):
    """Wireshark reads each header field, each folder and the body as we do."""
    found = dissect(
        tmp_path, [mqput_packet(40000 + i, *case[:2]) for i, case in enumerate(CASES.values())]
    )
    for (encoding, data, _), theirs in zip(CASES.values(), found, strict=True):
        read = parse(data, encoding=encoding)
        header = read.headers[0]
        assert int(theirs["mq.head.length"], 0) == header.length
        assert int(theirs["mq.head.encoding"], 0) == header.encoding
        assert int(theirs["mq.head.ccsid"], 0) & 0xFFFFFFFF == header.ccsid & 0xFFFFFFFF
        assert theirs["mq.head.format"].rstrip() == header.format
        assert int(theirs["mq.head.flags"], 0) == header.flags
        assert int(theirs["mq.rfh.ccsid"], 0) == header.name_value_ccsid
        assert [int(n, 0) for n in theirs["mq.rfh.length"].split("\x1e")] == [
            len(folder.data) for folder in header.folders
        ]
        texts = [text.rstrip(" ") for text in theirs["mq.rfh.string"].split("\x1e")]
        assert texts == [folder.text for folder in header.folders]
        assert bytes.fromhex(theirs["data.data"]) == read.body
        assert psc.read(next(text for text in texts if text.startswith("<psc"))) == psc.read(
            next(folder.text for folder in header.folders if folder.root().name == "psc")
        )
