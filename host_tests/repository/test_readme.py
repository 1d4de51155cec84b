# cpython-only: reads a page
"""What the README says about the files is so. Its program is run by system/test_readme_program.py."""

import re

from paths import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


def program() -> str:
    return README.split("```python\n")[1].split("```")[0]


def test_the_program_is_short():
    assert len([line for line in program().splitlines() if line.strip()]) <= 15


def test_the_files_it_names_exist():
    words = {word.strip("`,.;:()").rstrip("/") for word in README.split()}
    files = {word for word in words if word.startswith(("host_tests/", "firmware/", "boards/", "tools/"))}
    assert files
    assert [name for name in sorted(files) if not (REPOSITORY / name).exists()] == []


def test_the_targets_it_names_exist():
    makefile = (REPOSITORY / "Makefile").read_text()
    found = [re.search(r"\bmake (?:-C \S+ )?([\w-]+)", line) for line in README.splitlines()]
    targets = {target[1] for target in found if target}
    assert targets
    assert [name for name in sorted(targets) if f"\n{name}:" not in makefile] == []
