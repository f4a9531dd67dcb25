/* How a reduction is divided among threads and blocks. The thresholds are in thresholds.def. */
#include "python/state.h"

#include <string.h>

#include "device/device.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "reduce.h"

enum { CACHE_LINE_VECTORS = 8, MAX_GRID_Y = 65535 /* the most chunks per row */, WORD_BYTES = 4 };

static const struct threshold rows[] = {
#define CHOICE(name, scale, unit, columns, why) {#name, scale, unit, why, true, {columns}},
#define SPLIT(name, scale, unit, columns, why)  {#name, scale, unit, why, false, {columns}},
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
};

enum { THRESHOLDS = sizeof rows / sizeof *rows };

_Static_assert((int)THRESHOLDS <= MAX_THRESHOLDS, "the buffers for a table's values have room for them");

const struct threshold_table reduce_threshold_table = {OP_reduce, THRESHOLDS, rows};

struct reduce_target reduce_target(const struct device *device)
{
    struct reduce_target gpu = {.multiprocessors = device->multiprocessors, .l2_bytes = (int64_t)device->l2_bytes};
    int64_t values[THRESHOLDS];

    _Static_assert(sizeof gpu.limits == sizeof values, "one member per row, in the same order");
    read_thresholds(&reduce_threshold_table, device, values);
    memcpy(&gpu.limits, values, sizeof gpu.limits);
    return gpu;
}

static int64_t min_int64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_int64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t ceil_div(int64_t n, int64_t d)
{
    return (n + d - 1) / d;
}

/* The number of chunks per row (or tile of columns) of `bytes` bytes, to give each multiprocessor few_blocks
 * blocks if chunks are small, and up to many_blocks. */
static int64_t choose_splits(const struct reduce_target *gpu, int64_t rows, int64_t bytes, int few_blocks,
                             int many_blocks)
{
    const int64_t few = ceil_div(few_blocks * gpu->multiprocessors, rows);
    const int64_t many = many_blocks * gpu->multiprocessors / rows;
    int64_t splits = max_int64(min_int64(bytes / gpu->limits.min_chunk_bytes, min_int64(few, WARP_THREADS)),
                               min_int64(bytes / gpu->limits.min_few_blocks_chunk_bytes, few));

    if (bytes <= gpu->limits.max_unsplit_bytes)
        return 1;
    splits = max_int64(splits, min_int64(bytes / gpu->limits.min_many_blocks_chunk_bytes, many));
    if (many > 1)
        splits = max_int64(splits, bytes / gpu->limits.max_chunk_bytes);
    return max_int64(1, min_int64(splits, MAX_GRID_Y));
}

/* The share of `bytes` bytes that should stay in L2 for the next read: all if they fit, otherwise what leaves
 * enough of L2 for streaming the rest. */
