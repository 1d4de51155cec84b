/* The processor of the emulated RP2040: a Cortex-M0+ (ARMv6-M) with its memories, its run loop and the
 * registers that are used most: the timer's count, SIO's divider, the SSI while a page goes to the flash chip.
 *
 * Knows the instruction set, the exception model and where memories lie. Must not know: any other
 * peripheral. Every other address goes to Python through two callbacks, so that rp2040py's
 * peripherals answer. Counts cycles as rp2040py does: 2 for a load or store, 3 and 4 or more on the
 * peripheral bus, 2 for a taken branch; no cost for a miss of the XIP cache.
 * host_tests/test_rp2_core.py holds it against rp2040py's own core, instruction by instruction.
 */
#include <stdint.h>
#include <string.h>

#define ATTENTION_INTERRUPTS 1u /* something became pending or enabled: look before the next instruction */
#define ATTENTION_WAITING 2u    /* WFI or WFE: nothing runs until an interrupt wakes the core */
#define ATTENTION_STOP 4u       /* Python wants run() to return */

#define LOWEST_PRIORITY 4
#define FLASH_MASK (c->flash_bytes - 1)

typedef uint32_t (*read_callback)(uint32_t address);
typedef void (*write_callback)(uint32_t address, uint32_t value, uint32_t bytes);

/* Mirrored field by field in core.py (`State`). */
typedef struct {
    uint32_t r[16];
    uint32_t n, z, c, v;
    uint32_t banked_sp, process_stack, unprivileged, handler_mode, ipsr, primask;
    uint32_t pending, enabled, priority[4];
    uint32_t pending_nmi, pending_pendsv, pending_svcall, pending_systick;
    uint32_t vtor, shpr2, shpr3;
    uint32_t event, attention, unknown_opcode;
    uint32_t dividend, divisor, quotient, remainder, divider_csr, spinlocks;
    uint32_t time_high_latch, flash_bytes, watched, watched_calls, stops_at_watched;
    uint32_t is_page_sent, page_bytes, page_unread; /* a page on its way to the flash chip: see send_page() */
    uint8_t page[512];
    uint64_t cycles, limit, timer_epoch;
    uint8_t *rom, *flash, *ram, *dpram;
    read_callback read_mmio;
    write_callback write_mmio;
} core_t;

#define ROM_BYTES 0x4000u
#define RAM_BASE 0x20000000u
#define RAM_BYTES 0x42000u
#define DPRAM_BASE 0x50100000u
#define DPRAM_BYTES 0x1000u
#define TIMER_BASE 0x40054000u
#define SSI_BASE 0x18000000u
#define SIO_BASE 0xD0000000u

static uint32_t load32(const uint8_t *at) { uint32_t value; memcpy(&value, at, 4); return value; }
static uint32_t load16(const uint8_t *at) { uint16_t value; memcpy(&value, at, 2); return value; }
static void store32(uint8_t *at, uint32_t value) { memcpy(at, &value, 4); }
static void store16(uint8_t *at, uint32_t value) { uint16_t half = (uint16_t)value; memcpy(at, &half, 2); }

/* ---- memory ---- */

/* The memory at an address, or NULL where a peripheral answers. */
static inline uint8_t *memory_at(core_t *c, uint32_t address) {
    if (address - RAM_BASE < RAM_BYTES) return c->ram + (address - RAM_BASE);
    if (address - 0x10000000u < 0x04000000u) return c->flash + (address & FLASH_MASK);
    if (address < ROM_BYTES) return c->rom + address;
    if (address - DPRAM_BASE < DPRAM_BYTES) return c->dpram + (address - DPRAM_BASE);
    return 0;
}

/* Flash and ROM take no writes over the bus; the control words of the USB memory tell its controller. */
static inline uint8_t *writable_at(core_t *c, uint32_t address) {
    if (address - RAM_BASE < RAM_BYTES) return c->ram + (address - RAM_BASE);
    if (address - (DPRAM_BASE + 0x100) < DPRAM_BYTES - 0x100) return c->dpram + (address - DPRAM_BASE);
    return 0;
}

static void divide(core_t *c, int is_signed) {
    int32_t a = (int32_t)c->dividend, b = (int32_t)c->divisor;
    c->divider_csr = 3; /* ready, and written since the quotient was read */
    if (!c->divisor) {
        c->quotient = is_signed && a < 0 ? 1 : 0xFFFFFFFFu;
        c->remainder = c->dividend;
    } else if (!is_signed) {
        c->quotient = c->dividend / c->divisor;
        c->remainder = c->dividend % c->divisor;
    } else if (a == INT32_MIN && b == -1) {
        c->quotient = 0x80000000u;
        c->remainder = 0;
    } else {
        c->quotient = (uint32_t)(a / b);
        c->remainder = (uint32_t)(a % b);
    }
}

