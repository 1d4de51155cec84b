"""The results of a run: the table for people and `summary.json` for machines."""

from __future__ import annotations

from collections import Counter
from typing import Any

from outpost_tools.text.words import count
from outpost_tools.trying.demo.verify import Result
from outpost_tools.trying.simulate.fleet import Events

_COLUMNS = (
    ("published", "published"),
    ("stored", "stored"),
    ("lost", "lost"),
    ("duplicate rows", "duplicate_rows"),
    ("invented", "invented"),
    ("redelivered", "redelivered"),
    ("power cuts", "power_cuts"),
    ("longest offline s", "longest_offline_s"),
)


def summarize(
    results: list[Result],
    *,
    redelivered: Counter[str],
    offline_s: dict[str, float],
    events: Events,
    reasons: Counter[str],
    run: dict[str, Any],
) -> dict[str, Any]:
    """`run` describes the run: seed, broker, interpreter, seconds."""
    devices = [_device(r, redelivered[r.device], offline_s.get(r.device, 0.0)) for r in results]
    totals = {
        key: sum(device[key] for device in devices)
        for key in (
            "published",
            "stored",
            "messages",
            "series",
            "lost",
            "duplicate_rows",
            "invented",
            "unacknowledged",
            "redelivered",
        )
    }
    return {
        **totals,
        "silver_rows": sum(result.rows for result in results),
        "power_cuts": sum(result.power_cuts for result in results),
        "broker_kills": events.count("broker killed"),
        "collector_kills": events.count("collector killed"),
        "link_cuts": events.count("link cut"),
        "quarantined": reasons.total(),
        "quarantine_reasons": dict(reasons),
        "longest_offline_s": max((device["longest_offline_s"] for device in devices), default=0.0),
        **run,
        "devices": devices,
        "examples": [text for result in results for text in result.examples],
    }


def _device(result: Result, redelivered: int, offline_s: float) -> dict[str, Any]:
    return {
        "device": result.device,
        "published": result.published,
        "stored": result.stored,
        "messages": result.messages,
        "series": result.series,
        "unacknowledged": result.unacknowledged,
        "lost": result.lost,
        "duplicate_rows": result.duplicate_rows,
        "invented": result.invented,
        "redelivered": redelivered,
        "power_cuts": result.power_cuts,
        "longest_offline_s": round(offline_s, 1),
    }


def is_exact(summary: dict[str, Any]) -> bool:
    """Nothing was lost, duplicated or invented, and something was published."""
    return summary["published"] > 0 and not (
        summary["lost"] or summary["duplicate_rows"] or summary["invented"]
    )


def verdict(summary: dict[str, Any]) -> str:
    """EXACT or not, with the numbers, in a sentence."""
    word = "EXACT" if is_exact(summary) else "NOT EXACT"
    cut = summary["unacknowledged"]
    more = f" ({cut:,} of them as a power cut ended publish())" if cut else ""
    return (
        f"{word}: {summary['published']:,} measurements published, {summary['stored']:,} "
        f"stored{more}; "
        f"{summary['lost']:,} lost, {summary['duplicate_rows']:,} duplicated, "
        f"{summary['invented']:,} invented. On purpose: "
        f"{count(summary['power_cuts'], 'power cut')}, broker killed {summary['broker_kills']} x, "
        f"collector killed {summary['collector_kills']} x, "
        f"{count(summary['link_cuts'], 'link cut')}."
    )


def table(summary: dict[str, Any]) -> str:
    """The devices, their totals, and an explanation of the terms."""
    head = ["device", *(title for title, _ in _COLUMNS)]
    total = {**summary, "device": "all"}
    body = [
        [d["device"], *(str(d[key]) for _, key in _COLUMNS)] for d in [*summary["devices"], total]
    ]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w)
            for i, (c, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in [head, *body]
    ]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], "", *_legend(summary)])


def _legend(summary: dict[str, Any]) -> list[str]:
    reasons = "".join(
        f", {count} x {reason}" for reason, count in summary["quarantine_reasons"].items()
    )
    return [
        f"stored includes {summary['unacknowledged']} measurements that were on flash when a power "
        "cut ended publish()",
        *_series_note(summary),
        f"{summary['silver_rows']} rows in silver, {summary['quarantined']} in "
        f"quarantine{reasons}; "
        f"broker ({summary['broker']}) killed {summary['broker_kills']} x, "
        f"collector killed {summary['collector_kills']} x, link cut {summary['link_cuts']} x",
        f"{summary['interpreter']}; seed {summary['seed']}; {summary['seconds']:.0f} s in all",
        *_broker_note(summary),
        *summary["examples"],
    ]


def _series_note(summary: dict[str, Any]) -> list[str]:
    devices = [one for one in summary["devices"] if one["series"]]
    if not devices:
        return []
    names = ", ".join(one["device"] for one in devices)
    stored, messages = (sum(one[key] for one in devices) for key in ("stored", "messages"))
    others = [one for one in summary["devices"] if not one["series"]]
    rest = f"; the others' {sum(one['stored'] for one in others)} are a message each" * bool(others)
    return [f"{names} store samples of series: {stored} measurements in {messages} messages{rest}"]


def _broker_note(summary: dict[str, Any]) -> list[str]:
    if summary["broker"] == "amqtt" and summary["quarantine_reasons"].get("retained"):
        return [
            "amqtt marks messages that it had queued for the collector as retained; the boards "
            "sent those messages again"
        ]
    return []
