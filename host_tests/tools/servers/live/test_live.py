# cpython-only: a desktop tool
"""The live page over a real log, without a browser: values, events, escapes, who may look."""

import signal
import ssl
import time
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest

from live_server import WAIT_S, Events, Server, Writer, cursor_of, payload
from outpost_tools import cli
from outpost_tools.boards.broker import certificates
from outpost_tools.errors import ToolError
from outpost_tools.pages import arguments as page_arguments
from outpost_tools.servers.live import charts

NASTY = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """(server, writer of its log)"""
    folder = tmp_path_factory.mktemp("live")
    writer = Writer(folder / "log")
    writer.store("kitchen", ("temperature", "Cel", 21.5), ("battery", "V", 3.9))
    with Server(folder / "log", folder) as server:
        yield server, writer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_0_and_without_a_word(number, tmp_path):
    with Server(tmp_path / "log", tmp_path) as server:
        with Events(server, cursor_of(server.text())):  # it waits for a browser that listens
            server.process.send_signal(number)
            assert server.process.wait(WAIT_S) == 0
    assert "Traceback" not in server.output.read_text()


def test_the_page_has_the_newest_value_with_unit_age_and_battery(live):
    server, writer = live
    text = server.wait_for("kitchen")
    assert ">21.5</b> °C<" in text, text
    assert "<dt>battery</dt>" in text and "fine" in text
    writer.store("kitchen", ("temperature", "Cel", 22.25), ("battery", "V", 3.9))
    server.wait_for(">22.25</b> °C<")


def test_a_new_value_comes_as_an_event(live):
    server, writer = live
    page = server.wait_for("kitchen")
    with Events(server, cursor_of(page)) as events:
        writer.store("kitchen", ("temperature", "Cel", 23.125))
        data = events.until(lambda one: "s" in one)
    [sensor] = data["s"]
    assert sensor[1] == "23.125 °C" and sensor[5][-1][1] == 23.125
    assert f'data-s="{sensor[0]}"' in page


def test_a_new_board_comes_as_a_card_and_in_its_order(live):
    server, writer = live
    with Events(server, cursor_of(server.wait_for("kitchen"))) as events:
        writer.store("attic-10", ("light", "lx", 7))
        card = events.until(lambda one: any("attic-10" in c for c in one.get("cards", {}).values()))
        assert card["cards"]
    writer.store("attic-9", ("light", "lx", 7))
    text = server.wait_for("attic-9")
    assert text.index('data-name="attic-9"') < text.index('data-name="attic-10"')


def test_who_comes_back_late_gets_what_was_missed_once(live):
    server, writer = live
    cursor = cursor_of(server.wait_for("kitchen"))
    for value in (1, 2, 3):
        writer.store("late", ("count", "", value))
    server.wait_for("last 3 readings: 1 to 3")
    cards = []
    with Events(server, cursor) as events:
        writer.store("afterwards", ("count", "", 1))
        while not any('data-name="afterwards"' in card for card in cards):
            cards += events.next()[2].get("cards", {}).values()
    [card] = [one for one in cards if 'data-name="late"' in one]
    assert "last 3 readings: 1 to 3" in card


def test_a_page_of_an_earlier_server_is_told_to_load_again(live):
    server, _ = live
    for cursor in ("00000000-5", "", "x", "-", "00000000-٣"):
        with Events(server, quote(cursor)) as events:
            assert events.next()[0] == "reload"


def test_names_and_units_of_others_are_text(live):
    server, writer = live
    writer.store("rogue", (NASTY, NASTY, 1), ("\x1b[31m\u202e", "a\nb", 2))
    writer.raw(f"outpost/{NASTY}/data", payload("rogue", 9, [("x", "", 1)]))
    writer.raw("outpost/rogue/data", b"\xff<script>alert(1)</script>")
    server.wait_for("rogue")
    text = server.wait_for("Not messages of Outpost")
    for page in (text, server.text("/board/rogue?span=%3Cscript%3E")):
        assert "<img" not in page and "<script>" not in page and 'onerror="' not in page
        assert "\x1b" not in page and "\u202e" not in page
        assert "&lt;img" in page
    assert '\\"alert(1)\\"' in server.text("/metrics")


