/* The operands of wgmma, and its products. (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions")
 *
 * Operands in shared memory consist of chunks of 16 bytes, which a descriptor places. Rows are those of a, and the
 * columns of b; S is 16, 32, 64 or 128 bytes, 16 meaning no swizzle; LBO and SBO are the descriptor's leading and
 * stride byte offsets.
 *
 *   k-major: chunk c in [0, 2) of row r:           S (r % 8) + SBO (r / 8) + (S == 16 ? LBO : 16) c
 *   transposed: chunk j, 8 rows, of k index p:     S (p % 8) + ...
 *       S == 16: LBO (p / 8) + SBO j               otherwise: SBO (p / 8) + 16 (j % (S / 16)) + LBO (j / (S / 16))
 *
 * Then bits 4 and up of the address are XORed with bits 7 and up, as many as the swizzle has, less the base
 * offset.
 *
 * Accumulators: register 4 i + 2 h + c of lane t of warp w has row 16 w + t / 4 + 8 h and column 8 i + 2 (t % 4) +
 * c; or register 2 i + h both columns, if d is of halves. Registers of a as in mma: see matrix.c.
 */
#include "wgmma.h"

#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "schedule.h"

enum { LANES = 32, MAX_K = 32, CHUNK = 16, HALVES = 8 };

/* ---- operands in shared memory ---- */

struct descriptor {
    char *start;
    size_t leading, stride; /* in bytes */
    size_t row;             /* bytes of the pattern's row: 16 without swizzle */
    uintptr_t base, mask;
    bool transposed;
};

static size_t field(uint64_t descriptor, unsigned bit)
{
    return (size_t)(descriptor >> bit & 0x3fff) << 4;
}

/* The start is NULL if it is not in shared memory. */
static struct descriptor read_descriptor(const struct worker *w, const struct smemkit_wgmma *form, bool is_b)
{
    static const size_t rows[] = {16, 128, 64, 32};
    const uint64_t bits = is_b ? form->b_descriptor : form->a_descriptor;
    const size_t row = rows[bits >> 62];

    return (struct descriptor){.start = shared_in_window(w, field(bits, 0)),
                               .leading = field(bits, 16),
                               .stride = field(bits, 32),
                               .row = row,
                               .base = bits >> 49 & 7,
                               .mask = row / CHUNK - 1,
                               .transposed = is_b ? form->transpose_b : form->transpose_a};
}

char *wgmma_start(const struct worker *w, const struct smemkit_wgmma *form, bool is_b)
{
    return read_descriptor(w, form, is_b).start;
}

static char *swizzled(const struct descriptor *of, size_t offset)
{
    const uintptr_t address = (uintptr_t)of->start + offset;

    return (char *)(address ^ (((address >> 7) - of->base) & of->mask) << 4);
}

/* Chunk c of row r */
static char *chunk_of_row(const struct descriptor *of, unsigned r, unsigned c)
{
    return swizzled(of, r % 8 * of->row + r / 8 * of->stride + c * (of->row == CHUNK ? of->leading : CHUNK));
}

/* The chunk of rows [8 j, 8 j + 8) at index p of k */
static char *chunk_of_rows(const struct descriptor *of, unsigned j, unsigned p)
{
    const size_t chunks = of->row / CHUNK, within = p % 8 * of->row;

    if (chunks == 1)
        return swizzled(of, within + p / 8 * of->leading + j * of->stride);
    return swizzled(of, within + p / 8 * of->stride + j % chunks * CHUNK + j / chunks * of->leading);
}

void wgmma_each_chunk(const struct worker *w, const struct wgmma *item, bool is_b, int warp,
                      wgmma_chunk_function function, void *context)
{
    const struct descriptor of = read_descriptor(w, &item->form, is_b);
    const unsigned all = is_b ? (unsigned)item->form.n : WGMMA_M, part = WGMMA_M / GROUP_WARPS;
    const unsigned first = warp < 0 ? 0 : part * (unsigned)warp, end = warp < 0 ? all : first + part;

    if (of.transposed) {
        for (unsigned j = first / HALVES; j < end / HALVES; j++)
            for (unsigned p = 0; p < (unsigned)item->form.k; p++)
                function(context, chunk_of_rows(&of, j, p));
    } else {
        for (unsigned r = first; r < end; r++)
            for (unsigned c = 0; c < WGMMA_BYTES / CHUNK; c++)
                function(context, chunk_of_row(&of, r, c));
    }
}

