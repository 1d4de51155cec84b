# cpython-only: it tests the desktop tools
"""`outpost sources` at a real mosquitto with traffic of all eight kinds."""

import getpass
import subprocess
import threading
import time

import pytest

import foreign_traffic
import outpost_command
from foreign_traffic import KINDS, TASMOTA_ZONE
from outpost_tools.loopback.broker import ANY_USER, Broker
from outpost_tools.mqtt import credentials
from outpost_tools.readings.sources import examples, file, ready_files
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.result import Message, State
from paths import REPOSITORY
from real_broker import need_mosquitto

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def traffic(tmp_path_factory):
    """(port, publisher): a round is published about three times a second."""
    need_mosquitto()
    with Broker("mosquitto", tmp_path_factory.mktemp("broker")) as broker:
        publisher = foreign_traffic.Publisher("127.0.0.1", broker.port)
        is_over = threading.Event()

        def publish():
            while not is_over.wait(0.3):
                publisher.publish()

        thread = threading.Thread(target=publish)
        thread.start()
        yield broker.port, publisher
        is_over.set()
        thread.join()
        publisher.close()


def outpost(port, *words):
    """The finished process."""
    where = ("--broker", f"127.0.0.1:{port}", "--user", ANY_USER)
    environment = {"PYTHONPATH": str(REPOSITORY / "tools"), "TZ": "UTC"}
    return outpost_command.run("sources", *words, *where, env=environment)


@pytest.fixture(scope="module")
def draft(traffic):
    """(text, notes) that `learn` writes."""
    finished = outpost(traffic[0], "learn", "--seconds", 4)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, finished.stderr


def ready(kind):
    text = ready_files.text(kind)
    return file.parse(text.replace('zone = "UTC"', f'zone = "{TASMOTA_ZONE}"'), kind)


def plain(found):
    """What matters of a result: not the source's name, which a draft may choose."""
    if isinstance(found, Message):
        return found.device, found.readings, found.time_from, found.guarantee, found.native_id
    if isinstance(found, State):
        return found.device, found.is_online
    return None


def differences(kind, draft, sent):
    """Messages of a kind that the draft reads otherwise than the ready file."""
    now_ms = time.time_ns() // 1_000_000
    of_kind = [one for one in sent if one.kind == kind]
    results = [
        [plain(decode(one, s.topic.encode(), s.payload, now_ms)) for one in (ready(kind), draft)]
        for s in of_kind
    ]
    assert any(wanted is not None for wanted, _ in results), kind
    return [(wanted, got) for wanted, got in results if wanted != got]


def test_a_learnt_draft_reads_the_traffic_as_the_ready_files_do(draft, traffic):
    """For all eight kinds without an edit; six are asked for."""
    mapping = file.parse(draft[0], "draft.toml")
    wrong = {kind: differences(kind, mapping, traffic[1].sent) for kind in KINDS}
    assert {kind: found for kind, found in wrong.items() if found} == {}


def test_the_draft_is_checked_by_its_own_examples(draft):
    mapping = file.parse(draft[0], "draft.toml")
    assert examples.count(mapping) == len(mapping.readers) >= 14
    assert list(examples.faults(mapping)) == []


def test_the_notes_say_what_a_person_has_to_know(draft):
    assert "to # for 4 s, or until Ctrl-C" in draft[1]
    assert "Etc/GMT-" in draft[1] and "name the place, for summer time" in draft[1]
    assert "event/join" in draft[1], "a topic that nobody reads"


def test_check_says_what_matches_what(draft, traffic, tmp_path):
    path = tmp_path / "draft.toml"
    path.write_text(draft[0])
    finished = outpost(traffic[0], "check", path, "--seconds", 3)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    said = finished.stdout
    assert "chirpstack: " in said and "once by identifier" in said
    assert "zigbee2mqtt: " in said and "3 topics, 2 devices, 4 metrics" in said
    assert "without a source: 2 topics: " in said and "event/join" in said
    assert "ignored: " in said
    assert "no message" not in said and "refused" not in said


def test_check_says_what_is_refused_and_what_is_silent(traffic, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(
        '[[source]]\nname = "wrong"\ntopic = "sensors/{device}"\nvalues = ["humidity"]\n'
        '[[source]]\nname = "silent"\ntopic = "nowhere/{device}"\nvalues = ["*"]\n'
        '[[source]]\nname = "late"\ntopic = "tele/{device}/SENSOR"\nvalues = ["*.*"]\n'
        'time = { path = "Time", format = "rfc3339" }\n'
    )
    finished = outpost(traffic[0], "check", path, "--seconds", 2)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert "refused: none of the values is in it (sensors/" in finished.stdout
    assert "silent: no message" in finished.stdout
    assert "time of arrival instead: Time: " in finished.stdout
    assert "has no offset" in finished.stdout


def test_a_topic_filter_narrows_what_is_heard(traffic, tmp_path):
    finished = outpost(traffic[0], "learn", "--seconds", 2, "--topic", "senml/#")
    assert finished.returncode == 0, finished.stderr
    assert re_names(finished.stdout) == ["senml"]


def re_names(text):
    return [one.name for one in file.parse(text, "draft.toml").readers]


def test_an_empty_broker_is_said(tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path / "broker") as broker:
        finished = outpost(broker.port, "learn", "--seconds", 1)
    assert finished.returncode == 1 and finished.stdout == ""
    assert "outpost: nothing was heard that could be read" in finished.stderr


def test_a_monitors_credentials_work_with_tls(tmp_path):
    from made_broker import MadeBroker

    assert getpass.getuser()
    with MadeBroker(tmp_path, "kitchen") as broker:
        command = outpost_command.line("sources", "learn", "--seconds", "1")
        command += ["--credentials", str(broker.folder)]
        finished = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=120,
            env={"PYTHONPATH": str(REPOSITORY / "tools"), "HOME": str(tmp_path)},
        )  # fmt: skip
        assert credentials.find(broker.folder, "monitor").role == "monitor"
    said = finished.stderr
    assert finished.returncode in (1, 2), said
    assert "listening at" in said or "does not let this user read" in said
