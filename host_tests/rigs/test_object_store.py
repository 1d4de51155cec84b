# cpython-only: a real S3 server in a process of its own, and a proxy before it
"""The S3 server of the tests, and the proxy that fails: what others count on."""

import shutil
import subprocess
import threading

import obstore
import pytest
from obstore import exceptions

import object_store

NO_RETRIES = {"max_retries": 0}


def client(url):
    """From the environment, as the product has it."""
    return obstore.store.from_url(url, client_options={"allow_http": True}, retry_config=NO_RETRIES)


def test_a_bucket_is_new_and_empty(object_server, bucket_url):
    assert bucket_url != object_server.bucket()
    one = client(bucket_url)
    assert not list(one.list())
    one.put("a b/ü%.txt", b"1", mode="create")
    with pytest.raises(exceptions.AlreadyExistsError):
        one.put("a b/ü%.txt", b"2", mode="create")
    assert [found["path"] for page in one.list() for found in page] == ["a b/ü%.txt"]


@pytest.mark.skipif(shutil.which("ss") is None, reason="optional: ss, of iproute2")
def test_it_listens_on_loopback_alone(object_server):
    shown = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=True).stdout
    mine = [line.split()[3] for line in shown.splitlines() if f"pid={object_server.pid}," in line]
    assert len(mine) >= 4 and {address.rpartition(":")[0] for address in mine} == {"127.0.0.1"}


def test_killed_and_started_again_it_has_what_it_answered_for(tmp_path, monkeypatch):
    with object_store.ObjectServer(tmp_path / "server") as server:
        for name, text in server.environment.items():
            monkeypatch.setenv(name, text)
        one = client(server.bucket())
        one.put("a", b"1")
        server.kill()
        with pytest.raises(exceptions.GenericError):
            one.get("a")
        server.start()
        assert one.get("a").bytes().to_bytes() == b"1"


def test_the_proxy_counts_requests_by_kind(bucket_url, faulty_store):
    one = client(bucket_url)
    one.put("f/a", b"123")
    assert one.get("f/a").bytes().to_bytes() == b"123"
    assert one.head("f/a")["size"] == 3
    list(one.list())
    one.delete(["f/a"])
    assert faulty_store.counts == {"PUT": 1, "GET": 1, "HEAD": 1, "LIST": 1, "DELETE": 1}
    assert faulty_store.sent >= 3 and faulty_store.received > 3
    assert faulty_store.seen[0] == ("PUT", bucket_url[4:] + "/f/a")
    list(one.list("f"))
    assert faulty_store.seen[-1] == ("LIST", bucket_url[4:] + "/f/")
    faulty_store.forget()
    assert not faulty_store.counts and not faulty_store.sent


def test_a_request_that_is_refused_does_not_arrive(bucket_url, faulty_store):
    one = client(bucket_url)
    faulty_store.refuse("SlowDown", kinds={"PUT"}, times=1)
    with pytest.raises(exceptions.GenericError, match="SlowDown"):
        one.put("a", b"1")
    assert not list(one.list())
    one.put("a", b"1")


def test_a_connection_is_cut_before_or_after(bucket_url, faulty_store):
    one = client(bucket_url)
    for cut, is_there in ((faulty_store.cut_before, False), (faulty_store.cut_after, True)):
        cut(kinds={"PUT"}, times=1, part="/cut")
        with pytest.raises(exceptions.GenericError):
            one.put("cut", b"1")
        assert bool(list(one.list())) == is_there


def test_a_server_without_conditions_accepts_a_second_create(bucket_url, faulty_store):
    one = client(bucket_url)
    faulty_store.ignores_conditions = True
    one.put("a", b"1", mode="create")
    one.put("a", b"2", mode="create")
    faulty_store.clear()
    with pytest.raises(exceptions.AlreadyExistsError):
        one.put("a", b"3", mode="create")


def test_a_request_is_held_until_the_test_says_so(bucket_url, faulty_store):
    one, event = client(bucket_url), threading.Event()
    faulty_store.hold(event, part="/late")
    late = threading.Thread(target=one.put, args=("late", b"1"))
    late.start()
    one.put("early", b"1")
    assert [found["path"] for page in one.list() for found in page] == ["early"]
    event.set()
    late.join(30)
    assert one.get("late").bytes().to_bytes() == b"1"
