# cpython-only: tests a desktop tool
"""`outpost provision`: bad settings are one line each, before a board is touched; good ones arrive
whole; secrets stay unseen.
"""

import ast
import getpass
import hashlib
import io
import json
import os
import pty
import select
import sys
import time
import tomllib
from pathlib import Path

import pytest

import make_certificates
import outpost_command
from outpost_tools import cli
from outpost_tools.boards.files import plan
from outpost_tools.boards.settings import sensor_words, settings_file
from outpost_tools.mqtt import certificates as reader

GOOD = {
    "device_id": "kitchen",
    "broker_host": "192.168.1.10",
    "wifi_ssid": "Home",
    "wifi_password": "correct horse",
}
TLS = {"tls": True, "ca_file": "ca.pem"}
CLIENT = {**TLS, "client_cert_file": "client.pem", "client_key_file": "client.key"}
SECRET = "tr0ub4dor-and-3"
NO_PORT = "/dev/no-such-port"  # whoever looks at it says so

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    if make_certificates.openssl() is None:
        pytest.skip("missing: the command openssl; on Debian: apt install openssl")
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates.make_all(folder)
    openssl = make_certificates._run
    openssl(
        folder,
        "pkey",
        "-in",
        "client.key",
        "-aes256",
        "-passout",
        f"pass:{SECRET}",
        "-out",
        "locked.key",
    )
    openssl(folder, "genpkey", "-algorithm", "ed25519", "-out", "ed25519.key")
    openssl(
        folder,
        "genpkey",
        "-algorithm",
        "RSA",
        "-pkeyopt",
        "rsa_keygen_bits:2048",
        "-out",
        "rsa.key",
    )
    (folder / "two.pem").write_bytes(
        (folder / "ca.pem").read_bytes() + (folder / "client.pem").read_bytes()
    )
    (folder / "text.pem").write_text("a shopping list\n")
    (folder / "half.pem").write_bytes((folder / "ca.pem").read_bytes()[:200])
    return folder


@pytest.fixture
def folder(certificates, monkeypatch):
    monkeypatch.chdir(certificates)
    return certificates


def toml(settings):
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in settings.items())


def toml_value(value):
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        items = [f"{json.dumps(key)} = {toml_value(one)}" for key, one in value.items()]
        return f"{{{', '.join(items)}}}"
    return json.dumps(value, ensure_ascii=False)


