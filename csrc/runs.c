/* Runs of host memory: an array with gaps, copied to and from where it has none. */
#include "device.h"

#include <string.h>

size_t runs_bytes(const struct runs *runs)
{
    size_t bytes = runs->run;

    for (int d = 0; d < runs->ndim; d++)
        bytes *= (size_t)runs->shape[d];
    return bytes;
}

/* `count` elements of one size, from steps of `from` to steps of `to`; the compiler makes a loop for each size. */
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

/* Where run `index` lies, and its place along each dimension. */
static char *find_run(const struct runs *runs, size_t index, int64_t *place)
{
    char *data = runs->data;

    for (int d = runs->ndim - 1; d >= 0; d--) {
        place[d] = (int64_t)(index % (size_t)runs->shape[d]);
        index /= (size_t)runs->shape[d];
        data += place[d] * runs->strides[d];
    }
    return data;
}

/* To the run after the last of a row. */
static char *next_row(const struct runs *runs, int64_t *place)
{
    size_t index = 0;

    for (int d = 0; d < runs->ndim; d++)
        index = index * (size_t)runs->shape[d] + (size_t)place[d];
    return find_run(runs, index, place);
}

void runs_copy(const struct runs *runs, size_t begin, size_t end, char *dense, bool gather)
{
    const int last = runs->ndim - 1;
    int64_t place[MAX_DIMENSIONS];
    char *data = find_run(runs, begin / runs->run, place);
    size_t within = begin % runs->run;

    while (begin < end) {
        size_t bytes = runs->run - within, count = 1;

        if (bytes > end - begin)
            bytes = end - begin;
        if (bytes == runs->run && last >= 0) { /* as many whole runs as are left of this row */
            const size_t row = (size_t)(runs->shape[last] - place[last]), left = (end - begin) / bytes;

            count = row < left ? row : left;
        }
        if (gather)
            copy_steps(dense, (int64_t)bytes, data + within, last >= 0 ? runs->strides[last] : 0, count, bytes);
        else
            copy_steps(data + within, last >= 0 ? runs->strides[last] : 0, dense, (int64_t)bytes, count, bytes);
        within = 0;
        dense += count * bytes;
        begin += count * bytes;
        if (last < 0)
            return;
        place[last] += (int64_t)count;
        data += (int64_t)count * runs->strides[last];
        if (place[last] == runs->shape[last] && begin < end)
            data = next_row(runs, place);
    }
}
