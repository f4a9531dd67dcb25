/* The reductions (sum, min, var, argmax, ...) over any axes. */
#include "smemkit.h"

#include <math.h>
#include <string.h>

/* A reduction of (outer, n, inner) elements along the second axis. */
struct extent {
    int64_t outer, n, inner;
};

static bool kernel_is(const struct kernel_row *row, const char *name)
{
    return strcmp(row->name, name) == 0;
}

/* Whether it is one of the kernels that kernel=None takes, which need a work split. */
static bool is_default_kernel(const struct kernel_row *row)
{
    return kernel_is(row, "single_pass") || kernel_is(row, "columns") || kernel_is(row, "small_columns");
}

static enum dtype real_dtype(enum dtype dtype)
{
    return dtype == COMPLEX64 ? FLOAT32 : dtype == COMPLEX128 ? FLOAT64 : dtype;
}

/* The accumulator of a sum. kernel=None adds in double precision: the error is half an ulp plus n * 2^-53 of the
 * sum of |x|. A named rung adds in single precision if x has no more, except memory-bound rungs, where double
 * costs nothing. */
static enum dtype sum_accumulator_dtype(enum dtype dtype, bool widest)
{
    if (dtype & UNSIGNED)
        return UINT64;
    if (dtype & (BOOL | SIGNED))
        return INT64;
    if (dtype & COMPLEX)
        return widest || dtype == COMPLEX128 ? COMPLEX128 : COMPLEX64;
    return widest || dtype == FLOAT64 ? FLOAT64 : FLOAT32;
}

/* The dtypes of sum, prod and mean; `asked` is 0 or the dtype that elements are cast to first. */
static void choose_sum_dtypes(struct call *call, enum dtype asked, struct reduce_args *args)
{
    const enum dtype in = call->in[0].dtype, integers = BOOL | SIGNED | UNSIGNED;
    const bool widest = call->kernel.chosen || is_default_kernel(call->kernel.row);
    const bool as_accumulated =
        widest && ((in & FLOATING && asked == FLOAT64) || (in & COMPLEX && asked == COMPLEX128));

    if (asked == BOOL && args->op == REDUCE_SUM) { /* the sum of bools is their "or" */
        args->op = REDUCE_ANY;
        args->result = BOOL;
        return;
    }
    if (args->op == REDUCE_MEAN && in & integers && (!asked || asked == FLOAT64)) {
        args->accumulator = args->result = FLOAT64;
        return;
    }
    if (asked && !as_accumulated && !(in & integers && asked & (SIGNED | UNSIGNED) && args->op != REDUCE_MEAN))
        /* wrapping at the end is the same as wrapping at each step */
        call->dtype[0] = asked;
    args->accumulator = sum_accumulator_dtype(call->dtype[0], widest);
    args->result = asked ? asked : in & (BOOL | SIGNED) ? INT64 : in & UNSIGNED ? UINT64 : in;
}

/* The dtype of `out`: a new reference. NULL if there is no out, or no array; the latter is refused later. */
static PyArray_Descr *get_out_descr(const struct module_state *state, PyObject *out)
{
    struct operand other = {NULL};
    PyArray_Descr *descr = NULL;

    if (PyArray_Check(out))
        descr = PyArray_DESCR((PyArrayObject *)out);
    else if (Py_IS_TYPE(out, state->array_type))
        descr = ((struct array *)out)->descr;
    else if (out != Py_None && read_foreign(state, out, "out", Py_None, &other) > 0)
        descr = other.descr;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    Py_XINCREF(descr);
    drop_operand(&other);
    return descr;
}

/* The promoted dtype of the elements and `out`; 0 if there is none, no out, or one that cannot hold the result.
 */
static enum dtype dtype_with_out(const struct operand *x, PyArray_Descr *out)
{
    int type_num;
    enum dtype dtype = out && dtype_of(out) ? dtype_promoted(x->descr, out, &type_num) : 0;

    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    return dtype && dtype_casts(dtype, dtype_of(out)) ? dtype : 0;
}

/* NumPy adds up a mean in the requested dtype, and divides in out's. */
static bool divides_in_out_dtype(enum dtype asked, const PyArray_Descr *out)
{
    return asked & (BOOL | SIGNED | UNSIGNED) && out && dtype_of(out) & (FLOATING | COMPLEX);
}

static bool choose_reduce_dtypes(struct call *call, const char *op, PyObject *dtype, PyArray_Descr *out,
                                 struct reduce_args *args)
{
    static const unsigned variance = FLOATING | COMPLEX;
    enum dtype asked = 0, with_out;
    int unused;

    call->type_num = call->in[0].descr->type_num;
    switch (args->op) {
    case REDUCE_SUM:
    case REDUCE_PROD:
    case REDUCE_MEAN:
        if (args->op != REDUCE_MEAN || call->in[0].dtype & variance)
            asked = dtype_with_out(&call->in[0], out); /* as NumPy does, which adds up in out's dtype */
        if (!(call->in[0].dtype & COMPLEX))
            asked = real_dtype(asked);
        if (PyErr_Occurred() || !read_dtype(dtype, EVERY, &asked, &call->type_num))
            return false;
        choose_sum_dtypes(call, asked, args);
        if (args->op == REDUCE_MEAN && divides_in_out_dtype(asked, out))
            args->result = FLOAT64;
        break;
    case REDUCE_VAR:
    case REDUCE_STD:
        if (!read_dtype(dtype, variance, &asked, &unused))
            return false;
        if (asked && !(asked == FLOAT64 && call->in[0].dtype & ~variance))
            call->dtype[0] = asked;
        args->result = asked ? asked : call->in[0].dtype & ~variance ? FLOAT64 : real_dtype(call->in[0].dtype);
        with_out = asked ? 0 : dtype_with_out(&call->in[0], out);
        if (with_out & FLOATING && args->result & FLOATING) /* it is computed in double anyway */
            args->result = with_out;
        break;
    case REDUCE_MIN:
    case REDUCE_MAX:
        if (args->has_initial) /* converted to out's dtype, not x's */
            asked = dtype_with_out(&call->in[0], out) & call->kernel.row->dtypes;
        if (PyErr_Occurred() || !read_dtype(dtype, EVERY, &asked, &call->type_num))
            return false;
        call->dtype[0] = args->result = asked ? asked : call->in[0].dtype;
        break;
    default:
        if (!read_none(dtype, "dtype", op))
            return false;
        args->result = args->op == REDUCE_ANY || args->op == REDUCE_ALL ? BOOL : INT64;
        call->type_num = NPY_NOTYPE;
    }
    args->dtype = call->dtype[0];
    if (!args->accumulator)
        args->accumulator = args->dtype;
    return warn_complex(call->in[0].dtype, asked ? asked : call->in[0].dtype);
}

/* ---- the work split: all thresholds, fitted to an H200 by measurements of random problems ---- */

enum {
    VECTOR_BYTES = 16,      /* one load */
    CACHE_LINE_VECTORS = 8, /* a chunk is a multiple of a cache line of this many vectors */
    WARP = 32,

    /* blocks per multiprocessor */
    FEW_BLOCKS = 2,      /* enough to keep it busy */
    RESIDENT_BLOCKS = 4, /* as many as fit at the same time */
    MANY_BLOCKS = 8,     /* from here on there is much to read */
    MAX_ROW_BLOCKS = 12, /* when rows are split: some blocks wait, so that no multiprocessor is idle at the end */
    MAX_COLUMN_BLOCKS = 4, /* the same for columns, where the last block has more to combine */

    /* splitting a row, or a tile of columns: bytes per chunk */
    MAX_UNSPLIT_BYTES =
        64 << 10,        /* up to this size one block reads it all: synchronising blocks costs a microsecond */
    MIN_CHUNK = 4 << 10, /* at least, while one warp of the last block can wait for all others */
    MIN_FEW_BLOCKS_CHUNK = 16 << 10, /* at least, while there are few blocks */
    MIN_SINGLE_ROW_CHUNK =
        12 << 10, /* at least, to give a single row the same number of blocks on all multiprocessors */
    MIN_MANY_BLOCKS_CHUNK = 128 << 10, /* while there are not too many blocks */
    MAX_CHUNK = 4 << 20,               /* at most, if rows are split at all */
    MAX_SPLITS = 65535,                /* chunks per row: the grid's y */

