# cpython-only: jinja2
"""What a template prints is escaped, and what it needs is there."""

import re

import pytest
from jinja2 import UndefinedError

from outpost_tools.pages import templates
from paths import REPOSITORY

ROOMS = sorted((REPOSITORY / "tools/outpost_tools").rglob("templates/*.html"))
NASTY = "<b x='\"'>&\x1b[31m\u202e\n"


def made(text, **values):
    return templates.of_room("outpost_tools.boards.setup").from_string(text).render(**values)


def test_values_of_others_are_text_and_can_be_seen():
    expected = "&lt;b x=&#39;&#34;&#39;&gt;&amp;\\x1b[31m\\u202e\\n"
    assert made("{{ nasty }}", nasty=NASTY) == expected
    macro = "{% macro of(one) %}<i>{{ one }}</i>{% endmacro %}{{ of(nasty) }}"
    assert made(macro, nasty=NASTY) == f"<i>{expected}</i>"


def test_a_missing_value_is_an_error_and_does_not_print_as_nothing():
    for text in ("{{ missing }}", "{% if missing %}{% endif %}", "{{ one.missing }}"):
        with pytest.raises(UndefinedError):
            made(text, one={})


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: path.name)
def test_a_template_does_not_escape_less_by_itself(path):
    """But for what attention.py says to do: its words are ours."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"autoescape|safe", re.sub(r"\.todo\|safe\b", "", text))
