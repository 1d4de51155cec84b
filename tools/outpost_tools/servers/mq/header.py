"""MQRFH2 version 2: bytes to headers, folders and body, and back, byte for byte.

    off 0  StrucId "RFH "   4 Version 2         8 StrucLength
       12  Encoding        16 CodedCharSetId   20 Format
       28  Flags           32 NameValueCCSID   36 (NameValueLength, NameValueData) 0..n times

StrucLength is a multiple of 4 and counts all folders, not the body. Encoding, CodedCharSetId and
Format describe what FOLLOWS this header.

The byte order of a header's own integers, and of UTF-16 NameValueData, comes from what PRECEDES it:
the Encoding of the MQMD or of the preceding header. After a header with Format "MQHRF2  " another
header follows; anything else is the body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from outpost_tools.servers.mq import folder as xml
from outpost_tools.servers.mq.reasons import MqError

STRUC_ID = b"RFH "
STRUC_ID_EBCDIC = b"\xd9\xc6\xc8\x40"  # a header from z/OS that was not converted
FIXED_BYTES = 36
FORMAT_RFH2 = "MQHRF2"
FORMAT_NONE = ""
FORMAT_STRING = "MQSTR"
BIG_ENDIAN = 273  # MQENC_INTEGER_NORMAL | DECIMAL_NORMAL | FLOAT_IEEE_NORMAL
LITTLE_ENDIAN = 546  # the same, reversed
CCSID_INHERIT = -2
# 13488 and 17584 are older editions of UTF-16 without surrogates; MQ takes no character above
# U+FFFF in any of the four.
CODECS = {1208: ("utf-8", "utf-8"), 1200: ("utf-16-be", "utf-16-le")}
CODECS[13488] = CODECS[17584] = CODECS[1200]
RESTRICTED_FLAGS = 0xFFFF0000
MAX_MESSAGE_BYTES = 100 << 20  # the largest MAXMSGL that MQ allows


def is_big_endian(encoding: int) -> bool:
    """True for 273 and 785 (S/390), False for 546.

    Raises MqError for an encoding that says neither.
    """
    order = encoding & 0xF
    if order not in (1, 2):
        raise MqError(
            "encoding",
            2112,
            f"Encoding {encoding}: the low 4 bits are 1 (big endian) or 2 (little), not {order}",
        )
    return order == 1


@dataclass(frozen=True, slots=True)
class Folder:
    """One NameValueData: `data` is every byte of it, padding included."""

    data: bytes
    codec: str = "utf-8"

    @property
    def text(self) -> str:
        """Decoded, without the filler: blanks at the end, and what follows a NUL.

        Raises MqError (2335).
        """
        try:
            text = self.data.decode(self.codec)
        except UnicodeDecodeError as error:
            raise MqError(
                "folder-characters", 2335, f"not {self.codec} at byte {error.start} of the folder"
            ) from None
        text, _, tail = text.partition("\0")
        if tail.strip("\0 "):
            raise MqError(
                "folder-text-outside",
                2335,
                f"text after the NUL that ends the folder: {tail.strip(chr(0))[:20]!r}",
            )
        return text.rstrip(" ")

    def root(self) -> xml.Element:
        """Raises MqError (2335)."""
        return xml.parse(self.text)


@dataclass(frozen=True, slots=True)
class Header:
    """One MQRFH2. `encoding`, `ccsid` and `format` describe what follows it."""

    folders: tuple[Folder, ...] = ()
    encoding: int = BIG_ENDIAN
    ccsid: int = 1208
    format_bytes: bytes = b" " * 8
    flags: int = 0
    name_value_ccsid: int = 1208
    struc_id: bytes = STRUC_ID

    @property
    def format(self) -> str:
        """Without its blanks."""
        return self.format_bytes.decode(
            "cp500" if self.struc_id == STRUC_ID_EBCDIC else "latin-1"
        ).rstrip(" \0")

    @property
    def length(self) -> int:
        """StrucLength."""
        return FIXED_BYTES + sum(4 + len(folder.data) for folder in self.folders)


@dataclass(frozen=True, slots=True)
class Message:
    """Headers in order, and the body after them.

    `encoding` is the MQMD's: it gives the first header's byte order.
    """

    headers: tuple[Header, ...] = field(default=())
    body: bytes = b""
    encoding: int = BIG_ENDIAN

    def folders(self) -> list[Folder]:
        """The folders of all headers, in order."""
        return [folder for header in self.headers for folder in header.folders]


def make_folder(text: str, *, name_value_ccsid: int = 1208, encoding: int = BIG_ENDIAN) -> Folder:
    """A folder, padded with blanks to a multiple of 4.

    `encoding` is that of the preceding structure. Raises MqError.
    """
    codec = _codec(name_value_ccsid, is_big_endian(encoding))
    _refuse_unsupported(text)
    while len(data := text.encode(codec)) % 4:
        text += " "
    return Folder(data, codec)


def _refuse_unsupported(text: str) -> None:
    """Raises MqError for characters that MQ cannot read, in any of the four CCSIDs."""
    for character in text:
        if character > "\uffff" or "\ud800" <= character <= "\udfff" or character == "\0":
            raise MqError(
                "character",
                2335,
                f"U+{ord(character):04X} is not allowed in NameValueData: MQ takes U+0001 to "
                "U+FFFF",
            )


def _codec(name_value_ccsid: int, big: bool) -> str:
    if name_value_ccsid not in CODECS:
        known = ", ".join(str(number) for number in sorted(CODECS))
        raise MqError(
            "name-value-ccsid", 2111, f"NameValueCCSID {name_value_ccsid} is none of {known}"
        )
    return CODECS[name_value_ccsid][0 if big else 1]


def pad_format(text: str) -> bytes:
    """`MQSTR` as its 8 bytes. Raises MqError when it is longer, or not ASCII."""
    if len(text) > 8 or not text.isascii():
        raise MqError("format", 2110, f"Format {text!r}: at most 8 ASCII characters")
    return text.ljust(8).encode("ascii")


def build(message: Message) -> bytes:
    """The message's bytes.

    Raises MqError for a message that contradicts itself and could not be read back.
    """
    pieces, encoding = [], message.encoding
    for index, header in enumerate(message.headers):
        follows = index + 1 < len(message.headers)
        if (header.format == FORMAT_RFH2) != follows:
            what = "another MQRFH2 follows" if follows else "no MQRFH2 follows"
            raise MqError(
                "format", 2421, f"header {index}: Format is {header.format!r}, but {what}"
            )
        pieces.append(_pack(header, encoding))
        encoding = header.encoding
    return b"".join([*pieces, message.body])


def _pack(header: Header, encoding: int) -> bytes:
    big = is_big_endian(encoding)
    order = ">" if big else "<"
    codec = _codec(header.name_value_ccsid, big)
    numbers = (2, header.length, header.encoding, header.ccsid)
    pieces = [struct.pack(f"{order}4s4i8s", header.struc_id, *numbers, header.format_bytes)]
    pieces.append(struct.pack(f"{order}Ii", header.flags & 0xFFFFFFFF, header.name_value_ccsid))
    for folder in header.folders:
        if folder.codec != codec or len(folder.data) % 4:
            text = (
                f"a folder of {len(folder.data)} bytes in {folder.codec}; a multiple of 4 in "
                f"{codec} is required"
            )
            raise MqError("folder-codec", 2335, text)
        pieces += [struct.pack(f"{order}i", len(folder.data)), folder.data]
    return b"".join(pieces)


def parse(data: bytes, *, encoding: int = BIG_ENDIAN, format: str = FORMAT_RFH2) -> Message:
    """The message in `data`, whose MQMD had this Encoding and Format.

    Raises MqError; does not read the folders' text yet.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise MqError(
            "message-length", 2030, f"{len(data)} bytes; a message has at most {MAX_MESSAGE_BYTES}"
        )
    headers, offset, preceding = [], 0, encoding
    while format.rstrip(" ") == FORMAT_RFH2:  # only blanks: with a form feed it is another format
        header = _unpack(data, offset, preceding)
        headers.append(header)
        offset += header.length
        preceding, format = header.encoding, header.format
    return Message(tuple(headers), data[offset:], encoding)


