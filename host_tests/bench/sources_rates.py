"""How fast other people's messages become readings: each ready file of `outpost sources`, beside
our own readers of SenML, in turns and in one run.

    python host_tests/bench/sources_rates.py [--messages 200000] [--rounds 3]

Rates are messages per second of CPU time on one core. Ours are the exact reader, message by message
(messages/message.py), and the pipeline's, which packs rows for Arrow (readings/pipeline/decode.py),
with three readings a message. Each ready file is also read through the pipeline's reader, from the
frames of a segment to rows. The ratio is to the exact reader. The last two lines are the
collector's part, from PUBLISH to frame, for our boards (with their keys) and for Zigbee2MQTT's
messages (with their hashes, without decoding); broker, socket and fsync are not in it. Status 1 if
the typical mapping, Zigbee2MQTT's, is below the goal.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import pipeline_load
from outpost_tools.log import segments
from outpost_tools.messages import message
from outpost_tools.readings.pipeline import decode as pipeline_decode
from outpost_tools.readings.sources import ready_files
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.examples import received_ms
from outpost_tools.readings.sources.result import Message
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.disk_log import DiskLog
from outpost_tools.servers.collect.foreign import Foreign
from outpost_tools.servers.collect.link import Link

GOAL = 80_000
TYPICAL = "zigbee2mqtt"
EXACT, FAST = "our SenML, exact reader", "our SenML, pipeline's reader"
READ = ", pipeline's reader"
OURS, OTHERS = "collector, our boards", "collector, Zigbee2MQTT"
_DEVICES = 100
_BATCH = 4000  # the collector's
Pass = Callable[[], int]  # reads all messages; how many readings there were


def messages_of(name: str) -> tuple[int, bytes, list[bytes]]:
    """(arrival, payload, topics) of the first example, of as many devices or metrics."""
    mapping = ready_files.ready(name)
    example = mapping.sources[0].examples[0]
    topic, device = example.topic, example.device or ""
    if "device" not in mapping.sources[0].pattern.names:
        device = topic.split("/")[-2]  # Home Assistant is one device: many metrics
    topics = [topic.replace(device, f"{device}{i}").encode() for i in range(_DEVICES)]
    return received_ms(example), example.payload.encode(), topics


def foreign(name: str, count: int) -> Pass:
    """The first example of a ready file."""
    mapping = ready_files.ready(name)
    arrival, payload, topics = messages_of(name)

    def read() -> int:
        readings = 0
        for one in itertools.islice(itertools.cycle(topics), count):
            found = decode(mapping, one, payload, arrival)
            readings += len(found.readings) if isinstance(found, Message) else 0
        return readings

    return read


def reading(name: str, count: int) -> Pass:
    """The same through the pipeline's reader: from the frames of a segment to batches of rows."""
    mapping = ready_files.ready(name)
    arrival, payload, topics = messages_of(name)
    data = segments.sealed_bytes(
        segments.encode_frame(arrival, topics[at % _DEVICES], payload) for at in range(count)
    )
    return lambda: sum(
        batch.num_rows
        for batch in pipeline_decode.segment_batches(data, "collector-1", 0, mapping=mapping)
    )


def own(count: int) -> list[tuple[str, bytes]]:
    """Topics and payloads of our boards."""
    made = []
    for seq in range(count):
        device = f"board-{seq % _DEVICES}"
        data = pipeline_load.payload(device, f"{seq % _DEVICES:08x}", seq, held=max(0, seq - 50))
        made.append((f"outpost/{device}/data", data))
    return made


def exact(messages: list[tuple[str, bytes]]) -> Pass:
    arrival = pipeline_load.START_S * 1000 + len(messages) * 1000
    return lambda: sum(
        len(message.decode(topic, data, received_ms=arrival).readings) for topic, data in messages
    )


def fast(messages: list[tuple[str, bytes]]) -> Pass:
    arrival = pipeline_load.START_S * 1000 + len(messages) * 1000
    data = segments.sealed_bytes(
        segments.encode_frame(arrival, topic.encode(), payload) for topic, payload in messages
    )
    return lambda: sum(
        batch.num_rows for batch in pipeline_decode.segment_batches(data, "collector-1", 0)
    )


def collecting(messages: list[tuple[str, bytes]], foreign: Foreign | None) -> Pass:
    """Makes batches of frames, as the collector does."""
    link = Link("127.0.0.1", 1, "c1", "outpost", foreign=foreign)
    publishes = [
        (0x32, topic.encode(), (1 + number % 65_535).to_bytes(2, "big"), data)
        for number, (topic, data) in enumerate(messages)
    ]
    chunks = [publishes[at : at + _BATCH] for at in range(0, len(publishes), _BATCH)]

    def read() -> int:
        for chunk in chunks:
            link._batch = Batch(0)
            link._add(chunk)
        return 0

    return read


def foreign_collecting(name: str, count: int, folder: Path) -> Pass:
    mapping = ready_files.ready(name)
    example = mapping.sources[0].examples[0]
    payload, device = example.payload.encode(), example.device or ""
    topics = [example.topic.replace(device, f"{device}{i}") for i in range(_DEVICES)]
    messages = [(topics[number % _DEVICES], payload) for number in range(count)]
    return collecting(messages, Foreign(mapping, "outpost", DiskLog(folder, "c1")))


def measured(passes: dict[str, tuple[Pass, int]], rounds: int) -> dict[str, tuple[float, float]]:
    """{name: (messages per CPU second, readings a message)}; the best of the rounds."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for name, (read, count) in passes.items():
            begin = time.process_time()
            readings = read()
            rate = count / (time.process_time() - begin)
            best[name] = max(best.get(name, (0.0, 0.0)), (rate, readings / count))
    return best


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=200_000, help="%(default)s of each kind")
    parser.add_argument("--rounds", type=int, default=3, help="%(default)s; the best counts")
    parser.add_argument("--goal", type=int, default=GOAL, help="%(default)s messages/s a core")
    args = parser.parse_args()
    messages = own(args.messages // 2)
    passes = {name: (foreign(name, args.messages), args.messages) for name in ready_files.names()}
    reads = {f"{name}{READ}": (reading(name, args.messages), args.messages)
             for name in ready_files.names()}  # fmt: skip
    passes |= reads
    passes[EXACT] = exact(messages), len(messages)
    passes[FAST] = fast(messages), len(messages)
    with tempfile.TemporaryDirectory() as folder:
        passes[OURS] = collecting(messages, None), len(messages)
        other = foreign_collecting(TYPICAL, len(messages), Path(folder))
        passes[OTHERS] = other, len(messages)
        best = measured(passes, args.rounds)
    print(f"{'':30}{'messages/s':>12}{'readings':>10}{'readings/s':>12}{'ratio':>7}")
    for name, (rate, readings) in best.items():
        ratio = rate / best[EXACT][0]
        print(f"{name:30}{rate:12,.0f}{readings:10.1f}{rate * readings:12,.0f}{ratio:7.1f}")
    rates = [best[name][0] for name in (TYPICAL, TYPICAL + READ)]
    said = " and ".join(f"{rate:,.0f}" for rate in rates)
    print(f"{TYPICAL}, decoded and read: {said} messages/s a core, goal {args.goal:,}")
    return int(min(rates) < args.goal)


if __name__ == "__main__":
    sys.exit(main())
