/* What a launcher is given. One struct an op, read by its launchers and filled by csrc/ops.c; plain C, so
 * that the host's C, nvcc and the CPU executor's compiler see the same bytes.
 *
 * A launcher is `cudaError_t launch_<op>_<name>(const struct <op>_args *, cudaStream_t)` in C++, and
 * `int launch_<op>_<name>(const struct <op>_args *)` in C for the rungs that run on the host. It enqueues
 * and returns; it never prints, exits or waits.
 *
 * All arrays are C-contiguous, aligned and in native byte order, but for what `convert` reads and writes, and
 * where steps or pitches say how far apart the elements lie; none is empty.
 */
#ifndef SMEMKIT_KERNELS_H
#define SMEMKIT_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* bits, so that a set of them is an unsigned */
enum dtype {
    BOOL = 1 << 0,
    INT8 = 1 << 1,
    INT16 = 1 << 2,
    INT32 = 1 << 3,
    INT64 = 1 << 4,
    UINT8 = 1 << 5,
    UINT16 = 1 << 6,
    UINT32 = 1 << 7,
    UINT64 = 1 << 8,
    FLOAT16 = 1 << 9,
    BFLOAT16 = 1 << 10,
    FLOAT32 = 1 << 11,
    FLOAT64 = 1 << 12,
    COMPLEX64 = 1 << 13,
    COMPLEX128 = 1 << 14,

    SIGNED = INT8 | INT16 | INT32 | INT64,
    UNSIGNED = UINT8 | UINT16 | UINT32 | UINT64,
    FLOATING = FLOAT16 | BFLOAT16 | FLOAT32 | FLOAT64,
    COMPLEX = COMPLEX64 | COMPLEX128,
    REAL = BOOL | SIGNED | UNSIGNED | FLOATING,
    EVERY = REAL | COMPLEX,
    TEXTBOOK = INT32 | INT64 | FLOAT32 | FLOAT64, /* of rungs that are there to be read: each costs binary */
};

/* c (batches, m, n) = a (batches, m, k) @ b (batches, k, n); k > 0 */
struct matmul_args {
    const void *a, *b;
    void *c;
    void *scratch; /* split_k: MATMUL_SUM_BYTES, or an element's if that is more, for each partial sum */
    int64_t batches, m, n, k;
    int64_t a_step, b_step; /* elements from one matrix to the next; 0: it is the same one for all */
    int64_t k_chunk;        /* split_k: of the k products of an element of c, those that one thread adds up */
    enum dtype dtype;       /* of all three */
    int tile;
};

enum { MATMUL_SUM_BYTES = 4 };

/* split_k: partial sums of an element of c */
static inline int64_t matmul_splits(const struct matmul_args *args)
{
    return (args->k + args->k_chunk - 1) / args->k_chunk;
}

enum reduce_op {
    REDUCE_SUM,
    REDUCE_PROD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_MEAN,
    REDUCE_VAR,
    REDUCE_STD,
    REDUCE_ANY,
    REDUCE_ALL,
    REDUCE_COUNT_NONZERO,
    REDUCE_ARGMIN,
    REDUCE_ARGMAX,
    REDUCE_OPS
};

/* a value of an accumulator's type: `bits` of INT64 and UINT64, which wrap around alike; else re, and im */
struct scalar {
    uint64_t bits;
    double re, im;
};

/* How `single_pass`, `columns` and `small_columns` share the work out among threads; see there. It depends on
 * shapes, dtype and the number of multiprocessors alone, and so do the bits of the result.
 */
