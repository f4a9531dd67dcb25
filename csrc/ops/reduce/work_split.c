/* How a reduction is divided among threads and blocks. The thresholds stand in thresholds.h. */
#include "python/state.h"

#include "device/device.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "reduce.h"
#include "thresholds.h"

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
static int64_t choose_splits(const struct device *device, int64_t rows, int64_t bytes, int few_blocks,
                             int many_blocks)
{
    const int64_t few = ceil_div(few_blocks * device->multiprocessors, rows);
    const int64_t many = many_blocks * device->multiprocessors / rows;
    int64_t splits = max_int64(min_int64(bytes / MIN_CHUNK, min_int64(few, WARP)),
                               min_int64(bytes / MIN_FEW_BLOCKS_CHUNK, few));

    if (bytes <= MAX_UNSPLIT_BYTES)
        return 1;
    splits = max_int64(splits, min_int64(bytes / MIN_MANY_BLOCKS_CHUNK, many));
    if (many > 1)
        splits = max_int64(splits, bytes / MAX_CHUNK);
    return max_int64(1, min_int64(splits, MAX_SPLITS));
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

    work->group = next_power_of_two(min_int64(32, ceil_div(bytes, SHORT_ROW_BYTES_PER_THREAD)));
    work->short_rows_per_block =
        (int)min_int64(ceil_div(share, per_vector), REDUCE_SHORT_ROWS_SMEM_BYTES / bytes / per_vector) *
        per_vector;
}

bool state_fits_word(const struct reduce_args *args)
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

bool rows_fit_in_registers(const struct extent *extent, const struct reduce_args *args)
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

bool needs_index_or_variance_state(enum reduce_op op)
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

bool fills_all_multiprocessors(const struct device *device, int64_t blocks)
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
        splits = max_int64(splits, balanced_splits(device, args, bytes));
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

void choose_row_split(const struct device *device, const struct extent *extent, const struct reduce_args *args,
                      struct reduce_work *work)
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
        work->group = (int)max_int64(MIN_ROW_THREADS, per_vector);
        while (work->group < 32 && (vectors > work->group * MAX_THREAD_VECTORS ||
                                    rows * work->group < MIN_SM_THREADS * device->multiprocessors))
            work->group *= 2;
        work->loads_in_flight += extra_load_saves_round(ceil_div(vectors, work->group));
    } else if (prefers_warp_per_row(device, args, rows, vectors)) {
        work->group = WARP;
    } else if (vectors <= MAX_SHORT_ROW_VECTORS) {
        work->group = next_power_of_two(max_int64(vectors, per_vector));
    } else if (vectors <= MAX_FEW_ROWS_WARP_VECTORS && rows >= device->multiprocessors) {
        work->group = 32;
    } else {
        split_rows(device, extent, args, work);
    }
}

int choose_columns_per_thread(const struct reduce_args *args, int element)
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
static int64_t split_small_columns(const struct extent *extent, int64_t max_blocks, int64_t *lanes,
                                   int64_t *height)
{
    const int64_t wide = min_int64(
        extent->inner, extent->inner < MIN_SPLIT_WIDE_COLUMNS ? NARROW_TILE_COLUMNS : 2 * NARROW_TILE_COLUMNS);
    const int64_t units = extent->outer * ceil_div(extent->inner, wide), deep = REDUCE_BLOCK / wide;
    const int64_t splits = min_int64(max_blocks / units, extent->n / (deep * MIN_SPLIT_THREAD_ROWS));

    if (splits <= 1)
        return 1;
    *lanes = wide;
    *height = deep;
    return splits;
}

void choose_small_column_split(const struct device *device, const struct extent *extent,
                               const struct reduce_args *args, struct reduce_work *work)
{
    const int element = dtype_bytes(args->dtype);
    const int64_t n = extent->n, inner = extent->inner, columns = extent->outer * inner;
    const int64_t narrow = min_int64(NARROW_TILE_COLUMNS, inner), narrowest = inner > 2 * WARP ? 2 : 1;
    const int64_t sms = device->multiprocessors,
                  round = element > WORD_BYTES ? BYTES_IN_FLIGHT / element : ROWS_IN_FLIGHT;
    const int64_t max_blocks =
        sms *
        (needs_index_or_variance_state(args->op) || args->dtype & COMPLEX ? RESIDENT_BLOCKS - 1 : RESIDENT_BLOCKS);
    int64_t height = 1, splits = 1, threads, lanes, tiles;

    while (2 * height * MIN_SMALL_COLUMN_ROWS <= n && height < REDUCE_BLOCK)
        height *= 2;
    threads = columns * height / sms * (height < MIN_FULL_BLOCK_THREADS_Y ? 1 : RESIDENT_BLOCKS);
    threads = max_int64(MIN_BLOCK_THREADS, max_int64(height, next_power_of_two(min_int64(threads, REDUCE_BLOCK))));
    lanes = max_int64(next_power_of_two(min_int64(ceil_div(columns, sms), threads)), threads / height);
    while (lanes < narrowest || (lanes < narrow && columns * n / lanes > MAX_SCATTERED_ELEMENTS))
        lanes *= 2;
    while (lanes > narrow && n * lanes > MAX_ROUNDS * round * threads &&
           ceil_div(columns, lanes / 2) <= max_blocks)
        lanes /= 2;
    height = threads / lanes;
    if (n > MAX_UNSPLIT_ROUNDS * round * height || n * narrow > MAX_TILE_ELEMENTS)
        splits = split_small_columns(extent, max_blocks, &lanes, &height);
    height = max_int64(height, min_int64(ceil_div(WARP, inner), n / MIN_FOLDED_THREAD_ROWS));
    tiles = ceil_div(inner, lanes);
    if (tiles == 1)
        lanes = inner;
    else /* all tiles equally wide, in whole warps */
        lanes = min_int64(lanes, ceil_div(ceil_div(inner, tiles), WARP) * WARP);
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
    work->height = (int)max_int64(1, min_int64(REDUCE_BLOCK / lanes, rows / MIN_THREAD_ROWS));
    if (REDUCE_BLOCK / (work->lanes * work->height) == 1)
        splits = max_int64(choose_splits(device, extent->outer * tiles, rows * lanes * vector * element,
                                         FEW_BLOCKS, MAX_COLUMN_BLOCKS),
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

bool prefers_whole_columns(const struct device *device, const struct extent *extent,
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

void choose_column_split(const struct device *device, const struct extent *extent, const struct reduce_args *args,
                         int vector, struct reduce_work *work)
{
    work->vector = vector;
    if (prefers_whole_columns(device, extent, args, vector))
        assign_whole_columns(extent, work);
    else
        assign_column_tiles(device, extent, dtype_bytes(args->dtype), choose_fold(extent, vector), work);
}
