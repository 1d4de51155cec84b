# cpython-only: reads pages
"""What a page tells people to type is accepted by the command it names, and what it links to is
there, to the heading.

The lines are parsed, not run; the tests of each command run them. A word in capitals is a
placeholder.
"""

import argparse
import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from outpost_tools import cli
from page_lines import lines_of_code
from paths import REPOSITORY

PAGES = [
    path
    for path in sorted(REPOSITORY.rglob("*.md"))
    if not {"build", ".venv", "node_modules"} & set(path.relative_to(REPOSITORY).parts)
]
NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]  # that tells of what was
_PLACEHOLDER = re.compile(r"\.\.\.|[<\[{]|(^|[/=])[A-Z]{2,}(?![\w-])")
_ENDS = {">", ">>", "|", "&", "&&", ";", "2>", "<"}


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def words(line: str) -> list[str]:
    """Of one command, up to a comment, a pipe or a redirection."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="><|&;")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found: list[str] = []
    for word in lexer:
        if word in _ENDS:
            break
        found.append(word)
    return found


def commands(page: Path) -> list[list[str]]:
    """The words after `outpost`, of each line that starts with it."""
    found = []
    for line in lines_of_code(page.read_text(encoding="utf-8")):
        line = re.sub(r"^(\$ )?(sudo (-u \S+ )?)?(\.venv/bin/|env/bin/)?", "", line)
        if line.startswith("outpost "):
            # two spaces begin an explanation, as in lists of what a command is for
            found.append(words(re.split(r"\s{2,}(?=[a-zA-Z(])", line)[0])[1:])
    return found


PLACEHOLDERS = {  # of a line that is otherwise whole
    "BOARD": "RPI_PICO_W", "PORT": "/dev/ttyACM0", "FOLDER": "home", "HOST:PORT": "127.0.0.1:1883"
}  # fmt: skip


def complaint(line: list[str]) -> str:
    """What the parser says; "": it takes the line."""
    line = [PLACEHOLDERS.get(word, word) for word in line]
    if any(_PLACEHOLDER.search(word) for word in line):
        return unknown_options(line)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.build_parser(line[0] if line[0] in cli.SUBCOMMANDS else None).parse_args(line)
        except SystemExit as ended:
            return said.getvalue().strip().rpartition("\n")[2] if ended.code else ""
    return ""


def options(parser: argparse.ArgumentParser) -> set[str]:
    """With those of its subcommands."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found = found.union(*map(options, action.choices.values()))
    return found


def unknown_options(line: list[str]) -> str:
    """For a line that is not complete."""
    if line and line[0] not in cli.SUBCOMMANDS:
        return "" if line[0].startswith("-") or not line[0].islower() else f"{line[0]}: unknown"
    known = options(cli.build_parser(line[0])) if line else set()
    given = {word.partition("=")[0] for word in line if re.match(r"--[a-z]", word)}
    return ", ".join(sorted(given - known))


@pytest.mark.parametrize("page", NOW, ids=name_of)
def test_the_commands_of_a_page_are_accepted(page):
    wrong = [(line, said) for line in commands(page) if (said := complaint(line))]
    assert wrong == []


def test_there_are_commands_on_the_pages_and_a_wrong_one_is_found():
    assert sum(len(commands(page)) for page in NOW) > 80
    assert "--brocker" in complaint(["try", "hello.py", "--brocker", "127.0.0.1:1883"])
    assert "--brocker" in complaint(["try", "FILE", "--brocker", "HOST:PORT"])
    assert complaint(["trry", "hello.py"]) and complaint(["flash", "--board"])
    assert complaint("flash --port /dev/ttyACM0 --settings a.toml".split())
    assert complaint("flash --port PORT".split()) and not complaint("flash --port NUMBER".split())


@pytest.mark.parametrize("page", NOW, ids=name_of)
def test_the_commands_in_the_text_have_these_options(page):
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    found = [one.replace("\n", " ") for one in re.findall(r"`outpost ([^`]+)`", text)]
    wrong = {one: said for one in found if (said := unknown_options(one.split()))}
    assert wrong == {}


@pytest.mark.parametrize("page", NOW, ids=name_of)
def test_the_targets_of_make_that_a_page_names_exist(page):
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    found = {target for line in lines_of_code(text) for target in _made(line)}
    found |= {target for code in re.findall(r"`([^`\n]+)`", text) for target in _made(code)}
    assert [name for name in sorted(found) if f"\n{name}:" not in makefile] == []


def _made(line: str) -> list[str]:
    return re.findall(r"^make (?:-C \S+ )?(?:[A-Z]\w*=\S* )*([a-z][a-z0-9-]*)", line)


def test_the_commands_that_the_live_page_shows_are_accepted():
    """What an empty page and the button of a silent board advise."""
    room = REPOSITORY / "tools" / "outpost_tools" / "servers" / "live"
    texts = [one.read_text(encoding="utf-8") for one in sorted(room.glob("templates/*.html"))]
    shown = [line for text in texts for line in re.findall(r'command\("outpost ([^"]+)"', text)]
    texts = [one.read_text(encoding="utf-8") for one in sorted(room.glob("*.py"))]
    shown += [
        line for text in texts for line in re.findall(r"""f"outpost (live --log [^"]+)""", text)
    ]
    shown = [re.sub(r"\{[^}]*\}", "home", line) for line in shown]
    assert len(shown) >= 4
    assert [(line, said) for line in shown if (said := complaint(words(line)))] == []


# --- Anchors ---


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"(?m)^#{1,6} (.+)$", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def broken(page: Path) -> list[str]:
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, hash_, anchor = link.partition("#")
        if link.startswith(("http", "mailto")) or not hash_:
            continue
        target = (page.parent / path).resolve() if path else page
        if target.suffix == ".md" and target.exists() and anchor not in anchors(target):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_anchors_of_a_page_are_headings(page):
    assert broken(page) == []


def test_a_broken_anchor_is_found(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("# One `code`: two\n[a](#one-code-two) [b](#one) [c](a.md#two)\n")
    assert broken(page) == ["#one", "a.md#two"]
