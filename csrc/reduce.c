/* The reductions: sum, min, var, argmax and their like, over any axes. */
#include "smemkit.h"

#include <math.h>
#include <string.h>

/* (outer, n, inner) elements, n of which become one. */
struct extent {
    int64_t outer, n, inner;
};

static bool is_rung(const struct kernel_row *row, const char *name)
{
    return strcmp(row->name, name) == 0;
}

/* Whether it is one of those that kernel=None takes, whose work is planned. */
static bool is_planned(const struct kernel_row *row)
{
    return is_rung(row, "single_pass") || is_rung(row, "columns") || is_rung(row, "small_columns");
}

static enum dtype real_part(enum dtype dtype)
{
    return dtype == COMPLEX64 ? FLOAT32 : dtype == COMPLEX128 ? FLOAT64 : dtype;
}

/* What a sum is added up in. One that is left to smemkit is added in double precision, so that its error is half
 * an ulp and n * 2^-53 of the sum of |x|; a rung that was named computes in single precision, if x has no more,
 * but for those that wait for memory in any case. */
static enum dtype sum_accumulator(enum dtype dtype, bool widest)
{
    if (dtype & UNSIGNED)
        return UINT64;
    if (dtype & (BOOL | SIGNED))
        return INT64;
    if (dtype & COMPLEX)
        return widest || dtype == COMPLEX128 ? COMPLEX128 : COMPLEX64;
    return widest || dtype == FLOAT64 ? FLOAT64 : FLOAT32;
}

/* sum, prod and mean: `asked` is 0 or the dtype that the elements are cast to first. */
static void sum_types(struct call *call, enum dtype asked, struct reduce_args *args)
{
    const enum dtype in = call->in[0].dtype, integers = BOOL | SIGNED | UNSIGNED;
    const bool widest = call->kernel.chosen || is_planned(call->kernel.row);
    const bool as_accumulated =
        widest && ((in & FLOATING && asked == FLOAT64) || (in & COMPLEX && asked == COMPLEX128));

    if (asked == BOOL && args->op == REDUCE_SUM) { /* the sum of truths is their "or" */
        args->op = REDUCE_ANY;
        args->result = BOOL;
        return;
    }
    if (args->op == REDUCE_MEAN && in & integers && (!asked || asked == FLOAT64)) {
        args->accumulator = args->result = FLOAT64;
        return;
    }
    if (asked && !as_accumulated && !(in & integers && asked & (SIGNED | UNSIGNED) && args->op != REDUCE_MEAN))
        /* sums of integers wrap around at the end as well as before */
        call->dtype[0] = asked;
    args->accumulator = sum_accumulator(call->dtype[0], widest);
    args->result = asked ? asked : in & (BOOL | SIGNED) ? INT64 : in & UNSIGNED ? UINT64 : in;
}

/* The dtype of `out`: a new reference. NULL where there is none, or no array, which is refused later. */
static PyArray_Descr *descr_of_out(const struct module_state *state, PyObject *out)
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

/* The dtype that holds the elements and those of `out`; 0 where there is none, no out, or one that cannot take it.
 */
static enum dtype dtype_with_out(const struct operand *x, PyArray_Descr *out)
{
    int type_num;
    enum dtype dtype = out && dtype_of(out) ? dtype_promoted(x->descr, out, &type_num) : 0;

    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    return dtype && dtype_casts(dtype, dtype_of(out)) ? dtype : 0;
}

/* NumPy adds a mean up in the dtype that is asked for, and divides where the sum is: in `out`. */
static bool divides_in_out(enum dtype asked, const PyArray_Descr *out)
{
    return asked & (BOOL | SIGNED | UNSIGNED) && out && dtype_of(out) & (FLOATING | COMPLEX);
}

static bool reduce_types(struct call *call, const char *op, PyObject *dtype, PyArray_Descr *out,
                         struct reduce_args *args)
{
    static const unsigned moments = FLOATING | COMPLEX;
    enum dtype asked = 0, with_out;
    int unused;

