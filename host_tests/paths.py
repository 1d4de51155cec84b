"""Where things lie, and the folders that tests import from: the one list of them.

conftest.py puts ALL on sys.path for pytest, run_micropython.py hands its files PRODUCT and HELPERS,
and the programs of bench/, fuzz/ and rigs/ put host_tests on sys.path, import this and take ALL. A
test also imports what lies in its own folder: both runners put that first. There are no packages
here, so the name of a module must be unique within host_tests (test_findable.py holds that).
"""

from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent
REPOSITORY = HOST_TESTS.parent

FAKES = HOST_TESTS / "fakes"
RIGS = HOST_TESTS / "rigs"
FUZZ = HOST_TESTS / "fuzz"
BENCH = HOST_TESTS / "bench"
PROVE = HOST_TESTS / "prove"

FIRMWARE = REPOSITORY / "firmware"
BOARDS = REPOSITORY / "boards"  # of which `support` is imported
UNIX_BOARD = BOARDS / "UNIX"
BENCH_BOARD = BOARDS / "BENCH"  # of which `virtual` is imported
STUBS = REPOSITORY / "tools" / "cpython_stubs"  # what CPython needs to run the firmware

PRODUCT = (FIRMWARE, BOARDS, UNIX_BOARD, BENCH_BOARD)
HELPERS = (FAKES, RIGS, FUZZ, BENCH, PROVE)
ALL = [str(path) for path in (*PRODUCT, REPOSITORY / "tools", STUBS, *HELPERS, HOST_TESTS)]


def library_module(name: str) -> Path:
    """The source of a module of the library, in whichever room it lies."""
    (found,) = (FIRMWARE / "outpost").rglob(f"{name}.py")
    return found


def dotted(module: Path) -> str:
    """The name by which a module of the library is imported."""
    return ".".join(module.relative_to(FIRMWARE).with_suffix("").parts)


def joined(*paths: Path | str) -> str:
    """As MICROPYPATH and PYTHONPATH want them."""
    return ":".join(map(str, paths))
