# CPython only
"""What tasks wait with in the module `asyncio` of loop.py: limits, groups, Event, Lock, flags; in
the order in which MicroPython's wake who waits.

Must not know the loop: `_core` is the one of the boot, set by names_of().
"""

_STREAM_POLL = 3  # of ioctl()


class CancelledError(BaseException):
    pass


class TimeoutError(Exception):
    pass


class Once:
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
        try:
            if self._open:
                await Once(self._begin)
        except CancelledError:
            self._let_go()
            for task in self._waited:
                task.cancel()
            raise
        self._let_go()
        return [self._result(task.data) for task in self._waited]

    def _begin(self):
        self._gatherer.data = self  # cancel() takes it out of here

    def remove(self, _task):
        """In no queue: whoever ends pushes the gatherer."""

    def _let_go(self):
        """Tasks that have not ended are nobody's again."""
        self._open = -1
        for task in self._waited:
            if task.state == self._done:
                task.state = True

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

        return Once(begin)


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


def names_of(core):
    """{name: what the module asyncio of a boot has}"""

    async def wait_for(awaitable, timeout):
        ms = None if timeout is None else int(timeout * 1000)
        return await wait_for_ms(awaitable, ms)

    async def wait_for_ms(awaitable, timeout):
        rest = None if timeout is None else lambda: core.sleep_ms(timeout)
        return await _wait_for(core, awaitable, rest)

    async def gather(*awaitables, return_exceptions=False):
        waited = [core.task_of(one) for one in awaitables]
        return await _Gather(core, waited, return_exceptions).all()

    found = {"wait_for": wait_for, "wait_for_ms": wait_for_ms, "gather": gather}
    for kind in (Event, Lock, ThreadSafeFlag):
        found[kind.__name__] = type(kind.__name__, (kind,), {"_core": core})
    return found | {"CancelledError": CancelledError, "TimeoutError": TimeoutError}
