# CPython only
"""The module `asyncio` on CPython, with what MicroPython's has and no more, in the world's time.

**The law.** The loop looks at the clock and waits as often as MicroPython's does (extmod/asyncio),
and its tasks are those that the kit gives MicroPython, too (`tasks.py`). So a program has one
trace on both, and a name that a board lacks is missing here.

Without streams (open_connection, start_server), which would need MicroPython's own.
"""

import types

from virtual import tasks, waits
from virtual.waits import CancelledError, Once

_POLLIN = 1


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

        return Once(begin)

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
        self.waiting, self._stopping = _Waiting(self), None
        self.say, self.loop = port.world.output.append, _loop_of(self)

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
        return Once(lambda: self.queue.push(self.cur_task, until))

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
        (self.handler or self.print_unseen)(self.loop, context)

    def print_unseen(self, _loop, context):
        task = context["future"]
        for line in (context["message"], f"future: {task} coro= {task.coro}"):
            self.say(line)
        self.say(repr(context["exception"]))

    def run_forever(self):
        """Until stop()."""
        self._stopping = self.kind(_nothing(), self)
        self.run(self._stopping)

    def stop(self):
        if self._stopping is not None:
            self.queue.push(self._stopping)
            self._stopping = None


_UNSEEN = "Task exception wasn't retrieved"


async def _nothing():
    pass


def _loop_of(core):
    """The class Loop of one boot; all of it is static."""
    found = {
        "create_task": core.create_task, "run_forever": core.run_forever, "stop": core.stop,
        "run_until_complete": lambda one: core.run(core.task_of(one)), "close": lambda: None,
        "set_exception_handler": lambda one: setattr(core, "handler", one),
        "get_exception_handler": lambda: core.handler,
        "default_exception_handler": core.print_unseen,
        "call_exception_handler": core.call_handler,
    }  # fmt: skip
    return type("Loop", (), {name: staticmethod(one) for name, one in found.items()})


def module_of(port, select):
    core, made = _Core(port, select), types.ModuleType("asyncio")
    loop, time = core.loop, port.time
    made.__dict__.update(waits.names_of(core))
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
