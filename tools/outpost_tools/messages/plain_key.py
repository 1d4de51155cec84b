"""The key of a plain message, found by a single regular expression instead of a parser: it takes a
sixth of the time of `json.loads()`.

Boards send plain messages: SenML as JSON in ASCII, flat records of numbers and texts without
escapes, no spaces, and in the first record `bn`, `ver`, `sid`, `seq`, `held` in this order. The
expression matches the whole message, so the exact reader finds the same key (message.py;
host_tests/tools/messages/test_plain_key.py compares them). A message that is not plain is not
wrong: the exact reader handles it.

After each part, the first byte determines which part can follow. So backtracking by a byte fails at
once, and the time is linear in the length, whatever the bytes are. Possessive quantifiers would
express this, but Python 3.11.2 (in Debian 12) matches them incorrectly.
"""

from __future__ import annotations

import re

from outpost_tools.messages.labels import MAX_SEQ

_TEXT = rb'"[ !#-\[\]-~]*"'
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_VALUE = rb"(?:" + _NUMBER + rb"|" + _TEXT + rb")"
_MEMBER = rb'"[a-z_]+":' + _VALUE
_RECORD = rb"\{" + _MEMBER + rb"(?:," + _MEMBER + rb")*\}"
# If a label comes twice, the last one counts, so those of the key may not come again.
_REST_OF_FIRST = rb'(?:,(?!"(?:sid|seq|held)")' + _MEMBER + rb")*"
_INTEGER = rb"(0|[1-9][0-9]{0,9})"
_PLAIN = re.compile(
    rb'\[\{"bn":' + _TEXT + rb',"ver":[0-9],"sid":"([0-9a-f]{8})"'
    rb',"seq":' + _INTEGER + rb',"held":' + _INTEGER + _REST_OF_FIRST + rb"\}"
    rb"(?:," + _RECORD + rb")*\]\Z"
)
_match = _PLAIN.match


def plain_key(payload: bytes) -> tuple[str, int, int] | None:
    """(stream, seq, held); None if the message is not plain, or its numbers are out of range."""
    match = _match(payload)
    if match is None:
        return None
    stream, seq, held = match.groups()
    seq, held = int(seq), int(held)
    return (stream.decode(), seq, held) if held <= seq <= MAX_SEQ else None
