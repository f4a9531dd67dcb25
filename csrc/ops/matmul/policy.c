/* The policy of matmul: the kernel, and the number of slices of k, with the least predicted time. */
#include "python/state.h"

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
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
};

enum threshold_index {
#define CHOICE(name, ...) AT_##name,
#define SPLIT             CHOICE
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
    THRESHOLDS
};

const struct threshold_table matmul_threshold_table = {OP_matmul, THRESHOLDS, threshold_rows};

/* A device with its thresholds; a host has none. */
struct target {
    const struct device *device;
    int64_t limits[THRESHOLDS];
};

/* Where the thresholds of a candidate are: GFLOP/s of a multiprocessor with one resident block, and with more; and
 * what the start and end of a block cost, in products along k. */
struct speed {
    enum threshold_index one_block, more_blocks, start_k;
};

#define SPEED(name)                                          \
    {                                                        \
        AT_##name##_one, AT_##name##_full, AT_##name##_start \
    }
#define NO_SPEED /* not on a GPU */        \
    {                                      \
        THRESHOLDS, THRESHOLDS, THRESHOLDS \
    }

/* A kernel with its tile of C per block, its limits and its speed. */
struct candidate {
    enum kernel_index kernel;
    int rows, columns; /* of a block's tile of C; matvec: 1 x 1, tiny: a warp's */
    int max_m, max_n;  /* 0: any */
    npy_intp max_k;    /* 0: any; longer sums would lose accuracy, because the kernel adds them up in one float */
    struct speed speed;
    int threads;     /* per block */
    int depth;       /* products per element between two barriers: a step */
    double step_ns;  /* the executor's time for a step of one thread; 0: not on the CPU device */
    int capability;  /* the least that pays: 80 has asynchronous copies */
    int few_columns; /* columns of a tile if more than half of the multiprocessors would have none; 0: unchanged */
    int min_n;       /* fewer columns leave most of a tile empty */
    int min_k;       /* shorter sums are more accurate otherwise */
    int full;        /* resident blocks that reach the speed of more_blocks */
    unsigned dtypes; /* for which this holds; 0: all of the kernel's */
};

/* Tensor cores round sums towards zero: in so many steps of 16 products they may lose as much as TF32 and float16.
 */
enum { MAX_K_ON_TENSOR_CORES = 1 << 16 };
/* What parts of the operands may take beside them: a fifth of an H100's memory. (Those of a single a do not count:
 * a few of its rows are multiplied at once, see rows_at_once in matmul.c.) */
static const uint64_t MAX_PARTS_BYTES = (uint64_t)16 << 30;
enum { MAX_K_OF_ONE_SUM = 8192, MAX_VECTORS = 8, TINY = 16, MAX_SLICES = 256, SLICE_MULTIPLE = 32 };

enum {
    UP_TO_32_BITS = FLOAT16 | BFLOAT16 | FLOAT32, /* what mma_large and mma_small take, except float64 */
    WORD_INTEGERS = INT8 | UINT8 | INT16 | UINT16 | INT32 | UINT32,
    LONG_INTEGERS = INT64 | UINT64,
    OTHERS = EVERY & ~(WORD_INTEGERS | LONG_INTEGERS)
};

