"""The output of `outpost alerts status`, from the file that the live page writes."""

from __future__ import annotations

from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.servers.alerts import store
from outpost_tools.servers.alerts.ledger import iso
from outpost_tools.servers.alerts.settings import Settings
from outpost_tools.text.visible import visible


def lines(settings: Settings, path: Path) -> tuple[list[str], int]:
    """The lines to print, and how many alerts are waiting. Raises ToolError."""
    place = store.path_beside(path)
    try:
        saved = store.saved(place)
        told = [_told(one) for one in saved.get("told", {}).values()] or ["nothing is wrong"]
        queues = saved.get("channels", {})
        waiting = {one.key: queues.get(one.key, {}) for one in settings.channels}
        counts = {key: len(one.get("waiting", [])) for key, one in waiting.items()}
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ToolError(f"{place}: cannot be read ({type(error).__name__}); move it away") from None
    if not saved:
        return ["nothing was checked yet; `outpost run` or `outpost live --alerts` does that"], 0
    found = []
    for one in settings.channels:
        trouble = waiting[one.key].get("trouble", "")
        count = counts[one.key]
        why = f", {visible(trouble)}" if trouble else ""
        what = f"{count} wait{'s' * (count == 1)}" if count else "nothing waits"
        found.append(f"{one.name}: {what}{why}")
    return [*told, *found], sum(counts.values())


def _told(one: dict) -> str:
    return f"since {iso(one['began_s'])}  {visible(one['text'])}"
