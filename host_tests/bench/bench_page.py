#!/usr/bin/env python3
"""build/bench.html from build/bench.json: one page that needs no other file, readable without
colour and at phone width.

.venv/bin/python host_tests/bench/bench_page.py [--from build/bench.json] [--out build/bench.html]
"""

from __future__ import annotations

import argparse
import json
import sys
from html import escape
from pathlib import Path

from plotly.offline import get_plotlyjs

REPOSITORY = Path(__file__).resolve().parent.parent.parent

import goal_cells  # noqa: E402 - the path must be set first
import growth  # noqa: E402
from bench_plots import dots, flat_bars, payload_lines, table  # noqa: E402

_STYLE = """
:root{color-scheme:light} *{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:0 auto;
  padding:12px;max-width:900px}
h1{font-size:1.5em;margin:.2em 0}
h2{font-size:1.15em;margin:1.8em 0 .2em;border-bottom:2px solid #1a1a1a}
h3{font-size:1em;margin:1.2em 0 0} p{margin:.3em 0;max-width:70ch} .quiet{color:#555}
.goal{border-left:4px solid #1a1a1a;padding:2px 0 2px 10px;margin:12px 0}
.goal.no{border-left-style:dashed} .goal p{margin:1px 0}
.goal b.state{border:1px solid #1a1a1a;padding:0 6px;margin-right:8px;white-space:nowrap}
.goal.yes b.state{background:#1a1a1a;color:#fff}
details{margin:2px 0} summary{cursor:pointer} .scroll{overflow:auto}
table{border-collapse:collapse;font-size:.88em}
td,th{padding:3px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid #ccc}
td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:#fff;
  white-space:normal;min-width:8em}
th{border-bottom:2px solid #1a1a1a;vertical-align:bottom;white-space:normal;min-width:4.5em}
tr.ours td{font-weight:700}
"""
_CELLS = {
    "qos0_heap": "QoS 0 heap, net / gross B",
    "qos1_heap": "QoS 1 heap, net / gross B",
    "qos0_locked": "QoS 0 with the heap locked",
    "qos1_locked": "QoS 1 with the heap locked",
    "qos1_writes": "writes per QoS 1 publish",
    "idle_heap": "idle heap a second, net / gross B",
    "reconnect_ms": "reconnect ms",
    "reconnect_heap": "reconnect heap, net / gross B",
}


_CPYTHON_CELLS = {
    "qos0_heap": "QoS 0 heap, net / peak B",
    "qos1_heap": "QoS 1 heap, net / peak B",
    "qos0_writes": "writes per QoS 0 publish",
    "qos1_writes": "writes per QoS 1 publish",
}


def render(results: dict) -> str:
    """Returns the whole page as text; omits sections that were not run."""
    sections = [
        _environment(results.get("environment", {})),
        _goals(results.get("goals", [])),
        _loopback(results.get("loopback", {})),
        _peers(results.get("peers", {})),
        _peer_rates(results.get("peer_rates", {})),
        _cpython(results.get("cpython_cells", {}), results.get("cpython_rates", {})),
        _sizes(results.get("peer_sizes", {}), results.get("modules", {})),
        _instructions(results.get("instructions", {}), results.get("instructions_arm", {})),
        _flash(results.get("outbox_vs_littlefs", []), results.get("mount", [])),
        _seconds(results.get("seconds", {})),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<title>Outpost: benchmarks</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>"
        f"<body><h1>Outpost: benchmarks</h1>{''.join(sections)}</body></html>\n"
    )


def _environment(environment: dict) -> str:
    text = "; ".join(f"{name}: {value}" for name, value in environment.items())
    return f"<p class=quiet>{escape(text)}</p>"


def _goals(lines: list[dict]) -> str:
    if not lines:
        return ""
    reached = sum(line["state"] == goal_cells.YES for line in lines)
    note = (
        f"<p>{reached} of {len(lines)} reached. Whole bar: reached; dashed: not, with the reason "
        "and the profile of this run."
    )
    return "<h2>What is to be reached</h2>" + note + "</p>" + "".join(map(_goal, lines))


def _goal(line: dict) -> str:
    kind = "yes" if line["state"] == goal_cells.YES else "no"
    parts = [
        f'<div class="goal {kind}"><p><b>{escape(line["what"])}</b>: {escape(line["goal"])}</p>',
        f'<p><b class="state">{escape(line["state"])}</b>{escape(line["measured"])}</p>',
    ]
    parts += [f"<p class=quiet>beside: {escape(line['peers'])}</p>"] * bool(line["peers"])
    parts += [f"<p>{escape(line['reason'])}</p>"] * bool(line["reason"])
    if line["profile"]:
        parts.append(
            f"<details><summary>profile</summary>{table(('', ''), line['profile'])}</details>"
        )
    return "".join(parts) + "</div>"