/* The executor's times are those of a Zen 4. */
static const struct candidate candidates[] = {
    {ROW_matmul_tiled, 32, 32, 0, 0, 0, SPEED(tiled), 1024, 32, 73, 0, 0, 0, 0, 2, 0},
    {ROW_matmul_simt_large, 128, 128, 0, 0, 0, SPEED(simt_large), 256, 16, 265, 0, 0, 0, 0, 2, OTHERS},
    {ROW_matmul_simt_large, 128, 128, 0, 0, 0, SPEED(simt_large_words), 256, 16, 265, 0, 0, 0, 0, 2,
     WORD_INTEGERS},
    {ROW_matmul_pipelined_large, 64, 128, 0, 0, 0, SPEED(pipelined_large), 128, 16, 0, 80, 0, 64, 0, 4, 0},
    {ROW_matmul_pipelined_small, 32, 64, 0, 0, 0, SPEED(pipelined_small), 128, 64, 0, 80, 32, 32, 0, 2, 0},
    {ROW_matmul_pipelined_batch, 64, 64, 0, 0, MAX_K_OF_ONE_SUM / 4, SPEED(pipelined_batch), 128, 32, 0, 80, 0, 0,
     0, 2, 0},
    {ROW_matmul_simt, 64, 64, 0, 0, 0, SPEED(simt), 128, 16, 190, 0, 0, 0, 0, 2, OTHERS},
    {ROW_matmul_simt, 64, 64, 0, 0, 0, SPEED(simt_words), 128, 16, 190, 0, 0, 0, 0, 2, WORD_INTEGERS},
    {ROW_matmul_simt, 64, 64, 0, 0, 0, SPEED(simt_longs), 128, 16, 190, 0, 0, 0, 0, 2, LONG_INTEGERS},
    {ROW_matmul_mma_large, 128, 256, 0, 0, 0, SPEED(mma_large), 256, 64, 0, 80, 0, 128, 0, 1, UP_TO_32_BITS},
    {ROW_matmul_mma_large, 128, 128, 0, 0, 0, SPEED(mma_large_float64), 256, 16, 0, 80, 0, 64, 0, 1, FLOAT64},
    {ROW_matmul_mma_small, 64, 64, 0, 0, 0, SPEED(mma_small), 128, 64, 0, 80, 0, 0, 0, 3, UP_TO_32_BITS},
    {ROW_matmul_mma_small, 64, 64, 0, 0, 0, SPEED(mma_small_float64), 128, 16, 0, 80, 0, 0, 0, 2, FLOAT64},
    {ROW_matmul_mma_split, 128, 128, 0, 0, 0, SPEED(mma_split), 256, 32, 0, 80, 0, 64, 256, 1, 0},
    {ROW_matmul_wgmma_large, 128, 256, 0, 0, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_large), 384, 64, 0, 90, 0, 0, 0, 1,
     0},
    {ROW_matmul_wgmma_small, 128, 64, 0, 0, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_small), 384, 64, 0, 90, 0, 0, 0, 2,
     0},
    {ROW_matmul_wgmma_single, 128, 256, 0, 0, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_single), 384, 64, 0, 90, 0, 0, 0,
     1, 0},
    {ROW_matmul_wgmma_tf32, 128, 256, 0, 0, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_tf32), 384, 32, 0, 90, 0, 0, 0, 1,
     0},
    {ROW_matmul_wgmma_tf32_small, 64, 128, 0, 0, MAX_K_ON_TENSOR_CORES, SPEED(wgmma_tf32_small), 256, 32, 0, 90, 0,
     0, 0, 2, 0},
    {ROW_matmul_wgmma_split, 128, 128, 0, 0, 0, SPEED(wgmma_split), 384, 64, 0, 90, 0, 0, 512, 1, 0},
    {ROW_matmul_wgmma_split_small, 128, 64, 0, 0, 0, SPEED(wgmma_split_small), 384, 64, 0, 90, 0, 0, 512, 1, 0},
    {ROW_matmul_dmma_large, 128, 128, 0, 0, 0, SPEED(dmma_large_float64), 384, 16, 0, 90, 0, 0, 0, 1, FLOAT64},
    {ROW_matmul_dmma_small, 128, 64, 0, 0, 0, SPEED(dmma_small_float64), 384, 16, 0, 90, 0, 0, 0, 1, FLOAT64},
    {ROW_matmul_wgmma_digits, 128, 256, 0, 0, 0, SPEED(wgmma_digits_words), 384, 128, 0, 90, 0, 0, 0, 1,
     WORD_INTEGERS},
    {ROW_matmul_wgmma_digits, 128, 128, 0, 0, 0, SPEED(wgmma_digits_longs), 384, 128, 0, 90, 0, 0, 0, 1,
     LONG_INTEGERS},
    {ROW_matmul_wgmma_digits_small, 128, 128, 0, 0, 0, SPEED(wgmma_digits_small_words), 384, 128, 0, 90, 0, 0, 0,
     1, WORD_INTEGERS},
    {ROW_matmul_wgmma_digits_small, 128, 64, 0, 0, 0, SPEED(wgmma_digits_small_longs), 384, 128, 0, 90, 0, 0, 0, 1,
     LONG_INTEGERS},
    {ROW_matmul_tiny, TINY, TINY, TINY, TINY, MAX_K_OF_ONE_SUM / 4, SPEED(tiny), 32, 16, 120, 0, 0, 0, 0, 2, 0},
    {ROW_matmul_tiled, 16, 16, 0, 0, MAX_K_OF_ONE_SUM, NO_SPEED, 256, 16, 50, 0, 0, 0, 0, 2, 0},
    {ROW_matmul_tiled, 8, 8, 0, 0, MAX_K_OF_ONE_SUM, NO_SPEED, 64, 8, 39, 0, 0, 0, 0, 2, 0},
    {ROW_matmul_tiled, 4, 4, 0, 0, MAX_K_OF_ONE_SUM, NO_SPEED, 16, 4, 34, 0, 0, 0, 0, 2, 0},
    {ROW_matmul_tiled, 2, 2, 0, 0, MAX_K_OF_ONE_SUM, NO_SPEED, 4, 2, 31, 0, 0, 0, 0, 2, 0},
};
enum { CANDIDATES = sizeof candidates / sizeof *candidates };

