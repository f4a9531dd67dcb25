/* The arguments of launchers: one struct per op, read by its launchers and filled by csrc/ops/. Plain C, so that
 * the host's C compiler, nvcc and the CPU executor's compiler agree on the layout.
 *
 * A launcher is `cudaError_t launch_<op>_<name>(const struct <op>_args *, cudaStream_t)` in C++, and `int
 * launch_<op>_<name>(const struct <op>_args *)` in C for the rungs that run on the host. It enqueues and returns;
 * it never prints, exits or waits.
 *
 * All arrays are C-contiguous, aligned and in native byte order, except those of `convert` and where strides,
 * steps or pitches give the distance between elements. None is empty.
 */
#ifndef SMEMKIT_KERNELS_H
#define SMEMKIT_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* one bit each, so that an unsigned is a set of them */
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
    WORD_SUMS = INT8 | INT16 | INT32 | UINT8 | UINT16 | UINT32 | FLOAT16 | BFLOAT16 | FLOAT32, /* sums of products
                                                                                                  have 4 bytes */
    TENSOR_TYPES = FLOAT16 | BFLOAT16 | FLOAT32 | INT8 | UINT8, /* of wgmma; float32 as TF32 */
    TEXTBOOK = INT32 | INT64 | FLOAT32 | FLOAT64, /* of rungs meant to be read; more dtypes enlarge the binary */
};

/* c (batches, m, n) = a (batches, m, k) @ b (batches, k, n); k > 0. a and b are contiguous but for kernels with
 * ANY_STRIDES, which take element (i, j) of a matrix at [i * strides[0] + j * strides[1]]; an axis of length 1 has
 * the stride that it has in a contiguous matrix. */
struct matmul_args {
    const void *a, *b;
    void *c;
    void *scratch; /* if k is divided into several slices: MATMUL_MIN_PARTIAL_BYTES, or an element's size if that
                      is larger, per element of c and slice; for kernels with PARTS: matmul_parts_bytes() per
                      operand; with RESIDUES: matmul_operand_residues_bytes() per operand, and
                      matmul_c_residues_bytes(); with PIECES: matmul_pieces_bytes() */
    uint64_t scratch_bytes;
    int64_t batches, m, n, k;
    int64_t a_strides[2], b_strides[2];     /* elements, of any sign */
    int64_t a_batch_stride, b_batch_stride; /* elements from one matrix to the next; 0: the same matrix for all */
    int64_t k_per_slice;                    /* production kernels: a multiple of 32, or at least k */
    enum dtype dtype;                       /* of c */
    enum dtype operands;                    /* of a and b: the same, but for kernels with NARROW */
    int tile;                               /* `tiled` */
    int multiprocessors;                    /* kernels whose blocks stay, `pipelined_small` */
    int64_t l2_bytes;                       /* `pipelined_batch` */
    /* `matvec`, by the whole problem, of which this may be a part: b is the larger operand; the larger operand is
     * read along k, by groups of threads, and not across it */
    bool b_is_larger, along_k;
};

enum {
    MATMUL_MIN_PARTIAL_BYTES = 4,
    MATMUL_FLOAT_PARTS = 5,           /* of a float32: two float16 and three bfloat16 */
    MATMUL_MODULI = 15,               /* of kernels with RESIDUES: bytes of a float64 */
    MATMUL_MAX_SIDE = INT32_MAX - 512 /* of kernels with PARTS: m, n and k are smaller */
};

/* the number of slices of k */
static inline int64_t matmul_slice_count(const struct matmul_args *args)
{
    return (args->k + args->k_per_slice - 1) / args->k_per_slice;
}

/* Bytes of scratch memory for an operand of sides x k elements with 16 * `parts` bits each, whose rows begin at
 * multiples of 32 bytes, and for what is known about its sides, which are rows of a or columns of b: four words
 * per side, and one per strip. */
static inline uint64_t matmul_parts_bytes(int64_t matrices, int64_t sides, int64_t k, int parts)
{
    enum { GRAIN = 32, WORDS_PER_SIDE = 5, WORD = 4, ROUNDING = 1024 };

    return (uint64_t)matrices * ((uint64_t)parts * 2 * (uint64_t)(sides + GRAIN) * (uint64_t)(k + GRAIN) +
                                 WORDS_PER_SIDE * WORD * (uint64_t)sides) +
           ROUNDING;
}

/* How many of the last tiles of dmma_large are divided into quarters: those of the last wave, if their
 * quarters fit in one wave; otherwise none. */
enum { MATMUL_QUARTERS = 4 };

