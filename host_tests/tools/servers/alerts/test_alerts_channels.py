# cpython-only: real servers on loopback
"""One attempt by each channel, at real servers: HTTP, HTTPS and SMTP with TLS against a private
authority; servers that refuse, hang, trickle, redirect and lie; no secret in any word.
"""

import email
import email.policy
import json
import socket
import ssl
import sys
import threading
import time
from pathlib import Path

import pytest

from alerts_rig import PASSWORD, USER, Hook, Mail, secret, toml
from collector_process import wait_until
from make_certificates import made_or_skip
from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.machine import children
from outpost_tools.servers.alerts import channels, services, settings
from outpost_tools.servers.alerts.channels import Failed
from outpost_tools.servers.alerts.text import message

# aiosmtpd's own, where TLS begins before it
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH")
NASTY = "kitchen\r\nBcc: all@example.org\x1b[2J"
EVENT = {
    "id": "a1", "state": "begin", "kind": "reading", "board": "kitchen",
    "text": f"{NASTY}: temperature 9.5 °C, above 8 °C", "began": "2026-11-25T12:00:00+00:00",
    "time": "2026-11-25T12:10:00+00:00", "value": 9.5,
}  # fmt: skip
RULE = "\n[attention]\n"


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    return made_or_skip(tmp_path_factory.mktemp("pems") / "pems")


def one_channel(folder, text):
    [made] = settings.load(toml(folder, text + RULE)).channels
    return made


def failure(channel, made=None):
    with pytest.raises(Failed) as told:
        channels.send(channel, made or message([EVENT]))
    text = str(told.value)
    assert "secret-path" not in text and "hidden" not in text and PASSWORD not in text
    return text


def hook(folder, server, more=""):
    return one_channel(folder, f'[[webhook]]\nurl = "{server.url}"\n{more}')


# --- Webhook ---


def test_a_webhook_gets_json_with_a_text_and_the_alert(tmp_path):
    with Hook() as server:
        secret(tmp_path, "token.txt", "t0ken")
        more = 'more = {topic = "home"}\ntext_key = "content"\ntoken_file = "token.txt"'
        assert channels.send(hook(tmp_path, server, more), message([EVENT], {"kitchen": 2})) == ""
    [(path, headers, body)] = server.requests
    document = json.loads(body)
    assert path == "/secret-path?key=hidden" and headers["Authorization"] == "Bearer t0ken"
    assert headers["Content-Type"] == "application/json" and len(headers["Idempotency-Key"]) == 20
    assert document["alerts"] == [EVENT] and document["topic"] == "home"
    assert "text" not in document and document["dropped"] == 2
    first, last = document["content"].splitlines()
    assert first.startswith("kitchen\\r\\nBcc: all@example.org\\x1b[2J: temperature 9.5 °C")
    assert last == "2 older alerts of kitchen are not sent: too many were waiting"


def test_a_webhook_of_text_gets_the_text_alone(tmp_path):
    with Hook() as server:
        channels.send(hook(tmp_path, server, 'body = "text"'), message([EVENT]))
    [(_, headers, body)] = server.requests
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert body == message([EVENT]).text and "9.5 °C" in body


def test_https_verifies_the_certificate_or_sends_nothing(tmp_path, pems):
    for name in ("server", "wrong-name", "expired", "unknown-ca"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pems / f"{name}.pem", pems / f"{name}.key")
        with Hook(context=context) as server:
            made = hook(tmp_path, server, f'ca_file = "{pems / "ca.pem"}"')
            if name == "server":
                assert channels.send(made, message([EVENT])) == ""
            else:
                assert "does not verify" in failure(made) and server.requests == []
    with Hook() as server:  # no TLS where the url says so
        server.url = server.url.replace("http:", "https:")
        assert "no TLS there" in failure(hook(tmp_path, server))


@pytest.mark.parametrize(
    ("code", "says"),
    [(302, "it has moved"), (401, "is the token"), (404, "is the url right?"),
     (500, "HTTP 500 Internal Server Error")],
)  # fmt: skip
def test_a_refusal_is_a_failure_and_no_redirect_is_followed(code, says, tmp_path):
    with Hook() as other, Hook() as server:
        server.answer = lambda one: one.status(code, Location=other.url)
        assert says in failure(hook(tmp_path, server))
        assert other.requests == [] and len(server.requests) == 1


def test_no_proxy_is_asked(tmp_path, monkeypatch):
    with Hook() as proxy, Hook() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        channels.send(hook(tmp_path, server), message([EVENT]))
        assert len(server.requests) == 1 and proxy.requests == []


