"""The page: what needs attention, said in templates/page.html.

Without its script the page is complete except for charts, sorting and filtering. It needs no
network: style, script, plotly and data are inside.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pandas as pd
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from outpost_tools.attention import attention
from outpost_tools.boards.outbox.wear import ENDURANCE
from outpost_tools.errors import ToolError
from outpost_tools.machine.files import replace_text
from outpost_tools.pages import templates
from outpost_tools.readings.report import fleet, pack
from outpost_tools.readings.report.data import Report, findings, places
from outpost_tools.readings.report.outages import folded
from outpost_tools.text.words import printable

_PAGE = templates.of_room(__package__).get_template("page.html")
_FOLDS = 12
_DAYS_A_YEAR = 365.25
_LEAST_WEAR_S = 3600.0  # an outbox's first minutes say nothing about its years


def write(path: Path, content: str) -> None:
    """Raises ToolError; an older page then stays as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, content)  # `outpost live` shows it to browsers meanwhile
    except OSError as error:
        raise ToolError(f"{path}: cannot write the page: {error.strerror}") from None


def render(report: Report, title: str, headline: str = "") -> str:
    """The whole page as text. headline: said before all else."""
    found = findings(report)
    of_collectors = report.damaged, report.taken_over, report.clock_wrong
    gaps = report.gaps
    return _PAGE.render(
        fleet.values(report, found),
        report=report,
        title=title,
        headline=headline,
        style=_own("report.css"),
        script=_own("report.js"),
        packed=_packed(report, found),
        verdict=attention.verdict(found, *of_collectors),
        advice=attention.advice(found, *of_collectors),
        total=lambda column: f"{int(report.devices[column].sum()):,}",
        lost=gaps[gaps["state"] == "closed"],
        waiting=gaps[gaps["state"] == "open"],
        wear=report.wear if report.wear.empty else _worn(report.wear),
        endurance=ENDURANCE,
        printable=printable,
        fold_span=_fold_span(report),
        folds=folded(report.outages, _fold_span(report)),
    )


def _own(name: str) -> Markup:
    package = resources.files("outpost_tools.readings.report")
    return Markup(package.joinpath(name).read_text(encoding="utf-8"))


def _packed(report: Report, found: fleet.Found) -> dict[str, str]:
    """By the id of their <script> elements."""
    if report.binned is None:
        return {}
    series = pack.details(report, [row["device"] for row, _ in found])
    library = pack.compressed(get_plotlyjs().encode())  # 4.9 MB would be most of the page
    return {"series": series, "plotly": library}


def _worn(wear: pd.DataFrame) -> pd.DataFrame:
    """Adds erases per day and years left; those that wear out first come first."""
    wear = wear.assign(day=wear["erases"] / wear["seconds"] * 86_400)
    is_known = (wear["day"] > 0) & (wear["seconds"] >= _LEAST_WEAR_S)
    years = ENDURANCE * wear["blocks"] / wear["day"].where(is_known) / _DAYS_A_YEAR
    wear = wear.assign(years=years, place=wear["device"].map(places(wear["device"])))
    return wear.sort_values(
        ["years", "day", "place"], ascending=[True, False, True], na_position="last"
    )


def _fold_span(report: Report) -> pd.Timedelta:
    """At most _FOLDS lines of one kind in the time of the page."""
    if not report.outages:
        return pd.Timedelta(0)
    first, last = report.outages[0].begin, max(one.end for one in report.outages)
    begin = first if report.begin is None else min(first, report.begin)
    end = last if report.end is None else max(last, report.end)
    return (end - begin) / _FOLDS
