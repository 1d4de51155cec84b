"""The overview: what needs attention, then a card for each device. The same functions make the
whole page and the parts that change.

Without its script the page is complete, but does not update. Knows the fleet, no network.
"""

from __future__ import annotations

import shlex

from markupsafe import Markup

from outpost_tools.attention import attention
from outpost_tools.servers.live.card import TEMPLATES, card
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.text.words import natural

_PAGE, _HEAD = (TEMPLATES.get_template(name) for name in ("overview.html", "head.html"))


def overview(fleet: Fleet, cursor: str, *, has_report: bool = False) -> str:
    """cursor: where events.py continues after this page."""
    return _PAGE.render(
        title="Outpost, live",
        cursor=cursor,
        board=None,
        fleet=fleet,
        head=head(fleet),
        cards=[card(fleet, board) for board in fleet.in_order()],
        has_report=has_report,
    )


def head(fleet: Fleet) -> Markup:
    """The verdict, what to do about it, and notes about the log itself."""
    found, mood = fleet.found(), _mood(fleet)
    verdict = attention.verdict(found, *fleet.of_collectors)
    if mood == "stale":
        are = f"All {len(found):,} devices were" if len(found) > 1 else "The one device was"
        verdict = [f"{are} fine when last heard."]
    made = _HEAD.render(
        fleet=fleet,
        mood=mood,
        verdict=verdict,
        advice=[
            (kind, sorted((fleet.boards[one] for one in idents), key=lambda one: natural(one.name)))
            for kind, idents in attention.advice(found, *fleet.of_collectors)
        ],
        home=shlex.quote(str(fleet.home.absolute())) if fleet.home else "",
    )
    return Markup(made)


def _mood(fleet: Fleet) -> str:
    """Selects the colour of the verdict. stale: nothing was wrong, but no collector writes to the
    log."""
    if any(fleet.of_collectors) or any(board.needs_attention for board in fleet.boards.values()):
        return "trouble"
    if not fleet.boards:
        return "empty"
    return "stale" if fleet.is_collected is False else "calm"
