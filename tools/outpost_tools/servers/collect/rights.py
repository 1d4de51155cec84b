"""May this user write confirmations? MQTT 3.1.1 has no answer for a denied PUBLISH: brokers
acknowledge it and discard it, and the boards keep everything until their flash is full.

So the collector tries at its start, on a separate connection with a clean session: it publishes a
marker on the confirmation topic of a device that cannot exist (its name has a "~"), and the marker
must come back.
"""

from __future__ import annotations

import paho.mqtt.client as mqtt

from outpost_tools.servers.collect.place import Question

_SO = (
    "so no board may get its confirmation: each keeps all that it measures, until its flash is "
    "full. "
)
_GRANT = "Grant it, or use credentials of `outpost broker add DIR --collector NAME`"
NO_ECHO = (
    "what was sent to {topic} did not come back: user {user} may not write {filter} (or not read "
    "it), " + _SO + _GRANT
)
NO_READ = (
    "user {user} may not read {filter}, so it is not known whether it may write there, which it "
    "must. " + _GRANT
)


class RightsQuestion(Question):
    """ask() returns 1, or None when the marker does not come back, after printing why."""

    answer_s = 3.0
    suffix = "rights"

    def __init__(self, address, collector, prefix, *, credentials=None, **security) -> None:
        super().__init__(address, collector, prefix, credentials=credentials, **security)
        self.topic = f"{prefix}/{collector}~{self.suffix}/durable"
        self._marker += b" 0"  # looks like a confirmation, since others subscribe to all of them
        self._words = {
            "topic": self.topic,
            "filter": f"{prefix}/+/durable",
            "user": repr(credentials[0]) if credentials else "(none)",
        }
        self._complaint = NO_ECHO

    def _on_message(self, client: mqtt.Client, userdata, message: mqtt.MQTTMessage) -> None:
        super()._on_message(client, userdata, message)
        if self._is_answered:
            self._number = 1

    def _on_subscribe(self, client, userdata, packet_id, reasons, properties) -> None:
        if any(reason.is_failure for reason in reasons):
            self._complaint = NO_READ
            self._asked_at = float("-inf")  # nothing will come

    def _complain(self) -> None:
        self._say(self._complaint.format(**self._words))