def _spread_note(one: dict) -> str:
    return (
        f"Median of {one['blocks']} blocks; bar: between what a second run's median lies in "
        f"{one['holds']:.2%} of runs."
    )


def _loopback(section: dict) -> str:
    rows = {name: row for name, row in section.items() if isinstance(row, dict)}
    if not rows:
        return ""
    parts = [
        "<h2>Beside a raw socket loop</h2><p>QoS 1 publishes/s over loopback to mosquitto, "
        f"the firmware as boards get it, {section['writes_a_packet']:.2f} writes a packet. "
        "raw waits in read(); raw_polling polls repeatedly, as a client that never blocks "
        f"must.</p><p class=quiet>{_spread_note(rows['raw'])}</p>"
    ]
    shown = {
        ("outpost, " if not name.startswith("raw") else "") + name: row
        for name, row in rows.items()
    }
    parts.append(dots({name: _three(row["raw"]) for name, row in shown.items()}, "of raw"))
    heads = ("", "publishes/s", "of raw", "low", "high", "of raw_polling", "low", "high")
    values = (
        (name, round(row["median"]), *_ratio(row["raw"]), *_ratio(row["raw_polling"]))
        for name, row in shown.items()
    )
    return "".join(parts) + table(heads, values)


def _three(one: dict) -> tuple[float, float, float]:
    return one["low"], one["median"], one["high"]


def _ratio(one: dict) -> tuple[float, float, float]:
    return one["median"], one["low"], one["high"]


def _peers(section: dict) -> str:
    if not section:
        return ""
    rows = [(name, *(row.get(key) for key in _CELLS)) for name, row in section["cells"].items()]
    rows += [
        (f"{name}, ARM", *(row.get(key) for key in _CELLS)) for name, row in section["arm"].items()
    ]
    note = (
        "<h2>Beside other clients</h2><p>32-bit, one mosquitto, 24 bytes of topic, 64 of payload. "
        "nor: flash outbox.</p>"
    )
    return note + table(["", *_CELLS.values()], rows) + _missing(section["missing"])


def _cpython(section: dict, rates: dict) -> str:
    if not section and not rates:
        return ""
    parts = [
        "<h2>Beside MiniMQTT, under CPython</h2><p>MiniMQTT does not run on MicroPython. "
        "All here is CPython's, and not to be held beside the other tables: it makes an object "
        "of every larger integer, frees garbage at once, and runs bytecode where boards run "
        "Outpost's machine code.</p>"
    ]
    if section:
        note = (
            "<p>net: what tracemalloc holds after a publish; peak: the most within. "
            "Writes: send(). nor: flash outbox.</p>"
        )
        rows = [
            (name, *(row.get(key) for key in _CPYTHON_CELLS))
            for name, row in section["cells"].items()
        ]
        parts += [note, table(["", *_CPYTHON_CELLS.values()], rows), _missing(section["missing"])]
    if section.get("mpy"):
        title = (
            f"MiniMQTT's .mpy, with what it imports on a board: {sum(section['mpy'].values()):,} B"
        )
        parts.append(
            f"<details><summary>{title}</summary>"
            f"{table(('', '.mpy B'), section['mpy'].items())}</details>"
        )
    return "".join(parts) + _peer_rates(rates, ", CPython")


def _peer_rates(section: dict, where: str = "") -> str:
    if not section:
        return ""
    parts = []
    for kind, title in (
        ("qos1", "QoS 1, publishes/s"),
        ("qos0", "QoS 0, publishes/s"),
        ("reconnect", "Reconnects/s"),
    ):
        speed = {name: row[kind] for name, row in section.items()}
        parts.append(
            f"<h3>{title} over loopback{where}</h3><p class=quiet>{_spread_note(speed['raw'])} "
            "+ : TCP_NODELAY set by hand. Filled: Outpost; diamond: a bare socket loop, the limit."
            "</p>"
        )
        parts.append(
            dots({name: _three(row) for name, row in speed.items()}, title.split(", ")[-1])
        )
        rows = ((name, round(row["median"]), *_ratio(row["ratio"])) for name, row in speed.items())
        parts.append(table(("", "a second", "ratio to raw", "low", "high"), rows))
    return "".join(parts)


def _missing(reasons: dict[str, str]) -> str:
    return "".join(
        f"<p class=quiet>Empty: {escape(name)}: {escape(why)}</p>" for name, why in reasons.items()
    )