    /* rows in single_pass: threads per row */
    MAX_SHORT_ROW_VECTORS = 32,       /* rows up to this length go through shared memory, if there are many */
    SHORT_ROW_BYTES_PER_THREAD = 128, /* of such a row */
    MAX_WARP_ROW_VECTORS =
        1024, /* rows up to this length get a warp or less, if there are WARP_ROWS per multiprocessor */
    WARP_ROWS = 16,
    MIN_ROW_THREADS = 8,     /* of these; more, */
    MAX_THREAD_VECTORS = 10, /* while a thread has more vectors than this, */
    MIN_SM_THREADS = 2048,   /* or a multiprocessor has fewer threads than this */
    MAX_FEW_ROWS_WARP_VECTORS =
        256, /* up to this length a row gets a warp also with few rows, at least one per multiprocessor */
    MAX_HALF_WARP_ROWS_VECTORS = 6 * REDUCE_BLOCK, /* rows that would leave a block's threads idle get a warp each:
                                                     up to this length if there are half of WARP_ROWS, */
    MAX_LONG_WARP_ROW_VECTORS = 16 * REDUCE_BLOCK, /* up to this length if there are WARP_ROWS */

    /* loads in flight per thread of single_pass */
    IN_FLIGHT = 4,                /* or one more, where that saves a round of loads */
    MAX_IN_FLIGHT = 8,            /* software-pipelined, */
    PIPELINE_GAIN = 2,            /* which makes the last round cheaper by this many loads; */
    MIN_LONG_THREAD_VECTORS = 64, /* always, if a thread has this many vectors */
    MAX_WARP_ROUNDS = 4,          /* a warp's rows take one more load in flight only below this many rounds */

    /* columns: tiles and whole columns */
    WIDE_TILE = 32,        /* vectors per tile of columns, if that gives enough tiles for all multiprocessors */
    MAX_ROW_TILE = 80,     /* rows of up to this many vectors are one tile */
    NARROW_TILE = 8,       /* vectors per tile otherwise: rows are split, and a wide tile has more to combine */
    MAX_FOLD_VECTORS = 64, /* of folded rows */
    MIN_THREAD_ROWS = 8,   /* of `columns` */
    MIN_WHOLE_COLUMN_THREADS = 384, /* per multiprocessor: enough for one thread per vector of whole columns; */
    MIN_UNROLLED_THREADS = 12,      /* the same, if there is a kernel for this number of rows */
    MAX_TILED_COLUMNS = 512,        /* up to this many columns, tiles are better than whole columns */
    MIN_TILED_ROWS = 512,           /* from this many rows on, */
    MIN_UNALIGNED_TILED_ROWS = 256, /* or from this many, if rows are unaligned */

    /* when small_columns takes a column problem */
    MAX_SMALL_COLUMNS_ELEMENTS = 16 << 20, /* up to this many elements, */
    FEW_ROWS = 8,                          /* except whole columns of no more rows than this, */
    WORD_BYTES = 4,                        /* or of elements smaller than this; */
    MAX_NARROW_COLUMNS = 8,                /* any number of elements in rows no longer than this, */
    MIN_MANY_NARROW_ROWS = 50,             /* or no longer than a warp with at least this many rows, */
    MIN_NARROW_COLUMNS_PER_SM = 128,       /* if there are this many columns per multiprocessor */

    /* when small_columns takes a row problem: one element per thread */
    MIN_ELEMENT_LOAD_ROWS = 12,       /* at least this many rows, */
    MAX_FEW_ROWS_BYTES = 2 << 10,     /* or fewer unaligned ones of at most this many bytes; */
    MAX_SHORT_ROWS = 32 << 10,        /* at most this many short rows, */
    MAX_UNALIGNED_ELEMENTS = 1 << 20, /* or this many elements in unaligned rows, */
    LONG_ROW = 1024,                  /* which are no longer than this if elements are smaller than a word; */
    MIN_UNALIGNED_ROW_BYTES = 1024,   /* or any number of unaligned rows of words with at least this many bytes */
    MAX_UNALIGNED_ROW = 32 << 10,     /* and at most this many elements */
    MIN_SUBWORD_REGISTER_ROWS = 8 << 10, /* rows of small elements stay in registers if there are more than this */
    MAX_ROWWISE_ELEMENTS = 3,            /* rows of up to this length go to rowwise */

    /* small_columns: threads per tile */
    MIN_BLOCK_THREADS = 64,
    MIN_SMALL_COLUMN_ROWS = 4,       /* per thread, before more threads share a column */
    MIN_FULL_BLOCK_THREADS_Y = 8,    /* below this height, blocks get no more threads than needed */
    ROWS_IN_FLIGHT = 16,             /* rows in flight per thread, */
    BYTES_IN_FLIGHT = 64,            /* or bytes, for elements larger than a word */
    MAX_ROUNDS = 3,                  /* with more such rounds tiles become narrower, if all blocks still fit; */
    MAX_UNSPLIT_ROUNDS = 6,          /* with more, rows are split, */
    MAX_TILE_ELEMENTS = 40000,       /* as they are with more elements in a narrow tile */
    MIN_SPLIT_THREAD_ROWS = 16,      /* at least, per thread, when rows are split */
    MIN_SPLIT_WIDE_COLUMNS = 128,    /* from this many columns on, tiles of split rows are twice as wide */
    MIN_FOLDED_THREAD_ROWS = 32,     /* at least, per thread, before a warp spans several narrow rows */
    NARROW_TILE_COLUMNS = 8,         /* columns of a narrow tile: a sector of words */
    MAX_SCATTERED_ELEMENTS = 400000, /* tiles become even narrower only up to this many elements in all */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t ceil_div(int64_t n, int64_t d)
{
    return (n + d - 1) / d;
}

/* The number of chunks per row (or tile of columns) of `bytes` bytes, to give each multiprocessor few_blocks
 * blocks if chunks are small, and up to many_blocks. */
static int64_t choose_splits(const struct device *device, int64_t rows, int64_t bytes, int few_blocks,
                             int many_blocks)
{
    const int64_t few = ceil_div(few_blocks * device->multiprocessors, rows);
    const int64_t many = many_blocks * device->multiprocessors / rows;
    int64_t splits = most(least(bytes / MIN_CHUNK, least(few, WARP)), least(bytes / MIN_FEW_BLOCKS_CHUNK, few));

    if (bytes <= MAX_UNSPLIT_BYTES)
        return 1;
    splits = most(splits, least(bytes / MIN_MANY_BLOCKS_CHUNK, many));
    if (many > 1)
        splits = most(splits, bytes / MAX_CHUNK);
    return most(1, least(splits, MAX_SPLITS));
}

/* The share of `bytes` bytes that should stay in L2 for the next read: all if they fit, otherwise what leaves
 * enough of L2 for streaming the rest. */
static float l2_share(const struct device *device, int64_t bytes)
{
    const int64_t l2 = (int64_t)device->l2_bytes;

    return !l2 || bytes <= l2 / 5 * 4 ? 1.0f : (float)((double)(l2 / 3) / (double)bytes);
}

static int next_power_of_two(int64_t n)
{
    int power = 1;

    while (power < n)
        power *= 2;
    return power;
}

/* Rows that go through shared memory: as many per block as fit, or fewer, so that each multiprocessor gets
 * FEW_BLOCKS; a block starts at a multiple of a vector. */
static void assign_short_rows(const struct device *device, int64_t rows, int64_t bytes, int per_vector,
                              struct reduce_work *work)
{
    const int64_t share = ceil_div(rows, FEW_BLOCKS * device->multiprocessors);