/* `count` rows of an operand, of 32 bytes each */
static void read_rows(const struct worker *w, const struct smemkit_wgmma *form, bool is_b, unsigned count,
                      uint32_t (*rows)[WGMMA_BYTES / 4])
{
    const struct descriptor of = read_descriptor(w, form, is_b);

    if (!of.transposed) {
        for (unsigned r = 0; r < count; r++)
            for (unsigned c = 0; c < WGMMA_BYTES / CHUNK; c++)
                memcpy((char *)rows[r] + c * CHUNK, chunk_of_row(&of, r, c), CHUNK);
        return;
    }
    for (unsigned j = 0; j < count / HALVES; j++)
        for (unsigned p = 0; p < (unsigned)form->k; p++) {
            const uint16_t *chunk = (const uint16_t *)chunk_of_rows(&of, j, p);

            for (unsigned i = 0; i < HALVES; i++)
                ((uint16_t *)rows[HALVES * j + i])[p] = chunk[i];
        }
}

/* ---- products ---- */

typedef struct {
    four_t four[2];
} eight_t; /* eight columns of b or d */

enum { VECTOR_BYTES = sizeof(four_t) }; /* which code for AVX aligns, and other code may not */

struct operands {
    _Alignas(VECTOR_BYTES) double a[WGMMA_M][MAX_K];
    _Alignas(VECTOR_BYTES) eight_t b[WGMMA_MAX_N / 8][MAX_K];
};

static void read_a(const struct worker *w, const struct wgmma *item, uint32_t (*rows)[WGMMA_BYTES / 4])
{
    if (!item->a) {
        read_rows(w, &item->form, false, WGMMA_M, rows);
        return;
    }
    for (unsigned thread = 0; thread < GROUP_THREADS; thread++)
        for (unsigned r = 0; r < WGMMA_A_REGISTERS; r++)
            rows[thread / LANES * 16 + thread % LANES / 4 + 8 * (r % 2)][thread % 4 + 4 * (r / 2)] =
                item->a[thread * WGMMA_A_REGISTERS + r];
}

static NOINLINE void read_operands(const struct worker *w, const struct wgmma *item, struct operands *to)
{
    const struct smemkit_wgmma *form = &item->form;
    const unsigned k = (unsigned)form->k;
    uint32_t rows[WGMMA_MAX_N][WGMMA_BYTES / 4];
    double column[MAX_K];

    read_a(w, item, rows);
    for (unsigned i = 0; i < WGMMA_M; i++) {
        convert(rows[i], k, form->a_type, to->a[i]);
        for (unsigned p = 0; p < k; p++)
            to->a[i][p] *= form->scale_a;
    }
    read_rows(w, form, true, (unsigned)form->n, rows);
    for (unsigned j = 0; j < (unsigned)form->n; j++) {
        convert(rows[j], k, form->b_type, column);
        for (unsigned p = 0; p < k; p++)
            to->b[j / 8][p].four[j % 8 / 4][j % 4] = column[p] * form->scale_b;
    }
}

/* Four rows at a time, for which b is loaded once. */
INLINE void multiply_columns(const struct operands *of, unsigned block, unsigned k, eight_t *sum)
{
    enum { ROWS = 4 };

    for (unsigned first = 0; first < WGMMA_M; first += ROWS) {
        eight_t rows[ROWS];

        memcpy(rows, &sum[first], sizeof rows);
        for (unsigned p = 0; p < k; p++) {
            const eight_t b = of->b[block][p];

#pragma GCC unroll 4
            for (unsigned i = 0; i < ROWS; i++) {
                rows[i].four[0] += of->a[first + i][p] * b.four[0];
                rows[i].four[1] += of->a[first + i][p] * b.four[1];
            }
        }
        memcpy(&sum[first], rows, sizeof rows);
    }
}

static NOINLINE void multiply_plain(const struct operands *of, unsigned block, unsigned k, eight_t *sum)
{
    multiply_columns(of, block, k, sum);
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static NOINLINE void multiply_wide(const struct operands *of, unsigned block,
                                                                       unsigned k, eight_t *sum)
{
    multiply_columns(of, block, k, sum);
}
#endif

static void multiply(const struct operands *of, unsigned block, unsigned k, eight_t *sum)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        multiply_wide(of, block, k, sum);
        return;
    }
#endif
    multiply_plain(of, block, k, sum);
}

/* ---- accumulators ---- */

typedef double row_t[8]; /* of eight columns of d */

INLINE double register_number(uint32_t bits, enum smemkit_element type)
{
    return type == SMEMKIT_F32 ? (double)float_of_bits(bits) : (double)(int32_t)bits;
}

/* Reads the registers of d that have columns [8 block, 8 block + 8), of one type, as numbers. Registers of threads
 * that have exited do not exist. */
