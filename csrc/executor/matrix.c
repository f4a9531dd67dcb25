/* The warp's matrix instructions: mma, ldmatrix, stmatrix. (PTX ISA, "Warp Level Matrix Multiply-Accumulate")
 *
 * The last lane of a warp to arrive computes for all. Products are exact, and a sum of floating-point numbers is
 * rounded once, to the type of the result; tensor cores truncate partial sums, each generation in its own way.
 *
 * Fragments, with g = lane / 4, t = lane % 4, and E elements in a register: register r of a holds row g + 8 (r %
 * 2) and columns E t + 4 E (r / 2) and on, or, if a has 8 rows, row g; register r of b column g and rows E t + 4 E
 * r and on; element i of c and d row g + 8 (i / 2) and column 2 t + i % 2.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "include/smemkit/narrow_bits.h"
#include "ptx.h"
#include "schedule.h"

enum { LANES = 32, N = 8, MAX_M = 16, MAX_K = 64, MAX_WORDS = 8, MAX_ELEMENTS = MAX_M * MAX_K / LANES };

typedef double row_t __attribute__((vector_size(N * sizeof(double)))); /* of b, c or d */
typedef struct smemkit_warp_call *const *lanes_t;

static const struct smemkit_mma *lane_of(lanes_t lanes, unsigned lane)
{
    return (const struct smemkit_mma *)lanes[lane];
}

static int bits_of(enum smemkit_element type)
{
    static const int bits[] = {16, 16, 32, 32, 64, 8, 8, 4, 4, 1, 32};

    return bits[type];
}

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_double(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The elements of registers, as numbers: loops for each type, because this is most of the work. */
static void read_elements(const uint64_t *words, unsigned count, enum smemkit_element type, double *to)
{
#define READ(expression)                 \
    for (unsigned i = 0; i < count; i++) \
        to[i] = (double)(expression);    \
    break
    switch (type) {
    case SMEMKIT_F16:
        READ(float16_to_float((uint16_t)(words[i / 2] >> i % 2 * 16)));
    case SMEMKIT_BF16:
        READ(bfloat16_to_float((uint16_t)(words[i / 2] >> i % 2 * 16)));
    case SMEMKIT_TF32: /* the last 13 bits are not read */
        READ(float_of_bits((uint32_t)words[i] & ~UINT32_C(0x1fff)));
    case SMEMKIT_F32:
        READ(float_of_bits((uint32_t)words[i]));
    case SMEMKIT_F64:
        READ(double_of(words[i]));
    case SMEMKIT_S8:
        READ((int8_t)(words[i / 4] >> i % 4 * 8));
    case SMEMKIT_U8:
        READ((uint8_t)(words[i / 4] >> i % 4 * 8));
    case SMEMKIT_S4:
        READ((int8_t)((words[i / 8] >> i % 8 * 4 & 15) << 4) / 16);
    case SMEMKIT_U4:
        READ(words[i / 8] >> i % 8 * 4 & 15);
    default:
        READ((int32_t)words[i]);
    }
#undef READ
}

static void put_element(uint64_t *words, unsigned i, enum smemkit_element type, double value)
{
    if (type == SMEMKIT_F64) {
        words[i] = bits_of_double(value);
    } else if (type == SMEMKIT_F16) {
        const uint64_t half = float16_from_float(round_to_odd(value));

        words[i / 2] = i % 2 ? (words[i / 2] & 0xffff) | half << 16 : half;
    } else {
        const float near = (float)value;

        words[i] = near != near ? 0x7fffffff : bits_of_float(near); /* CUDA's NaN */
    }
}

/* ---- fragments as matrices ---- */

/* a (m, k), by rows */
static void gather_a(lanes_t lanes, const struct smemkit_mma *shape, double (*a)[MAX_K])
{
    const unsigned bits = (unsigned)bits_of(shape->a_type), each = bits > 32 ? 1 : 32 / bits;
    const unsigned count = (unsigned)(shape->m * shape->k) / LANES, rows = (unsigned)shape->m / 8;
    double own[MAX_ELEMENTS];

    for (unsigned lane = 0; lane < LANES; lane++) {
        read_elements(lane_of(lanes, lane)->a, count, shape->a_type, own);
        for (unsigned r = 0; r < count / each; r++)
            for (unsigned j = 0; j < each; j++)
                a[lane / 4 + 8 * (r % rows)][each * (lane % 4) + 4 * each * (r / rows) + j] = own[r * each + j];
    }
}

/* b (k, 8), by rows */
static void gather_b(lanes_t lanes, const struct smemkit_mma *shape, row_t *b)
{
    const unsigned bits = (unsigned)bits_of(shape->b_type), each = bits > 32 ? 1 : 32 / bits;
    const unsigned count = (unsigned)(N * shape->k) / LANES;
    double own[MAX_ELEMENTS];

    for (unsigned lane = 0; lane < LANES; lane++) {
        read_elements(lane_of(lanes, lane)->b, count, shape->b_type, own);
        for (unsigned i = 0; i < count; i++)
            b[each * (lane % 4) + 4 * each * (i / each) + i % each][lane / 4] = own[i];
    }
}

/* The row and the column of element i of c and d */
static unsigned row_of(unsigned lane, unsigned i)
{
    return lane / 4 + 8 * (i / 2);
}

static unsigned column_of(unsigned lane, unsigned i)
{
    return 2 * (lane % 4) + i % 2;
}

/* ---- products ---- */

static void multiply_rows(int m, int k, double (*a)[MAX_K], const row_t *b, row_t *sum)
{
    for (int i = 0; i < m; i++) {
        row_t row = sum[i];

        for (int p = 0; p < k; p++)
            row += a[i][p] * b[p];
        sum[i] = row;
    }
}

/* The same in double precision, whose products are not exact */
static void fuse_rows(int m, int k, double (*a)[MAX_K], const row_t *b, row_t *sum)
{
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++)
            for (int j = 0; j < N; j++)
                sum[i][j] = fma(a[i][p], b[p][j], sum[i][j]);
}