    call->type_num = call->in[0].descr->type_num;
    switch (args->op) {
    case REDUCE_SUM:
    case REDUCE_PROD:
    case REDUCE_MEAN:
        if (args->op != REDUCE_MEAN || call->in[0].dtype & moments)
            asked = dtype_with_out(&call->in[0], out); /* as NumPy, which adds up in it */
        if (!(call->in[0].dtype & COMPLEX))
            asked = real_part(asked);
        if (PyErr_Occurred() || !read_dtype(dtype, EVERY, &asked, &call->type_num))
            return false;
        sum_types(call, asked, args);
        if (args->op == REDUCE_MEAN && divides_in_out(asked, out))
            args->result = FLOAT64;
        break;
    case REDUCE_VAR:
    case REDUCE_STD:
        if (!read_dtype(dtype, moments, &asked, &unused))
            return false;
        if (asked && !(asked == FLOAT64 && call->in[0].dtype & ~moments))
            call->dtype[0] = asked;
        args->result = asked ? asked : call->in[0].dtype & ~moments ? FLOAT64 : real_part(call->in[0].dtype);
        with_out = asked ? 0 : dtype_with_out(&call->in[0], out);
        if (with_out & FLOATING && args->result & FLOATING) /* it is computed in double anyway */
            args->result = with_out;
        break;
    case REDUCE_MIN:
    case REDUCE_MAX:
        if (args->has_initial) /* which may be none of x's dtype, but one of the dtype of `out` */
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

/* ---- the work of these: all that may want tuning ---- */

enum {
    VECTOR = 16,           /* bytes of a load */
    LINE = 8,              /* vectors: a chunk is whole lines of the cache */
    ONE_CHUNK = 64 << 10,  /* bytes of a row that are one block's: blocks that meet take a microsecond for it */
    LEAST_CHUNK = 4 << 10, /* that are worth a block of their own, while a warp of the last one can wait for all */
    SOME_CHUNK = 16 << 10, /* while there is a multiprocessor for each */
    EVEN_CHUNK = 12 << 10, /* or, of a row that is alone, while each has as many */
    CHUNK = 128 << 10,     /* while there are not too many */
    MOST_CHUNK = 4 << 20,  /* more than that is not given to one block, where rows are split */
    FEW = 2,               /* blocks a multiprocessor; */
    FULL = 4,              /* as many as it has room for; */
    MUCH = 8,              /* as many as are much to read */
    WARP = 32,
    MANY_ROWS = 12,      /* of which some wait, so that no multiprocessor is without work before the others */
    MANY_COLUMNS = 4,    /* likewise; the last block has more to combine */
    WARP_VECTORS = 1024, /* of a row that is a warp's or less, where there are WARP_ROWS a multiprocessor */
    WARP_ROWS = 16,
    SHORT_VECTORS = 32,  /* of a row that goes through shared memory, where there are as many rows */
    SHORT_BYTES = 128,   /* of such a row that are enough for a thread */
    THREAD_VECTORS = 10, /* of a row that are enough for a thread, if it has LINE_THREADS beside it, */
    ROW_THREADS = 2048,  /* and these are so many a multiprocessor */
    LINE_VECTORS = 256,  /* of a row that is a warp's, where each multiprocessor has some */
    LINE_THREADS = 8,
    WIDE_TILE = 32,      /* vectors of a tile of columns, where there are enough for all multiprocessors */
    ROW_TILE = 80,       /* or of one that is whole rows */
    NARROW_TILE = 8,     /* and where there are not: the rows are split, and a wide tile has more to combine */
    FOLD_LANES = 64,     /* the most vectors of narrow rows that are made one */
    ROWS_OF_THREAD = 8,  /* rows that a thread of `columns` should have at least */
    WHOLE_THREADS = 384, /* a multiprocessor, that are enough for each to have whole columns; */
    KERNEL_THREADS = 12, /* or, where a kernel is made for so few rows */
    SMALL_ELEMENTS = 16 << 20,      /* up to so many, a thread has a single column, */
    FEW_ROWS = 8,                   /* but for whole columns that are no longer than this, */
    WORD = 4,                       /* or whose elements have fewer bytes; */
    NARROW = 8,                     /* or up to any number, in rows of no more than this, */
    MANY_NARROW = 50,               /* or than a warp's threads if there are so many */
    SOME_ROWS = 12,                 /* rows that go as small columns: so many at least, */
    REGISTER_ROWS = 8 << 10,        /* more than so many short ones stay in registers, or words in any case; */
    SMALL_ROWS = 32 << 10,          /* up to so many short ones, or */
    UNALIGNED_ROWS = 1 << 20,       /* elements in longer ones that are no whole vectors, */
    LONG_ROW = 1024,                /* but are not longer than this, if elements are no words; */
    UNALIGNED_BYTES = 1024,         /* or of any size, if they are words, and so many bytes of them, */
    LONGEST_ROW = 32 << 10,         /* up to so many of them, */
    FEW_BYTES = 2 << 10,            /* or fewer rows, if they are no longer than this */
    SHORTEST = 3,                   /* elements of a row that is read by a thread */
    IN_FLIGHT = 4,                  /* vectors of a thread of single_pass, as it has them, or one more, */
    MAX_IN_FLIGHT = 8,             /* or so many, each with the next behind it: their last round costs */
    FEWER = 2,                      /* so many less; or so many in any case, */
    LONG = 64,                      /* where a thread has so many; */
    WARP_ROUNDS = 4,                /* one more in a warp, where a thread has less than so many rounds */
    WIDE_ROWS = 6 * REDUCE_BLOCK,   /* vectors of a row that is a warp's, where a block's threads would wait */
    WIDER_ROWS = 16 * REDUCE_BLOCK, /* in vain, if there are half of WARP_ROWS, or all of them */
    FEW_COLUMNS = 512,              /* that are better tiles, */
    DEEP = 512,                     /* where there are so many rows, */
    DEEP_APART = 256,               /* or even so many, if they do not begin alike */
    NARROW_COLUMNS = 128,           /* a multiprocessor, that have a thread each where rows are narrow */
    LEAST_THREADS = 64,             /* of a block of small columns */
    LEAST_ROWS = 4,                 /* of a thread of these, before there are more threads one below the other: */
    SHORT = 8,                      /* while these are fewer, blocks have no more threads than they need */
    ROUND = 16,                     /* rows of a thread that are under way at once, */
    ROUND_BYTES = 64,               /* or so many bytes of them: */
    ROUNDS = 3,                     /* more such rounds, and tiles are narrower, if all have room then; */
    MOST_ROUNDS = 6,                /* more, and the rows are split, */
    MOST_OF_TILE = 40000,           /* or more elements in a narrow tile, which is a multiprocessor's alone, */
    SPLIT_ROWS_EACH = 16,           /* into chunks of which a thread has so many rows at least, */
    SPLIT_LANES = 128,              /* in tiles twice as wide if there are so many columns */
    WARP_ROWS_EACH = 32,            /* a warp's threads lie in several narrow rows, if each has so many */
    NARROW_LANES = 8,   /* columns of a narrow tile: of elements that are words, what is read at once; */
    SCATTERED = 400000, /* even fewer only while all tiles have no more rows together than this */
    MOST_SPLITS = 65535
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

/* Into how many chunks each of so many rows, or tiles of columns, of `bytes` is cut: for a few blocks a
 * multiprocessor, or for many. */
static int64_t splits_of(const struct device *device, int64_t rows, int64_t bytes, int few_blocks, int many_blocks)
{
    const int64_t few = ceil_div(few_blocks * device->multiprocessors, rows);
    const int64_t many = many_blocks * device->multiprocessors / rows;
    int64_t splits = most(least(bytes / LEAST_CHUNK, least(few, WARP)), least(bytes / SOME_CHUNK, few));

    if (bytes <= ONE_CHUNK)
        return 1;
    splits = most(splits, least(bytes / CHUNK, many));
    if (many > 1)
        splits = most(splits, bytes / MOST_CHUNK);
    return most(1, least(splits, MOST_SPLITS));
}

/* The share of so many bytes that L2 should have when they are read again: all of what it has room for; else what
 * leaves enough of it to the rest, which comes and goes. */
static float share_to_keep(const struct device *device, int64_t bytes)
{
    const int64_t l2 = (int64_t)device->l2_bytes;

    return !l2 || bytes <= l2 / 5 * 4 ? 1.0f : (float)((double)(l2 / 3) / (double)bytes);
}

static int power_of_two(int64_t n)
{
    int power = 1;

    while (power < n)
        power *= 2;
    return power;
}

/* Rows that go through shared memory: as many a block as it has room for, or less, so that all multiprocessors
 * have a block or two; blocks begin at a multiple of a vector. */
static void split_short_rows(const struct device *device, int64_t rows, int64_t bytes, int per_vector,
                             struct reduce_work *work)
{
    const int64_t share = ceil_div(rows, FEW * device->multiprocessors);

    work->group = power_of_two(least(32, ceil_div(bytes, SHORT_BYTES)));
    work->short_rows_per_block =
        (int)least(ceil_div(share, per_vector), REDUCE_SHORT_ROWS_SMEM_BYTES / bytes / per_vector) * per_vector;
}

/* Whether a partial result has no more than 8 bytes, as the launcher has it: one number, and no place or
 * compensation beside it. */
static bool fits_word(const struct reduce_args *args)
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

static bool is_first(const struct reduce_args *args)
{
    return args->op == REDUCE_MIN || args->op == REDUCE_MAX;
}

/* Whether results are elements as x has them, which a launcher stores as vectors. */
static bool gives_elements(const struct reduce_args *args)
{
    return (is_first(args) || (is_sum(args) && args->dtype & (FLOATING | INT64 | UINT64))) &&
           args->result == args->dtype;
}

/* Whether single_pass keeps rows in registers, if they lie so that it can; else they are short rows to it. */
static bool stays_in_registers(const struct extent *extent, const struct reduce_args *args)
{
    return extent->n <= REDUCE_MAX_ROW_IN_REGISTERS && extent->n * dtype_bytes(args->dtype) <= VECTOR &&
           gives_elements(args);
}

/* Whether a thread that has so many vectors has fewer rounds of loads if one more is under way in each. */
static bool saves_round(int64_t vectors)
{
    const int64_t rounds = ceil_div(vectors, IN_FLIGHT);

    return rounds < WARP_ROUNDS && ceil_div(vectors, IN_FLIGHT + 1) < rounds;
}

static bool is_double_sum(const struct reduce_args *args)
{
    return is_sum(args) && args->dtype == FLOAT64;
}

static bool has_places_or_moments(enum reduce_op op)
{
    return op == REDUCE_VAR || op == REDUCE_STD || op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
}

/* How many vectors a block's threads have under way in each of some rows, as the launcher has kernels for it: so
 * many that few are left over for the last round; the most only where blocks wait for room. It takes the time of
 * `slots` loads a thread. */
static int in_flight_of_block(const struct device *device, const struct reduce_args *args, int64_t rows,
                              int64_t vectors, int64_t *slots)
{
    const int64_t each = ceil_div(vectors, REDUCE_BLOCK);
    const bool sum = is_sum(args) && args->dtype & FLOATING && fits_word(args);
    int in_flight = IN_FLIGHT;

    *slots = ceil_div(each, IN_FLIGHT) * IN_FLIGHT;
    if (sum && ceil_div(each, IN_FLIGHT + 1) * (IN_FLIGHT + 1) <= *slots) {
        in_flight = IN_FLIGHT + 1;
        *slots = ceil_div(each, in_flight) * in_flight;
    }
    if (rows > FULL * (int64_t)device->multiprocessors && args->dtype == FLOAT32 && (sum || is_first(args)) &&
        (each >= LONG || ceil_div(each, MAX_IN_FLIGHT) * MAX_IN_FLIGHT - FEWER <= *slots)) {
        in_flight = MAX_IN_FLIGHT;
        *slots = ceil_div(each, in_flight) * in_flight - FEWER;
    }
    return in_flight;
}

/* Whether each of many rows is a warp's, though it is longer than these are otherwise: a fifth of a block's loads
 * would be none, or its states take long to combine. */
static bool takes_warps(const struct device *device, const struct reduce_args *args, int64_t rows, int64_t vectors)
{
    const int64_t enough = WARP_ROWS * (int64_t)device->multiprocessors;
    int64_t slots;

    if (rows < (vectors <= WIDE_ROWS ? enough / 2 : enough) || vectors <= WARP_VECTORS || vectors > WIDER_ROWS)
        return false;
    in_flight_of_block(device, args, rows, vectors, &slots);
    return has_places_or_moments(args->op) || 5 * vectors < 4 * slots * REDUCE_BLOCK;
}

/* Into how many chunks a row that is alone is cut at least, so that all multiprocessors have as many blocks: two,
 * or as many as there is room for where combining their states takes long. */
static int64_t even_splits(const struct device *device, const struct reduce_args *args, int64_t bytes)
{
    const int blocks = is_double_sum(args) ? FULL : fits_word(args) ? FEW : 0;
    const int64_t splits = blocks * (int64_t)device->multiprocessors;

    return bytes >= splits * EVEN_CHUNK ? splits : 0;
}

/* Whether blocks leave no room on a multiprocessor, or next to none. */
static bool fill_all(const struct device *device, int64_t blocks)
{
    return 64 * blocks >= 63 * FULL * (int64_t)device->multiprocessors;
}

/* Rows of a block each, or several. The next launch's blocks may come while these run if there is as much room
 * beside them, or none: else they would come where there is some, many on one multiprocessor. */
static void split_rows(const struct device *device, const struct extent *extent, const struct reduce_args *args,
                       struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype), per_vector = VECTOR / element;
    const int64_t rows = extent->outer * extent->inner, bytes = extent->n * element;
    const int64_t sms = device->multiprocessors;
    int64_t splits = splits_of(device, rows, bytes, fits_word(args) ? 1 : FEW, MANY_ROWS), blocks, slots;

    if (rows == 1)
        splits = most(splits, even_splits(device, args, bytes));
    work->group = REDUCE_BLOCK;
    work->chunk = ceil_div(ceil_div(extent->n, per_vector), splits);
    work->chunk = ceil_div(work->chunk, LINE) * LINE * per_vector;
    work->splits = ceil_div(extent->n, work->chunk);
    blocks = rows * work->splits;
    if (work->splits == 1)
        work->loads_in_flight = in_flight_of_block(device, args, rows, ceil_div(extent->n, per_vector), &slots);
    else if (blocks >= MUCH * sms)
        work->loads_in_flight = MAX_IN_FLIGHT;
    work->early_trigger = work->splits > 1 && (fits_word(args) || is_double_sum(args)) &&
                          (blocks <= FEW * sms || fill_all(device, blocks));
}

static void choose_row_split(const struct device *device, const struct extent *extent,
                             const struct reduce_args *args, struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype), per_vector = VECTOR / element;
    const int64_t rows = extent->outer * extent->inner, vectors = ceil_div(extent->n, per_vector);
    const int64_t bytes = extent->n * element;
    const bool many = rows >= WARP_ROWS * device->multiprocessors;

    work->splits = 1;
    work->chunk = extent->n;
    work->loads_in_flight = IN_FLIGHT;
    work->l2_share = share_to_keep(device, rows * bytes);
    if (stays_in_registers(extent, args) ||
        (many && (vectors <= SHORT_VECTORS ||
                  (extent->n % per_vector && per_vector * bytes <= REDUCE_SHORT_ROWS_SMEM_BYTES)))) {
        split_short_rows(device, rows, bytes, per_vector, work);
    } else if (many && vectors <= WARP_VECTORS) {
        work->group = (int)most(LINE_THREADS, per_vector);
        while (work->group < 32 && (vectors > work->group * THREAD_VECTORS ||
                                    rows * work->group < ROW_THREADS * device->multiprocessors))
            work->group *= 2;
        work->loads_in_flight += saves_round(ceil_div(vectors, work->group));
    } else if (takes_warps(device, args, rows, vectors)) {
        work->group = WARP;
    } else if (vectors <= SHORT_VECTORS) {
        work->group = power_of_two(most(vectors, per_vector));
    } else if (vectors <= LINE_VECTORS && rows >= device->multiprocessors) {
        work->group = 32;
    } else {
        split_rows(device, extent, args, work);
    }
}

/* How many columns a thread has, as the launcher has it: it has registers for so many states. */
static int vector_of_columns(const struct reduce_args *args, int element)
{
    const enum reduce_op op = args->op;
    const bool moments = op == REDUCE_VAR || op == REDUCE_STD, place = op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    const bool compensated =
        is_sum(args) && args->dtype & (FLOATING | COMPLEX) && args->result & (FLOAT64 | COMPLEX128);
    const int bytes = (moments ? 2 : place || compensated ? 4 : VECTOR) * element;

    return (bytes < 4 ? 4 : bytes > VECTOR ? VECTOR : bytes) / element;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* Into how many chunks the rows of small columns are cut, in tiles that are as wide as is read at once; 1, and the
 * tile as it is, if there are blocks enough, or rows too few. */
static int64_t split_small_columns(const struct extent *extent, int64_t room, int64_t *lanes, int64_t *height)
{
    const int64_t wide = least(extent->inner, extent->inner < SPLIT_LANES ? NARROW_LANES : 2 * NARROW_LANES);
    const int64_t units = extent->outer * ceil_div(extent->inner, wide), deep = REDUCE_BLOCK / wide;
    const int64_t splits = least(room / units, extent->n / (deep * SPLIT_ROWS_EACH));

    if (splits <= 1)
        return 1;
    *lanes = wide;
    *height = deep;
    return splits;
}

/* A thread a column, and threads one below the other, in blocks that make one for each multiprocessor: tiles are
 * so wide. They are narrower, and there are more of them, where threads would have many rows. Narrow tiles read in
 * vain what lies beside them, which not too much may be. Where that is not enough, the rows are split. */
static void choose_small_column_split(const struct device *device, const struct extent *extent,
                                      const struct reduce_args *args, struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype);
    const int64_t n = extent->n, inner = extent->inner, columns = extent->outer * inner;
    const int64_t narrow = least(NARROW_LANES, inner), narrowest = inner > 2 * WARP ? 2 : 1;
    const int64_t sms = device->multiprocessors, round = element > WORD ? ROUND_BYTES / element : ROUND;
    const int64_t room = sms * (has_places_or_moments(args->op) || args->dtype & COMPLEX ? FULL - 1 : FULL);
    int64_t height = 1, splits = 1, threads, lanes, tiles;

    while (2 * height * LEAST_ROWS <= n && height < REDUCE_BLOCK)
        height *= 2;
    threads = columns * height / sms * (height < SHORT ? 1 : FULL);
    threads = most(LEAST_THREADS, most(height, power_of_two(least(threads, REDUCE_BLOCK))));
    lanes = most(power_of_two(least(ceil_div(columns, sms), threads)), threads / height);
    while (lanes < narrowest || (lanes < narrow && columns * n / lanes > SCATTERED))
        lanes *= 2;
    while (lanes > narrow && n * lanes > ROUNDS * round * threads && ceil_div(columns, lanes / 2) <= room)
        lanes /= 2;
    height = threads / lanes;
    if (n > MOST_ROUNDS * round * height || n * narrow > MOST_OF_TILE)
        splits = split_small_columns(extent, room, &lanes, &height);
    height = most(height, least(ceil_div(WARP, inner), n / WARP_ROWS_EACH));
    tiles = ceil_div(inner, lanes);
    if (tiles == 1)
        lanes = inner;
    else /* as wide as the others, but for whole warps */
        lanes = least(lanes, ceil_div(ceil_div(inner, tiles), WARP) * WARP);
    splits = most(splits, ceil_div(n, height * REDUCE_MAX_ROWS_PER_THREAD));
    work->vector = work->fold = 1;
    work->lanes = (int)lanes;
    work->height = (int)height;
    work->chunk = splits == 1 ? n : ceil_div(ceil_div(n, splits), height) * height;
    work->splits = ceil_div(n, work->chunk);
}

static void split_whole_columns(const struct extent *extent, struct reduce_work *work)
{
    work->lanes = REDUCE_BLOCK;
    work->height = work->fold = 1;
    work->chunk = extent->n;
    work->splits = 1;
}

/* Tiles of vectors of columns; or of rows that are made one, `fold` of them, where it is not 1. */
static void split_tiles(const struct device *device, const struct extent *extent, int element, int64_t fold,
                        struct reduce_work *work)
{
    const int vector = work->vector;
    const int64_t vectors = ceil_div(extent->inner, vector), rows = extent->n / fold;
    int64_t lanes = vectors <= ROW_TILE ? ROW_TILE : WIDE_TILE, tiles = 1, splits = 1;

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
    work->height = (int)most(1, least(REDUCE_BLOCK / lanes, rows / ROWS_OF_THREAD));
    if (REDUCE_BLOCK / (work->lanes * work->height) == 1)
        splits = most(splits_of(device, extent->outer * tiles, rows * lanes * vector * element, FEW, MANY_COLUMNS),
                      ceil_div(rows, (int64_t)work->height * REDUCE_MAX_ROWS_PER_THREAD));
    if (splits == 1) /* or more, for rows that are left when they are made one */
        work->chunk = ceil_div(extent->n, fold) * fold;
    else
        work->chunk = ceil_div(ceil_div(rows, splits), work->height) * work->height * fold;
    work->splits = ceil_div(extent->n, work->chunk);
}

/* How many rows are one, if the columns of some, side by side, are whole vectors; else 1. */
static int64_t fold_of(const struct extent *extent, int vector)
{
    const int64_t fold = vector / common_divisor(vector, extent->inner);

    return fold * extent->inner / vector <= FOLD_LANES && fold <= extent->n ? fold : 1;
}

/* Whether there are vectors of columns enough for all threads, or some and so few rows that these have a kernel of
 * their own, and rows not to be made one; many rows are better left to tiles, if they are narrow or their vectors
 * apart. */
static bool takes_whole_columns(const struct device *device, const struct extent *extent,
                                const struct reduce_args *args, int vector)
{
    const bool few = 1 < extent->n && extent->n <= REDUCE_MAX_UNROLLED_ROWS && extent->inner % vector == 0 &&
                     gives_elements(args);
    const int64_t enough = few ? KERNEL_THREADS : WHOLE_THREADS;
    const int64_t vectors = ceil_div(extent->inner, vector);
    const bool deep =
        extent->inner % vector ? extent->n >= DEEP_APART : extent->n >= DEEP && extent->inner <= FEW_COLUMNS;

    return fold_of(extent, vector) == 1 && extent->n <= REDUCE_MAX_ROWS_PER_THREAD && !deep &&
           extent->outer * vectors >= enough * (int64_t)device->multiprocessors;
}

static void choose_column_split(const struct device *device, const struct extent *extent,
                                const struct reduce_args *args, int vector, struct reduce_work *work)
{
    work->vector = vector;
    if (takes_whole_columns(device, extent, args, vector))
        split_whole_columns(extent, work);
    else
        split_tiles(device, extent, dtype_bytes(args->dtype), fold_of(extent, vector), work);
}

/* Whether there are columns enough for all threads, in such narrow rows that vectors of them would be whole rows,
 * or several: those of a long column are better read by threads side by side. */
static bool takes_narrow_columns(const struct device *device, const struct extent *extent)
{
    return extent->inner <= (extent->n < MANY_NARROW ? NARROW : WARP) &&
           extent->outer * extent->inner >= NARROW_COLUMNS * (int64_t)device->multiprocessors;
}

/* Whether a thread is to have a column rather than a vector of them: that has fewer threads, and takes two loads
 * where rows do not begin at a multiple of it. */
static bool takes_small_columns(const struct device *device, const struct extent *extent,
                                const struct reduce_args *args, int vector)
{
    const bool loads_once =
        extent->inner % vector == 0 || extent->n <= FEW_ROWS || dtype_bytes(args->dtype) < WORD;

    if (extent->outer * extent->n * extent->inner > SMALL_ELEMENTS)
        return extent->n > FEW_ROWS && takes_narrow_columns(device, extent);
    return !(loads_once && takes_whole_columns(device, extent, args, vector));
}

/* Whether rows are best kept in registers: a thread that has rows of fewer bytes has more of them. */
static bool takes_registers(const struct extent *extent, const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);

