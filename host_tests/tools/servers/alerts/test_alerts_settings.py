# cpython-only: a desktop tool
"""alerts.toml: the example, every key, and what each mistake is answered with."""

import re

import pytest

from alerts_rig import secret, toml
from outpost_tools import cli
from outpost_tools.boards.broker import certificates
from outpost_tools.errors import ToolError
from outpost_tools.servers.alerts import rules, settings
from outpost_tools.servers.alerts.recipients import Command, Email, Webhook

HOOK = '[[webhook]]\nurl = "https://hooks.example/T0/secret"\n'
MAIL = """\
[[email]]
host = "smtp.example"
user = "me"
password_file = "smtp.txt"
from = "me@example.org"
to = ["you@example.org", "me@example.org"]
"""
RULE = "[attention]\n"


def loaded(folder, text):
    secret(folder, "smtp.txt", "open sesame")
    return settings.load(toml(folder, text))


def test_the_example_is_good_and_each_line_of_it_that_is_commented_out_too(tmp_path, capsys):
    assert cli.main(["alerts", "example"]) == 0
    text = capsys.readouterr().out
    with pytest.raises(ToolError, match="is that of the example; replace CHANGE-ME"):
        loaded(tmp_path, text)
    text = text.replace("CHANGE-ME", "own")
    made = loaded(tmp_path, text)
    assert [type(one) for one in made.channels] == [Webhook] and made.attention is not None
    whole = re.sub(r"^# (\[\[\w+\]\]|\w+ = )", r"\1", text, flags=re.MULTILINE)
    whole = whole.replace("/usr/local/bin/tell-me", "/bin/cat")
    secret(tmp_path, "token.txt", "token")
    (tmp_path / "ca.pem").write_text(certificates.authority().certificate)
    made = loaded(tmp_path, whole)
    assert [type(one) for one in made.channels] == [Webhook, Webhook, Email, Command]
    assert len(made.readings) == 1 and len(made.silences) == 1
    assert made.attention == rules.Attention(("*",), ("open", "behind"), 300.0)


