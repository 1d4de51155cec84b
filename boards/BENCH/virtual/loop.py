# CPython only
"""The module `asyncio` on CPython, with what MicroPython's has and no more, in the world's time.

**The law.** The loop looks at the clock and waits as often as MicroPython's does (extmod/asyncio),
and its tasks are those that the kit gives MicroPython, too (`tasks.py`). So a program has one
trace on both, and a name that a board lacks is missing here.

Without streams (open_connection, start_server), which would need MicroPython's own.
"""

import sys
import types

from virtual import tasks

_POLLIN = 1
_STREAM_POLL = 3  # of ioctl()


class CancelledError(BaseException):
    pass


class TimeoutError(Exception):
    pass


class _Once:
    """What a coroutine awaits to be set aside once: begin() says where it waits."""

    def __init__(self, begin):
        self._begin = begin

    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        begin, self._begin = self._begin, None
        if not begin:
            raise StopIteration
        begin()


class _Waiting:
    """Tasks that wait for something to read, by the object that they wait for."""

    def __init__(self, core):
        self._core, self._poll, self.map = core, core.select.poll(), {}

    def read(self, stream):
        def begin():
            task = self._core.cur_task
            self.map[id(stream)] = task, stream
            self._poll.register(stream, _POLLIN)
            task.data = self

        return _Once(begin)

    def remove(self, task):
        for key in [key for key, (one, _) in self.map.items() if one is task]:
            self._poll.unregister(self.map.pop(key)[1])

    def wait(self, ms):
        for stream, _ in self._poll.ipoll(ms):
            task, _ = self.map.pop(id(stream))
            self._poll.unregister(stream)
            self._core.queue.push(task)


class _Core:
    """The loop of one boot. cur_task: the one that runs."""

    def __init__(self, port, select):
        module = tasks.module_of(port, types.SimpleNamespace())
        self.time, self.select = port.time, select
        self.kind, self.make = module.Task, module.TaskQueue
        self.queue, self.cur_task, self.handler = module.TaskQueue(), None, None
        self.waiting = _Waiting(self)

    def create_task(self, coro):
        if not hasattr(coro, "send"):
            raise TypeError("coroutine expected")
        task = self.kind(coro, self)
        self.queue.push(task)
        return task

    def __getitem__(self, name):
        """As the globals of MicroPython's module, which a Task is given."""
        return {
            "cur_task": self.cur_task, "_task_queue": self.queue, "CancelledError": CancelledError,
            "ticks": self.time.ticks_ms, "ticks_diff": self.time.ticks_diff,
        }[name]  # fmt: skip

    def task_of(self, awaitable):
        return awaitable if isinstance(awaitable, tasks.Task) else self.create_task(awaitable)

    def sleep_ms(self, ms):
        until = self.time.ticks_add(self.time.ticks_ms(), max(0, int(ms)))
        return _Once(lambda: self.queue.push(self.cur_task, until))

    def run(self, main=None):
        """Until `main` ends, whose value it returns; None: until nothing waits any more."""
        while self._next_is_due():
            task = self.cur_task = self.queue.pop()
            try:
                error, task.data = task.data, None
                task.coro.throw(error) if error else task.coro.send(None)
            except (CancelledError, Exception) as ended:
                if task is main:
                    self.cur_task = None
                    if isinstance(ended, StopIteration):
                        return ended.value
                    raise
                self._end(task, ended, error)

    def _next_is_due(self):
        """Waits for the next task. False: there is none, and none can come."""
        rest_ms = 1
        while rest_ms > 0:
            rest_ms, task = -1, self.queue.peek()
            if task:
                late_ms = self.time.ticks_diff(task.ph_key, self.time.ticks_ms())
                rest_ms = max(0, late_ms)
            elif not self.waiting.map:
                return False
            self.waiting.wait(rest_ms)
        return True

    def _end(self, task, ended, error):
        """Tells who waits for the task; an exception that nobody awaits, to the handler."""
        if task.state is None:  # it ran again, as its end was never awaited
            task.data = error
            self.call_handler({"message": _UNSEEN, "exception": error, "future": task})
            return
        is_awaited = False
        if task.state is True:
            task.state = None
        elif callable(task.state):
            task.state(task, ended)
            task.state, is_awaited = False, True
        else:
            while task.state.peek():
                self.queue.push(task.state.pop())
                is_awaited = True
            task.state = False
        if not is_awaited and not isinstance(ended, (CancelledError, StopIteration)):
            self.queue.push(task)
        task.data = ended

    def call_handler(self, context):
        (self.handler or _print)(_Loop, context)


_UNSEEN = "Task exception wasn't retrieved"


def _print(_loop, context):
    print(context["message"], file=sys.stderr)
    print("future:", context["future"], "coro=", context["future"].coro, file=sys.stderr)
    print(repr(context["exception"]), file=sys.stderr)


class _Loop:
    """The class Loop; made anew for each boot."""


def _loop_of(core):
    return type(
        "Loop",
        (_Loop,),
        {
            "create_task": staticmethod(core.create_task),
            "run_forever": staticmethod(core.run),
            "run_until_complete": staticmethod(lambda one: core.run(core.task_of(one))),
            "stop": staticmethod(lambda: None),
            "close": staticmethod(lambda: None),
            "set_exception_handler": staticmethod(lambda one: setattr(core, "handler", one)),
            "get_exception_handler": staticmethod(lambda: core.handler),
            "default_exception_handler": staticmethod(_print),
            "call_exception_handler": staticmethod(core.call_handler),
        },
    )


# --- What waits for tasks. _core: of the boot, set by module_of() ---


