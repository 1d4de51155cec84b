/* The instructions of ARMv6-M: execute() and what it is made of. Included by core.c alone.
 *
 * Each function returns the cycles that the instruction takes. Knows registers and flags; memory
 * and exceptions are core.c's.
 */

static inline void flags_nz(core_t *c, uint32_t value) { c->n = value >> 31; c->z = value == 0; }

static inline uint32_t add(core_t *c, uint32_t a, uint32_t b, uint32_t carry) {
    uint64_t sum = (uint64_t)a + b + carry;
    uint32_t value = (uint32_t)sum;
    flags_nz(c, value);
    c->c = (uint32_t)(sum >> 32);
    c->v = ((a ^ value) & (b ^ value)) >> 31;
    return value;
}

static inline uint32_t subtract(core_t *c, uint32_t a, uint32_t b) { return add(c, a, ~b, 1); }

static inline int condition(core_t *c, uint32_t code) {
    int holds;
    switch (code >> 1) {
    case 0: holds = c->z; break;
    case 1: holds = c->c; break;
    case 2: holds = c->n; break;
    case 3: holds = c->v; break;
    case 4: holds = c->c && !c->z; break;
    case 5: holds = c->n == c->v; break;
    default: holds = c->n == c->v && !c->z; break;
    }
    return code & 1 ? !holds : holds;
}

static uint32_t branch_exchange(core_t *c, uint32_t target) {
    if (c->handler_mode && target >> 28 == 0xF) return_from_exception(c, target);
    else c->r[15] = target & ~1u;
    return 0;
}

static uint32_t shift_immediate(core_t *c, uint32_t op) {
    uint32_t count = op >> 6 & 31, value = c->r[op >> 3 & 7], result;
    switch (op >> 11) {
    case 0:
        result = value << count;
        if (count) c->c = value >> (32 - count) & 1;
        break;
    case 1:
        result = count ? value >> count : 0;
        c->c = value >> (count ? count - 1 : 31) & 1;
        break;
    default:
        result = (uint32_t)((int32_t)value >> (count ? count : 31));
        c->c = value >> (count ? count - 1 : 31) & 1;
    }
    c->r[op & 7] = result;
    flags_nz(c, result);
    return 1;
}

static uint32_t shift_left(core_t *c, uint32_t value, uint32_t count) {
    if (!count) return value;
    c->c = count <= 32 ? (count == 32 ? value & 1 : value >> (32 - count) & 1) : 0;
    return count < 32 ? value << count : 0;
}

static uint32_t shift_right(core_t *c, uint32_t value, uint32_t count) {
    if (!count) return value;
    c->c = count <= 32 ? value >> (count - 1) & 1 : 0;
    return count < 32 ? value >> count : 0;
}

static uint32_t shift_arithmetic(core_t *c, uint32_t value, uint32_t count) {
    if (!count) return value;
    c->c = count <= 32 ? value >> (count - 1) & 1 : value >> 31;
    return (uint32_t)((int32_t)value >> (count < 32 ? count : 31));
}

static uint32_t rotate(core_t *c, uint32_t value, uint32_t count) {
    if (!count) return value;
    count &= 31;
    value = count ? value >> count | value << (32 - count) : value;
    c->c = value >> 31;
    return value;
}

static uint32_t data_processing(core_t *c, uint32_t op) {
    uint32_t *rd = &c->r[op & 7], m = c->r[op >> 3 & 7];
    switch (op >> 6 & 15) {
    case 0: *rd &= m; break;
    case 1: *rd ^= m; break;
    case 2: *rd = shift_left(c, *rd, m & 0xFF); break;
    case 3: *rd = shift_right(c, *rd, m & 0xFF); break;
    case 4: *rd = shift_arithmetic(c, *rd, m & 0xFF); break;
    case 5: *rd = add(c, *rd, m, c->c); return 1;
    case 6: *rd = add(c, *rd, ~m, c->c); return 1;
    case 7: *rd = rotate(c, *rd, m & 0xFF); break;
    case 8: flags_nz(c, *rd & m); return 1;
    case 9: *rd = subtract(c, 0, m); return 1;
    case 10: subtract(c, *rd, m); return 1;
    case 11: add(c, *rd, m, 0); return 1;
    case 12: *rd |= m; break;
    case 13: *rd *= m; break;
    case 14: *rd &= ~m; break;
    case 15: *rd = ~m; break;
    }
    flags_nz(c, *rd);
    return 1;
}

