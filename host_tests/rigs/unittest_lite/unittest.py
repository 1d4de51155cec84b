"""The part of CPython's `unittest` that Outpost's dual tests use, for MicroPython, whose unix build
has none.

The tests do not know about it: under CPython `import unittest` gets CPython's, under MicroPython
this one. The version on PyPI (`micropython-unittest`) cannot be installed by pip and is too old to
have subTest and skip reasons.

`run_module(name)` prints a traceback per failure, `SKIP <test>: <reason>` per skip, and at the end
one line `RESULT <passed> <failed> <skipped>` for host_tests/run_micropython.py. A test that fails
in several subTests counts once.
"""

import gc
import sys


class SkipTest(Exception):
    """Raised to leave a test; its argument is the reason."""


class _RaisesContext:
    """`with assertRaises(...) as context`; `context.exception` afterwards."""

    def __init__(self, expected, pattern=None):
        self.expected = expected
        self.pattern = pattern
        self.exception = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            raise AssertionError("%r not raised" % (self.expected,))
        if not issubclass(kind, self.expected):
            return False
        self.exception = value
        if self.pattern is not None:
            import re

            if not re.search(self.pattern, str(value)):
                raise AssertionError("%r does not match %r" % (str(value), self.pattern))
        return True


class _SubTest:
    """Records a failure with its parameters and lets the test continue."""

    def __init__(self, case, message, parameters):
        self.case = case
        self.text = " ".join(
            [str(message)] * (message is not None) + ["%s=%r" % item for item in parameters.items()]
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None or not issubclass(kind, Exception) or issubclass(kind, SkipTest):
            return False
        print("in subTest (%s):" % self.text)
        self.case._note(value)
        return True


class TestCase:
    """One instance per test method, as in CPython."""

    def __init__(self, method_name="runTest"):
        self._method_name = method_name
        self._cleanups = []
        self._failed = False

    def setUp(self):
        pass

    def tearDown(self):
        pass

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def id(self):
        return "%s.%s" % (type(self).__name__, self._method_name)

    def addCleanup(self, function, *arguments, **keywords):
        self._cleanups.append((function, arguments, keywords))

    def skipTest(self, reason):
        raise SkipTest(reason)

    def subTest(self, msg=None, **parameters):
        return _SubTest(self, msg, parameters)

    def _note(self, error):
        self._failed = True
        sys.print_exception(error)

    def _run_body(self):
        self.setUp()
        try:
            getattr(self, self._method_name)()
        finally:
            self.tearDown()

    def _run(self):
        """Returns "passed", "failed", or the SkipTest."""
        skip = None
        try:
            self._run_body()
        except SkipTest as reason:
            skip = reason
        except Exception as error:
            self._note(error)
        while self._cleanups:
            function, arguments, keywords = self._cleanups.pop()
            try:
                function(*arguments, **keywords)
            except Exception as error:
                self._note(error)
        if self._failed:
            return "failed"
        return skip or "passed"

    # --- assertions ---

    def fail(self, msg=None):
        raise AssertionError(msg)

    def _check(self, holds, text, msg):
        if not holds:
            raise AssertionError(text if msg is None else "%s : %s" % (text, msg))

    def assertTrue(self, value, msg=None):
        self._check(value, "%r is not true" % (value,), msg)

    def assertFalse(self, value, msg=None):
        self._check(not value, "%r is not false" % (value,), msg)

    def assertEqual(self, first, second, msg=None):
        self._check(first == second, "%r != %r" % (first, second), msg)

    def assertNotEqual(self, first, second, msg=None):
        self._check(first != second, "%r == %r" % (first, second), msg)

    def assertIs(self, first, second, msg=None):
        self._check(first is second, "%r is not %r" % (first, second), msg)

    def assertIsNot(self, first, second, msg=None):
        self._check(first is not second, "both are %r" % (first,), msg)

    def assertIsNone(self, value, msg=None):
        self._check(value is None, "%r is not None" % (value,), msg)

    def assertIsNotNone(self, value, msg=None):
        self._check(value is not None, "unexpectedly None", msg)

    def assertIn(self, item, container, msg=None):
        self._check(item in container, "%r not in %r" % (item, container), msg)

    def assertNotIn(self, item, container, msg=None):
        self._check(item not in container, "%r in %r" % (item, container), msg)

    def assertIsInstance(self, value, kind, msg=None):
        self._check(isinstance(value, kind), "%r is not a %r" % (value, kind), msg)

    def assertGreater(self, first, second, msg=None):
        self._check(first > second, "%r not > %r" % (first, second), msg)

    def assertGreaterEqual(self, first, second, msg=None):
        self._check(first >= second, "%r not >= %r" % (first, second), msg)

    def assertLess(self, first, second, msg=None):
        self._check(first < second, "%r not < %r" % (first, second), msg)

    def assertLessEqual(self, first, second, msg=None):
        self._check(first <= second, "%r not <= %r" % (first, second), msg)

    def assertRaises(self, expected, function=None, *arguments, **keywords):
        context = _RaisesContext(expected)
        if function is None:
            return context
        with context:
            function(*arguments, **keywords)

    def assertRaisesRegex(self, expected, pattern, function=None, *arguments, **keywords):
        context = _RaisesContext(expected, pattern)
        if function is None:
            return context
        with context:
            function(*arguments, **keywords)


# --- skipping (a MicroPython function takes no attributes, so a skipped function is replaced) ---


def skip(reason):
    def decorate(target):
        if isinstance(target, type):
            target._skip_reason = reason
            return target

        def skipped(*arguments):
            raise SkipTest(reason)

        return skipped

    return decorate


def skipIf(condition, reason):
    return skip(reason) if condition else lambda target: target


def skipUnless(condition, reason):
    return skipIf(not condition, reason)


# --- running ---


class _Result:
    def __init__(self, module_name, verbose):
        self.module_name = module_name
        self.verbose = verbose
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}

    def add(self, test_id, outcome):
        name = "%s.%s" % (self.module_name, test_id)
        if isinstance(outcome, SkipTest):
            self.counts["skipped"] += 1
            print("SKIP %s: %s" % (name, outcome))
            return
        self.counts[outcome] += 1
        if outcome == "failed":
            print("FAIL %s" % name)
        elif self.verbose:
            print("ok   %s" % name)


def _run_class(case_class, result):
    names = sorted(name for name in dir(case_class) if name.startswith("test"))
    reason = getattr(case_class, "_skip_reason", None)
    try:
        if reason is not None:
            raise SkipTest(reason)
        case_class.setUpClass()
    except SkipTest as skipped:
        for name in names:
            result.add("%s.%s" % (case_class.__name__, name), skipped)
        return
    for name in names:
        case = case_class(name)
        outcome = case._run()
        result.add(case.id(), outcome)
        case = None
        gc.collect()  # what one test leaves must not exhaust the memory of the next one
    case_class.tearDownClass()


def _run_classes(module, module_name, verbose):
    result = _Result(module_name, verbose)
    for name in sorted(dir(module)):
        found = getattr(module, name)
        if isinstance(found, type) and issubclass(found, TestCase) and found is not TestCase:
            _run_class(found, result)
    counts = result.counts
    print("RESULT %d %d %d" % (counts["passed"], counts["failed"], counts["skipped"]))
    sys.exit(1 if counts["failed"] else 0)


def run_module(module_name, verbose=False):
    """Imports and runs one test module, then exits: 1 if a test failed."""
    _run_classes(__import__(module_name), module_name, verbose)


def main(module="__main__"):
    """For `if __name__ == "__main__"` in a test file."""
    _run_classes(__import__(module), module, "-v" in sys.argv)