INLINE void read_as(const struct wgmma *item, unsigned block, enum smemkit_element type, row_t *sum)
{
    const unsigned count = item->form.registers, each = type == SMEMKIT_F16 ? 2 : 4;
    void *const *at = &item->d[each * block];

    for (unsigned thread = 0; thread < GROUP_THREADS; thread++, at += count) {
        row_t *rows = &sum[thread / LANES * 16 + thread % LANES / 4];
        double *upper = &rows[0][2 * (thread % 4)], *lower = &rows[8][2 * (thread % 4)];

        if (type != SMEMKIT_F16 && item->array[thread]) {
            uint32_t four[4];

            memcpy(four, at[0], sizeof four);
            for (unsigned i = 0; i < 2; i++) {
                upper[i] = register_number(four[i], type);
                lower[i] = register_number(four[2 + i], type);
            }
            continue;
        }
        for (unsigned i = 0; i < each; i++) {
            double *half = i < each / 2 ? upper : lower;
            const uint32_t *own = at[i];

            if (!own)
                continue;
            if (type == SMEMKIT_F16) {
                half[0] = float16_to_float((uint16_t)*own);
                half[1] = float16_to_float((uint16_t)(*own >> 16));
            } else {
                half[i % 2] = register_number(*own, type);
            }
        }
    }
}

static uint32_t float32_register(double value)
{
    return value == value ? bits_of_float((float)value) : 0x7fffffff; /* CUDA's NaN */
}

static uint32_t float16_register(const double *two)
{
    return float16_from_float(round_to_odd(two[0])) | (uint32_t)float16_from_float(round_to_odd(two[1])) << 16;
}

static uint32_t integer_register(double value, bool saturate)
{
    const int64_t sum = (int64_t)value, most = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;

    return (uint32_t)(saturate ? most : sum);
}

/* Writes what read_as reads. */
INLINE void write_as(const struct wgmma *item, unsigned block, enum smemkit_element type, bool saturate,
                     const row_t *sum)
{
    const unsigned count = item->form.registers, each = type == SMEMKIT_F16 ? 2 : 4;
    void *const *at = &item->d[each * block];

    for (unsigned thread = 0; thread < GROUP_THREADS; thread++, at += count) {
        const row_t *rows = &sum[thread / LANES * 16 + thread % LANES / 4];
        const double *upper = &rows[0][2 * (thread % 4)], *lower = &rows[8][2 * (thread % 4)];
        const double all = upper[0] + upper[1] + lower[0] + lower[1];

        if (type == SMEMKIT_F32 && item->array[thread] && all == all) { /* no NaN */
            const float four[] = {(float)upper[0], (float)upper[1], (float)lower[0], (float)lower[1]};

            memcpy(at[0], four, sizeof four);
            continue;
        }
        if (type == SMEMKIT_S32 && item->array[thread]) {
            const uint32_t four[] = {integer_register(upper[0], saturate), integer_register(upper[1], saturate),
                                     integer_register(lower[0], saturate), integer_register(lower[1], saturate)};

            memcpy(at[0], four, sizeof four);
            continue;
        }
        for (unsigned i = 0; i < each; i++) {
            const double *half = i < each / 2 ? upper : lower;
            uint32_t *own = at[i];

            if (own)
                *own = type == SMEMKIT_F16   ? float16_register(half)
                       : type == SMEMKIT_F32 ? float32_register(half[i % 2])
                                             : integer_register(half[i % 2], saturate);
        }
    }
}

static void read_accumulators(const struct wgmma *item, unsigned block, row_t *sum)
{
    if (!item->form.scale_d)
        memset(sum, 0, WGMMA_M * sizeof *sum);
    else if (item->form.d_type == SMEMKIT_F32)
        read_as(item, block, SMEMKIT_F32, sum);
    else if (item->form.d_type == SMEMKIT_F16)
        read_as(item, block, SMEMKIT_F16, sum);
    else
        read_as(item, block, SMEMKIT_S32, sum);
}

static void write_accumulators(const struct wgmma *item, unsigned block, const row_t *sum)
{
    if (item->form.d_type == SMEMKIT_F32)
        write_as(item, block, SMEMKIT_F32, false, sum);
    else if (item->form.d_type == SMEMKIT_F16)
        write_as(item, block, SMEMKIT_F16, false, sum);
    else
        write_as(item, block, SMEMKIT_S32, item->form.saturate, sum);
}

void wgmma_perform(struct worker *w, struct wgmma *item)
{
    struct operands *of = w->wgmma_operands;
    _Alignas(VECTOR_BYTES) eight_t sum[WGMMA_M];

    if (!of && !(w->wgmma_operands = of = aligned_alloc(VECTOR_BYTES, sizeof *of)))
        worker_fail(w, KIND_TRAP, "no memory for wgmma", __FILE__, __LINE__);
    read_operands(w, item, of);
    for (unsigned block = 0; block < (unsigned)item->form.n / 8; block++) {
        read_accumulators(item, block, (row_t *)sum);
        multiply(of, block, (unsigned)item->form.k, sum);
        write_accumulators(item, block, (const row_t *)sum);
    }
    item->moved = true;
    note_change(w);
}