static uint32_t high_registers(core_t *c, uint32_t op) {
    uint32_t d = (op >> 4 & 8) | (op & 7), m = op >> 3 & 15;
    uint32_t value = m == 15 ? c->r[15] + 2 : c->r[m];
    switch (op >> 8 & 3) {
    case 1: subtract(c, d == 15 ? c->r[15] + 2 : c->r[d], value); return 1;
    case 0: value += d == 15 ? c->r[15] + 2 : c->r[d]; break;
    case 3:
        if (!(op & 0x80)) { branch_exchange(c, c->r[m]); return 2; }
        value = c->r[m];
        c->r[14] = c->r[15] | 1;
        c->r[15] = value & ~1u;
        return 2;
    }
    c->r[d] = d == 15 ? value & ~1u : d == 13 ? value & ~3u : value;
    return d == 15 ? 2 : 1;
}

static uint32_t load_store_register(core_t *c, uint32_t op) {
    uint32_t address = c->r[op >> 6 & 7] + c->r[op >> 3 & 7], *rt = &c->r[op & 7];
    uint32_t kind = op >> 9 & 7, value;
    switch (kind) {
    case 0: write32(c, address, *rt); break;
    case 1: write16(c, address, *rt); break;
    case 2: write8(c, address, *rt); break;
    case 3: value = read8(c, address); *rt = (uint32_t)(int8_t)value; break;
    case 4: value = read32(c, address); *rt = value; break;
    case 5: value = read16(c, address); *rt = value; break;
    case 6: value = read8(c, address); *rt = value; break;
    case 7: value = read16(c, address); *rt = (uint32_t)(int16_t)value; break;
    }
    return 1 + bus_cycles(address, kind < 3);
}

static uint32_t push(core_t *c, uint32_t op) {
    uint32_t address = c->r[13] - 4 * (uint32_t)__builtin_popcount(op & 0x1FF), cycles = 1;
    c->r[13] = address;
    for (int i = 0; i < 8; i++)
        if (op >> i & 1) { write32(c, address, c->r[i]); address += 4; cycles++; }
    if (op & 0x100) write32(c, address, c->r[14]);
    return cycles;
}

static uint32_t pop(core_t *c, uint32_t op) {
    uint32_t address = c->r[13], cycles = 1;
    for (int i = 0; i < 8; i++)
        if (op >> i & 1) { c->r[i] = read32(c, address); address += 4; cycles++; }
    c->r[13] = op & 0x100 ? address + 4 : address;
    if (op & 0x100) { branch_exchange(c, read32(c, address)); cycles += 2; }
    return cycles;
}

static uint32_t store_multiple(core_t *c, uint32_t op) {
    uint32_t base = op >> 8 & 7, address = c->r[base], cycles = 1;
    for (int i = 0; i < 8; i++)
        if (op >> i & 1) { write32(c, address, c->r[i]); address += 4; cycles++; }
    c->r[base] = address;
    return cycles;
}

static uint32_t load_multiple(core_t *c, uint32_t op) {
    uint32_t base = op >> 8 & 7, address = c->r[base], cycles = 1;
    for (int i = 0; i < 8; i++)
        if (op >> i & 1) { c->r[i] = read32(c, address); address += 4; cycles++; }
    if (!(op >> base & 1)) c->r[base] = address;
    return cycles;
}

static uint32_t hint(core_t *c, uint32_t op) {
    switch (op & 0xFF) {
    case 0x20: /* WFE */
        if (c->event) c->event = 0;
        else c->attention |= ATTENTION_WAITING;
        return 2;
    case 0x30: c->attention |= ATTENTION_WAITING | ATTENTION_INTERRUPTS; return 2; /* WFI */
    case 0x40: c->event = 1; return 1; /* SEV */
    }
    return 1; /* NOP, YIELD */
}

