# cpython-only: the emulated processor is a C library of the host
"""Compares core.c with rp2040py's own core, which is compiled too: the same instruction on the same
state, comparing registers, flags and cycles.

Where rp2040py differs from the ARMv6-M manual, the tests below compare with the manual.
"""

from __future__ import annotations

import random

import pytest

core = pytest.importorskip("rp2040.core", reason="missing: rp2040py; run `make setup`")
native = pytest.importorskip(
    "rp2040py.native._rp2040", reason="optional: rp2040py has no compiled core on this machine"
)

RAM = 0x20000000
CODE, DATA = RAM + 0x1000, RAM + 0x8000
WINDOW = slice(DATA - RAM, DATA - RAM + 0x2000)
STEPS = 20_000
FLAGS = ("n", "z", "c", "v")


@pytest.fixture(scope="module")
def processor():
    try:
        made = core.Core()
    except core.NoCompiler as error:
        pytest.skip(f"missing: {error}")
    made.ram = bytearray(264 * 1024)
    memories = {
        "rom": bytearray(0x4000),
        "flash": bytearray(0x10000),
        "ram": made.ram,
        "dpram": bytearray(0x1000),
    }
    made.wire(memories, lambda address: 0, lambda address, value, length: None)
    return made


@pytest.fixture(scope="module")
def reference():
    return native.RP2040()


def load(processor, reference, registers, flags, code) -> None:
    """Give both the same state; code: halfwords at CODE."""
    state = processor.state
    processor.reset()
    reference.core.reset()
    data = b"".join(half.to_bytes(2, "little") for half in code)
    processor.ram[CODE - RAM : CODE - RAM + len(data)] = data
    reference.sram[CODE - RAM : CODE - RAM + len(data)] = data
    for number, value in enumerate(registers):
        state.r[number] = value
        reference.core.registers[number] = value
    for name, value in zip(FLAGS, flags, strict=True):
        setattr(state, name, value)
        setattr(reference.core, name, bool(value))


def step(processor) -> int:
    before = processor.state.cycles
    processor.state.limit = before + 1
    processor.run()
    return processor.state.cycles - before


def seen(processor) -> tuple:
    state = processor.state
    return [*state.r], [int(getattr(state, name)) for name in FLAGS]


def seen_there(reference) -> tuple:
    return [int(value) for value in reference.core.registers], [
        int(getattr(reference.core, name)) for name in FLAGS
    ]


def is_compared(op: int, registers: list[int], flags: list[int]) -> bool:
    """True for what both can do alike: no break, supervisor call or wait, and none of the corner
    cases tested below.
    """
    kind, count = op >> 6, registers[op >> 3 & 7] & 0xFF
    if op >> 8 in (0xBE, 0xDE, 0xDF, 0xB1, 0xB3, 0xB7, 0xB8, 0xB9, 0xBB) or op >> 6 == 0b1011101010:
        return False
    if op >> 8 == 0xBF or op >> 11 in (0b11101, 0b11110, 0b11111) or op >> 8 == 0xB6:
        return False
    if op >> 8 == 0x47 and op & 7:
        return False
    if kind in (0b0100000010, 0b0100000011, 0b0100000100, 0b0100000111):  # shifts by a register
        return 0 < count < 32
    # with carry: rp2040py adds it to the second operand before it checks the sign
    if kind in (0b0100000101, 0b0100000110):
        return False
    if op >> 11 == 0b11000:  # STM with its base in the list: the manual writes the address back
        return not op >> (op >> 8 & 7) & 1
    if op >> 8 == 0x45:  # CMP with the PC, which no compiler emits
        return (op >> 4 & 8 | op & 7) != 15 and op >> 3 & 15 != 15
    return True


def test_instructions_do_what_they_do_in_rp2040py(processor, reference):
    rng = random.Random(14)
    image = rng.randbytes(0x2000)
    done = 0
    while done < STEPS:
        op = rng.getrandbits(16)
        registers = [
            rng.choice((rng.getrandbits(32), rng.getrandbits(4), DATA + 4 * rng.getrandbits(8)))
            for _ in range(8)
        ]
        registers += [rng.getrandbits(32) for _ in range(5)] + [
            DATA + 0x1000 + 4 * rng.getrandbits(6),
            0x1001,
            CODE,
        ]
        flags = [rng.getrandbits(1) for _ in range(4)]
        if not is_compared(op, registers, flags):
            continue
        # loads and stores reach RAM only, aligned
        if 0b01010 <= op >> 11 <= 0b10001 or op >> 12 == 0b1100:
            for number in range(8):
                registers[number] = DATA + 4 * rng.getrandbits(9)
            if op >> 12 == 0b0101:
                registers[op >> 6 & 7] = 4 * rng.getrandbits(6)
                if op >> 6 & 7 == op >> 3 & 7:
                    continue
        for memory in (processor.ram, reference.sram):
            memory[WINDOW] = image
        load(processor, reference, registers, flags, [op, 0xBF00])
        cycles, expected = step(processor), reference.core.execute_instruction()
        context = (
            f"{op:016b} {op:#06x} registers {[hex(value) for value in registers]} flags {flags}"
        )
        assert seen(processor) == seen_there(reference), context
        assert cycles == expected, context
        assert processor.ram[WINDOW] == reference.sram[WINDOW], context
        done += 1