def test_the_board_page_has_a_day_a_week_and_a_month(live):
    server, writer = live
    now = time.time()
    for days in (40, 20, 5, 0.5):
        writer.store("old", ("level", "cm", days), received_s=now - days * 86400)
    server.wait_for(">0.5</b> cm<")  # the last of them
    found = {span: server.text(f"/board/old?span={span}") for span in ("day", "week", "month")}
    counts = {span: text.split("<tbody>")[-1].count("<tr>") for span, text in found.items()}
    assert counts == {"day": 1, "week": 2, "month": 3}
    assert 'role="img"' in found["day"] and 'aria-current="page"' in found["week"]
    assert server.get("/board/nobody")[0] == 404
    assert server.text("/board/old/charts?span=week").count("<figure") == 1


def test_the_table_of_a_chart_has_plain_numbers(live):
    server, writer = live
    now = time.time()
    for value in (101_325, 101_338):
        writer.store("barometer", ("pressure", "Pa", value), received_s=now)
    server.wait_for(">101338</b> Pa<")
    table = server.text("/board/barometer?span=day").split("<tbody>")[-1]
    assert "<td>101325</td><td>101331.5</td><td>101338</td>" in table


def test_a_missing_number_and_a_health_reading_need_attention(live):
    server, writer = live
    for seq in (0, 1, 4):
        writer.store("lossy", ("x", "", seq), seq=seq, held=min(seq, 3))
    writer.store("lossy", ("not_published", "", 2), seq=5, held=5)
    text = server.wait_for("2 not stored")
    assert "2 lost" in text and "not_published" not in text
    assert "What to do about it" in text and 'data-needs="yes"' in text
    assert text.index('data-name="lossy"') < text.index('data-name="kitchen"')


def test_a_copy_of_a_message_counts_once(live):
    server, writer = live
    for _ in range(3):
        writer.store("twice", ("x", "", 41), seq=0)
    writer.store("twice", ("x", "", 42), seq=1)
    server.wait_for("last 2 readings: 41 to 42")


def test_the_metrics_have_the_readings(live):
    server, _ = live
    text = server.text("/metrics")
    assert 'outpost_reading{board="kitchen",sensor="battery",unit="V"} 3.9' in text
    assert 'outpost_board_backlog_messages{board="kitchen"}' in text


def test_every_answer_forbids_scripts_of_others_and_framing(live):
    server, _ = live
    known = dict.fromkeys(("/", "/metrics", "/static/live.js"), 200)
    for path, expected in (known | {"/nothing": 404, "/static/..%2fapp.py": 404}).items():
        status, _, headers = server.get(path)
        assert status == expected
        policy = headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_of_another_name_that_points_here_reads_nothing(live):
    server, _ = live
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil", ""):
        assert server.get("/metrics", Host=host)[0] == 421
    for host in ("localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert server.get("/metrics", Host=host)[0] == 200


def test_the_report_is_shown_as_a_page_of_a_stranger(tmp_path):
    file = tmp_path / "report.html"
    Writer(tmp_path / "log").store("kitchen", ("temperature", "Cel", 21.5))
    with Server(tmp_path / "log", tmp_path, "--report", str(file)) as server:
        assert server.get("/report")[0] == 404 and "/report" not in server.wait_for("kitchen")
        file.write_text("<h1>tables</h1><script>1</script>")
        status, text, headers = server.get("/report")
        assert status == 200 and text == file.read_text()
        [policy] = headers.get_all("Content-Security-Policy")
        assert policy.startswith("sandbox allow-scripts;") and "allow-same-origin" not in policy
        assert 'href="/report"' in server.text()


def test_nothing_can_be_changed(live):
    server, _ = live
    for method in ("POST", "PUT", "DELETE"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(
                urllib.request.Request(server.url + "/", data=b"x", method=method)
            )
        assert refused.value.code == 405


def page_options(*words):
    return cli.build_parser("live").parse_args(["live", "--log", "log", *words])


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "[::]", "127.evil.example", "house"])
def test_it_refuses_to_listen_to_the_network_without_a_password(host):
    with pytest.raises(ToolError, match="--password-file"):
        page_arguments.page_password(page_options("--listen", f"{host}:8180"))


