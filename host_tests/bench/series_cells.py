"""Cells about series in the table of goals: from the sections `series` and `chip_series` of
run_bench.py.
"""

from __future__ import annotations

from goal_cells import NO, YES, Cell, Missing, Results

MOST_CYCLES = 20_000
MOST_FLASH, MOST_AIR, MOST_ERASES = 6.0, 2.5, 0.0015


def _rows(results: Results, way: str) -> list[dict]:
    """Returns the rows of the real series that are the same each time."""
    found = [
        row
        for row in results.get("series", [])
        if way in row["way"] and not row["series"].startswith(("made", "this machine", "any"))
    ]
    if not found:
        why = results.get("failed", {}).get("series", "not run, or no real series was to be had")
        raise Missing(f"section series: {why}")
    return found


def bytes_a_sample(results: Results) -> Cell:
    full, sixty = _rows(results, "full records of 2,032 B"), _rows(results, "60 samples")
    flash, erases = (max(row[name] for row in full) for name in ("flash", "erases"))
    air = max(row["air_per_value"] for row in sixty)
    good = flash <= MOST_FLASH and air <= MOST_AIR and erases <= MOST_ERASES
    profile = [
        (one["series"], f"{one['flash']:.2f} / {two['air_per_value']:.2f} / {one['erases']:.5f}")
        for one, two in zip(full, sixty, strict=True)
    ]
    return Cell(f"{flash:.2f} / {air:.2f} / {erases:.5f}", YES if good else NO, profile)


def others(results: Results) -> str:
    """Returns the same for the alternatives to series, of the first of the three, or of any."""
    wanted = ("SenML JSON", "SenML CBOR", "file per sample", "append + flush")
    rows = [
        next((row for row in results.get("series", []) if name in row["way"]), None)
        for name in wanted
    ]
    return ", ".join(
        f"{name}: {row['flash']:.0f} / {row['air_per_value']:.0f} / {row['erases']:.4f}"
        for name, row in zip(wanted, rows, strict=True)
        if row
    )


def cycles_a_value(results: Results) -> Cell:
    found = _cycles(results)
    value = found["series, a value"]["cycles"]
    parts = [
        (name, f"{row['cycles']:,}") for name, row in found.items() if name.startswith("series ")
    ]
    return Cell(f"{value:,}", YES if value <= MOST_CYCLES else NO, parts)


def cycles_of_messages(results: Results) -> str:
    """The same values, three in a separate message."""
    return f"a message a sample: {_cycles(results)['message of three, a value']['cycles']:,}"


def _cycles(results: Results) -> dict:
    if not results.get("chip_series"):
        why = results.get("failed", {}).get("chip_series", "not run")
        raise Missing(f"section chip_series: {why}")
    return results["chip_series"]
