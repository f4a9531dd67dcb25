/* The times that the policy of matmul predicts for its kernels. */
#include "prediction.h"

#include <math.h>
#include <string.h>

#include "base/table.h"
#include "ops/thresholds.h"
#include "python/dtypes.h"

static const struct threshold threshold_rows[] = {
#define CHOICE(name, scale, unit, columns, why) {#name, scale, unit, why, true, {columns}},
#define SPLIT(name, scale, unit, columns, why)  {#name, scale, unit, why, false, {columns}},
#define SPEED(name, gpu, launch, one, many, start, empty, odd_a, odd_b)                                            \
    {#name "_launch", FIXED, "nanoseconds", "of a launch", false, {[COLUMN_##gpu] = (launch)}},                    \
        {#name "_one", FIXED, "GFLOP/s", "with one block on a multiprocessor", false, {[COLUMN_##gpu] = (one)}},   \
        {#name "_many", FIXED, "GFLOP/s", "with many blocks on it", false, {[COLUMN_##gpu] = (many)}},             \
        {#name "_start", FIXED, "products", "of k: start and end of a block", false, {[COLUMN_##gpu] = (start)}},  \
        {#name "_empty", FIXED, "percent", "less time, with a tile outside C", false, {[COLUMN_##gpu] = (empty)}}, \
        {#name "_odd_a", FIXED, "percent", "more time, with odd rows of A", false, {[COLUMN_##gpu] = (odd_a)}},    \
        {#name "_odd_b", FIXED, "percent", "more time, with odd rows of B", false, {[COLUMN_##gpu] = (odd_b)}},
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
#undef SPEED
};

enum threshold_index {
#define CHOICE(name, ...) AT_##name,
#define SPLIT             CHOICE
#define SPEED(name, ...)                                                                                   \
    AT_##name, AT_##name##_one, AT_##name##_many, AT_##name##_start, AT_##name##_empty, AT_##name##_odd_a, \
        AT_##name##_odd_b,
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
#undef SPEED
    THRESHOLDS
};

_Static_assert((int)THRESHOLDS <= MAX_THRESHOLDS, "the buffers for a table's values have room for them");

const struct threshold_table matmul_threshold_table = {OP_matmul, THRESHOLDS, threshold_rows};

/* The row SPEED of a candidate: where its first value is. */
#define SPEED(name) AT_##name

/* What a block takes for a quarter of a tile of dmma_large, of which it loads all of the operands, as a share of
 * its time for a whole one: measured on an H200. */
static const double QUARTER_TIME = 0.39;

/* From here on wgmma_split is as accurate as sums in float32 for operands of every kind, those of the widest range
 * being the last: see test_tensor_cores.py. Below the other limit, rows of normal numbers may
 * have a wide range for wgmma_residues, which then sums in float64. */
enum { LEAST_K_OF_WGMMA_SPLIT = 512, LEAST_K_OF_RESIDUES = 2560 };

/* Tensor cores round sums towards zero: in so many steps of 16 products they may lose as much as TF32 and float16.
 */
enum { MAX_K_ON_TENSOR_CORES = 1 << 16 };
enum { MAX_K_OF_ONE_SUM = 8192, TINY = 16, MAX_SLICES = 256, PACK_BYTES = 16, SECTOR_BYTES = 32 };

enum {
    HALF = FLOAT16 | BFLOAT16,
    WORD_INTEGERS = INT8 | UINT8 | INT16 | UINT16 | INT32 | UINT32,
    LONG_INTEGERS = INT64 | UINT64,
    UP_TO_32_BITS = BOOL | HALF | FLOAT32
};

/* A kernel whose speed on a GPU has a row for each kind of type. */
#define FOR_EACH_TYPE(name, ...)                                                                     \
    OF_TYPE(name, name, BOOL | FLOAT32, __VA_ARGS__), OF_TYPE(name, name##_half, HALF, __VA_ARGS__), \
        OF_TYPE(name, name##_bytes, INT8 | UINT8, __VA_ARGS__),                                      \
        OF_TYPE(name, name##_shorts, INT16 | UINT16, __VA_ARGS__),                                   \
        OF_TYPE(name, name##_words, INT32 | UINT32, __VA_ARGS__),                                    \
        OF_TYPE(name, name##_longs, LONG_INTEGERS, __VA_ARGS__),                                     \
        OF_TYPE(name, name##_float64, FLOAT64, __VA_ARGS__), OF_TYPE(name, name##_complex, COMPLEX, __VA_ARGS__)
#define OF_TYPE(name, speed, types, rows, columns, max_k, ...)                            \
    {                                                                                     \
        ROW_matmul_##name, rows, columns, max_k, SPEED(speed), __VA_ARGS__, types, ALWAYS \
    }

/* matvec with several vectors: it takes 8 of them and 64 rows, or the columns of 32 packs, per block. */
#define ROWS_BY_VECTORS(type, depth, types)                                                                  \
    {                                                                                                        \
        ROW_matmul_matvec, 64, 8, 0, SPEED(rows_by_vectors_##type), 256, depth, 0, 0, 0, 0, types, MORE_ROWS \
    }
#define COLUMNS_BY_VECTORS(speed, columns, types)                                                \
    {                                                                                            \
        ROW_matmul_matvec, 8, columns, 0, SPEED(speed), 256, 32, 0, 0, 0, 0, types, MORE_COLUMNS \
    }

/* The executor's times are those of a Zen 4. */
const struct candidate matmul_candidates[] = {
    FOR_EACH_TYPE(tiled, 32, 32, 0, 1024, 32, 73, 0, 0, 0),
    {ROW_matmul_simt_large, 128, 128, 0, SPEED(simt_large), 256, 16, 265, 0, 0, 0, UP_TO_32_BITS, ALWAYS},
    {ROW_matmul_simt_large, 128, 128, 0, SPEED(simt_large_words), 256, 16, 265, 0, 0, 0, WORD_INTEGERS, ALWAYS},
    {ROW_matmul_pipelined_large, 64, 128, 0, SPEED(pipelined_large), 128, 16, 0, 80, 0, 0, 0, ALWAYS},
    {ROW_matmul_pipelined_small, 32, 64, 0, SPEED(pipelined_small), 128, 64, 0, 80, 32, 0, 0, ALWAYS},
    {ROW_matmul_pipelined_batch, 64, 64, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch), 128, 32, 0, 80, 0, 0, 0,
     SEVERAL_TILES},
    {ROW_matmul_pipelined_batch, 64, 64, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch_single), 128, 32, 0, 80, 0, 0,
     0, ONE_TILE},
    {ROW_matmul_pipelined_batch, 32, 32, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch_narrow), 32, 32, 0, 80, 0, 0,
     0, SEVERAL_TILES},
    {ROW_matmul_pipelined_batch, 32, 32, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch_narrow_single), 32, 32, 0, 80,
     0, 0, 0, ONE_TILE},
    FOR_EACH_TYPE(simt, 64, 64, 0, 128, 16, 190, 0, 0, 0),
    {ROW_matmul_mma_large, 128, 256, 0, SPEED(mma_large_float32), 256, 32, 0, 80, 0, 0, FLOAT32, ALWAYS},
    {ROW_matmul_mma_large, 128, 256, 0, SPEED(mma_large_half), 256, 64, 0, 80, 0, 0, HALF, ALWAYS},
    {ROW_matmul_mma_large, 128, 128, 0, SPEED(mma_large_float64), 256, 16, 0, 80, 0, 0, FLOAT64, ALWAYS},
    {ROW_matmul_mma_small, 64, 64, 0, SPEED(mma_small_float32), 128, 32, 0, 80, 0, 0, FLOAT32, ALWAYS},
    {ROW_matmul_mma_small, 64, 64, 0, SPEED(mma_small_half), 128, 64, 0, 80, 0, 0, HALF, ALWAYS},
    {ROW_matmul_mma_small, 64, 64, 0, SPEED(mma_small_float64), 128, 16, 0, 80, 0, 0, FLOAT64, ALWAYS},
    {ROW_matmul_mma_split, 128, 128, 0, SPEED(mma_split), 256, 32, 0, 80, 0, 256, 0, ALWAYS},
    {ROW_matmul_wgmma_large, 128, 256, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_large), 384, 64, 0, 90, 0, 0, 0,
     THIN_TILES},
    {ROW_matmul_wgmma_small, 128, 64, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_small), 384, 64, 0, 90, 0, 0, 0,
     COPIES_ODD_ROWS},
    {ROW_matmul_wgmma_single, 128, 256, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_single), 384, 64, 0, 90, 0, 0, 0,
     ALWAYS},
    {ROW_matmul_wgmma_tf32, 128, 256, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_tf32), 384, 32, 0, 90, 0, 0, 0, ALWAYS},
    {ROW_matmul_wgmma_tf32_small, 64, 128, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_tf32_small), 256, 32, 0, 90, 0, 0, 0,
     ALWAYS},
    {ROW_matmul_wgmma_split, 128, 128, 0, SPEED(wgmma_split), 384, 64, 0, 90, 0, LEAST_K_OF_WGMMA_SPLIT, 0,
     ALWAYS},
    {ROW_matmul_wgmma_split_small, 128, 64, 0, SPEED(wgmma_split_small), 384, 64, 0, 90, 0, LEAST_K_OF_WGMMA_SPLIT,
     0, ALWAYS},
    {ROW_matmul_dmma_large, 128, 128, 0, SPEED(dmma_large), 384, 16, 0, 90, 0, 0, FLOAT64, QUARTERS},
    {ROW_matmul_dmma_small, 128, 64, 0, SPEED(dmma_small), 384, 16, 0, 90, 0, 0, FLOAT64, ALWAYS},
    {ROW_matmul_wgmma_residues, 128, 256, 0, SPEED(wgmma_residues), 384, 128, 0, 90, 0, LEAST_K_OF_RESIDUES,
     FLOAT64, ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 256, 0, SPEED(wgmma_digits_bytes), 384, 128, 0, 90, 0, 0, INT8 | UINT8, ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 256, 0, SPEED(wgmma_digits_shorts), 384, 128, 0, 90, 0, 0, INT16 | UINT16,
     ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 256, 0, SPEED(wgmma_digits_words), 384, 128, 0, 90, 0, 0, INT32 | UINT32,
     ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 128, 0, SPEED(wgmma_digits_small_bytes), 384, 128, 0, 90, 0, 0,
     INT8 | UINT8, ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 128, 0, SPEED(wgmma_digits_small_shorts), 384, 128, 0, 90, 0, 0,
     INT16 | UINT16, ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 128, 0, SPEED(wgmma_digits_small_words), 384, 128, 0, 90, 0, 0,
     INT32 | UINT32, ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 128, 0, SPEED(wgmma_digits_longs), 384, 128, 0, 90, 0, 0, LONG_INTEGERS,
     ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 64, 0, SPEED(wgmma_digits_small_longs), 384, 128, 0, 90, 0, 0,
     LONG_INTEGERS, ALWAYS},
    {ROW_matmul_imma, 128, 128, 0, SPEED(imma), 128, 128, 0, 80, 0, 0, INT8 | UINT8, ALWAYS},
    {ROW_matmul_wgmma, 128, 128, 0, SPEED(wgmma_bytes), 128, 128, 0, 90, 0, 0, INT8 | UINT8, ALWAYS},
    FOR_EACH_TYPE(tiny, TINY, TINY, MAX_K_OF_ONE_SUM / 4, 32, 16, 120, 0, 0, 0),
    ROWS_BY_VECTORS(float32, 64, FLOAT32),
    ROWS_BY_VECTORS(half, 128, HALF),
    ROWS_BY_VECTORS(bytes, 256, BOOL | INT8 | UINT8),
    ROWS_BY_VECTORS(shorts, 128, INT16 | UINT16),
    ROWS_BY_VECTORS(words, 64, INT32 | UINT32),
    ROWS_BY_VECTORS(longs, 32, LONG_INTEGERS),
    ROWS_BY_VECTORS(float64, 32, FLOAT64),
    ROWS_BY_VECTORS(complex, 32, COMPLEX64),
    ROWS_BY_VECTORS(complex, 16, COMPLEX128),
    COLUMNS_BY_VECTORS(columns_by_vectors, 128, FLOAT32),
    COLUMNS_BY_VECTORS(columns_by_vectors_half, 256, HALF),
    COLUMNS_BY_VECTORS(columns_by_vectors_bytes, 256, BOOL | INT8 | UINT8),
    COLUMNS_BY_VECTORS(columns_by_vectors_shorts, 256, INT16 | UINT16),
    COLUMNS_BY_VECTORS(columns_by_vectors_words, 128, INT32 | UINT32),
    COLUMNS_BY_VECTORS(columns_by_vectors_longs, 64, LONG_INTEGERS),
    COLUMNS_BY_VECTORS(columns_by_vectors_float64, 64, FLOAT64),
    COLUMNS_BY_VECTORS(columns_by_vectors_complex, 64, COMPLEX64),
    COLUMNS_BY_VECTORS(columns_by_vectors_complex, 32, COMPLEX128),
    {ROW_matmul_tiled, 16, 16, MAX_K_OF_ONE_SUM, NO_SPEED, 256, 16, 50, 0, 0, 0, 0, ALWAYS},
    {ROW_matmul_tiled, 8, 8, MAX_K_OF_ONE_SUM, NO_SPEED, 64, 8, 39, 0, 0, 0, 0, ALWAYS},
    {ROW_matmul_tiled, 4, 4, MAX_K_OF_ONE_SUM, NO_SPEED, 16, 4, 34, 0, 0, 0, 0, ALWAYS},
    {ROW_matmul_tiled, 2, 2, MAX_K_OF_ONE_SUM, NO_SPEED, 4, 2, 31, 0, 0, 0, 0, ALWAYS},
    {.rows = 0},
};
#undef FOR_EACH_TYPE
#undef OF_TYPE
#undef ROWS_BY_VECTORS
#undef COLUMNS_BY_VECTORS
#undef SPEED

/* On the executor: nanoseconds to start a block and a fiber, for a pack of matvec, and for the shuffles or
 * barriers of a thread. */
static const double CPU_BLOCK_NS = 300, CPU_THREAD_NS = 60, CPU_PACK_NS = 13, CPU_EXCHANGE_NS = 250;

/* How many products a kernel makes of one, with other blocks for each. */
static int products_of(const struct candidate *candidate)
{
    return kernel_rows[candidate->kernel].traits & RESIDUES ? MATMUL_MODULI : 1;
}

/* The products of bytes for one of two integers: see wgmma_digits.cuh. */
static int digit_products(enum dtype dtype, struct matmul_size size)
{
    const int digits = size.of_bytes ? 1 : dtype_bytes(dtype);

    return digits * (digits + 1) / 2;
}

/* The time of a multiplication in this dtype, relative to that in which the candidate's speed is given. */
static double cost_of_dtype(const struct candidate *candidate, enum dtype dtype, struct matmul_size size)
{
    if (kernel_rows[candidate->kernel].traits & NARROW)
        return digit_products(dtype, size);
    return dtype == COMPLEX128 ? 2 : 1;
}

/* Whether rows of so many elements, in C order, are multiples of `grain` bytes: of 16, which packs and the TMA
 * copy, or of 32, of which the TMA has fewer sectors to read. Bytes stay bytes for a NARROW kernel only. */
static bool rows_are_grains(const struct candidate *candidate, enum dtype dtype, struct matmul_size size,
                            npy_intp length, int grain)
{
    const bool narrow = kernel_rows[candidate->kernel].traits & NARROW;

    return length * (narrow && size.of_bytes ? 1 : dtype_bytes(dtype)) % grain == 0;
}

/* Whether the TMA copies operands from where they are, unless odd rows have been copied to others first. */
static bool multiplies_in_place(const struct candidate *candidate)
{
    return candidate->rule == COPIES_ODD_ROWS || candidate->rule == THIN_TILES;
}

/* Whether the kernel copies both operands before it multiplies them. Its launcher has this rule for operands
 * anywhere in memory; these are in C order. */
static bool copies_operands(const struct candidate *candidate, enum dtype dtype, struct matmul_size size)
{
    const bool odd = !rows_are_grains(candidate, dtype, size, size.k, PACK_BYTES) ||
                     !rows_are_grains(candidate, dtype, size, size.n, PACK_BYTES);

    return multiplies_in_place(candidate) && odd;
}

/* Of the operands as a kernel reads them: `narrow` ones stay bytes. */
static double bytes_of_operands(enum dtype dtype, struct matmul_size size, bool narrow)
{
    return (double)size.batches * (narrow && size.of_bytes ? 1 : dtype_bytes(dtype)) *
           ((double)size.m + (double)size.n) * (double)size.k;
}

static double bytes_of_result(enum dtype dtype, struct matmul_size size)
{
    return (double)size.batches * dtype_bytes(dtype) * (double)size.m * (double)size.n;
}

static double bytes_of(enum dtype dtype, struct matmul_size size)
{
    return bytes_of_operands(dtype, size, false) + bytes_of_result(dtype, size);
}

enum { /* the values of a row SPEED, after the nanoseconds of a launch */
       ONE = AT_tiled_one - AT_tiled,
       MANY = AT_tiled_many - AT_tiled,
       START = AT_tiled_start - AT_tiled,
       EMPTY = AT_tiled_empty - AT_tiled,
       ODD_A = AT_tiled_odd_a - AT_tiled,
       ODD_B = AT_tiled_odd_b - AT_tiled
};

/* How long a multiprocessor takes for `blocks` of them, in microseconds for every million operations of a block.
 * The first shows its whole latency, and each of many takes as long as its operations; in between the two hide
 * each other in part, as the legs of a right triangle add up. Where one is faster than many, it has to itself what
 * they share. */
static double time_per_operation(const int64_t *speeds, double blocks)
{
    const double one = 1000 / (double)speeds[ONE], many = 1000 / (double)speeds[MANY];

    if (blocks <= 1)
        return blocks * one;
    if (one <= many)
        return one + (blocks - 1) * many;
    return sqrt(blocks * many * blocks * many + one * one - many * many);
}

/* A time of the table in microseconds. */
static double time_of(const struct target *target, enum threshold_index index)
{
    return (double)target->limits[index] / 1000;
}

/* The share of a tile that is within a C with fewer rows or columns. */
static double filled_share(int length, npy_intp n)
{
    return n < length ? (double)n / length : 1;
}

/* By how much longer a block takes where rows of the operands are odd. If those of both are, half of the lesser
 * cost is hidden. */
static double odd_rows_factor(const struct candidate *candidate, const int64_t *speeds, enum dtype dtype,
                              struct matmul_size size)
{
    const int grain = multiplies_in_place(candidate) ? SECTOR_BYTES : PACK_BYTES;
    const double odd_a = rows_are_grains(candidate, dtype, size, size.k, grain) ? 0 : (double)speeds[ODD_A];
    const double odd_b = rows_are_grains(candidate, dtype, size, size.n, grain) ? 0 : (double)speeds[ODD_B];

    if (copies_operands(candidate, dtype, size))
        return 1;
    return 1 + (odd_a > odd_b ? odd_a + odd_b / 2 : odd_b + odd_a / 2) / 100;
}

/* The time of the block with the most work, in that of a tile of so many columns: `rows` rows of tiles, n columns.
 * That clusters round full rows to even numbers, and that C may have fewer columns than a thin tile, is left to
 * the fit. */
static double waves_of_tiles(const struct candidate *candidate, int multiprocessors, double rows, npy_intp n,
                             int columns)
{
    const double tiles = rows * (double)divide_up(n, columns);

    if (candidate->rule == THIN_TILES)
        return matmul_choose_widths((int64_t)rows, n, columns, multiprocessors, 1).waves;
    if (candidate->rule == QUARTERS && matmul_quartered_tiles((int64_t)tiles, multiprocessors) > 0)
        return (double)((npy_intp)tiles / multiprocessors) + QUARTER_TIME;
    return (double)divide_up((npy_intp)tiles, multiprocessors);
}

/* Microseconds of the blocks of the multiprocessor that has the most, with k in `slices`. */
static double time_of_blocks(const struct candidate *candidate, const struct target *target, enum dtype dtype,
                             struct matmul_size size, npy_intp slices)
{
    const int64_t *limits = target->limits, *speeds = &limits[candidate->speed];
    const int multiprocessors = target->device->multiprocessors;
    const double rows = (double)size.batches * (double)slices * products_of(candidate) *
                        (double)divide_up(size.m, candidate->rows);
    const double tiles = rows * (double)divide_up(size.n, candidate->columns);
    const bool few = candidate->few_columns && 2 * tiles <= multiprocessors;
    const int columns = few ? candidate->few_columns : candidate->columns;
    const double waves = few ? 1 : waves_of_tiles(candidate, multiprocessors, rows, size.n, columns);
    const npy_intp steps = divide_up(divide_up(size.k, slices), candidate->depth);
    const double along_k = (double)(steps * candidate->depth + speeds[START]);
    const double filled = filled_share(candidate->rows, size.m) * filled_share(columns, size.n);
    const double saved = (1 - filled) * (double)speeds[EMPTY] / 100;
    const double operations = 2e-6 * candidate->rows * columns * along_k * (1 - saved);
    const bool odd_c = size.n * dtype_bytes(dtype) % PACK_BYTES != 0;
    const double stored_alone = odd_c ? waves * filled * candidate->rows * columns : 0;

    return operations * cost_of_dtype(candidate, dtype, size) * odd_rows_factor(candidate, speeds, dtype, size) *
               time_per_operation(speeds, waves) +
           stored_alone * (double)limits[AT_odd_store] * 1e-6;
}

/* Microseconds on a GPU with k in `slices`: of the blocks and of memory, half of the shorter of which is hidden.
 */
static double gpu_time(const struct candidate *candidate, const struct target *target, enum dtype dtype,
                       struct matmul_size size, npy_intp slices)
{
    const int64_t *limits = target->limits;
    const unsigned traits = kernel_rows[candidate->kernel].traits;
    const double operands = bytes_of_operands(dtype, size, traits & NARROW), result = bytes_of_result(dtype, size);
    const double compute = time_of_blocks(candidate, target, dtype, size, slices);
    const double memory = (operands + result) / (double)limits[AT_memory_bytes];
    double time =
        time_of(target, candidate->speed) + (compute > memory ? compute + memory / 2 : memory + compute / 2);

    if (copies_operands(candidate, dtype, size))
        time += time_of(target, AT_copy_rows) + operands / (double)limits[AT_copied_bytes];
    if (traits & NARROW && traits & PARTS)
        time += time_of(target, AT_store_digits) + operands / (double)limits[AT_digit_bytes];
    else if (traits & RESIDUES)
        time += time_of(target, AT_residue_passes) + (operands + result) / (double)limits[AT_residue_bytes];
    else if (dtype == FLOAT32 && traits & PARTS)
        time += time_of(target, AT_split_parts) + operands / (double)limits[AT_split_bytes];
    if (slices > 1)
        time += time_of(target, AT_add_slices) + 2 * result * (double)slices / (double)limits[AT_memory_bytes];
    return time;
}

/* Microseconds of matvec with one vector and operands in C order, limited by memory if there are enough blocks to
 * saturate it: 6 per multiprocessor by rows, 2 by columns. */
static double gpu_one_vector_time(const struct target *target, enum dtype dtype, struct matmul_size size,
                                  npy_intp slices)
{
    enum { ROWS = 8, LANES = 32 };
    const bool by_rows = size.n <= size.m;
    const npy_intp columns = LANES * PACK_BYTES / dtype_bytes(dtype);
    const npy_intp groups = by_rows ? divide_up(size.m, ROWS) : divide_up(size.n, columns);
    const int saturating = (by_rows ? 6 : 2) * target->device->multiprocessors;
    const double share = (double)(size.batches * groups * slices) / saturating;
    const double rate = (double)target->limits[AT_memory_bytes] * (share < 1 ? share : 1);

    return time_of(target, AT_one_vector) + bytes_of(dtype, size) / rate +
           (slices > 1 ? time_of(target, AT_add_slices) : 0);
}

/* The executor's time for all blocks, in nanoseconds. Each thread is a fiber that is started and takes a step for
 * each pair of tiles, even if its element is outside C. */
static double cpu_time(const struct candidate *candidate, struct matmul_size size)
{
    const double blocks = (double)size.batches * (double)divide_up(size.m, candidate->rows) *
                          (double)divide_up(size.n, candidate->columns);
    const double steps = (double)divide_up(size.k, candidate->depth);

    return blocks * (CPU_BLOCK_NS + candidate->threads * (CPU_THREAD_NS + steps * candidate->step_ns));
}

/* The executor's time of matvec with operands in C order. A large A is read along k: with one vector by groups of
 * threads that exchange their sums, with several by blocks that take a stage after the other. A large B is read by
 * columns. */
static double cpu_matvec_time(struct matmul_size size)
{
    enum {
        PACK = 4,
        SHORT_K = 512,
        GROUP = 32,
        BLOCK = 256,
        COLUMNS = 128,
        ROWS = 64,
        DEPTH = 64,
        STAGE_NS = 150
    };
    const bool by_rows = size.n <= size.m, one = (by_rows ? size.n : size.m) == 1;
    const npy_intp rows = by_rows ? size.m : size.n;
    const double packs = (double)size.batches * (double)rows * (double)divide_up(size.k, PACK) * CPU_PACK_NS;
    const double groups = (double)size.batches * (double)(by_rows ? rows : divide_up(rows, COLUMNS));

    if (by_rows && !one)
        return (double)size.batches * (double)divide_up(rows, ROWS) * BLOCK *
               (CPU_THREAD_NS + (double)divide_up(size.k, DEPTH) * STAGE_NS);
    return packs + groups * (size.k <= SHORT_K && by_rows ? GROUP : BLOCK) * CPU_EXCHANGE_NS;
}

/* The least predicted time; *slices is the number of slices that gives it. */
double best_time(const struct candidate *candidate, const struct target *target, enum dtype dtype,
                 struct matmul_size size, npy_intp *slices)
{
    const struct kernel_row *row = &kernel_rows[candidate ? candidate->kernel : ROW_matmul_matvec];
    const npy_intp max = row->traits & SLICES ? size.k / (2 * SLICE_MULTIPLE) : 1;
    double least;

    *slices = 1;
    if (device_is_host(target->device)) { /* slices occupy all workers */
        if (row->traits & SLICES)
            *slices = divide_up(size.k, MAX_K_OF_ONE_SUM) < MAX_SLICES ? divide_up(size.k, MAX_K_OF_ONE_SUM)
                                                                       : MAX_SLICES;
        return candidate ? cpu_time(candidate, size) : cpu_matvec_time(size);
    }
    least = candidate ? gpu_time(candidate, target, dtype, size, 1) : gpu_one_vector_time(target, dtype, size, 1);
    for (npy_intp s = 2; s <= max && s <= MAX_SLICES; s *= 2) {
        const double time =
            candidate ? gpu_time(candidate, target, dtype, size, s) : gpu_one_vector_time(target, dtype, size, s);

        if (time < least) {
            least = time;
            *slices = s;
        }
    }
    return least;
}

bool has_one_vector(struct matmul_size size)
{
    return size.m == 1 || size.n == 1;
}

/* Whether pipelined_batch takes its tiles of 32 x 32: its launcher has the same rule. */
static bool takes_narrow_tiles(struct matmul_size size)
{
    return divide_up(size.m, 32) * divide_up(size.n, 32) <= 2 * divide_up(size.m, 64) * divide_up(size.n, 64);
}

bool is_about(const struct candidate *candidate, const struct device *device, enum dtype dtype,
              struct matmul_size size)
{
    if (!device_is_host(device) && candidate->speed == NO_SPEED)
        return false;
    if (candidate->kernel == ROW_matmul_matvec && has_one_vector(size))
        return false; /* see gpu_one_vector_time */
    if (candidate->kernel == ROW_matmul_pipelined_batch && (candidate->rows == 32) != takes_narrow_tiles(size))
        return false;
    if (candidate->rule == (size.m >= size.n ? MORE_COLUMNS : MORE_ROWS) ||
        candidate->rule == (size.m <= candidate->rows && size.n <= candidate->columns ? SEVERAL_TILES : ONE_TILE))
        return false;
    return kernel_rows[candidate->kernel].dtypes & dtype && (!candidate->dtypes || candidate->dtypes & dtype);
}
