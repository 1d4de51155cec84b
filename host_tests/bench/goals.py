"""The table of goals: each row's goal, what this run measured, and where it falls short the reason,
with the profile.

A row takes its figures only from the results of run_bench.py (the frozen sizes, which need a
separate build, from baselines/size.csv). Its reason is beside it in ROWS and is shown only while
the goal is not reached; the profile is from the same run. `table()` returns what build/bench.json
keeps; `show()` prints it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import goal_cells as cells
import series_cells
import size_report

Results = cells.Results


@dataclass(frozen=True)
class Row:
    """peers: what others reach, in this run or, where stated, in the design. reason: why the goal
    is not reached, if it is not.

    A row without its own reason is a promise: missing it is a defect, and is shown as one.
    """

    what: str
    goal: str
    measure: Callable[[Results], cells.Cell]
    peers: Callable[[Results], str]
    reason: str = (
        "A defect: this is promised, and was so before. "
        "The tests of the same name should fail, too."
    )


def table(results: Results) -> list[dict[str, Any]]:
    return [_line(row, results) for row in ROWS]


def _line(row: Row, results: Results) -> dict[str, Any]:
    line = {"what": row.what, "goal": row.goal}
    try:
        cell = row.measure(results)
    except (cells.Missing, KeyError, StopIteration) as error:
        return line | {
            "measured": "",
            "state": cells.UNKNOWN,
            "peers": "",
            "reason": f"no figure in this run: {error}",
            "profile": [],
        }
    short = cell.state != cells.YES
    try:
        others = row.peers(results)
    except (cells.Missing, KeyError):
        others = ""
    why = {"reason": row.reason if short else "", "profile": cell.profile if short else []}
    return line | {"measured": cell.measured, "state": cell.state, "peers": others} | why


def show(lines: list[dict[str, Any]]) -> None:
    print("\nWhat is to be reached (median, and between what a second run's median is expected):")
    for line in lines:
        print(
            f"\n{line['what']}\n    goal      {line['goal']}\n"
            f"    measured  {line['measured']}\n    {line['state'].upper()}"
        )
        if line["peers"]:
            print(f"    beside    {line['peers']}")
        if line["reason"]:
            print(
                textwrap.fill(
                    line["reason"], 110, initial_indent="    because   ", subsequent_indent=" " * 14
                )
            )
        for name, value in line["profile"]:
            print(f"              {name:<40}{value:>24}")
    reached = sum(line["state"] == cells.YES for line in lines)
    print(
        f"\n{reached} of {len(lines)} reached; "
        + ", ".join(
            f"{line['what']}: {line['state']}" for line in lines if line["state"] != cells.YES
        )
    )


_DESIGN = "in the design, another day: "
ROWS = (
    Row("Heap per QoS 1 publish with its PUBACK, net / gross B, 32-bit", "0 / 0, outbox included",
        cells.publish_heap, cells.peer_cells("qos1_heap", "B")),
    Row("Idle garbage, net / gross", "0", cells.idle,
        cells.peer_cells("idle_heap", f"B/s ({_DESIGN}mqtt_as 40,500 B/s)")),
    Row("QoS 1 publishes/s over loopback, window 1, without outbox",
        ">= 0.50 of a raw one-write socket loop", cells.rate("outpost_ram_1", 0.5, "RAM"),
        cells.times_peers,
        "The raw loop executes one write and one read; a message of Outpost is bytecode: "
        "encoded, matched with the window, the deadlines looked at, and polls that find nothing "
        "while the broker answers. On loopback the broker answers in some microseconds, so that "
        "the interpreter's instructions are what is seen; the loop that polls, as a client that "
        "never blocks must, is the nearer limit. The profile says which calls the instructions "
        "are in."),
    Row("QoS 1 publishes/s over loopback, window 1, with the outbox",
        ">= 0.25 of a raw one-write socket loop", cells.rate("outpost_flash_1", 0.25, "flash"),
        cells.none,
        "As without the outbox; on top the record: composed, checked by a CRC over every byte, "
        "programmed in whole pages and read back. The chip here is RAM behind a Python driver, "
        "which counts, too."),
    Row("Heap after import and one instance, .mpy: client alone", "<= 11,000 B, line numbers kept",
        cells.size(cells.ALONE, size_report.CLIENT), cells.peer_sizes,
        "The heap is bytecode, names and constants of the modules (`make size` has each), then the "
        "buffers of the instance."),
    Row("Heap after import and one instance, .mpy: with outbox, reconnect, telemetry",
        "<= 20,000 B, line numbers kept", cells.size(cells.WHOLE, size_report.ALL),
        lambda results: f"{_DESIGN}mqtt_as 16,320 B, without any store",
        "Bytecode, names and constants of the modules (`make size` has each), loaded into RAM, and "
        "the instance with its buffers (a record of 256 B)."),
    Row("The same heap, frozen into the image: client alone", "<= 4,500 B",
        cells.frozen_size(size_report.CLIENT), cells.none,
        "Code, names and constants are in ROM; what is left is dictionaries of modules and "
        "classes, and the instance."),
    Row("The same heap, frozen into the image: with outbox, reconnect, telemetry", "<= 9,000 B",
        cells.frozen_size(size_report.ALL), cells.none,
        "Code, names and constants are in ROM; what is left is dictionaries of modules and "
        "classes, and the instance."),
    Row("Erases / programs / heap per stored message, RP2's 256-byte programs",
        "<= 0.026 / <= 1.02 / 0", cells.flash, cells.stores),
    Row("Series of three values, the worst of three real ones: bytes of flash a sample in full "
        "records of 2,032, bytes on air a value at 60 samples, erases a sample",
        "<= 6 / <= 2.5 / <= 0.0015", series_cells.bytes_a_sample, series_cells.others,
        "On air, hourly weather: TCP, TLS, MQTT, PUBACK and the header with its three names are "
        "292 bytes of a message of 174 values; 2.5 a value leave 6.6 bits for each. The entropy of "
        "their changes is 6.1 (real_series.py), before times, missing values and the first "
        "sample, which stands alone. The profile has each series."),
    Row("Power cuts, a short hunt (`make power-loss` is the long one)",
        "0 lost, 0 invented, 0 out of order", cells.cuts,
        lambda results: "no other client promises it"),
    Row("Collector, messages/s with fsync before PUBACK", ">= 15,000",
        cells.collector, lambda results: f"{_DESIGN}aiomqtt 6,600, no log",
        "Python's part a message (paho's parsing, the frame with its CRC, the PUBACK) bounds it: "
        "what one processor does in a second is in the profile; the broker shares the two "
        "processors."),
    Row("Segments to Arrow, rows/s on two processors", ">= 500,000",
        cells.segments, lambda results: f"{_DESIGN}139,000 (Python tuples), 223,000 (JSON lines)",
        "Decoding the packs and building the columns is bound by the processor: rows per CPU "
        "second in the profile."),
    Row("Segments through Spark, rows/s on two threads", ">= 500,000",
        cells.spark, cells.none,
        "The reader's own rate (profile) is the ceiling; Spark starts a Python worker a task, "
        "and driver and JVM share the two processors with the two readers."),
    Row("Instructions per stored QoS 1 message with its PUBACK, 32-bit",
        "below umqtt.robust's, which stores nothing", cells.stored_instructions,
        cells.robust_instructions,
        "umqtt.robust builds a packet and waits in a blocking read. Here the message is also "
        "made a record: composed, its CRC taken over every byte, programmed, read back; and a "
        "client that never blocks comes back for the PUBACK in a poll of its own. The profile is "
        "what is left, call by call; the chip's driver in Python is in it."),
    Row("Cycles of the RP2040 (emulated, 125 MHz) a message, flash time apart: "
        "QoS 0, QoS 1 with its PUBACK",
        "<= 36,000; in RAM <= 88,500; stored <= 151,000",
        cells.chip(cells.CHIP_GOALS), cells.chip_peers,
        "Look-ups of attributes and calls of methods, not bytes moved: the profile is of the "
        "same run, call by call."),
    Row("Cycles of the RP2040 a value of a series of 60 samples of three: stored at once, closed, "
        "sent, acknowledged; flash time apart", "<= 20,000",
        series_cells.cycles_a_value, series_cells.cycles_of_messages,
        "A third of a sample's program call, which is 24,700 cycles in the port itself, is in each "
        "value. The rest is add(), and the samples gathered from their record when it is sent: in "
        "the profile, a call each."),
    Row("Cycles of the RP2040 of a poll that finds nothing",
        "<= 6,000 in the same ms and in a new one", cells.chip(cells.CHIP_IDLE_GOALS),
        cells.none,
        "Each duty of a poll (stream, answers, outbox, deadlines) is a look-up and a call though "
        "there is nothing to do."),
    Row("From power on to the first message stored, RP2040 (emulated), 64 blocks, as files",
        "<= 0.8 s", cells.chip_start, cells.none,
        "Of the cycles, a third are littlefs, which finds a file by reading its folder's log, four "
        "times for each of 46 modules. A fifth are names: the interpreter looks for each among all "
        "that it has. main.py is compiled: a twentieth."),
    Row("The same, frozen into the image", "<= 0.25 s", cells.chip_start_frozen, cells.none,
        "What is left is the pinned blocks compared with their files and the outbox mounted."),
    Row("Growth: a message's cost in backlog, blocks, window; in RAM by payload",
        "flat; linear with a memory copy's slope", cells.grows, cells.none,
        "What is not as it should be is marked. A payload in RAM is copied twice: into its slot, "
        "where it stays until it is acknowledged, and into the packet that one write sends."),
    Row("Growth: a stored message's cost by payload", "linear with a memory copy's slope",
        cells.stored_grows, cells.none,
        "It is a line, but steeper than a copy: a stored byte is copied into the record, goes "
        "through the CRC as it is composed and again as it is read back, and through the chip's "
        "program and read. The CRC is what shows a torn record after a power cut; its slope "
        "stands in the profile."),
)  # fmt: skip
