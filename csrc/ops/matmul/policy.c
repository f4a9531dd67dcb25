/* The policy of matmul: the kernel, and the number of slices of k, with the least predicted time. */
#include "python/state.h"

#include <string.h>

#include "base/table.h"
#include "call/choice.h"
#include "device/device.h"
#include "kernels.h"
#include "matmul.h"
#include "ops/thresholds.h"
#include "python/dtypes.h"

static const struct threshold threshold_rows[] = {
#define CHOICE(name, scale, unit, columns, why) {#name, scale, unit, why, true, {columns}},
#define SPLIT(name, scale, unit, columns, why)  {#name, scale, unit, why, false, {columns}},
#define SPEED(name, gpu, launch, one, full, blocks, start, odd_a, odd_b)                                          \
    {#name "_launch", FIXED, "nanoseconds", "of a launch", false, {[COLUMN_##gpu] = (launch)}},                   \
        {#name "_one", FIXED, "GFLOP/s", "with one block on a multiprocessor", false, {[COLUMN_##gpu] = (one)}},  \
        {#name "_full", FIXED, "GFLOP/s", "with all the blocks that it needs", false, {[COLUMN_##gpu] = (full)}}, \
        {#name "_blocks", FIXED, "blocks", "that reach this speed", false, {[COLUMN_##gpu] = (blocks)}},          \
        {#name "_start", FIXED, "products", "of k: start and end of a block", false, {[COLUMN_##gpu] = (start)}}, \
        {#name "_odd_a", FIXED, "percent", "more time, with odd rows of A", false, {[COLUMN_##gpu] = (odd_a)}},   \
        {#name "_odd_b", FIXED, "percent", "more time, with odd rows of B", false, {[COLUMN_##gpu] = (odd_b)}},
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
#undef SPEED
};

enum threshold_index {
#define CHOICE(name, ...) AT_##name,
#define SPLIT             CHOICE
#define SPEED(name, ...)                                                                                    \
    AT_##name, AT_##name##_one, AT_##name##_full, AT_##name##_blocks, AT_##name##_start, AT_##name##_odd_a, \
        AT_##name##_odd_b,
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
#undef SPEED
    THRESHOLDS
};

_Static_assert((int)THRESHOLDS <= MAX_THRESHOLDS, "the buffers for a table's values have room for them");

const struct threshold_table matmul_threshold_table = {OP_matmul, THRESHOLDS, threshold_rows};

/* A device with its thresholds; a host has none. */
struct target {
    const struct device *device;
    int64_t limits[THRESHOLDS];
};

/* The row SPEED of a candidate: where its first value is. */
#define SPEED(name) AT_##name
#define NO_SPEED    THRESHOLDS /* not on a GPU */

/* A kernel with its tile of C per block, its limits and its speed. */
struct candidate {
    enum kernel_index kernel;
    int rows, columns; /* of a block's tile of C; tiny: a warp's */
    npy_intp max_k;    /* 0: any; longer sums would lose accuracy, because the kernel adds them up in one float */
    enum threshold_index speed;
    int threads;     /* per block */
    int depth;       /* products per element between two barriers: a step */
    double step_ns;  /* the executor's time for a step of one thread; 0: not on the CPU device */
    int capability;  /* the least that pays: 80 has asynchronous copies */
    int few_columns; /* columns of a tile if more than half of the multiprocessors would have none; 0: unchanged */
    int min_n;       /* fewer columns leave most of a tile empty */
    int min_k;       /* shorter sums are more accurate otherwise */
    unsigned dtypes; /* for which this holds; 0: all of the kernel's */
    enum {
        ALWAYS,
        MORE_ROWS,       /* it is about a C with at least as many rows as columns */
        MORE_COLUMNS,    /* or with more columns */
        ONE_TILE,        /* it is about a C of one tile, for which indices are not divided */
        SEVERAL_TILES,   /* or of several */
        COPIES_ODD_ROWS, /* operands whose rows are not multiples of 16 bytes are copied first */
        QUARTERS,        /* the last tiles are divided into quarters if these keep no block waiting */
    } rule;
};

/* What a block takes for a quarter of a tile, of which it loads all of the operands, as a share of its time for a
 * whole one: measured on an H200. The launcher in dmma.cuh has the same rule. */
static const double QUARTER_TIME = 0.39;

/* From here on wgmma_split is as accurate as sums in float32 for operands of every kind, those of the widest range
 * being the last: see test_tensor_cores.py. Below the other limit, rows of normal numbers may
 * have a wide range for wgmma_residues, which then sums in float64. */
enum { LEAST_K_OF_WGMMA_SPLIT = 512, LEAST_K_OF_RESIDUES = 2560 };

/* Tensor cores round sums towards zero: in so many steps of 16 products they may lose as much as TF32 and float16.
 */
enum { MAX_K_ON_TENSOR_CORES = 1 << 16 };
enum { MAX_K_OF_ONE_SUM = 8192, MAX_VECTORS = 8, TINY = 16, MAX_SLICES = 256, SLICE_MULTIPLE = 32 };

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
#define ROWS_BY_VECTORS(type, depth, types)                                                                     \
    {                                                                                                           \
        ROW_matmul_matvec, 64, 8, 0, SPEED(rows_by_vectors_##type), 256, depth, 0, 0, 0, 0, 0, types, MORE_ROWS \
    }
#define COLUMNS_BY_VECTORS(speed, columns, types)                                                   \
    {                                                                                               \
        ROW_matmul_matvec, 8, columns, 0, SPEED(speed), 256, 32, 0, 0, 0, 0, 0, types, MORE_COLUMNS \
    }

/* The executor's times are those of a Zen 4. */
static const struct candidate candidates[] = {
    FOR_EACH_TYPE(tiled, 32, 32, 0, 1024, 32, 73, 0, 0, 0, 0),
    {ROW_matmul_simt_large, 128, 128, 0, SPEED(simt_large), 256, 16, 265, 0, 0, 0, 0, UP_TO_32_BITS, ALWAYS},
    {ROW_matmul_simt_large, 128, 128, 0, SPEED(simt_large_words), 256, 16, 265, 0, 0, 0, 0, WORD_INTEGERS, ALWAYS},
    {ROW_matmul_pipelined_large, 64, 128, 0, SPEED(pipelined_large), 128, 16, 0, 80, 0, 64, 0, 0, ALWAYS},
    {ROW_matmul_pipelined_small, 32, 64, 0, SPEED(pipelined_small), 128, 64, 0, 80, 32, 32, 0, 0, ALWAYS},
    {ROW_matmul_pipelined_batch, 64, 64, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch), 128, 32, 0, 80, 0, 0, 0, 0,
     SEVERAL_TILES},
    {ROW_matmul_pipelined_batch, 64, 64, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch_single), 128, 32, 0, 80, 0, 0,
     0, 0, ONE_TILE},
    {ROW_matmul_pipelined_batch, 32, 32, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch_narrow), 32, 32, 0, 80, 0, 0,
     0, 0, SEVERAL_TILES},
    {ROW_matmul_pipelined_batch, 32, 32, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch_narrow_single), 32, 32, 0, 80,
     0, 0, 0, 0, ONE_TILE},
    FOR_EACH_TYPE(simt, 64, 64, 0, 128, 16, 190, 0, 0, 0, 0),
    {ROW_matmul_mma_large, 128, 256, 0, SPEED(mma_large_float32), 256, 32, 0, 80, 0, 128, 0, FLOAT32, ALWAYS},
    {ROW_matmul_mma_large, 128, 256, 0, SPEED(mma_large_half), 256, 64, 0, 80, 0, 128, 0, HALF, ALWAYS},
    {ROW_matmul_mma_large, 128, 128, 0, SPEED(mma_large_float64), 256, 16, 0, 80, 0, 64, 0, FLOAT64, ALWAYS},
    {ROW_matmul_mma_small, 64, 64, 0, SPEED(mma_small_float32), 128, 32, 0, 80, 0, 0, 0, FLOAT32, ALWAYS},
    {ROW_matmul_mma_small, 64, 64, 0, SPEED(mma_small_half), 128, 64, 0, 80, 0, 0, 0, HALF, ALWAYS},
    {ROW_matmul_mma_small, 64, 64, 0, SPEED(mma_small_float64), 128, 16, 0, 80, 0, 0, 0, FLOAT64, ALWAYS},
    {ROW_matmul_mma_split, 128, 128, 0, SPEED(mma_split), 256, 32, 0, 80, 0, 64, 256, 0, ALWAYS},
    {ROW_matmul_wgmma_large, 128, 256, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_large), 384, 64, 0, 90, 0, 0, 0, 0,
     COPIES_ODD_ROWS},
    {ROW_matmul_wgmma_small, 128, 64, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_small), 384, 64, 0, 90, 0, 0, 0, 0,
     COPIES_ODD_ROWS},
    {ROW_matmul_wgmma_single, 128, 256, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_single), 384, 64, 0, 90, 0, 0, 0, 0,
     ALWAYS},
    {ROW_matmul_wgmma_tf32, 128, 256, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_tf32), 384, 32, 0, 90, 0, 0, 0, 0,
     ALWAYS},
    {ROW_matmul_wgmma_tf32_small, 64, 128, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_tf32_small), 256, 32, 0, 90, 0, 0, 0,
     0, ALWAYS},
    {ROW_matmul_wgmma_split, 128, 128, 0, SPEED(wgmma_split), 384, 64, 0, 90, 0, 0, LEAST_K_OF_WGMMA_SPLIT, 0,
     ALWAYS},
    {ROW_matmul_wgmma_split_small, 128, 64, 0, SPEED(wgmma_split_small), 384, 64, 0, 90, 0, 0,
     LEAST_K_OF_WGMMA_SPLIT, 0, ALWAYS},
    {ROW_matmul_dmma_large, 128, 128, 0, SPEED(dmma_large), 384, 16, 0, 90, 0, 0, 0, FLOAT64, QUARTERS},
    {ROW_matmul_dmma_small, 128, 64, 0, SPEED(dmma_small), 384, 16, 0, 90, 0, 0, 0, FLOAT64, ALWAYS},
    {ROW_matmul_wgmma_residues, 128, 256, 0, SPEED(wgmma_residues), 384, 128, 0, 90, 0, 0, LEAST_K_OF_RESIDUES,
     FLOAT64, ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 256, 0, SPEED(wgmma_digits_bytes), 384, 128, 0, 90, 0, 0, 0, INT8 | UINT8,
     ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 256, 0, SPEED(wgmma_digits_shorts), 384, 128, 0, 90, 0, 0, 0, INT16 | UINT16,
     ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 256, 0, SPEED(wgmma_digits_words), 384, 128, 0, 90, 0, 0, 0, INT32 | UINT32,
     ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 128, 0, SPEED(wgmma_digits_small_bytes), 384, 128, 0, 90, 0, 0, 0,
     INT8 | UINT8, ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 128, 0, SPEED(wgmma_digits_small_shorts), 384, 128, 0, 90, 0, 0, 0,
     INT16 | UINT16, ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 128, 0, SPEED(wgmma_digits_small_words), 384, 128, 0, 90, 0, 0, 0,
     INT32 | UINT32, ALWAYS},
    {ROW_matmul_wgmma_digits, 128, 128, 0, SPEED(wgmma_digits_longs), 384, 128, 0, 90, 0, 0, 0, LONG_INTEGERS,
     ALWAYS},
    {ROW_matmul_wgmma_digits_small, 128, 64, 0, SPEED(wgmma_digits_small_longs), 384, 128, 0, 90, 0, 0, 0,
     LONG_INTEGERS, ALWAYS},
    {ROW_matmul_imma, 128, 128, 0, SPEED(imma), 128, 128, 0, 80, 0, 0, 0, INT8 | UINT8, ALWAYS},
    {ROW_matmul_wgmma, 128, 128, 0, SPEED(wgmma_bytes), 128, 128, 0, 90, 0, 0, 0, INT8 | UINT8, ALWAYS},
    FOR_EACH_TYPE(tiny, TINY, TINY, MAX_K_OF_ONE_SUM / 4, 32, 16, 120, 0, 0, 0, 0),
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
    {ROW_matmul_tiled, 16, 16, MAX_K_OF_ONE_SUM, NO_SPEED, 256, 16, 50, 0, 0, 0, 0, 0, ALWAYS},
    {ROW_matmul_tiled, 8, 8, MAX_K_OF_ONE_SUM, NO_SPEED, 64, 8, 39, 0, 0, 0, 0, 0, ALWAYS},
    {ROW_matmul_tiled, 4, 4, MAX_K_OF_ONE_SUM, NO_SPEED, 16, 4, 34, 0, 0, 0, 0, 0, ALWAYS},
    {ROW_matmul_tiled, 2, 2, MAX_K_OF_ONE_SUM, NO_SPEED, 4, 2, 31, 0, 0, 0, 0, 0, ALWAYS},
};
#undef FOR_EACH_TYPE
#undef OF_TYPE
#undef ROWS_BY_VECTORS
#undef COLUMNS_BY_VECTORS
#undef SPEED
#undef NO_SPEED

