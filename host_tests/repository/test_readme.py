# cpython-only: reads a page
"""What the README says about the files is so. system/test_readme_program.py runs its program."""

import re
from pathlib import Path

import pytest

from paths import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
PAGES = [
    path for path in sorted(REPOSITORY.rglob("*.md")) if not {"build", ".venv"} & set(path.parts)
]


def program() -> str:
    return README.split("```python\n")[1].split("```")[0]


def test_the_program_is_short():
    assert len([line for line in program().splitlines() if line.strip()]) <= 15


def links(page: Path) -> list[str]:
    """Targets within the repository, anchors cut off."""
    found = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    return [link.split("#")[0] for link in found if not link.startswith(("http", "#"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_links_of_a_page_lead_somewhere(page):
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


def test_the_readme_links_to_each_page_that_a_newcomer_needs():
    assert len(set(links(REPOSITORY / "README.md"))) >= 10


def test_the_targets_it_names_exist():
    makefile = (REPOSITORY / "Makefile").read_text()
    found = [re.search(r"\bmake (?:-C \S+ )?([\w-]+)", line) for line in README.splitlines()]
    targets = {target[1] for target in found if target}
    assert targets
    assert [name for name in sorted(targets) if f"\n{name}:" not in makefile] == []
