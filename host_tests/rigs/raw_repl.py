"""A board's serial console, run by MicroPython on a desktop: friendly REPL (which evaluates
nothing), raw REPL, raw paste.

Arguments: how it was reset (`main` runs the program first, `raw` answers in the raw REPL), and the
program. Ends with status RAW_RESET or FRIENDLY_RESET at a soft reset; `pty_board.py` then starts it
again, so that no module or global is left. Reports `run` and `idle` on stderr, a socket, and waits
for the answer, because Ctrl-C must be a signal while a program runs and a byte at other times:
after `idle` is answered no signal comes.
"""

import gc
import sys

RAW_RESET = 3
FRIENDLY_RESET = 4
window = 128  # bytes of a raw paste before the sender waits, as a board's
_BANNER = "raw REPL; CTRL-B to exit\n>"
_PROMPT = "\nMicroPython on a pseudo-terminal\n>>> "


def _say(text):
    sys.stdout.write(text)


def _get():
    byte = sys.stdin.buffer.read(1)
    if not byte:
        sys.exit(0)
    return byte


class _Teller:
    """Numbers each word and its answer, so that an answer left over by an interrupt is
    recognized."""

    def __init__(self):
        self._number = 0

    def tell(self, word):
        self._number = (self._number + 1) % 10
        sys.stderr.write("%s%d\n" % (word, self._number))
        while sys.stderr.read(1) != str(self._number):
            pass


_teller = _Teller()


def _reset(status, names):
    """As on a board, what the program left is collected, so that a file that it left open is
    closed, however little is in it.
    """
    names.clear()
    gc.collect()
    _say("\nMPY: soft reboot\n")
    sys.exit(status)


class _Run:
    """A program, from its start until no Ctrl-C can come."""

    def __init__(self, source, names):
        self._source, self._names = source, names
        self._is_started = self._is_over = False
        self.complaint = ""  # its traceback

    def go(self):
        while not self._is_over:
            try:
                self._step()
            except KeyboardInterrupt:  # as the program ended: ignored, as on a board
                pass

    def _step(self):
        if not self._is_started:
            self._is_started = True
            self._execute()
        _teller.tell("idle")
        for _ in range(100):  # a pending interrupt is raised here
            pass
        self._is_over = True

    def _execute(self):
        import io

        try:
            _teller.tell("run")  # from here on a Ctrl-C may come
            exec(self._source, self._names)
        except SystemExit:
            pass
        except BaseException as error:
            text = io.StringIO()
            sys.print_exception(error, text)
            self.complaint = text.getvalue()


def _execute(source, names):
    """Run the source. Returns its traceback, or nothing."""
    run = _Run(source, names)
    run.go()
    return run.complaint


def _paste():
    """Read source text in raw-paste mode, where the sender waits for a window; None when
    aborted."""
    sys.stdout.buffer.write(b"R\x01" + bytes((window & 0xFF, window >> 8)))
    source, room = bytearray(), window
    while True:
        byte = _get()
        if byte in (b"\x03", b"\x04"):
            _say("\x04")
            return None if byte == b"\x03" else bytes(source)
        source.extend(byte)
        room -= 1
        if not room:
            _say("\x01")
            room = window


def _run(source, names):
    complaint = _execute(source, names)
    _say("\x04" + complaint + "\x04>")


def _take_raw(byte, line, names):
    """Take one byte in the raw REPL. Returns the source so far; None to leave."""
    if byte == b"\x02":
        return None
    if byte == b"\x01":
        _say(_BANNER)
    elif byte == b"\x04":
        _say("OK")
        if not line.strip():
            _reset(RAW_RESET, names)
        _run(line, names)
    elif byte != b"\x03":
        return line + byte
    return b""


def _raw(names):
    line = b""
    _say(_BANNER)
    while line is not None:
        byte = _get()
        if byte == b"\x01" and line == b"\x05A":
            source = _paste()
            if source is None:
                _say(">")
            else:
                _run(source, names)
            line = b""
        else:
            line = _take_raw(byte, line, names)


def _source(program):
    """Returns the program's source; "" for a board without main.py, which starts at the prompt."""
    try:
        with open(program) as file:
            return file.read()
    except OSError:
        return ""


def _serve(how, program, names):
    if how == "main":
        _say(_execute(_source(program), names))
    if how == "raw":
        _raw(names)
    _say(_PROMPT)
    while True:
        byte = _get()
        if byte == b"\x01":
            _raw(names)
        elif byte == b"\x04":
            _reset(FRIENDLY_RESET, names)
        elif byte not in (b"\r", b"\x02", b"\x03"):
            continue
        _say(_PROMPT)


def console(how, program):
    _serve(how, program, {"__name__": "__main__"})


if __name__ == "__main__":
    console(sys.argv[1], sys.argv[2])