struct reduce_plan {
    int64_t outer_step,
        step;          /* x(o, j, i) lies o * outer_step + j * step + i elements from x; single_pass: step 1 */
    int64_t chunk;     /* of a row's n elements, those that one block reads; a multiple of fold */
    int64_t splits;    /* chunks of a row, in [1, 65535]; if several: group is 256, or the block one unit */
    unsigned *tickets; /* a zero for each row, or tile of columns, if there are several chunks; or */
    void *words;       /* single_pass: zeros for each chunk of each row, as many words as its state takes; else
                          NULL */
    /* single_pass */
    float keep;     /* the share of x, in (0, 1], that L2 has room for until it is read again */
    int group;      /* threads that share a row: a power of two up to 32, or the block's 256; as many as a vector
                       has elements, or short rows */
    int short_rows; /* 0, or how many a block has that pass through shared memory: whole vectors together, and
                       REDUCE_SHORT_BYTES at most; the launcher keeps the shortest in registers where it can */
    unsigned char in_flight;   /* vectors of a thread: 4; of sums of floats 5, and of float32's sums, least and
                                  greatest 8, where fewer of them are left over for the last round then,
                                  or there is much to read */
    bool overlaps;             /* the next launch's blocks may come as soon as this one's have */
    unsigned char state_words; /* that there is room for in `words` */
    /* columns, small_columns */
    int vector;        /* columns of a thread; small_columns: 1 */
    int lanes, height; /* threads side by side, and one below the other; a block has as many such as it has room
                          for. REDUCE_BLOCK lanes: whole columns, a vector of them a thread */
    int fold;          /* rows that are one to them, so that it is whole vectors; 1 where they lie apart */
};

enum { REDUCE_BLOCK = 256 /* threads of these */, REDUCE_SHORT_BYTES = 16 << 10 };

/* The most elements of a row that `single_pass` keeps in registers, where they are 16 bytes at most. */
enum { REDUCE_SHORTEST = 8 };

/* The most rows of whole columns that have a kernel for their number: from two on. */
enum { REDUCE_FEW_ROWS = 4 };

/* Rows of a column that `columns` and `small_columns` give a thread at most, which adds small integers in 32 bits.
 */
enum { REDUCE_MOST_ROWS = 1 << 14 };

/* out (outer, inner) = op over the n elements of x (outer, n, inner). `tree`, `single_pass` and those for columns
 * may be given x in parts, in order: `count` of the n elements from `first` on, which is a multiple of block_size,
 * or of the chunk; out is there after the last part.
 */
struct reduce_args {
    const void *x;
    void *out;
    void *scratch; /* reduce_scratch() bytes, which stay from one part to the next */
    int64_t outer, n, inner;
    int64_t first, count; /* 0 and n, where x is whole */
    enum reduce_op op;
    enum dtype dtype; /* of x */
    /* what sum, prod and mean are computed in. Integers and bool: INT64 or UINT64, and FLOAT64 for means; floats:
     * FLOAT32 or FLOAT64; complex: COMPLEX64 or COMPLEX128; never narrower than x. For the others it is x's dtype.
     */
    enum dtype accumulator;
    enum dtype result;        /* of out */
    double ddof;              /* var and std divide by n - ddof */
    bool has_initial;         /* sum, prod, min, max, any: one more element; sums of floats have one, be it 0 */
    bool begins_with_initial; /* `rowwise`: a product has it as its first factor, and not as the last */
    struct scalar initial;    /* of the accumulator's kind */
    int block_size;
    struct reduce_plan plan; /* of `single_pass`, `columns` and `small_columns` */
};

enum {
    REDUCE_STATE_BYTES = 32, /* the largest partial result: count, complex mean, sum of squares */
    REDUCE_WORD_BYTES = 16,  /* up to 8 bytes of one, and that they are there */
    REDUCE_STATE_WORDS = 4,  /* that the largest one takes */
};

/* Bytes for the partial results of a tree: one for each block of each launch, while there are several a row. */
static inline uint64_t reduce_scratch(const struct reduce_args *args)
{
    uint64_t states = 0, rows = (uint64_t)(args->outer * args->inner), block = (uint64_t)args->block_size;
    uint64_t blocks = (uint64_t)args->n;

    if (!block) /* one cell a row */
        return rows * REDUCE_STATE_BYTES;
    for (blocks = (blocks + block - 1) / block; blocks > 1; blocks = (blocks + block - 1) / block)
        states += blocks;
    return states * rows * REDUCE_STATE_BYTES;
}