def test_what_it_says(tmp_path):
    made = loaded(tmp_path, f"most_per_hour = 5\n{HOOK}{MAIL}" + """\
[[command]]
run = "cat"
[[silence]]
longer_than = "2h"
boards = "kitchen"
[[reading]]
sensor = "temp*"
above = 8
below = -1.5
hysteresis = 0.5
for = "90s"
""")  # fmt: skip
    hook, mail, command = made.channels
    assert (hook.body, hook.text_key, hook.token, made.most_per_hour) == ("json", "text", None, 5)
    assert (mail.port, mail.security, mail.login) == (587, "starttls", ("me", "open sesame"))
    assert command.words[0].endswith("/cat")
    assert made.silences == (rules.Silence(7200.0, ("kitchen",)),)
    assert [(one.is_above, one.bound, one.wait_s) for one in made.readings] == [
        (True, 8.0, 90.0), (False, -1.5, 90.0),
    ]  # fmt: skip
    assert made.readings[0].is_of("any", "temperature") and made.attention is None
    line = made.line()
    assert line == "webhook hooks.example, e-mail by smtp.example, command cat; rules: 3"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "alerts.toml: no channel: add [[webhook]]"),
        (HOOK, "alerts.toml: no rule: add [attention]"),
        ("a = ", "not valid TOML at end of document"),
        (HOOK + HOOK + RULE, "webhook hooks.example is there twice"),
        ("most_per_our = 3\n" + HOOK + RULE, "our: no such key; did you mean most_per_hour?"),
        ("most_per_hour = 0\n" + HOOK + RULE, "most_per_hour: 0: a number from 1 to 1000"),
        ("[webhook]\nurl = 'http://x'\n" + RULE, "webhook: may repeat: write [[webhook]]"),
        ("webhook = [3]\n" + RULE, "[[webhook]] 1: a table is needed"),
        ("[[webhook]]\n" + RULE, "[[webhook]] 1: url: give url, or url_file"),
        ("[[webhook]]\nurl = 'ftp://x'\n" + RULE, "url: not the address of a webhook"),
        ("[[webhook]]\nurl = 'https://x:99999/'\n" + RULE, "url: not the address of a webhook"),
        ("[[webhook]]\nurl = 'https://me:pw@x/'\n" + RULE, "url: has a user or password"),
        ("[[webhook]]\nurl = 'https://x/ä'\n" + RULE, "write it as %20"),
        (HOOK + "token_file = 'none.txt'\n" + RULE, "none.txt: No such file"),
        (HOOK + "token_file = 'open.txt'\n" + RULE, "chmod 600"),
        (HOOK + "token_file = 'empty.txt'\n" + RULE, "empty.txt is empty; its first line"),
        (HOOK + "token_file = 'umlaut.txt'\n" + RULE, "not ASCII"),
        ("[[webhook]]\nurl = 'http://x/'\ntoken_file = 'smtp.txt'\n" + RULE, "in plain text"),
        (HOOK + "ca_file = 'smtp.txt'\n" + RULE, "ca_file: ", ),
        (HOOK + "body = 'xml'\n" + RULE, """body: 'xml': "json", "text\""""),
        (HOOK + "body = 'text'\ntext_key = 'x'\n" + RULE, 'body: "text" has no keys'),
        (HOOK + "more = {a = 1}\n" + RULE, "more: a table of strings"),
        (HOOK + "urls = 'x'\n" + RULE, "[[webhook]] 1: urls: no such key; did you mean url?"),
        (MAIL.replace("host", "hast") + RULE, "[[email]] 1: host: missing"),
        (MAIL + "security = 'none'\n" + RULE, "for a server on this machine"),
        (MAIL.replace('user = "me"', "") + RULE, "user and password_file go together"),
        (MAIL.replace("you@example.org", "you") + RULE, "to: 'you': not an address; write name"),
        (MAIL.replace('"me@example.org"\nto', '"a@b\\nBcc: c@d"\nto') + RULE, "from: "),
        (MAIL + "port = 0\n" + RULE, "port: 0: a number from 1 to 65535"),
        ("[[command]]\nrun = ['no-such']\n" + RULE, "run: no-such: no such program"),
        ("[[command]]\nrun = []\n" + RULE, "run: empty"),
        (HOOK + "[attention]\nfor = 5\n", "[attention]: for: 5: a duration is needed"),
        (HOOK + "[attention]\nfor = '5 minutes'\n", "a duration is needed"),
        (HOOK + "[attention]\nleave_out = ['silnt']\n", "leave_out: 'silnt': known: lost, "),
        (HOOK + "[[silence]]\n", "[[silence]] 1: longer_than: missing"),
        (HOOK + "[[silence]]\nlonger_than = '1s'\n", "at least 10 seconds"),
        (HOOK + "[[reading]]\nsensor = 'x'\n", "[[reading]] 1: above: missing; give above, below"),
        (HOOK + "[[reading]]\nabove = 1\n", "sensor: missing"),
        (HOOK + "[[reading]]\nsensor = 'x'\nabove = true\n", "above: True: a number"),
        (HOOK + "[[reading]]\nsensor = 'x'\nabove = nan\n", "above: nan: a number"),
        (HOOK + "[[reading]]\nsensor = 'x'\nabove = 1\nbelow = 2\n", "no value between them is"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_key_and_what_to_do(text, says, tmp_path):
    for name, mode in (("open.txt", 0o644), ("umlaut.txt", 0o600), ("empty.txt", 0o600)):
        path = secret(tmp_path, name, "wörd" if name == "umlaut.txt" else "word")
        path.chmod(mode)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ToolError) as told:
        loaded(tmp_path, text)
    line = str(told.value)
    assert says in line and "\n" not in line and "alerts.toml" in line
    assert "open sesame" not in line and "secret" not in line.replace("a secret", "").replace(
        "the secret", ""
    )


def test_a_file_with_a_webhook_that_others_read_is_warned_of(tmp_path, capsys):
    path = toml(tmp_path, HOOK + RULE)
    settings.load(path)
    assert capsys.readouterr().err == ""
    path.chmod(0o644)
    settings.load(path)
    assert f"chmod 600 {path}" in capsys.readouterr().err


def test_a_missing_file_says_how_to_make_one(tmp_path, capsys):
    assert cli.main(["alerts", "test", str(tmp_path)]) == 2
    assert "`outpost alerts example` prints an example" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["run", "FOLDER"], ["live", "--log", "L", "--alerts", "FILE"]])
def test_run_and_live_refuse_a_bad_one_before_they_do_anything(words, tmp_path, capsys):
    home = tmp_path / "home"
    home.mkdir()
    path = toml(home, HOOK)
    words = [str({"FOLDER": home, "FILE": path}.get(one, one)) for one in words]
    assert cli.main(words) == 2
    assert "alerts.toml: no rule" in capsys.readouterr().err
    assert list(home.iterdir()) == [path]