    return stays_in_registers(extent, args) && extent->n <= 2 * element &&
           (element >= WORD || extent->outer > REGISTER_ROWS);
}

/* Whether rows are to be read an element a thread: those of a few elements, if there are not too many of them, and
 * longer ones that are no whole vectors, so that these take two loads: small ones, or words in a warp's threads,
 * unless adding them takes long. */
static bool takes_elements(const struct extent *extent, const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);
    const int64_t bytes = extent->n * element;
    const bool aligned = bytes % VECTOR == 0;

    if (extent->outer < SOME_ROWS)
        return extent->outer > 1 && !aligned && bytes <= FEW_BYTES;
    if (extent->n <= FEW_ROWS)
        return extent->outer <= SMALL_ROWS;
    if (aligned)
        return false;
    if (extent->outer * extent->n <= UNALIGNED_ROWS)
        return element >= WORD || (extent->n <= LONG_ROW && !has_places_or_moments(args->op));
    return element >= WORD && bytes >= UNALIGNED_BYTES && extent->n <= LONGEST_ROW &&
           !has_places_or_moments(args->op);
}

/* The rung for rows: some in registers; some an element a thread, as what lies one below the other in a column
 * lies side by side in a row. The shortest of the others are best read by a thread each, if a sum of them needs no
 * care and they are one behind the other (`dense`). */
