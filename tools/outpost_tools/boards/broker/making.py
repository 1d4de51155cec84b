"""`outpost broker init`: makes the folder, or updates it. Secrets are made only once: existing
passwords, keys and users stay, whatever options init gets."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from outpost_tools.boards.broker import certificates, configuration, given, security_file
from outpost_tools.boards.broker.about import About
from outpost_tools.boards.broker.folder import Folder
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import broker_user
from outpost_tools.mqtt import credentials

FIRST = (("collector", "collector-1"), ("monitor", "monitor-1"))
PORT = 8883  # of MQTT over TLS
_GROUP_BYTES = 12


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of the command line; None or empty: unchanged, or the default.

    given: the authority's certificate, the broker's certificate, its key.
    """

    hosts: tuple[str, ...] = ()
    port: int | None = None
    listen: str | None = None
    topic_prefix: str | None = None
    user: str | None = None
    plugin: str | None = None
    given: tuple[Path, Path, Path] | None = None
    new_certificate: bool = False


def make(folder: Folder, wish: Wish) -> list[str]:
    """Returns what was done, one line each. Raises ToolError."""
    if not folder.is_made and not wish.hosts:
        raise ToolError(
            "--host is missing: the name or address with which boards reach the broker; it goes "
            "into the broker's certificate"
        )
    folder.make()
    with folder.locked():
        before = folder.about() if folder.is_made else None
        about = _about(before, wish)
        done = _certificates(folder, about, before, wish)
        folder.keep(about)
        done += _users(folder, about)
        if folder.write("server/mosquitto.conf", configuration.text(folder, about)):
            done.append(f"configuration: {folder.configuration}")
        folder.give_to(about.user)
    return done


def _about(before: About | None, wish: Wish) -> About:
    if before is None:
        user = wish.user or broker_user()
        group = f"fleet-{secrets.token_hex(_GROUP_BYTES)}"
        plugin = wish.plugin or configuration.find_plugin()
        prefix = wish.topic_prefix or "outpost"
        return About(
            [*wish.hosts], wish.port or PORT, wish.listen or "", prefix, group, user, plugin,
            own_authority=wish.given is None,
        )  # fmt: skip
    if wish.topic_prefix not in (None, before.topic_prefix):
        raise ToolError(
            f"--prefix {wish.topic_prefix}: this broker's rights are for {before.topic_prefix!r}; "
            "make another folder"
        )
    changes = {key: getattr(wish, key) for key in ("port", "listen", "user", "plugin")}
    changes = {key: value for key, value in changes.items() if value is not None}
    if wish.hosts:
        changes["hosts"] = [*wish.hosts]
    return replace(before, **changes, own_authority=before.own_authority and wish.given is None)


def _certificates(folder: Folder, about: About, before: About | None, wish: Wish) -> list[str]:
    if wish.given is not None:
        return _take(folder, wish.given)
    if before is None:
        pair = certificates.authority()
        folder.write("ca.pem", pair.certificate)
        folder.write("ca.key", pair.key)
    elif about.hosts == before.hosts and not wish.new_certificate:
        return []
    elif not before.own_authority:
        raise ToolError(
            "this broker's certificates are your own, so the next ones must be too: use --ca-file, "
            "--cert and --key"
        )
    else:
        pair = certificates.Pair(folder.read("ca.pem"), folder.read("ca.key"))
    made = certificates.server(pair, about.hosts)
    folder.write("server/server.pem", made.certificate)
    folder.write("server/server.key", made.key)
    what = "authority and certificate" if before is None else "new certificate"
    names = ", ".join(about.hosts)
    return [f"{what} for {names}: {folder.path / 'ca.pem'}, {folder.server / 'server.pem'}"]


def _take(folder: Folder, paths: tuple[Path, Path, Path]) -> list[str]:
    texts = given.read(*paths)
    for name, text in zip(("ca.pem", "server/server.pem", "server/server.key"), texts, strict=True):
        folder.write(name, text)
    return [f"given certificates copied to {folder.path}"]


def _users(folder: Folder, about: About) -> list[str]:
    """Creates the first users in a folder without users; updates the credentials files if a host, a
    port or the authority changed."""
    done = _first_users(folder, about) if not folder.security.exists() else []
    for role in credentials.ROLES:
        for name in ["admin"] if role == "admin" else folder.names(role):
            old = folder.load(role, name)
            new = replace(old, host=about.hosts[0], port=about.port, ca=folder.read("ca.pem"))
            if new != old:
                done.append(f"{role} {name}: new address or authority in {folder.save(new)}")
    return done


def _first_users(folder: Folder, about: About) -> list[str]:
    document, done = security_file.new(about.topic_prefix, about.share), []
    for role, name in (("admin", "admin"), *FIRST):
        made = folder.new_credentials(role, name, about)
        security_file.add(document, role, name, made.password, about.topic_prefix)
        done.append(f"{role}: credentials in {folder.save(made)}")
    folder.write("server/dynamic-security.json", security_file.text(document))
    return done