def test_with_a_password_it_listens_and_warns_of_plain_text(tmp_path, capsys):
    file = tmp_path / "password.txt"
    file.write_text("correct horse\n")
    file.chmod(0o600)
    chosen = page_options("--listen", "0.0.0.0:8180", "--password-file", str(file))
    assert page_arguments.page_password(chosen) == "correct horse"
    assert "--cert and --key" in capsys.readouterr().err


def test_https_and_what_is_wrong_with_a_certificate(tmp_path):
    authority = certificates.authority()
    made = certificates.server(authority, ["127.0.0.1"])
    pair = tmp_path / "live.pem", tmp_path / "live.key"
    for path, text in zip(pair, (made.certificate, made.key), strict=True):
        path.write_text(text)
    Writer(tmp_path / "log").store("kitchen", ("temperature", "Cel", 21.5))
    words = ("--cert", str(pair[0]), "--key", str(pair[1]))
    server = Server(tmp_path / "log", tmp_path, *words)
    server.url = server.url.replace("http:", "https:")
    server.context = ssl.create_default_context(cadata=authority.certificate)
    with server:
        server.wait_for("kitchen")
    listen = f"127.0.0.1:{server.port}"
    for bad in (tmp_path / "none.pem", pair[1]):
        args = page_options("--cert", str(bad), "--key", str(pair[1]), "--listen", listen)
        with pytest.raises(ToolError, match="--cert"):
            args.func(args)


def test_with_a_password_nothing_is_read_without_it(tmp_path):
    file = tmp_path / "password.txt"
    file.write_text("pass:word ü\n")
    file.chmod(0o600)
    writer = Writer(tmp_path / "log")
    writer.store("kitchen", ("temperature", "Cel", 21.5))
    server = Server(
        tmp_path / "log", tmp_path, "--password-file", str(file), password="pass:word ü"
    )
    with server:
        server.wait_for("kitchen")
        for wrong in ("Basic b3V0cG9zdDp4", "Basic %%", "Bearer x", ""):
            for path in ("/", "/events", "/metrics", "/healthz", "/static/live.js"):
                status, text, headers = server.get(path, Authorization=wrong)
                assert status == 401 and "kitchen" not in text
                assert "Basic" in headers["WWW-Authenticate"]
                if wrong:
                    break  # each wrong one waits a second
        assert server.get("/", Host="house.example")[0] == 200
        assert "pass:word" not in server.output.read_text()


def test_a_sensor_that_fails_and_a_clock_that_is_ahead_need_attention(live):
    server, writer = live
    writer.store("shed", ("soil", "%", 40), ("soil.fault", "", 1))
    server.wait_for("⌁</span> soil: no answer<")
    writer.store("shed", ("soil", "%", 40), ("soil.fault", "", 0), time_s=time.time() + 90)
    text = server.wait_for("clock ahead 1.5 min")
    assert "soil: no answer" not in text
    writer.store("shed", ("soil", "%", 40))
    until = time.monotonic() + 60
    while "clock ahead" in server.text():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_value_that_stays_the_same_is_a_line_amid_its_chart(live):
    assert charts._ticks(-60.0, -60.0) == [-62, -60, -58] and charts._ticks(0.0, 0.0)[1] == 0


def test_a_log_that_is_not_there_yet_is_said_and_waited_for(tmp_path):
    log = tmp_path / "logg"
    with Server(log, tmp_path) as server:
        said = server.output.read_text()
        assert f"--log {log} does not exist yet" in said and "outpost collect" in said
        Writer(log).store("garden", ("temperature", "Cel", 21.5))
        until = time.monotonic() + WAIT_S
        while "garden" not in server.text():
            assert time.monotonic() < until, "the page shows no board"
            time.sleep(0.1)