static const char *rung_of_rows(const struct extent *extent, const struct reduce_args *args, bool dense)
{
    if (takes_registers(extent, args))
        return "single_pass";
    if (takes_elements(extent, args))
        return "small_columns";
    return dense && extent->n <= SHORTEST && extent->outer > SMALL_ROWS && fits_word(args) &&
                   !stays_in_registers(extent, args)
               ? "rowwise"
               : "single_pass";
}

/* Whether it matters that a product begins with its `initial`: after a 0, factors that are too large together come
 * to 0, and before it to a NaN; infinities likewise. One thread per result multiplies in that order, which is slow
 * where rows are long. (Of finite ones the order is left open: 1e-300 times many tens may come to inf.) */
static bool order_decides(const struct reduce_args *args)
{
    const struct scalar *x = &args->initial;

    return args->op == REDUCE_PROD && args->has_initial && args->accumulator & (FLOATING | COMPLEX) &&
           ((x->re == 0 && x->im == 0) || isinf(x->re) || isinf(x->im));
}

/* For a choice that is left to smemkit: by how the elements lie. It depends on shape, dtype, device and `initial`
 * alone, so that the bits are the same every time; of the shortest rows, which two rungs add up in the same order,
 * also on whether they are dense. */
static void plan_reduce(struct call *call, const struct extent *extent, struct reduce_args *args)
{
    struct kernel_choice *choice = &call->kernel;
    const struct device *device = call->device;
    const int element = dtype_bytes(args->dtype), vector = vector_of_columns(args, element);

    if (choice->chosen && order_decides(args))
        choice->row = find_row(OP_reduce, "rowwise");
    else if (choice->chosen && extent->inner == 1)
        choice->row = find_row(OP_reduce, rung_of_rows(extent, args, layout_is_contiguous(&call->as[0], element)));
    else if (choice->chosen)
        choice->row =
            find_row(OP_reduce, takes_small_columns(device, extent, args, vector) ? "small_columns" : "columns");
    args->begins_with_initial = is_rung(choice->row, "rowwise") && args->op == REDUCE_PROD && args->has_initial;
    if (is_rung(choice->row, "single_pass"))
        choose_row_split(device, extent, args, &args->work);
    if (is_rung(choice->row, "columns"))
        choose_column_split(device, extent, args, vector, &args->work);
    if (is_rung(choice->row, "small_columns"))
        choose_small_column_split(device, extent, args, &args->work);
}