    work->group = next_power_of_two(least(32, ceil_div(bytes, SHORT_ROW_BYTES_PER_THREAD)));
    work->short_rows_per_block =
        (int)least(ceil_div(share, per_vector), REDUCE_SHORT_ROWS_SMEM_BYTES / bytes / per_vector) * per_vector;
}

/* Whether a partial result fits into 8 bytes in the launcher: one number, without index or compensation. */
static bool state_fits_word(const struct reduce_args *args)
{
    switch (args->op) {
    case REDUCE_SUM:
    case REDUCE_MEAN:
        if (args->dtype & (INT64 | UINT64))
            return args->accumulator != FLOAT64;
        return !(args->dtype & (FLOAT64 | COMPLEX)) &&
               !(args->dtype & FLOATING && args->result & (FLOAT64 | COMPLEX128));
    case REDUCE_PROD:
    case REDUCE_MIN:
    case REDUCE_MAX:
        return !(args->dtype & COMPLEX);
    case REDUCE_ANY:
    case REDUCE_ALL:
    case REDUCE_COUNT_NONZERO:
        return true;
    default:
        return false;
    }
}

static bool is_sum(const struct reduce_args *args)
{
    return args->op == REDUCE_SUM || args->op == REDUCE_MEAN;
}

static bool is_min_or_max(const struct reduce_args *args)
{
    return args->op == REDUCE_MIN || args->op == REDUCE_MAX;
}

/* Whether results have x's dtype, so that a launcher can store them as vectors. */
static bool result_has_x_dtype(const struct reduce_args *args)
{
    return (is_min_or_max(args) || (is_sum(args) && args->dtype & (FLOATING | INT64 | UINT64))) &&
           args->result == args->dtype;
}

/* Whether single_pass keeps rows in registers if their layout allows it; otherwise they are short rows. */
static bool rows_fit_in_registers(const struct extent *extent, const struct reduce_args *args)
{
    return extent->n <= REDUCE_MAX_ROW_IN_REGISTERS && extent->n * dtype_bytes(args->dtype) <= VECTOR_BYTES &&
           result_has_x_dtype(args);
}

/* Whether one more load in flight saves a thread with this many vectors a round of loads. */
static bool extra_load_saves_round(int64_t vectors)
{
    const int64_t rounds = ceil_div(vectors, IN_FLIGHT);

    return rounds < MAX_WARP_ROUNDS && ceil_div(vectors, IN_FLIGHT + 1) < rounds;
}

static bool is_double_sum(const struct reduce_args *args)
{
    return is_sum(args) && args->dtype == FLOAT64;
}

static bool needs_index_or_variance_state(enum reduce_op op)
{
    return op == REDUCE_VAR || op == REDUCE_STD || op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
}

/* The loads in flight per thread for rows of a block each: the number, among those that the launcher has kernels
 * for, that fills the last round best; the largest only where blocks wait for slots. *slots becomes the time in
 * loads per thread. */
static int choose_loads_in_flight(const struct device *device, const struct reduce_args *args, int64_t rows,
                                  int64_t vectors, int64_t *slots)
{
    const int64_t each = ceil_div(vectors, REDUCE_BLOCK);
    const bool sum = is_sum(args) && args->dtype & FLOATING && state_fits_word(args);
    int in_flight = IN_FLIGHT;

    *slots = ceil_div(each, IN_FLIGHT) * IN_FLIGHT;
    if (sum && ceil_div(each, IN_FLIGHT + 1) * (IN_FLIGHT + 1) <= *slots) {
        in_flight = IN_FLIGHT + 1;
        *slots = ceil_div(each, in_flight) * in_flight;
    }
    if (rows > RESIDENT_BLOCKS * (int64_t)device->multiprocessors && args->dtype == FLOAT32 &&
        (sum || is_min_or_max(args)) &&
        (each >= MIN_LONG_THREAD_VECTORS ||
         ceil_div(each, MAX_IN_FLIGHT) * MAX_IN_FLIGHT - PIPELINE_GAIN <= *slots)) {
        in_flight = MAX_IN_FLIGHT;
        *slots = ceil_div(each, in_flight) * in_flight - PIPELINE_GAIN;
    }
    return in_flight;
}

/* Whether each of many rows gets a warp although it is long: if a fifth of a block's loads would be idle, or its
 * states take long to combine. */
static bool prefers_warp_per_row(const struct device *device, const struct reduce_args *args, int64_t rows,
                                 int64_t vectors)
{
    const int64_t enough = WARP_ROWS * (int64_t)device->multiprocessors;
    int64_t slots;

    if (rows < (vectors <= MAX_HALF_WARP_ROWS_VECTORS ? enough / 2 : enough) || vectors <= MAX_WARP_ROW_VECTORS ||
        vectors > MAX_LONG_WARP_ROW_VECTORS)
        return false;
    choose_loads_in_flight(device, args, rows, vectors, &slots);
    return needs_index_or_variance_state(args->op) || 5 * vectors < 4 * slots * REDUCE_BLOCK;
}

/* The minimum number of chunks of a single row, so that all multiprocessors get the same number of blocks:
 * FEW_BLOCKS, or as many as fit if combining states takes long. 0 if the row is too short. */
static int64_t balanced_splits(const struct device *device, const struct reduce_args *args, int64_t bytes)
{
    const int blocks = is_double_sum(args) ? RESIDENT_BLOCKS : state_fits_word(args) ? FEW_BLOCKS : 0;
    const int64_t splits = blocks * (int64_t)device->multiprocessors;

    return bytes >= splits * MIN_SINGLE_ROW_CHUNK ? splits : 0;
}

/* Whether blocks occupy (nearly) all slots of all multiprocessors. */
static bool fills_all_multiprocessors(const struct device *device, int64_t blocks)
{
    return 64 * blocks >= 63 * RESIDENT_BLOCKS * (int64_t)device->multiprocessors;
}

/* Rows of one or more blocks. The next kernel may start early if there are as many free slots everywhere, or none;
 * otherwise its blocks would pile up on a few multiprocessors. */
static void split_rows(const struct device *device, const struct extent *extent, const struct reduce_args *args,
                       struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype), per_vector = VECTOR_BYTES / element;
    const int64_t rows = extent->outer * extent->inner, bytes = extent->n * element;
    const int64_t sms = device->multiprocessors;
    int64_t splits = choose_splits(device, rows, bytes, state_fits_word(args) ? 1 : FEW_BLOCKS, MAX_ROW_BLOCKS),
            blocks, slots;

    if (rows == 1)
        splits = most(splits, balanced_splits(device, args, bytes));
    work->group = REDUCE_BLOCK;
    work->chunk = ceil_div(ceil_div(extent->n, per_vector), splits);
    work->chunk = ceil_div(work->chunk, CACHE_LINE_VECTORS) * CACHE_LINE_VECTORS * per_vector;
    work->splits = ceil_div(extent->n, work->chunk);
    blocks = rows * work->splits;
    if (work->splits == 1)
        work->loads_in_flight =
            choose_loads_in_flight(device, args, rows, ceil_div(extent->n, per_vector), &slots);
    else if (blocks >= MANY_BLOCKS * sms)
        work->loads_in_flight = MAX_IN_FLIGHT;
    work->early_trigger = work->splits > 1 && (state_fits_word(args) || is_double_sum(args)) &&
                          (blocks <= FEW_BLOCKS * sms || fills_all_multiprocessors(device, blocks));
}

static void choose_row_split(const struct device *device, const struct extent *extent,
                             const struct reduce_args *args, struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype), per_vector = VECTOR_BYTES / element;
    const int64_t rows = extent->outer * extent->inner, vectors = ceil_div(extent->n, per_vector);
    const int64_t bytes = extent->n * element;
    const bool many = rows >= WARP_ROWS * device->multiprocessors;

    work->splits = 1;
    work->chunk = extent->n;
    work->loads_in_flight = IN_FLIGHT;
    work->l2_share = l2_share(device, rows * bytes);
    if (rows_fit_in_registers(extent, args) ||
        (many && (vectors <= MAX_SHORT_ROW_VECTORS ||
                  (extent->n % per_vector && per_vector * bytes <= REDUCE_SHORT_ROWS_SMEM_BYTES)))) {
        assign_short_rows(device, rows, bytes, per_vector, work);
    } else if (many && vectors <= MAX_WARP_ROW_VECTORS) {
        work->group = (int)most(MIN_ROW_THREADS, per_vector);
        while (work->group < 32 && (vectors > work->group * MAX_THREAD_VECTORS ||
                                    rows * work->group < MIN_SM_THREADS * device->multiprocessors))
            work->group *= 2;
        work->loads_in_flight += extra_load_saves_round(ceil_div(vectors, work->group));
    } else if (prefers_warp_per_row(device, args, rows, vectors)) {
        work->group = WARP;
    } else if (vectors <= MAX_SHORT_ROW_VECTORS) {
        work->group = next_power_of_two(most(vectors, per_vector));
    } else if (vectors <= MAX_FEW_ROWS_WARP_VECTORS && rows >= device->multiprocessors) {
        work->group = 32;
    } else {
        split_rows(device, extent, args, work);
    }
}