def raw_server(talk):
    """A socket that talk(link) answers. Its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        while True:
            link, _ = listener.accept()
            with link:
                try:
                    talk(link)
                except OSError:
                    pass  # it was cut off, as it should be

    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


def nonsense(link):
    link.recv(65536)
    link.sendall(b"nonsense\r\n\r\n")
    link.recv(65536)


def trickle(link):
    while True:
        link.sendall(b"2")
        time.sleep(0.05)


@pytest.mark.parametrize("talk", [lambda _link: time.sleep(5), trickle])
def test_a_peer_that_hangs_or_trickles_is_given_up(tmp_path, monkeypatch, talk):
    """A read has its bound, and the whole attempt too."""
    monkeypatch.setattr(channels, "STEP_S", 0.3)
    monkeypatch.setattr(channels, "ALL_S", 1.0)
    port = raw_server(talk)
    made = one_channel(tmp_path, f'[[webhook]]\nurl = "http://127.0.0.1:{port}"')
    assert "no complete answer in time" in failure(made)
    if talk is trickle:
        secret(tmp_path, "smtp.txt", PASSWORD)
        assert "no complete answer" in failure(letter_box(tmp_path, port, tmp_path, ca=False))


def test_a_peer_that_refuses_or_is_none_is_told(tmp_path):
    """With the bounds of every day: a slow machine is no peer that hangs."""
    for port, says in ((raw_server(nonsense), "not HTTP"),
                       (children.free_port(), "nothing listens there")):  # fmt: skip
        made = one_channel(tmp_path, f'[[webhook]]\nurl = "http://127.0.0.1:{port}"')
        assert says in failure(made)
    made = one_channel(tmp_path, '[[webhook]]\nurl = "http://no-such-host.invalid/"')
    assert failure(made) == "the name is not known"


# --- E-mail ---


def letter_box(folder, port, pems, *, security="starttls", ca=True, to="you@example.org"):
    secret(folder, "smtp.txt", PASSWORD)
    return one_channel(
        folder,
        f"""\