/* The one rung that takes no partial results wider than what an atomic can change. */
static bool is_atomic(const struct kernel_row *row)
{
    return is_rung(row, "atomic");
}

/* The one whose partial results can come from a row's parts. */
static bool is_tree(const struct kernel_row *row)
{
    return is_rung(row, "tree");
}

static bool check_rung(const struct kernel_choice *choice, const struct reduce_args *args, const char *op)
{
    if (has_places_or_moments(args->op) && is_atomic(choice->row)) {
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

/* One reduction, as it was asked for. */
struct reduction {
    const char *op;
    bool folds; /* one more element makes sense to it */
    struct reduce_args args;
    size_t states; /* bytes of partial results in the scratch of a planned kernel; then come its counters */
    int64_t counters;
    bool reduced[NPY_MAXDIMS], keepdims;
    PyArrayObject *initial;
    int ndim; /* of the result */
    npy_intp shape[NPY_MAXDIMS];
    struct extent extent;
    int outer_ndim, reduced_ndim;                     /* dimensions of `as` that make it up */
    enum { NOTHING, OUTER, REDUCED, INNER } along[2]; /* what the loops over the parts cut */
};

/* How many times a group of dimensions that are reduced begins, in this order of the dimensions. */
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

static bool ends_with_kept(const struct layout *layout, const int *order, const bool *reduced)
{
    bool kept = false;

    for (int i = 0; i < layout->ndim; i++)
        if (layout->shape[order[i]] != 1)
            kept = !reduced[order[i]];
    return kept;
}

/* The dimensions in the order in which the elements lie, if what is kept stays in its order, and, for places, what
 * is reduced as well: the same reduction then, without a conversion. */
static bool order_as_it_lies(const struct layout *layout, const bool *reduced, bool places, int *order)
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
        if ((places || !reduced[d]) && d < last[reduced[d]])
            return false;
        last[reduced[d]] = d;
    }
    return true;
}

