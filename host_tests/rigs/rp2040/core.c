/* The processor of the emulated RP2040: a Cortex-M0+ (ARMv6-M) with its memories, its run loop and
 * the registers that are used most: the timer's count, SIO's divider, the SSI while a page goes to
 * the flash chip.
 *
 * Knows the instruction set (thumb.h), the exception model and where memories lie. Must not know:
 * any other peripheral. Every other address goes to Python through two callbacks, so that
 * rp2040py's peripherals answer. Counts cycles as rp2040py does: 2 for a load or store, 4 and 5 on
 * the peripheral bus, 2 for a taken branch; no cost for a miss of the XIP cache.
 * host_tests/rigs/test_rp2_core.py holds it against rp2040py's own core, one instruction after the
 * other.
 */
#include <stdint.h>
#include <string.h>

#define ATTENTION_INTERRUPTS 1u /* something became pending or enabled: look before going on */
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
    uint32_t is_page_sent, page_bytes, page_unread; /* on its way to the flash chip: send_page() */
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
static void store16(uint8_t *at, uint32_t value) {
    uint16_t half = (uint16_t)value;
    memcpy(at, &half, 2);
}

/* ---- memory ---- */

/* The memory at an address, or NULL where a peripheral answers. */
static inline uint8_t *memory_at(core_t *c, uint32_t address) {
    if (address - RAM_BASE < RAM_BYTES) return c->ram + (address - RAM_BASE);
    if (address - 0x10000000u < 0x04000000u) return c->flash + (address & FLASH_MASK);
    if (address < ROM_BYTES) return c->rom + address;
    if (address - DPRAM_BASE < DPRAM_BYTES) return c->dpram + (address - DPRAM_BASE);
    return 0;
}

/* Flash and ROM take no writes over the bus; the USB memory's control words act. */
static inline uint8_t *writable_at(core_t *c, uint32_t address) {
    if (address - RAM_BASE < RAM_BYTES) return c->ram + (address - RAM_BASE);
    if (address - (DPRAM_BASE + 0x100) < DPRAM_BYTES - 0x100)
        return c->dpram + (address - DPRAM_BASE);
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
    if (offset >= 0x100 && offset < 0x180) {
        c->spinlocks &= ~(1u << ((offset - 0x100) >> 2));
        return 1;
    }
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

/* The boot ROM clocks a page into the flash chip byte by byte, in about five accesses each; 0xFF
 * comes back. Python sets is_page_sent when it sees such a command; it takes the page when the chip
 * is deselected. */
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
    case 0x28: *value = 6 | (c->page_unread ? 8 : 0); return 1; /* SR: room to send; received */
    case 0x60: *value = 0xFF; if (c->page_unread) c->page_unread--; return 1;
    }
    return 0;
}

static uint32_t read_device(core_t *c, uint32_t address) {
    uint32_t value;
    if ((address >> 28) == 0xD && sio_read(c, address - SIO_BASE, &value)) return value;
    uint32_t block = address & 0xFFFFF000u, offset = address & 0xFFF;
    if (block == TIMER_BASE && timer_read(c, offset, &value)) return value;
    if (block == SSI_BASE && page_read(c, offset, &value)) return value;
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
    if (__builtin_expect(pc - 0x10000000u < 0x04000000u, 1))
        return load16(c->flash + (pc & FLASH_MASK));
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
    if (number >= 16 + 26) c->pending &= ~(1u << (number - 16)); /* no line: set by software only */
    enter_exception(c, number);
}

#include "thumb.h"

/* Runs until the cycle limit, a stop, or a wait for an interrupt. Python sets the limit to the next
 * alarm. */
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
