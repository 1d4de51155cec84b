# cpython-only: starts servers with TLS and lets MicroPython talk to them
"""A board known by its certificate: mosquitto that takes the user from it, a server that wants SNI
and ALPN. Key material stays in its files.
"""

import base64
import ssl

import pytest

import make_certificates
from collector_process import Process
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.children import free_port
from real_broker import Observer, device, need_mosquitto, run, wait_for
from strict_server import Limits, StrictServer

each = pytest.mark.parametrize("architecture", ["i386", "cpython"])
DEVICE = "kitchen"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = make_certificates.made_or_skip(tmp_path_factory.mktemp("certificates"))
    for name, ca in ((DEVICE, "ca"), ("cellar", "ca"), ("forged", "other-ca")):
        make_certificates.certificate(folder, name, ca, names=f"DNS:{name}")
    return folder


@pytest.fixture(scope="module")
def broker(certificates, tmp_path_factory):
    """The certificate's name is the user, and the ACL gives each user its own topic."""
    need_mosquitto()
    folder = tmp_path_factory.mktemp("broker")
    (folder / "acl").write_text("topic read #\npattern write outpost/%u/data\n")
    (folder / "acl").chmod(0o600)
    port = free_port()
    listeners = f"""
acl_file {folder}/acl
listener {port} 127.0.0.1
cafile {certificates}/ca.pem
certfile {certificates}/server.pem
keyfile {certificates}/server.key
require_certificate true
use_identity_as_username true
"""
    with Broker("mosquitto", folder, more_listeners=listeners) as one:
        one.secure_port = port
        yield one


def settings(port, certificates, name, architecture, **more):
    kind = "" if architecture == "cpython" else ".der"
    return {
        "broker_host": "localhost", "broker_port": port, "tls": True,
        "ca_file": str(certificates / "ca.der"),
        "client_cert_file": str(certificates / f"{name}{kind or '.pem'}"),
        "client_key_file": str(certificates / f"{name}.key{kind}"), **more,
    }  # fmt: skip


def forms_of(key_file):
    """The key as somebody might print it."""
    der = key_file.with_suffix(".key.der").read_bytes()
    middle = der[36:60]  # of the private number
    return [base64.b64encode(der)[48:80].decode(), middle.hex(), repr(middle)[2:-1]]


@each
def test_the_certificate_is_the_user(architecture, broker, certificates, tmp_path):
    """Its own topic arrives; another's is acknowledged, and dropped by the ACL."""
    given = settings(broker.secure_port, certificates, DEVICE, architecture)
    folder = tmp_path / DEVICE
    topics = [f"outpost/{name}/data" for name in ("cellar", DEVICE)]
    steps = [["connect"], *(["publish", topic, 5, 1] for topic in topics), ["close"]]
    with Observer(broker.port, f"o-{architecture}", ("outpost/#", 1)) as observer:
        counters = run(architecture, folder, given, steps)[-1]
        observer.wait(5)
    assert [message.topic for message in observer.messages] == topics[1:] * 5
    assert counters["acknowledged"] == 10
    said = (folder / "device.log").read_text() + broker.log.read_text()
    assert not [form for form in forms_of(certificates / f"{DEVICE}.key") if form in said]


@each
@pytest.mark.parametrize("fault", ["forged", "key"])
def test_a_certificate_that_does_not_serve_names_no_secret(
    architecture, fault, broker, certificates, tmp_path
):
    """Of another authority, or with another's key."""
    name = "forged" if fault == "forged" else DEVICE
    given = settings(broker.secure_port, certificates, name, architecture)
    if fault == "key":
        given["client_key_file"] = given["client_key_file"].replace(DEVICE, "cellar")
    with device(architecture, tmp_path / DEVICE, given, [["fail"], ["close"]]) as one:
        one.process.wait(60)
    said = (tmp_path / DEVICE / "device.log").read_text()
    assert '"connected": true' not in said
    for key in (DEVICE, "cellar", "forged"):
        assert not [form for form in forms_of(certificates / f"{key}.key") if form in said]


def secure_server(certificates, **limits):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.load_verify_locations(certificates / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return StrictServer(Limits(**limits), tls=context)


@each
def test_the_server_name_goes_out_as_sni(architecture, certificates, tmp_path):
    with secure_server(certificates, tls_name="localhost") as server:
        given = settings(server.port, certificates, DEVICE, architecture)
        steps = [["connect"], ["publish", "a", 5, 1], ["close"]]
        assert run(architecture, tmp_path / DEVICE, given, steps)[1]["done"]
        assert (server.names, server.violations) == (["localhost"], [])
        steps, other = [["fail"]], {**given, "server_name": "127.0.0.1", "device_id": "x"}
        assert run(architecture, tmp_path / "other", other, steps)[0]["connects"] == 0


def test_alpn_goes_out_where_the_port_can(certificates, tmp_path):
    with secure_server(certificates, alpn="x-amzn-mqtt-ca") as server:
        given = settings(server.port, certificates, DEVICE, "cpython")
        assert run("cpython", tmp_path / "without", given, [["fail"]])[0]["connects"] == 0
        assert server.violations[:1] == ["no ALPN"]
        given["alpn"] = "x-amzn-mqtt-ca"
        steps = [["connect"], ["publish", "a", 5, 1], ["close"]]
        assert run("cpython", tmp_path / "with", given, steps)[1]["done"]


def test_alpn_is_refused_where_the_port_cannot(certificates, tmp_path):
    given = settings(1, certificates, DEVICE, "i386", alpn="mqtt")
    with device("i386", tmp_path / DEVICE, given, [["fail"]]) as one:
        assert one.process.wait(60) != 0
    said = (tmp_path / DEVICE / "device.log").read_text()
    assert "key 'alpn': this MicroPython's TLS cannot send it; leave it out" in said


def test_the_collector_proves_who_it_is_and_names_the_protocol(certificates, tmp_path):
    """On the name, with the certificate and the protocol that the server asks for."""
    options = ["--ca-file", "ca.pem", "--cert", "cellar.pem", "--key", "cellar.key"]
    options = [str(certificates / one) if "." in one else one for one in options]
    with secure_server(certificates, tls_name="localhost", alpn="x-amzn-mqtt-ca") as server:
        where = {"host": "localhost"}
        with Process(tmp_path, server.port, options=[*options, "--new-log"], **where) as collector:
            wait_for(lambda: server.violations, "a handshake without the protocol")
            assert "subscribed to" not in collector.text()
        options += ["--alpn", "x-amzn-mqtt-ca"]
        with Process(tmp_path, server.port, options=options, **where) as collector:
            wait_for(lambda: "subscribed to" in collector.text(), "a subscription")
        assert set(server.names) == {"localhost"} and set(server.violations) == {"no ALPN"}
