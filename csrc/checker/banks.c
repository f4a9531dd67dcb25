/* See banks.h. */
#include "banks.h"

static bool is_active(const struct warp_access *access, int lane)
{
    return access->mask >> lane & 1;
}

/* Whether every active lane has the same address as lane ^ distance, if that is active too. */
static bool pairs_agree(const struct warp_access *access, int distance)
{
    for (int lane = 0; lane < LANES; lane++)
        if (is_active(access, lane) && is_active(access, lane ^ distance) &&
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
        if (!is_active(access, lane))
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

/* The number of distinct blocks of `bytes` bytes that the active lanes access. */
static int count_blocks(const struct warp_access *access, uint64_t bytes)
{
    uint64_t seen[LANES];
    int count = 0;

    for (int lane = 0; lane < LANES; lane++) {
        const uint64_t block = access->addresses[lane] / bytes;
        int i = 0;

        if (!is_active(access, lane))
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