static int sio_read(core_t *c, uint32_t offset, uint32_t *value) {
    if (offset >= 0x100 && offset < 0x180) { /* a spinlock: taken by the read that finds it free */
        uint32_t bit = 1u << ((offset - 0x100) >> 2);
        *value = c->spinlocks & bit ? 0 : bit;
        c->spinlocks |= bit;
        return 1;
    }
    switch (offset) {
    case 0x000: *value = 0; return 1; /* CPUID: core 0 */
    case 0x05C: *value = c->spinlocks; return 1;
    case 0x060: case 0x068: *value = c->dividend; return 1;
    case 0x064: case 0x06C: *value = c->divisor; return 1;
    case 0x070: c->divider_csr &= ~2u; *value = c->quotient; return 1;
    case 0x074: *value = c->remainder; return 1;
    case 0x078: *value = c->divider_csr; return 1;
    }
    return 0;
}

static int sio_write(core_t *c, uint32_t offset, uint32_t value) {
    if (offset >= 0x100 && offset < 0x180) { c->spinlocks &= ~(1u << ((offset - 0x100) >> 2)); return 1; }
    switch (offset) {
    case 0x060: c->dividend = value; divide(c, 0); return 1;
    case 0x064: c->divisor = value; divide(c, 0); return 1;
    case 0x068: c->dividend = value; divide(c, 1); return 1;
    case 0x06C: c->divisor = value; divide(c, 1); return 1;
    case 0x070: c->quotient = value; c->divider_csr = 3; return 1;
    case 0x074: c->remainder = value; c->divider_csr = 3; return 1;
    }
    return 0;
}

static int timer_read(core_t *c, uint32_t offset, uint32_t *value) {
    uint64_t micros = (c->cycles - c->timer_epoch) / 125;
    switch (offset) {
    case 0x08: *value = c->time_high_latch; return 1;
    case 0x0C: c->time_high_latch = (uint32_t)(micros >> 32); *value = (uint32_t)micros; return 1;
    case 0x24: *value = (uint32_t)(micros >> 32); return 1;
    case 0x28: *value = (uint32_t)micros; return 1;
    }
    return 0;
}

/* The boot ROM clocks a page into the flash chip byte by byte, at some five accesses each, and 0xFF comes back. Python
 * sets is_page_sent when it sees such a command, and takes the page when the chip is deselected. */
static int send_page(core_t *c, uint32_t offset, uint32_t value) {
    if (!c->is_page_sent || offset != 0x60) return 0; /* DR0 */
    if (c->page_bytes < sizeof c->page) c->page[c->page_bytes++] = (uint8_t)value;
    c->page_unread++;
    return 1;
}

static int page_read(core_t *c, uint32_t offset, uint32_t *value) {
    if (!c->is_page_sent) return 0;
    switch (offset) {
    case 0x20: *value = 0; return 1;                            /* TXFLR */
    case 0x24: *value = c->page_unread; return 1;               /* RXFLR */
    case 0x28: *value = 6 | (c->page_unread ? 8 : 0); return 1; /* SR: transmit FIFO empty, not full; something received */
    case 0x60: *value = 0xFF; if (c->page_unread) c->page_unread--; return 1;
    }
    return 0;
}

static uint32_t read_device(core_t *c, uint32_t address) {
    uint32_t value;
    if ((address >> 28) == 0xD && sio_read(c, address - SIO_BASE, &value)) return value;
    if ((address & 0xFFFFF000u) == TIMER_BASE && timer_read(c, address & 0xFFF, &value)) return value;
    if ((address & 0xFFFFF000u) == SSI_BASE && page_read(c, address & 0xFFF, &value)) return value;
    return c->read_mmio(address);
}

static void write_device(core_t *c, uint32_t address, uint32_t value, uint32_t bytes) {
    if ((address >> 28) == 0xD && bytes == 4 && sio_write(c, address - SIO_BASE, value)) return;
    if ((address & 0xFFFFF000u) == SSI_BASE && send_page(c, address & 0xFFF, value)) return;
    c->write_mmio(address, value, bytes);
}

static inline uint32_t read32(core_t *c, uint32_t address) {
    uint8_t *at = memory_at(c, address);
    return at ? load32(at) : read_device(c, address);
}

static inline uint32_t read16(core_t *c, uint32_t address) {
    uint8_t *at = memory_at(c, address);
    if (at) return load16(at);
    return (read_device(c, address & ~3u) >> (8 * (address & 2))) & 0xFFFF;
}