static float l2_share(const struct reduce_target *gpu, int64_t bytes)
{
    const int64_t l2 = gpu->l2_bytes;

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
 * gpu->limits.few_blocks; a block starts at a multiple of a vector. */
static void assign_short_rows(const struct reduce_target *gpu, int64_t rows, int64_t bytes, int per_vector,
                              struct reduce_work *work)
{
    const int64_t share = ceil_div(rows, gpu->limits.few_blocks * gpu->multiprocessors);

    work->group =
        next_power_of_two(min_int64(WARP_THREADS, ceil_div(bytes, gpu->limits.short_row_bytes_per_thread)));
    work->short_rows_per_block =
        (int)min_int64(ceil_div(share, per_vector), REDUCE_SHORT_ROWS_SMEM_BYTES / bytes / per_vector) *
        per_vector;
}

static bool is_sum(const struct reduce_args *args)
{
    return args->op == REDUCE_SUM || args->op == REDUCE_MEAN;
}

static bool is_min_or_max(const struct reduce_args *args)
{
    return args->op == REDUCE_MIN || args->op == REDUCE_MAX;
}

static bool has_wide_result(const struct reduce_args *args)
{
    return args->result & (FLOAT64 | COMPLEX128);
}

/* The bytes of a state in the kernels, which compute in the widest type: sizeof(Operation::State) for the
 * operation that dispatch_reduce_widest (kernels/common/reduce_running.cuh) takes. */
static int state_bytes(const struct reduce_args *args)
{
    const bool is_complex = args->dtype & COMPLEX, inexact = args->dtype & (FLOATING | COMPLEX);
    const int number = is_complex ? 16 : 8, element = dtype_bytes(args->dtype);

    switch (args->op) {
    case REDUCE_SUM:
    case REDUCE_MEAN: /* compensated: a sum and its rounding error */
        if (!inexact)
            return args->dtype & (INT64 | UINT64) && args->accumulator == FLOAT64 ? 2 * number : number;
        return args->dtype & (FLOAT64 | COMPLEX128) || has_wide_result(args) ? 2 * number : number;
    case REDUCE_PROD:
        return number;
    case REDUCE_MIN:
    case REDUCE_MAX:
        return element < WORD_BYTES ? WORD_BYTES : element;
    case REDUCE_ARGMIN:
    case REDUCE_ARGMAX: /* a value and its index */
        return element > 8 ? 2 * element : 16;
    case REDUCE_VAR:
    case REDUCE_STD: /* a mean, a count, and a sum of squares */
        return number + 16;
    default:
        return 8;
    }
}

/* The minimum of complex64 would fit as well, but such splits have not been measured. */
bool state_fits_word(const struct reduce_args *args)
{
    return state_bytes(args) <= REDUCE_WORD_STATE_BYTES && !(is_min_or_max(args) && args->dtype & COMPLEX);
}

bool partial_fits_word(const struct reduce_args *args)
{
    return state_fits_word(args) || (is_sum(args) && !(args->dtype & COMPLEX));
}

/* Whether results have x's dtype, so that a launcher can store them as vectors. */
static bool result_has_x_dtype(const struct reduce_args *args)
{
    return (is_min_or_max(args) || (is_sum(args) && args->dtype & (FLOATING | INT64 | UINT64))) &&
           args->result == args->dtype;
}

bool rows_fit_in_registers(const struct extent *extent, const struct reduce_args *args)
{
    return extent->n <= REDUCE_MAX_ROW_IN_REGISTERS &&
           extent->n * dtype_bytes(args->dtype) <= REDUCE_VECTOR_BYTES && result_has_x_dtype(args);
}

/* Whether one more load in flight saves a thread with this many vectors a round of loads. */
static bool extra_load_saves_round(const struct reduce_target *gpu, int64_t vectors)
{
    const int64_t rounds = ceil_div(vectors, REDUCE_IN_FLIGHT);

    return rounds < gpu->limits.max_warp_rounds && ceil_div(vectors, REDUCE_SUMS_IN_FLIGHT) < rounds;
}

bool needs_index_or_variance_state(enum reduce_op op)
{
    return op == REDUCE_VAR || op == REDUCE_STD || op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
}

/* The loads in flight per thread for rows of a block each: the number, among those that the launcher has kernels
 * for, that fills the last round best; the largest only where blocks wait for slots. *slots becomes the time in
 * loads per thread. */
static int choose_loads_in_flight(const struct reduce_target *gpu, const struct reduce_args *args, int64_t rows,
                                  int64_t vectors, int64_t *slots)
{
    const int64_t each = ceil_div(vectors, REDUCE_BLOCK);
    const bool sum = is_sum(args) && args->dtype & FLOATING && state_fits_word(args);
    int in_flight = REDUCE_IN_FLIGHT;

    *slots = ceil_div(each, REDUCE_IN_FLIGHT) * REDUCE_IN_FLIGHT;
    if (sum && ceil_div(each, REDUCE_SUMS_IN_FLIGHT) * (REDUCE_SUMS_IN_FLIGHT) <= *slots) {
        in_flight = REDUCE_SUMS_IN_FLIGHT;
        *slots = ceil_div(each, in_flight) * in_flight;
    }
    if (rows > REDUCE_RESIDENT_BLOCKS * gpu->multiprocessors && args->dtype == FLOAT32 &&
        (sum || is_min_or_max(args)) &&
        (each >= gpu->limits.min_long_thread_vectors ||
         ceil_div(each, REDUCE_MAX_IN_FLIGHT) * REDUCE_MAX_IN_FLIGHT - gpu->limits.pipeline_gain <= *slots)) {
        in_flight = REDUCE_MAX_IN_FLIGHT;
        *slots = ceil_div(each, in_flight) * in_flight - gpu->limits.pipeline_gain;
    }
    return in_flight;
}

/* Whether each of many rows gets a warp although it is long: if a fifth of a block's loads would be idle, or its
 * states take long to combine. */
static bool prefers_warp_per_row(const struct reduce_target *gpu, const struct reduce_args *args, int64_t rows,
                                 int64_t vectors)
{
    const int64_t enough = gpu->limits.warp_rows * gpu->multiprocessors;
    int64_t slots;

    if (rows < (vectors <= gpu->limits.max_half_warp_rows_vectors ? enough / 2 : enough) ||
        vectors <= gpu->limits.max_warp_row_vectors || vectors > gpu->limits.max_long_warp_row_vectors)
        return false;
    choose_loads_in_flight(gpu, args, rows, vectors, &slots);
    return needs_index_or_variance_state(args->op) || 5 * vectors < 4 * slots * REDUCE_BLOCK;
}

/* The number of chunks of a single row, given the usual one, so that all multiprocessors get the same number of
 * blocks: as many as they hold, or a multiple of that, from three quarters of it on; else gpu->limits.few_blocks.
 * It stays the usual one if the row is too short, or if a partial result takes several words. */
static int64_t balanced_splits(const struct reduce_target *gpu, const struct reduce_args *args, int64_t bytes,
                               int64_t splits)
{
    const int64_t few = gpu->limits.few_blocks * gpu->multiprocessors;
    const int64_t wave = REDUCE_RESIDENT_BLOCKS * gpu->multiprocessors, waves = (splits + wave / 4) / wave;

    if (!partial_fits_word(args) || bytes < few * gpu->limits.min_single_row_chunk_bytes)
        return splits;
    return min_int64(max_int64(few, waves * wave), MAX_GRID_Y);
}

bool fills_all_multiprocessors(const struct reduce_target *gpu, int64_t blocks)
{
    return 64 * blocks >= 63 * REDUCE_RESIDENT_BLOCKS * gpu->multiprocessors;
}

/* Rows of one or more blocks. The next kernel may start early if there are as many free slots everywhere, or none;
 * otherwise its blocks would pile up on a few multiprocessors. */
static void split_rows(const struct reduce_target *gpu, const struct extent *extent,
                       const struct reduce_args *args, struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype), per_vector = REDUCE_VECTOR_BYTES / element;
    const int64_t rows = extent->outer * extent->inner, bytes = extent->n * element;
    const int64_t sms = gpu->multiprocessors;
    int64_t splits = choose_splits(gpu, rows, bytes, partial_fits_word(args) ? 1 : gpu->limits.few_blocks,
                                   gpu->limits.max_row_blocks),
            blocks, slots;

    if (rows == 1)
        splits = balanced_splits(gpu, args, bytes, splits);
    work->group = REDUCE_BLOCK;
    work->chunk = ceil_div(ceil_div(extent->n, per_vector), splits);
    work->chunk = ceil_div(work->chunk, CACHE_LINE_VECTORS) * CACHE_LINE_VECTORS * per_vector;
    work->splits = ceil_div(extent->n, work->chunk);
    blocks = rows * work->splits;
    if (work->splits == 1)
        work->loads_in_flight = choose_loads_in_flight(gpu, args, rows, ceil_div(extent->n, per_vector), &slots);
    else if (blocks >= gpu->limits.many_blocks * sms)
        work->loads_in_flight = REDUCE_MAX_IN_FLIGHT;
    work->early_trigger = work->splits > 1 && partial_fits_word(args) &&
                          (blocks <= gpu->limits.few_blocks * sms || fills_all_multiprocessors(gpu, blocks));
}