enum { CANDIDATES = sizeof candidates / sizeof *candidates };

/* On the executor: nanoseconds to start a block and a fiber, for a pack of matvec, and for the shuffles or
 * barriers of a thread. */
static const double CPU_BLOCK_NS = 300, CPU_THREAD_NS = 60, CPU_PACK_NS = 13, CPU_EXCHANGE_NS = 250;

static npy_intp divide_up(npy_intp n, npy_intp d)
{
    return (n + d - 1) / d;
}

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

/* Whether rows of so many elements, in C order, are multiples of 16 bytes, which is what packs and the TMA copy.
 * Bytes stay bytes for a NARROW kernel only. */
static bool has_packs(const struct candidate *candidate, enum dtype dtype, struct matmul_size size,
                      npy_intp length)
{
    enum { PACK_BYTES = 16 };
    const bool narrow = kernel_rows[candidate->kernel].traits & NARROW;

    return length * (narrow && size.of_bytes ? 1 : dtype_bytes(dtype)) % PACK_BYTES == 0;
}

/* Whether the rows of A and of B are. */
static bool rows_are_packs(const struct candidate *candidate, enum dtype dtype, struct matmul_size size)
{
    return has_packs(candidate, dtype, size, size.k) && has_packs(candidate, dtype, size, size.n);
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
       FULL = AT_tiled_full - AT_tiled,
       BLOCKS = AT_tiled_blocks - AT_tiled,
       START = AT_tiled_start - AT_tiled,
       ODD_A = AT_tiled_odd_a - AT_tiled,
       ODD_B = AT_tiled_odd_b - AT_tiled
};