/* Whether the dimensions of a group, in this order, are one: elements at multiples of one stride, which is not
 * negative, and `element` bytes where nothing comes after them. */
static bool is_one_dimension(const struct layout *layout, const int *order, int count, int element, bool last)
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

/* The first dimensions in this order that are kept, and then the reduced ones: `end` is where the others begin. */
static void find_groups(const struct layout *layout, const int *order, const bool *reduced, int *begin, int *end)
{
    *begin = 0;
    while (*begin < layout->ndim && (!reduced[order[*begin]] || layout->shape[order[*begin]] == 1))
        ++*begin;
    *end = *begin;
    while (*end < layout->ndim && (reduced[order[*end]] || layout->shape[order[*end]] == 1))
        ++*end;
}

/* Whether the planned kernels take an array in this order of its dimensions as it lies. */
static bool lies_for_plan(const struct layout *layout, const int *order, const bool *reduced, int element)
{
    int begin, end, ndim = layout->ndim;

    find_groups(layout, order, reduced, &begin, &end);
    while (end < ndim && layout->shape[order[ndim - 1]] == 1)
        ndim--;
    return is_one_dimension(layout, order, begin, element, begin == ndim) &&
           is_one_dimension(layout, order + begin, end - begin, element, end == ndim) &&
           is_one_dimension(layout, order + end, ndim - end, element, true);
}

/* The same of a part on the device, which is its groups' dimensions. */
static bool takes_gaps(const struct layout *there, const void *context)
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
    return reduction->args.work.vector == 1 || /* by elements */
           (reduction->args.work.vector == 0 && (extent->n == 1 || there->strides[n] == element));
}

/* An order of the dimensions in which those that are reduced lie side by side: as the array lies, as it is, or
 * with the reduced ones last. */
static void choose_order(const struct call *call, const bool *reduced, bool places, int *order)
{
    const struct layout *layout = &call->in[0].layout;
    const bool rows = !call->kernel.chosen && is_rung(call->kernel.row, "single_pass"); /* it takes nothing else */
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout lies;
    int kept = 0;

    if (order_as_it_lies(layout, reduced, places, order) && groups(layout, order, reduced) <= 1) {
        lies = layout_permuted(layout, order);
        if ((layout_is_contiguous(&lies, element) ||
             (is_planned(call->kernel.row) && lies_for_plan(layout, order, reduced, element))) &&
            !(rows && ends_with_kept(layout, order, reduced)))
            return;
    }
    for (int i = 0; i < layout->ndim; i++)
        order[i] = i;
    if (groups(layout, order, reduced) <= 1 && !(rows && ends_with_kept(layout, order, reduced)))
        return;
    for (int i = 0; i < layout->ndim; i++)
        if (!reduced[i])
            order[kept++] = i;
    for (int i = 0; i < layout->ndim; i++)
        if (reduced[i])
            order[kept++] = i;
}

/* The dimensions of one group, appended to `as`, and those of out to `made` where the group is kept; in as few as
 * can be. Returns how many elements the group has. */
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

/* x as (outer, n, inner), and out as (outer, inner). */
static void split_axes(struct call *call, struct reduction *reduction)
{
    const bool places = reduction->args.op == REDUCE_ARGMIN || reduction->args.op == REDUCE_ARGMAX;
    const bool *reduced = reduction->reduced;
    const struct layout *in = &call->in[0].layout;
    const struct extent one = {.outer = layout_size(in), .n = 1, .inner = 1}; /* if nothing is reduced */
    struct extent *extent = &reduction->extent;
    struct layout out = {.ndim = in->ndim}, lies;
    int order[NPY_MAXDIMS], begin, end;

    for (int i = 0, at = 0; i < in->ndim; i++)
        if (!reduced[i] || reduction->keepdims)
            out.strides[i] = call->out.layout.strides[at++];
    choose_order(call, reduced, places, order);
    find_groups(in, order, reduced, &begin, &end);
    lies = layout_permuted(in, order);
    if (call->kernel.chosen && begin == in->ndim && one.outer <= 2 * SMALL_ROWS &&
        !takes_registers(&one, &reduction->args) && layout_is_contiguous(&lies, dtype_bytes(call->in[0].dtype)))
        begin = end = 0; /* nothing is reduced: so many columns of one element */
    call->as[0].ndim = call->made.ndim = 0;
    extent->outer = append_group(call, &out, order, begin, true);
    reduction->outer_ndim = call->as[0].ndim;
    extent->n = append_group(call, &out, order + begin, end - begin, false);
    reduction->reduced_ndim = call->as[0].ndim - reduction->outer_ndim;
    extent->inner = append_group(call, &out, order + end, in->ndim - end, true);
}

static bool read_axes_of(struct call *call, PyObject *const *args, struct reduction *reduction)
{
    const enum reduce_op op = reduction->args.op;
    const bool is_arg = op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    const bool is_moment = op == REDUCE_MEAN || op == REDUCE_VAR || op == REDUCE_STD;
    const struct layout *layout = &call->in[0].layout;
    const bool *reduced = reduction->reduced;

    if (!read_axis(args[R_AXIS], layout->ndim, !is_arg, !is_moment, reduction->reduced) ||
        !read_flag(args[R_KEEPDIMS], "keepdims", &reduction->keepdims))
        return false;
    want_natural(call, 0);
    reduction->extent.n = 1;
    for (int i = 0; i < layout->ndim; i++) {
        if (reduced[i])
            reduction->extent.n *= layout->shape[i];
        if (!reduced[i] || reduction->keepdims)
            reduction->shape[reduction->ndim++] = reduced[i] ? 1 : layout->shape[i];
    }
    return true;
}

