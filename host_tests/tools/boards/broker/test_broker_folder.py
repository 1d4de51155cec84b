# cpython-only: it tests `outpost broker`
"""What `outpost broker` writes: who may read it, what a repetition keeps, what nobody prints."""

import getpass
import json
import os
import pwd
import ssl
import stat
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from outpost_tools import cli
from outpost_tools.boards.broker import certificates, configuration, making, security_file
from outpost_tools.boards.broker.folder import Folder
from outpost_tools.errors import ToolError
from outpost_tools.machine import interpreters
from outpost_tools.mqtt import credentials

PLUGIN = "/usr/lib/mosquitto_dynamic_security.so"


@pytest.fixture
def outpost(tmp_path, capsys):
    """Runs `outpost broker COMMAND DIR ...`; (status, stdout, stderr)."""

    def run(command, *words):
        capsys.readouterr()
        status = cli.main(["broker", command, str(tmp_path / "fleet"), *map(str, words)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture
def fleet(outpost, tmp_path):
    # nothing listens on port 1 of loopback: the broker does not run
    init(outpost, "--host", "127.0.0.1", "--port", 1)
    assert outpost("add", "kitchen")[0] == 0
    return tmp_path / "fleet"


def init(outpost, *words):
    status, out, err = outpost("init", *words, "--user", getpass.getuser(), "--plugin", PLUGIN)
    assert status == 0, err
    return out


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def passwords(folder):
    files = [*folder.glob("*/*.json"), folder / "admin.json"]
    found = [json.loads(path.read_text()).get("password") for path in files]
    return [one for one in found if one]


def test_files_and_folders_are_their_owners_alone(fleet):
    for path in (fleet, *fleet.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        if path.name != ".lock":  # empty
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_nothing_secret_is_printed_or_in_the_brokers_configuration(outpost, tmp_path):
    said = init(outpost, "--host", "127.0.0.1", "--port", 1)
    said += str(outpost("add", "kitchen")) + str(outpost("add", "kitchen", "--new-password"))
    said += str(outpost("add", "kitchen")) + str(outpost("list"))
    fleet = tmp_path / "fleet"
    secret = [*passwords(fleet), "PRIVATE KEY"]
    assert len(secret) == 5
    said += str(outpost("revoke", "kitchen"))
    open_texts = said + (fleet / "server" / "mosquitto.conf").read_text()
    assert not [one for one in secret if one in open_texts]
    # the broker has hashes
    document = (fleet / "server" / "dynamic-security.json").read_text()
    assert not [one for one in passwords(fleet) if one in document]


def test_a_credentials_object_does_not_show_its_password(fleet):
    found = credentials.find(fleet, "board", "kitchen")
    assert found.password not in repr(found) and len(found.password) >= 20


def test_a_repetition_changes_nothing(outpost, fleet):
    before = contents(fleet)
    assert "nothing to do" in init(outpost)
    assert "exists already" in outpost("add", "kitchen")[1]
    after = contents(fleet)
    # `add` gives the broker the same password again, with another salt
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"server/dynamic-security.json"} and before.keys() == after.keys()


def test_another_host_gets_another_certificate_and_passwords_stay(outpost, fleet):
    before = contents(fleet)
    init(outpost, "--host", "broker.home", "--host", "192.0.2.7", "--port", 8884)
    after = contents(fleet)
    assert before["ca.pem"] == after["ca.pem"]
    assert before["server/dynamic-security.json"] == after["server/dynamic-security.json"]
    old, new = (json.loads(one["boards/kitchen.json"]) for one in (before, after))
    assert (new.pop("host"), new.pop("port")) == ("broker.home", 8884)
    assert new.items() < old.items()
    assert "listener 8884" in after["server/mosquitto.conf"].decode()
    server = x509.load_pem_x509_certificate(after["server/server.pem"])
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker.home"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]


def test_a_host_with_a_final_dot_is_in_the_certificate_without_it(outpost, tmp_path):
    init(outpost, "--host", "Broker.Home.", "--port", 1)
    made = (tmp_path / "fleet" / "server" / "server.pem").read_bytes()
    server = x509.load_pem_x509_certificate(made)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["Broker.Home"]


def test_the_certificate_verifies_and_another_authority_does_not(fleet):
    """As OpenSSL sees it, with its strict rules."""
    server = x509.load_pem_x509_certificate((fleet / "server" / "server.pem").read_bytes())
    authority = x509.load_pem_x509_certificate((fleet / "ca.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    with pytest.raises(InvalidSignature):
        server.verify_directly_issued_by(
            x509.load_pem_x509_certificate(certificates.authority().certificate.encode())
        )
    context = ssl.create_default_context(cadata=(fleet / "ca.pem").read_text())
    assert context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED


def test_certificates_of_ones_own_are_taken_and_not_replaced(outpost, tmp_path):
    pair = certificates.authority()
    own = certificates.server(pair, ["broker.home"])
    files = {"ca.pem": pair.certificate, "own.pem": own.certificate, "own.key": own.key}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    given = ("--ca-file", tmp_path / "ca.pem", "--cert", tmp_path / "own.pem",
             "--key", tmp_path / "own.key")  # fmt: skip
    init(outpost, "--host", "broker.home", *given)
    fleet = tmp_path / "fleet"
    assert (fleet / "server" / "server.pem").read_text() == own.certificate
    assert not (fleet / "ca.key").exists()
    status, _, err = outpost("init", "--host", "other.home")
    assert status == 2 and "certificates are your own" in err
    assert (fleet / "server" / "server.pem").read_text() == own.certificate


@pytest.mark.parametrize(
    ("ca", "cert", "key", "says"),
    [
        ("ca.pem", "own.pem", "none.key", "none.key: cannot be read: No such file"),
        ("own.key", "own.pem", "own.key", "own.key: holds a private key, not a certificate"),
        ("ca.pem", "own.key", "own.pem", "own.key: holds a private key, not a certificate"),
        ("ca.pem", "own.pem", "other.key", "is not the key of --cert"),
        ("other.pem", "own.pem", "own.key", "has not signed --cert"),
        ("two.pem", "own.pem", "own.key", "holds 2 certificates, and a board takes one"),
        ("text.pem", "own.pem", "own.key", "text.pem: not a PEM file; convert it"),
    ],
)
def test_given_certificates_that_do_not_go_together_change_nothing(
    outpost, fleet, tmp_path, ca, cert, key, says
):
    """A fleet in use would have no authority's key any more, or each board a private key."""
    pair, other = certificates.authority(), certificates.authority()
    own = certificates.server(pair, ["broker.home"])
    files = {"ca.pem": pair.certificate, "own.pem": own.certificate, "own.key": own.key,
             "other.pem": other.certificate, "other.key": other.key,
             "two.pem": pair.certificate + other.certificate, "text.pem": "milk"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = contents(fleet)
    given = ("--ca-file", tmp_path / ca, "--cert", tmp_path / cert, "--key", tmp_path / key)
    status, _, err = outpost("init", *given)
    assert status == 2 and says in err and err.count("\n") == 1
    assert contents(fleet) == before and "PRIVATE KEY" not in err


def test_a_chain_is_taken_and_the_authority_goes_without_its_comment(outpost, fleet, tmp_path):
    """The certificate in between may be the authority itself; openssl writes names of any kind."""
    pair = certificates.authority()
    own = certificates.server(pair, ["broker.home"])
    (tmp_path / "ca.pem").write_text(f"subject: Büro\n{pair.certificate}", encoding="utf-8")
    (tmp_path / "own.pem").write_text(own.certificate + pair.certificate)
    (tmp_path / "own.key").write_text(own.key)
    given = ("--ca-file", tmp_path / "ca.pem", "--cert", tmp_path / "own.pem",
             "--key", tmp_path / "own.key")  # fmt: skip
    init(outpost, *given)
    assert credentials.find(fleet, "board", "kitchen").ca == pair.certificate
    assert credentials.find(fleet, "board", "kitchen").tls().get_ca_certs()


@pytest.mark.parametrize("ca", ["", "none", "é"])
def test_credentials_without_a_certificate_trust_nobody(fleet, ca):
    path = fleet / "boards" / "kitchen.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ca": ca}))
    with pytest.raises(ToolError, match="key 'ca' is not a certificate"):
        credentials.find(fleet, "board", "kitchen").tls()


def test_a_revoked_board_is_out_of_the_brokers_file_and_has_no_credentials(outpost, fleet):
    security = fleet / "server" / "dynamic-security.json"
    assert "kitchen" in security_file.bound(security_file.load(security))
    status, out, _ = outpost("revoke", "kitchen")
    assert status == 0 and "at its next start" in out
    document = security_file.load(security)
    assert "kitchen" not in security_file.bound(document)
    assert "board kitchen" not in [one["rolename"] for one in document["roles"]]
    assert not (fleet / "boards" / "kitchen.json").exists()
    status, _, err = outpost("revoke", "kitchen")
    assert status == 2 and "no board 'kitchen'; there: none" in err


def test_the_file_of_a_broker_that_runs_is_left_alone(outpost, fleet):
    """A mosquitto that has read it and does not answer here: what we wrote would be lost."""
    before = contents(fleet)
    pid_file = fleet / "server" / "mosquitto.pid"
    program = [sys.executable, "-c", "import time; time.sleep(600)", "mosquitto"]
    with subprocess.Popen(program) as process:
        pid_file.write_text(f"{process.pid}\n")
        status, _, err = outpost("add", "cellar")
        process.kill()
    assert status == 2 and f"process {process.pid}) runs with this folder" in err
    pid_file.unlink()
    assert contents(fleet) == before
    pid_file.write_text(f"{os.getpid()}\n")  # somebody else has the number now
    assert outpost("add", "cellar")[0] == 0


def test_who_is_in_the_folder_and_not_at_the_broker_is_told(outpost, fleet):
    assert outpost("list")[0] == 0
    (fleet / "boards" / "kitchen.json").rename(fleet / "boards" / "cellar.json")
    status, out, _ = outpost("list")
    assert status == 1
    assert "unknown to the broker" in next(one for one in out.splitlines() if "cellar" in one)
    assert "has no credentials here" in next(one for one in out.splitlines() if "kitchen" in one)


@pytest.mark.parametrize(
    "words, says",
    [
        (("add", "a/b"), "is not a valid name"),
        (("add", "collectors"), "reserved for the broker's own use"),
        (("add", "admin"), "reserved for the broker's own use"),
        (("add", "collector-1"), "already the name of a collector"),
        (("revoke", "nobody"), "no board 'nobody'; there: kitchen"),
        (("revoke", "collector-1"), "'collector-1' is a collector, not a board: `outpost broker"),
        (("revoke", "--monitor", "kitchen"), "'kitchen' is a board, not a monitor: `outpost "),
        (("init", "--prefix", "other"), "make another folder"),
        (("init", "--host", "a b"), "printable ASCII"),
        (("init", "--cert", "x.pem"), "go together"),
    ],
)
def test_faults_are_one_line_that_says_what_to_do(outpost, fleet, words, says):
    before = contents(fleet)
    status, _, err = outpost(*words)
    assert status == 2 and says in err and err.count("\n") == 1
    assert contents(fleet) == before


def test_commands_with_a_blank_in_the_folder_can_be_typed(tmp_path, capsys):
    folder = tmp_path / "my fleet"
    assert cli.main(["broker", "add", str(folder), "kitchen"]) == 2
    assert f"`outpost broker init '{folder}' --host NAME`" in capsys.readouterr().err
    words = ["--host", "127.0.0.1", "--port", "1", "--user", getpass.getuser()]
    assert cli.main(["broker", "init", str(folder), *words, "--plugin", PLUGIN]) == 0
    said = capsys.readouterr().out
    assert f"-c '{folder}/server/mosquitto.conf'; outpost broker add '{folder}' BOARD" in said
    with pytest.raises(ToolError, match=f"`outpost broker add '{folder}' kitchen`"):
        credentials.find(folder, "board", "kitchen")
    assert cli.main(["broker", "revoke", str(folder), "collector-1"]) == 2
    assert f"`outpost broker revoke '{folder}' --collector" in capsys.readouterr().err


def test_a_folder_that_is_none_is_told(outpost):
    status, _, err = outpost("add", "kitchen")
    assert status == 2 and "outpost broker init" in err
    status, _, err = outpost("init")
    assert status == 2 and "--host is missing" in err


def test_the_configuration_has_one_listener_and_the_recommended_limits(fleet):
    text = (fleet / "server" / "mosquitto.conf").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if line.startswith("listener")] == ["listener 1"]
    assert "allow_anonymous false" in lines and f"plugin {PLUGIN}" in lines
    assert not [line for line in lines if line.startswith(("acl_file", "password_file"))]
    assert "max_queued_messages 2147483647" in lines and f"user {getpass.getuser()}" in lines


def test_add_mends_the_limit_of_an_older_folder_and_says_so(outpost, fleet):
    """With 0, mosquitto closes the connection at each PUBLISH that it denies."""
    path = fleet / "server" / "mosquitto.conf"
    right = path.read_text()
    old = right.replace("max_queued_messages 2147483647", "max_queued_messages 0")
    old = old.replace("max_queued_bytes 1073741824", "max_queued_bytes 5000000")  # the user's own
    path.write_text(old)
    status, out, _ = outpost("add", "cellar")
    assert status == 0 and f"{path}: max_queued_messages 2147483647 instead of 0" in out
    assert "restart" in out
    assert path.read_text() == right.replace("1073741824", "5000000")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "max_queued" not in outpost("add", "cellar")[1]
    head = "# By default, mosquitto keeps 1,000 messages.\n"
    path.write_text(f"{head}# 0: no limit on their number ...\nmax_queued_messages 0\n# more\n")
    assert "instead of 0" in outpost("add", "cellar")[1]
    assert path.read_text() == f"{head}max_queued_messages 2147483647\n# more\n"
    path.unlink()
    assert outpost("add", "cellar")[0] == 0 and not path.exists()


def test_the_plugin_of_the_broker_in_the_cache_is_found():
    from real_broker import need_mosquitto

    need_mosquitto()
    assert configuration.find_plugin().endswith(configuration.PLUGIN)


def test_what_mosquittos_user_puts_into_its_folder_leads_root_nowhere(fleet, tmp_path, monkeypatch):
    """As root the folder is given to that user whenever users change."""
    victim = tmp_path / "victim"
    victim.write_text("root's\n")
    (fleet / "server" / "state" / "mosquitto.db").symlink_to(victim)
    given = []

    def chown(path, user, group, *, follow_symlinks=True):
        given.append(path.resolve() if follow_symlinks else path)
        if path.name == "server.key":
            raise FileNotFoundError  # replaced while we looked

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", chown)
    user = next(one.pw_name for one in pwd.getpwall() if one.pw_uid)
    Folder(fleet).give_to(user)
    assert victim not in given
    assert {fleet / "server", fleet / "server" / "mosquitto.conf"} <= set(given)


def test_roots_mosquitto_stays_root_where_it_has_no_user_of_its_own(monkeypatch):
    """`outpost fetch mosquitto` brings the program without the user."""

    def nobody(name):
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", nobody)
    assert making.broker_user() == "root"


def test_the_next_command_can_be_typed_where_mosquitto_was_fetched(outpost, monkeypatch):
    monkeypatch.setattr(interpreters, "find_mosquitto", lambda: ["/cache/bin/mosquitto"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert "next: /cache/bin/mosquitto -c " in init(outpost, "--host", "127.0.0.1", "--port", 1)


def test_a_broker_whose_name_is_not_known_says_how_it_gets_another(outpost):
    init(outpost, "--host", "broker.invalid", "--port", 1)
    status, _, err = outpost("add", "kitchen")
    assert status == 2 and "or give the address by `outpost broker init DIR --host" in err


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("hosts", [], "a list of names or addresses"),
        ("hosts", "broker.home", "a list of names or addresses"),
        ("hosts", ["a", 7], "a list of names or addresses"),
        ("hosts", ["two words"], "a list of names or addresses"),
        ("hosts", ["192.168.1..10"], "a list of names or addresses"),
        ("port", "8883", "a port, 1 to 65535"), ("port", True, "a port"), ("port", 0, "a port"),
        ("port", 65536, "a port"), ("port", 1.5, "a port"), ("port", None, "a port"),
        ("listen", None, "an address, or empty"), ("listen", "a\nb", "an address, or empty"),
        ("topic_prefix", "a/#", "a topic without"), ("topic_prefix", "", "a topic without"),
        ("topic_prefix", ["a"], "a topic without"),
        ("share", "", "the name of a group"), ("share", "a/b", "the name of a group"),
        ("user", "", "the name of a user"), ("user", "a\nuser root", "the name of a user"),
        ("plugin", 7, "the path of a plugin"), ("plugin", "", "the path of a plugin"),
        ("own_authority", "no", "true or false"), ("own_authority", 1, "true or false"),
    ],
)  # fmt: skip
def test_a_field_of_broker_json_that_cannot_be_used_is_named(outpost, fleet, key, value, said):
    path = fleet / "broker.json"
    given = json.loads(path.read_text())
    for broken, what in (
        ({**given, key: value}, f"must be {said}"),
        ({name: given[name] for name in given if name != key}, f"is missing: {said}"),
    ):
        path.write_text(json.dumps(broken))
        before = contents(fleet)
        for words in (("add", "cellar"), ("revoke", "kitchen"), ("list",), ("init",)):
            status, _, err = outpost(*words)
            assert status == 2 and f"{path}: key {key!r} {what}" in err
        assert contents(fleet) == before


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "not valid JSON"), ("{", "not valid JSON"), ("[" * 100_000, "not valid JSON"),
        ("[]", "a JSON object"), ("7", "a JSON object"), ("\xff", "not valid JSON"),
        ('{"hosts": ["a"]}', "key 'port' is missing"),
    ],
)  # fmt: skip
def test_what_is_no_broker_json_is_told(outpost, fleet, text, said):
    (fleet / "broker.json").write_bytes(text.encode("latin-1"))
    status, _, err = outpost("add", "cellar")
    assert status == 2 and f"{fleet / 'broker.json'}: {said}" in err


def test_an_unknown_key_of_broker_json_is_named(outpost, fleet):
    path = fleet / "broker.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": "a"}))
    status, _, err = outpost("add", "cellar")
    assert status == 2 and f"{path}: unknown key 'host'; known: hosts, port" in err


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("host", "", "not an address"), ("host", "192.168.1..10", "not an address"),
        ("port", True, "not a number"), ("port", 65536, "not an address"),
        ("user", "\ud800", "not a text for MQTT"), ("password", "a\0", "not a text for MQTT"),
        ("client_id", "x" * 65536, "not a text for MQTT"), ("ca", "\ud800", "not a text for MQTT"),
        ("topic_prefix", "a/#", "a topic without"), ("topic_prefix", "", "a topic without"),
    ],
    ids=lambda one: repr(one)[:20],
)  # fmt: skip
def test_a_field_of_credentials_that_cannot_be_used_is_named(fleet, key, value, said):
    path = credentials.place(fleet, "monitor", "monitor-1")
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ToolError, match=f"--credentials .*monitor-1.json: key.*'{key}'.*{said}"):
        credentials.find(fleet, "monitor")


def test_credentials_that_are_nested_without_end_are_none(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ToolError, match="not a credentials file of this version"):
        credentials.load(path, "monitor")
