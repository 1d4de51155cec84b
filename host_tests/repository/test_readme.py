# cpython-only: reads a page
"""What the README says about the files is so. system/test_readme_program.py runs its program."""

import ast
import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from outpost_tools.servers.collect.metrics import Metrics
from paths import HOST_TESTS, REPOSITORY

README = (REPOSITORY / "README.md").read_text()
PAGES = [
    path for path in sorted(REPOSITORY.rglob("*.md")) if not {"build", ".venv"} & set(path.parts)
]


def program() -> str:
    return README.split("```python\n")[1].split("```")[0]


def test_the_program_is_short():
    assert len(ast.parse(program()).body) <= 8, "statements"


def links(page: Path) -> list[str]:
    """Targets within the repository, anchors cut off."""
    found = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    return [link.split("#")[0] for link in found if not link.startswith(("http", "#"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_links_of_a_page_lead_somewhere(page):
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


def test_the_readme_links_to_each_page_that_a_newcomer_needs():
    assert len(set(links(REPOSITORY / "README.md"))) >= 10


def test_the_tests_that_a_page_names_exist():
    files = [*HOST_TESTS.rglob("test_*.py")]
    known = {path.stem for path in files} | {
        name for path in files for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    now = [page for page in PAGES if page.name != "CHANGELOG.md"]  # that tells of what was
    texts = [re.sub(r"(?s)```.*?```|<!--.*?-->", "", page.read_text("utf-8")) for page in now]
    named = {name for text in texts for name in re.findall(r"\btest_\w+", text)}
    assert sorted(named - known) == []


def test_the_metrics_that_a_page_names_are_served():
    served = generate_latest(Metrics("collector-1").registry).decode()
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"\boutpost_collector_\w+", text))
    assert len(named) > 4
    assert [one for one in sorted(named) if f"\n{one} " not in served] == []


def test_the_functions_that_the_map_names_are_in_these_modules():
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    library = {path.stem: path for path in (REPOSITORY / "firmware" / "outpost").rglob("*.py")}
    named = [
        (library[module], function)
        for module, function in re.findall(r"\b([a-z_]+)\.([a-z_]+)\b(?!/)", text)
        if module in library and function != "py"
    ]
    assert len(named) > 10
    assert [one for one in named if f"def {one[1]}(" not in one[0].read_text("utf-8")] == []


def test_every_rescue_that_is_advised_says_where_to():
    """`outpost outbox export` wants an output, and a segment a name."""
    rooms = [REPOSITORY / name for name in ("tools", "boards", "firmware")]
    advice = [*PAGES, *(path for room in rooms for path in room.rglob("*.py"))]
    said = [" ".join(path.read_text(encoding="utf-8").split()) for path in advice]
    found = [
        text for one in said for text in re.findall(r"outbox export --live[^`<),#]*[`<),#]", one)
    ]
    assert len(found) > 4
    assert [text for text in found if "--segments log" not in text or "--id" not in text] == []
