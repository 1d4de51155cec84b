"""The collector's single thread, and the order that its promise rests on: add, commit, PUBACK,
confirm.

Nothing is acknowledged before it is durable (log.py). When the storage refuses (full, broken, or
out of reach), the collector keeps what it has taken, takes no more, and retries. The broker's
queue, and beyond it the boards' flash, hold the rest.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from outpost_tools.log import collector_notes
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.confirm import INTERVAL_S, Pacing
from outpost_tools.servers.collect.durable import MAX_STREAMS
from outpost_tools.servers.collect.exchange import Exchange
from outpost_tools.servers.collect.health import Health
from outpost_tools.servers.collect.link import Link
from outpost_tools.servers.collect.log import Log, Stored
from outpost_tools.servers.collect.metrics import Metrics
from outpost_tools.servers.collect.notes import Notes
from outpost_tools.servers.collect.oddities import TOLD_DEVICES
from outpost_tools.servers.collect.place import Question, check, topic_of
from outpost_tools.terminal.ending import Ending

DISK_RETRY_S = 1.0
_POLL_S = 0.01  # while the log stores in the background and nothing else can be done
# At the end: how long the last acknowledgements and confirmations may wait for a broker that does
# not read.
DRAIN_S = 2.0
# A session being retired counts as empty when nothing has arrived for this long.
RETIRE_QUIET_S = 2.0
# This many devices get a line for sending on too many streams; the counter counts all of them.
SILENCE_S = 60.0

if TYPE_CHECKING:
    from outpost_tools.servers.collect.reach import Reach  # which needs packages

Pair = tuple[str, bytes]  # topic, payload
Told = tuple[bytes | None, bytes | None]  # confirmation, gap report


class Collector:
    """Runs until `ending` is set (by a signal), then drains and seals.

    exchange: talks to the other collectors of a shared subscription; None: we see every message.
    question: how far this id's log had got, see place.py; None: start without asking.
    share_question: does the broker have shared subscriptions? see shares.py. rights_question: may
    we write confirmations? see rights.py. is_queued: the broker keeps no retained messages, it
    queues confirmations for the boards' sessions. reach: of the tables that confirmations wait for;
    None: they wait for the log alone.
    """

    def __init__(
        self,
        log: Log,
        link: Link,
        metrics: Metrics,
        *,
        prefix: str,
        quiet: bool,
        confirm_seconds: float = INTERVAL_S,
        exchange: Exchange | None = None,
        question: Question | None = None,
        share_question: Question | None = None,
        rights_question: Question | None = None,
        is_queued: bool = False,
        reach: Reach | None = None,
        health: Health | None = None,
    ) -> None:
        self._log = log
        self._health = health or Health()
        self._link = link
        self._metrics = metrics
        self._prefix = prefix
        self._quiet = quiet
        self._exchange = exchange
        self._question = question
        self._share_question = share_question
        self._rights_question = rights_question
        self._began_at, self._told_silence = time.monotonic(), False
        self._place = topic_of(prefix, log.collector)
        self._notes = Notes(log, prefix)
        self._told = -1  # the segment number that the broker remembers
        self._is_queued, self._reach = is_queued, reach
        self._repeats: set[str] = set()  # devices to confirm again, even if nothing is new
        self._last_told: dict[str, Told] = {}  # queued: what each device was told last
        self._pacing = Pacing(confirm_seconds)
        self.ending = Ending()
        self._cannot_seal = self._is_damaged = self._may_not_confirm = False
        self._told_forgotten: set[str] = set()
        self._last_message_at = self._began_at

    def run(self) -> int:
        """0 after an orderly end; 1 when messages that were taken could not be stored (the broker
        still has them), the log was found damaged, or this machine's clock was wrong.

        Raises ToolError, before anything was taken, when the log is older than the one that the
        broker remembers.
        """
        self._check_place()
        while not self.ending.is_set():
            if not self._step(self._wait_s()):
                return 1
            if self._metrics.is_due:
                self._sum_up()
        return self._drain() or int(self._is_in_doubt)

    def retire(self) -> int:
        """As run(), but take no new messages, and end when the broker holds none for us any
        more."""
        self._check_place()
        while not self.ending.is_set() and not self._is_empty():
            if not self._step(INTERVAL_S):
                return 1
        status = self._drain()
        if status == 0 and not self.ending.is_set() and not self._link.give_up_session():
            status = 1
        return status or int(self._is_in_doubt)

    @property
    def _is_in_doubt(self) -> bool:
        clock = self._link.clock
        return self._is_damaged or (clock is not None and clock.was_wrong)

    def _check_place(self) -> None:
        self._tell_damage()
        if self._share_question is not None:
            self._share_question.ask(self.ending)  # the question prints what is wrong
        if self._rights_question is not None:
            is_answered = self._rights_question.ask(self.ending) is not None
            self._may_not_confirm = not is_answered and not self.ending.is_set()
        if self._question is not None:
            remembered = self._question.ask(self.ending)
            if not self.ending.is_set() and (
                warning := check(self._log.place, self._log.stored_through, remembered)
            ):
                self._say(warning)
        self._health.ready()

    def _tell_place(self) -> None:
        """Before the PUBACKs: if the disk is taken away after them, the broker already knows."""
        if self._is_queued:
            return
        if self._link.connected and self._log.stored_through > self._told:
            self._told = self._log.stored_through
            self._link.publish([(self._place, b"%d" % self._told)])

    def _is_empty(self) -> bool:
        is_waiting = self._log.held or self._log.admission.waiting_segments
        if not self._link.connected or is_waiting:
            self._last_message_at = time.monotonic()
        return time.monotonic() - self._last_message_at > RETIRE_QUIET_S

    def _wait_s(self) -> float:
        if not self._link.connected:
            return INTERVAL_S
        now = time.monotonic()
        wait_s = self._pacing.wait_s(now)
        return (
            wait_s if self._exchange is None else min(wait_s, max(self._exchange.wait_s(now), 0.01))
        )

    def _step(self, wait_s: float, *, at_once: bool = False) -> bool:
        """Take what has arrived and process it; False when it could not be stored and the end was
        requested. at_once: leave nothing in memory."""
        self._health.turned()
        batch = self._take(wait_s)
        self._health.tell("broker", None if self._link.connected else "not connected to the broker")
        if batch:
            self._last_message_at = time.monotonic()
            self._log.add(batch)
        if not self._commit(at_once=at_once):
            return False
        self._listen()
        self._admit()
        self._seal()
        self._confirm()
        self._check_log(is_idle=not batch)
        return True

    def _take(self, wait_s: float) -> Batch:
        if self._log.is_full:
            self._idle()
            return Batch(0)
        return self._link.take(min(wait_s, self._log.wait_s))

    def _idle(self) -> None:
        """Waits for the log, without reading."""
        self._health.turned()
        self._link.idle()
        time.sleep(_POLL_S)

    def _commit(self, *, at_once: bool = False) -> bool:
        """Processes what has become durable. If the storage refuses, retries indefinitely, unless
        asked to end; then returns False. at_once: returns when nothing is held."""
        is_refused = False
        while True:
            try:
                stored = self._log.commit(at_once=at_once or is_refused)
            except OSError as error:
                self._tell_refusal(error, is_first=not is_refused)
                is_refused = True
                if self.ending.wait(DISK_RETRY_S):
                    self._say_unstored()
                    return False
                self._health.turned()
                self._link.idle()
                continue
            if stored is not None:
                self._stored(stored, was_refused=is_refused)
                is_refused = False
            if not is_refused and not (at_once and self._log.held):
                return True
            if is_refused and self.ending.is_set():
                self._say_unstored()
                return False
            self._idle()

    def _tell_refusal(self, error: OSError, *, is_first: bool) -> None:
        self._metrics.errors.labels("write").inc()
        reason = f"cannot write {self._log.place}: {error}"
        if is_first:
            self._say(f"{reason}; acknowledging nothing until it can be written")
        self._health.tell("disk", reason)
        self._metrics.unstored.set(self._log.held_messages)

    def _say_unstored(self) -> None:
        self._say(
            f"{self._log.held_messages} messages neither stored nor acknowledged; the broker "
            "keeps them"
        )

    def _stored(self, stored: Stored, *, was_refused: bool) -> None:
        """PUBACK and confirmation, now that these are durable."""
        if was_refused:
            self._say("writing again")
            self._metrics.unstored.set(0)
        self._health.tell("disk", None)
        self._tell_place()
        messages = length = 0
        for batch in stored.batches:
            self._link.ack(batch)
            self._mark_repeats(self._log.learn(batch))
            messages += 0 if batch.is_note else len(batch.frames)
            length += batch.frame_bytes
        if self._link.clock is not None:
            self._link.clock.stored(messages)
        if messages:
            self._metrics.stored(messages, length, stored.seconds)
            self._last_message_at = time.monotonic()

    def _admit(self) -> None:
        """Process how far the tables have got."""
        if self._reach is None:
            return
        self._mark_repeats(self._reach.admit())
        if self._log.admission.take_withdrawn() and self._exchange is not None:
            self._exchange.say_everything()

    def _mark_repeats(self, devices: set[str]) -> None:
        """Their messages have become durable, maybe not for the first time."""
        self._repeats |= devices
        for device in devices:
            self._mark(device)

    def _mark(self, device: str) -> None:
        """This device has news. We may not know yet which collector has to confirm it."""
        if self._exchange is None or self._exchange.is_ours(device):
            self._pacing.mark(device)

    def _mark_all(self) -> None:
        for device in self._log.durable.devices():
            self._mark(device)

    def _listen(self) -> None:
        """Process the statements of the other collectors."""
        if self._exchange is None:
            return
        now = time.monotonic()
        refused = self._exchange.refused
        everybody = self._exchange.look_round(now)
        for collector, data in self._link.take_statements():
            changes = self._exchange.heard(collector, data, now)
            everybody = everybody or changes.everybody
            self._repeats |= changes.devices
            for device in changes.devices:
                self._mark(device)
        self._metrics.errors.labels("statement").inc(self._exchange.refused - refused)
        if everybody:
            self._mark_all()

    def _speak(self, *, everything: bool = False) -> None:
        """Publish our statements to the other collectors."""
        if self._exchange is not None:
            for statement in self._exchange.due(time.monotonic(), everything=everything):
                self._link.state(statement)
                self._metrics.statements.inc()

    def _seal(self) -> None:
        try:
            self._log.tidy()
        except OSError as error:
            # Nothing is lost: the messages are durable, only not yet visible to readers. The next
            # step retries.
            self._metrics.errors.labels("seal").inc()
            if not self._cannot_seal:
                self._say(f"cannot seal in {self._log.place}: {error}")
            self._health.tell("seal", f"cannot seal in {self._log.place}: {error}")
            self._cannot_seal = True
            self.ending.wait(DISK_RETRY_S)
        else:
            self._cannot_seal = False
            self._health.tell("seal", None)

    def _confirm(self, *, everything: bool = False) -> None:
        if not self._link.connected:
            return
        if self._link.fresh:
            # A broker that was killed may have forgotten retained messages, or returned to older
            # ones.
            self._link.fresh = False
            self._told = -1
            self._tell_place()
            self._metrics.connections.inc()
            self._mark_all()
        confirmations, reports = self._due_confirmations(everything=everything)
        self._link.publish(confirmations)
        self._link.publish(reports, retain=False)
        self._metrics.confirmations.inc(len(confirmations))
        self._speak(everything=everything)

    def _due_confirmations(self, *, everything: bool) -> tuple[list[Pair], list[Pair]]:
        """Confirmations and gap reports (durable.py). A device gets the same ones again when it
        retransmitted a message, which is how it asks. Otherwise a retained message is renewed, but
        a queue of identical confirmations would help nobody.
        """
        confirmations, reports = [], []
        durable = self._log.durable
        for device in self._pacing.due(time.monotonic(), everything=everything):
            said = confirmation, report = durable.confirmation(device), durable.gap_report(device)
            is_known = self._last_told.get(device) == said and device not in self._repeats
            self._repeats.discard(device)
            if is_known:
                continue
            if self._is_queued:
                self._last_told[device] = said
            topic = f"{self._prefix}/{device}/durable"
            if confirmation is not None:
                confirmations.append((topic, confirmation))
            if report is not None:
                reports.append((topic, report))
        return confirmations, reports

    def _drain(self) -> int:
        """Send the last confirmations, then end cleanly.

        What arrives meanwhile is stored like everything else.
        """
        if not self._commit(at_once=True):
            return 1
        until = time.monotonic() + DRAIN_S
        self._confirm(everything=True)
        while (
            self._link.connected and not self._link.everything_written and time.monotonic() < until
        ):
            if not self._step(0.05, at_once=True):
                return 1
        if self._exchange is not None and self._link.connected:
            self._speak(everything=True)
            self._link.state(self._exchange.farewell)
        self._link.close()
        if self._reach is not None:
            self._reach.close()
        self._keep_notes()
        while not self._log.is_checked and time.monotonic() < until:
            self._log.check_one()
        self._tell_damage()
        try:
            self._log.close()
        except OSError as error:
            self._say(f"cannot seal in {self._log.place}: {error}; the next start will")
            return 1
        self._sum_up(last=True)
        return 0

    def _keep_notes(self) -> None:
        clock, link = self._link.clock, self._link
        unset = clock is not None and clock.is_unset
        self._notes.keep(collector_notes.TAKEN_OVER, link.takeovers.count, clock_unset=unset)
        if clock is not None:
            clock.tell(self._say, self._health, self._metrics, self._notes)

    def _check_log(self, *, is_idle: bool) -> None:
        if self._log.is_check_due(is_idle=is_idle):
            self._log.check_one()
            self._tell_damage()

    def _tell_damage(self) -> None:
        for found in self._log.take_recovered():
            self._metrics.damaged.inc(found.messages)
            self._metrics.cut_bytes.inc(found.cut_bytes)
            self._is_damaged = self._is_damaged or bool(found.damage)
            self._say(str(found))

    def _tell_forgotten(self) -> None:
        for device, count in self._log.durable.take_forgotten().items():
            self._metrics.forgotten.inc(count)
            if device in self._told_forgotten or len(self._told_forgotten) >= TOLD_DEVICES:
                continue
            self._told_forgotten.add(device)
            self._say(
                f"{device} has sent on more than {MAX_STREAMS} streams, the oldest are forgotten: "
                "does it lose its outbox at each start, or do several boards use its name? Its "
                "messages are stored as before, its confirmations may be late (not said again)"
            )

    def _tell_silence(self) -> None:
        """Print a line, once, when no message has ever come: a broker with an ACL file grants
        subscriptions whose messages it will not deliver, and nothing else shows it."""
        is_new = self._last_message_at == self._began_at
        if self._told_silence or not is_new or time.monotonic() - self._began_at < SILENCE_S:
            return
        self._told_silence = True
        self._say(
            f"no message in {SILENCE_S:.0f} s: do boards publish to {self._prefix}/<board>/data at "
            "this broker, and may this user read it? (not said again)"
        )

    def _sum_up(self, *, last: bool = False) -> None:
        self._tell_damage()
        self._tell_forgotten()
        if not last:
            self._keep_notes()
            if self._link.connected:
                self._tell_silence()
        metrics, durable = self._metrics, self._log.durable
        metrics.connected.set(self._link.connected)
        metrics.socket_bytes.set(self._link.unread_bytes)
        metrics.unstored.set(self._log.held_messages)
        metrics.unsealed_bytes.set(self._log.unsealed_bytes)
        metrics.waiting_uploads.set(self._log.waiting_uploads)
        self._health.remark("upload", self._log.upload_trouble)
        metrics.waiting_segments.set(self._log.admission.waiting_segments)
        if self._reach is not None:
            self._health.remark("tables", self._reach.remark)
        metrics.unconfirmed.set(durable.unconfirmed())
        metrics.streams.set(durable.stream_count())
        metrics.takeovers.set(self._link.takeovers.count)
        metrics.lost_sessions.set(self._link.lost_sessions)
        metrics.expiring.set(self._link.oddities.expiring)
        for kind, count in self._link.foreign_dropped.items():
            metrics.foreign.labels(kind).set(count)
        metrics.rights_refused.set(self._link.refused + self._may_not_confirm)
        metrics.sum_up(connected=self._link.connected, quiet=self._quiet, last=last)

    def _say(self, text: str) -> None:
        print(f"{self._log.collector}: {text}", file=sys.stderr, flush=True)