/* TFLOP/s of a multiprocessor with this many resident blocks: interpolated linearly. */
static double speed_of(const struct candidate *candidate, const struct target *target, npy_intp blocks)
{
    const double one = (double)target->limits[candidate->speed + ONE] / 1000;
    const double full = (double)target->limits[candidate->speed + FULL] / 1000;
    const npy_intp more = target->limits[candidate->speed + BLOCKS] - 1;
    const double share = blocks > more ? 1 : (double)(blocks - 1) / (double)more;

    return one + share * (full - one);
}

/* A time of the table in microseconds. */
static double time_of(const struct target *target, enum threshold_index index)
{
    return (double)target->limits[index] / 1000;
}

/* Microseconds of the blocks of the multiprocessor that has the most, with k in `slices`. */
static double time_of_blocks(const struct candidate *candidate, const struct target *target, enum dtype dtype,
                             struct matmul_size size, npy_intp slices)
{
    const int64_t *speeds = &target->limits[candidate->speed];
    const int multiprocessors = target->device->multiprocessors;
    const double tiles = (double)size.batches * (double)slices * products_of(candidate) *
                         (double)divide_up(size.m, candidate->rows) *
                         (double)divide_up(size.n, candidate->columns);
    const bool few = candidate->few_columns && 2 * tiles <= multiprocessors;
    const int columns = few ? candidate->few_columns : candidate->columns;
    const npy_intp most = few ? 1 : divide_up((npy_intp)tiles, multiprocessors);
    const npy_intp last = (npy_intp)tiles % multiprocessors; /* tiles of a round that is not full */
    const bool quarters = candidate->rule == QUARTERS && last > 0 && 4 * last <= multiprocessors;
    const double rounds = quarters ? (double)most - 1 + QUARTER_TIME : (double)most;
    const npy_intp steps = divide_up(divide_up(size.k, slices), candidate->depth);
    const double along_k = (double)(steps * candidate->depth + speeds[START]);
    const double products = rounds * candidate->rows * columns * along_k;
    double percent = 100;

