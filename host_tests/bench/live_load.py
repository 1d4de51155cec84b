"""The live page under load: mosquitto, collector, `outpost live` and Chromium; every board sends a
message of ten values per second. Prints CPU and memory of server and browser, and the time from a
publish to the value in the page.

    python host_tests/bench/live_load.py [--boards 400] [--seconds 60]

Without Chromium (CHROMIUM=its path) only the server is measured, with a reader of its events. A
probe board sends each second. Its messages carry a number, and the page itself times when that
appears, in the animation frame that writes it; all clocks are of one machine.

On 2 cores, which were also used for other work:

                                    3 boards               400 boards, 4,000 values/s
    server                          1 % of a core, 27 MiB  19 % of a core, 164 MiB
    browser                         4 % of a core, 398 MiB 16 % of a core, 449 MiB
    publish to the page, median     114 ms                 953 ms
    95 % within                     234 ms                 1,721 ms

With more than 500 changed sensors, the page is updated once a second; with fewer, five times. Cards
that are out of sight are not drawn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path[:0] = paths.ALL

import browser_rig  # noqa: E402
import collector_load as load  # noqa: E402
from collector_process import Process  # noqa: E402
from live_server import Server, payload  # noqa: E402
from outpost_tools.loopback.broker import Broker  # noqa: E402
from process_tree import own_cpu_s, pss_bytes  # noqa: E402

VALUES = 10
_WATCH = """
window.seen = [];
new MutationObserver(() => {
  const cell = document.querySelector('[data-name=probe] .value');
  const now = performance.timeOrigin + performance.now();
  if (cell) window.seen.push([Number(cell.textContent), now]);
}).observe(document.getElementById('cards'), {subtree: true, childList: true, characterData: true});
0
"""


class Fleet(threading.Thread):
    """Sends a message of every board each second, spread over the second; sent_ms: of the probe."""

    def __init__(self, port: int, boards: int) -> None:
        super().__init__(daemon=True)
        self._publisher = load.Publisher(port, "fleet")
        self._boards = boards
        self.over = threading.Event()
        self.sent_ms: dict[int, float] = {}
        self.messages = 0

    def run(self) -> None:
        number, begin = 0, time.monotonic()
        while not self.over.is_set():
            for tenth in range(10):
                part = self._part(number, tenth)
                if tenth == number % 10:
                    part.append(self._probe(number))
                self._publisher.publish(part)
                self.messages += len(part)
                due = begin + number + (tenth + 1) / 10
                self.over.wait(max(due - time.monotonic(), 0))
            number += 1

    def _part(self, number: int, tenth: int) -> list[tuple[bytes, bytes]]:
        now, part = time.time(), []
        for board in range(tenth, self._boards, 10):
            records = [(f"value-{k}", "Cel", (number * (k + 3) + board) % 97 / 4)
                       for k in range(VALUES)]  # fmt: skip
            name = f"board-{board:03d}"
            data = payload(name, number, records, time_s=now, held=number)
            part.append((load.topic_of(name), data))
        return part

    def _probe(self, number: int) -> tuple[bytes, bytes]:
        data = payload("probe", number, [("number", "", number)], time_s=time.time(), held=number)
        self.sent_ms[number] = time.time() * 1000
        return load.topic_of("probe"), data


class Watch:
    """Measures CPU and memory of processes, from its construction on."""

    def __init__(self, processes: list[psutil.Process]) -> None:
        self._processes, self._began = processes, time.monotonic()
        self._before = self._cpu_s()

    def _cpu_s(self) -> float:
        return sum(map(own_cpu_s, filter(psutil.Process.is_running, self._processes)))

    def told(self) -> str:
        share = (self._cpu_s() - self._before) / (time.monotonic() - self._began)
        return f"{share:6.0%} of a core, {pss_bytes(self._processes) / 2**20:5.0f} MiB"


def measured(boards: int, seconds: float) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker("mosquitto", folder / "broker"))
        collector = stack.enter_context(Process(folder, broker.port))
        server = stack.enter_context(Server(collector.log, folder))
        fleet = Fleet(broker.port, boards)
        fleet.start()
        stack.callback(fleet.over.set)
        server.wait_for('data-name="probe"')
        browser = _browser(stack, folder, server)
        watches = _watches(server, browser)
        before, begin = fleet.messages, time.monotonic()
        while time.monotonic() - begin < seconds:
            time.sleep(2)
            if browser is not None:
                browser.ask("0")  # also takes in the page's network activity
        rate = (fleet.messages - before) * VALUES / (time.monotonic() - begin)
        print(f"{boards} boards, {rate:,.0f} values/s, {seconds:.0f} s")
        for name, watch in watches.items():
            print(f"  {name:8} {watch.told()}")
        if browser is not None:
            _tell_delays(json.loads(browser.ask("JSON.stringify(window.seen)")), fleet.sent_ms)
            assert browser.errors == [], browser.errors
    return 0


def _browser(stack: ExitStack, folder: Path, server: Server) -> browser_rig.Browser | None:
    command = browser_rig.find()
    if command is None:
        print("no Chromium: apt-get install chromium, or its path in CHROMIUM")
        return None
    browser = stack.enter_context(browser_rig.Browser(command, folder / "chromium"))
    browser.load(server.url, 1280, 900)
    browser.wait_for("document.getElementById('link').dataset.state === 'here'")
    time.sleep(5)  # until the history is read and the cards are in order
    browser.ask("document.querySelector('[data-name=probe]').scrollIntoView({block: 'center'})")
    browser.ask(_WATCH)
    return browser


def _watches(server: Server, browser: browser_rig.Browser | None) -> dict[str, Watch]:
    found = {"server": Watch([psutil.Process(server.process.pid)])}
    if browser is not None:
        own = psutil.Process().children(recursive=True)
        found["browser"] = Watch([one for one in own if "chrom" in one.name()])
    return found


def _tell_delays(seen: list[list[float]], sent_ms: dict[int, float]) -> None:
    first: dict[int, float] = {}
    for number, at_ms in seen:
        first.setdefault(int(number), at_ms)
    delays = sorted(at - sent_ms[number] for number, at in first.items() if number in sent_ms)
    late = delays[min(len(delays) * 95 // 100, len(delays) - 1)]
    print(
        f"  publish to page, {len(delays)} times: median {statistics.median(delays):.0f} ms, "
        f"95 % within {late:.0f} ms, at most {delays[-1]:.0f} ms"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--boards", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    return measured(args.boards, args.seconds)


if __name__ == "__main__":
    sys.exit(main())
