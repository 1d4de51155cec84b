"""One attempt to send a message: by webhook, by e-mail, to a command, by apprise. Messages go only
where the user said: no redirect is followed, and no proxy is used (but see apprise below). If TLS
is used and the certificate does not verify, nothing is sent.

The text of a failure says what failed and why. It contains no secret: neither path nor query of a
URL, and no password, not even one in the peer's answer.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import smtplib
import socket
import ssl
import subprocess
import urllib.parse
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate

from outpost_tools.servers.alerts import services
from outpost_tools.servers.alerts.deadline import within
from outpost_tools.servers.alerts.recipients import Channel, Command, Email, Service, Webhook
from outpost_tools.servers.alerts.text import Message
from outpost_tools.text.visible import visible

STEP_S = 15.0  # the longest wait for a byte
ALL_S = 45.0  # the limit of the whole attempt
_MOST_ANSWER = 200


class Failed(Exception):
    """str() is the reason in words."""


def send(channel: Channel, message: Message) -> str:
    """Sends the message. Returns a note about it, usually "". Raises Failed."""
    if isinstance(channel, Webhook):
        return _post(channel, message)
    if isinstance(channel, Email):
        return _mail(channel, message)
    if isinstance(channel, Service):
        return _serve(channel, message)
    return _run(channel, message)


# --- Webhook ---


def _post(hook: Webhook, message: Message) -> str:
    parts = urllib.parse.urlsplit(hook.url)
    link = _link(hook, parts)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kind, body = _body(hook, message)
    headers = {"Content-Type": kind, "User-Agent": "outpost", "Connection": "close",
               "Idempotency-Key": message.id}  # fmt: skip
    if hook.token:
        headers["Authorization"] = f"Bearer {hook.token}"
    try:
        with within(ALL_S, lambda: link.sock) as is_late:
            link.request("POST", target, body, headers)
            status = link.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise Failed(_why(error, is_late=is_late())) from None
    finally:
        link.close()
    if not 200 <= status < 300:
        raise Failed(_refusal(status))
    return ""


def _link(hook: Webhook, parts: urllib.parse.SplitResult) -> http.client.HTTPConnection:
    assert parts.hostname is not None
    if hook.context is None:
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=STEP_S)
    return http.client.HTTPSConnection(
        parts.hostname, parts.port, timeout=STEP_S, context=hook.context
    )


def _body(hook: Webhook, message: Message) -> tuple[str, bytes]:
    if hook.body == "text":
        return "text/plain; charset=utf-8", message.text.encode()
    document = {**message.document, **hook.more}
    document[hook.text_key] = document.pop("text")
    return "application/json", json.dumps(document).encode()


def _refusal(status: int) -> str:
    name = http.client.responses.get(status, "")
    if 300 <= status < 400:
        return f"HTTP {status} {name}: it has moved; write the new address in the url"
    if status in (401, 403):
        return f"HTTP {status} {name}: is the token, or the secret part of the url, right?"
    if status == 404:
        return f"HTTP {status} {name}: is the url right?"
    return f"HTTP {status} {name}".strip()


# --- E-mail ---


def _mail(email: Email, message: Message) -> str:
    made: list[smtplib.SMTP] = []
    try:
        with within(ALL_S, lambda: getattr(made[0], "sock", None) if made else None) as is_late:
            return _talk(email, message, made)
    except OSError as error:  # smtplib's own errors are subclasses
        raise Failed(_why_no_mail(email, error, is_late=is_late())) from None
    finally:
        for one in made:
            one.close()


def _why_no_mail(email: Email, error: OSError, *, is_late: bool) -> str:
    if is_late:
        return _why(error, is_late=True)
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"user or password refused ({error.smtp_code})"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return "the server lacks STARTTLS or a way to log in; see security"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, text = next(iter(error.recipients.values()))
        return f"no address of `to` is accepted: {_answer(email, code, text)}"
    if isinstance(error, smtplib.SMTPResponseException):
        return _answer(email, error.smtp_code, error.smtp_error)
    return _why(error, is_late=False)


def _talk(email: Email, message: Message, made: list[smtplib.SMTP]) -> str:
    smtp = _smtp(email, made)
    if email.security == "starttls":
        smtp.starttls(context=email.context)
    if email.login is not None:
        smtp.login(*email.login)
    refused = smtp.send_message(_letter(email, message), email.sender, list(email.to))
    with suppress(OSError):  # the message is sent already
        smtp.quit()
    return f"not accepted: {', '.join(refused)}" if refused else ""


def _smtp(email: Email, made: list[smtplib.SMTP]) -> smtplib.SMTP:
    """A connection. It is added to `made` before it connects, because the deadline needs its
    socket."""
    base = smtplib.SMTP_SSL if email.security == "tls" else smtplib.SMTP

    class Bounded(base):
        def connect(self, *arguments, **more):
            made.append(self)
            return super().connect(*arguments, **more)

    more = {"context": email.context} if email.security == "tls" else {}
    return Bounded(email.host, email.port, timeout=STEP_S, **more)


def _letter(email: Email, message: Message) -> EmailMessage:
    letter = EmailMessage()
    letter["Subject"] = f"Outpost: {message.title}"
    letter["From"], letter["To"] = email.sender, ", ".join(email.to)
    letter["Date"] = formatdate(localtime=True)
    letter["Message-ID"] = f"<{message.id}@{email.sender.rpartition('@')[2]}>"
    letter["Auto-Submitted"] = "auto-generated"  # suppresses absence notes
    letter.set_content(message.text)
    return letter


def _answer(email: Email, code: int, text: bytes | str) -> str:
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    if email.login is not None and email.login[1] in said:
        said = "(an answer with the password in it)"
    return f"{code} {visible(said[:_MOST_ANSWER])}"


# --- Command ---


def _run(command: Command, message: Message) -> str:
    try:
        child = subprocess.Popen(
            command.words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Failed(f"cannot be started: {error.strerror}") from None
    try:
        child.communicate(message.text.encode() + b"\n", ALL_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"did not end within {ALL_S:.0f} s, and was killed") from None
    finally:
        _end(child)
    if child.returncode:
        raise Failed(f"ended with status {child.returncode}")
    return ""


def _end(child: subprocess.Popen) -> None:
    """Kills the command and its child processes, unless it has ended."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _why(error: Exception, *, is_late: bool) -> str:
    if is_late or isinstance(error, TimeoutError):
        return "no complete answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, socket.gaierror):
        return "the name is not known"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not verify ({error.verify_message}); see ca_file"
    if isinstance(error, ssl.SSLError):
        return "no TLS there; see security, or the url"
    if isinstance(error, http.client.HTTPException):
        return "its answer is not HTTP"
    return getattr(error, "strerror", None) or "the connection ended before an answer"


# --- apprise ---


def _serve(channel: Service, message: Message) -> str:
    """apprise uses the proxies of the environment. It limits only the time of each step."""
    try:
        is_sent = services.is_sent(channel.service, message.title, message.text)
    except Exception as error:  # from another author's plugin: its text may contain the URL
        raise Failed(f"{type(error).__name__} in apprise") from None
    if not is_sent:
        raise Failed("refused, redirected or not reached; apprise does not say which")
    return ""
