# cpython-only: a real S3 server, and a proxy before it that fails
"""A Store in a bucket: the promises of base.py on a real server, and each failure of a service with
its outcome and its words."""

import multiprocessing
import os
import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import object_store
from outpost_tools.errors import ToolError
from outpost_tools.store import at, keys, objects, probe
from outpost_tools.store.base import Entry, StoreError

ODD = "a b%20ü%41#?+&=~'.txt"
SECRETS = (object_store.KEY, object_store.SECRET, "SignatureProvided", "Signature=", "<")


@pytest.fixture
def store(bucket_url):
    return at.at(bucket_url) / "log"


@pytest.fixture
def proxied(faulty_store, bucket_url):
    """The same, its requests through the proxy."""
    return at.at(bucket_url) / "log"


def all_operations(store):
    return {
        "get": lambda: store.get("a"),
        "size": lambda: store.size("a"),
        "put": lambda: store.put("a", b"1"),
        "create": lambda: store.create("new", b"1"),
        "write": lambda: store.write("a", b"1"),
        "entries": store.entries,
        "folders": store.folders,
        "delete": lambda: store.delete(["a"]),
    }


def refusal(do):
    """The words of the error that this raises: safe to show, and short enough to read."""
    with pytest.raises(StoreError) as found:
        do()
    text = str(found.value)
    assert not [secret for secret in SECRETS if secret in text], text
    assert len(text) < 220 and "\n" not in text
    return text


def test_a_file_is_put_created_once_listed_and_deleted(bucket_url):
    store = at.at(f"{bucket_url}/log/") / "c1"
    assert (store.uri, store.name, store.is_local) == (f"{bucket_url}/log/c1", "c1", False)
    assert store.create("a", b"first") and not store.create("a", b"second")
    assert store.create("a", b"first")  # a repeat of the same is the same file
    store.put("b", b"12")
    store.put("b", b"123")
    store.write("sub/c", b"1")
    store.sync(["sub/c", "gone"])
    assert store.entries() == [Entry("a", 5), Entry("b", 3)]
    assert store.entries(after="a") == [Entry("b", 3)]
    assert (store.folders(), at.at(f"{bucket_url}/log").folders()) == (["sub"], ["c1"])
    assert (at.at(bucket_url).folders(), at.at(bucket_url).entries()) == (["log"], [])
    assert (store.get("a"), store.size("b"), store.exists("sub/c")) == (b"first", 3, True)
    store.delete(["a", "a", "nothing"])
    assert not store.exists("a")
    for do in (store.get, store.size):
        with pytest.raises(FileNotFoundError, match="log/c1/a: not there"):
            do("a")


def test_a_folder_that_is_not_there_is_empty(store):
    assert (store.entries(), store.folders(), store.exists("a")) == ([], [], False)


def test_names_with_spaces_percent_signs_and_other_alphabets(bucket_url):
    store = at.at(f"{bucket_url}/a b ü~") / "日本"
    assert store.create(ODD, b"1") and not store.create(ODD, b"2")
    store.put("day=2026-11-27 08%3A00/ö", b"12")
    assert store.entries() == [Entry(ODD, 1)]
    assert store.folders() == ["day=2026-11-27 08%3A00"]
    assert (store.get(ODD), store.size(ODD), at.at(bucket_url).folders()) == (b"1", 1, ["a b ü~"])
    assert store.filesystem.open_input_file(ODD).read() == b"1"
    store.delete([ODD])
    assert store.entries() == []


def test_more_files_than_a_page_has(proxied, faulty_store):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: proxied.put(f"{n:05}", b"1"), range(1203)))
    faulty_store.forget()
    names = [entry.name for entry in proxied.entries()]
    assert names == [f"{n:05}" for n in range(1203)] and faulty_store.counts == {"LIST": 2}
    assert [entry.name for entry in proxied.entries(after="01199")] == ["01200", "01201", "01202"]
    faulty_store.forget()
    proxied.delete(names)
    assert proxied.entries() == [] and faulty_store.counts["DELETE"] == 2


