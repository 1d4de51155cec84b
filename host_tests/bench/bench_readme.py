#!/usr/bin/env python3
"""Writes the pages' tables of figures from host_tests/baselines (the tables of wear from functions
of their own).

    .venv/bin/python host_tests/bench/bench_readme.py

writes each table between its marks on its page; `bench_diff.py --write` and `size_report.py
--write` do so, too. A test compares the pages with the output of this program. A figure that is not
in the baseline is shown as a dash.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import growth
import marked_table

REPOSITORY = Path(__file__).resolve().parent.parent.parent
BENCH = REPOSITORY / "host_tests" / "bench" / "README.md"
WEAR = REPOSITORY / "firmware" / "WEAR.md"
BASELINES = REPOSITORY / "host_tests" / "baselines"
_NONE = "–"
_COLUMNS = ("outpost_ram_1", "outpost_nor_1", "simple", "robust")
_RATES = ("outpost_ram_1", "outpost_flash_1", "simple", "robust")
_STORES = (
    ("Outbox", "Outpost"), ("file per message, removed on ack", "a file per message"),
    ("append + flush, segment files", "append + flush"),
    ("JSON list, rewritten", "a JSON list rewritten"),
)  # fmt: skip
_WEAR = (
    ("60 s", "20 + 200 B", "16"),
    ("10 s", "20 + 200 B", "64"),
    ("1 s", "20 + 200 B", "256"),
    ("1 s", "24 + 64 B", "64"),
)
# not from PyPI, and measured on another day
_MQTT_AS = "| mqtt_as, for comparison, without any store | 11,173 | 16,320 |"
Figures = dict[str, list[float]]


def kept() -> Figures:
    return json.loads((BASELINES / "bench.json").read_text(encoding="utf-8"))


def measured() -> str:
    """Outpost beside the peers. Figures with a spread: median (low–high)."""
    have = kept()
    rows = [*_exact_rows(have), *_rate_rows(have)]
    return _table(("", "Outpost, RAM", "Outpost, flash", "umqtt.simple", "umqtt.robust"), rows)


def _exact_rows(have: Figures) -> list[str]:
    return [
        _row(
            "heap per QoS 1 publish, net / gross B",
            [_pair(have, name, "qos1_heap") for name in _COLUMNS],
        ),
        _row(
            "the same on ARM",
            [*(_pair(have, f"{name}, ARM", "qos1_heap") for name in _COLUMNS[:2]), _NONE, _NONE],
        ),
        _row(
            "heap of a reconnect, net / gross B",
            [_pair(have, name, "reconnect_heap") for name in _COLUMNS],
        ),
        _row("writes per QoS 1 publish", [_one(have, f"{name} qos1_writes") for name in _COLUMNS]),
        _row("instructions per QoS 1 message", _instructions(have)),
    ]


def _rate_rows(have: Figures) -> list[str]:
    empty = [_NONE, _NONE]
    return [
        _row(
            "QoS 1, window 1, of a raw loop",
            [_spread(have, f"{name} qos1 of raw") for name in _RATES],
        ),
        _row(
            "with TCP_NODELAY set by hand",
            [*empty, *(_spread(have, f"{name}+ qos1 of raw") for name in _RATES[2:])],
        ),
        _row(
            "QoS 1, window 1, of a raw loop that polls",
            [*(_spread(have, f"{name} qos1 of raw_polling") for name in _RATES[:2]), *empty],
        ),
        _row(
            "reconnects, of a raw loop's",
            [_spread(have, f"{name} reconnect of raw") for name in _RATES],
        ),
    ]


def sizes() -> str:
    with (BASELINES / "size.csv").open(encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    named = (
        ("client alone (QoS 0 and 1, one message in RAM)", "= client alone (QoS 0 and 1)"),
        ("client, outbox, reconnect, telemetry", "= with outbox, reconnect and telemetry"),
    )
    lines = []
    for title, name in named:
        row = rows[name]
        frozen = f"{int(row['frozen']):,}" if row["frozen"] else _NONE
        heap = int(row["heap_import"]) + int(row["heap_instance"])
        lines.append(_row(title, [f"{int(row['mpy']):,}", f"{heap:,}", frozen]))
    lines.append(f"{_MQTT_AS} |")
    return _table(("", ".mpy", "heap", "heap, frozen into the image"), lines)


def weight() -> str:
    """README's: the library beside its neighbours, and the ready program on an emulated Pico W."""
    with (BASELINES / "size.csv").open(encoding="utf-8") as file:
        sizes_of = {row["name"]: row for row in csv.DictReader(file)}
    with (BASELINES / "program_heap.csv").open(encoding="utf-8") as file:
        used = {row["name"]: int(row["used"]) for row in csv.DictReader(file)}
    have, lines = kept(), []
    for title, name in (
        ("client, messages in RAM", "= client alone (QoS 0 and 1)"),
        ("client, outbox in flash, telemetry", "= with outbox, reconnect and telemetry"),
    ):
        row = sizes_of[name]
        heap = int(row["heap_import"]) + int(row["heap_instance"])
        lines.append(_row(title, [f"{int(row['mpy']):,}", f"{heap:,}"]))
    lines.append(_MQTT_AS)
    lines.append(
        _row("umqtt.simple, imported", [_one(have, f"simple {k}") for k in ("mpy", "heap")])
    )
    for title, name in (("", "broker"), (", TLS", "broker, TLS")):
        title = f"ready program on a Pico W{title}, connected: of 205,184 B"
        lines.append(_row(title, ["", f"{used[name]:,}"]))
    return _table(("", ".mpy", "heap"), lines)