/* Columns per thread, as in the launcher: as many as its registers can hold states for. */
static int choose_columns_per_thread(const struct reduce_args *args, int element)
{
    const enum reduce_op op = args->op;
    const bool variance = op == REDUCE_VAR || op == REDUCE_STD, index = op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    const bool compensated =
        is_sum(args) && args->dtype & (FLOATING | COMPLEX) && args->result & (FLOAT64 | COMPLEX128);
    const int bytes = (variance ? 2 : index || compensated ? 4 : VECTOR_BYTES) * element;

    return (bytes < 4 ? 4 : bytes > VECTOR_BYTES ? VECTOR_BYTES : bytes) / element;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* The number of chunks into which rows of small columns are split, with tiles of one load's width; 1, and the tile
 * unchanged, if there are enough blocks or too few rows. */
static int64_t split_small_columns(const struct extent *extent, int64_t room, int64_t *lanes, int64_t *height)
{
    const int64_t wide = least(extent->inner, extent->inner < MIN_SPLIT_WIDE_COLUMNS ? NARROW_TILE_COLUMNS
                                                                                     : 2 * NARROW_TILE_COLUMNS);
    const int64_t units = extent->outer * ceil_div(extent->inner, wide), deep = REDUCE_BLOCK / wide;
    const int64_t splits = least(room / units, extent->n / (deep * MIN_SPLIT_THREAD_ROWS));

    if (splits <= 1)
        return 1;
    *lanes = wide;
    *height = deep;
    return splits;
}

/* One thread per column, and several threads that share a column, in blocks such that each multiprocessor gets
 * one. Tiles become narrower, and more numerous, if threads would have many rows; narrow tiles waste part of each
 * sector, which is limited. If that is not enough, rows are split. */
static void choose_small_column_split(const struct device *device, const struct extent *extent,
                                      const struct reduce_args *args, struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype);
    const int64_t n = extent->n, inner = extent->inner, columns = extent->outer * inner;
    const int64_t narrow = least(NARROW_TILE_COLUMNS, inner), narrowest = inner > 2 * WARP ? 2 : 1;
    const int64_t sms = device->multiprocessors,
                  round = element > WORD_BYTES ? BYTES_IN_FLIGHT / element : ROWS_IN_FLIGHT;
    const int64_t room =
        sms *
        (needs_index_or_variance_state(args->op) || args->dtype & COMPLEX ? RESIDENT_BLOCKS - 1 : RESIDENT_BLOCKS);
    int64_t height = 1, splits = 1, threads, lanes, tiles;

    while (2 * height * MIN_SMALL_COLUMN_ROWS <= n && height < REDUCE_BLOCK)
        height *= 2;
    threads = columns * height / sms * (height < MIN_FULL_BLOCK_THREADS_Y ? 1 : RESIDENT_BLOCKS);
    threads = most(MIN_BLOCK_THREADS, most(height, next_power_of_two(least(threads, REDUCE_BLOCK))));
    lanes = most(next_power_of_two(least(ceil_div(columns, sms), threads)), threads / height);
    while (lanes < narrowest || (lanes < narrow && columns * n / lanes > MAX_SCATTERED_ELEMENTS))
        lanes *= 2;
    while (lanes > narrow && n * lanes > MAX_ROUNDS * round * threads && ceil_div(columns, lanes / 2) <= room)
        lanes /= 2;
    height = threads / lanes;
    if (n > MAX_UNSPLIT_ROUNDS * round * height || n * narrow > MAX_TILE_ELEMENTS)
        splits = split_small_columns(extent, room, &lanes, &height);
    height = most(height, least(ceil_div(WARP, inner), n / MIN_FOLDED_THREAD_ROWS));
    tiles = ceil_div(inner, lanes);
    if (tiles == 1)
        lanes = inner;
    else /* all tiles equally wide, in whole warps */
        lanes = least(lanes, ceil_div(ceil_div(inner, tiles), WARP) * WARP);
    splits = most(splits, ceil_div(n, height * REDUCE_MAX_ROWS_PER_THREAD));
    work->vector = work->fold = 1;
    work->lanes = (int)lanes;
    work->height = (int)height;
    work->chunk = splits == 1 ? n : ceil_div(ceil_div(n, splits), height) * height;
    work->splits = ceil_div(n, work->chunk);
}

static void assign_whole_columns(const struct extent *extent, struct reduce_work *work)
{
    work->lanes = REDUCE_BLOCK;
    work->height = work->fold = 1;
    work->chunk = extent->n;
    work->splits = 1;
}

/* Tiles of columns by vectors; `fold` rows are treated as one. */
static void assign_column_tiles(const struct device *device, const struct extent *extent, int element,
                                int64_t fold, struct reduce_work *work)
{
    const int vector = work->vector;
    const int64_t vectors = ceil_div(extent->inner, vector), rows = extent->n / fold;
    int64_t lanes = vectors <= MAX_ROW_TILE ? MAX_ROW_TILE : WIDE_TILE, tiles = 1, splits = 1;

    if (fold > 1) {
        lanes = fold * extent->inner / vector;
    } else {
        while (lanes > NARROW_TILE && 2 * extent->outer * ceil_div(vectors, lanes) < device->multiprocessors)
            lanes /= 2;
        lanes = ceil_div(vectors, ceil_div(vectors, lanes));
        tiles = ceil_div(vectors, lanes);
    }
    work->fold = (int)fold;
    work->lanes = (int)lanes;
    work->height = (int)most(1, least(REDUCE_BLOCK / lanes, rows / MIN_THREAD_ROWS));
    if (REDUCE_BLOCK / (work->lanes * work->height) == 1)
        splits = most(choose_splits(device, extent->outer * tiles, rows * lanes * vector * element, FEW_BLOCKS,
                                    MAX_COLUMN_BLOCKS),
                      ceil_div(rows, (int64_t)work->height * REDUCE_MAX_ROWS_PER_THREAD));
    if (splits == 1) /* rounded up to whole folds */
        work->chunk = ceil_div(extent->n, fold) * fold;
    else
        work->chunk = ceil_div(ceil_div(rows, splits), work->height) * work->height * fold;
    work->splits = ceil_div(extent->n, work->chunk);
}

/* How many rows to fold into one, so that it consists of whole vectors; 1 if that is not possible. */
static int64_t choose_fold(const struct extent *extent, int vector)
{
    const int64_t fold = vector / gcd(vector, extent->inner);

    return fold * extent->inner / vector <= MAX_FOLD_VECTORS && fold <= extent->n ? fold : 1;
}

/* Whether each thread should have whole columns: there are enough vectors for all threads, or fewer if there is a
 * kernel for this number of rows, and rows need no folding. Many rows are better done in tiles if they are narrow
 * or unaligned. */
static bool prefers_whole_columns(const struct device *device, const struct extent *extent,
                                  const struct reduce_args *args, int vector)
{
    const bool few = 1 < extent->n && extent->n <= REDUCE_MAX_UNROLLED_ROWS && extent->inner % vector == 0 &&
                     result_has_x_dtype(args);
    const int64_t enough = few ? MIN_UNROLLED_THREADS : MIN_WHOLE_COLUMN_THREADS;
    const int64_t vectors = ceil_div(extent->inner, vector);
    const bool deep = extent->inner % vector ? extent->n >= MIN_UNALIGNED_TILED_ROWS
                                             : extent->n >= MIN_TILED_ROWS && extent->inner <= MAX_TILED_COLUMNS;

    return choose_fold(extent, vector) == 1 && extent->n <= REDUCE_MAX_ROWS_PER_THREAD && !deep &&
           extent->outer * vectors >= enough * (int64_t)device->multiprocessors;
}

