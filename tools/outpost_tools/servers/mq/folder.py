"""One folder of NameValueData: the XML that MQ uses, read and written.

Supported are elements, attributes, text, comments, the five named character references and numeric
ones. Everything else in XML is refused by name: DTD, CDATA sections, processing instructions.
Nothing is expanded or fetched, there is no recursion, and the number of elements and their depth
are limited, so memory is bounded by the length of the text.

A folder that was read is written back byte for byte: unknown elements, comments, padding and NUL
filler are kept, in order. The writer escapes `&`, `<` and `>` as references (quotes only in
attributes), and tab, CR and LF as numeric references. IBM documents nothing else that needs it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from outpost_tools.servers.mq.reasons import MqError

MAX_ELEMENTS = 20_000  # in one folder; a command has about ten
MAX_DEPTH = 32  # psc has 2, pscr 3

_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7});|#x([0-9A-Fa-f]{1,6});|([A-Za-z]{1,8});)?")
_NAME = r"[^\W\d][\w.:-]*"
# An attribute value contains no '<', so one pattern reads a whole tag. Each part ends where the
# next begins, so backtracking by a character fails at once: linear time. (No possessive
# quantifiers: Python 3.11.2 matches them incorrectly.)
_TAG = re.compile(rf"""<(/?)({_NAME})((?:\s+{_NAME}\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(/?)>""")
_ATTRIBUTE = re.compile(rf"""({_NAME})\s*=\s*("[^"]*"|'[^']*')""")
# XML 1.0 section 2.2: characters that a document must not contain. Surrogates cannot come out of a
# strict decoder.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Element:
    """`text` is all character data directly inside, with references resolved.

    `span` is its place in the text that was read, `raw` the text to write for it (both only for
    elements that were read).
    """

    name: str
    text: str = ""
    children: tuple[Element, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    span: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)
    raw: str | None = field(default=None, compare=False, repr=False)

    @property
    def type(self) -> str:
        """`dt`, the data type; no dt means string."""
        return dict(self.attributes).get("dt", "string")

    def values(self, name: str) -> list[str]:
        """The texts of the children with this name."""
        return [child.text for child in self.children if child.name == name]


class _Open:
    """An element whose end tag has not been read yet."""

    def __init__(self, name: str, attributes: tuple[tuple[str, str], ...], begin: int) -> None:
        self.name = name
        self.attributes = attributes
        self.begin = begin
        self.text: list[str] = []
        self.children: list[Element] = []

    def close(self, end: int) -> Element:
        return Element(
            self.name, "".join(self.text), tuple(self.children), self.attributes, (self.begin, end)
        )


def parse(text: str) -> Element:
    """The root element of a folder's text.

    Raises MqError (2335) that says what is wrong and where.
    """
    illegal = _ILLEGAL.search(text)
    if illegal:
        raise _error("character", f"U+{ord(illegal[0]):04X} is not allowed in XML", illegal.start())
    return _Reader(text).root()


class _Reader:
    """A loop over tags, comments and the text between them, with a list of open elements."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Open] = []
        self._root: Element | None = None
        self._count = 0

    def root(self) -> Element:
        at = 0
        while at < len(self._text):
            less = self._text.find("<", at)
            end = len(self._text) if less < 0 else less
            self._characters(at, end)
            at = self._markup(less) if less >= 0 else end
        if self._open:
            raise _error("end-tag-missing", f"</{self._open[-1].name}> is missing", at)
        if self._root is None:
            raise _error("folder-empty", "not a folder: an element is needed", at)
        return self._root

    def _characters(self, begin: int, end: int) -> None:
        if begin == end:
            return
        raw = self._text[begin:end]
        if self._open:
            self._open[-1].text.append(unescape(raw, begin))
        elif raw.strip(_BLANK):
            where = "before the folder" if self._root is None else "after the end tag"
            raise _error("text-outside", f"text {where}: {raw.strip(_BLANK)[:20]!r}", begin)

    def _markup(self, at: int) -> int:
        """Process the markup that begins with '<' at `at`; returns where the next part begins."""
        if self._text.startswith("<!--", at):
            return self._comment(at)
        for mark, name in (("<![CDATA[", "cdata"), ("<!", "dtd"), ("<?", "processing-instruction")):
            if self._text.startswith(mark, at):
                raise _error(name, f"{mark} is not allowed in a folder", at)
        tag = _TAG.match(self._text, at)
        if tag is None:
            raise _error("tag", f"no tag: {self._text[at : at + 20]!r}", at)
        self._tag(tag)
        return tag.end()

    def _comment(self, at: int) -> int:
        end = self._text.find("--", at + 4)
        if end < 0 or not self._text.startswith("-->", end):
            raise _error("comment", "a comment ends with --> and holds no other --", at)
        return end + 3

    def _tag(self, tag: re.Match[str]) -> None:
        is_end, name, attributes, is_empty = tag.groups()
        if is_end:
            self._end(tag)
            return
        if self._root is not None and not self._open:
            raise _error(
                "second-folder",
                f"<{name}> after </{self._root.name}>: one folder per NameValueData",
                tag.start(),
            )
        self._count += 1
        if self._count > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            limit = (
                f"{MAX_ELEMENTS} elements" if self._count > MAX_ELEMENTS else f"{MAX_DEPTH} levels"
            )
            raise _error("too-large", f"more than {limit} in one folder", tag.start())
        self._open.append(_Open(name, _attributes(attributes, tag.start(3)), tag.start()))
        if is_empty:
            self._close(tag.end())

    def _end(self, tag: re.Match[str]) -> None:
        name = tag[2]
        if not self._open or self._open[-1].name != name or tag[3] or tag[4]:
            wanted = f"</{self._open[-1].name}>" if self._open else "no end tag"
            raise _error("end-tag", f"{tag[0][:40]!r} where {wanted} is expected", tag.start())
        self._close(tag.end())

    def _close(self, end: int) -> None:
        element = self._open.pop().close(end)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element


def _attributes(text: str, at: int) -> tuple[tuple[str, str], ...]:
    found = tuple((name, unescape(value[1:-1], at)) for name, value in _ATTRIBUTE.findall(text))
    if len({name for name, _ in found}) != len(found):
        raise _error("attribute-repeated", f"an attribute twice: {text.strip()[:40]!r}", at)
    return found


def unescape(text: str, at: int = 0) -> str:
    """Resolve the five named references and numeric ones.

    Raises MqError for others and for a bare '&'.
    """
    if "&" not in text:
        return text
    return _REFERENCE.sub(lambda match: _resolve(match, at), text)


def _resolve(match: re.Match[str], at: int) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        if name in _NAMED:
            return _NAMED[name]
        raise _error(
            "reference",
            f"&{name}; is unknown: a folder has no entities but {', '.join(_NAMED)}",
            at + match.start(),
        )
    number = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else -1
    if number < 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000 or _ILLEGAL.match(chr(number)):
        raise _error(
            "reference", f"{match[0]!r} is not a character: write '&' as &amp;", at + match.start()
        )
    return chr(number)


def escape(text: str, *, quotes: bool = False) -> str:
    """Writes `& < >` as references, also quotes in attributes, and tab, CR and LF as numbers,
    because XML readers normalise them."""
    illegal = _ILLEGAL.search(text)
    if illegal or any("\ud800" <= c <= "\udfff" for c in text):
        code = f"U+{ord(illegal[0]):04X}" if illegal else "half a surrogate pair"
        raise MqError("character", 2335, f"{code} cannot be written in XML")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for character in "\t\r\n":
        text = text.replace(character, f"&#{ord(character)};")
    return text.replace('"', "&quot;") if quotes else text


def write(element: Element) -> str:
    """Compact text: no blanks between tags. Raises MqError for characters that XML cannot hold."""
    pieces: list[str] = []
    waiting: list[Element | str] = [element]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            pieces.append(part)
            continue
        if part.raw is not None:
            pieces.append(part.raw)
            continue
        # blanks between tags mean nothing
        is_layout = bool(part.children) and not part.text.strip(_BLANK)
        pieces.append(f"<{start(part)}>{'' if is_layout else escape(part.text)}")
        waiting.append(f"</{part.name}>")
        waiting.extend(reversed(part.children))
    return "".join(pieces)


def start(element: Element) -> str:
    """Name and attributes, as in a start tag. Raises MqError for an invalid name."""
    for name in (element.name, *(name for name, _ in element.attributes)):
        if not re.fullmatch(_NAME, name):
            raise MqError("element-name", 2335, f"{name!r} is not an element's or attribute's name")
    return element.name + "".join(
        f' {name}="{escape(value, quotes=True)}"' for name, value in element.attributes
    )


def write_pretty(element: Element, indent: str = "  ") -> str:
    """As IBM prints examples: a child per line.

    Only for folders whose children have no children.
    """
    lines = [f"{indent}{write(child)}" for child in element.children]
    return "\n".join([f"<{start(element)}>", *lines, f"</{element.name}>"])


def _error(name: str, text: str, at: int) -> MqError:
    return MqError(
        f"folder-{name}" if not name.startswith("folder") else name,
        2335,
        f"{text} (character {at} of the folder)",
    )