void choose_row_split(const struct reduce_target *gpu, const struct extent *extent, const struct reduce_args *args,
                      struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype), per_vector = REDUCE_VECTOR_BYTES / element;
    const int64_t rows = extent->outer * extent->inner, vectors = ceil_div(extent->n, per_vector);
    const int64_t bytes = extent->n * element;
    const bool many = rows >= gpu->limits.warp_rows * gpu->multiprocessors;

    work->splits = 1;
    work->chunk = extent->n;
    work->loads_in_flight = REDUCE_IN_FLIGHT;
    work->l2_share = l2_share(gpu, rows * bytes);
    if (rows_fit_in_registers(extent, args) ||
        (many && (vectors <= gpu->limits.max_short_row_vectors ||
                  (extent->n % per_vector && per_vector * bytes <= REDUCE_SHORT_ROWS_SMEM_BYTES)))) {
        assign_short_rows(gpu, rows, bytes, per_vector, work);
    } else if (many && vectors <= gpu->limits.max_warp_row_vectors) {
        work->group = (int)max_int64(gpu->limits.min_row_threads, per_vector);
        while (work->group < WARP_THREADS && (vectors > work->group * gpu->limits.max_thread_vectors ||
                                              rows * work->group < gpu->limits.min_threads * gpu->multiprocessors))
            work->group *= 2;
        work->loads_in_flight += extra_load_saves_round(gpu, ceil_div(vectors, work->group));
    } else if (prefers_warp_per_row(gpu, args, rows, vectors)) {
        work->group = WARP_THREADS;
    } else if (vectors <= gpu->limits.max_short_row_vectors) {
        work->group = next_power_of_two(max_int64(vectors, per_vector));
    } else if (vectors <= gpu->limits.max_few_rows_warp_vectors && rows >= gpu->multiprocessors) {
        work->group = WARP_THREADS;
    } else {
        split_rows(gpu, extent, args, work);
    }
}

