/* What a launcher is given. One struct an op, read by its launchers and filled by csrc/ops.c; plain C, so
 * that the host's C, nvcc and the CPU executor's compiler see the same bytes.
 *
 * A launcher is `cudaError_t launch_<op>_<name>(const struct <op>_args *, cudaStream_t)` in C++, and
 * `int launch_<op>_<name>(const struct <op>_args *)` in C for the rungs that run on the host. It enqueues
 * and returns; it never prints, exits or waits.
 */
#ifndef SMEMKIT_KERNELS_H
#define SMEMKIT_KERNELS_H

#include <stdint.h>

enum dtype { FLOAT32 = 1 << 0, FLOAT64 = 1 << 1, INT32 = 1 << 2, INT64 = 1 << 3 };

enum reduce_op { REDUCE_SUM, REDUCE_MIN, REDUCE_MAX };

/* c (m, n) = a (m, k) @ b (k, n), row-major */
struct matmul_args {
    const void *a, *b;
    void *c;
    int64_t m, n, k;
    enum dtype dtype;
    int tile;
};

/* out () = op over x (n,), n > 0; scratch holds the partial results, of the accumulator's type */
struct reduce_args {
    const void *x;
    void *out;
    void *scratch; /* 16 * (n / block_size + 1) bytes */
    int64_t n;
    enum reduce_op op;
    enum dtype dtype, accumulator, result;
    int block_size;
};

/* out (columns, rows) = x (rows, columns) turned, both row-major; `copy` keeps x's shape */
struct transpose_args {
    const void *x;
    void *out;
    int64_t rows, columns;
    int element_size; /* bytes */
    int tile, pad;
};

/* out (n,) = x (n,), last element first */
struct reverse_args {
    const void *x;
    void *out;
    int64_t n;
    int element_size; /* bytes */
};

/* out (n,) = x (n,) + 1 */
struct add_one_args {
    const void *x;
    void *out;
    int64_t n;
    enum dtype dtype;
};

#endif