static bool read_initial_of(PyObject *object, struct reduction *reduction)
{
    struct reduce_args *args = &reduction->args;

    if (object == Py_None) {
        /* a sum begins with 0, which makes 0 of a row of -0 */
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

static bool read_types(const struct module_state *state, struct call *call, PyObject *const *args,
                       struct reduction *reduction)
{
    PyArray_Descr *out = descr_of_out(state, args[R_OUT]);

    reduction->args.has_initial = args[R_INITIAL] != Py_None;
    const bool ok = !PyErr_Occurred() && reduce_types(call, reduction->op, args[R_DTYPE], out, &reduction->args);

    Py_XDECREF(out);
    return ok;
}

static bool read_reduction(const struct module_state *state, PyObject *const *args, struct call *call,
                           struct reduction *reduction)
{
    return read_operand(state, args[R_X], "x", args[R_STREAM], &call->in[0]) && read_op(args[R_OP], reduction) &&
           read_axes_of(call, args, reduction) && read_ddof(args[R_DDOF], reduction) &&
           read_device(state, args[R_DEVICE], call->in, 1, &call->device) &&
           read_kernel(OP_reduce, args[R_KERNEL], "block_size", args[R_BLOCK_SIZE], Py_None, args[R_DEVICE],
                       call_is_host(call), &call->device, &call->kernel) &&
           read_types(state, call, args, reduction) && read_initial_of(args[R_INITIAL], reduction) &&
           check_rung(&call->kernel, &reduction->args, reduction->op) &&
           read_stream(state, args[R_STREAM], call->device, &call->stream);
}

/* What no elements reduce to. NULL with an exception where there is no such thing. */
static PyObject *reduce_nothing(const struct reduction *reduction)
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
    case REDUCE_STD: /* the degrees of freedom have been warned of */
        return reduction->args.result & COMPLEX && reduction->args.op == REDUCE_MEAN
                   ? PyComplex_FromDoubles(NAN, NAN)
                   : PyFloat_FromDouble(NAN);
    default:
        return PyErr_Format(PyExc_ValueError, "x: expected at least one element for '%s', got none",
                            reduction->op);
    }
}

/* argmin and argmax give places, which no other kind of number holds. */
static bool check_places(const struct call *call, const struct reduce_args *args)
{
    if ((args->op != REDUCE_ARGMIN && args->op != REDUCE_ARGMAX) || call->out.dtype & SIGNED)
        return true;
    PyErr_Format(PyExc_TypeError, "out: expected dtype int64 or one that it can be cast to, got %S",
                 call->out.descr);
    return false;
}

static bool warn_freedom(const struct reduction *reduction)
{
    const bool moments = reduction->args.op == REDUCE_VAR || reduction->args.op == REDUCE_STD;

    return !moments ||
           !((double)reduction->extent.n <= reduction->args.ddof) || /* nor is it where ddof is a NaN */
           warn(PyExc_RuntimeWarning, "Degrees of freedom <= 0 for slice.");
}

/* The loops of a reduction that is done in parts. Rows are reduced some at a time, where one is not too much. A
 * row that is goes through in parts: those that lie side by side (inner) some columns at a time, if they are wide
 * enough; else some of its elements at a time, whole blocks of the tree or whole chunks of the work split, so that the
 * partial results are those of one launch. Folded rows stay as wide as they are.
 */
static void cut_reduce(struct call *call, struct reduction *reduction)
{
    enum { RUN = 1024 };
    struct extent *extent = &reduction->extent;
    const struct layout *as = &call->as[0];
    const npy_intp element = dtype_bytes(call->in[0].dtype), row = extent->n * extent->inner * element;
    const npy_intp bytes = extent->outer * row, part = call_part_bytes(call, bytes);
    const struct reduce_work *work = &reduction->args.work;
    const npy_intp block = work->splits > 1 ? work->chunk : is_tree(call->kernel.row) ? call->kernel.size : 0;
    const int outer = 0, n = reduction->outer_ndim, inner = n + reduction->reduced_ndim;
    struct cut *cuts = call->cuts;

    if (bytes <= part)
        return;
    if (reduction->outer_ndim) {
        const int loop = row > part ? 0 : 1;

        cuts[loop] = (struct cut){as->shape[outer], 1, {outer, -1}, 0};
        cuts[loop].step = step_of(part, bytes / as->shape[outer], 1);
        reduction->along[loop] = OUTER;
    }
    if (row <= part)
        return;
    if (block && reduction->reduced_ndim == 1 && extent->inner * element * block <= part) {
        cuts[1] = (struct cut){as->shape[n], step_of(part, extent->inner * element, block), {n, -1}, -1};
        reduction->along[1] = REDUCED;
    } else if (inner < as->ndim && work->fold <= 1) {
        cuts[1] = (struct cut){as->shape[inner], 1, {inner, -1}, reduction->outer_ndim};
        cuts[1].step = step_of(part, row / as->shape[inner], 1);
        if (cuts[1].step * (extent->inner / as->shape[inner]) * element < RUN)
            cuts[1].step = RUN / element;
        reduction->along[1] = INNER;
    }
}

/* What the blocks of a row need to meet: words of the device, or counters, and scratch for their partial results.
 */
static void plan_meeting(struct call *call, struct reduction *reduction)
{
    const struct device_type *type = call->device->type;
    struct reduce_work *work = &reduction->args.work;
    const int64_t width = work->lanes ? work->lanes * work->vector / work->fold : 1; /* columns of a tile */
    const int64_t rows = reduction->extent.outer * ceil_div(reduction->extent.inner, width);
    const int of_state = fits_word(&reduction->args) ? 1 : REDUCE_MAX_STATE_WORDS;
    const size_t words = (size_t)(rows * work->splits * of_state) * REDUCE_FLAGGED_WORD_BYTES;
    const bool in_one_launch = reduction->along[1] != REDUCED && type->zeros && !is_rehearsal();

    if (in_one_launch && is_rung(call->kernel.row, "single_pass") &&
        (fits_word(&reduction->args) || fill_all(call->device, rows * work->splits)))
        work->flagged_partials = type->zeros(call->device, words, call->stream);
    work->words_per_state = (unsigned char)of_state;
    if (work->flagged_partials)
        return;
    if (in_one_launch)
        work->counters = type->zeros(call->device, (size_t)rows * sizeof *work->counters, call->stream);
    reduction->counters = work->counters ? 0 : rows;
    reduction->states = (size_t)(rows * width * work->splits) * REDUCE_MAX_STATE_BYTES;
    call->scratch_bytes = reduction->states + (size_t)reduction->counters * sizeof *work->counters;
}