def provision(capsys, *words):
    status = cli.main(["provision", *map(str, words)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def write(folder, text):
    """Others may not read it: it holds passwords."""
    (folder / "kitchen.toml").write_text(text)
    (folder / "kitchen.toml").chmod(0o600)


def checked(capsys, folder, text, board="RPI_PICO_W", port=NO_PORT):
    write(folder, text)
    return provision(capsys, "--board", board, "--port", port, "kitchen.toml")


BAD = [
    # settings beside the good ones (None: left out), key, what the line says
    ({"wifi_passwort": SECRET}, "wifi_passwort",
     "unknown key 'wifi_passwort'; known: alarms, alpn, broker_host, "),
    ({"device_id": None}, "device_id", "is missing; add it"),
    ({"broker_host": None}, "broker_host", "is missing; add it"),
    ({"wifi_ssid": None}, "wifi_ssid", "is missing; this board reaches the broker by Wi-Fi"),
    ({"broker_port": 0}, "broker_port", "must be 1 to 65535, not 0"),
    ({"broker_port": 65536}, "broker_port", "must be 1 to 65535, not 65536"),
    ({"broker_port": "1883"}, "broker_port", "must be a whole number, not '1883'"),
    ({"broker_port": 1883.5}, "broker_port", "must be a whole number"),
    ({"interval_ms": 0}, "interval_ms", "must be 1 to 86400000, not 0"),
    ({"interval_ms": True}, "interval_ms", "must be a whole number, not True"),
    ({"device_id": "k" * 33}, "device_id", "must be of length 1 to 32, not 33"),
    ({"device_id": "kitchen/1"}, "device_id", "may hold A-Z a-z 0-9 _ . - only, not '/'"),
    ({"topic_prefix": "x" * 65}, "topic_prefix", "must be of length 1 to 64, not 65"),
    ({"topic_prefix": "😀" * 64}, "topic_prefix",
     "makes a topic of 272 bytes, and 255 is the most; shorten it"),
    ({"topic_prefix": "home/+"}, "topic_prefix", "may not hold '+'"),
    ({"wifi_password": SECRET[:7]}, "wifi_password",
     "must have 8 to 63 characters, or be 64 hex digits, not 7; leave it out"),
    ({"wifi_password": 12345678}, "wifi_password", "must be text"),
    ({"wifi_password": SECRET * 5}, "wifi_password", "must be of length 0 to 64, not 75"),
    ({"password": [SECRET]}, "password", "must be text"),
    ({"password": SECRET}, "password", "needs 'user'"),
    ({"commands": True, "mode": "broker", "when_full": "newest_per_topic"}, "commands",
     "needs another 'when_full'"),
    ({"series": True, "alarms": {"adc@26": {"above": 1}}, "sensors": ["memory", "adc@26"]},
     "alarms", "names 'adc@26'; readings: memory, adc26"),
    ({"series": True, "alarms": {"humidity": {"above": 1}}}, "alarms",
     "names 'humidity'; readings: temperature, memory, signal, reset_cause"),
    ({"series": True, "sensors": [
        {"driver": "bme280", "name": f"room{number}", "i2c": -1, "scl": 2 * number,
         "sda": 2 * number + 1} for number in range(6)
    ]}, "series", "takes 16 readings, not 18"),
    ({"sensors": ["adc@26", {"driver": "adc", "name": "adc26", "pin": 27}]}, "sensors",
     "has two sensors with a reading 'adc26'"),
    ({"user": "me\u0007"}, "user", "holds a control character; type it again"),
    ({"wifi_ssid": "é" * 17}, "wifi_ssid", "must be of at most 32 bytes"),
    ({"wifi_country": "de"}, "wifi_country", 'must be two capital letters, as "DE"'),
    ({"broker_host": "mqtt://192.168.1.10"}, "broker_host", "alone, without mqtt:// and path"),
    ({"broker_host": "192.168.1.10:1883"}, "broker_host",
     "the port has its own key, 'broker_port'"),
    ({"wifi_ssid": None, "wifi_password": None,
      "wifi_networks": [{"ssid": "a"}, {"ssid": "b", "password": SECRET[:7]}]}, "wifi_networks",
     "entry 2: key 'password' must have 8 to 63 characters, or be 64 hex digits"),
    ({"broker_host": "fe80::1"}, "broker_host", "is an IPv6 address, and the board has IPv4 alone"),
    ({"sensors": "temperature"}, "sensors", "must be a list"),
    ({"sensors": ["humidity"]}, "sensors",
     "names 'humidity', which this board does not have; known: temperature, memory"),
    ({"sensors": ["adc@12"]}, "sensors",
     "names 'adc@12'; the pins that can measure are 26, 27, 28"),
    ({"sensors": [26]}, "sensors", "must hold names in quotes"),
    ({"sensors": [{"driver": "battery", "pin": 29}]}, "sensors",
     "has a sensor 'battery' (battery): key 'pin' is 29, which belongs to the wireless chip; "
     "pin 26 would do"),
    ({"mode": "fast"}, "mode", "must be one of 'collector', 'broker', not 'fast'"),
    ({"confirmation": "no"}, "confirmation", "must be one of 'retained', 'queued', not 'no'"),
    ({**TLS, "alpn": "mqtt"}, "alpn", "no board's MicroPython can send it; leave it out"),
    ({"tls": True}, "tls", "is true, but 'ca_file' is missing"),
    ({"ca_file": "ca.pem"}, "ca_file", "needs 'tls': true"),
    ({**TLS, "ca_file": "nothing.pem"}, "ca_file",
     "names 'nothing.pem', which cannot be read: No such file or directory"),
    ({**TLS, "ca_file": "text.pem"}, "ca_file",
     "names 'text.pem', which is not a certificate; give one in PEM or DER"),
    ({**TLS, "ca_file": "half.pem"}, "ca_file", "names 'half.pem', which is not a certificate"),
    ({**TLS, "ca_file": "client.key"}, "ca_file", "which holds a private key, not a certificate"),
    ({**TLS, "ca_file": "two.pem"}, "ca_file", "which holds 2 certificates, and a board takes one"),
    ({**TLS, "ca_file": "expired.pem"}, "ca_file", "which expired on "),
    ({**TLS, "client_cert_file": "client.pem"}, "client_key_file",
     "belong together; give both or none"),
    ({**CLIENT, "client_key_file": "server.key"}, "client_key_file",
     "is not the one of 'client_cert_file'; give its own"),
    ({**CLIENT, "client_key_file": "locked.key"}, "client_key_file",
     "which is encrypted, and a board cannot ask for its password"),
    ({**CLIENT, "client_key_file": "ed25519.key"}, "client_key_file",
     "neither an RSA nor an EC key"),
    ({**CLIENT, "client_key_file": "client.pem"}, "client_key_file",
     "which holds no private key; give the key"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "key", "complaint"),
    BAD,
    ids=[f"{key}-{number}" for number, (_, key, _) in enumerate(BAD)],
)
def test_a_bad_setting_is_one_line_with_key_and_remedy(more, key, complaint, folder, capsys):
    settings = {name: value for name, value in {**GOOD, **more}.items() if value is not None}
    status, out, err = checked(capsys, folder, toml(settings))
    assert (status, out, err.count("\n")) == (2, "", 1), (out, err)
    assert err.startswith("outpost: kitchen.toml: ") and f"key '{key}'" in err and complaint in err
    assert NO_PORT not in err, "before the board is touched"
    assert SECRET[:7] not in err and "correct horse" not in err and "12345678" not in err


@pytest.mark.parametrize(
    "text",
    [
        "device_id = kitchen\n",
        'user = "a"\nuser = "b"\n',
        f'password = "{SECRET}\n',
        "=",
        "\udcff",
        pytest.param(f"interval_ms = {'9' * 5000}\n", id="a number of 5,000 digits"),
        pytest.param(f"sensors = {'[' * 5000}\n", id="5,000 brackets"),
    ],
)
def test_what_is_no_toml(text, folder, capsys):
    (folder / "kitchen.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    status, out, err = provision(capsys, "--board", "RPI_PICO_W", "--port", NO_PORT, "kitchen.toml")
    assert (
        (status, out, err.count("\n")) == (2, "", 1)
        and "kitchen.toml: not valid TOML" in err
        and SECRET not in err
    )


def test_a_file_of_a_windows_editor_is_read(folder, capsys):
    """With a mark at its beginning, and its ends of line."""
    text = "\ufeff" + toml(GOOD).replace("\n", "\r\n")
    (folder / "kitchen.toml").write_bytes(text.encode())
    (folder / "kitchen.toml").chmod(0o600)
    status, out, _ = provision(capsys, "--board", "RPI_PICO_W", "kitchen.toml")
    assert status == 0 and 'device_id = "kitchen"\n' in out


def test_no_such_file_and_no_board(folder, capsys):
    status, _, err = provision(capsys, "--board", "RPI_PICO_W", "none.toml")
    assert (
        status == 2
        and "none.toml: cannot be read: No such file or directory; `outpost provision --example`"
        in err
    )
    status, _, err = provision(capsys, "none.toml")
    assert status == 2 and "--board is missing" in err


def test_good_settings_reach_the_port_and_no_further(folder, capsys):
    """So that the table above is not refused for another reason."""
    for more in (
        {},
        TLS,
        CLIENT,
        {**TLS, "ca_file": "ca.der"},
        {**CLIENT, "client_key_file": "client.key.der"},
    ):
        status, _, err = checked(capsys, folder, toml({**GOOD, **more}))
        assert status == 2 and f"{NO_PORT}: no such port" in err


def test_the_example_is_good_also_with_all_that_it_holds(folder, capsys):
    status, example, _ = provision(capsys, "--example")
    assert status == 0
    assert checked(capsys, folder, example)[2].startswith(f"outpost: {NO_PORT}: no such port")
    lines = [
        line.removeprefix("# ") if " = " in line and not line.startswith("# Keep") else line
        for line in example.splitlines()
    ]
    full = (
        "\n".join(lines).replace("kitchen.pem", "client.pem").replace("kitchen.key", "client.key")
    )
    found = checked(capsys, folder, full)[2]  # all of it at once
    assert found.startswith("outpost: kitchen.toml: key 'commands' does not fit: ")
    found = checked(capsys, folder, full, board="RPI_PICO2_W")[2]
    assert found.startswith(f"outpost: {NO_PORT}: no such port")
    from station import settings as firmware_settings

    named = set(tomllib.loads(full))
    assert named <= set(firmware_settings._KEYS) and len(named) >= 18


def test_a_password_that_others_can_read_is_warned_of(folder, capsys):
    """In the file, and on the way; not when neither holds."""
    plain = {**GOOD, "user": "board", "password": SECRET}
    write(folder, toml(plain))
    (folder / "kitchen.toml").chmod(0o644)
    *_, err = provision(capsys, "--board", "RPI_PICO_W", "kitchen.toml")
    assert "kitchen.toml: others can read it, and it holds a password; chmod 600" in err
    assert "goes to 192.168.1.10:1883 in plain text" in err and SECRET not in err
    write(folder, toml({**plain, "tls": True, "ca_file": "ca.pem", "mode": "broker"}))
    status, _, err = provision(capsys, "--board", "RPI_PICO_W", "kitchen.toml")
    assert (status, err) == (0, "")


@pytest.mark.parametrize("given", [{}, {"mode": "broker"}, {"mode": "collector"}])
def test_the_board_is_always_told_its_mode_and_who_leaves_it_out_is_told(folder, capsys, given):
    write(folder, toml({**GOOD, **given}))
    status, out, err = provision(capsys, "--board", "RPI_PICO_W", "kitchen.toml")
    mode = given.get("mode", "collector")
    assert status == 0 and f'mode = "{mode}"' in out
    assert ("no key 'mode'" in err) == (not given)
    settings = settings_file.load(folder / "kitchen.toml")
    assert json.loads(settings.files["/settings.json"])["mode"] == mode


def test_what_is_shown_holds_no_secret(folder, capsys):
    secrets = {"wifi_password": SECRET, "password": SECRET[::-1], "user": "board"}
    write(folder, toml({**GOOD, **secrets}))
    status, out, _ = provision(capsys, "--board", "RPI_PICO_W", "kitchen.toml")
    assert status == 0 and "nothing was written" in out
    assert (
        'user = "board"' in out
        and "wifi_password = (hidden)" in out
        and "\npassword = (hidden)" in out
    )
    assert SECRET not in out and SECRET[::-1] not in out


# --- On the board ---

PLAIN = {"device_id": "rig-1", "broker_host": "127.0.0.1", "user": "rig-1", "password": SECRET}


def sha(data):
    return hashlib.sha256(data).digest()


def test_settings_and_certificates_arrive(rig, folder, monkeypatch):
    (folder / "rig.toml").write_text(toml({**PLAIN, **CLIENT}))
    assert rig.outpost("provision", folder / "rig.toml", "--dry-run") == 0, rig.err
    assert (
        rig.hashes() == {} and "to write" in rig.row("settings") and SECRET not in rig.out + rig.err
    )
    assert rig.outpost("provision", folder / "rig.toml") == 0, rig.err
    assert SECRET not in rig.out + rig.err
    found = rig.hashes()
    on_board = json.loads(rig.mpremote("exec", "print(open('/settings.json').read())"))
    assert found[on_board["ca_file"]] == sha((folder / "ca.der").read_bytes())
    assert found[on_board["client_cert_file"]] == sha((folder / "client.der").read_bytes())
    assert found[on_board["client_key_file"]] == sha(
        reader.der_of_key(reader.private_key((folder / "client.key").read_bytes()))
    )
    assert on_board["password"] == SECRET and len(found) == 4
    assert rig.outpost("provision", folder / "rig.toml") == 0 and rig.row("settings") == "unchanged"
    (folder / "rig.toml").write_text(toml({**PLAIN, **CLIENT, "ca_file": "other-ca.pem"}))
    assert rig.outpost("provision", folder / "rig.toml") == 0, rig.err
    changed = rig.hashes()
    assert on_board["ca_file"] not in changed and len(changed) == 4, "the old certificate is gone"


def test_an_emoji_arrives_as_the_bytes_that_the_network_has(rig, folder):
    """MicroPython's json makes two characters of its escape."""
    names = {"wifi_ssid": "📶 Küche", "user": "日本"}
    write(folder, toml({**PLAIN, **names}))
    assert rig.outpost("provision", folder / "kitchen.toml") == 0, rig.err
    read = "import json; s = json.load(open('/settings.json')); print([s[k].encode() for k in {}])"
    found = ast.literal_eval(rig.mpremote("exec", read.format(list(names))))
    assert found == [name.encode() for name in names.values()]
    assert rig.outpost("provision", folder / "kitchen.toml") == 0 and "unchanged" in rig.out


@pytest.mark.long
def test_settings_cut_off_are_the_old_ones_or_the_new(rig, folder):
    """In each program and erase of the change."""
    old, new = {**PLAIN, **TLS}, {**PLAIN, **TLS, "ca_file": "other-ca.pem", "user": "me"}
    seen = set()
    for operation in (2, 5, 8, 12):
        (folder / "rig.toml").write_text(toml(old))
        assert rig.outpost("provision", folder / "rig.toml") == 0, rig.err
        (folder / "rig.toml").write_text(toml(new))
        rig.order_power_cut(operation, "first")
        rig.outpost("provision", folder / "rig.toml", "--timeout", 5)
        (rig.folder / "orders.json").unlink(missing_ok=True)
        check = (
            "import json, os; s = json.load(open('/settings.json')); os.stat(s['ca_file']); "
            "print(s['user'])"
        )
        seen.add(rig.mpremote("exec", check).strip())
    assert seen == {"rig-1", "me"}


@pytest.mark.long
def test_provision_leaves_the_program_alone(rig, folder):
    assert rig.outpost("flash", "--no-link") == 0
    (folder / "rig.toml").write_text(toml(PLAIN))
    assert rig.outpost("provision", folder / "rig.toml") == 0
    assert rig.is_whole() and "/settings.json" in rig.hashes()


# --- Asked for ---


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Answers of an earlier test, or of who runs the tests, are not offered."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def ask(monkeypatch, capsys, answers, secrets, *words):
    asked = []
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{one}\n" for one in answers)))
    monkeypatch.setattr(
        getpass, "getpass", lambda question: asked.append(question) or secrets.pop(0)
    )
    board = [] if "--board" in words else ["--board", "RPI_PICO_W"]
    return *provision(capsys, *board, *words), asked


ANSWERS = [
    "kitchen",
    "Home",
    "DE",
    "192.168.1.10",
    "",
    "board",
    "ca.pem",
    "",
    "60000",
    "temperature, adc@26",
    "20",
    "broker",
    "yes",
]


def test_answers_become_settings(folder, monkeypatch, capsys):
    kept = folder / "kept.toml"
    kept.unlink(missing_ok=True)
    status, out, err, asked = ask(
        monkeypatch, capsys, ANSWERS, [SECRET, "pass" + SECRET], "--save", kept
    )
    assert status == 0 and len(asked) == 2, err
    assert SECRET not in out + err and kept.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(kept.read_text()) == {
        "device_id": "kitchen", "wifi_ssid": "Home", "wifi_password": SECRET, "wifi_country": "DE",
        "broker_host": "192.168.1.10", "user": "board", "password": "pass" + SECRET,
        "ca_file": "ca.pem", "interval_ms": 60000, "sensors": ["temperature", "adc@26"],
        "tls": True, "deep_sleep": True, "connect_every": 20, "mode": "broker",
        "say_state": True, "commands": True,
    }  # fmt: skip
    assert provision(capsys, "--board", "RPI_PICO_W", kept)[0] == 0
    status, _, err, _ = ask(monkeypatch, capsys, ANSWERS, [SECRET, ""], "--save", kept)
    assert status == 2 and "File exists" in err


def kept(capsys, monkeypatch, answers, secrets):
    """What a settings file of these answers holds, and what was said meanwhile."""
    path = Path("kept.toml")
    path.unlink(missing_ok=True)
    status, out, err, _ = ask(monkeypatch, capsys, answers, secrets, "--save", path)
    assert status == 0, err
    assert not any(secret in out + err for secret in (SECRET, SHORT))
    return tomllib.loads(path.read_text()), err


SHORT = "tooshrt"
WRONG = {  # key: an answer that does not do, and what is said of it; in the order of the questions
    "device_id": ("two words", "That may hold A-Z a-z 0-9 _ . - only, not ' '."),
    "wifi_ssid": ("", "That is needed."),
    "wifi_country": ("Germany", "That must be of length 0 to 2, not 7."),
    "broker_host": ("mqtt://10.0.0.1", "That must be a name or an address alone, without mqtt://"),
    "broker_port": ("70000", "That must be 1 to 65535, not 70000."),
    "user": ("x" * 65, "That must be of length 0 to 64, not 65."),
    "ca_file": ("nowhere.pem", "That names 'nowhere.pem', which cannot be read: No such file"),
    "client_cert_file": ("client.key", "That names 'client.key', which"),
    "interval_ms": ("fast", "That must be a whole number, not 'fast'."),
    "sensors": ("radar", "That names 'radar', which this board does not have; known: "),
    "connect_every": ("0", "That must be 1 to 10000, not 0."),
    "mode": ("", "That is needed."),
    "commands": ("maybe", "That must be yes or no, not 'maybe'."),
}


@pytest.mark.parametrize(
    ("interval", "connect_every", "mode", "commands", "wins"),
    [
        ("60000", "", "collector", "no", True),
        ("60001", "", "collector", "no", False),
        ("60000", "20", "collector", "no", False),
        ("60000", "", "broker", "no", False),
        ("60000", "", "collector", "yes", False),  # too much for a Pico W, with TLS
    ],
)
def test_answers_get_series_where_they_win(
    interval, connect_every, mode, commands, wins, folder, monkeypatch, capsys
):
    answers = [*ANSWERS[:8], interval, ANSWERS[9], connect_every, mode, commands]
    found, err = kept(capsys, monkeypatch, answers, [SECRET, "pass" + SECRET])
    assert found.get("series", False) is wins
    assert ("series = true: each measurement is on flash at once" in err) is wins


def test_an_answer_that_does_not_do_is_asked_for_again_at_once(folder, monkeypatch, capsys):
    """With a mistake at every question, the settings are those without one."""
    monkeypatch.chdir(folder)
    good, _ = kept(capsys, monkeypatch, ANSWERS, [SECRET, "pass" + SECRET])
    answers = [
        text for key, one in zip(WRONG, ANSWERS, strict=True) for text in (WRONG[key][0], one)
    ]
    found, err = kept(capsys, monkeypatch, answers, [SHORT, SECRET, "pass" + SECRET])
    assert found == good
    assert "That must have 8 to 63 characters" in err
    for key in WRONG:
        assert WRONG[key][1] in err, key
    assert err.count("That ") == len(WRONG) + 1


def test_a_certificate_is_followed_by_its_own_key(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    files = ["ca.pem", "client.pem", "", "ca.pem", "client.key"]
    answers = [*ANSWERS[:6], *files, *ANSWERS[8:]]
    found, err = kept(capsys, monkeypatch, answers, [SECRET, ""])
    assert (found["client_cert_file"], found["client_key_file"]) == ("client.pem", "client.key")
    assert "That is needed." in err and "That names 'ca.pem'" in err


def test_one_can_go_back(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    answers = ["kitchn", "<", "kitchen", "Home", "DE", "192.168.1.9", "<", "192.168.1.10"]
    found, _ = kept(capsys, monkeypatch, answers + ANSWERS[4:], [SECRET, "pass" + SECRET])
    assert (found["device_id"], found["broker_host"]) == ("kitchen", "192.168.1.10")


def test_answers_are_offered_again_after_whatever_broke_off(folder, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(folder)
    status, _, err, _ = ask(monkeypatch, capsys, ANSWERS[:4], [SECRET])
    assert status == 2 and "the answers ended" in err and err.count("outpost:") == 1
    (draft,) = (tmp_path / "state" / "outpost").iterdir()
    assert draft.stat().st_mode & 0o777 == 0o600 and SECRET not in draft.read_text()
    assert ask(monkeypatch, capsys, ANSWERS, [SECRET, "pass" + SECRET])[0] == 0
    # Enter takes what stands in brackets, - is for none; passwords are asked for again
    answers = ["", "", "", "", "", "", "", "", "", "", "-", "", ""]
    found, err = kept(capsys, monkeypatch, answers, [SECRET, "pass" + SECRET])
    assert "[192.168.1.10]" in err and "[temperature, adc@26]" in err and "[yes]" in err
    assert found["commands"] is True
    assert found["sensors"] == ["temperature", "adc@26"] and found["interval_ms"] == 60000
    assert "connect_every" not in found and found["password"] == "pass" + SECRET
    assert not draft.exists(), "the file has them"


def test_the_port_and_the_file_to_save_to_are_looked_at_before_the_questions(
    folder, monkeypatch, capsys
):
    """Else all answers would be given for nothing."""
    status, _, err, asked = ask(monkeypatch, capsys, ANSWERS, [SECRET, ""], "--port", NO_PORT)
    assert status == 2 and "no such port" in err and "Wi-Fi" not in err and asked == []
    there = folder / "there.toml"
    there.touch()
    status, _, err, asked = ask(monkeypatch, capsys, ANSWERS, [SECRET, ""], "--save", there)
    assert status == 2 and "File exists" in err and "Wi-Fi" not in err and asked == []
    there.unlink()


def test_a_board_that_has_the_answers_ends_the_draft(rig, folder, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(folder)
    drafts = tmp_path / "state" / "outpost"
    words = ["--board", "RIG", "--port", rig.port]
    answers = ["rig-1", "127.0.0.1", "", "", "", "", "", "", "broker", "no"]
    status, out, err, _ = ask(monkeypatch, capsys, answers, [], *words)
    assert status == 0, err
    assert "written: /settings.json" in out
    assert list(drafts.iterdir()) == []


def test_nobody_to_ask(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    status, _, err = provision(capsys, "--board", "RPI_PICO_W")
    assert status == 2 and "nobody to ask" in err


def test_the_key_is_unencrypted_der_for_every_kind_of_key(folder):
    for name in ("client", "rsa"):
        key = reader.private_key((Path(folder) / f"{name}.key").read_bytes())
        der = reader.der_of_key(key)
        assert reader.der_of_key(reader.private_key(der)) == der and der[0] == 0x30
    assert settings_file.SECRET_KEYS == ("password", "wifi_password", "wifi_networks", "update_key")


def test_settings_come_after_the_certificates_that_they_name():
    """A cut between two renames must not leave settings whose certificate is not there yet; main.py
    is the last of all.
    """
    todo = plan.Plan(
        copy=dict.fromkeys(
            [plan.MAIN, plan.SETTINGS, "/tls/key-00000000.der", "/outpost/a.mpy", plan.RECORD], b""
        )
    )
    assert todo.renames == [
        plan.RECORD,
        "/outpost/a.mpy",
        "/tls/key-00000000.der",
        plan.SETTINGS,
        plan.MAIN,
    ]


def test_a_sensor_with_a_driver_is_asked_for_its_pins(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    sensors = ["temperature, attic=bme280 address=0x77, digital pin=7", "five", "5", "4"]
    again = "temperature, attic=bme280 address=0x77, digital pin=7"
    answers = [*ANSWERS[:9], *sensors[:1], sensors[1], sensors[3], again, *sensors[2:]]
    answers += ["20", "collector", ""]
    found, err = kept(capsys, monkeypatch, answers, [SECRET, "pass" + SECRET])
    assert found["sensors"] == [
        "temperature",
        {"driver": "bme280", "name": "attic", "address": 0x77, "scl": 5, "sda": 4},
        {"driver": "digital", "pin": 7},
    ]
    assert err.count("  attic: scl: ") == 2 and "digital: " not in err
    assert "key 'scl' must be a whole number, not 'five'" in err


def test_last_times_sensors_are_offered_in_the_words_in_which_they_are_given():
    words = "temperature, attic=bme280 address=119 scl=5 sda=4, adc@26"
    sensors = sensor_words.parsed(words, ("temperature",), None)
    assert sensor_words.line(sensors) == words
    back = [*sensors, {"driver": "ds18b20", "rom": 'a"b'}]
    assert tomllib.loads(f"a = {sensor_words.toml(back)}")["a"] == back
    assert sensor_words.parsed("attic=bme280", (), lambda question: "<") is None
    digits = {"driver": "ds18b20", "pin": 22, "rom": "2812345678901234"}
    assert sensor_words.parsed("ds18b20 pin=22 rom=2812345678901234", (), None) == [digits]


# --- At a terminal ---


class Typist:
    """`outpost provision` at a pseudo-terminal: answers a question when it is there."""

    def __init__(self, *words):
        self.shown = ""
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.execv(sys.executable, outpost_command.line(*words))

    def answer(self, question: str, text: str):
        """question: its beginning, on the last line."""
        self._until(lambda: question in self.shown.splitlines()[-1:][0] and self.shown[-2:] == ": ")
        os.write(self._terminal, text.encode() + b"\n")
        self.shown += "\n"

    def _until(self, is_there):
        end = time.monotonic() + 180
        while not (self.shown and is_there()):
            assert time.monotonic() < end, self.shown
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.shown += os.read(self._terminal, 4096).decode().replace("\r", "")

    def end(self) -> int:
        """The exit status."""
        while True:
            try:
                self.shown += os.read(self._terminal, 4096).decode().replace("\r", "")
            except OSError:  # Linux: the other end is closed
                break
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_at_a_terminal_mistakes_and_an_interrupt_cost_nothing(tmp_path, monkeypatch):
    """The passwords are not echoed; Ctrl-C in the middle, then Enter for what was answered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    words = ["provision", "--board", "RPI_PICO_W", "--save", "kitchen.toml"]
    typist = Typist(*words)
    typist.answer("name of this board", "two words")
    typist.answer("name of this board", "kitchen")
    typist.answer("Wi-Fi network", "Home")
    typist.answer("its password", "short")
    typist.answer("its password", SECRET)
    typist.answer("country", "\x03")
    assert typist.end() == 130
    assert SECRET not in typist.shown and "short" not in typist.shown
    assert "Traceback" not in typist.shown and "That may hold" in typist.shown

    typist = Typist(*words)
    for question, text in (
        ("name of this board", ""), ("Wi-Fi network", ""), ("its password", SECRET),
        ("country", "DE"), ("MQTT broker", "10.0.0.7"), ("its port", ""), ("user", ""),
        ("TLS: file with the CA", ""), ("milliseconds", "<"), ("TLS: file with the CA", ""),
        ("milliseconds", "5000"), ("sensors", ""), ("on a battery", ""), ("who takes", "colector"),
        ("who takes", "collector"), ("may `outpost send`", "yes"),
    ):  # fmt: skip
        typist.answer(question, text)
    assert typist.end() == 0, typist.shown
    assert SECRET not in typist.shown
    assert tomllib.loads(Path("kitchen.toml").read_text()) == {
        "device_id": "kitchen", "wifi_ssid": "Home", "wifi_password": SECRET, "wifi_country": "DE",
        "broker_host": "10.0.0.7", "interval_ms": 5000, "mode": "collector", "commands": True,
        "say_state": True, "series": True, "series_age_s": 60,
    }  # fmt: skip