def test_a_store_is_pickled_without_its_client(store):
    store.put("a", b"1")
    copy = pickle.loads(pickle.dumps(store / "sub"))
    assert copy == store / "sub" and pickle.loads(pickle.dumps(store)).get("a") == b"1"
    assert object_store.SECRET.encode() not in pickle.dumps(store)


def test_of_writers_that_create_the_same_files_each_file_has_one(store):
    def create_all(writer):
        return [store.create(f"{n:02}", b"%d" % writer) for n in range(50)]

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create_all, range(8)))
    for n in range(50):
        (winner,) = [writer for writer in range(8) if made[writer][n]]
        assert store.get(f"{n:02}") == b"%d" % winner


@pytest.mark.parametrize("kinds", [{"PUT"}, {"PUT", "GET"}])
def test_a_creation_whose_answer_was_lost_finds_its_own_file(proxied, faulty_store, kinds):
    for kind in kinds:
        faulty_store.cut_after(kinds={kind}, times=1, part="log/mine")
    assert proxied.create("mine", b"1") and not proxied.create("mine", b"2")


def test_a_creation_whose_request_was_lost_is_repeated(proxied, faulty_store):
    faulty_store.cut_before(kinds={"PUT"}, times=2)
    assert proxied.create("a", b"1") and proxied.get("a") == b"1"
    assert faulty_store.counts["PUT"] == 3


def test_a_busy_service_is_asked_again(proxied, faulty_store):
    faulty_store.refuse("SlowDown", times=2)
    proxied.put("a", b"1")
    faulty_store.refuse("InternalError", times=2)
    assert proxied.get("a") == b"1"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("AccessDenied", "the keys have no right to do this; check their policy"),
        ("InvalidAccessKeyId", "does not know these keys; check those in the environment"),
        ("SignatureDoesNotMatch", "does not know these keys; check those in the environment"),
        ("ExpiredToken", "the keys have expired; put new ones into the environment"),
        ("RequestTimeTooSkewed", "the clock of this machine is not that of the service; set it"),
        ("QuotaExceeded", "the storage is full; delete something, or raise the quota"),
        ("SlowDown", "the service refuses that many requests; it may take them later"),
        ("InternalError", "the service has failed; look at its state, and try again later"),
        ("NoSuchBucket", "no such bucket; make it, or check its name"),
        ("PermanentRedirect", "the bucket is in another region; set AWS_REGION"),
    ],
)
def test_each_refusal_says_what_is_wrong_and_what_to_do(proxied, faulty_store, code, says):
    faulty_store.refuse(code)
    for what, do in all_operations(proxied).items():
        if what == "size" and code == "NoSuchBucket":
            continue  # the answer to HEAD has no body: it says no more than "not there"
        text = refusal(do)
        assert text.startswith(f"{proxied}") and (says in text or what == "size"), (what, text)
    faulty_store.clear()
    assert proxied.entries() == []


def test_a_bucket_that_does_not_exist_is_no_empty_folder(bucket_url):
    store = at.at("s3://nobody-made-this-one") / "log"
    for do in (store.entries, store.folders, lambda: store.get("a")):
        assert "no such bucket; make it, or check its name" in refusal(do)


def test_a_service_that_is_not_there(monkeypatch, bucket_url):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    began = time.monotonic()
    assert "not reached; check the network" in refusal(at.at(bucket_url).entries)
    assert time.monotonic() - began < 20


def test_a_service_that_does_not_answer_ends_in_an_error(monkeypatch, proxied, faulty_store):
    monkeypatch.setattr(objects, "_CLIENT", {"connect_timeout": "1s", "timeout": "1s"})
    monkeypatch.setattr(objects, "_RETRIES", {"max_retries": 1})
    event = threading.Event()
    faulty_store.hold(event)
    assert "no answer in time; check the network" in refusal(lambda: proxied.create("a", b"1"))
    event.set()


