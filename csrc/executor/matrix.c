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
#include "elements.h"
#include "ptx.h"
#include "schedule.h"

enum { LANES = 32, N = 8, MAX_M = 16, MAX_K = 64, ROW_WORDS = 32 };

typedef struct smemkit_warp_call *const *lanes_t;
typedef uint32_t words_t[ROW_WORDS]; /* a row of a matrix, as registers hold it */

typedef struct {
    four_t four[N / 4];
} row_t; /* of b, c or d */

static const struct smemkit_mma *lane_of(lanes_t lanes, unsigned lane)
{
    return (const struct smemkit_mma *)lanes[lane];
}

/* ---- fragments as matrices ---- */

INLINE void move_register(uint32_t *to, const uint64_t *from, bool wide)
{
    if (wide)
        memcpy(to, from, sizeof *from);
    else
        *to = (uint32_t)*from;
}

/* The rows of a; of b the columns */
INLINE void gather(lanes_t lanes, bool b, int m, unsigned row_words, bool wide, words_t *to)
{
    const unsigned width = wide ? 2 : 1;

    for (unsigned lane = 0; lane < LANES; lane++) {
        const uint64_t *from = b ? lane_of(lanes, lane)->b : lane_of(lanes, lane)->a;

        for (unsigned word = width * (lane % 4); word < row_words; word += 4 * width)
            for (int row = (int)lane / 4; row < m; row += 8)
                move_register(&to[row][word], from++, wide);
    }
}

/* The row and the column of element i of c and d */
INLINE unsigned row_of(unsigned lane, unsigned i)
{
    return lane / 4 + 8 * (i / 2);
}

INLINE unsigned column_of(unsigned lane, unsigned i)
{
    return 2 * (lane % 4) + i % 2;
}

/* The rows of c */
INLINE void gather_c(lanes_t lanes, int m, enum smemkit_element type, words_t *to)
{
    const unsigned width = type == SMEMKIT_F64 ? 2 : 1, each = type == SMEMKIT_F16 ? 1 : 2;

    for (unsigned lane = 0; lane < LANES; lane++) {
        const uint64_t *from = lane_of(lanes, lane)->c;

        for (int row = (int)lane / 4; row < m; row += 8)
            for (unsigned i = 0; i < each; i++)
                move_register(&to[row][width * (each * (lane % 4) + i)], from++, width == 2);
    }
}

/* Stores rows of numbers in the lanes' registers of d */
INLINE void scatter(lanes_t lanes, int m, enum smemkit_element type, words_t *from)
{
    const unsigned width = type == SMEMKIT_F64 ? 2 : 1, each = type == SMEMKIT_F16 ? 1 : 2;

    for (unsigned lane = 0; lane < LANES; lane++) {
        uint64_t *to = lane_of(lanes, lane)->d;

        for (int row = (int)lane / 4; row < m; row += 8)
            for (unsigned i = 0; i < each; i++, to++) {
                const uint32_t *word = &from[row][width * (each * (lane % 4) + i)];

                *to = *word;
                if (width == 2)
                    memcpy(to, word, sizeof *to);
            }
    }
}

/* ---- products ---- */

INLINE void multiply_rows(int m, int k, double (*a)[MAX_K], const row_t *b, row_t *sum)
{
    for (int i = 0; i < m; i++) {
        four_t left = sum[i].four[0], right = sum[i].four[1];

        for (int p = 0; p < k; p++) {
            left += a[i][p] * b[p].four[0];
            right += a[i][p] * b[p].four[1];
        }
        sum[i] = (row_t){{left, right}};
    }
}

/* Multiplies rows in double precision, with fma, because the products are not exact */
INLINE void fuse_rows(int m, int k, double (*a)[MAX_K], const row_t *b, row_t *sum)
{
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++)
            for (int j = 0; j < N; j++)
                sum[i].four[j / 4][j % 4] = fma(a[i][p], b[p].four[j / 4][j % 4], sum[i].four[j / 4][j % 4]);
}