/* On the executor: nanoseconds to start a block and a fiber, for a pack of matvec, and for the shuffles or
 * barriers of a thread. */
static const double CPU_BLOCK_NS = 300, CPU_THREAD_NS = 60, CPU_PACK_NS = 13, CPU_EXCHANGE_NS = 250;

static npy_intp divide_up(npy_intp n, npy_intp d)
{
    return (n + d - 1) / d;
}

/* The products of bytes for one of two integers: see wgmma_digits.cuh. */
static int digit_products(enum dtype dtype, struct matmul_size size)
{
    const int digits = size.of_bytes ? 1 : dtype_bytes(dtype);

    return digits * (digits + 1) / 2;
}

/* The time of a multiplication in this dtype, relative to that in which the candidate's speed is given: its only
 * one, any of its integers, a byte, float32, or float16 on tensor cores. */
static double cost_of_dtype(const struct candidate *candidate, enum dtype dtype, struct matmul_size size)
{
    if (kernel_rows[candidate->kernel].traits & NARROW)
        return digit_products(dtype, size);
    if (candidate->dtypes == dtype || candidate->dtypes & (WORD_INTEGERS | LONG_INTEGERS))
        return 1;
    switch (dtype) {
    case FLOAT32:
        return (kernel_rows[candidate->kernel].traits & (TF32 | PARTS)) == TF32 ? 2 : 1;
    case FLOAT64:
    case INT32:
    case UINT32:
        return 2;
    case COMPLEX64:
        return 4;
    case COMPLEX128:
    case INT64:
    case UINT64:
        return 8;
    default:
        return 1;
    }
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

/* TFLOP/s of a multiprocessor with this many resident blocks: interpolated linearly. */
static double speed_of(const struct candidate *candidate, const struct target *target, npy_intp blocks)
{
    const double one = (double)target->limits[candidate->speed.one_block] / 1000;
    const double full = (double)target->limits[candidate->speed.more_blocks] / 1000;
    const npy_intp more = candidate->full - 1;
    const double share = blocks > more ? 1 : (double)(blocks - 1) / (double)more;

    return one + share * (full - one);
}

/* A time of the table in microseconds. */
static double time_of(const struct target *target, enum threshold_index index)
{
    return (double)target->limits[index] / 1000;
}

/* Microseconds on a GPU with k in `slices`, limited by the multiprocessor with the most blocks or by memory. */
static double gpu_time(const struct candidate *candidate, const struct target *target, enum dtype dtype,
                       struct matmul_size size, npy_intp slices)
{
    const int64_t *limits = target->limits;
    const int multiprocessors = target->device->multiprocessors;
    const double matrices = (double)size.batches * (double)slices;
    const double tiles =
        matrices * (double)divide_up(size.m, candidate->rows) * (double)divide_up(size.n, candidate->columns);
    const bool few = candidate->few_columns && 2 * tiles <= multiprocessors;
    const int columns = few ? candidate->few_columns : candidate->columns;
    const npy_intp most = few ? 1 : divide_up((npy_intp)tiles, multiprocessors); /* blocks of one */
    const double along_k = (double)divide_up(size.k, slices) + (double)limits[candidate->speed.start_k];
    const double products = (double)most * candidate->rows * columns * along_k;
    const double compute =
        products * 2e-6 * cost_of_dtype(candidate, dtype, size) / speed_of(candidate, target, most);
    const unsigned traits = kernel_rows[candidate->kernel].traits;
    const double operands = bytes_of_operands(dtype, size, traits & NARROW);
    const double memory = (operands + bytes_of_result(dtype, size)) / (double)limits[AT_memory_bytes];
    const double partials = bytes_of_result(dtype, size) * (double)slices;
    double time = time_of(target, AT_launch) + (compute > memory ? compute : memory);

    if (traits & NARROW)
        time += time_of(target, AT_store_digits) + operands / (double)limits[AT_digit_bytes];
    else if (dtype == FLOAT32 && traits & PARTS)
        time += time_of(target, AT_split_parts) + operands / (double)limits[AT_split_bytes];
    if (slices > 1)
        time += time_of(target, AT_add_slices) + 2 * partials / (double)limits[AT_memory_bytes];
    return time;
}

/* Microseconds of matvec with operands in C order, limited by memory if there are enough blocks to saturate it: 6
 * per multiprocessor by rows, 2 by columns, 1 for several vectors. Several vectors take 1.05 times as long as one;
 * by rows they cost START_US more, and BLOCK_US for each block of a multiprocessor, which matters where k is
 * short. (Measured on an H100 at m x 8 x 16384, 8 x 16384 x 16384, 100000 x 8 x 64 and 4096 x 8 x 16.) */
static double gpu_matvec_time(const struct target *target, enum dtype dtype, struct matmul_size size,
                              npy_intp slices)
{
    enum { ROWS_OF_ONE = 8, ROWS_OF_SEVERAL = 64, PACK_BYTES = 16, LANES = 32 };
    static const double START_US = 3, BLOCK_US = 1.1;
    const bool by_rows = size.n <= size.m, several = (by_rows ? size.n : size.m) > 1;
    const npy_intp columns = LANES * PACK_BYTES / dtype_bytes(dtype);
    const npy_intp groups =
        by_rows ? divide_up(size.m, several ? ROWS_OF_SEVERAL : ROWS_OF_ONE) : divide_up(size.n, columns);
    const int saturating = several ? 1 : by_rows ? 6 : 2;
    const double share = (double)(size.batches * groups * slices) / (saturating * target->device->multiprocessors);
    const double memory =
        bytes_of(dtype, size) / ((double)target->limits[AT_memory_bytes] * (share < 1 ? share : 1));
    const double times_of_one = several ? 1.05 : 1;
    const double blocks = several && by_rows ? START_US + share * BLOCK_US : 0;

    return time_of(target, AT_launch) + memory * times_of_one + blocks +
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
    least = candidate ? gpu_time(candidate, target, dtype, size, 1) : gpu_matvec_time(target, dtype, size, 1);
    for (npy_intp s = 2; s <= max && s <= MAX_SLICES; s *= 2) {
        const double time =
            candidate ? gpu_time(candidate, target, dtype, size, s) : gpu_matvec_time(target, dtype, size, s);

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

/* Whether a kernel with PARTS can take operands of this size: the TMA counts in 32 bits. */
static bool parts_fit(enum dtype dtype, struct matmul_size size)
{
    const int bytes = size.of_bytes ? 1 : dtype_bytes(dtype);
    const int parts = dtype == FLOAT32 ? MATMUL_FLOAT_PARTS : (bytes + 1) / 2;

    return size.batches <= INT32_MAX && size.m < MATMUL_MAX_SIDE && size.n < MATMUL_MAX_SIDE &&
           size.k < MATMUL_MAX_SIDE &&
           (size.batches > 1 ? matmul_parts_bytes(size.batches, size.m, size.k, parts) : 0) +
                   matmul_parts_bytes(size.batches, size.n, size.k, parts) <=
               MAX_PARTS_BYTES;
}

/* Whether the TMA can copy operands as they are: in C order, with rows of multiples of 16 bytes. A kernel without
 * ANY_STRIDES gets others converted, and copies their elements one by one if their rows are not. */
static bool suit_tma(enum dtype dtype, struct matmul_size size)
{
    enum { PACK_BYTES = 16 };

    return size.c_order && size.k * dtype_bytes(dtype) % PACK_BYTES == 0 &&
           size.n * dtype_bytes(dtype) % PACK_BYTES == 0;
}

static bool has_dtype(const struct candidate *candidate, enum dtype dtype)
{
    return kernel_rows[candidate->kernel].dtypes & dtype && (!candidate->dtypes || candidate->dtypes & dtype);
}

static bool supports(const struct candidate *candidate, const struct device *device, enum dtype dtype,
                     enum precision precision, struct matmul_size size)
{
    const struct kernel_row *row = &kernel_rows[candidate->kernel];

    return has_dtype(candidate, dtype) && (!(row->traits & PARTS) || parts_fit(dtype, size)) &&
           (dtype != FLOAT32 || !(row->traits & TF32) || precision != HIGHEST) &&
           kernel_may_be_chosen(device, candidate->kernel, dtype) &&
           (!candidate->max_m || size.m <= candidate->max_m) &&
           (!candidate->max_n || size.n <= candidate->max_n) && size.n >= candidate->min_n &&
           (candidate->capability < 90 || row->traits & ANY_STRIDES || suit_tma(dtype, size)) &&
           size.k >= candidate->min_k &&
           (!candidate->max_k || size.k <= candidate->max_k || !(dtype & (FLOATING | COMPLEX))) &&
           (device_is_host(device) ? candidate->step_ns > 0 : candidate->speed.one_block != THRESHOLDS) &&
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
    const bool one_vector = size.m == 1 || size.n == 1;
    double least = 0;
    npy_intp slices;

    if ((size.m < size.n ? size.m : size.n) <= MAX_VECTORS &&
        kernel_may_be_chosen(device, ROW_matmul_matvec, dtype)) {
        least = best_time(NULL, &target, dtype, size, &slices);
        choice = (struct matmul_choice){&kernel_rows[ROW_matmul_matvec], 0, slice_length(size.k, slices)};
        if (one_vector && size.batches == 1 && !device_is_host(device))
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

npy_intp choose_k_per_slice(const struct device *device, const struct kernel_row *row, enum dtype dtype,
                            struct matmul_size size)
{
    const struct target target = target_of(device);
    npy_intp slices = 1;

    if (row->index == ROW_matmul_matvec)
        (void)best_time(NULL, &target, dtype, size, &slices);
    for (int i = 0; i < CANDIDATES; i++)
        if (row->traits & SLICES && candidates[i].kernel == row->index && has_dtype(&candidates[i], dtype))
            (void)best_time(&candidates[i], &target, dtype, size, &slices);
    return slice_length(size.k, slices);
}