static uint32_t unknown(core_t *c, uint32_t op) {
    c->unknown_opcode = op;
    c->attention |= ATTENTION_STOP;
    return 1;
}

static uint32_t miscellaneous(core_t *c, uint32_t op) {
    uint32_t *rd = &c->r[op & 7], m = c->r[op >> 3 & 7];
    switch (op >> 8 & 15) {
    case 0: c->r[13] += op & 0x80 ? 0u - ((op & 0x7F) << 2) : (op & 0x7F) << 2; return 1;
    case 2:
        switch (op >> 6 & 3) {
        case 0: *rd = (uint32_t)(int16_t)m; break;
        case 1: *rd = (uint32_t)(int8_t)m; break;
        case 2: *rd = m & 0xFFFF; break;
        case 3: *rd = m & 0xFF; break;
        }
        return 1;
    case 4: case 5: return push(c, op);
    case 6:
        c->primask = op >> 4 & 1;
        if (!c->primask) c->attention |= ATTENTION_INTERRUPTS;
        return 1;
    case 10:
        switch (op >> 6 & 3) {
        case 0: *rd = __builtin_bswap32(m); break;
        case 1: *rd = (m & 0xFF00FF00u) >> 8 | (m & 0x00FF00FFu) << 8; break;
        case 3: *rd = (uint32_t)(int16_t)__builtin_bswap16((uint16_t)m); break;
        default: return unknown(c, op);
        }
        return 1;
    case 12: case 13: return pop(c, op);
    case 15: return hint(c, op);
    }
    return unknown(c, op); /* BKPT is here too: nothing is attached that could answer it */
}

static uint32_t read_special(core_t *c, uint32_t which) {
    switch (which) {
    case 0: return xpsr(c) & 0xF0000000u;
    case 3: return xpsr(c);
    case 5: return c->ipsr;
    case 8: return c->process_stack ? c->banked_sp : c->r[13];
    case 9: return c->process_stack ? c->r[13] : c->banked_sp;
    case 16: return c->primask;
    case 20: return c->process_stack << 1 | c->unprivileged;
    }
    return 0;
}

static void write_special(core_t *c, uint32_t which, uint32_t value) {
    switch (which) {
    case 0: case 3:
        c->n = value >> 31; c->z = value >> 30 & 1; c->c = value >> 29 & 1; c->v = value >> 28 & 1;
        break;
    case 8: if (c->process_stack) c->banked_sp = value & ~3u; else c->r[13] = value & ~3u; break;
    case 9: if (c->process_stack) c->r[13] = value & ~3u; else c->banked_sp = value & ~3u; break;
    case 16: c->primask = value & 1; c->attention |= ATTENTION_INTERRUPTS; break;
    case 20:
        c->unprivileged = value & 1;
        if (!c->handler_mode) use_stack(c, value >> 1 & 1);
        break;
    }
}

static uint32_t wide(core_t *c, uint32_t op) {
    uint32_t op2 = read16(c, c->r[15]);
    c->r[15] += 2;
    if (op >> 11 == 30 && (op2 & 0xD000) == 0xD000) { /* BL */
        uint32_t s = op >> 10 & 1, i1 = 1 ^ s ^ (op2 >> 13 & 1), i2 = 1 ^ s ^ (op2 >> 11 & 1);
        uint32_t offset = (s ? 0xFF000000u : 0) | i1 << 23 | i2 << 22;
        offset |= (op & 0x3FF) << 12 | (op2 & 0x7FF) << 1;
        c->r[14] = c->r[15] | 1;
        c->r[15] += offset;
        return 3;
    }
    if (op == 0xF3BF && (op2 & 0xFF00) == 0x8F00) return 3; /* DSB, DMB, ISB */
    if (op == 0xF3EF && op2 >> 12 == 8) { /* MRS */
        c->r[op2 >> 8 & 15] = read_special(c, op2 & 0xFF);
        return 3;
    }
    if (op >> 4 == 0xF38 && op2 >> 8 == 0x88) { /* MSR */
        write_special(c, op2 & 0xFF, c->r[op & 15]);
        return 3;
    }
    return unknown(c, op << 16 | op2);
}