/* Code lies in flash, mostly. */
static inline uint32_t fetch(core_t *c, uint32_t pc) {
    if (__builtin_expect(pc - 0x10000000u < 0x04000000u, 1)) return load16(c->flash + (pc & FLASH_MASK));
    return read16(c, pc);
}

static inline uint32_t read8(core_t *c, uint32_t address) {
    uint8_t *at = memory_at(c, address);
    if (at) return *at;
    return (read_device(c, address & ~3u) >> (8 * (address & 3))) & 0xFF;
}

static inline void write32(core_t *c, uint32_t address, uint32_t value) {
    uint8_t *at = writable_at(c, address);
    if (at) store32(at, value); else write_device(c, address, value, 4);
}

static inline void write16(core_t *c, uint32_t address, uint32_t value) {
    uint8_t *at = writable_at(c, address);
    if (at) store16(at, value); else write_device(c, address, value & 0xFFFF, 2);
}

static inline void write8(core_t *c, uint32_t address, uint32_t value) {
    uint8_t *at = writable_at(c, address);
    if (at) *at = (uint8_t)value; else write_device(c, address, value & 0xFF, 1);
}

static inline uint32_t bus_cycles(uint32_t address, int write) {
    uint32_t top = address >> 28;
    return top == 0xD ? 0 : top == 0x4 ? (write ? 4 : 3) : 1;
}

/* ---- exceptions ---- */

static void use_stack(core_t *c, uint32_t process) {
    if (c->process_stack == process) return;
    uint32_t other = c->banked_sp;
    c->banked_sp = c->r[13];
    c->r[13] = other;
    c->process_stack = process;
}

static uint32_t xpsr(core_t *c) {
    return c->n << 31 | c->z << 30 | c->c << 29 | c->v << 28 | 1u << 24 | c->ipsr;
}

static void enter_exception(core_t *c, uint32_t number) {
    uint32_t frame = c->r[13], misaligned = (frame >> 2) & 1;
    frame = (frame - 0x20) & ~7u;
    c->r[13] = frame;
    for (int i = 0; i < 4; i++) write32(c, frame + 4 * i, c->r[i]);
    write32(c, frame + 0x10, c->r[12]);
    write32(c, frame + 0x14, c->r[14]);
    write32(c, frame + 0x18, c->r[15] & ~1u);
    write32(c, frame + 0x1C, xpsr(c) | misaligned << 9);
    c->r[14] = c->handler_mode ? 0xFFFFFFF1u : c->process_stack ? 0xFFFFFFFDu : 0xFFFFFFF9u;
    c->handler_mode = 1;
    c->ipsr = number;
    use_stack(c, 0);
    c->event = 1;
    c->attention &= ~ATTENTION_WAITING;
    c->r[15] = read32(c, c->vtor + 4 * number) & ~1u;
}

static void return_from_exception(core_t *c, uint32_t code) {
    c->handler_mode = (code & 0xF) == 1;
    use_stack(c, (code & 0xF) == 0xD);
    uint32_t frame = c->r[13], psr = read32(c, frame + 0x1C);
    for (int i = 0; i < 4; i++) c->r[i] = read32(c, frame + 4 * i);
    c->r[12] = read32(c, frame + 0x10);
    c->r[14] = read32(c, frame + 0x14);
    c->r[15] = read32(c, frame + 0x18) & ~1u;
    c->r[13] = (frame + 0x20) | (psr & 1u << 9 ? 4 : 0);
    c->n = psr >> 31; c->z = psr >> 30 & 1; c->c = psr >> 29 & 1; c->v = psr >> 28 & 1;
    c->ipsr = psr & 0x3F;
    c->event = 1;
    c->attention |= ATTENTION_INTERRUPTS;
}

static int priority_of(core_t *c, uint32_t number) {
    if (!number) return LOWEST_PRIORITY;
    if (number < 4) return (int)number - 4; /* reset, NMI, hard fault */
    if (number == 11) return c->shpr2 >> 30;
    if (number == 14) return c->shpr3 >> 22 & 3;
    if (number == 15) return c->shpr3 >> 30;
    for (int level = 0; level < 4; level++)
        if (number >= 16 && c->priority[level] >> (number - 16) & 1) return level;
    return LOWEST_PRIORITY;
}

/* The exception that would interrupt code of this priority, or 0. */
static uint32_t next_exception(core_t *c, int below) {
    if (c->pending_nmi && below > -2) return 2;
    for (int level = 0; level < below; level++) {
        if (c->pending_svcall && level == priority_of(c, 11)) return 11;
        if (c->pending_pendsv && level == priority_of(c, 14)) return 14;
        if (c->pending_systick && level == priority_of(c, 15)) return 15;
        uint32_t lines = c->pending & c->enabled & c->priority[level];
        if (lines) return 16 + (uint32_t)__builtin_ctz(lines);
    }
    return 0;
}