static NOINLINE void multiply_floats(lanes_t lanes)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);
    const unsigned own = (unsigned)shape->m / 4; /* elements of c per lane */
    double a[MAX_M][MAX_K], c[MAX_ELEMENTS];
    row_t b[MAX_K], sum[MAX_M];

    gather_a(lanes, shape, a);
    gather_b(lanes, shape, b);
    for (unsigned lane = 0; lane < LANES; lane++) {
        read_elements(lane_of(lanes, lane)->c, own, shape->c_type, c);
        for (unsigned i = 0; i < own; i++)
            sum[row_of(lane, i)][column_of(lane, i)] = c[i];
    }
    if (shape->a_type == SMEMKIT_F64)
        fuse_rows(shape->m, shape->k, a, b, sum);
    else
        multiply_rows(shape->m, shape->k, a, b, sum);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < own; i++)
            put_element(lane_of(lanes, lane)->d, i, shape->d_type, sum[row_of(lane, i)][column_of(lane, i)]);
}

/* Integers: a double holds every sum of so few products. */
static uint32_t integer_sum(double sum, int32_t c, bool saturate)
{
    const int64_t all = (int64_t)sum + c;

    if (saturate)
        return (uint32_t)(int32_t)(all > INT32_MAX ? INT32_MAX : all < INT32_MIN ? INT32_MIN : all);
    return (uint32_t)all;
}

static NOINLINE void multiply_integers(lanes_t lanes)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);
    double a[MAX_M][MAX_K];
    row_t b[MAX_K], sum[MAX_M] = {{0}};

    gather_a(lanes, shape, a);
    gather_b(lanes, shape, b);
    multiply_rows(shape->m, shape->k, a, b, sum);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < (unsigned)shape->m / 4; i++)
            lane_of(lanes, lane)->d[i] = integer_sum(sum[row_of(lane, i)][column_of(lane, i)],
                                                     (int32_t)lane_of(lanes, lane)->c[i], shape->saturate);
}

/* Bits: register r of a has row g + 8 (r % rows) and word t + 4 (r / rows), that of b column g and word t + 4 r.
 */
static NOINLINE void multiply_bits(lanes_t lanes)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);
    const unsigned rows = (unsigned)shape->m / 8, words = (unsigned)shape->k / 32;
    uint32_t a[MAX_M][MAX_WORDS], b[N][MAX_WORDS];

    for (unsigned lane = 0; lane < LANES; lane++) {
        for (unsigned r = 0; r < rows * words / 4; r++)
            a[lane / 4 + 8 * (r % rows)][lane % 4 + 4 * (r / rows)] = (uint32_t)lane_of(lanes, lane)->a[r];
        for (unsigned r = 0; r < words / 4; r++)
            b[lane / 4][lane % 4 + 4 * r] = (uint32_t)lane_of(lanes, lane)->b[r];
    }
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < 2 * rows; i++) {
            const uint32_t *x = a[row_of(lane, i)], *y = b[column_of(lane, i)];
            uint32_t sum = (uint32_t)lane_of(lanes, lane)->c[i];

            for (unsigned p = 0; p < words; p++)
                sum += (uint32_t)__builtin_popcount(shape->bits_and ? x[p] & y[p] : x[p] ^ y[p]);
            lane_of(lanes, lane)->d[i] = sum;
        }
}

/* m8n8k4 of halves: quads q and q + 4 multiply on their own. The lower quad has rows or columns [0, 4). */
static unsigned quad_index(unsigned lane, unsigned i)
{
    return i % 4 + (lane < 16 ? 0 : 4);
}