[[email]]
host = "localhost"
port = {port}
security = "{security}"
user = "{USER}"
password_file = "smtp.txt"
from = "outpost@example.org"
to = ["{to}", "me@example.org"]
{f'ca_file = "{pems / "ca.pem"}"' if ca else ""}
""",
    )


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_letter_reaches_a_real_smtp_server_over_tls_that_verifies(security, tmp_path, pems):
    with Mail(pems, security=security) as server:
        made = letter_box(tmp_path, server.port, pems, security=security)
        assert channels.send(made, message([EVENT, EVENT])) == ""
    [envelope] = server.letters
    assert envelope.rcpt_tos == ["you@example.org", "me@example.org"]
    assert envelope.mail_from == "outpost@example.org"
    letter = email.message_from_bytes(envelope.content, policy=email.policy.default)
    assert letter["Bcc"] is None and letter["Auto-Submitted"] == "auto-generated"
    assert letter["Subject"].startswith("Outpost: kitchen\\r\\nBcc: all@example.org\\x1b[2J")
    assert letter["Subject"].endswith("(and 1 more)")
    assert letter.get_content().splitlines()[0].endswith("above 8 °C (since " + local(EVENT) + ")")
    assert letter["Message-ID"] == f"<{message([EVENT, EVENT]).id}@example.org>"


def local(event):
    from outpost_tools.servers.alerts.text import _local

    return _local(event["began"])


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("name", ["wrong-name", "unknown-ca", "expired"])
def test_no_password_goes_to_a_server_that_does_not_verify(name, security, tmp_path, pems):
    with Mail(pems, security=security, name=name) as server:
        made = letter_box(tmp_path, server.port, pems, security=security)
        assert "does not verify" in failure(made)
    assert server.tries == [] and server.letters == []


def test_no_password_goes_to_a_server_without_starttls(tmp_path):
    port = raw_server(smtp_without_tls)
    assert "lacks STARTTLS" in failure(letter_box(tmp_path, port, tmp_path, ca=False))


def smtp_without_tls(link):
    link.sendall(b"220 here\r\n")
    file = link.makefile("rb")
    while line := file.readline():
        assert not line.upper().startswith((b"AUTH", b"MAIL")), line
        link.sendall(b"250 yes\r\n")


def test_a_wrong_password_and_a_refused_letter_are_told_without_secrets(tmp_path, pems):
    with Mail(pems, security="starttls") as server:
        made = letter_box(tmp_path, server.port, pems)
        object.__setattr__(made, "login", (USER, "wrong"))
        assert failure(made) == "user or password refused (535)"
    with Mail(pems, security="starttls", refuse=f"554 no, {PASSWORD}") as server:
        made = letter_box(tmp_path, server.port, pems)
        assert failure(made) == "554 (an answer with the password in it)"
    with Mail(pems, security="starttls", refuse="552 too\x1b[2J big") as server:
        assert failure(letter_box(tmp_path, server.port, pems)).startswith("552 too\\x1b[2J big")


# --- Command ---


def test_a_command_gets_the_text_on_its_stdin_and_its_status_counts(tmp_path, monkeypatch):
    out = tmp_path / "out.txt"
    made = one_channel(tmp_path, f'[[command]]\nrun = ["tee", "{out}"]')
    assert channels.send(made, message([EVENT])) == ""
    assert out.read_text() == message([EVENT]).text + "\n"
    made = one_channel(tmp_path, '[[command]]\nrun = ["sh", "-c", "exit 3"]')
    assert failure(made) == "ended with status 3"  # that it did not read is no failure of its own
    monkeypatch.setattr(channels, "ALL_S", 0.3)
    script = f"sleep 600 & echo $! > {out}; wait"
    made = one_channel(tmp_path, f'[[command]]\nrun = ["sh", "-c", "{script}"]')
    assert "did not end" in failure(made)
    child = Path(f"/proc/{out.read_text().strip()}/stat")
    wait_until(lambda: not child.exists() or ") Z " in child.read_text())


# --- outpost alerts test ---


def test_the_test_tells_of_each_channel_and_ends_with_1_when_one_failed(tmp_path, capsys):
    home = tmp_path / "home"
    home.mkdir()
    with Hook() as good, Hook(answer=lambda one: one.status(403)) as bad:
        text = f'[[webhook]]\nurl = "{good.url}"\n'
        toml(home, text + RULE)
        assert cli.main(["alerts", "test", str(home)]) == 0
        assert capsys.readouterr().out == "webhook 127.0.0.1: sent\n"
        command = f'[[command]]\nrun = ["{sys.executable}", "-c", "import sys; sys.stdin.read()"]\n'
        toml(home, f'{text}[[webhook]]\nurl = "{bad.url}"\n{command}{RULE}')
        assert cli.main(["alerts", "test", str(home / "alerts.toml")]) == 1
        assert len(good.requests) == 2 and good.alerts()[0][0] == "test"
    said = capsys.readouterr().out.splitlines()
    assert (
        said[0].endswith(": sent") and said[2].startswith("command python") and "FAILED" in said[1]
    )
    assert [path.name for path in home.iterdir()] == ["alerts.toml"]


# --- apprise ---


def apprise_of(folder, server, more=""):
    pytest.importorskip("apprise", reason="missing: apprise; run `make setup`")
    url = f"json://127.0.0.1:{server.port}/secret-path?{more}&+key=hidden"
    return one_channel(folder, f'[[apprise]]\nurl = "{url}"\n')


def test_a_service_of_apprise_gets_title_and_text(tmp_path):
    with Hook() as server:
        made = apprise_of(tmp_path, server)
        assert made.name == "apprise json"
        assert channels.send(made, message([EVENT])) == ""
    [(path, _, body)] = server.requests
    document = json.loads(body)
    assert path.startswith("/secret-path")
    assert "temperature 9.5" in document["title"] and "since" in document["message"]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("more", ["", "redirect=yes"])
def test_apprise_follows_no_redirect_and_tells_no_secret(code, more, tmp_path, capfd):
    """By itself it follows them, with the message."""
    with Hook() as other, Hook() as server:
        server.answer = lambda one: one.status(code, Location=other.url)
        assert "redirected" in failure(apprise_of(tmp_path, server, more))
        assert other.requests == [] and len(server.requests) == 1
    said = "".join(capfd.readouterr())
    assert "secret-path" not in said and "hidden" not in said


def test_apprise_verifies_tls_whatever_its_url_says(tmp_path):
    made = pytest.importorskip("apprise", reason="missing: apprise; run `make setup`") and (
        one_channel(tmp_path, '[[apprise]]\nurl = "jsons://127.0.0.1:1/x?verify=no"\n')
    )
    assert made.service.verify_certificate is True


@pytest.mark.parametrize("url", ["nonsense://x", "mailto://", "file:///etc/passwd", "x"])
def test_what_apprise_does_not_know_is_refused_without_the_url(url, tmp_path):
    pytest.importorskip("apprise", reason="missing: apprise; run `make setup`")
    with pytest.raises(ToolError, match="apprise knows no such service") as told:
        one_channel(tmp_path, f'[[apprise]]\nurl = "{url}?token=secret-path"\n')
    assert "secret-path" not in str(told.value)


def test_without_apprise_the_settings_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(services, "is_installed", lambda: False)
    with pytest.raises(ToolError, match=r"needs the package apprise: .*apprise"):
        one_channel(tmp_path, '[[apprise]]\nurl = "json://127.0.0.1/x"\n')
