/* Reads series messages (firmware/SERIES_FORMAT.md): a second implementation of the format, for
 * consumers in C. decode() takes one message, needs no heap, and calls back for each sample.
 * As a program (cc -o series_reader series_reader.c), it reads messages from standard input, each
 * preceded by its length in two bytes, little endian. For each message it prints the line
 * "refused"; or the line "device stream seq held boot flags start_ms step_ms columns", a line for
 * each sample (time in ms, then the values, "-" for a missing one) and the line "end". Status 1:
 * the input ended within a message, which is not shown, or the output could not be written. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FIXED = 31, MOST_COLUMNS = 16, MOST_BITS = 30, DAY_MS = 86400000 };
#define VALUE_LIMIT (1L << 29)
#define SPAN_LIMIT_MS (1LL << 30)
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

typedef struct {
    const uint8_t *bytes;
    long at, end; /* in bits */
    int columns, k[MOST_COLUMNS + 1]; /* k[0]: of the time */
    int64_t start_ms, time, step;     /* time and step in steps */
    int32_t step_ms, last[MOST_COLUMNS];
    int is_bad, is_started;
} Series;

typedef void (*Row)(void *user, int64_t time_ms, const int32_t *values, uint32_t there, int count);

static uint32_t u16(const uint8_t *p) { return p[0] | p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }

/* The next `count` bits; -1: fewer are left. */
static int64_t take(Series *s, int count) {
    int64_t value = 0;
    if (s->at + count > s->end) return -1;
    for (; count; count--, s->at++)
        value = value << 1 | (s->bytes[s->at >> 3] >> (7 - (s->at & 7)) & 1);
    return value;
}

/* A code of order k; -1: the message ends within it, or it is too long (then it is bad). */
static int64_t code(Series *s, int k) {
    int length = k + 1;
    int64_t value;
    for (; s->at < s->end && !(s->bytes[s->at >> 3] << (s->at & 7) & 128); s->at++) length++;
    if (s->at < s->end && length > MOST_BITS) s->is_bad = 1;
    value = s->at < s->end && !s->is_bad ? take(s, length) : -1;
    return value < 0 ? -1 : value - (1L << k);
}

static int64_t to_signed(int64_t value) { return value & 1 ? -(value / 2) - 1 : value / 2; }

/* A number preceded by its length: 1 and the number, or 0. */
static int whole(Series *s, int64_t *number) {
    int length = (int)take(s, 5);
    int64_t value = length < 0 ? -1 : take(s, length);
    if (value < 0) return 0;
    if (length > MOST_BITS || (length && !(value >> (length - 1)))) s->is_bad = 1;
    *number = to_signed(value);
    return !s->is_bad;
}

static int put_value(Series *s, int column, int64_t value) {
    if (value < -VALUE_LIMIT || value >= VALUE_LIMIT) s->is_bad = 1;
    s->last[column] = s->is_bad ? 0 : (int32_t)value;
    return !s->is_bad;
}

static int restart(Series *s, uint32_t there) {
    int64_t number;
    if (!whole(s, &s->time)) return 0;
    s->step = 0;
    memset(s->last, 0, sizeof s->last);
    for (int i = 0; i < s->columns; i++)
        if (there >> (s->columns - 1 - i) & 1)
            if (!whole(s, &number) || !put_value(s, i, number)) return 0;
    return s->is_started = 1;
}

static int changes(Series *s, int64_t number, uint32_t there) {
    if (!s->is_started) s->is_bad = 1;
    s->step += to_signed(number ? number - 1 : 0);
    s->time += s->step;
    for (int i = 0; i < s->columns; i++)
        if (there >> (s->columns - 1 - i) & 1) {
            if ((number = code(s, s->k[i + 1])) < 0) return 0;
            if (!put_value(s, i, s->last[i] + to_signed(number))) return 0;
        }
    return !s->is_bad;
}

/* The next sample: 1, with the columns that are there; 0: there is none, or it is bad. */
static int sample(Series *s, uint32_t *there) {
    int64_t number = code(s, s->k[0]), is_restart, mask, since_ms;
    uint32_t all = *there = (1UL << s->columns) - 1;
    if (number < 0) return 0;
    if (number == 1) {
        is_restart = take(s, 1);
        mask = take(s, s->columns);
        if (mask < 0) return 0;
        *there = (uint32_t)mask;
        if (!mask || (!is_restart && *there == all)) s->is_bad = 1;
        if (!is_restart && (number = code(s, s->k[0])) == 1) s->is_bad = 1;
        if (s->is_bad || number < 0) return 0;
        if (is_restart ? !restart(s, *there) : !changes(s, number, *there)) return 0;
    } else if (!changes(s, number, *there)) {
        return 0;
    }
    since_ms = s->time * s->step_ms;
    if (since_ms <= -SPAN_LIMIT_MS || since_ms >= SPAN_LIMIT_MS || s->start_ms + since_ms < 0)
        s->is_bad = 1;
    return !s->is_bad;
}