static uint32_t conditional_branch(core_t *c, uint32_t op) {
    uint32_t code = op >> 8 & 15;
    if (code == 14) return unknown(c, op); /* UDF */
    if (code == 15) {                      /* SVC */
        c->pending_svcall = 1;
        c->attention |= ATTENTION_INTERRUPTS;
        return 1;
    }
    if (!condition(c, code)) return 1;
    c->r[15] += 2 + (uint32_t)((int32_t)(int8_t)op * 2);
    return 2;
}

/* One instruction; returns its cycles. */
static inline uint32_t execute(core_t *c) {
    uint32_t pc = c->r[15], op = fetch(c, pc), address, base, value;
    c->r[15] = pc + 2;
    switch (op >> 11) {
    case 0: case 1: case 2: return shift_immediate(c, op);
    case 3:
        base = c->r[op >> 3 & 7];
        value = op & 0x400 ? op >> 6 & 7 : c->r[op >> 6 & 7];
        c->r[op & 7] = op & 0x200 ? subtract(c, base, value) : add(c, base, value, 0);
        return 1;
    case 4: c->r[op >> 8 & 7] = op & 0xFF; flags_nz(c, op & 0xFF); return 1;
    case 5: subtract(c, c->r[op >> 8 & 7], op & 0xFF); return 1;
    case 6: c->r[op >> 8 & 7] = add(c, c->r[op >> 8 & 7], op & 0xFF, 0); return 1;
    case 7: c->r[op >> 8 & 7] = subtract(c, c->r[op >> 8 & 7], op & 0xFF); return 1;
    case 8: return op & 0x400 ? high_registers(c, op) : data_processing(c, op);
    case 9:
        address = ((pc + 4) & ~3u) + ((op & 0xFF) << 2);
        c->r[op >> 8 & 7] = read32(c, address);
        return 1 + bus_cycles(address, 0);
    case 10: case 11: return load_store_register(c, op);
    case 12:
        address = c->r[op >> 3 & 7] + (op >> 4 & 0x7C);
        write32(c, address, c->r[op & 7]);
        return 1 + bus_cycles(address, 1);
    case 13:
        address = c->r[op >> 3 & 7] + (op >> 4 & 0x7C);
        value = read32(c, address);
        c->r[op & 7] = value;
        return 1 + bus_cycles(address, 0);
    case 14:
        address = c->r[op >> 3 & 7] + (op >> 6 & 31);
        write8(c, address, c->r[op & 7]);
        return 1 + bus_cycles(address, 1);
    case 15:
        address = c->r[op >> 3 & 7] + (op >> 6 & 31);
        value = read8(c, address);
        c->r[op & 7] = value;
        return 1 + bus_cycles(address, 0);
    case 16:
        address = c->r[op >> 3 & 7] + (op >> 5 & 0x3E);
        write16(c, address, c->r[op & 7]);
        return 1 + bus_cycles(address, 1);
    case 17:
        address = c->r[op >> 3 & 7] + (op >> 5 & 0x3E);
        value = read16(c, address);
        c->r[op & 7] = value;
        return 1 + bus_cycles(address, 0);
    case 18:
        address = c->r[13] + ((op & 0xFF) << 2);
        write32(c, address, c->r[op >> 8 & 7]);
        return 1 + bus_cycles(address, 1);
    case 19:
        address = c->r[13] + ((op & 0xFF) << 2);
        value = read32(c, address);
        c->r[op >> 8 & 7] = value;
        return 1 + bus_cycles(address, 0);
    case 20: c->r[op >> 8 & 7] = ((pc + 4) & ~3u) + ((op & 0xFF) << 2); return 1;
    case 21: c->r[op >> 8 & 7] = c->r[13] + ((op & 0xFF) << 2); return 1;
    case 22: case 23: return miscellaneous(c, op);
    case 24: return store_multiple(c, op);
    case 25: return load_multiple(c, op);
    case 26: case 27: return conditional_branch(c, op);
    case 28: c->r[15] = pc + 4 + (uint32_t)(((int32_t)(op << 21)) >> 20); return 2;
    }
    return wide(c, op);
}
