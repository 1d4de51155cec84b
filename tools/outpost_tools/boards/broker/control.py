"""The dynamic-security plugin of a running broker: commands on its control topic, each with its
answer. A command takes effect at once, and the plugin saves it to its file before it answers.
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from typing import Any

import paho.mqtt.client as mqtt

from outpost_tools.errors import ToolError
from outpost_tools.mqtt import causes, refusals
from outpost_tools.mqtt.credentials import Credentials

TOPIC = "$CONTROL/dynamic-security/v1"
ANSWER_S = 10.0
_STEP_S = 0.2
Command = dict[str, Any]


class NotRunning(ToolError):
    """Nothing listens at the broker's address."""


class Refused(ToolError):
    """The broker accepted the connection, but refused the command."""


class Control:
    """A connection as the administrator; a context manager. Raises ToolError."""

    def __init__(self, admin: Credentials) -> None:
        self._name = f"broker {admin.host}:{admin.port}"
        self._answers: dict[str, dict[str, Any]] = {}
        self._state = ""  # "": not yet connected; otherwise "in", or why not
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=admin.client_id)
        self._client.username_pw_set(*admin.login)
        context = admin.tls()
        self._place = causes.Place(admin.host, admin.port, context)
        self._client.tls_set_context(context)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        try:
            self._client.connect(admin.host, admin.port, keepalive=refusals.SHORT_KEEP_ALIVE_S)
        except ConnectionRefusedError:
            raise NotRunning(f"{self._name}: nothing listens there") from None
        except OSError as error:
            is_unknown = isinstance(error, socket.gaierror)
            how = " by `outpost broker init DIR --host ADDRESS`" if is_unknown else ""
            why = causes.of_error(error, self._place)
            raise ToolError(f"{self._name}: {why}{how}") from None

    def __enter__(self) -> Control:
        self._wait(lambda: self._state)
        if self._state != "in":
            raise ToolError(f"{self._name}: {self._state}")
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()

    def do(self, command: str, **fields: Any) -> dict[str, Any]:
        """The answer's data. Raises Refused, with the plugin's error."""
        mark = secrets.token_hex(4)
        asked = {"command": command, "correlationData": mark} | fields
        self._client.publish(TOPIC, json.dumps({"commands": [asked]}), qos=1)
        self._wait(lambda: mark in self._answers)
        answer = self._answers.pop(mark)
        if "error" in answer:
            raise Refused(f"{self._name}: {command}: {answer['error']}")
        return answer.get("data") or {}

    def bind(self, user: str) -> None:
        """Binds the user to a client identifier that is its name. The plugin then ends the user's
        connection, even if it is ours: the answer may not arrive."""
        asked = {"command": "setClientId", "username": user, "clientid": user}
        self._client.publish(TOPIC, json.dumps({"commands": [asked]}), qos=1)
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until and "" not in self._answers:
            if self._client.loop(_STEP_S) != mqtt.MQTT_ERR_SUCCESS:
                return

    def has(self, kind: str, name: str) -> bool:
        """kind: Client or Role."""
        try:
            self.do(f"get{kind}", **{"username" if kind == "Client" else "rolename": name})
        except Refused as error:
            if "not found" in str(error):
                return False
            raise
        return True

    def _wait(self, is_done) -> None:
        until = time.monotonic() + ANSWER_S
        while not is_done():
            if time.monotonic() > until or self._client.loop(_STEP_S) not in (
                mqtt.MQTT_ERR_SUCCESS,
                mqtt.MQTT_ERR_AGAIN,
            ):
                break
        if not is_done():
            why = "" if self._client.is_connected() else causes.of_end(self._place)
            if why:
                raise ToolError(f"{self._name}: {why}")
            raise ToolError(
                f"{self._name}: no answer from its dynamic-security plugin; was it started with "
                "the mosquitto.conf of this folder?"
            )

    def _on_connect(self, client: mqtt.Client, _userdata, _flags, reason, _properties) -> None:
        if reason.is_failure:
            why = refusals.why(reason, login="is admin.json the one of this broker?")
            self._state = f"refused the administrator: {why}"
        else:
            client.subscribe(f"{TOPIC}/response", qos=1)

    def _on_subscribe(self, _client, _userdata, _mid, reasons, _properties) -> None:
        refused = any(reason.is_failure for reason in reasons)
        self._state = "the administrator may not read the plugin's answers" if refused else "in"

    def _on_message(self, _client, _userdata, message: mqtt.MQTTMessage) -> None:
        try:
            for one in json.loads(message.payload)["responses"]:
                self._answers[one.get("correlationData", "")] = one
        except (ValueError, LookupError, TypeError, AttributeError):
            return