/* The numbers of a (m, k) and b (k, 8), by rows */
INLINE void read_operands(lanes_t lanes, int m, unsigned k, enum smemkit_element a_type,
                          enum smemkit_element b_type, double (*a)[MAX_K], row_t *b)
{
    const unsigned row_words = k * (unsigned)bits_of(a_type) / 32;
    const bool wide = a_type == SMEMKIT_F64;
    words_t words[MAX_M];
    double column[MAX_K];

    gather(lanes, false, m, row_words, wide, words);
    for (int i = 0; i < m; i++)
        convert(words[i], k, a_type, a[i]);
    gather(lanes, true, N, row_words, wide, words);
    for (unsigned j = 0; j < N; j++) {
        convert(words[j], k, b_type, column);
        for (unsigned p = 0; p < k; p++)
            b[p].four[j / 4][j % 4] = column[p];
    }
}

INLINE void read_c(lanes_t lanes, int m, enum smemkit_element type, row_t *sum)
{
    words_t words[MAX_M];

    gather_c(lanes, m, type, words);
    for (int i = 0; i < m; i++)
        convert(words[i], N, type, (double *)&sum[i]);
}

INLINE void write_d(lanes_t lanes, int m, enum smemkit_element type, const row_t *sum)
{
    words_t words[MAX_M];

    for (int i = 0; i < m; i++)
        convert_back((const double *)&sum[i], N, type, words[i]);
    scatter(lanes, m, type, words);
}

/* Calls a function with a type that the compiler knows, so that it knows the function's loops. */
#define WITH_TYPE(function, lanes, m, type, sum)  \
    do {                                          \
        if ((type) == SMEMKIT_F16)                \
            function(lanes, m, SMEMKIT_F16, sum); \
        else if ((type) == SMEMKIT_F64)           \
            function(lanes, m, SMEMKIT_F64, sum); \
        else                                      \
            function(lanes, m, SMEMKIT_F32, sum); \
    } while (0)

INLINE void multiply_type(lanes_t lanes, enum smemkit_element type, int m, int k)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);
    double a[MAX_M][MAX_K];
    row_t b[MAX_K], sum[MAX_M];

    read_operands(lanes, m, (unsigned)k, type, type, a, b);
    WITH_TYPE(read_c, lanes, m, shape->c_type, sum);
    if (type == SMEMKIT_F64)
        fuse_rows(m, k, a, b, sum);
    else
        multiply_rows(m, k, a, b, sum);
    WITH_TYPE(write_d, lanes, m, shape->d_type, sum);
}
#undef WITH_TYPE

/* Each type apart, and the shapes of halves. */
INLINE void multiply_each_type(lanes_t lanes)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);

    if (shape->a_type == SMEMKIT_F16 && shape->k == 16)
        multiply_type(lanes, SMEMKIT_F16, 16, 16);
    else if (shape->a_type == SMEMKIT_F16)
        multiply_type(lanes, SMEMKIT_F16, 16, 8);
    else if (shape->a_type == SMEMKIT_BF16)
        multiply_type(lanes, SMEMKIT_BF16, 16, shape->k);
    else if (shape->a_type == SMEMKIT_TF32)
        multiply_type(lanes, SMEMKIT_TF32, 16, shape->k);
    else
        multiply_type(lanes, SMEMKIT_F64, shape->m, shape->k);
}

#ifdef __x86_64__
/* Multiplies floats with vectors of four doubles. The results do not differ. */
__attribute__((target("avx2,fma"))) static NOINLINE void multiply_floats_wide(lanes_t lanes)
{
    multiply_each_type(lanes);
}
#endif

static NOINLINE void multiply_floats(lanes_t lanes)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        multiply_floats_wide(lanes);
        return;
    }
#endif
    multiply_each_type(lanes);
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
    row_t b[MAX_K], sum[MAX_M] = {0};

    read_operands(lanes, shape->m, (unsigned)shape->k, shape->a_type, shape->b_type, a, b);
    multiply_rows(shape->m, shape->k, a, b, sum);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < (unsigned)shape->m / 4; i++) {
            const unsigned column = column_of(lane, i);

            lane_of(lanes, lane)->d[i] = integer_sum(sum[row_of(lane, i)].four[column / 4][column % 4],
                                                     (int32_t)lane_of(lanes, lane)->c[i], shape->saturate);
        }
}

