"""Words for names, cheapest first.

STATIC_WORDS are the identifiers among the fixed names of .mpy format 6: `static_qstr_list` in MicroPython's py/makeqstrdata.py,
part of the format (QSTR_LAST_STATIC in py/persistentcode.c is its end, `zip`). An .mpy file names them by number, and every
interpreter has them in ROM. In the order of the list: the first 36 take one byte in a file, the others two.
`host_tests/test_firmware_build.py` asks mpy-cross for each of them.
"""

from __future__ import annotations

import itertools
import keyword
import string
from collections.abc import Iterator

STATIC_WORDS = tuple(
    """
    _ ArithmeticError AssertionError AttributeError BaseException EOFError Ellipsis Exception GeneratorExit ImportError
    IndentationError IndexError KeyError KeyboardInterrupt LookupError MemoryError NameError NoneType NotImplementedError OSError
    OverflowError RuntimeError StopIteration SyntaxError SystemExit TypeError ValueError ZeroDivisionError abs all any append args
    bool builtins bytearray bytecode bytes callable chr classmethod clear close const copy count dict dir divmod end endswith eval
    exec extend find format from_bytes get getattr globals hasattr hash id index insert int isalpha isdigit isinstance islower
    isspace issubclass isupper items iter join key keys len list little locals lower lstrip main map micropython next object open
    ord pop popitem pow print range read readinto readline remove replace repr reverse rfind rindex round rsplit rstrip self send
    sep set setattr setdefault sort sorted split start startswith staticmethod step stop str strip sum super throw to_bytes tuple
    type update upper value values write zip
    """.split()
)

# In the ROM of every stock interpreter of 1.25 as well, without being part of the format: names of builtins, of methods of set,
# and of the modules math, struct, sys, os, io, re, json, time, random and array, which unix, rp2 and esp32 all have (they build
# with MICROPY_CONFIG_ROM_LEVEL_EXTRA_FEATURES or above). They stand in a file as text, and cost RAM only where one were missing.
ROM_WORDS = tuple(
    """
    e pi bin cos exp gc hex io log max min oct os re sin sub sys tan add argv dump exit json load pack path seed time array dumps
    float group loads match sleep union choice discard filter
    """.split()
)

# The compiler knows these by name, wherever they stand: const(...) is folded, super() is rewritten, the viper emitter's types.
_COMPILER_WORDS = {"const", "super", "micropython", "self", "_"}
_VIPER_TYPES = {"bool", "int", "uint", "object", "ptr", "ptr8", "ptr16", "ptr32"}
UNUSABLE = _COMPILER_WORDS | _VIPER_TYPES


def words() -> Iterator[str]:
    """Without end: the static ones, those in ROM, then a, b, ... aa, ab, ..."""
    yield from (word for word in (*STATIC_WORDS, *ROM_WORDS) if word not in UNUSABLE)
    known = {*STATIC_WORDS, *ROM_WORDS, *UNUSABLE}
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            word = "".join(letters)
            if not keyword.iskeyword(word) and word not in known:
                yield word