static inline int64_t matmul_quartered_tiles(int64_t tiles, int blocks)
{
    const int64_t last = tiles % blocks;

    return last * MATMUL_QUARTERS <= blocks ? last : 0;
}

/* The columns that tiles of wgmma_large may have instead of 256: calls F for each number. */
#define MATMUL_THIN_WIDTHS(F) F(128) F(160) F(192) F(224) F(240)

/* How C is divided into tiles: the first rows of tiles into full ones, the others into thin ones, because full
 * ones alone would leave blocks without work in their last wave. */
struct matmul_widths {
    int64_t full_rows; /* of tiles */
    int thin_columns;  /* of a tile in the other rows */
    double waves;      /* predicted time of the block with the most work, in that of a full tile */
};

/* The widths with the least predicted time: `rows` rows of tiles; n columns of C; tiles of full_columns, if they
 * are full. The full rows are a multiple of `cluster`, as `rows` is. */
static inline struct matmul_widths matmul_choose_widths(int64_t rows, int64_t n, int full_columns, int blocks,
                                                        int cluster)
{
    enum {
        TILE_COST = 35, /* of a tile besides its columns, in columns, for any k: that of A's tile; on an H200 */
        THIN_WAVES = 3, /* how many of the last waves may have thin tiles, if not all */
        GAIN = 1        /* percent, below which all tiles are full */
    };
#define MATMUL_ELEMENT(columns) columns,
    static const int widths[] = {MATMUL_THIN_WIDTHS(MATMUL_ELEMENT)};
#undef MATMUL_ELEMENT
    const int64_t right = (n + full_columns - 1) / full_columns, waves = (rows * right + blocks - 1) / blocks;
    const int64_t full_time = waves * (full_columns + TILE_COST); /* unit: the time of one column */
    int64_t least = full_time;
    struct matmul_widths best = {rows, full_columns, (double)waves};

    if (waves == 0)
        return best;
    for (int i = 0; i < (int)(sizeof widths / sizeof *widths); i++)
        for (int j = 0; j <= THIN_WAVES; j++) {
            const int64_t full_waves = j < THIN_WAVES && waves > j + 1 ? waves - 1 - j : 0;
            const int64_t full_rows = full_waves * blocks / right / cluster * cluster;
            const int64_t full_tiles = full_rows * right;
            const int64_t tiles = full_tiles + (rows - full_rows) * ((n + widths[i] - 1) / widths[i]);
            const int64_t waves_with_full = (full_tiles + blocks - 1) / blocks;
            const int64_t thin_waves = (tiles + blocks - 1) / blocks - waves_with_full;
            const int64_t time =
                waves_with_full * (full_columns + TILE_COST) + thin_waves * (widths[i] + TILE_COST);

            if (time < least && time <= full_time - full_time * GAIN / 100) {
                least = time;
                best.full_rows = full_rows;
                best.thin_columns = widths[i];
                best.waves = (double)time / (full_columns + TILE_COST);
            }
        }
    return best;
}

/* Bytes from one row of residues of an operand, along k, to the next: the TMA is fastest with whole cache lines.
 */