static void choose_column_split(const struct device *device, const struct extent *extent,
                                const struct reduce_args *args, int vector, struct reduce_work *work)
{
    work->vector = vector;
    if (prefers_whole_columns(device, extent, args, vector))
        assign_whole_columns(extent, work);
    else
        assign_column_tiles(device, extent, dtype_bytes(args->dtype), choose_fold(extent, vector), work);
}

/* Whether there are enough columns for all threads in very narrow rows. Long columns are better read by several
 * threads each. */
static bool has_enough_narrow_columns(const struct device *device, const struct extent *extent)
{
    return extent->inner <= (extent->n < MIN_MANY_NARROW_ROWS ? MAX_NARROW_COLUMNS : WARP) &&
           extent->outer * extent->inner >= MIN_NARROW_COLUMNS_PER_SM * (int64_t)device->multiprocessors;
}

/* Whether a thread should have one column and not a vector of columns: vectors give fewer threads, and take two
 * loads where rows are unaligned. */
static bool prefers_small_columns(const struct device *device, const struct extent *extent,
                                  const struct reduce_args *args, int vector)
{
    const bool loads_once =
        extent->inner % vector == 0 || extent->n <= FEW_ROWS || dtype_bytes(args->dtype) < WORD_BYTES;

    if (extent->outer * extent->n * extent->inner > MAX_SMALL_COLUMNS_ELEMENTS)
        return extent->n > FEW_ROWS && has_enough_narrow_columns(device, extent);
    return !(loads_once && prefers_whole_columns(device, extent, args, vector));
}

/* Whether rows are best kept in registers: the shorter the rows, the more of them a thread has. */
static bool prefers_registers(const struct extent *extent, const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);

    return rows_fit_in_registers(extent, args) && extent->n <= 2 * element &&
           (element >= WORD_BYTES || extent->outer > MIN_SUBWORD_REGISTER_ROWS);
}

/* Whether rows should be read one element per thread: very short rows, if there are not too many, and longer
 * unaligned ones, which take two loads by vectors: if they are small, or words in a warp's threads, unless
 * combining takes long. */
static bool prefers_element_loads(const struct extent *extent, const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);
    const int64_t bytes = extent->n * element;
    const bool aligned = bytes % VECTOR_BYTES == 0;

    if (extent->outer < MIN_ELEMENT_LOAD_ROWS)
        return extent->outer > 1 && !aligned && bytes <= MAX_FEW_ROWS_BYTES;
    if (extent->n <= FEW_ROWS)
        return extent->outer <= MAX_SHORT_ROWS;
    if (aligned)
        return false;
    if (extent->outer * extent->n <= MAX_UNALIGNED_ELEMENTS)
        return element >= WORD_BYTES || (extent->n <= LONG_ROW && !needs_index_or_variance_state(args->op));
    return element >= WORD_BYTES && bytes >= MIN_UNALIGNED_ROW_BYTES && extent->n <= MAX_UNALIGNED_ROW &&
           !needs_index_or_variance_state(args->op);
}

/* The rung for rows: in registers; or one element per thread, since a row problem is a column problem with one
 * column; or, for the shortest contiguous (`dense`) rows of simple sums, one row per thread. */
static const char *choose_row_kernel(const struct extent *extent, const struct reduce_args *args, bool dense)
{
    if (prefers_registers(extent, args))
        return "single_pass";
    if (prefers_element_loads(extent, args))
        return "small_columns";
    return dense && extent->n <= MAX_ROWWISE_ELEMENTS && extent->outer > MAX_SHORT_ROWS && state_fits_word(args) &&
                   !rows_fit_in_registers(extent, args)
               ? "rowwise"
               : "single_pass";
}

/* Whether a product has to start with `initial`: 0 times factors that overflow together is 0 in that order, and
 * NaN in another; likewise for infinities. One thread per result multiplies in that order, which is slow for long
 * rows. (For finite initials the order is unspecified: 1e-300 times many tens may overflow.) */
static bool needs_initial_first(const struct reduce_args *args)
{
    const struct scalar *x = &args->initial;

    return args->op == REDUCE_PROD && args->has_initial && args->accumulator & (FLOATING | COMPLEX) &&
           ((x->re == 0 && x->im == 0) || isinf(x->re) || isinf(x->im));
}

/* The kernel and work split for kernel=None, by layout. They depend only on shape, dtype, device and `initial`, so
 * that the bits of a result are reproducible; for the shortest rows also on contiguity, but both rungs add these
 * in the same order. */
static void choose_kernel(struct call *call, const struct extent *extent, struct reduce_args *args)
{
    struct kernel_choice *choice = &call->kernel;
    const struct device *device = call->device;
    const int element = dtype_bytes(args->dtype), vector = choose_columns_per_thread(args, element);

    if (choice->chosen && needs_initial_first(args))
        choice->row = find_row(OP_reduce, "rowwise");
    else if (choice->chosen && extent->inner == 1)
        choice->row =
            find_row(OP_reduce, choose_row_kernel(extent, args, layout_is_contiguous(&call->as[0], element)));
    else if (choice->chosen)
        choice->row =
            find_row(OP_reduce, prefers_small_columns(device, extent, args, vector) ? "small_columns" : "columns");
    args->begins_with_initial = kernel_is(choice->row, "rowwise") && args->op == REDUCE_PROD && args->has_initial;
    if (kernel_is(choice->row, "single_pass"))
        choose_row_split(device, extent, args, &args->work);
    if (kernel_is(choice->row, "columns"))
        choose_column_split(device, extent, args, vector, &args->work);
    if (kernel_is(choice->row, "small_columns"))
        choose_small_column_split(device, extent, args, &args->work);
}

/* The rung that is limited to partial results of an atomic's width. */
static bool is_atomic(const struct kernel_row *row)
{
    return kernel_is(row, "atomic");
}

/* The named rung that accepts a row in parts. */
static bool is_tree(const struct kernel_row *row)
{
    return kernel_is(row, "tree");
}

static bool check_reduce_kernel(const struct kernel_choice *choice, const struct reduce_args *args, const char *op)
{
    if (needs_index_or_variance_state(args->op) && is_atomic(choice->row)) {
        PyErr_Format(PyExc_ValueError,
                     "kernel: 'atomic' has no '%s', whose partial results are more than one number; expected "
                     "another kernel",
                     op);
        return false;
    }
    return check_kernel_dtype(choice, "x", args->dtype);
}

enum {
    R_X,
    R_OP,
    R_AXIS,
    R_DTYPE,
    R_KEEPDIMS,
    R_INITIAL,
    R_DDOF,
    R_KERNEL,
    R_BLOCK_SIZE,
    R_OUT,
    R_DEVICE,
    R_STREAM
};

/* A reduction's arguments. */
struct reduction {
    const char *op;
    bool folds; /* it accepts `initial` */
    struct reduce_args args;
    size_t states; /* bytes of partial results in the scratch; the counters follow */
    int64_t counters;
    bool reduced[NPY_MAXDIMS], keepdims;
    PyArrayObject *initial;
    int ndim; /* of the result */
    npy_intp shape[NPY_MAXDIMS];
    struct extent extent;
    int outer_ndim, reduced_ndim;                                    /* of `as` */
    enum { NOTHING, OUTER_AXIS, REDUCED_AXIS, INNER_AXIS } along[2]; /* the dimension of each loop over parts */
};

/* The number of groups of consecutive reduced dimensions, in this order of the dimensions. */
static int groups(const struct layout *layout, const int *order, const bool *reduced)
{
    int count = 0;
    bool inside = false;

    for (int i = 0; i < layout->ndim; i++) {
        if (layout->shape[order[i]] == 1)
            continue;
        count += reduced[order[i]] && !inside;
        inside = reduced[order[i]];
    }
    return count;
}

static bool innermost_is_kept(const struct layout *layout, const int *order, const bool *reduced)
{
    bool kept = false;

    for (int i = 0; i < layout->ndim; i++)
        if (layout->shape[order[i]] != 1)
            kept = !reduced[order[i]];
    return kept;
}

/* The dimensions in memory order, if that keeps the order of the kept dimensions and, for indices, of the reduced
 * ones: then the result is the same without a conversion. */
