# cpython-only: Arrow and Delta Lake
"""How far real tables have read a real log, and whether it is ours."""

import shutil

import pytest

from collector_process import STREAM, payload
from optional_packages import needed
from outpost_tools.log import identity, segments
from outpost_tools.messages.message import Key
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.disk_log import DiskLog
from outpost_tools.servers.collect.upload import Upload
from outpost_tools.store import at
from test_collect_admission import confirmed

with needed("the pipeline's packages"):
    from outpost_tools.readings.pipeline import delta, job, plan, tables
    from outpost_tools.servers.collect.admission import Extent
    from outpost_tools.servers.collect.reach import Reach
    from serial_engine import Serial

NOW_MS = 1_790_000_000_000


class Case:
    """A collector's log and tables; `folder`: the log of all collectors."""

    def __init__(self, folder, tables_dir, **how):
        self.folder, self.tables, self.sent = folder, tables_dir, 0
        self.log = self.reach = None
        self.start(**how)

    def start(self, **how):
        self.close()
        how = {"waits_for_tables": True} | how
        self.log = DiskLog(self.folder, "c1", **how)
        self.reach = None
        if how["waits_for_tables"]:
            self.reach = Reach(at.at(self.tables), self.log)

    def close(self):
        if self.log is not None:
            self.log.close()
            self.log = None

    def store(self, count=1, *, data=None):
        """As many segments."""
        for _ in range(count):
            made = Batch(1)
            text = payload(self.sent) if data is None else data
            made.frames.append(segments.encode_frame(NOW_MS, b"outpost/b1/data", text))
            made.keys.append(Key("b1", STREAM, self.sent, 0))
            self.log.add(made)
            self.log.commit()
            self.log.learn(made)
            self.log.seal_when_older(0)
            self.sent += 1

    def round(self):
        job.run(Serial(), self.folder, self.tables)

    def look(self):
        """Returns the number that is confirmed then."""
        self.reach.look()
        self.reach.admit()
        return confirmed(self.log.durable)


@pytest.fixture
def case(tmp_path):
    made = Case(tmp_path / "log", tmp_path / "tables")
    yield made
    made.close()


def test_tables_are_waited_for_and_then_followed(case, capsys):
    case.store(2)
    assert case.look() == case.look() == -1
    assert capsys.readouterr().err.count("has no tables yet; does the pipeline run?") == 1
    assert "2 segments wait for" in case.reach.remark
    case.round()
    case.store()
    assert case.look() == 1 and case.reach.found.extent == Extent(0, 1)
    assert "confirming again" in capsys.readouterr().err
    case.round()
    assert case.look() == 2 and case.reach.remark is None


def test_a_message_in_quarantine_is_in_the_tables(case):
    case.store(data=payload(0).replace(b'"ver": 1', b'"ver": 9'))
    case.round()
    assert tables.read_table(case.tables, "quarantine").num_rows == 1
    assert tables.read_table(case.tables, "readings").num_rows == 0
    assert case.look() == 0


def test_a_new_log_confirms_nothing_from_old_tables(case, tmp_path):
    """Also when it has as many segments, and the pipeline goes on with it."""
    case.store(3)
    case.round()
    assert case.look() == 2
    case.close()
    shutil.rmtree(case.folder)
    other = Case(case.folder, case.tables)
    assert other.look() == -1
    assert "segments up to 2 of another log of c1" in other.reach.found.trouble
    other.store(5)
    other.round()
    assert plan.taken(delta.open_table(case.tables / "streams"), "c1") == 4
    assert other.look() == -1
    other.start()
    assert other.look() == -1
    shutil.rmtree(case.tables)
    other.round()
    assert other.look() == 4
    other.close()