static void take_interrupt(core_t *c) {
    int running = priority_of(c, c->ipsr);
    uint32_t number = next_exception(c, c->primask && running > 0 ? 0 : running);
    if (c->attention & ATTENTION_WAITING && !number && next_exception(c, running))
        c->attention &= ~ATTENTION_WAITING; /* PRIMASK holds the handler back, not the wake-up */
    if (!number) { c->attention &= ~ATTENTION_INTERRUPTS; return; }
    if (number == 2) c->pending_nmi = 0;
    if (number == 11) c->pending_svcall = 0;
    if (number == 14) c->pending_pendsv = 0;
    if (number == 15) c->pending_systick = 0;
    if (number >= 16 + 26) c->pending &= ~(1u << (number - 16)); /* no line behind it: set by software only */
    enter_exception(c, number);
}

/* ---- instructions ---- */

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
    uint32_t address = c->r[op >> 6 & 7] + c->r[op >> 3 & 7], *rt = &c->r[op & 7], kind = op >> 9 & 7, value;
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
    case 0: case 3: c->n = value >> 31; c->z = value >> 30 & 1; c->c = value >> 29 & 1; c->v = value >> 28 & 1; break;
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
        uint32_t offset = (s ? 0xFF000000u : 0) | i1 << 23 | i2 << 22 | (op & 0x3FF) << 12 | (op2 & 0x7FF) << 1;
        c->r[14] = c->r[15] | 1;
        c->r[15] += offset;
        return 3;
    }
    if (op == 0xF3BF && (op2 & 0xFF00) == 0x8F00) return 3; /* DSB, DMB, ISB */
    if (op == 0xF3EF && op2 >> 12 == 8) { c->r[op2 >> 8 & 15] = read_special(c, op2 & 0xFF); return 3; }
    if (op >> 4 == 0xF38 && op2 >> 8 == 0x88) { write_special(c, op2 & 0xFF, c->r[op & 15]); return 3; }
    return unknown(c, op << 16 | op2);
}

static uint32_t conditional_branch(core_t *c, uint32_t op) {
    uint32_t code = op >> 8 & 15;
    if (code == 15) { c->pending_svcall = 1; c->attention |= ATTENTION_INTERRUPTS; return 1; } /* SVC */
    if (code == 14) return unknown(c, op);                                                     /* UDF */
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
    case 12: address = c->r[op >> 3 & 7] + (op >> 4 & 0x7C); write32(c, address, c->r[op & 7]); return 1 + bus_cycles(address, 1);
    case 13: address = c->r[op >> 3 & 7] + (op >> 4 & 0x7C); value = read32(c, address); c->r[op & 7] = value; return 1 + bus_cycles(address, 0);
    case 14: address = c->r[op >> 3 & 7] + (op >> 6 & 31); write8(c, address, c->r[op & 7]); return 1 + bus_cycles(address, 1);
    case 15: address = c->r[op >> 3 & 7] + (op >> 6 & 31); value = read8(c, address); c->r[op & 7] = value; return 1 + bus_cycles(address, 0);
    case 16: address = c->r[op >> 3 & 7] + (op >> 5 & 0x3E); write16(c, address, c->r[op & 7]); return 1 + bus_cycles(address, 1);
    case 17: address = c->r[op >> 3 & 7] + (op >> 5 & 0x3E); value = read16(c, address); c->r[op & 7] = value; return 1 + bus_cycles(address, 0);
    case 18: address = c->r[13] + ((op & 0xFF) << 2); write32(c, address, c->r[op >> 8 & 7]); return 1 + bus_cycles(address, 1);
    case 19: address = c->r[13] + ((op & 0xFF) << 2); value = read32(c, address); c->r[op >> 8 & 7] = value; return 1 + bus_cycles(address, 0);
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

/* Runs until the cycle limit, a stop, or the core waits for an interrupt. Python sets the limit to the next alarm. */
void core_run(core_t *c) {
    while (c->cycles < c->limit) {
        if (__builtin_expect(c->attention, 0)) {
            if (c->attention & ATTENTION_STOP) return;
            if (c->attention & ATTENTION_INTERRUPTS) take_interrupt(c);
            if (c->attention & ATTENTION_WAITING) return;
        }
        if (__builtin_expect(c->r[15] == c->watched, 0)) {
            c->watched_calls++;
            if (c->stops_at_watched) c->attention |= ATTENTION_STOP; /* after this instruction */
        }
        c->cycles += execute(c);
    }
}

uint32_t core_state_bytes(void) { return sizeof(core_t); }
