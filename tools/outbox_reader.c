/* Reads an outbox (firmware/OUTBOX_FORMAT.md): a second implementation of the format, for the bytes
 * of a whole region. As a program (cc -o outbox_reader outbox_reader.c), it reads them from
 * standard input and prints a line for each thing that it finds; texts in hex, "-" if empty:
 *     outbox STREAM ALIGN OLDEST ACKED NEXT    as the records say; mount() may pass over numbers
 *     note TEXT                                if there is one
 *     message NUMBER QOS RETAIN STATE TOPIC PAYLOAD    "held"; "acked" while an older one is held
 *     aside NUMBER CRC_OF_STREAM MARK QOS RETAIN TOPIC PAYLOAD
 * Or one line: "none" (no sector), "newer" (another version, or series), "short" (the region had
 * more blocks). Status 1: these are no whole blocks, or the output could not be written. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, HEADER = 32, MOST_BLOCKS = 4096, MOST_LOST = 7, MOST_PASSED = 2 };
enum { MESSAGE = 1, STATE = 2, MOST = BLOCK / 16 };
#define NUMBERS (1UL << 30)

typedef struct { const uint8_t *at; uint32_t seq; } Record;
typedef struct { const uint8_t *p; int is_valid; uint32_t no, first, salt;
                 uint8_t head[HEADER]; } Sector;
typedef struct { int count, copies; uint32_t no, place, began_with, replaced;
                 const uint8_t *held[MOST]; } Shelf;

static uint8_t image[(long)MOST_BLOCKS * BLOCK + 1];
static Sector all[MOST_BLOCKS], *chain[MOST_BLOCKS]; /* chain: the ring, newest first */
static Record records[MOST];                         /* of the sector that was walked last */
static uint32_t oldest, acked, next_seq, tail_first;
static int blocks, align;

static uint32_t u16(const uint8_t *p) { return p[0] | p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return (u16(p) | (uint32_t)u16(p + 2) << 16) % NUMBERS; }
static long padded(long size, int to) { return (size + to - 1) / to * to; }
static uint32_t age(const Sector *s, const Sector *newer) { return (newer->no - s->no) % NUMBERS; }
static int is_alike(const Sector *a, const Sector *b) {
    return !memcmp(a->head + 8, b->head + 8, 8); /* the stream */
}

