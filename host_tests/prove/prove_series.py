"""The scopes with series: `prove_outbox.py` with an outbox that holds series and a Series, whose
add() is one of the actions. See `series_states.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import series_states
from outbox_states import Ram
from prove_outbox import Explorer
from series_states import SeriesPromise, SeriesRam


class SeriesExplorer(Explorer):
    def _new_outbox(self) -> Any:
        self.chip.content = series_states.record_content
        scope, real = self.scope, self.real
        kind = real.series_outbox.over(real.outbox.Outbox)
        return kind(self.chip, scope.record_bytes, scope.align, scope.page_bytes)

    def _new_ram(self) -> Ram:
        names = series_states.TOPIC, series_states.DEVICE, series_states.COLUMNS
        series = self.real.series.Series(self.outbox, *names, max_age_s=11 * 86_400)
        return SeriesRam(self.outbox, series)

    def _new_promise(self) -> Any:
        promise = SeriesPromise(self.scope.first_seq)
        promise.most = (self.scope.block_bytes - 32) // 20
        promise.extra = (0, 0)
        return promise

    def _sample_under_way(self) -> Any:
        found = series_states.sample_under_way(self)
        if found is None:
            return None
        return partial(series_states.sample_piece, room_at=found[0], place=found[1])

    def _mount(self, name: str, while_mounting: int, after: int) -> None:
        self.ram.restart()
        Explorer._mount(self, name, while_mounting, after)

    def open_record(self) -> set[int]:
        return set() if self.outbox._owner is None else {self.outbox.next_seq}

    def add_sample(self) -> None:
        seq = self.outbox.next_seq + len(self.open_record())
        self.promise.add(self.outbox, self.ram.series, self.new_attempt(seq))