/* Bytes of scratch for the largest part. */
static void scratch_of(struct call *call, struct reduction *reduction)
{
    struct reduce_args args = {.n = reduction->extent.n, .block_size = call->kernel.size};
    const struct cut *cuts = call->cuts;
    int64_t rows = reduction->extent.outer * reduction->extent.inner;

    for (int loop = 0; loop < 2; loop++)
        if ((reduction->along[loop] == OUTER || reduction->along[loop] == INNER) &&
            cuts[loop].step < cuts[loop].length)
            rows = rows / cuts[loop].length * cuts[loop].step;
    args.outer = rows;
    args.inner = 1;
    if (args.block_size || is_atomic(call->kernel.row))
        call->scratch_bytes = reduce_scratch_bytes(&args);
    if (reduction->args.work.splits > 1)
        plan_meeting(call, reduction);
}

/* Tickets of the call's own, where the device has none for it: several launches share them, between which others
 * come. */
static bool make_tickets(struct call *part, const struct reduction *reduction, struct reduce_args *args)
{
    unsigned *own = (unsigned *)((char *)part->scratch + reduction->states);

    if (!reduction->counters)
        return true;
    args->work.counters = own;
    if (part->note)
        part->note->launches++; /* another call's scratch would have to be made 0, too */
    return args->first > 0 ||
           part->device->type->fill(part->device, own, 0, (size_t)reduction->counters * sizeof *own, part->stream,
                                    &part->failure);
}

/* How far the elements of a part lie apart. */
static void set_steps(const struct call *part, const struct reduction *reduction, struct reduce_args *args)
{
    const int n = reduction->outer_ndim, inner = n + reduction->reduced_ndim, element = dtype_bytes(args->dtype);
    const npy_intp *strides = part->as[0].strides;
    struct reduce_work *work = &args->work;

    work->outer_stride = n ? strides[n - 1] / element : args->count * args->inner;
    work->step = reduction->reduced_ndim ? strides[inner - 1] / element : args->inner;
}

static bool run_reduce(struct call *part, void *context)
{
    const struct reduction *reduction = context;
    struct reduce_args args = reduction->args;
    int64_t *const sizes[] = {[OUTER] = &args.outer, [REDUCED] = &args.count, [INNER] = &args.inner};

    args.outer = reduction->extent.outer;
    args.n = args.count = reduction->extent.n;
    args.inner = reduction->extent.inner;
    for (int loop = 0; loop < 2; loop++)
        if (reduction->along[loop] != NOTHING)
            *sizes[reduction->along[loop]] =
                *sizes[reduction->along[loop]] / part->cuts[loop].length * part->taken[loop];
    args.first = reduction->along[1] == REDUCED ? part->at[1] : 0;
    args.block_size = part->kernel.size;
    args.x = part->memory[0];
    args.out = part->out_memory;
    args.scratch = part->scratch;
    set_steps(part, reduction, &args);
    return make_tickets(part, reduction, &args) && call_launch(part, part->kernel.row, &args);
}

/* Where one number is made on a GPU, by a single store, the caller will probably want to read it. */
static bool reduce_out(const struct module_state *state, struct call *call, PyObject *const *args,
                       const struct reduction *reduction)
{
    const enum dtype result = reduction->args.result;
    const bool one = args[R_OUT] == Py_None && !call_is_host(call) && call->kernel.chosen && !call->stream &&
                     !(result & COMPLEX) && !stream_is_entered();
    PyArray_Descr *descr = NULL;
    struct array *array = NULL;
    bool ok;

    for (int i = 0; one && i < reduction->ndim; i++)
        if (reduction->shape[i] != 1)
            return call_out(state, call, Py_None, result, reduction->ndim, reduction->shape, args[R_STREAM]);
    if (!one)
        return call_out(state, call, args[R_OUT], result, reduction->ndim, reduction->shape, args[R_STREAM]);
    descr = dtype_descr_as(result, call->type_num);
    array = descr ? array_new_result(state, call->device, descr, reduction->ndim, reduction->shape) : NULL;
    ok = array &&
         call_out(state, call, (PyObject *)array, result, reduction->ndim, reduction->shape, args[R_STREAM]);
    if (ok && array->result != NO_RESULT)
        array->result = reduction->extent.n ? AWAITED : SETTLED;
    Py_XDECREF(array);
    Py_XDECREF(descr);
    return ok;
}

static PyObject *reduce(const struct module_state *state, PyObject *const *args, struct plan_note *note,
                        size_t *scratch_bytes)
{
    struct call call = {.inputs = 1, .note = note};
    struct reduction reduction = {0};
    struct reduce_args *of = &reduction.args;
    PyObject *result = NULL, *value = NULL;
    bool own_out;

    own_out = args[R_OUT] != Py_None;
    if (!read_reduction(state, args, &call, &reduction) || !warn_freedom(&reduction) ||
        !reduce_out(state, &call, args, &reduction) || !check_places(&call, of)) {
        call_refused(&call);
    } else if (reduction.extent.n == 0) {
        value = reduce_nothing(&reduction);
        result = call_filled(state, &call, value, own_out);
    } else {
        if (call.out.size) {
            split_axes(&call, &reduction);
            plan_reduce(&call, &reduction.extent, of);
            call.takes = is_planned(call.kernel.row) ? takes_gaps : NULL;
            call.takes_context = &reduction;
            cut_reduce(&call, &reduction);
            call_choose_parts(&call);
            scratch_of(&call, &reduction);
        }
        *scratch_bytes = call.scratch_bytes;
        result = call_run(state, &call, run_reduce, &reduction, own_out);
    }
    Py_XDECREF(value);
    Py_XDECREF(reduction.initial);
    return result;
}

/* The options as part of the launch cache's key; 0 where it does not cover them. */
static unsigned reduce_options(PyObject *const *args)
{
    int overflow = 0;
    enum reduce_op op;
    long axis = -128, ddof;

    if (args[R_DTYPE] != Py_None || args[R_KEEPDIMS] != Py_False || !are_none(args, R_KERNEL, R_BLOCK_SIZE) ||
        args[R_INITIAL] != Py_None || !are_none(args, R_DEVICE, R_STREAM) || !PyUnicode_CheckExact(args[R_OP]) ||
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
    struct plan_note note = {.launches = 0};
    size_t scratch_bytes = 0;
    PyObject *result;

    if (!read_count("reduce", count, R_STREAM + 1))
        return NULL;
    const unsigned what = reduce_options(args);
    PyObject *const operands[] = {args[R_X], args[R_OUT] == Py_None ? NULL : args[R_OUT]};
    if (what && plan_run(state, what, operands, 2, &result))
        return result;
    result = reduce(state, args, what ? &note : NULL, &scratch_bytes);
    if (what && result)
        plan_keep(state, what, operands, 2, &note, scratch_bytes, result);
    return result;
}
