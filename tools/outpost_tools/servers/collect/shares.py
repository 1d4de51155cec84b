"""Does this broker have shared subscriptions? NATS 2.15 grants `$share/...` as it grants any topic,
and then never delivers anything on it.

Asked at the start, on a separate connection with a clean session: our own marker must come back on
a shared subscription that nobody else has.
"""

from __future__ import annotations

import paho.mqtt.client as mqtt

from outpost_tools.servers.collect.place import Question

WARNING = (
    "nothing came back on a shared subscription: does this broker have none (NATS), or may this "
    "user not read and write {topic}? Without shared subscriptions no message will come: leave "
    "--share out"
)


class ShareQuestion(Question):
    """ask() returns 1, or None when the marker does not come back."""

    answer_s = 3.0
    suffix = "share"
    place = ".share"  # no group begins with a full stop

    def _subscribe(self, client: mqtt.Client) -> None:
        if client.subscribe(f"$share/{self._collector}/{self.topic}", qos=0)[1] is None:
            self._asked_at = float("-inf")  # it says that it has none
        client.publish(self.topic, self._marker)

    def _on_message(self, client: mqtt.Client, userdata, message: mqtt.MQTTMessage) -> None:
        super()._on_message(client, userdata, message)
        if self._is_answered:
            self._number = 1

    def _complain(self) -> None:
        self._say(WARNING.format(topic=self.topic))
