"""What was heard at a broker: a few messages of each topic, bounded. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from outpost_tools.log.segment_frames import MAX_PAYLOAD_BYTES

_TOPICS = 20_000
_SAMPLES = 4  # of a topic: the first ones and the newest
_BYTES = 64 << 20  # of all samples


@dataclass(frozen=True)
class Sample:
    topic: bytes
    payload: bytes
    received_ms: int
    retained: bool


@dataclass
class Heard:
    """What was heard. messages: of each topic, all of them. dropped: messages of topics beyond what
    is kept. seconds: how long."""

    samples: dict[bytes, list[Sample]] = field(default_factory=dict)
    messages: dict[bytes, int] = field(default_factory=dict)
    dropped: int = 0
    seconds: float = 0.0
    _kept_bytes: int = 0

    def add(self, sample: Sample) -> None:
        kept = self.samples.get(sample.topic)
        size = len(sample.payload)
        is_full = len(self.samples) >= _TOPICS or self._kept_bytes + size > _BYTES
        if (kept is None and is_full) or size > MAX_PAYLOAD_BYTES:
            self.dropped += 1
            return
        self.messages[sample.topic] = self.messages.get(sample.topic, 0) + 1
        kept = self.samples.setdefault(sample.topic, [])
        if len(kept) >= _SAMPLES:
            self._kept_bytes -= len(kept.pop().payload)
        kept.append(sample)
        self._kept_bytes += size