class _Limit:
    """wait_for(): a task watches the awaited one, and wakes who waits within the limit."""

    def __init__(self, core, awaited):
        self._core, self._awaited, self._found = core, awaited, None

    async def _watch(self, waiter):
        try:
            found = await self._awaited, None
        except BaseException as raised:
            found = None, raised
        if self._found is None:
            self._found = found
            waiter.cancel()

    async def within(self, rest):
        watcher = self._core.create_task(self._watch(self._core.cur_task))
        try:
            await rest()
        except CancelledError:
            if self._found is None:  # the waiter itself was cancelled
                self._found = None, None
                watcher.cancel()
                raise
            value, error = self._found
            if error:
                raise error from None
            return value
        self._found = None, None
        watcher.cancel()
        await watcher
        raise TimeoutError


async def _wait_for(core, awaitable, rest):
    awaited = core.task_of(awaitable)
    return await (_Limit(core, awaited).within(rest) if rest else awaited)


class _Gather:
    """open: how many of the tasks have not ended; below 0: nobody waits any more."""

    def __init__(self, core, waited, is_given):
        self._core, self._waited, self._is_given = core, waited, is_given
        self._gatherer, self._open = core.cur_task, len(waited)
        for task in waited:
            self._watch(task)

    def _watch(self, task):
        if task.state is True:
            task.state = self._done
        elif not task.state:  # it has ended already
            self._open -= 1
        else:
            raise RuntimeError("can't gather")

    def _done(self, _task, error):
        if self._open <= 0:
            return
        is_failed = not isinstance(error, StopIteration) and not self._is_given
        self._open = -1 if is_failed else self._open - 1
        if self._open <= 0:
            self._core.queue.push(self._gatherer)

    async def all(self):
        if self._open:
            try:
                await _Once(lambda: None)
            except CancelledError:
                self._open = -1
                for task in self._waited:
                    task.cancel()
                raise
        return [self._result(task.data) for task in self._waited]

    def _result(self, ended):
        if isinstance(ended, StopIteration):
            return ended.value
        if isinstance(ended, BaseException) and not self._is_given:
            raise ended
        return ended


# --- What tasks wait for ---


class _Queued:
    """state: of what has a queue of tasks that wait for it."""

    _core = None

    def __init__(self):
        self.state, self.waiting = 0, self._core.make()

    def _wait(self):
        def begin():
            self.waiting.push(self._core.cur_task)
            self._core.cur_task.data = self.waiting

        return _Once(begin)


class Event(_Queued):
    def is_set(self):
        return bool(self.state)

    def set(self):
        while self.waiting.peek():
            self._core.queue.push(self.waiting.pop())
        self.state = 1

    def clear(self):
        self.state = 0

    async def wait(self):
        if not self.state:
            await self._wait()
        return True


class Lock(_Queued):
    """state: 1: held; 0: free; a task: it is the next to hold it."""

    def locked(self):
        return self.state == 1

    def release(self):
        if self.state != 1:
            raise RuntimeError("Lock not acquired")
        if self.waiting.peek():
            self.state = self.waiting.pop()
            self._core.queue.push(self.state)
        else:
            self.state = 0

    async def acquire(self):
        if self.state != 0:
            try:
                await self._wait()
            except CancelledError:
                if self.state == self._core.cur_task:
                    self.state = 1
                    self.release()
                raise
        self.state = 1
        return True

    async def __aenter__(self):
        return await self.acquire()

    async def __aexit__(self, *_):
        return self.release()


class ThreadSafeFlag:
    """An interrupt may set it; one task waits, and finds it clear afterwards."""

    _core = None

    def __init__(self):
        self.state = 0

    def ioctl(self, request, flags):
        return self.state * flags if request == _STREAM_POLL else -1

    def set(self):
        self.state = 1

    def clear(self):
        self.state = 0

    async def wait(self):
        if not self.state:
            await self._core.waiting.read(self)
        self.state = 0


def _waiters_of(core):
    async def wait_for(awaitable, timeout):
        ms = None if timeout is None else int(timeout * 1000)
        return await wait_for_ms(awaitable, ms)

    async def wait_for_ms(awaitable, timeout):
        rest = None if timeout is None else lambda: core.sleep_ms(timeout)
        return await _wait_for(core, awaitable, rest)

    async def gather(*awaitables, return_exceptions=False):
        waited = [core.task_of(one) for one in awaitables]
        return await _Gather(core, waited, return_exceptions).all()

    return {"wait_for": wait_for, "wait_for_ms": wait_for_ms, "gather": gather}


def module_of(port, select):
    core, made = _Core(port, select), types.ModuleType("asyncio")
    loop, time = _loop_of(core), port.time
    made.__dict__.update(_waiters_of(core))
    for kind in (Event, Lock, ThreadSafeFlag):
        setattr(made, kind.__name__, type(kind.__name__, (kind,), {"_core": core}))
    made.CancelledError, made.TimeoutError = CancelledError, TimeoutError
    made.Task, made.TaskQueue, made.Loop = core.kind, core.make, loop
    made.ticks, made.ticks_add, made.ticks_diff = time.ticks_ms, time.ticks_add, time.ticks_diff
    made.create_task, made.sleep_ms = core.create_task, core.sleep_ms
    made.sleep = lambda seconds: core.sleep_ms(int(seconds * 1000))
    made.run = lambda main: core.run(core.create_task(main))
    made.run_until_complete, made.current_task = core.run, lambda: _current(core)
    made.get_event_loop, made.new_event_loop = lambda *_: loop, lambda: _anew(core, loop)
    return made


def _anew(core, loop):
    core.queue, core.cur_task = core.make(), None
    core.waiting = _Waiting(core)
    return loop


def _current(core):
    if core.cur_task is None:
        raise RuntimeError("no running event loop")
    return core.cur_task
