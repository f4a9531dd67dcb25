/* Copies between strided host memory and a dense buffer. */
#include "strided_copy.h"

#include <string.h>

size_t segments_bytes(const struct segments *segments)
{
    size_t bytes = segments->segment_bytes;

    for (int d = 0; d < segments->ndim; d++)
        bytes *= (size_t)segments->shape[d];
    return bytes;
}

/* Copies `count` elements of `bytes` bytes between strided memory; the compiler specialises the loop for each
 * size. */
#define COPY_STEPS(bytes)                    \
    case bytes:                              \
        for (size_t i = 0; i < count; i++) { \
            memcpy(to, from, bytes);         \
            to += to_step;                   \
            from += from_step;               \
        }                                    \
        break;

static void copy_steps(char *to, int64_t to_step, const char *from, int64_t from_step, size_t count, size_t bytes)
{
    switch (bytes) {
        COPY_STEPS(1)
        COPY_STEPS(2)
        COPY_STEPS(4)
        COPY_STEPS(8)
        COPY_STEPS(16)
    default:
        for (size_t i = 0; i < count; i++) {
            memcpy(to, from, bytes);
            to += to_step;
            from += from_step;
        }
    }
}

/* The address of segment `number`, and its index along each dimension. */
static char *find_segment(const struct segments *segments, size_t number, int64_t *index)
{
    char *data = segments->data;

    for (int d = segments->ndim - 1; d >= 0; d--) {
        index[d] = (int64_t)(number % (size_t)segments->shape[d]);
        number /= (size_t)segments->shape[d];
        data += index[d] * segments->strides[d];
    }
    return data;
}

/* Advances to the first segment of the next row. */
static char *next_row(const struct segments *segments, int64_t *index)
{
    size_t number = 0;

    for (int d = 0; d < segments->ndim; d++)
        number = number * (size_t)segments->shape[d] + (size_t)index[d];
    return find_segment(segments, number, index);
}

void segments_copy(const struct segments *segments, size_t begin, size_t end, char *dense, bool gather)
{
    const int last = segments->ndim - 1;
    int64_t index[MAX_DIMENSIONS];
    char *data = find_segment(segments, begin / segments->segment_bytes, index);
    size_t within = begin % segments->segment_bytes;

    while (begin < end) {
        size_t bytes = segments->segment_bytes - within, count = 1;

        if (bytes > end - begin)
            bytes = end - begin;
        if (bytes == segments->segment_bytes && last >= 0) { /* all whole segments that are left in this row */
            const size_t row = (size_t)(segments->shape[last] - index[last]), left = (end - begin) / bytes;

            count = row < left ? row : left;
        }
        if (gather)
            copy_steps(dense, (int64_t)bytes, data + within, last >= 0 ? segments->strides[last] : 0, count,
                       bytes);
        else
            copy_steps(data + within, last >= 0 ? segments->strides[last] : 0, dense, (int64_t)bytes, count,
                       bytes);
        within = 0;
        dense += count * bytes;
        begin += count * bytes;
        if (last < 0)
            return;
        index[last] += (int64_t)count;
        data += (int64_t)count * segments->strides[last];
        if (index[last] == segments->shape[last] && begin < end)
            data = next_row(segments, index);
    }
}