int columns_per_thread(const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);

    return reduce_column_vector_bytes(state_bytes(args), element) / element;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* The number of chunks into which rows of small columns are split, with tiles of one load's width; 1, and the tile
 * unchanged, if there are enough blocks or too few rows. */
static int64_t split_small_columns(const struct reduce_target *gpu, const struct extent *extent,
                                   int64_t max_blocks, int64_t *lanes, int64_t *height)
{
    const int64_t wide = min_int64(extent->inner, extent->inner < gpu->limits.min_split_wide_columns
                                                      ? gpu->limits.narrow_tile_columns
                                                      : 2 * gpu->limits.narrow_tile_columns);
    const int64_t units = extent->outer * ceil_div(extent->inner, wide), deep = REDUCE_BLOCK / wide;
    const int64_t splits = min_int64(max_blocks / units, extent->n / (deep * gpu->limits.min_split_thread_rows));

    if (splits <= 1)
        return 1;
    *lanes = wide;
    *height = deep;
    return splits;
}

void choose_small_column_split(const struct reduce_target *gpu, const struct extent *extent,
                               const struct reduce_args *args, struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype);
    const int64_t n = extent->n, inner = extent->inner, columns = extent->outer * inner;
    const int64_t narrow = min_int64(gpu->limits.narrow_tile_columns, inner),
                  narrowest = inner > 2 * WARP_THREADS ? 2 : 1;
    const int64_t sms = gpu->multiprocessors, round = reduce_rows_in_flight(element);
    const int64_t max_blocks =
        sms * (needs_index_or_variance_state(args->op) || args->dtype & COMPLEX ? REDUCE_RESIDENT_BLOCKS - 1
                                                                                : REDUCE_RESIDENT_BLOCKS);
    int64_t height = 1, splits = 1, threads, lanes, tiles;

    while (2 * height * gpu->limits.min_small_column_rows <= n && height < REDUCE_BLOCK)
        height *= 2;
    threads = columns * height / sms * (height < gpu->limits.min_full_block_height ? 1 : REDUCE_RESIDENT_BLOCKS);
    threads = max_int64(gpu->limits.min_block_threads,
                        max_int64(height, next_power_of_two(min_int64(threads, REDUCE_BLOCK))));
    lanes = max_int64(next_power_of_two(min_int64(ceil_div(columns, sms), threads)), threads / height);
    while (lanes < narrowest || (lanes < narrow && columns * n / lanes > gpu->limits.max_scattered_elements))
        lanes *= 2;
    while (lanes > narrow && n * lanes > gpu->limits.max_rounds * round * threads &&
           ceil_div(columns, lanes / 2) <= max_blocks)
        lanes /= 2;
    height = threads / lanes;
    if (n > gpu->limits.max_unsplit_rounds * round * height || n * narrow > gpu->limits.max_tile_elements)
        splits = split_small_columns(gpu, extent, max_blocks, &lanes, &height);
    height = max_int64(height, min_int64(ceil_div(WARP_THREADS, inner), n / gpu->limits.min_folded_thread_rows));
    tiles = ceil_div(inner, lanes);
    if (tiles == 1)
        lanes = inner;
    else /* all tiles equally wide, in whole warps */
        lanes = min_int64(lanes, ceil_div(ceil_div(inner, tiles), WARP_THREADS) * WARP_THREADS);
    splits = max_int64(splits, ceil_div(n, height * REDUCE_MAX_ROWS_PER_THREAD));
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
static void assign_column_tiles(const struct reduce_target *gpu, const struct extent *extent, int element,
                                int64_t fold, struct reduce_work *work)
{
    const int vector = work->vector;
    const int64_t vectors = ceil_div(extent->inner, vector), rows = extent->n / fold;
    int64_t lanes = vectors <= gpu->limits.max_row_tile ? gpu->limits.max_row_tile : gpu->limits.wide_tile,
            tiles = 1, splits = 1;

    if (fold > 1) {
        lanes = fold * extent->inner / vector;
    } else {
        while (lanes > gpu->limits.narrow_tile &&
               2 * extent->outer * ceil_div(vectors, lanes) < gpu->multiprocessors)
            lanes /= 2;
        lanes = ceil_div(vectors, ceil_div(vectors, lanes));
        tiles = ceil_div(vectors, lanes);
    }
    work->fold = (int)fold;
    work->lanes = (int)lanes;
    work->height = (int)max_int64(1, min_int64(REDUCE_BLOCK / lanes, rows / gpu->limits.min_thread_rows));
    if (REDUCE_BLOCK / (work->lanes * work->height) == 1)
        splits = max_int64(choose_splits(gpu, extent->outer * tiles, rows * lanes * vector * element,
                                         gpu->limits.few_blocks, gpu->limits.max_column_blocks),
                           ceil_div(rows, (int64_t)work->height * REDUCE_MAX_ROWS_PER_THREAD));
    if (splits == 1) /* rounded up to whole folds */
        work->chunk = ceil_div(extent->n, fold) * fold;
    else
        work->chunk = ceil_div(ceil_div(rows, splits), work->height) * work->height * fold;
    work->splits = ceil_div(extent->n, work->chunk);
}

