"""The newest values as metrics for Prometheus. Names of boards and sensors are label values, which
the library escapes. The devices of a mapping have their identifiers (readings/sources/idents.py)
there, and a last known value is no reading, so it has no sample.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outpost_tools.servers.live.fleet import Fleet

_READING = ["board", "sensor", "unit"]


class Readings(Collector):
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        with self._fleet.lock:
            return iter([*self._of_sensors(), *self._of_boards(), *self._of_log()])

    def _of_sensors(self) -> list[Metric]:
        value = GaugeMetricFamily("outpost_reading", "Newest reading", labels=_READING)
        text = "Time of the newest reading, since 1970"
        when = GaugeMetricFamily("outpost_reading_timestamp_seconds", text, labels=_READING[:2])
        for board in self._fleet.boards.values():
            for sensor in board.sensors.values():
                if sensor.is_last_known:
                    continue  # no reading
                newest = sensor.newest
                value.add_metric([board.ident, sensor.name, sensor.unit], newest.value)
                when.add_metric([board.ident, sensor.name], newest.time_ms / 1000)
        return [value, when]

    def _of_boards(self) -> list[Metric]:
        text = "Arrival of the newest message, since 1970"
        seen = GaugeMetricFamily("outpost_board_seen_timestamp_seconds", text, labels=["board"])
        text = "Messages that the board holds and has not delivered"
        backlog = GaugeMetricFamily("outpost_board_backlog_messages", text, labels=["board"])
        text = "1: needs attention, by its kind"
        needs = GaugeMetricFamily("outpost_board_attention", text, labels=["board", "kind"])
        for board in self._fleet.boards.values():
            if board.last_seen_ms:
                seen.add_metric([board.ident], board.last_seen_ms / 1000)
            if not board.is_foreign:
                backlog.add_metric([board.ident], board.backlog)
            for one in board.findings:
                if one.kind.needs_attention:
                    needs.add_metric([board.ident, one.key], 1)
        return [seen, backlog, needs]

    def _of_log(self) -> list[Metric]:
        text = "Frames of the log that were read"
        frames = GaugeMetricFamily("outpost_live_frames_read", text, value=self._fleet.frames)
        text = "Frames of the log that are no messages"
        refused = GaugeMetricFamily(
            "outpost_live_frames_refused", text, value=self._fleet.refused.total()
        )
        return [frames, refused]