    if (candidate->rule != COPIES_ODD_ROWS) {
        percent += has_packs(candidate, dtype, size, size.k) ? 0 : (double)speeds[ODD_A];
        percent += has_packs(candidate, dtype, size, size.n) ? 0 : (double)speeds[ODD_B];
    }
    return products * 2e-8 * percent * cost_of_dtype(candidate, dtype, size) / speed_of(candidate, target, most);
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

    if (candidate->rule == COPIES_ODD_ROWS && !rows_are_packs(candidate, dtype, size)) /* it copies both */
        time += time_of(target, AT_copy_rows) + operands / (double)limits[AT_copied_bytes];
    if (candidate->rule == COPIES_ODD_ROWS && !has_packs(candidate, dtype, size, size.n))
        time += result / (double)limits[AT_odd_result_bytes];
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
    enum { ROWS = 8, PACK_BYTES = 16, LANES = 32 };
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
static double best_time(const struct candidate *candidate, const struct target *target, enum dtype dtype,
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

static npy_intp slice_length(npy_intp k, npy_intp slices)
{
    return slices == 1 ? k : divide_up(divide_up(k, slices), SLICE_MULTIPLE) * SLICE_MULTIPLE;
}

static bool has_one_vector(struct matmul_size size)
{
    return size.m == 1 || size.n == 1;
}

/* Whether pipelined_batch takes its tiles of 32 x 32: its launcher has the same rule. */
static bool takes_narrow_tiles(struct matmul_size size)
{
    return divide_up(size.m, 32) * divide_up(size.n, 32) <= 2 * divide_up(size.m, 64) * divide_up(size.n, 64);
}

/* Whether the candidate's speed is that of its kernel on this problem. */
static bool is_about(const struct candidate *candidate, enum dtype dtype, struct matmul_size size)
{
    if (candidate->kernel == ROW_matmul_matvec && has_one_vector(size))
        return false; /* see gpu_one_vector_time */
    if (candidate->kernel == ROW_matmul_pipelined_batch && (candidate->rows == 32) != takes_narrow_tiles(size))
        return false;
    if (candidate->rule == (size.m >= size.n ? MORE_COLUMNS : MORE_ROWS) ||
        candidate->rule == (size.m <= candidate->rows && size.n <= candidate->columns ? SEVERAL_TILES : ONE_TILE))
        return false;
    return kernel_rows[candidate->kernel].dtypes & dtype && (!candidate->dtypes || candidate->dtypes & dtype);
}

/* Whether a kernel without ANY_STRIDES reads the operands as they are. Others are converted first, by launches
 * that the predicted time does not have; and where the TMA cannot copy rows, its elements are copied one by one.
 */
static bool can_be_read(const struct candidate *candidate, enum dtype dtype, struct matmul_size size)
{
    return size.c_order && (candidate->capability < 90 || rows_are_packs(candidate, dtype, size));
}

static bool supports(const struct candidate *candidate, const struct device *device, enum dtype dtype,
                     enum precision precision, struct matmul_size size)
{
    const struct kernel_row *row = &kernel_rows[candidate->kernel];

    if (size.from_host && row->traits & RESIDUES)
        return false; /* it would store the residues of b again for each part: 1.3 times as slow at n = 12,288 */
    return is_about(candidate, dtype, size) &&
           (!(row->traits & PARTS) || parts_fit(row, size.of_bytes ? INT8 : dtype, size)) &&
           (dtype != FLOAT32 || !(row->traits & TF32) || precision != HIGHEST) &&
           kernel_may_be_chosen(device, candidate->kernel, dtype) && size.n >= candidate->min_n &&
           (device_is_host(device) || row->traits & ANY_STRIDES || can_be_read(candidate, dtype, size)) &&
           size.k >= candidate->min_k &&
           (!candidate->max_k || size.k <= candidate->max_k || !(dtype & (FLOATING | COMPLEX))) &&
           (device_is_host(device) ? candidate->step_ns > 0 : candidate->speed != THRESHOLDS) &&
           candidate->capability <= device->capability;
}

static struct target target_of(const struct device *device)
{
    struct target target = {.device = device};

    if (!device_is_host(device))
        read_thresholds(&matmul_threshold_table, device, target.limits);
    return target;
}

struct matmul_choice choose_matmul_kernel(const struct device *device, enum dtype dtype, enum precision precision,
                                          struct matmul_size size)
{
    const struct target target = target_of(device);
    struct matmul_choice choice = {.row = NULL};
    const bool on_host = device_is_host(device);
    double least = 0;
    npy_intp slices;

    if ((on_host ? (size.m < size.n ? size.m : size.n) <= MAX_VECTORS : has_one_vector(size)) &&
        kernel_may_be_chosen(device, ROW_matmul_matvec, dtype)) {
        least = best_time(NULL, &target, dtype, size, &slices);
        choice = (struct matmul_choice){&kernel_rows[ROW_matmul_matvec], 0, slice_length(size.k, slices)};
        if (has_one_vector(size) && size.batches == 1 && !on_host)
            return choice; /* the others waste at least 15 of 16 rows or columns */
    }
    for (const struct candidate *candidate = candidates; candidate < candidates + CANDIDATES; candidate++) {
        double time;

        if (!supports(candidate, device, dtype, precision, size))
            continue;
        time = best_time(candidate, &target, dtype, size, &slices);
        if (choice.row && time >= least)
            continue;
        least = time;
        choice = (struct matmul_choice){
            &kernel_rows[candidate->kernel],
            candidate->kernel == ROW_matmul_tiled ? candidate->rows : 0,
            slice_length(size.k, slices),
        };
    }
    return choice;
}

/* The least predicted time of a kernel's candidates, or -1 if it has none; *slices is the number that gives it. */
static double time_of_kernel(const struct target *target, const struct kernel_row *row, enum dtype dtype,
                             struct matmul_size size, npy_intp *slices)
{
    double least = -1;

    *slices = 1;
    if (row->index == ROW_matmul_matvec && (has_one_vector(size) || device_is_host(target->device)))
        return best_time(NULL, target, dtype, size, slices);
    for (int i = 0; i < CANDIDATES; i++) {
        npy_intp divided;
        double time;

        if (candidates[i].kernel != row->index || !is_about(&candidates[i], dtype, size) ||
            (candidates[i].speed == THRESHOLDS && !device_is_host(target->device)))
            continue;
        time = best_time(&candidates[i], target, dtype, size, &divided);
        if (least < 0 || time < least) {
            least = time;
            *slices = divided;
        }
    }
    return least;
}

npy_intp choose_k_per_slice(const struct device *device, const struct kernel_row *row, enum dtype dtype,
                            struct matmul_size size)
{
    npy_intp slices = 1;

    if (row->traits & SLICES) {
        const struct target target = target_of(device);

        (void)time_of_kernel(&target, row, dtype, size, &slices);
    }
    return slice_length(size.k, slices);
}

npy_intp least_k_of_matmul(const struct kernel_row *row)
{
    for (int i = 0; i < CANDIDATES; i++)
        if (candidates[i].kernel == row->index)
            return candidates[i].min_k;
    return 0;
}

double predict_matmul_time(const struct device *device, const int64_t *limits, const struct kernel_row *row,
                           enum dtype dtype, struct matmul_size size)
{
    struct target target = {.device = device};
    npy_intp slices;

    memcpy(target.limits, limits, sizeof target.limits);
    return time_of_kernel(&target, row, dtype, size, &slices);
}