/* How many rows to fold into one, so that it consists of whole vectors; 1 if that is not possible. */
static int64_t choose_fold(const struct reduce_target *gpu, const struct extent *extent, int vector)
{
    const int64_t fold = vector / gcd(vector, extent->inner);

    return fold * extent->inner / vector <= gpu->limits.max_fold_vectors && fold <= extent->n ? fold : 1;
}

bool prefers_whole_columns(const struct reduce_target *gpu, const struct extent *extent,
                           const struct reduce_args *args, int vector)
{
    const bool few = 1 < extent->n && extent->n <= REDUCE_MAX_UNROLLED_ROWS && extent->inner % vector == 0 &&
                     result_has_x_dtype(args);
    const int64_t enough = few ? gpu->limits.min_unrolled_threads : gpu->limits.min_whole_column_threads;
    const int64_t vectors = ceil_div(extent->inner, vector);
    const bool deep = extent->inner % vector ? extent->n >= gpu->limits.min_unaligned_tiled_rows
                                             : extent->n >= gpu->limits.min_tiled_rows &&
                                                   extent->inner <= gpu->limits.max_tiled_columns;

    return choose_fold(gpu, extent, vector) == 1 && extent->n <= REDUCE_MAX_ROWS_PER_THREAD && !deep &&
           extent->outer * vectors >= enough * gpu->multiprocessors;
}

void choose_column_split(const struct reduce_target *gpu, const struct extent *extent,
                         const struct reduce_args *args, int vector, struct reduce_work *work)
{
    work->vector = vector;
    if (prefers_whole_columns(gpu, extent, args, vector))
        assign_whole_columns(extent, work);
    else
        assign_column_tiles(gpu, extent, dtype_bytes(args->dtype), choose_fold(gpu, extent, vector), work);
}