static bool find_memory_order(const struct layout *layout, const bool *reduced, bool indices, int *order)
{
    int last[2] = {-1, -1};

    for (int i = 0; i < layout->ndim; i++) {
        int at = i;

        for (; at > 0 && layout->strides[order[at - 1]] < layout->strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < layout->ndim; i++) {
        const int d = order[i];

        if (layout->shape[d] == 1)
            continue;
        if ((indices || !reduced[d]) && d < last[reduced[d]])
            return false;
        last[reduced[d]] = d;
    }
    return true;
}

/* Whether the dimensions of a group, in this order, can be merged into one: a single non-negative stride, which is
 * `element` bytes for the last group. */
static bool merges_to_one_dimension(const struct layout *layout, const int *order, int count, int element,
                                    bool last)
{
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];

    for (int i = 0; i < count; i++) {
        shape[i] = layout->shape[order[i]];
        strides[i] = layout->strides[order[i]];
    }
    count = merge_dimensions(count, shape, strides, strides);
    return count == 0 ||
           (count == 1 && strides[0] >= 0 && strides[0] % element == 0 && (!last || strides[0] == element));
}

/* The first group of kept dimensions, and the reduced group from `begin` to `end`. */
static void find_groups(const struct layout *layout, const int *order, const bool *reduced, int *begin, int *end)
{
    *begin = 0;
    while (*begin < layout->ndim && (!reduced[order[*begin]] || layout->shape[order[*begin]] == 1))
        ++*begin;
    *end = *begin;
    while (*end < layout->ndim && (reduced[order[*end]] || layout->shape[order[*end]] == 1))
        ++*end;
}

/* Whether the kernels that kernel=None takes accept an array's layout, in this order of its dimensions. */
static bool accepts_array(const struct layout *layout, const int *order, const bool *reduced, int element)
{
    int begin, end, ndim = layout->ndim;

    find_groups(layout, order, reduced, &begin, &end);
    while (end < ndim && layout->shape[order[ndim - 1]] == 1)
        ndim--;
    return merges_to_one_dimension(layout, order, begin, element, begin == ndim) &&
           merges_to_one_dimension(layout, order + begin, end - begin, element, end == ndim) &&
           merges_to_one_dimension(layout, order + end, ndim - end, element, true);
}

/* The same for a part on the device, whose dimensions are those of the groups. */
static bool accepts_part(const struct layout *there, const void *context)
{
    const struct reduction *reduction = context;
    const struct extent *extent = &reduction->extent;
    const int n = reduction->outer_ndim, inner = n + reduction->reduced_ndim;
    const int element = dtype_bytes(reduction->args.dtype);

    if (n > 1 || reduction->reduced_ndim > 1 || there->ndim > inner + 1)
        return false;
    for (int i = 0; i < there->ndim; i++)
        if (there->strides[i] < 0 || there->strides[i] % element != 0)
            return false;
    if (extent->inner > 1)
        return there->strides[inner] == element &&
               (reduction->args.work.fold == 1 || there->strides[n] == extent->inner * element);
    return reduction->args.work.vector == 1 || /* read by elements */
           (reduction->args.work.vector == 0 && (extent->n == 1 || there->strides[n] == element));
}

/* An order of the dimensions in which the reduced ones are consecutive: memory order, the given order, or with the
 * reduced ones last. */
static void choose_axis_order(const struct call *call, const bool *reduced, bool indices, int *order)
{
    const struct layout *layout = &call->in[0].layout;
    const bool rows =
        !call->kernel.chosen && kernel_is(call->kernel.row, "single_pass"); /* which accepts rows only */
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout lies;
    int kept = 0;

    if (find_memory_order(layout, reduced, indices, order) && groups(layout, order, reduced) <= 1) {
        lies = layout_permuted(layout, order);
        if ((layout_is_contiguous(&lies, element) ||
             (is_default_kernel(call->kernel.row) && accepts_array(layout, order, reduced, element))) &&
            !(rows && innermost_is_kept(layout, order, reduced)))
            return;
    }
    for (int i = 0; i < layout->ndim; i++)
        order[i] = i;
    if (groups(layout, order, reduced) <= 1 && !(rows && innermost_is_kept(layout, order, reduced)))
        return;
    for (int i = 0; i < layout->ndim; i++)
        if (!reduced[i])
            order[kept++] = i;
    for (int i = 0; i < layout->ndim; i++)
        if (reduced[i])
            order[kept++] = i;
}

/* Appends the dimensions of one group to `as`, and to `made` if the group is kept, merged as far as possible.
 * Returns the number of elements of the group. */
static npy_intp append_group(struct call *call, const struct layout *out, const int *order, int count, bool kept)
{
    struct layout *as = &call->as[0], *made = &call->made;
    const struct layout *in = &call->in[0].layout;
    npy_intp shape[NPY_MAXDIMS], steps[NPY_MAXDIMS], out_steps[NPY_MAXDIMS], size = 1;

    for (int i = 0; i < count; i++) {
        shape[i] = in->shape[order[i]];
        steps[i] = in->strides[order[i]];
        out_steps[i] = kept ? out->strides[order[i]] : steps[i];
        size *= shape[i];
    }
    count = merge_dimensions(count, shape, steps, out_steps);
    for (int i = 0; i < count; i++) {
        as->shape[as->ndim] = shape[i];
        as->strides[as->ndim++] = steps[i];
        if (kept) {
            made->shape[made->ndim] = shape[i];
            made->strides[made->ndim++] = out_steps[i];
        }
    }
    return size;
}

/* Views x as (outer, n, inner), and out as (outer, inner). */
static void view_as_outer_n_inner(struct call *call, struct reduction *reduction)
{
    const bool indices = reduction->args.op == REDUCE_ARGMIN || reduction->args.op == REDUCE_ARGMAX;
    const bool *reduced = reduction->reduced;
    const struct layout *in = &call->in[0].layout;
    const struct extent one = {.outer = layout_size(in), .n = 1, .inner = 1}; /* no reduced axes */
    struct extent *extent = &reduction->extent;
    struct layout out = {.ndim = in->ndim}, lies;
    int order[NPY_MAXDIMS], begin, end;

    for (int i = 0, at = 0; i < in->ndim; i++)
        if (!reduced[i] || reduction->keepdims)
            out.strides[i] = call->out.layout.strides[at++];
    choose_axis_order(call, reduced, indices, order);
    find_groups(in, order, reduced, &begin, &end);
    lies = layout_permuted(in, order);
    if (call->kernel.chosen && begin == in->ndim && one.outer <= 2 * MAX_SHORT_ROWS &&
        !prefers_registers(&one, &reduction->args) && layout_is_contiguous(&lies, dtype_bytes(call->in[0].dtype)))
        begin = end = 0; /* no reduced axes: columns of one element */
    call->as[0].ndim = call->made.ndim = 0;
    extent->outer = append_group(call, &out, order, begin, true);
    reduction->outer_ndim = call->as[0].ndim;
    extent->n = append_group(call, &out, order + begin, end - begin, false);
    reduction->reduced_ndim = call->as[0].ndim - reduction->outer_ndim;
    extent->inner = append_group(call, &out, order + end, in->ndim - end, true);
}

static bool read_reduced_axes(struct call *call, PyObject *const *args, struct reduction *reduction)
{
    const enum reduce_op op = reduction->args.op;
    const bool is_arg = op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    const bool is_moment = op == REDUCE_MEAN || op == REDUCE_VAR || op == REDUCE_STD;
    const struct layout *layout = &call->in[0].layout;
    const bool *reduced = reduction->reduced;

    if (!read_axis(args[R_AXIS], layout->ndim, !is_arg, !is_moment, reduction->reduced) ||
        !read_flag(args[R_KEEPDIMS], "keepdims", &reduction->keepdims))
        return false;
    use_native_layout(call, 0);
    reduction->extent.n = 1;
    for (int i = 0; i < layout->ndim; i++) {
        if (reduced[i])
            reduction->extent.n *= layout->shape[i];
        if (!reduced[i] || reduction->keepdims)
            reduction->shape[reduction->ndim++] = reduced[i] ? 1 : layout->shape[i];
    }
    return true;
}

