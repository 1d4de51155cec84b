# cpython-only: looks at the tools' sources
"""The tools run on Debian 12's Python, 3.11.2: what came, or was mended, later is not used. The
tests run on newer ones, too, which would not show it.
"""

import io
import re
import tokenize

import pytest

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