def parts() -> str:
    return _of_sizes("parts", "part")


def features() -> str:
    return _of_sizes("features", "feature")


def _of_sizes(table: str, head: str) -> str:
    """From the output of size_parts.py."""
    with (BASELINES / "size_parts.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == table]
    lines = [_row(row["title"], [f"{int(row[of]):,}" for of in ("alone", "whole")]) for row in rows]
    return _table((head, "client alone", "with outbox"), lines)


def outbox() -> str:
    have = kept()
    forms = {"erases": ".3f", "programs": ".2f", "bytes_programmed": ",.0f", "heap_net": ",.0f"}
    rows = []
    for store, title in _STORES:
        names = {key: f"flash: {store}, unit 256: {key}" for key in forms}
        fine = {"erases": ".4f"} if store == "Outbox" else {}
        rows.append(
            _row(
                title,
                [
                    f"{have[name][0]:{fine.get(k, forms[k])}}" if name in have else _NONE
                    for k, name in names.items()
                ],
            )
        )
    return _table(("store", "erases", "programs", "bytes programmed", "heap, net"), rows)


def wear() -> str:
    from outpost_tools.boards.outbox import wear as model

    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in model.table(100_000, 4)
    ]
    found = {(every, load, blocks): rest for every, load, _, blocks, *rest in lines}
    rows = [
        _row(every, [load, blocks, *found[every, load, blocks]]) for every, load, blocks in _WEAR
    ]
    heads = (
        "a message every",
        "topic + payload",
        "blocks",
        "erases of a block a year",
        "years to 100,000 erases",
        "held offline",
    )
    return _table(heads, rows)


def wear_of_boards() -> str:
    import wear_of_boards as counted

    return counted.table()


def three_paths() -> str:
    """The first hour: steps and seconds of each person, and what no page told."""
    with (BASELINES / "three_paths.csv").open(encoding="utf-8", newline="") as file:
        steps = list(csv.reader(file))
    rows = []
    for person in dict.fromkeys(who for who, *_ in steps):
        own = [rest for who, *rest in steps if who == person]
        install_s, then_s = (
            sum(float(seconds) for phase, _, seconds, _ in own if phase == wanted)
            for wanted in ("install", "use")
        )
        told = "; ".join(surprise for *_, surprise in own if surprise) or "none"
        rows.append(_row(person, [str(len(own)), f"{install_s:.0f}", f"{then_s:.0f}", told]))
    heads = ("", "steps", "seconds until installed", "seconds to the end", "surprises")
    return _table(heads, rows)


TABLES: dict[str, tuple[Path, Callable[[], str]]] = {
    "weight": (REPOSITORY / "README.md", weight),
    "paths": (REPOSITORY / "host_tests" / "README.md", three_paths),
    "measured": (BENCH, measured),
    "sizes": (BENCH, sizes),
    "parts": (BENCH, parts),
    "features": (BENCH, features),
    "outbox": (BENCH, outbox),
    "wear": (WEAR, wear),
    "wear_of_boards": (WEAR, wear_of_boards),
}


def _table(heads: tuple[str, ...], rows: list[str]) -> str:
    return (
        "\n".join([_row(heads[0], list(heads[1:])), "|---|" + "---:|" * (len(heads) - 1), *rows])
        + "\n"
    )


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |".replace("|  |", "| |")


def _one(have: Figures, name: str) -> str:
    return f"{have[name][len(have[name]) // 2]:,.0f}" if name in have else _NONE


def _pair(have: Figures, name: str, key: str) -> str:
    parts = [_one(have, f"{name} {key} {part}") for part in ("net", "gross")]
    return " / ".join(parts) if _NONE not in parts else _NONE


def _instructions(have: Figures) -> list[str]:
    cells = []
    for kind in ("RAM", "flash"):
        names = [f"instructions: {kind} {step}" for step in growth.STEPS]
        cells.append(
            f"{sum(have[name][0] for name in names):,.0f}"
            if all(name in have for name in names)
            else _NONE
        )
    return cells + [_one(have, f"instructions: {name}") for name in ("simple", "robust")]


def _spread(have: Figures, name: str) -> str:
    if name not in have:
        return _NONE
    low, median, high = (f"{value:.1g}" if value < 0.01 else f"{value:.2f}" for value in have[name])
    return f"{median} ({low}–{high})"


def write() -> None:
    for name, (page, make) in TABLES.items():
        marked_table.write(page, name, make())


if __name__ == "__main__":
    write()