static bool read_reduce_initial(PyObject *object, struct reduction *reduction)
{
    struct reduce_args *args = &reduction->args;

    if (object == Py_None) {
        /* a sum starts with 0, so that a row of -0 gives 0 */
        args->has_initial =
            (args->op == REDUCE_SUM || args->op == REDUCE_MEAN) && args->accumulator & (FLOATING | COMPLEX);
        return true;
    }
    if (!reduction->folds)
        return read_none(object, "initial", reduction->op);
    reduction->initial = read_initial(object, args->result, &args->initial);
    args->has_initial = true;
    return reduction->initial != NULL;
}

static bool read_op(PyObject *object, struct reduction *reduction)
{
    const enum reduce_op *op = &reduction->args.op;

    if (!read_reduce_op(object, &reduction->args.op))
        return false;
    reduction->op = PyUnicode_AsUTF8(object);
    reduction->folds = *op == REDUCE_SUM || *op == REDUCE_PROD || *op == REDUCE_MIN || *op == REDUCE_MAX;
    return reduction->op != NULL;
}

static bool read_ddof(PyObject *object, struct reduction *reduction)
{
    struct reduce_args *args = &reduction->args;

    if (!read_double(object, "ddof", &args->ddof))
        return false;
    if (args->ddof == 0 || args->op == REDUCE_VAR || args->op == REDUCE_STD)
        return true;
    PyErr_Format(PyExc_TypeError, "ddof: '%s' takes none, expected 0, got %R", reduction->op, object);
    return false;
}

static bool read_reduce_dtypes(const struct module_state *state, struct call *call, PyObject *const *args,
                               struct reduction *reduction)
{
    PyArray_Descr *out = get_out_descr(state, args[R_OUT]);

    reduction->args.has_initial = args[R_INITIAL] != Py_None;
    const bool ok =
        !PyErr_Occurred() && choose_reduce_dtypes(call, reduction->op, args[R_DTYPE], out, &reduction->args);

    Py_XDECREF(out);
    return ok;
}

static bool read_reduction(const struct module_state *state, PyObject *const *args, struct call *call,
                           struct reduction *reduction)
{
    return read_operand(state, args[R_X], "x", args[R_STREAM], &call->in[0]) && read_op(args[R_OP], reduction) &&
           read_reduced_axes(call, args, reduction) && read_ddof(args[R_DDOF], reduction) &&
           read_device(state, args[R_DEVICE], call->in, 1, &call->device) &&
           read_kernel(OP_reduce, args[R_KERNEL], "block_size", args[R_BLOCK_SIZE], Py_None, args[R_DEVICE],
                       call_has_host_operands(call), &call->device, &call->kernel) &&
           read_reduce_dtypes(state, call, args, reduction) && read_reduce_initial(args[R_INITIAL], reduction) &&
           check_reduce_kernel(&call->kernel, &reduction->args, reduction->op) &&
           read_stream(state, args[R_STREAM], call->device, &call->stream);
}

/* The reduction of no elements. NULL with an exception if it is undefined. */
static PyObject *reduce_empty(const struct reduction *reduction)
{
    if (reduction->initial)
        return Py_NewRef((PyObject *)reduction->initial);
    switch (reduction->args.op) {
    case REDUCE_SUM:
    case REDUCE_ANY:
    case REDUCE_COUNT_NONZERO:
        return PyLong_FromLong(0);
    case REDUCE_PROD:
    case REDUCE_ALL:
        return PyLong_FromLong(1);
    case REDUCE_MEAN:
        if (!warn(PyExc_RuntimeWarning, "Mean of empty slice."))
            return NULL;
        /* fall through */
    case REDUCE_VAR:
    case REDUCE_STD: /* the warning about degrees of freedom has been raised */
        return reduction->args.result & COMPLEX && reduction->args.op == REDUCE_MEAN
                   ? PyComplex_FromDoubles(NAN, NAN)
                   : PyFloat_FromDouble(NAN);
    default:
        return PyErr_Format(PyExc_ValueError, "x: expected at least one element for '%s', got none",
                            reduction->op);
    }
}

/* argmin and argmax give indices, which only integers hold. */
static bool check_index_dtype(const struct call *call, const struct reduce_args *args)
{
    if ((args->op != REDUCE_ARGMIN && args->op != REDUCE_ARGMAX) || call->out.dtype & SIGNED)
        return true;
    PyErr_Format(PyExc_TypeError, "out: expected dtype int64 or one that it can be cast to, got %S",
                 call->out.descr);
    return false;
}

static bool warn_degrees_of_freedom(const struct reduction *reduction)
{
    const bool variance = reduction->args.op == REDUCE_VAR || reduction->args.op == REDUCE_STD;

    return !variance || !((double)reduction->extent.n <= reduction->args.ddof) || /* also false if ddof is NaN */
           warn(PyExc_RuntimeWarning, "Degrees of freedom <= 0 for slice.");
}

/* The loops of a reduction that is done in parts. If a row is not too large, the parts are sets of rows. A larger
 * row is itself divided: along inner, some columns at a time, if these are wide enough; otherwise along n, in
 * multiples of the tree's block or of the work split's chunk, so that the partial results are those of a single
 * launch. Folded rows are not divided along inner.
 */
static void partition_reduce(struct call *call, struct reduction *reduction)
{
    enum { MIN_SEGMENT = 1024 };
    struct extent *extent = &reduction->extent;
    const struct layout *as = &call->as[0];
    const npy_intp element = dtype_bytes(call->in[0].dtype), row = extent->n * extent->inner * element;
    const npy_intp bytes = extent->outer * row, part = call_part_bytes(call, bytes);
    const struct reduce_work *work = &reduction->args.work;
    const npy_intp block = work->splits > 1 ? work->chunk : is_tree(call->kernel.row) ? call->kernel.size : 0;
    const int outer = 0, n = reduction->outer_ndim, inner = n + reduction->reduced_ndim;
    struct partition *partitions = call->partitions;

    if (bytes <= part)
        return;
    if (reduction->outer_ndim) {
        const int loop = row > part ? 0 : 1;

        partitions[loop] = (struct partition){as->shape[outer], 1, {outer, -1}, 0};
        partitions[loop].step = step_of(part, bytes / as->shape[outer], 1);
        reduction->along[loop] = OUTER_AXIS;
    }
    if (row <= part)
        return;
    if (block && reduction->reduced_ndim == 1 && extent->inner * element * block <= part) {
        partitions[1] =
            (struct partition){as->shape[n], step_of(part, extent->inner * element, block), {n, -1}, -1};
        reduction->along[1] = REDUCED_AXIS;
    } else if (inner < as->ndim && work->fold <= 1) {
        partitions[1] = (struct partition){as->shape[inner], 1, {inner, -1}, reduction->outer_ndim};
        partitions[1].step = step_of(part, row / as->shape[inner], 1);
        if (partitions[1].step * (extent->inner / as->shape[inner]) * element < MIN_SEGMENT)
            partitions[1].step = MIN_SEGMENT / element;
        reduction->along[1] = INNER_AXIS;
    }
}

/* The inter-block workspace: flagged partials or counters of the device, and scratch for partial results.
 */
static void allocate_workspace(struct call *call, struct reduction *reduction)
{
    const struct device_type *type = call->device->type;
    struct reduce_work *work = &reduction->args.work;
    const int64_t width = work->lanes ? work->lanes * work->vector / work->fold : 1; /* columns of a tile */
    const int64_t rows = reduction->extent.outer * ceil_div(reduction->extent.inner, width);
    const int words_per_state = state_fits_word(&reduction->args) ? 1 : REDUCE_MAX_STATE_WORDS;
    const size_t words = (size_t)(rows * work->splits * words_per_state) * REDUCE_FLAGGED_WORD_BYTES;
    const bool in_one_launch = reduction->along[1] != REDUCED_AXIS && type->zeros && !is_dry_run();

    if (in_one_launch && kernel_is(call->kernel.row, "single_pass") &&
        (state_fits_word(&reduction->args) || fills_all_multiprocessors(call->device, rows * work->splits)))
        work->flagged_partials = type->zeros(call->device, words, call->stream);
    work->words_per_state = (unsigned char)words_per_state;
    if (work->flagged_partials)
        return;
    if (in_one_launch)
        work->counters = type->zeros(call->device, (size_t)rows * sizeof *work->counters, call->stream);
    reduction->counters = work->counters ? 0 : rows;
    reduction->states = (size_t)(rows * width * work->splits) * REDUCE_MAX_STATE_BYTES;
    call->scratch_bytes = reduction->states + (size_t)reduction->counters * sizeof *work->counters;
}