static void quad_position(unsigned lane, unsigned i, enum smemkit_element type, unsigned *row, unsigned *column)
{
    *row = quad_index(lane, type == SMEMKIT_F16 ? lane : (lane & 1) + (i & 2));
    *column = type == SMEMKIT_F16 ? i : (i & 4) + (lane & 2) + (i & 1);
}

static void multiply_quads(lanes_t lanes, unsigned q)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);
    double a[MAX_M][MAX_K], x[4], y[4], c[8];
    row_t b[MAX_K], sum[MAX_M];
    unsigned row, column;

    for (unsigned n = 0; n < 8; n++) {
        const unsigned lane = 4 * q + n % 4 + (n < 4 ? 0 : 16);
        const struct smemkit_mma *own = lane_of(lanes, lane);

        read_elements(own->a, 4, SMEMKIT_F16, x);
        read_elements(own->b, 4, SMEMKIT_F16, y);
        read_elements(own->c, 8, shape->c_type, c);
        for (unsigned i = 0; i < 4; i++) {
            a[quad_index(lane, shape->a_column_major ? i : lane)][shape->a_column_major ? lane % 4 : i] = x[i];
            b[shape->b_row_major ? lane % 4 : i][quad_index(lane, shape->b_row_major ? i : lane)] = y[i];
        }
        for (unsigned i = 0; i < 8; i++) {
            quad_position(lane, i, shape->c_type, &row, &column);
            sum[row][column] = c[i];
        }
    }
    multiply_rows(8, 4, a, b, sum);
    for (unsigned n = 0; n < 8; n++) {
        const unsigned lane = 4 * q + n % 4 + (n < 4 ? 0 : 16);

        for (unsigned i = 0; i < 8; i++) {
            quad_position(lane, i, shape->d_type, &row, &column);
            put_element(lane_of(lanes, lane)->d, i, shape->d_type, sum[row][column]);
        }
    }
}

static NOINLINE void multiply_four(lanes_t lanes)
{
    for (unsigned q = 0; q < 4; q++)
        multiply_quads(lanes, q);
}

void smemkit_multiply(struct smemkit_mma *mma, const char *file, int line)
{
    mma->call.instruction = "mma.sync";
    mma->call.run = mma->a_type == SMEMKIT_B1                   ? multiply_bits
                    : mma->a_type >= SMEMKIT_S8                 ? multiply_integers
                    : mma->a_type == SMEMKIT_F16 && mma->m == 8 ? multiply_four
                                                                : multiply_floats;
    smemkit_warp_call(&mma->call, file, line);
}

/* ---- matrices of 8 rows of 16 bytes ---- */

/* Where half h of lane l's register is: its row and its place in the row. */
static void place(const struct smemkit_matrices *moved, unsigned lane, unsigned h, unsigned *row, unsigned *column)
{
    *row = moved->transposed ? 2 * (lane % 4) + h : lane / 4;
    *column = moved->transposed ? lane / 4 : 2 * (lane % 4) + h;
}

static NOINLINE void load_matrices(lanes_t lanes)
{
    struct smemkit_matrices *const *all = (struct smemkit_matrices *const *)lanes;

    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < (unsigned)all[lane]->count; i++) {
            uint32_t word = 0;

            for (unsigned h = 0; h < 2; h++) {
                unsigned row, column;

                place(all[lane], lane, h, &row, &column);
                word |= (all[8 * i + row]->row[column / 2] >> column % 2 * 16 & 0xffff) << 16 * h;
            }
            all[lane]->words[i] = word;
        }
}

static NOINLINE void store_matrices(lanes_t lanes)
{
    struct smemkit_matrices *const *all = (struct smemkit_matrices *const *)lanes;

    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < (unsigned)all[lane]->count; i++)
            for (unsigned h = 0; h < 2; h++) {
                unsigned row, column;
                uint32_t *to;

                place(all[lane], lane, h, &row, &column);
                to = &all[8 * i + row]->row[column / 2];
                *to = (*to & 0xffffu << 16 * (1 - column % 2)) | (all[lane]->words[i] >> 16 * h & 0xffff)
                                                                     << 16 * (column % 2);
            }
}

void smemkit_load_matrices(struct smemkit_matrices *moved, const char *file, int line)
{
    moved->call = (struct smemkit_warp_call){"ldmatrix", load_matrices};
    smemkit_warp_call(&moved->call, file, line);
}

void smemkit_store_matrices(struct smemkit_matrices *moved, const char *file, int line)
{
    moved->call = (struct smemkit_warp_call){"stmatrix", store_matrices};
    smemkit_warp_call(&moved->call, file, line);
}

void smemkit_matrix_row(const void *row, const char *instruction, const char *file, int line)
{
    char what[MESSAGE_BYTES];

    if ((uintptr_t)row % 16 == 0)
        return;
    snprintf(what, sizeof what, "%s of a row at an address that is not a multiple of 16 at %.200s:%d", instruction,
             file, line);
    worker_fail(own_worker(), KIND_MISALIGNED, what, file, line);
}
