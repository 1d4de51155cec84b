"""Many boards in collector mode, cheaply: a thread that publishes on one raw connection, receives
the words, and sends again.

What a board does (firmware/outpost/durable.py), without its flash: numbers are kept until a word
confirms them; what stays unconfirmed for RESEND_S is sent again from the first such number on.
Every message carries the oldest number held.
"""

from __future__ import annotations

import random
import threading
import time

import paho.mqtt.client as mqtt

import collector_load as load

RESEND_S = 3.0
DUPLICATES = 0.05
_PART = 200


class Boards:
    """`count` devices, `messages` in all, a share of them twice. `allowed`: that many may be
    published by now.

    `sent[device]`: the payloads, by number; their times begin at `start_s`.
    """

    def __init__(
        self, port: int, *, count: int, messages: int, seed: int = 1, start_s: int = load.START_S
    ) -> None:
        self.allowed = 0
        self._port, self._messages, self._start_s = port, messages, start_s
        self._rng = random.Random(seed)
        self.devices = [f"device-{n:05d}" for n in range(count)]
        self.sent: dict[str, list[bytes]] = {device: [] for device in self.devices}
        self._words = dict.fromkeys(self.devices, -1)
        self._progress_at = dict.fromkeys(self.devices, 0.0)
        self.words_seen = self.word_bytes = 0
        self.resent = self.published = 0
        self.failure: BaseException | None = None
        self._lock = threading.Lock()
        self._publishing, self._ending = threading.Event(), threading.Event()
        self._publishing.set()
        self._publisher: load.Publisher | None = None
        # sent, and not acknowledged: a part goes again as a whole
        self._open: list[tuple[bytes, bytes]] = []
        self._threads = [threading.Thread(target=self._run, daemon=True)]
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"words-{seed}")
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: client.subscribe("outpost/+/durable", qos=0)
        self._client.on_message = self._word

    def __enter__(self) -> Boards:
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(30)
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def is_publishing(self) -> bool:
        """False when every message was sent once."""
        return self._publishing.is_set()

    def words(self) -> dict[str, int]:
        """A copy: what was confirmed to each device."""
        with self._lock:
            return dict(self._words)

    def unconfirmed(self) -> int:
        words = self.words()
        return sum(len(sent) - 1 - words[device] for device, sent in self.sent.items())

    def payloads(self) -> set[bytes]:
        return {data for sent in self.sent.values() for data in sent}

    def _word(self, _client, _userdata, message) -> None:
        device = message.topic.split("/")[1]
        stream, number, *beyond = message.payload.split()
        if beyond or device not in self._words or stream.decode() != load.stream_of(device):
            return
        with self._lock:
            self.words_seen += 1
            self.word_bytes += len(message.topic) + len(message.payload) + 4
            if int(number) > self._words[device]:
                self._words[device] = int(number)
                self._progress_at[device] = time.monotonic()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._step()
            # the broker was killed; what it had not acknowledged goes again, as from a board
            except OSError:
                self._publisher = None
                time.sleep(0.1)
            except BaseException as error:
                self.failure = error
                raise

    def _step(self) -> None:
        part = self._open
        if not part:
            part = self._fresh() + self._overdue()
        if not part:
            time.sleep(0.02)
            return
        self._open = part
        if self._publisher is None:
            self._publisher = load.Publisher(self._port)
        self._publisher.publish(part)
        self.published += len(part)
        self._open = []

    def _fresh(self) -> list[tuple[bytes, bytes]]:
        done = sum(map(len, self.sent.values()))
        part = []
        for number in range(done, min(done + _PART, self.allowed, self._messages)):
            device = self.devices[number % len(self.devices)]
            part.append(self._message(device, len(self.sent[device])))
            if self._rng.random() < DUPLICATES:
                last = len(self.sent[device]) - 1
                part.append(self._message(device, self._rng.randint(max(0, last - 20), last)))
        if done >= self._messages:
            self._publishing.clear()
        return part

    def _message(self, device: str, seq: int) -> tuple[bytes, bytes]:
        sent = self.sent[device]
        if seq == len(sent):
            held = min(self._words[device] + 1, seq)
            said = {"held": held, "start_s": self._start_s}
            sent.append(load.payload(device, seq, self._rng, **said))
            self._progress_at[device] = (
                self._progress_at[device] if held < seq else time.monotonic()
            )
        return load.topic_of(device), sent[seq]

    def _overdue(self) -> list[tuple[bytes, bytes]]:
        now, part = time.monotonic(), []
        words = self.words()
        for device, sent in self.sent.items():
            if words[device] + 1 < len(sent) and now - self._progress_at[device] > RESEND_S:
                self._progress_at[device] = now
                part += [(load.topic_of(device), data) for data in sent[words[device] + 1 :]]
        self.resent += len(part)
        return part
