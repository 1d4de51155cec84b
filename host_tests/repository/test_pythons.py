# cpython-only: looks at the tools' sources
"""The tools run on Debian 12's Python, 3.11.2: what came, or was mended, later is not used. And on
newer ones, which are stricter by default. The tests run on one of them, which would not show it.
"""

import io
import re
import ssl
import tokenize

import pytest

from outpost_tools.mqtt import tls
from paths import REPOSITORY

SOURCES = sorted((REPOSITORY / "tools").rglob("*.py"))
# `re` of 3.11.2 takes `<a b/>` for a tag with attributes: cpython issue 101955
POSSESSIVE = re.compile(r"(?<!\\)[*?}+]\+|\(\?>")
KNOWN = {"typecheck.py": ["{package}+{"]}  # a file's name


def texts(source):
    """Every string of a program that may be a pattern: raw, or with a backslash."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING and not token.string.startswith('"""'):
            yield token.string


def complaints(name, source):
    found = [text for text in texts(source) if POSSESSIVE.search(without_sets(text))]
    found += re.findall(r"extractall\(.*filter", source)
    return [text for text in found if not any(known in text for known in KNOWN.get(name, []))]


def without_sets(text):
    """Within brackets a quantifier is a character."""
    return re.sub(r"\[[^\]]*\]", "[]", text).replace("[]+", "x")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_nothing_newer_than_3_11_2(path):
    assert complaints(path.name, path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        'A = r"[a-z]*+"\n',
        "B = rb'(?:x)?+'\n",
        'C = r"x++"\n',
        'tar.extractall(to, filter="data")\n',
    ],
)
def test_it_finds_them(source):
    assert complaints("some.py", source)


def test_a_certificate_that_verified_does_so_on_every_python(monkeypatch):
    """From 3.13 on a CA without key usage and a certificate without an authority key identifier, as
    many a recipe for a CA of one's own makes them, are refused by default. Those of `outpost broker
    init` have both. Python sets the flag in create_default_context(), so that is not called."""

    def strict(*_, **__):
        raise AssertionError("strict since 3.13")

    monkeypatch.setattr(ssl, "create_default_context", strict)
    context = tls.of_options(None)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED
