"""Who receives alerts: the tables [[webhook]], [[email]], [[command]] and [[apprise]] of
alerts.toml."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import urllib.parse
from dataclasses import dataclass
from email.headerregistry import Address
from pathlib import Path
from typing import Any

from outpost_tools.machine import exposure, needs
from outpost_tools.servers.alerts import services
from outpost_tools.servers.alerts.table import Table


def _digest(*parts: str) -> str:
    """Names a channel's queue in the state, without revealing its secrets."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Webhook:
    """context: for https; None: http. body: "json", or "text" to send only the text. text_key: the
    key of the text in the JSON object."""

    url: str
    body: str
    text_key: str
    more: dict[str, Any]
    token: str | None
    context: ssl.SSLContext | None

    @property
    def name(self) -> str:
        """A name to show: without path and query, which are the secret of many services."""
        return f"webhook {urllib.parse.urlsplit(self.url).hostname}"

    @property
    def key(self) -> str:
        return "webhook-" + _digest(self.url, self.body, repr(sorted(self.more.items())))


@dataclass(frozen=True, slots=True)
class Email:
    """security: "starttls", "tls", or "none", which needs a server on this machine. context: for
    the first two."""

    host: str
    port: int
    security: str
    login: tuple[str, str] | None
    sender: str
    to: tuple[str, ...]
    context: ssl.SSLContext | None

    @property
    def name(self) -> str:
        return f"e-mail by {self.host}"

    @property
    def key(self) -> str:
        return "email-" + _digest(self.host, *self.to)


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"command {Path(self.words[0]).name}"

    @property
    def key(self) -> str:
        return "command-" + _digest(*self.words)


@dataclass(frozen=True, slots=True)
class Service:
    """service: apprise's object for the URL. url: contains secrets."""

    url: str
    service: Any

    @property
    def name(self) -> str:
        return f"apprise {urllib.parse.urlsplit(self.url).scheme}"

    @property
    def key(self) -> str:
        return "apprise-" + _digest(self.url)


Channel = Webhook | Email | Command | Service


def _context(table: Table) -> ssl.SSLContext:
    """Verifies with ca_file or with the system's authorities."""
    ca_file = table.file("ca_file")
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except (ssl.SSLError, ValueError):
        table.wrong("ca_file", f"{ca_file}: not a certificate; PEM is needed")


def _url(table: Table) -> str:
    if table.has("url") == table.has("url_file"):
        table.wrong("url", "give url, or url_file with the URL in its first line")
    url = table.secret("url_file") if table.has("url_file") else table.text("url")
    table.text("url", None)
    assert url is not None
    return url


def _webhook(table: Table) -> Webhook:
    url = _url(table)
    parts = _url_parts(table, url)
    is_tls = parts.scheme == "https"
    if table.has("ca_file") and not is_tls:
        table.wrong("ca_file", "is for https; write https:// in the url")
    token = table.secret("token_file")
    if token and not is_tls and not exposure.is_loopback(parts.hostname or ""):
        table.wrong("token_file", "would go in plain text; write https:// in the url")
    body = table.choice("body", ("json", "text"))
    made = Webhook(
        url, body, table.text("text_key", "text"), table.texts_of("more"), token,
        _context(table) if is_tls else None,
    )  # fmt: skip
    if body == "text" and (made.more or table.has("text_key")):
        table.wrong("body", '"text" has no keys; leave text_key and more out, or write "json"')
    table.file("ca_file")
    table.done()
    return made


def _url_parts(table: Table, url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_good = urllib.parse.urlsplit(""), False
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good:
        table.wrong("url", "not the address of a webhook; write https://host/path")
    if not is_plain:
        table.wrong("url", "has a space or a character that is not ASCII; write it as %20")
    if "CHANGE-ME" in url:
        table.wrong("url", "is that of the example; replace CHANGE-ME with your own address")
    if parts.username is not None or parts.password is not None:
        table.wrong("url", "has a user or password; give token_file, or url_file without them")
    return parts


def _email(table: Table) -> Email:
    host = table.text("host")
    security = table.choice("security", ("starttls", "tls", "none"))
    if security == "none" and not exposure.is_loopback(host):
        table.wrong("security", '"none" is for a server on this machine; "starttls" or "tls"')
    user, password = table.text("user", None), table.secret("password_file")
    if (user is None) != (password is None):
        table.wrong("user", "user and password_file go together")
    if security == "none" and user is not None:
        table.wrong("security", '"none" sends no password; "starttls" or "tls", or no user')
    made = Email(
        host,
        table.whole("port", 1, 65535, {"starttls": 587, "tls": 465, "none": 25}[security]),
        security,
        (user, password) if user is not None and password is not None else None,
        _address(table, "from", table.text("from")),
        tuple(_address(table, "to", one) for one in table.texts("to")),
        None if security == "none" else _context(table),
    )
    table.file("ca_file")
    table.done()
    return made


def _address(table: Table, key: str, text: str) -> str:
    try:
        parsed = Address(addr_spec=text)
    except (ValueError, IndexError, AttributeError):  # from its parser, for odd text
        parsed = Address()
    if not parsed.username or not parsed.domain or not text.isascii():
        table.wrong(key, f"{text!r}: not an address; write name@host")
    return text


def _command(table: Table) -> Command:
    words = table.texts("run")
    program = shutil.which(words[0])
    if program is None:
        table.wrong("run", f"{words[0]}: no such program; give its whole path, and chmod +x it")
    table.done()
    return Command((program, *words[1:]))


def _service(table: Table) -> Service:
    url = _url(table)
    if not services.is_installed():
        table.wrong("url", f"needs the package apprise: {needs.install('apprise')}")
    service = services.opened(url)
    if service is None:
        table.wrong("url", "apprise knows no such service, or a part is missing; see its wiki")
    table.done()
    return Service(url, service)


READERS = {"webhook": _webhook, "email": _email, "command": _command, "apprise": _service}