static inline int64_t matmul_residue_pitch(int64_t k)
{
    enum { CACHE_LINE = 128 };

    return (k + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

/* Bytes from one row of C's residues to the next. */
static inline int64_t matmul_residue_row(int64_t n)
{
    enum { PACK = 16 };

    return (n + PACK - 1) / PACK * PACK;
}

/* Bytes of scratch memory for C's residues, and for lists of its tiles, of which one has at least 128 x 128
 * elements.
 */
static inline uint64_t matmul_c_residues_bytes(int64_t matrices, int64_t m, int64_t n)
{
    enum { SIDE = 128, LISTS = 2, WORD = 4, ROUNDING = 1024 };

    return (uint64_t)matrices * (MATMUL_MODULI * (uint64_t)m * (uint64_t)matmul_residue_row(n) +
                                 LISTS * WORD * (uint64_t)(m / SIDE + 1) * (uint64_t)(n / SIDE + 1)) +
           ROUNDING;
}

/* Bytes of scratch memory for the residues of an operand, as matmul_parts_bytes(), and for a copy of its float64.
 */
static inline uint64_t matmul_operand_residues_bytes(int64_t matrices, int64_t sides, int64_t k)
{
    return matmul_parts_bytes(matrices, sides, k, sizeof(double) / 2) +
           MATMUL_MODULI * (uint64_t)(matrices * sides) * (uint64_t)matmul_residue_pitch(k);
}

/* How `stream_k` divides its work among blocks: the first tiles of C, counted through all matrices, are shared, if
 * that leaves a block fewer pairs of tiles. Each share has as many, but for the last one, which has what is left.
 */
struct matmul_shares {
    int64_t tiles, shared_tiles;
    int64_t pairs_per_tile; /* that are multiplied and added up */
    int64_t blocks;         /* with a share */
    int64_t pairs_per_block;
    bool has_pieces; /* a share begins or ends amid a tile's pairs */
};

enum {
    STREAM_K_SIDE = 128, /* of a tile of C */
    STREAM_K_DEPTH = 32, /* of a pair of tiles, along k */
    STREAM_K_BLOCKS = 2, /* at once on a multiprocessor; 8.6, 8.9 and 12.0 have shared memory for one */
    STREAM_K_PAIRS = 8,  /* at least, in a share, or a tile's if those are fewer; estimated */
    STREAM_K_GAIN = 2    /* pairs that sharing must save; estimated: what it takes to store and add pieces */
};

static inline int64_t matmul_least_share(int64_t pairs_per_tile)
{
    return pairs_per_tile < STREAM_K_PAIRS ? pairs_per_tile : STREAM_K_PAIRS;
}

static inline struct matmul_shares matmul_share(int64_t batches, int64_t m, int64_t n, int64_t k,
                                                int multiprocessors)
{
    const int64_t at_once = (int64_t)STREAM_K_BLOCKS * multiprocessors;
    const int64_t down = (m + STREAM_K_SIDE - 1) / STREAM_K_SIDE, right = (n + STREAM_K_SIDE - 1) / STREAM_K_SIDE;
    struct matmul_shares to = {.tiles = batches * down * right,
                               .pairs_per_tile = (k + STREAM_K_DEPTH - 1) / STREAM_K_DEPTH};
    const int64_t waves = to.tiles / at_once, least = matmul_least_share(to.pairs_per_tile);
    /* more than one wave's, or all: so shares are longer, and tiles have fewer pieces */
    const int64_t tiles = to.tiles - (waves > 1 ? waves - 1 : 0) * at_once, pairs = tiles * to.pairs_per_tile;
    const int64_t share = (pairs + at_once - 1) / at_once;

    to.pairs_per_block = share > least ? share : least;
    if ((tiles + at_once - 1) / at_once * to.pairs_per_tile - to.pairs_per_block < STREAM_K_GAIN)
        return to;
    to.shared_tiles = tiles;
    to.blocks = (pairs + to.pairs_per_block - 1) / to.pairs_per_block;
    to.has_pieces = to.pairs_per_block % to.pairs_per_tile != 0;
    return to;
}

/* Bytes of scratch memory for a product of this size, or a part of it: two pieces, of a tile's size, per share. */
static inline uint64_t matmul_pieces_bytes(int64_t batches, int64_t m, int64_t n, int64_t k, int multiprocessors)
{
    const struct matmul_shares all = matmul_share(batches, m, n, k, multiprocessors);
    const int64_t least = matmul_least_share(all.pairs_per_tile);
    const int64_t shares = (all.tiles * all.pairs_per_tile + least - 1) / least;
    const int64_t at_once = (int64_t)STREAM_K_BLOCKS * multiprocessors;

    return 2 * (uint64_t)(shares < at_once ? shares : at_once) * STREAM_K_SIDE * STREAM_K_SIDE * sizeof(float);
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

/* a value of an accumulator's type: `bits` for INT64 and UINT64, which wrap around the same way; otherwise re and
 * im */
struct scalar {
    uint64_t bits;
    double re, im;
};

/* How `rows`, `columns` and `small_columns` divide the work among threads; see there. It depends on shapes,
 * dtype and the number of multiprocessors alone, and therefore so do the bits of the result.
 */
struct reduce_work {
    /* element (o, j, i) of x is at index o * outer_stride + j * step + i; rows: step is 1 */
    int64_t outer_stride, step;
    int64_t chunk;  /* elements of a row that one block reads; a multiple of fold */
    int64_t splits; /* chunks per row, in [1, 65535]; if several, a block works on one row or one unit only */
    /* inter-block workspace, if splits > 1 or the kernel has COUNTERS: one zeroed counter per row or tile of
     * columns; or, `rows` only, zeroed flagged words for the partial result of each chunk of each row, else NULL
     */
    unsigned *counters;
    void *flagged_partials;
    /* rows */
    float l2_share; /* the share of x, in (0, 1], that stays in L2 until it is read again */
    int group;      /* threads per row: a power of two up to 32, or the block's 256; for short rows as many as a
                       vector has elements */
    /* rows per block that go through shared memory: whole vectors in all, and at most
     * REDUCE_SHORT_ROWS_SMEM_BYTES; 0 for longer rows. The launcher keeps the shortest rows in registers if it can
     */
    int short_rows_per_block;
    unsigned char loads_in_flight; /* vectors per thread: 4; 5 for sums of floats; 8 for float32's sum, min and max
                                      if that leaves a fuller last wave, or if there is much to read */
    bool early_trigger;            /* allow the next kernel to start as soon as all blocks of this one have */
    unsigned char words_per_partial; /* flagged words per partial result in `flagged_partials` */
    /* columns, small_columns */
    int vector;        /* columns per thread; small_columns: 1 */
    int lanes, height; /* a unit of threads: `lanes` along the columns by `height` down the rows. A block has as
                          many units as fit. REDUCE_BLOCK lanes: one vector of whole columns per thread */
    int fold;          /* rows treated as one, so that it has whole vectors; 1 if rows are not contiguous */
};

enum { REDUCE_BLOCK = 256 /* threads per block */, REDUCE_SHORT_ROWS_SMEM_BYTES = 16 << 10 };

/* Rows of at most this many elements, and at most 16 bytes, are kept in registers by `rows`. */
enum { REDUCE_MAX_ROW_IN_REGISTERS = 8 };

/* Whole columns of 2 to this many rows have a kernel for each number of rows. */
enum { REDUCE_MAX_UNROLLED_ROWS = 4 };

/* The most rows that a thread of `columns` or `small_columns` adds up: small integers are added in 32 bits. */
enum { REDUCE_MAX_ROWS_PER_THREAD = 1 << 14 };

/* out (outer, inner) = op over the n elements of x (outer, n, inner). `rows`, `columns` and `small_columns` may be
 * given x in parts, in order: `count` of the n elements from `first` on, which is a multiple of the chunk. out is
 * complete after the last part.
 */
struct reduce_args {
    const void *x;
    void *out;
    void *scratch; /* reduce_scratch_bytes() bytes, kept from one part to the next */
    int64_t outer, n, inner;
    int64_t first, count; /* 0 and n unless x is given in parts */
    enum reduce_op op;
    enum dtype dtype; /* of x */
    /* the type in which sum, prod and mean are computed. Integers and bool: INT64 or UINT64, and FLOAT64 for
     * means; floats: FLOAT32 or FLOAT64; complex: COMPLEX64 or COMPLEX128; never narrower than x. For other
     * operations it is x's dtype.
     */
    enum dtype accumulator;
    enum dtype result;        /* of out */
    double ddof;              /* var and std divide by n - ddof */
    bool has_initial;         /* sum, prod, min, max, any: one more element; always set for sums of floats */
    bool begins_with_initial; /* `rowwise`: the initial value is the first factor of a product, not the last */
    struct scalar initial;    /* of the accumulator's kind */
    int block_size, multiprocessors; /* rungs */
    struct reduce_work work;         /* `rows`, `columns`, `small_columns` */
};

enum {
    REDUCE_RUNG_STATE_BYTES = 8,    /* one number: the partial result of a rung */
    REDUCE_MAX_STATE_BYTES = 32,    /* the largest state: count, complex mean, sum of squares */
    REDUCE_FLAGGED_WORD_BYTES = 16, /* of a flagged word: up to 8 bytes of a partial result, and a flag */
    REDUCE_MAX_STATE_WORDS = 4,     /* flagged words of the largest partial result */
};

/* Bytes for the partial results of a rung: one per block of each launch that has several blocks per row. */
static inline uint64_t reduce_scratch_bytes(const struct reduce_args *args)
{
    uint64_t states = 0, rows = (uint64_t)(args->outer * args->inner), block = (uint64_t)args->block_size;
    uint64_t blocks = (uint64_t)args->n;

    if (!block) /* `atomic`: one cell per row */
        return rows * REDUCE_RUNG_STATE_BYTES;
    for (blocks = (blocks + block - 1) / block; blocks > 1; blocks = (blocks + block - 1) / block)
        states += blocks;
    return states * rows * REDUCE_RUNG_STATE_BYTES;
}

enum { MAX_BATCH_DIMENSIONS = 5 };

/* A dimension of a batch: the number of matrices, and their distance in x and in out, in elements. */
struct batch_dimension {
    int64_t count, x_stride, out_stride;
};

/* out[b][column][row] = x[b][row][column] for every matrix b of a batch; `copy` keeps x's shape. The rungs up to
 * `swizzled` get x (batches, rows, columns) and out (batches, columns, rows), both contiguous. For those above,
 * only the elements within a row of x and within a row of out are contiguous.
 */
struct transpose_args {
    const void *x;
    void *out;
    int64_t batches, rows, columns;
    int64_t x_row_stride, out_row_stride; /* elements from one row to the next, of any sign */
    int element_size;                     /* bytes: 1, 2, 4, 8, 16 */
    int tile, pad;
    int multiprocessors;                                /* `boxes` */
    int64_t full_tile_elements, spare_elements;         /* see transpose_fills_tiles */
    int batch_ndim;                                     /* number of batch dimensions; their product is batches */
    struct batch_dimension batch[MAX_BATCH_DIMENSIONS]; /* the last one is the innermost */
};

/* Whether tiles of 32 x 32 elements would be mostly full, or so few that no multiprocessor has to wait. The two
 * numbers are those of csrc/ops/transpose/thresholds.def for the device. */
static inline bool transpose_fills_tiles(const struct transpose_args *args)
{
    enum { TILE = 32 };
    const int64_t tiles = args->batches * ((args->rows + TILE - 1) / TILE) * ((args->columns + TILE - 1) / TILE);

    return tiles * args->full_tile_elements <= args->batches * args->rows * args->columns + args->spare_elements;
}

enum { MAX_DIMENSIONS = 64 };

/* An array with any strides. */
struct convert_operand {
    void *data;                      /* element 0, …, 0 */
    int64_t strides[MAX_DIMENSIONS]; /* bytes, of any sign; 0 repeats */
    enum dtype dtype;
    bool swapped; /* in the other byte order */
    bool aligned; /* every element is at a multiple of its size */
};

/* out = the elements of x, converted. Between equal dtypes all bits are kept. */
struct convert_args {
    struct convert_operand x, out;
    int64_t size;
    int ndim; /* 0: one element */
    int64_t shape[MAX_DIMENSIONS];
};

/* The ceilings of operations: reads, copies or multiplies x as fast as the machine can.
 *
 *   read  out (blocks, 256): uint32 sums of x's words, 256 threads per block
 *   copy  out = x
 *   fma   x: float32, 32 of them; out (blocks, 256): float32, see there
 *   mma   x (128 + 256, 128 bytes): the rows of a, then of b; out (blocks, 128, 256) = rounds * (a @ b^T), float32
 */
struct ceiling_args {
    const void *x;
    void *out;
    int64_t bytes; /* of x: a multiple of 16 */
    int64_t blocks, rounds;
    int loads_in_flight; /* read, copy: loads in flight per thread: 1, 2, 4 */
    enum dtype dtype;    /* mma: of x */
};

enum { CEILING_BLOCK = 256, CEILING_FMAS = 256 /* per thread and round */, CEILING_M = 128, CEILING_N = 256 };

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

/* Comparisons come last. */
enum elementwise_function {
    ELEMENTWISE_ADD, /* of BOOL: "or" */
    ELEMENTWISE_SUBTRACT,
    ELEMENTWISE_MULTIPLY, /* of BOOL: "and" */
    ELEMENTWISE_DIVIDE,   /* of FLOATING and COMPLEX */
    ELEMENTWISE_NEGATE,   /* of a */
    ELEMENTWISE_EQUAL,
    ELEMENTWISE_NOT_EQUAL,
    ELEMENTWISE_LESS,
    ELEMENTWISE_LESS_EQUAL,
    ELEMENTWISE_GREATER,
    ELEMENTWISE_GREATER_EQUAL,
    ELEMENTWISE_FUNCTIONS
};

enum { MAX_ELEMENT_BYTES = 16, ELEMENTWISE_DIMENSIONS = 6 /* the CPU device copies arguments for each thread */ };

/* out (n,), C-contiguous, = the function of a and b, in the shape that both are broadcast to. An operand that is
 * NULL is the number. Comparisons give BOOL. */
struct elementwise_args {
    const void *a, *b;
    void *out;
    int64_t n;
    int ndim;
    int64_t shape[ELEMENTWISE_DIMENSIONS], strides[2][ELEMENTWISE_DIMENSIONS]; /* bytes, of any sign; 0 repeats */
    enum dtype dtype[2]; /* of a and of b: the same, or INT64 and UINT64 to be compared */
    enum elementwise_function function;
    unsigned char number[MAX_ELEMENT_BYTES];
};

#endif