static uint32_t crc30(uint32_t preset, const uint8_t *p, long length) {
    uint32_t crc = ~preset;
    for (; length; length--, p++)
        for (int i = (crc ^= *p, 0); i < 8; i++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    return ~crc % NUMBERS;
}

static int is_blank(const uint8_t *p, long length) {
    for (; length > 0 && *p == 0xFF; length--) p++;
    return length <= 0;
}

static int is_header(const uint8_t *p, char magic) {
    return p[0] == 'O' && p[1] == magic && p[31] < 0x40 && u32(p + 28) == crc30(0, p, 28);
}

/* The header of a block, mended, or its copy, which lies where its own alignment says. */
static int find_header(const uint8_t *p, char magic, uint8_t *head) {
    int is_found = is_header(memcpy(head, p, HEADER), magic);
    for (int bit = 0; bit < 8 * HEADER && !is_found && !is_blank(p, HEADER); bit++) {
        head[bit / 8] ^= 1 << bit % 8;
        if (!(is_found = is_header(head, magic))) head[bit / 8] ^= 1 << bit % 8;
    }
    for (int room = HEADER; room <= 256 && !is_found; room *= 2)
        is_found = is_header(memcpy(head, p + BLOCK - room, HEADER), magic)
                   && room == padded(HEADER, 1 << (head[3] & 15));
    return is_found;
}

/* The bytes of the valid record at p, without padding; 0: there is none. */
static long record_at(const uint8_t *p, const uint8_t *end, uint32_t preset) {
    long size = end - p < 16 ? 0 : 16 + p[1] + u16(p + 2);
    if (!size || size > end - p || p[size - 1] > 0x3F) return 0;
    if ((p[0] & 0x8F) != MESSAGE && (p[0] & 0x8F) != STATE) return 0;
    return u32(p + size - 4) == crc30(preset, p, size - 4) ? size : 0;
}

/* Fills records[] with those whose numbers are below `end`; returns their count. Where they end
 * goes to *rest, and the number that follows to *next. */
static int walk(const Sector *s, uint32_t end, const uint8_t **rest, uint32_t *next) {
    const uint8_t *at = *rest = s->p + padded(HEADER, align), *limit = s->p + BLOCK;
    uint32_t seq, last = *next = s->first;
    int count = 0;
    while (at < limit && *next != end) {
        long size = 0;
        for (seq = *next; *at != 0xFF && seq <= last && seq != end; seq++)
            if ((size = record_at(at, limit, s->salt ^ seq))) break;
        last = *next + MOST_LOST; /* so many may be torn at one place */
        if (size) {
            records[count++] = (Record){at, seq};
            last = *next = seq + (*at & 1);
            *rest = at + padded(size, align);
        }
        at += padded(size ? size : 1, align);
    }
    return count;
}

/* Whether a message is here that is whole but for one bit; in its CRC, the two top bits may be
 * wrong besides. Its number is used. */
static int is_flipped(uint8_t *p, const uint8_t *end, uint32_t preset) {
    long size = end - p < 16 ? 0 : 16 + p[1] + (long)u16(p + 2);
    long bits = size > end - p ? 32 : 8 * size; /* then one of the lengths is wrong */
    uint32_t wrong = bits == 8 * size && size ? u32(p + size - 4) ^ crc30(preset, p, size - 4) : 3;
    int found = p[0] & 1 && !(wrong & (wrong - 1));
    for (long bit = 0; bit < bits && !found; bit++) {
        p[bit / 8] ^= 1 << bit % 8;
        found = p[0] & 1 && record_at(p, end, preset);
        p[bit / 8] ^= 1 << bit % 8;
    }
    return found;
}

/* The newest sector, or the newest of those that are older than one of them; NULL: none. Of two,
 * which earlier firmware could write, the one that the ring reached later after `before`. */
static Sector *newest(const Sector *below, const Sector *before) {
    Sector *found = NULL;
    for (Sector *s = all; s < all + blocks; s++)
        if (s->is_valid && (!below || age(s, below)))
            if (!found || age(found, s) - 1 < NUMBERS / 2 - 1
                || (before && !age(found, s)
                    && (s - before + blocks) % blocks > (found - before + blocks) % blocks))
                found = s;
    return found;
}

static int is_older(const Sector *s) {
    return s->is_valid && is_alike(s, chain[0]) && s->first < chain[0]->first;
}

/* Finds the head, and walks it. A sector without a record and without a copy of its header is not
 * the head, unless it is alone. Returns its records; -1: there is no head. */
static int find_head(void) {
    const uint8_t *rest;
    int count = -1, has_other = 1;
    while (count <= 0 && has_other && (chain[0] = newest(NULL, NULL))) {
        Sector *before = newest(chain[0], NULL), *head = chain[0] = newest(NULL, before), *s;
        align = 1 << (head->head[3] & 15);
        count = walk(head, NUMBERS, &rest, &next_seq);
        const uint8_t *end = head->p + BLOCK, *copy = end - padded(HEADER, align);
        int has_copy = is_header(copy, 'B') && u32(copy + 28) == head->salt;
        if (has_copy) end = copy;
        if (!is_blank(rest, end - rest)
            && is_flipped((uint8_t *)rest, head->p + BLOCK, head->salt ^ next_seq))
            next_seq++, has_other = 0;
        for (s = all, has_other &= count <= 0 && !has_copy; has_other && s < all + blocks; s++)
            if (s != head && s->is_valid && is_alike(s, head)) break;
        if ((has_other &= s < all + blocks)) head->is_valid = 0, count = -1;
    }
    return count;
}

/* Going back from the head, the ages rise; a sector older than one further back was left out. */
static int fill_chain(void) {
    int count = 1, head = (int)(chain[0] - all);
    for (int back = 1; back < blocks; back++) {
        Sector *s = all + (head - back + blocks) % blocks, *other;
        int is_in = is_older(s) && age(s, chain[0]) > age(chain[count - 1], chain[0]);
        for (int more = back + 1; is_in && more < blocks; more++) {
            other = all + (head - more + blocks) % blocks;
            is_in = !is_older(other) || age(other, chain[0]) >= age(s, chain[0]);
        }
        if (is_in) chain[count++] = s;
    }
    return count;
}

static int is_acked(uint32_t seq) {
    if (seq < oldest || seq < tail_first) return 1;
    return seq - oldest - 1 < 16 && acked >> (seq - oldest - 1) & 1;
}

static void print_hex(const uint8_t *p, long length) {
    for (printf(length ? " " : " -"); length; length--) printf("%02x", *p++);
}

static void print_text(const uint8_t *p) {
    print_hex(p + 12, p[1]);
    print_hex(p + 12 + p[1], u16(p + 2));
    printf("\n");
}

/* Prints the ring. Reading ends in each sector where the next one begins. */
static void print_ring(int count) {
    const uint8_t *told = count ? records[count - 1].at + 4 : chain[0]->head + 20;
    const uint8_t *note = NULL, *rest;
    int sectors = fill_chain(), tail = 0, is_behind = 1;
    uint32_t next;
    oldest = u32(told), acked = u16(told + 4);
    printf("outbox %.8s %d %lu %x %lu\n", (const char *)chain[0]->head + 8, align,
           (unsigned long)oldest, (unsigned)acked, (unsigned long)next_seq);
    for (const Sector *s = chain[0]; s && !note; s = s == chain[0] ? newest(s, NULL) : NULL)
        for (count = walk(s, NUMBERS, &rest, &next); is_alike(s, chain[0]) && count; count--)
            if (records[count - 1].at[0] == STATE && !note) note = records[count - 1].at;
    if (note && u16(note + 2)) printf("note"), print_hex(note + 12, u16(note + 2)), printf("\n");
    while (tail < sectors - 1 && chain[tail]->first > oldest) tail++;
    for (tail_first = chain[tail]->first; tail >= 0; tail--) {
        count = walk(chain[tail], tail ? chain[tail - 1]->first : next_seq, &rest, &next);
        for (const Record *r = records; r < records + count; r++) {
            if (!(r->at[0] & 1) || (is_behind && is_acked(r->seq))) continue;
            is_behind = 0;
            printf("message %lu %d %d %s", (unsigned long)r->seq, r->at[0] >> 4 & 3,
                   r->at[0] >> 6 & 1, is_acked(r->seq) ? "acked" : "held");
            print_text(r->at);
        }
    }
}

/* What a lent block holds. The place of a record is offset / 16, or its position. */
static Shelf *read_shelf(const Sector *of) {
    Shelf *s = calloc(1, sizeof *s);
    int its_align = 1 << (of->head[3] & 15), is_torn = 0, i;
    const uint8_t *at = of->p + padded(HEADER, its_align), *end = of->p + BLOCK;
    if (!s) exit(1);
    s->no = of->no, s->began_with = of->first, s->replaced = u32(of->head + 20);
    for (long size; at < end && !is_blank(at, end - at); at += padded(size ? size : 1, its_align)) {
        uint32_t place = (uint32_t)(at - of->p) / 16, last = s->place + (is_torn ? MOST_PASSED : 0);
        if (!(size = record_at(at, end, of->salt ^ place)))
            for (place = s->place; place <= last; place++)
                if ((size = record_at(at, end, of->salt ^ place))) break;
        if ((is_torn = !size)) continue;
        for (i = 0; i < s->count; i++) /* of the same number and stream */
            if (u32(s->held[i] + 4) == u32(at + 4) && u32(s->held[i] + 8) == u32(at + 8)) break;
        if (*at & 1) s->count += i == s->count, s->held[i] = at;
        else if (i < s->count)
            memmove(s->held + i, s->held + i + 1, (--s->count - i) * sizeof *s->held);
        s->copies += place < s->began_with;
        s->place = place + 1;
    }
    return s;
}

/* Whether a shelf counts, and not the one before: all its copies are there, and are confirmed. */
static int counts_over(const Shelf *s, const Shelf *old) {
    int is_ahead = s->place > s->began_with || (!s->began_with && s->replaced);
    for (int i = 0, j; i < s->count; is_ahead |= j == old->count, i++)
        for (j = 0; j < old->count && memcmp(s->held[i] + 4, old->held[j] + 4, 8); j++) {}
    return s->copies == (int)s->began_with && is_ahead;
}

static int in_order(const void *a, const void *b) {
    const Shelf *x = *(Shelf *const *)a, *y = *(Shelf *const *)b;
    if (x->no != y->no) return x->no > y->no ? 1 : -1;
    return (x->place > y->place) - (x->place < y->place);
}

static void print_shelf(void) {
    static Shelf *shelves[MOST_BLOCKS], *s;
    int count = 0, least_age = chain[0]->head[7] & 0x40 ? u16(chain[0]->head + 26) >> 15 : 0;
    for (const Sector *one = all; one < all + blocks; one++) /* of an earlier age: void */
        if (!one->is_valid && one->head[1] == 'S' && one->head[24] >= least_age)
            shelves[count++] = read_shelf(one);
    qsort(shelves, count, sizeof *shelves, in_order);
    while (count > 1 && !counts_over(shelves[count - 1], shelves[count - 2])) count--;
    for (int i = 0; count && i < (s = shelves[count - 1])->count; i++) {
        const uint8_t *p = s->held[i];
        printf("aside %lu %lu %d %d %d", (unsigned long)u32(p + 4), (unsigned long)u32(p + 8),
               p[11] >> 6 & 1, p[0] >> 4 & 3, p[0] >> 6 & 1);
        print_text(p);
    }
}

int main(void) {
    size_t length = fread(image, 1, sizeof image, stdin);
    int is_newer = 0, count;
    blocks = (int)(length / BLOCK);
    if (ferror(stdin) || blocks < 2 || length % BLOCK) return 1;
    for (Sector *s = all; s < all + blocks; s++) {
        s->p = image + (s - all) * BLOCK;
        s->is_valid = find_header(s->p, 'B', s->head);
        is_newer |= s->is_valid && (s->head[2] > 2 || s->head[3] > 15);
        if (!s->is_valid && !find_header(s->p, 'S', s->head)) s->head[1] = 0;
        s->no = u32(s->head + 4), s->first = u32(s->head + 16), s->salt = u32(s->head + 28);
    }
    if (is_newer) printf("newer\n");
    else if ((count = find_head()) < 0) printf("none\n");
    else if (chain[0]->head[7] & 0x40 && (int)(u16(chain[0]->head + 26) & 0xFFF) >= blocks)
        printf("short\n");
    else print_ring(count), print_shelf();
    return fflush(stdout) || ferror(stdout);
}
