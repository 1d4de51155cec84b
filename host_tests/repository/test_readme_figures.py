# cpython-only: README and the baselines are the repository's
"""Every table of figures in README is what the baselines say (or the function that makes it), line for line."""

import re

import pytest

import bench_readme

TEXT = bench_readme.README.read_text(encoding="utf-8")


def differences(name: str, text: str) -> list[str]:
    """Of the table as it stands in the text: the lines that the baseline does not give, with their numbers."""
    stands, wanted = bench_readme.shown(name, text).splitlines(), bench_readme.TABLES[name]().splitlines()
    first = text[: text.index(f"<!-- figures: {name} -->")].count("\n") + 2
    stands += [""] * (len(wanted) - len(stands))
    wanted += [""] * (len(stands) - len(wanted))
    pairs = enumerate(zip(stands, wanted, strict=True), first)
    return [f"README.md:{at}: {is_!r}, the baseline says {should!r}" for at, (is_, should) in pairs if is_ != should]


@pytest.mark.parametrize("name", bench_readme.TABLES)
def test_a_table_is_what_the_baseline_says(name):
    found = differences(name, TEXT)
    assert not found, "\n".join([*found, "after a change: python host_tests/bench/bench_readme.py"])


@pytest.mark.parametrize("name", bench_readme.TABLES)
def test_a_changed_figure_is_told_with_its_line(name):
    table = bench_readme.shown(name, TEXT)
    figure = re.findall(r"\d[\d,.]+", table)[-1]
    at = table.rindex(figure)
    (said,) = differences(name, TEXT.replace(table, table[:at] + "7" + table[at + len(figure) :]))
    number = int(said.split(":")[1])
    assert f"{figure}" in said and TEXT.splitlines()[number - 1] in table.splitlines()


def test_a_mark_that_is_gone_is_told():
    with pytest.raises(ValueError, match="'sizes'"):
        bench_readme.shown("sizes", TEXT.replace("<!-- figures: sizes -->", ""))


def test_no_table_of_figures_stands_outside_of_the_marks():
    outside = re.sub(r"<!-- figures: \w+ -->.*?<!-- /figures -->", "", TEXT, flags=re.DOTALL)
    cells = [cell.strip() for line in outside.splitlines() if line.startswith("|") for cell in line.strip("|").split("|")]
    assert cells and [cell for cell in cells if re.fullmatch(r"[\d.,]+( ?(B|%|s|MiB))?", cell)] == []
