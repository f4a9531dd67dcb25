/* See banks.h. */
#include "banks.h"

static bool is_active(uint32_t mask, int lane)
{
    return mask >> lane & 1;
}

/* Whether every active lane has the same address as lane ^ distance, if that is active too. */
static bool pairs_agree(const struct warp_access *access, int distance)
{
    for (int lane = 0; lane < LANES; lane++)
        if (is_active(access->mask, lane) && is_active(access->mask, lane ^ distance) &&
            access->addresses[lane] != access->addresses[lane ^ distance])
            return false;
    return true;
}

/* How many consecutive lanes are served together: as many as the banks have bytes for; for loads of 8 or 16 bytes
 * twice as many if pairs of lanes read the same addresses. */
static int lanes_of_group(const struct warp_access *access, int banks, int width)
{
    const int bytes = access->size < 4 ? 4 : access->size;
    int lanes = banks * width / bytes;

    if (!access->store && access->size > 4 && (pairs_agree(access, 1) || pairs_agree(access, 2)))
        lanes *= 2;
    return lanes < LANES ? lanes : LANES;
}

/* Counts the distinct words that each bank delivers to lanes [first, last). */
static void count_words(const struct warp_access *access, int first, int last, int banks, int width, int *words)
{
    uint64_t seen[LANES * 4]; /* 16 bytes are 4 words */
    int count = 0;

    for (int lane = first; lane < last; lane++) {
        if (!is_active(access->mask, lane))
            continue;
        for (int byte = 0; byte < access->size; byte += width) {
            const uint64_t word = (access->addresses[lane] + (uint64_t)byte) / (uint64_t)width;
            int i = 0;

            while (i < count && seen[i] != word)
                i++;
            if (i < count)
                continue;
            seen[count++] = word;
            words[word % (uint64_t)banks]++;
        }
    }
}

struct bank_cost bank_cost(const struct warp_access *access, int banks, int width)
{
    const int lanes = lanes_of_group(access, banks, width);
    struct bank_cost cost = {.lanes = lanes};

    for (int first = 0; first < LANES; first += lanes) {
        int words[MAX_BANKS] = {0}, most = 0;

        count_words(access, first, first + lanes, banks, width, words);
        for (int bank = 0; bank < banks; bank++) {
            cost.words[bank] += words[bank];
            most = words[bank] > most ? words[bank] : most;
        }
        cost.groups += most > 0;
        cost.wavefronts += most;
        cost.degree = most > cost.degree ? most : cost.degree;
    }
    cost.conflicts = cost.wavefronts - cost.groups;
    return cost;
}

/* Whether two lanes of a copy through the L1 cache cannot share a wavefront. */
static bool collide(const struct warp_copy *copy, int a, int b)
{
    const uint64_t banks = MAX_BANKS * 4;

    return copy->to[a] % banks == copy->to[b] % banks ||
           (copy->from[a] && copy->from[b] && copy->from[a] % banks == copy->from[b] % banks);
}

static struct copy_cost cost_through_l1(const struct warp_copy *copy)
{
    const int lanes = MAX_BANKS * 4 / copy->size;
    struct copy_cost cost = {0, 1};

    for (int first = 0; first < LANES; first += lanes) {
        int most = 0;

        for (int lane = first; lane < first + lanes; lane++) {
            int count = 0;

            for (int other = first; is_active(copy->mask, lane) && other < first + lanes; other++)
                count += is_active(copy->mask, other) && collide(copy, lane, other);
            most = count > most ? count : most;
        }
        cost.wavefronts += most;
        cost.degree = most > cost.degree ? most : cost.degree;
    }
    return cost;
}

/* A sector, or half of one, on its way past the L1 cache. */
struct sector_move {
    uint64_t from, to; /* numbers of sectors */
    unsigned halves;   /* bit 2 * i + j: half i goes to half j */
};

/* Which lanes of a copy count: of those that write to the same place, the first. */
static bool is_first_writer(const struct warp_copy *copy, int lane)
{
    for (int before = 0; before < lane; before++)
        if (is_active(copy->mask, before) && copy->to[before] == copy->to[lane])
            return false;
    return is_active(copy->mask, lane);
}

/* The moves of a copy's lanes: two lanes have one if they exchange or keep the halves of a sector. */
static int sector_moves(const struct warp_copy *copy, struct sector_move *moves)
{
    int count = 0;

    for (int lane = 0; lane < LANES; lane++) {
        const uint64_t from = copy->from[lane] / SECTOR_BYTES, to = copy->to[lane] / SECTOR_BYTES;
        const unsigned half = copy->from[lane] / 16 % 2, to_half = copy->to[lane] / 16 % 2;
        const unsigned bit = 1u << (2 * half + to_half), other = 1u << (2 * !half + !to_half);
        int i = 0;

        if (!is_first_writer(copy, lane))
            continue;
        while (i < count && !(moves[i].from == from && moves[i].to == to && moves[i].halves == other))
            i++;
        if (i == count)
            moves[count++] = (struct sector_move){from, to, 0};
        moves[i].halves |= bit;
    }
    return count;
}

static int wavefronts_past_l1(const struct warp_copy *copy)
{
    enum { SECTORS = 4 }; /* of a line, and of a row */
    struct sector_move moves[LANES];
    const int count = sector_moves(copy, moves);
    uint32_t done = 0;
    int wavefronts = 0;

    for (int i = 0; i < count; i++) {
        unsigned rotations = 0, reflections = 0;

        for (int j = i; j < count; j++) {
            const struct sector_move *a = &moves[i], *b = &moves[j];

            if (done >> j & 1 || a->halves != b->halves || a->from / SECTORS != b->from / SECTORS ||
                a->to / SECTORS != b->to / SECTORS)
                continue;
            done |= UINT32_C(1) << j;
            rotations |= 1u << (b->to - b->from) % SECTORS;
            reflections |= 1u << (b->to + b->from) % SECTORS;
        }
        rotations = (unsigned)__builtin_popcount(rotations);
        reflections = (unsigned)__builtin_popcount(reflections);
        wavefronts += (int)(rotations < reflections ? rotations : reflections);
    }
    return wavefronts;
}

struct copy_cost copy_cost(const struct warp_copy *copy)
{
    return copy->past_l1 ? (struct copy_cost){wavefronts_past_l1(copy), 1} : cost_through_l1(copy);
}

/* The number of distinct blocks of `bytes` bytes that the active lanes access. */
static int count_blocks(const struct warp_access *access, uint64_t bytes)
{
    uint64_t seen[LANES];
    int count = 0;

    for (int lane = 0; lane < LANES; lane++) {
        const uint64_t block = access->addresses[lane] / bytes;
        int i = 0;

        if (!is_active(access->mask, lane))
            continue;
        while (i < count && seen[i] != block)
            i++;
        if (i == count)
            seen[count++] = block;
    }
    return count;
}

int sector_count(const struct warp_access *access)
{
    return count_blocks(access, SECTOR_BYTES);
}

int ideal_sector_count(const struct warp_access *access)
{
    return (count_blocks(access, (uint64_t)access->size) * access->size + SECTOR_BYTES - 1) / SECTOR_BYTES;
}