def test_a_slow_service_is_waited_for(proxied, faulty_store):
    faulty_store.delay_s = 1.0
    assert proxied.create("a", b"1") and proxied.get("a") == b"1"


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_keys(monkeypatch, bucket_url, name):
    monkeypatch.setenv(name, "wrong-one")
    for do in all_operations(at.at(bucket_url)).values():
        text = refusal(do)
        assert "wrong-one" not in text
        assert "the service does not know these keys" in text or "(HEAD 403)" in text


def test_a_key_without_its_secret(monkeypatch, bucket_url):
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "AWS_ACCESS_KEY_ID is set, but not AWS_SECRET_ACCESS_KEY" in refusal(
        at.at(bucket_url).entries
    )


def test_an_address_without_tls_must_be_allowed(monkeypatch, bucket_url):
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "take https://, or set AWS_ALLOW_HTTP=true" in refusal(at.at(bucket_url).entries)


@pytest.fixture
def metadata_service(monkeypatch):
    """A port in place of the metadata service of a cloud's machine; no keys are set."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name in ("AWS_METADATA_ENDPOINT", "GCE_METADATA_ROOT", "AZURE_MSI_ENDPOINT"):
            monkeypatch.setenv(name, address)
        yield server


def was_asked(server):
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "abfss"])
def test_without_keys_nobody_is_asked_for_some_if_that_is_forbidden(
    monkeypatch, metadata_service, tmp_path, scheme
):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    store = at.at(f"{scheme}://without-keys/log")
    for do in (*all_operations(store).values(), lambda: store.options):
        assert f"{scheme}://without-keys: no keys for it; set A" in refusal(do).replace("GO", "A")
    assert not was_asked(metadata_service)


def test_without_keys_and_metadata_service_the_error_comes_at_once(monkeypatch, metadata_service):
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    began = time.monotonic()
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (profiles" in refusal(
        at.at("s3://without-keys-either").entries
    )
    assert time.monotonic() - began < 5


def test_a_machine_of_the_cloud_has_keys(metadata_service):
    keys.check("s3://of-this-machine")
    assert was_asked(metadata_service)


@pytest.mark.parametrize(
    "variable",
    ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"],
)
def test_keys_of_any_kind_will_do(monkeypatch, metadata_service, variable):
    monkeypatch.setenv(variable, "x")
    keys.check("s3://with-keys")
    assert not was_asked(metadata_service)


def test_a_bucket_with_conditional_writes_passes_and_keeps_nothing(store):
    probe.check(store)
    assert (store.entries(), store.folders()) == ([], [])


def test_one_without_is_refused(proxied, faulty_store):
    faulty_store.ignores_conditions = True
    with pytest.raises(ToolError, match="two writers would lose each other's commits; use one"):
        probe.check(proxied)
    faulty_store.clear()
    assert proxied.folders() == []


@pytest.mark.parametrize("code", ["AccessDenied", "QuotaExceeded", "SlowDown"])
def test_a_bucket_that_cannot_be_written_is_refused(proxied, faulty_store, code):
    faulty_store.refuse(code, kinds={"PUT"})
    refusal(lambda: probe.check(proxied))


def _get(store, into, environment):
    os.environ.update(environment)  # the fork server may be older than this test's
    try:
        into.put(store.get("a"))
    except StoreError as error:
        into.put(str(error))


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_another_process_reads_it_unless_it_was_forked(store, method):
    store.put("a", b"1")
    context = multiprocessing.get_context(method)
    into = context.SimpleQueue()
    process = context.Process(target=_get, args=(store, into, dict(os.environ)), daemon=True)
    process.start()
    assert into.get() == b"1" if method != "fork" else "start it by spawn" in into.get()
    process.join(30)