def test_tables_of_another_fleet_confirm_nothing(case, tmp_path):
    """Collectors have the same id unless they are given one."""
    foreign = Case(tmp_path / "other log", case.tables, waits_for_tables=False)
    foreign.store(4)
    foreign.round()
    case.store(4)
    assert case.look() == -1 and "another log" in case.reach.found.trouble
    foreign.store(1)
    foreign.round()
    case.store(2)
    assert case.look() == -1
    foreign.close()


def test_a_log_whose_tables_are_there_may_begin_to_wait_for_them(tmp_path):
    case = Case(tmp_path / "log", tmp_path / "tables", waits_for_tables=False)
    case.store(2)
    case.round()
    case.start()
    case.store(1)
    assert case.look() == -1 and case.reach.found.trouble is None
    case.round()  # which notes the identity
    assert case.look() == 2
    case.start(waits_for_tables=False)
    case.store(1)
    assert confirmed(case.log.durable) == 3
    case.start()
    case.store(1)
    assert case.look() == 3
    case.round()
    assert case.look() == 4
    case.close()


def test_recreated_tables_with_our_version_number_are_noticed(case):
    """Continued from what we knew of the old ones, they would have its last segment."""
    case.store(3)
    case.round()
    assert case.look() == 2
    known = delta.open_table(case.tables / "streams").version()
    shutil.rmtree(case.tables)
    for number in (1, 2):
        (case.log.directory / segments.sealed_name(number)).unlink()
    case.round()
    other = segments.SegmentWriter(case.folder / "c2")
    while delta.open_table(case.tables / "streams").version() <= known:
        other.append(segments.encode_frame(NOW_MS, b"outpost/b2/data", b"x"))
        other.seal()
        case.round()
    assert case.look() == 2 and case.reach.found.extent == Extent(0, 0)


def test_tables_that_cannot_be_read_change_nothing(case, capsys):
    case.store()
    case.round()
    assert case.look() == 0
    case.store()
    case.round()
    log = case.tables / "streams" / "_delta_log"
    kept = log.rename(case.tables / "kept")
    log.write_text("not a folder")
    assert case.look() == case.look() == 0
    said = capsys.readouterr().err
    assert said.count("cannot read") == 1 and "nothing new is confirmed meanwhile" in said
    assert case.log.admission.waiting_segments == 1
    log.unlink()
    kept.rename(log)
    assert case.look() == 1


def test_an_older_copy_of_the_log_confirms_nothing_from_newer_tables(case, tmp_path):
    case.store(2)
    case.close()
    shutil.copytree(case.folder, tmp_path / "copy")
    case.start()
    case.store(3)
    case.round()
    case.close()
    shutil.rmtree(case.folder)
    (tmp_path / "copy").rename(case.folder)
    case.start()
    case.sent = 2
    assert case.look() == -1
    case.store(3)
    assert case.look() == -1 and "an older copy" in case.reach.found.trouble
    case.start()  # it has as many segments now, and other ones
    assert case.look() == -1 and "another log" in case.reach.found.trouble


def test_with_new_log_the_tables_must_be_new_too(case):
    case.store()
    case.round()
    case.start(is_new=True)
    case.store()
    case.round()
    assert case.look() == -1
    shutil.rmtree(case.tables)
    case.round()
    assert case.look() == 1


def test_a_copy_of_the_log_has_its_identity_before_any_segment(case, tmp_path):
    case.store(2)
    target = at.at(tmp_path / "bucket" / "c1")
    made = Upload(case.log.folder, target)
    made.sealed(1)
    made.close()
    assert identity.read(target) == case.log.identity and len(segments.sealed_segments(target)) == 2
    job.run(Serial(), tmp_path / "bucket", case.tables)
    assert case.look() == 1


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"number": 1}', b'{"number": "x", "since": 0}']
)
def test_what_is_no_identity_is_replaced(tmp_path, data):
    folder = at.at(tmp_path)
    folder.put(identity.NAME, data)
    assert identity.read(folder) is None
    assert identity.ensure(folder, 4) == identity.ensure(folder, 9) == identity.read(folder)
    assert identity.read(folder).since == 4