def _sizes(section: dict, modules: dict) -> str:
    if not section:
        return ""
    note = (
        "<h2>Size</h2><p>Heap after import and one instance, 32-bit, from .mpy, Outpost's with "
        "line numbers.</p>"
    )
    rows = ((name, row["heap"], row.get("heap_arm"), row["mpy"]) for name, row in section.items())
    parts = [note, table(("", "heap B", "on ARM", ".mpy B"), rows)]
    for title, part in modules.items():
        rows = ((name, row["heap"], row["mpy"]) for name, row in part.items())
        parts.append(
            f"<details><summary>by module: {escape(title)}</summary>"
            f"{table(('', 'heap B', '.mpy B'), rows)}</details>"
        )
    return "".join(parts)


def _instructions(section: dict[str, int], arm: dict[str, int]) -> str:
    """What a message takes, without noise, and how that grows."""
    if "flash publish" not in section:
        return ""
    rows = []
    for mark, found in (("", section), (", ARM", arm)):
        for kind in ("RAM", "flash") if "flash publish" in found else ():
            rows.append(
                (
                    f"outpost, {kind}{mark}",
                    *(found[f"{kind} {step}"] for step in growth.STEPS),
                    growth.whole(found, kind),
                )
            )
        rows += [
            (f"{name}{mark}", None, None, None, found[name])
            for name in ("simple", "robust", "raw")
            if name in found
        ]
    parts = [
        "<h2>Machine instructions</h2><p>Counted by single steps, 32-bit MicroPython for x86 and "
        "for ARM; one QoS 1 message with its PUBACK, 24 bytes of topic, 64 of payload. raw: a bare "
        "socket loop. The kernel's part is left out.</p>",
        table(("", *growth.STEPS, "in all"), rows),
        "<h3>What a stored message is made of</h3>",
        table(
            ("", "instructions"),
            [row for row in section.items() if row[0].startswith(growth.OF_A_STORED)],
        ),
    ]
    return "".join(parts) + _growth(section)


def _growth(section: dict[str, int]) -> str:
    lines = growth.lines(section)
    if "stored message, by payload" not in lines:
        return ""
    copy = lines["one copy of memory"].slope
    rows = (
        (name, round(one.base), f"{one.slope:.1f}", f"{one.slope / copy:.2f}", f"{one.worst:.1%}")
        for name, one in lines.items()
    )
    verdicts = (
        f"<p>{'' if one.holds else 'Not as it should be: '}{escape(one.what)}: "
        f"{escape(one.says)}</p>"
        for one in growth.verdicts(section)
    )
    flat = [
        row
        for row in section.items()
        if row[0].startswith(("flash, blocks", "flash, backlog", "window,", "flash, opens"))
    ]
    return "".join([
        "<h3>How it grows</h3>", *verdicts, payload_lines(section, lines),
        "<p class=quiet>Marks: counted. Lines: fitted, with the slope in the table; the thin one "
        "is one copy of memory.</p>",
        table(("", "base", "a byte", "in copies", "worst"), rows),
        "<h3>By outbox, backlog and window</h3><p class=quiet>With a backlog the oldest is read "
        "from flash; without, the new one stands in the buffer yet.</p>",
        flat_bars(section), table(("", "instructions"), flat),
    ])  # fmt: skip


def _seconds(section: dict[str, list[float]]) -> str:
    if not section:
        return ""
    rows = [(name, clock, cpu) for name, (clock, cpu) in section.items()]
    total = tuple(round(sum(row[at] for row in rows), 1) for at in (1, 2))
    return "<h2>What this run took</h2>" + table(
        ("", "seconds", "of CPU"), [*rows, ("in all", *total)]
    )


def _flash(stores: list[dict], mounts: list[dict]) -> str:
    parts = []
    if stores:
        names = ("erases", "programs", "bytes_programmed", "heap_net", "heap_gross")
        rows = (
            (f"{row['store']}, unit {row['unit_bytes']}", *(row[name] for name in names))
            for row in stores
        )
        parts.append("<h2>Flash traffic per message</h2>" + table(("", *names), rows))
    if mounts:
        names = ("held", "reads", "reads_to_first_message", "heap", "microseconds")
        parts.append(
            "<h2>Mount</h2>"
            + table(
                ("blocks", *names), ((row["blocks"], *(row[n] for n in names)) for row in mounts)
            )
        )
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--from", dest="source", type=Path, default=REPOSITORY / "build" / "bench.json"
    )
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "bench.html")
    args = parser.parse_args()
    try:
        page = render(json.loads(args.source.read_text(encoding="utf-8")))
        args.out.write_text(page, encoding="utf-8")
    except (OSError, ValueError, KeyError) as error:
        print(f"bench page: {args.source}: {error!r}; run `make bench` first", file=sys.stderr)
        return 2
    print(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
