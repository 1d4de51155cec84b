"""MicroPython's module `_asyncio` in the world's time: Task and TaskQueue.

The module that is built in reads the machine's clock. This one gets its ticks from `time`, through
the globals of asyncio.core that each Task is given (extmod/modasyncio.c). Tasks that are due at the
same time run in the order in which they were queued.
"""


class TaskQueue:
    _ticks = _diff = None  # of the boot's time, set by module_of()

    def __init__(self):
        self._tasks = []  # the next one first

    def peek(self):
        return self._tasks[0] if self._tasks else None

    def push(self, task, key=None):
        task.data = None
        task.ph_key = self._ticks() if key is None else key
        at = len(self._tasks)
        while at and self._diff(task.ph_key, self._tasks[at - 1].ph_key) < 0:
            at -= 1
        self._tasks.insert(at, task)

    def pop(self):
        return self._tasks.pop(0)

    def remove(self, task):
        self._tasks = [one for one in self._tasks if one is not task]


class Task:
    """state: True: it runs; a TaskQueue: others wait for its end; None: ended and nobody waited;
    False: ended, and others know. data: the queue it waits in, later its result."""

    _queue_kind = None

    def __init__(self, coro, globals=None):
        self.coro, self.data, self.state, self.ph_key = coro, None, True, 0
        self._core = globals

    def __iter__(self):
        if not self.state:
            self.state = False
        elif self.state is True:
            self.state = self._queue_kind()
        elif not isinstance(self.state, TaskQueue):
            raise RuntimeError("can't wait")
        return self

    __await__ = __iter__

    def __next__(self):
        if not self.state:
            raise self.data
        current = self._core["cur_task"]
        self.state.push(current)
        current.data = self

    def done(self):
        return not self.state

    def cancel(self):
        core = self._core
        if not self.state:
            return False
        if self is core["cur_task"]:
            raise RuntimeError("can't cancel self")
        task = self
        while isinstance(task.data, Task):
            task = task.data
        queue = core["_task_queue"]
        if hasattr(task.data, "remove"):
            task.data.remove(task)
            queue.push(task)
        elif core["ticks_diff"](task.ph_key, core["ticks"]()) > 0:
            queue.remove(task)
            queue.push(task)
        task.data = core["CancelledError"]
        return True


def module_of(port, module):
    """Fills `_asyncio` of one boot."""
    time = port.time
    ticks = {"_ticks": staticmethod(time.ticks_ms), "_diff": staticmethod(time.ticks_diff)}
    module.TaskQueue = type("TaskQueue", (TaskQueue,), ticks)
    module.Task = type("Task", (Task,), {"_queue_kind": module.TaskQueue})
    return module
