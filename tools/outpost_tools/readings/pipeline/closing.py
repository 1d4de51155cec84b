"""Boots that are closed: what a round does without reading them. Arrow and numpy, no files.

Law: a round reads and writes the rows of open boots and one row for each stream, however many boots
there were. What it leaves behind depends on the messages alone, never on how they were divided into
rounds.

The file of `totals` that a bucket of devices has (its head) is read and replaced by each round that
touches the bucket. Its rows are of these kinds:

- open boots, at least the last KEPT of each stream in the order of their first numbers;
- folded: a stream, that is the sum of its closed boots (folded.py);
- closed: boots whose rows in `boots` the last round wrote. They stay for one round, since a kill
  may have come between the commits of `totals` and of `boots`. A device whose boots were all
  recomputed has a row like that, too;
- waiting: what is to be added to boots once their turn has come (below).

Once a stream of the bucket has more than MOST open boots, all streams of the bucket close all but
the last KEPT. A closed boot's row goes to the archive, files of `totals` in a partition that rounds
do not read (boot_files.py); its row in `boots` goes to a file that stays. What comes later is
added: the archive gets another row of that boot, and a boot is the sum of its rows there. So the
archive is only appended to, in the commit of `totals` that folds.

A boot has time bounds from its neighbours: from the boots of its stream whose numbers differ by at
most NEAR. The latest time of those with lower numbers is before the boot, the earliest of those
with higher numbers after it. Both only grow towards the boot when more is known, so they are kept
in its row, and a neighbour that changes is added to them.

So closed boots must be looked up only when something comes for one of them, when a boot is new and
has a closed neighbour, or when a neighbour has readings without a time, so that its bounds matter.
None of that happens while a board's boots come in their order. Lookups are bounded: what exceeds
them waits, board by board, so a board that sends what belongs to thousands of old boots waits for
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import folded, gold_schemas, packed, schemas, totals

KEPT = 16
MOST = 32
NEAR = 8  # fewer than KEPT
CLOSED, WAITING, ANEW = 2, 3, 4  # in `kind`; open boots have none
SCHEMA = gold_schemas.TOTALS
_EMPTY = SCHEMA.empty_table()
_NONE = np.iinfo(np.int64).min
# {row of a table of boots: whether its turn has come}, and the rows that the archive may have near.
Lookup = Callable[[pa.Table], tuple[np.ndarray, pa.Table]]


class Head(NamedTuple):
    """The rows of a head by kind."""

    opens: pa.Table
    folds: pa.Table
    closed: pa.Table
    waiting: pa.Table
    anew: pa.Table

    def table(self) -> pa.Table:
        kinds = (None, folded.KIND, CLOSED, WAITING, ANEW)
        return pa.concat_tables(
            [_of_kind(rows, one) for rows, one in zip(self, kinds, strict=True)]
        )

    @property
    def known(self) -> pa.Table:
        """What summaries are made of."""
        return pa.concat_tables([self.opens, self.folds])


class Round(NamedTuple):
    """The head after a round, the rows that the archive gets, and the boots whose rows in `boots`
    may be there already (else they are new)."""

    head: Head
    archived: pa.Table
    replaced: pa.Table


def head_of(rows: pa.Table) -> Head:
    kind = pc.fill_null(rows["kind"], 0)
    kinds = (0, folded.KIND, CLOSED, WAITING, ANEW)
    return Head(*(rows.filter(pc.equal(kind, one)) for one in kinds))


def without(head: Head, devices: list[str]) -> Head:
    """These devices are recomputed: nothing of them counts, and in `boots` nothing is to stay."""
    names = pa.array(devices, pa.string())
    kept = [rows.filter(pc.invert(pc.is_in(rows["device"], value_set=names))) for rows in head]
    kept[-1] = pa.concat_tables([kept[-1], _marks(names)])
    return Head(*kept)


def _marks(names: pa.Array) -> pa.Table:
    empty = {one.name: pa.nulls(len(names), one.type) for one in gold_schemas.TOTALS}
    return pa.table(empty | {"device": names}, schema=gold_schemas.TOTALS)


def confirmed(head: Head) -> Head:
    """`boots` has what the last round wrote."""
    return head._replace(closed=_EMPTY, anew=_EMPTY)


def again(head: Head) -> Round:
    """Nothing new; `boots` may lack what the last round closed."""
    return Round(head._replace(opens=_bounded(head.opens)), _EMPTY, head.closed)


def advanced(head: Head, more: pa.Table, lookup: Lookup) -> Round:
    """After a round that adds these rows of boots (of totals.added())."""
    pool = totals.added([_of_kind(head.waiting, None), more])
    asks = _asks(head, pool)
    straight, asked = pool.filter(pa.array(~asks)), pool.filter(pa.array(asks))
    has_turn, archive = lookup(asked) if asked.num_rows else (np.zeros(0, bool), _EMPTY)
    taken, waiting = asked.filter(pa.array(has_turn)), asked.filter(pa.array(~has_turn))
    before = totals.added([archive])
    is_late = _is_in(taken, before)
    opens = totals.added([head.opens, straight, taken.filter(pa.array(~is_late))])
    late = taken.filter(pa.array(is_late))
    after = totals.added([before, late])
    bounded = _bounded(pa.concat_tables([opens, after]))
    opens, after = bounded.slice(0, opens.num_rows), bounded.slice(opens.num_rows)
    changed = _changed(before, after, late)
    deltas = _deltas(changed, late)
    fold = _corrections(late, before, after)
    return _closed_some(head._replace(opens=opens, waiting=waiting), changed, deltas, fold)


def _closed_some(head: Head, changed: pa.Table, deltas: pa.Table, fold: pa.Table) -> Round:
    is_closing = _closing(head.opens)
    closing, opens = (head.opens.filter(pa.array(one)) for one in (is_closing, ~is_closing))
    folds = head.folds
    if closing.num_rows or fold.num_rows:
        folds = folded.added([folds, folded.of_boots(closing), fold])
    earlier = head.closed.filter(pa.array(~_is_in(head.closed, changed)))
    found = head._replace(
        opens=opens, folds=folds, closed=pa.concat_tables([earlier, changed, closing])
    )
    replaced = pa.concat_tables([earlier, changed])
    return Round(found, pa.concat_tables([deltas, closing]), replaced)


def _asks(head: Head, pool: pa.Table) -> np.ndarray:
    """For which of these boots closed ones must be looked up."""
    closed, timeless = (folded.Sets(head.folds, name) for name in ("closed", "timeless"))
    is_open = _is_in(pool, head.opens)
    near = closed.has_within(pool, NEAR)
    return np.where(
        is_open, timeless.has_within(pool, NEAR), closed.has_within(pool, 0) | near
    ).astype(bool)


def _closing(opens: pa.Table) -> np.ndarray:
    """Which boots close: where a stream of the bucket has too many, those before the last KEPT."""
    if not opens.num_rows:
        return np.zeros(0, bool)
    codes = totals.key_names(opens, schemas.KEY).dictionary_encode().indices.to_numpy()
    numbers, boots = (opens[name].to_numpy() for name in ("first_seq", "boot"))
    order = np.lexsort((-boots, -numbers, codes))
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes)) - np.repeat(begins, np.diff(np.append(begins, len(codes))))
    return (rank >= KEPT) & _of_full_bucket(opens, rank)


def _of_full_bucket(opens: pa.Table, rank: np.ndarray) -> np.ndarray:
    buckets = packed.buckets_of(opens)
    full = np.unique(buckets[rank >= MOST])
    return np.isin(buckets, full)


def _bounded(rows: pa.Table) -> pa.Table:
    """These boots with the bounds that they give each other."""
    if not rows.num_rows:
        return rows
    codes = totals.key_names(rows, schemas.KEY).dictionary_encode().indices.to_numpy()
    order = np.lexsort((rows["boot"].to_numpy(), codes))
    code, boot = codes[order], rows["boot"].to_numpy()[order].astype(np.int64)
    low, last = (_numbers(rows[name], order) for name in ("not_before", "last_time"))
    # of negated times the highest is the earliest
    high, first = (_numbers(rows[name], order, -1) for name in ("not_after", "first_time"))
    for step in range(1, min(NEAR, len(code) - 1) + 1):
        is_near = (code[step:] == code[:-step]) & (boot[step:] - boot[:-step] <= NEAR)
        low[step:] = np.maximum(low[step:], np.where(is_near, last[:-step], _NONE))
        high[:-step] = np.maximum(high[:-step], np.where(is_near, first[step:], _NONE))
    return _with_bounds(rows, order, low, high)


def _numbers(times: pa.ChunkedArray, order: np.ndarray, sign: int = 1) -> np.ndarray:
    """Microseconds times sign; _NONE where unknown."""
    values = sign * pc.fill_null(times.cast(pa.int64()), 0).to_numpy()
    return np.where(times.is_valid().to_numpy(), values, _NONE)[order]


def _with_bounds(rows: pa.Table, order: np.ndarray, low: np.ndarray, high: np.ndarray) -> pa.Table:
    """low: ascending with time; high: of negated times. Both in that order of the rows."""
    for name, values, sign in (("not_before", low, 1), ("not_after", high, -1)):
        ends = np.empty(len(order), np.int64)
        ends[order] = values
        is_none = ends == _NONE
        at = rows.schema.get_field_index(name)
        kind = rows.schema.field(name)
        column = pa.array(sign * np.where(is_none, 0, ends), mask=is_none).cast(kind.type)
        rows = rows.set_column(at, kind, column)
    return rows


def _changed(before: pa.Table, after: pa.Table, late: pa.Table) -> pa.Table:
    """Of these closed boots, which stand in the same order, those whose row in `boots` changes."""
    differs = _is_in(after, late)
    moved = np.zeros(after.num_rows, bool)
    for name in totals.BOUNDS:
        same = pc.equal(before[name], after[name])
        both = pc.and_(pc.is_null(before[name]), pc.is_null(after[name]))
        moved |= ~pc.or_(pc.fill_null(same, False), both).to_numpy()
    moved &= pc.greater(after["without_time"], 0).to_numpy()
    return after.filter(pa.array(differs | moved))


def _deltas(changed: pa.Table, late: pa.Table) -> pa.Table:
    """What the archive gets of these boots: what came, and the bounds as they are now."""
    return totals.added([late, _nothing(changed)])


def _nothing(rows: pa.Table) -> pa.Table:
    """Rows of these boots that add only their bounds."""
    columns = {one.name: pa.nulls(rows.num_rows, one.type) for one in gold_schemas.TOTALS}
    columns |= {name: rows[name] for name in (*totals.KEY, *totals.BOUNDS)}
    zeros = pa.array(np.zeros(rows.num_rows, np.int64))
    columns |= dict.fromkeys(totals.SUMS, zeros)
    return pa.table(columns, schema=gold_schemas.TOTALS)


def _corrections(late: pa.Table, before: pa.Table, after: pa.Table) -> pa.Table:
    """What the rows of streams get for closed boots that have got more."""
    if not late.num_rows:
        return _EMPTY
    at = pc.index_in(totals.key_names(late), value_set=totals.key_names(before))
    return folded.correction(late, before.take(at), after.take(at))


def _is_in(rows: pa.Table, others: pa.Table) -> np.ndarray:
    """Which of the rows are of one of the other rows' boots."""
    if not rows.num_rows or not others.num_rows:
        return np.zeros(rows.num_rows, bool)
    found = pc.is_in(totals.key_names(rows), value_set=totals.key_names(others))
    return found.to_numpy(zero_copy_only=False)


def _of_kind(rows: pa.Table, kind: int | None) -> pa.Table:
    at, field = rows.schema.get_field_index("kind"), gold_schemas.TOTALS.field("kind")
    return rows.set_column(at, field, pa.repeat(pa.scalar(kind, field.type), rows.num_rows))
