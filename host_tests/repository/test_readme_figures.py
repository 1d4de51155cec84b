# cpython-only: README and the baselines are the repository's
"""Every table of figures in README is what the baselines say (or the function that makes it), line
for line.
"""

import re

import pytest

import bench_readme
import marked_table

TEXTS = {name: page.read_text(encoding="utf-8") for name, (page, _) in bench_readme.TABLES.items()}


def differences(name: str, text: str) -> list[str]:
    """Lines of the table in `text` that the baseline does not give, with their numbers."""
    page, make = bench_readme.TABLES[name]
    stands, wanted = marked_table.shown(text, name).splitlines(), make().splitlines()
    first = text[: text.index(f"<!-- figures: {name} -->")].count("\n") + 2
    stands += [""] * (len(wanted) - len(stands))
    wanted += [""] * (len(stands) - len(wanted))
    pairs = enumerate(zip(stands, wanted, strict=True), first)
    where = page.name
    return [
        f"{where}:{at}: {is_!r}, the baseline says {to_be!r}"
        for at, (is_, to_be) in pairs
        if is_ != to_be
    ]


@pytest.mark.parametrize("name", bench_readme.TABLES)
def test_a_table_is_what_the_baseline_says(name):
    found = differences(name, TEXTS[name])
    assert not found, "\n".join([*found, "after a change: python host_tests/bench/bench_readme.py"])


@pytest.mark.parametrize("name", bench_readme.TABLES)
def test_a_changed_figure_is_reported_with_its_line(name):
    text = TEXTS[name]
    table = marked_table.shown(text, name)
    figure = re.findall(r"\d[\d,.]+", table)[-1]
    at = table.rindex(figure)
    (said,) = differences(name, text.replace(table, table[:at] + "7" + table[at + len(figure) :]))
    number = int(said.split(":")[1])
    assert f"{figure}" in said and text.splitlines()[number - 1] in table.splitlines()


def test_a_missing_mark_is_reported():
    with pytest.raises(ValueError, match="'sizes'"):
        marked_table.shown(TEXTS["sizes"].replace("<!-- figures: sizes -->", ""), "sizes")


@pytest.mark.parametrize(
    "page", sorted({page for page, _ in bench_readme.TABLES.values()}), ids=lambda page: page.name
)
def test_no_table_of_figures_stands_outside_of_the_marks(page):
    text = page.read_text(encoding="utf-8")
    outside = re.sub(r"<!-- figures: \w+ -->.*?<!-- /figures -->", "", text, flags=re.DOTALL)
    cells = [
        cell.strip()
        for line in outside.splitlines()
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]
    assert [cell for cell in cells if re.fullmatch(r"[\d.,]+( ?(B|%|s|MiB))?", cell)] == []