static NOINLINE void multiply_bits(lanes_t lanes)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);
    const unsigned row_words = (unsigned)shape->k / 32;
    words_t a[MAX_M], b[N];

    gather(lanes, false, shape->m, row_words, false, a);
    gather(lanes, true, N, row_words, false, b);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < (unsigned)shape->m / 4; i++) {
            const uint32_t *x = a[row_of(lane, i)], *y = b[column_of(lane, i)];
            uint32_t sum = (uint32_t)lane_of(lanes, lane)->c[i];

            for (unsigned p = 0; p < row_words; p++)
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

/* `count` elements of a lane's registers */
static void read_elements(const uint64_t *registers, unsigned count, enum smemkit_element type, double *to)
{
    words_t words;

    for (unsigned i = 0; i < count * (unsigned)bits_of(type) / 32; i++)
        words[i] = (uint32_t)registers[i];
    convert(words, count, type, to);
}

static void multiply_quads(lanes_t lanes, unsigned q)
{
    const struct smemkit_mma *shape = lane_of(lanes, 0);
    double a[8][4], b[4][8], sum[8][8], x[4], y[4], c[8];
    words_t words;
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
    for (unsigned i = 0; i < 8; i++)
        for (unsigned p = 0; p < 4; p++)
            for (unsigned j = 0; j < 8; j++)
                sum[i][j] += a[i][p] * b[p][j];
    for (unsigned n = 0; n < 8; n++) {
        const unsigned lane = 4 * q + n % 4 + (n < 4 ? 0 : 16);

        for (unsigned i = 0; i < 8; i++) {
            quad_position(lane, i, shape->d_type, &row, &column);
            c[i] = sum[row][column];
        }
        convert_back(c, 8, shape->d_type, words);
        for (unsigned i = 0; i < 8u * (unsigned)bits_of(shape->d_type) / 32; i++)
            lane_of(lanes, lane)->d[i] = words[i];
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

/* The row and the column of half h of lane l's register. */
static void locate_half(const struct smemkit_matrices *moved, unsigned lane, unsigned h, unsigned *row,
                        unsigned *column)
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

                locate_half(all[lane], lane, h, &row, &column);
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

                locate_half(all[lane], lane, h, &row, &column);
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

static void check_address(const void *address, unsigned alignment, const char *instruction, const char *file,
                          int line)
{
    char what[MESSAGE_BYTES];

    if ((uintptr_t)address % alignment == 0)
        return;
    snprintf(what, sizeof what, "%s of a row at an address that is not a multiple of %u at %.200s:%d", instruction,
             alignment, file, line);
    worker_fail(own_worker(), KIND_MISALIGNED, what, file, line);
}

void smemkit_matrix_row(const void *row, const char *instruction, const char *file, int line)
{
    check_address(row, 16, instruction, file, line);
}

int smemkit_are_accessible(const void *address, size_t bytes)
{
    const uintptr_t first = (uintptr_t)address;
    uintptr_t start, end;

    if (smemkit_is_shared(address))
        return smemkit_is_shared((const char *)address + bytes - 1);
    return memory_find(address, &start, &end) && first >= start && bytes <= end - first;
}

void smemkit_fragment_place(const void *address, unsigned leading, int bits, const char *function,
                            const char *file, int line)
{
    char what[MESSAGE_BYTES];

    check_address(address, bits == 8 ? 8 : 16, function, file, line);
    if ((bits != 16 && bits != 32) || leading * (unsigned)bits % 128 == 0)
        return;
    snprintf(what, sizeof what,
             "%s with a leading dimension of %u elements, which are not a multiple of 16 bytes, at %.200s:%d",
             function, leading, file, line);
    worker_fail(own_worker(), KIND_MISALIGNED, what, file, line);
}