/* The bytes of scratch for the largest part. */
static void set_scratch_bytes(struct call *call, struct reduction *reduction)
{
    struct reduce_args args = {.n = reduction->extent.n, .block_size = call->kernel.size};
    const struct partition *partitions = call->partitions;
    int64_t rows = reduction->extent.outer * reduction->extent.inner;

    for (int loop = 0; loop < 2; loop++)
        if ((reduction->along[loop] == OUTER_AXIS || reduction->along[loop] == INNER_AXIS) &&
            partitions[loop].step < partitions[loop].length)
            rows = rows / partitions[loop].length * partitions[loop].step;
    args.outer = rows;
    args.inner = 1;
    if (args.block_size || is_atomic(call->kernel.row))
        call->scratch_bytes = reduce_scratch_bytes(&args);
    if (reduction->args.work.splits > 1)
        allocate_workspace(call, reduction);
}

/* Counters in the call's own scratch, if the device cannot provide them: because a call in parts has several
 * launches that share them. */
static bool zero_scratch_counters(struct call *part, const struct reduction *reduction, struct reduce_args *args)
{
    unsigned *own = (unsigned *)((char *)part->scratch + reduction->states);

    if (!reduction->counters)
        return true;
    args->work.counters = own;
    if (part->note)
        part->note->launches++; /* not cacheable: another call's counters would have to be zeroed */
    return args->first > 0 ||
           part->device->type->fill(part->device, own, 0, (size_t)reduction->counters * sizeof *own, part->stream,
                                    &part->failure);
}

/* The strides of a part. */
static void set_strides(const struct call *part, const struct reduction *reduction, struct reduce_args *args)
{
    const int n = reduction->outer_ndim, inner = n + reduction->reduced_ndim, element = dtype_bytes(args->dtype);
    const npy_intp *strides = part->as[0].strides;
    struct reduce_work *work = &args->work;

    work->outer_stride = n ? strides[n - 1] / element : args->count * args->inner;
    work->step = reduction->reduced_ndim ? strides[inner - 1] / element : args->inner;
}

static bool launch_reduce_part(struct call *part, void *context)
{
    const struct reduction *reduction = context;
    struct reduce_args args = reduction->args;
    int64_t *const sizes[] = {
        [OUTER_AXIS] = &args.outer, [REDUCED_AXIS] = &args.count, [INNER_AXIS] = &args.inner};

    args.outer = reduction->extent.outer;
    args.n = args.count = reduction->extent.n;
    args.inner = reduction->extent.inner;
    for (int loop = 0; loop < 2; loop++)
        if (reduction->along[loop] != NOTHING)
            *sizes[reduction->along[loop]] =
                *sizes[reduction->along[loop]] / part->partitions[loop].length * part->part_length[loop];
    args.first = reduction->along[1] == REDUCED_AXIS ? part->at[1] : 0;
    args.block_size = part->kernel.size;
    args.x = part->memory[0];
    args.out = part->out_memory;
    args.scratch = part->scratch;
    set_strides(part, reduction, &args);
    return zero_scratch_counters(part, reduction, &args) && call_launch(part, part->kernel.row, &args);
}

/* A single number that is made on a GPU by one store goes to memory that the host can read. */
static bool read_reduce_out(const struct module_state *state, struct call *call, PyObject *const *args,
                            const struct reduction *reduction)
{
    const enum dtype result = reduction->args.result;
    const bool one = args[R_OUT] == Py_None && !call_has_host_operands(call) && call->kernel.chosen &&
                     !call->stream && !(result & COMPLEX) && !stream_is_entered();
    PyArray_Descr *descr = NULL;
    struct array *array = NULL;
    bool ok;

    for (int i = 0; one && i < reduction->ndim; i++)
        if (reduction->shape[i] != 1)
            return call_read_out(state, call, Py_None, result, reduction->ndim, reduction->shape, args[R_STREAM]);
    if (!one)
        return call_read_out(state, call, args[R_OUT], result, reduction->ndim, reduction->shape, args[R_STREAM]);
    descr = dtype_descr_as(result, call->type_num);
    array = descr ? array_new_in_result_slot(state, call->device, descr, reduction->ndim, reduction->shape) : NULL;
    ok = array &&
         call_read_out(state, call, (PyObject *)array, result, reduction->ndim, reduction->shape, args[R_STREAM]);
    if (ok && array->result != NO_RESULT_SLOT)
        array->result = reduction->extent.n ? RESULT_PENDING : RESULT_NEEDS_SYNC;
    Py_XDECREF(array);
    Py_XDECREF(descr);
    return ok;
}

static PyObject *reduce(const struct module_state *state, PyObject *const *args, struct launch_record *note,
                        size_t *scratch_bytes)
{
    struct call call = {.inputs = 1, .note = note};
    struct reduction reduction = {0};
    struct reduce_args *of = &reduction.args;
    PyObject *result = NULL, *value = NULL;
    bool own_out;

    own_out = args[R_OUT] != Py_None;
    if (!read_reduction(state, args, &call, &reduction) || !warn_degrees_of_freedom(&reduction) ||
        !read_reduce_out(state, &call, args, &reduction) || !check_index_dtype(&call, of)) {
        call_fail(&call);
    } else if (reduction.extent.n == 0) {
        value = reduce_empty(&reduction);
        result = call_run_fill(state, &call, value, own_out);
    } else {
        if (call.out.size) {
            view_as_outer_n_inner(&call, &reduction);
            choose_kernel(&call, &reduction.extent, of);
            call.accepts_layout = is_default_kernel(call.kernel.row) ? accepts_part : NULL;
            call.accepts_context = &reduction;
            partition_reduce(&call, &reduction);
            call_cancel_slow_partition(&call);
            set_scratch_bytes(&call, &reduction);
        }
        *scratch_bytes = call.scratch_bytes;
        result = call_run(state, &call, launch_reduce_part, &reduction, own_out);
    }
    Py_XDECREF(value);
    Py_XDECREF(reduction.initial);
    return result;
}

/* The options as part of the launch cache's key; 0 where it does not cover them. */
static unsigned encode_reduce_options(PyObject *const *args)
{
    int overflow = 0;
    enum reduce_op op;
    long axis = -128, ddof;

    if (args[R_DTYPE] != Py_None || args[R_KEEPDIMS] != Py_False || !all_none(args, R_KERNEL, R_BLOCK_SIZE) ||
        args[R_INITIAL] != Py_None || !all_none(args, R_DEVICE, R_STREAM) || !PyUnicode_CheckExact(args[R_OP]) ||
        !PyLong_CheckExact(args[R_DDOF]))
        return 0;
    ddof = PyLong_AsLongAndOverflow(args[R_DDOF], &overflow);
    if (args[R_AXIS] != Py_None) {
        if (!PyLong_CheckExact(args[R_AXIS]) || overflow)
            return 0;
        axis = PyLong_AsLongAndOverflow(args[R_AXIS], &overflow);
        if (axis < -64 || axis > 63)
            return 0;
    }
    if (overflow || ddof || !find_reduce_op(args[R_OP], &op))
        return 0;
    return OP_reduce | (unsigned)(op + 1) << 4 | (unsigned)(axis + 128) << 8;
}

PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct launch_record note = {.launches = 0};
    size_t scratch_bytes = 0;
    PyObject *result;

    if (!read_count("reduce", count, R_STREAM + 1))
        return NULL;
    const unsigned what = encode_reduce_options(args);
    PyObject *const operands[] = {args[R_X], args[R_OUT] == Py_None ? NULL : args[R_OUT]};
    if (what && launch_cache_run(state, what, operands, 2, &result))
        return result;
    result = reduce(state, args, what ? &note : NULL, &scratch_bytes);
    if (what && result)
        launch_cache_store(state, what, operands, 2, &note, scratch_bytes, result);
    return result;
}