def _unpack(data: bytes, offset: int, encoding: int) -> Header:
    big = is_big_endian(encoding)
    if len(data) - offset < FIXED_BYTES:
        raise MqError(
            "short",
            2334,
            f"{len(data) - offset} bytes at offset {offset}; an MQRFH2 has at least {FIXED_BYTES}",
        )
    struc_id, version, length = struct.unpack_from(">4sii" if big else "<4sii", data, offset)
    if struc_id not in (STRUC_ID, STRUC_ID_EBCDIC):
        raise MqError(
            "struc-id", 2334, f"StrucId {struc_id!r} at offset {offset} is not {STRUC_ID!r}"
        )
    _check_version(version, offset, big)
    if length < FIXED_BYTES or length % 4 or offset + length > len(data):
        text = (
            f"StrucLength {length}: not a multiple of 4 from {FIXED_BYTES} to the "
            f"{len(data) - offset} that are there"
        )
        raise MqError("struc-length", 2334, text)
    order = ">" if big else "<"
    following, ccsid, format_bytes, flags, name_value_ccsid = struct.unpack_from(
        f"{order}ii8sIi", data, offset + 12
    )
    codec = _codec(name_value_ccsid, big)
    folders = tuple(_pairs(data, offset + FIXED_BYTES, offset + length, codec, f"{order}i"))
    return Header(folders, following, ccsid, format_bytes, flags, name_value_ccsid, struc_id)


def _check_version(version: int, offset: int, big: bool) -> None:
    if version == 2:
        return
    hint = ""
    if version == 0x02000000:
        other = f"{LITTLE_ENDIAN} (little)" if big else f"{BIG_ENDIAN} (big)"
        hint = f": the byte order is the other one, try encoding {other}"
    raise MqError("version", 2334, f"Version {version} at offset {offset} is not 2{hint}")


def _pairs(data: bytes, at: int, end: int, codec: str, length_format: str) -> Iterable[Folder]:
    while at < end:
        # StrucLength is a multiple of 4, so 4 bytes are there
        (length,) = struct.unpack_from(length_format, data, at)
        at += 4
        if length < 0 or length % 4 or at + length > end:
            text = (
                f"NameValueLength {length}: not a multiple of 4 from 0 to the {end - at} that are "
                "left"
            )
            raise MqError("name-value-length", 2334, text)
        yield Folder(data[at : at + length], codec)
        at += length