def run_one(processor, op, registers, flags=(0, 0, 0, 0)) -> tuple:
    state = processor.state
    processor.reset()
    processor.ram[CODE - RAM : CODE - RAM + 4] = (
        op.to_bytes(4, "little") if op > 0xFFFF else op.to_bytes(2, "little") + b"\0\xbf"
    )
    for number, value in registers.items():
        state.r[number] = value
    state.r[15] = CODE
    for name, value in zip(FLAGS, flags, strict=True):
        setattr(state, name, value)
    step(processor)
    return state.r[0], tuple(int(getattr(state, name)) for name in FLAGS)


@pytest.mark.parametrize(
    ("op", "first", "second", "flags", "result", "after"),
    [
        # ADCS r0, r1: the carry alone overflows
        (0x4148, 0x7FFFFFFF, 0, (0, 0, 1, 0), 0x80000000, (1, 0, 0, 1)),
        (0x4148, 0xFFFFFFFF, 0, (0, 0, 1, 0), 0, (0, 1, 1, 0)),
        (0x4148, 0x80000000, 0x80000000, (0, 0, 1, 0), 1, (0, 0, 1, 1)),
        (0x4188, 0, 0, (0, 0, 0, 0), 0xFFFFFFFF, (1, 0, 0, 0)),  # SBCS with a borrow
        (0x4188, 0x80000000, 0, (0, 0, 0, 0), 0x7FFFFFFF, (0, 0, 1, 1)),
        (0x4188, 5, 5, (0, 0, 1, 0), 0, (0, 1, 1, 0)),
        # LSLS by 32: the last bit shifted out is bit 0
        (0x4088, 1, 32, (0, 0, 0, 0), 0, (0, 1, 1, 0)),
        (0x4088, 1, 33, (0, 0, 1, 0), 0, (0, 1, 0, 0)),
        (0x4088, 0x80000000, 0, (0, 0, 1, 0), 0x80000000, (1, 0, 1, 0)),  # by 0: the carry stays
        (0x40C8, 0x80000000, 32, (0, 0, 0, 0), 0, (0, 1, 1, 0)),  # LSRS
        (0x40C8, 0x80000000, 33, (0, 0, 1, 0), 0, (0, 1, 0, 0)),
        (0x4108, 0x80000000, 40, (0, 0, 0, 0), 0xFFFFFFFF, (1, 0, 1, 0)),  # ASRS
        (0x4108, 0x80000001, 0, (0, 0, 0, 0), 0x80000001, (1, 0, 0, 0)),
        # RORS by 32: the word stays, the carry is its top bit
        (0x41C8, 0x00000001, 32, (0, 0, 1, 0), 1, (0, 0, 0, 0)),
        (0x41C8, 0x00000001, 1, (0, 0, 0, 0), 0x80000000, (1, 0, 1, 0)),
        (0x41C8, 0x00000001, 0, (0, 0, 1, 0), 1, (0, 0, 1, 0)),
    ],
)
def test_corners_follow_the_manual(processor, op, first, second, flags, result, after):
    assert run_one(processor, op, {0: first, 1: second}, flags) == (result, after)


def test_a_masked_interrupt_ends_the_wait_and_runs_no_handler(processor):
    """WFI with PRIMASK set, as the SDK sleeps in a critical section: rp2040py enters the handler
    here.
    """
    run_one(processor, 0xBF30, {13: DATA})
    state = processor.state
    assert processor.is_waiting
    state.primask, state.enabled = 1, 1
    processor.set_interrupt(0, True)
    step(processor)
    assert not processor.is_waiting
    assert (state.ipsr, state.r[15]) == (0, CODE + 4)


def test_the_lowest_line_of_the_highest_priority_runs_first_and_returns(processor):
    run_one(processor, 0xBF00, {13: DATA + 0x100})
    state = processor.state
    state.vtor = RAM
    handlers = {16 + 3: CODE + 0x100, 16 + 7: CODE + 0x200}
    for number, at in handlers.items():
        processor.ram[4 * number : 4 * number + 4] = (at | 1).to_bytes(4, "little")
        processor.ram[at - RAM : at - RAM + 2] = (0x4770).to_bytes(2, "little")  # BX LR
    state.enabled = 1 << 3 | 1 << 7
    state.priority[0] &= ~(1 << 3)
    state.priority[2] |= 1 << 3
    for line in (3, 7):
        processor.set_interrupt(line, True)
    before = [*state.r]
    step(processor)
    # entered and left again: BX LR is the handler's only instruction
    assert (state.ipsr, state.r[13] % 8) == (0, 0)
    processor.set_interrupt(7, False)
    assert [*state.r] == before
    step(processor)
    processor.set_interrupt(3, False)
    assert [*state.r] == before
    step(processor)
    assert state.r[15] == before[15] + 2


def test_the_divider_knows_its_corners(processor):
    """SIO's divider, which every division of the interpreter uses."""
    state = processor.state
    for base, dividend, divisor, quotient, remainder in (
        (0x60, 100, 7, 14, 2),
        (0x60, 100, 0, 0xFFFFFFFF, 100),
        (0x68, 0xFFFFFF9C, 7, 0xFFFFFFF2, 0xFFFFFFFE),
        (0x68, 0x80000000, 0xFFFFFFFF, 0x80000000, 0),
        (0x68, 0xFFFFFF9C, 0, 1, 0xFFFFFF9C),
        (0x68, 100, 0, 0xFFFFFFFF, 100),
    ):
        run_one(processor, 0x6008, {0: dividend, 1: 0xD0000000 + base})  # STR r0, [r1]
        run_one(processor, 0x6008, {0: divisor, 1: 0xD0000004 + base})
        assert (state.quotient, state.remainder) == (quotient, remainder)