enum { MAX_BATCH_DIMENSIONS = 5 };

/* A dimension of a batch: how many matrices, and how far apart they lie in x and in out, in elements. */
struct batch_dimension {
    int64_t count, x_step, out_step;
};

/* out[b][column][row] = x[b][row][column] for every matrix b of a batch; `copy` keeps x's shape. The rungs up to
 * `swizzled` are given x (batches, rows, columns) and out (batches, columns, rows), both contiguous. To those
 * above them only the elements of a row lie side by side, those of x's rows and those of out's.
 */
struct transpose_args {
    const void *x;
    void *out;
    int64_t batches, rows, columns;
    int64_t x_pitch, out_pitch; /* elements from one row to the next, of any sign */
    int element_size;           /* bytes: 1, 2, 4, 8, 16 */
    int tile, pad;
    int batch_ndim;                                     /* of those dimensions, whose product is batches */
    struct batch_dimension batch[MAX_BATCH_DIMENSIONS]; /* the last one is the innermost */
};

/* Whether tiles of 32 by 32 elements hold most of what they can, or are few: it takes as long to turn one as to
 * move half as many elements one by one, in blocks of which a GPU has room for some. */
static inline bool transpose_fills_tiles(const struct transpose_args *args)
{
    enum { TILE = 32, MOST = 576, FEW = 1 << 15 };
    const int64_t tiles = args->batches * ((args->rows + TILE - 1) / TILE) * ((args->columns + TILE - 1) / TILE);

    return tiles * MOST <= args->batches * args->rows * args->columns + FEW;
}

enum { MAX_DIMENSIONS = 64 };

/* Where the elements of an array lie. */
struct convert_side {
    void *data;                      /* element 0, …, 0 */
    int64_t strides[MAX_DIMENSIONS]; /* bytes, of any sign; 0 repeats */
    enum dtype dtype;
    bool swapped; /* in the other byte order */
    bool aligned; /* every element lies at a multiple of its size */
};

/* out = the elements of x, converted. Between equal dtypes every bit stays. */
struct convert_args {
    struct convert_side x, out;
    int64_t size;
    int ndim; /* 0: one element */
    int64_t shape[MAX_DIMENSIONS];
};

/* Not an operation, but what bounds one: x is read, copied or multiplied as fast as the machine can.
 *   read  out (blocks, 256): uint32 sums of x's words, 256 threads a block
 *   copy  out = x
 *   fma   x: float32, 32 of them; out (blocks, 256): float32, see there
 *   mma   x (128 + 256, 128 bytes): the rows of a, then of b; out (blocks, 128, 256) = rounds * (a @ b^T), float32
 */
struct ceiling_args {
    const void *x;
    void *out;
    int64_t bytes; /* of x: a multiple of 16 */
    int64_t blocks, rounds;
    int in_flight;    /* read, copy: loads of a thread under way: 1, 2, 4 */
    enum dtype dtype; /* mma: of x */
};

enum { CEILING_BLOCK = 256, CEILING_FMAS = 256 /* a thread and round */, CEILING_M = 128, CEILING_N = 256 };

/* out (n,) = x (n,), last element first */
struct reverse_args {
    const void *x;
    void *out;
    int64_t n;
    int element_size; /* bytes: 1, 2, 4, 8, 16 */
};

/* out (n,) = x (n,) + 1 */
struct add_one_args {
    const void *x;
    void *out;
    int64_t n;
    enum dtype dtype; /* not BOOL */
};

/* out (n,) = a (n,) + b (n,); of BOOL it is "or" */
struct add_args {
    const void *a, *b;
    void *out;
    int64_t n;
    enum dtype dtype; /* of all three */
};

enum comparison { COMPARE_EQUAL, COMPARE_NOT_EQUAL };

/* out (n,), BOOL, = whether a (n,) and b (n,) compare so */
struct compare_args {
    const void *a, *b;
    void *out;
    int64_t n;
    enum dtype dtype[2]; /* of a and of b: the same, or INT64 and UINT64 */
    enum comparison comparison;
};

#endif