/* Where the columns end; 0: they are bad. */
static long take_columns(Series *s, const uint8_t *p, long at, long end) {
    s->k[0] = p[28];
    s->columns = p[29];
    if (s->k[0] > 15 || s->columns < 1 || s->columns > MOST_COLUMNS) return 0;
    for (int i = 1; i <= s->columns; i++) {
        long next = at + 3;
        if (next > end || (next += p[at + 2] + (p[at + 1] >> 4)) > end) return 0;
        if (!p[at + 2] || (int8_t)p[at] < -9 || (int8_t)p[at] > 9) return 0;
        s->k[i] = p[at + 1] & 15;
        for (at += 3; at < next; at++)
            if (p[at] < ' ' || p[at] > '~') return 0;
    }
    return at;
}

static int is_device(const uint8_t *p) {
    for (int i = 0; i < p[30]; i++)
        if (!p[31 + i] || !strchr(LETTERS, p[31 + i])) return 0;
    return p[30] >= 1 && p[30] <= 32;
}

static int begin(Series *s, const uint8_t *p, long length) {
    long end = 0, at;
    memset(s, 0, sizeof *s);
    if (length < FIXED || length > 16384 || p[0] != 0xF5 || p[1] != 1) return 0;
    if (length < FIXED + p[30] || !is_device(p)) return 0;
    end = p[2];
    if (end < FIXED || end > length || p[3] > 3 || p[3] == 2) return 0;
    if (u32(p + 12) > u32(p + 8) || u32(p + 8) >= 1UL << 30) return 0;
    s->start_ms = (int64_t)u16(p + 20) * DAY_MS + u32(p + 22);
    if (u32(p + 22) >= DAY_MS || !u16(p + 26)) return 0;
    if (p[3] & 1 ? s->start_ms < 268435456000LL || s->start_ms >= 4102444800000LL
                 : u16(p + 20) > 12427)
        return 0;
    at = take_columns(s, p, FIXED + p[30], end);
    if (!at || at + (p[3] & 2) * 3 != end) return 0;
    if (p[3] & 2 && (u32(p + at + 2) >= DAY_MS ||
                     u16(p + at) * (int64_t)DAY_MS + u32(p + at + 2) > 1073741824000LL))
        return 0;
    s->bytes = p;
    s->step_ms = (int32_t)u16(p + 26);
    s->at = end * 8;
    s->end = length * 8;
    return 1;
}

/* 1, and row() was called for each sample; 0: refused, with or without calls before. */
int decode(const uint8_t *message, long length, Row row, void *user) {
    Series s;
    uint32_t there;
    long start;
    if (!begin(&s, message, length)) return 0;
    for (start = s.at; sample(&s, &there); start = s.at)
        if (row) row(user, s.start_ms + s.time * s.step_ms, s.last, there, s.columns);
    for (s.at = start; !s.is_bad && s.at < s.end;)
        if (take(&s, 1) || s.end - start > 7) s.is_bad = 1;
    return !s.is_bad && s.is_started;
}

static void print_row(void *user, int64_t ms, const int32_t *values, uint32_t there, int count) {
    (void)user;
    printf("%lld", (long long)ms);
    for (int i = 0; i < count; i++)
        if (there >> (count - 1 - i) & 1) printf(" %ld", (long)values[i]);
        else printf(" -");
    printf("\n");
}

static void print_header(const uint8_t *p) {
    printf("%.*s %02x%02x%02x%02x ", p[30], (char *)p + 31, p[4], p[5], p[6], p[7]);
    printf("%lu %lu ", (unsigned long)u32(p + 8), (unsigned long)u32(p + 12));
    printf("%u %d %lld %u %d\n", (unsigned)u16(p + 16), p[3],
           (long long)u16(p + 20) * DAY_MS + u32(p + 22), (unsigned)u16(p + 26), p[29]);
}

int main(void) {
    static uint8_t p[65536], size[2];
    size_t there;
    while ((there = fread(size, 1, 2, stdin)) == 2 && fread(p, 1, u16(size), stdin) == u16(size)) {
        int is_good = decode(p, u16(size), NULL, NULL);
        if (is_good) print_header(p), decode(p, u16(size), print_row, NULL);
        printf(is_good ? "end\n" : "refused\n");
    }
    if (there) fputs("series_reader: the input ends within a message\n", stderr);
    return there || fflush(stdout) || ferror(stdin) || ferror(stdout);
}
