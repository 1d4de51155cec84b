"""What happens to a board of the mixed hunt, and the checks.

For some time the weather is bad, and anything may happen that is in mixed_server.py and
_ACTIONS. Then the weather is good, and within CALM_MS all must be well:

- The outbox and its shelf are empty, and so is the server's queue for the client. No message is
  suspected any more.
- What publish() accepted with QoS 1 or 2 was delivered, unless the outbox drops or it may expire.
- No connection ended in PROTOCOL_ERROR: the server makes no mistakes.
- No QoS 2 message was delivered or handed over twice, as long as the server kept its session.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from fuzz_facts import require
from mixed_board import CONFIRMATION, FILTER, STREAM, Board
from outpost.status import CONNECTED, PROTOCOL_ERROR

CALM_MS = 3_600_000  # the longest backoff, shelf and deadlines fit; minutes are usual

_IDS = 65_535
_TOPIC = b"in/x"
_BAD_STEPS_MS, _CALM_STEPS_MS = (1, 3, 16, 16, 50, 200), (5, 16, 50)
_PAUSES_MS = (61_000, 3_600_000, 90_000_000)
_LEAVES = (0x89, 0x8B, 0x95, 0x97)  # reason codes of the server's DISCONNECT
_CONFIRMS = 0.05  # of the steps
_REPEATS = 0.1  # of the confirmations that say nothing new


class World(Board):
    """run() is one whole life."""

    def __init__(self, seed: int) -> None:
        Board.__init__(self, seed)
        self.offered: list[tuple[bytes, int]] = []  # payload and QoS, to the client
        self.calm_ms = 0  # until all was well
        self._confirmed = b""

    # --- What happens in bad weather ---

    def _add_sample(self) -> None:
        if "series" in self.choices.outbox:
            self.clock.now(self.now())
            sample = self.rng.randint(-3000, 3000), self.rng.choice((None, 5))
            self.series.add(self.clock, sample)

    def _close_series(self) -> None:
        if "series" in self.choices.outbox:
            self.series.close()

    def _change_filter(self) -> None:
        if not hasattr(self.session, "subscribe"):
            return
        name = b"in/" + self.rng.choice((b"a", b"b", b"c", b"d"))
        if self.weather.chance(0.6):
            self.session.subscribe(name, 1)
        else:
            self.session.unsubscribe(name)

    def _offer(self) -> None:
        """The server has a message for the client."""
        granted = self.server.filters().get(FILTER)
        if granted is None:
            return
        qos = min(self.rng.choice((0, 1, 2)), granted)
        payload = self.payload((0, 5, 30, 100, 400))
        self.offered.append((payload, qos))
        self.server.say(_TOPIC, payload, qos)

    def _close(self) -> None:
        self.client.close()

    def _cut_power(self) -> None:
        """Cut the power between two operations of flash."""
        if self.flash:
            self.server.hang_up()
            self.boot()

    def _pause(self) -> None:
        self.weather.sleep_us(self.rng.choice(_PAUSES_MS) * 1000)

    def _end_connection(self) -> None:
        if self.server.connection:
            self.server.connection.close()

    def _kill_path(self) -> None:
        if self.server.connection:
            self.server.connection.stream.is_dead = True

    def _server_leaves(self) -> None:
        if self.server.is_up() and self.choices.level == 5:
            self.server.connection.close(self.rng.choice(_LEAVES))

    # --- The collector ---

    def _confirm(self) -> None:
        seq = self._last_durable()
        payload = STREAM + b" %d" % seq
        if seq < 0:
            return
        if self.choices.kind == "durable":
            self.server.say(CONFIRMATION, payload, 0, retain=True)
        elif CONFIRMATION in self.server.filters():
            is_new = payload != self._confirmed or self.weather.chance(_REPEATS)
            if is_new and payload not in self.server.queued():
                self._confirmed = payload
                self.server.say(CONFIRMATION, payload, 1)

    def _last_durable(self) -> int:
        """Returns the number of the last held message that has arrived with all before it; -1:
        none. Its identifier implies the number."""
        outbox, last = self.outbox, -1
        arrived = {packet_id for _, _, _, qos, packet_id, _, _ in self.server.came if qos}
        for seq in range(outbox.oldest_seq, outbox.next_seq):
            if seq % _IDS + 1 in arrived:
                last = seq
            elif not outbox.aside or not outbox.shelf().has(seq):
                break
        return last

    # --- A run ---

    def _step(self) -> None:
        is_bad = self.weather.is_bad
        self.weather.sleep_us(self.rng.choice(_BAD_STEPS_MS if is_bad else _CALM_STEPS_MS) * 1000)
        if is_bad:
            action = self.rng.choices(_EVENTS, cum_weights=_CUMULATED)[0]
            if action:
                action(self)
        if self.choices.collects() and self.weather.chance(_CONFIRMS):
            self._confirm()
        for _ in range(self.rng.choice((1, 3))):
            self.client.poll(self.now())
        require(self.client.last_error != PROTOCOL_ERROR, "PROTOCOL_ERROR")

    def _is_well(self) -> bool:
        is_empty = self.client.is_drained() and not self.outbox.aside and not self.server.queued()
        return is_empty and not self.session.suspects and self.session.state == CONNECTED

    def run(self, steps: int) -> None:
        """Raises Violation."""
        for _ in range(steps):
            self._step()
        self.weather.is_bad = False
        self._close_series()
        self._end_connection()
        start_ms = self.weather.now_ms()
        while not self._is_well() and self.calm_ms < CALM_MS:
            self._step()
            if self.session.suspects:
                self.session.suspects.retry()
            self.calm_ms = self.weather.now_ms() - start_ms
        self._check()

    def _check(self) -> None:
        outbox, session = self.outbox, self.session
        held = outbox.next_seq - outbox.oldest_seq
        require(
            self._is_well(),
            "not well after an hour: %d held, %d aside, %d for the client, state %d, last error %d",
            held, outbox.aside, len(self.server.queued()), session.state, self.client.last_error,
        )  # fmt: skip
        arrived = Counter(arrival[2] for arrival in self.server.came)
        missing = [payload for payload in self.accepted if payload not in arrived]
        require(self.choices.may_lose() or not missing, "lost: %r", missing)
        if self.choices.keeps_inbound() and not self.server.sessions_lost:
            sent = [payload for payload, qos in self.accepted.items() if qos == 2]
            twice = [payload for payload in sent if arrived[payload] > 1]
            require(not twice, "delivered twice: %r", twice)
            handed = Counter(self.handed)
            offered = [payload for payload, qos in self.offered if qos == 2]
            twice = [payload for payload in offered if handed[payload] > 1]
            require(not twice, "handed over twice: %r", twice)


_ACTIONS = (
    (World.publish, 0.1),
    (World._add_sample, 0.02),
    (World._close_series, 0.005),
    (World._change_filter, 0.025),
    (World._offer, 0.02),
    (World._close, 0.002),
    (World._cut_power, 0.003),
    (World._pause, 0.002),
    (World._end_connection, 0.003),
    (World._kill_path, 0.002),
    (World._server_leaves, 0.002),
)
_EVENTS = (*(action for action, _ in _ACTIONS), None)
_CUMULATED = (*accumulate(share for _, share in _ACTIONS), 1.0)
