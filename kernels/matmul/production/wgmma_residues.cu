// C = A @ B of float64 on Hopper's tensor cores for bytes, which multiply some 25 times as fast as those for
// doubles.
//
// The idea: a row of A and a column of B are multiplied by powers of two, and rounded to integers of at most 53
// bits. Their product is an integer, too, and an integer is known by its residues modulo numbers that have no
// common divisor, if it is smaller than half of their product (the Chinese remainder theorem). Residues are bytes;
// so there are fifteen products of bytes, whose sums are reduced modulo 256, 255, 253, ...; a last pass finds the
// integer, and divides it by the powers of two. (Ozaki, Uchino, Imamura, "Ozaki Scheme II: A GEMM-oriented
// emulation of floating-point matrix multiplication using an integer modular technique", 2025.)
//
// An element is rounded by at most 2^-(bits + 1) of the power of two above the largest of its row or column (its
// side), whatever its own size; up to k = 1585 there are 53 bits, 52 up to 6343, 51 up to 25,375, and so on. So
// small numbers beside large ones are lost. How far a side's numbers are below that power of two, in bits and on
// average, decides whether that matters. If it is d for a row and e for a column, |A||B| is at least k 2^-(d + e)
// times the product of the two powers (an arithmetic mean is no smaller than the geometric one), and what rounding
// adds to the element of C is at most k 2^-bits of it. A side is wide if its d is larger than (log2(k) - 2 - (53 -
// bits)) / 2. Between sides that are not wide, rounding adds at most k/4 2^-53 |A||B|, a quarter of the bound of
// sums in float64, and the result itself is rounded twice. The error is smaller than that of cuBLAS for normal and
// for uniform numbers. Where the large numbers of rows meet the small ones of columns, sums in float64 are far
// better than their bound: with halves of rows and columns 2^-8 of the others, the error is 6 times theirs (k =
// 4096), or 10 times (k = 8192).
//
// A tile of C between strips of 128 sides of which one is wide, or not finite, is multiplied in float64
// (dmma.cuh). Zeros and subnormal numbers count as 64 bits below, so that a matrix with more than a few percent of
// zeros is wide; rows of normal numbers are so below k = 1260, and from 1586 to 2520. (NVIDIA's cuBLAS decides for
// whole products whether its emulation has enough bits: Schwarz et al., "Guaranteed DGEMM accuracy while using
// tensor cores through extensions of the Ozaki scheme", 2025; the rule here is another.)
//
// Launches: what is known of the sides; the wide ones among them; lists of tiles; the residues, in rows along k,
// as wgmma wants bytes; the products, by blocks of 384 threads, one per multiprocessor; the result; the tiles in
// float64, whose operands are copied first if the TMA needs that. Those without work end at once.
#include <cmath>

#include "dmma.cuh"
#include "wgmma_digits.cuh"

constexpr int MODULI = MATMUL_MODULI, COLUMNS = 256; // of a block's tile of C
constexpr int LIMBS = 3, LIMB_BITS = 40;
constexpr int MOST_BITS = 53; // of a scaled element, of which a double has no more; see residue()
constexpr unsigned SUBNORMAL = 1, INFINITE = 2048; // exponents: see exponent_of()
constexpr unsigned LOG_STEPS = 32;                 // to a bit of a logarithm
constexpr int64_t ZERO_BITS = 64;                  // how far a zero counts as being below the largest: see below
constexpr int LISTING_BLOCK = 256, COMBINING_BLOCK = 256, FOUR = 4;

// The moduli have no common divisors. weight: multiplied by it, a number is congruent to itself modulo one of
// them, and to 0 modulo the others.
struct moduli {
    double modulus[MODULI], inverse[MODULI];
    double weight[MODULI][LIMBS], all[LIMBS]; // in limbs, the lowest first; all: the product of all moduli
    double inverse_of_all;                    // counted in the second limb
};

struct big_integer {
    uint64_t limb[LIMBS];

    // += x * factor, which is below 2^20
    constexpr void add(const big_integer &x, uint64_t factor)
    {
        uint64_t carry = 0;

        for (int i = 0; i < LIMBS; i++) {
            carry += limb[i] + x.limb[i] * factor;
            limb[i] = carry % (1ull << LIMB_BITS);
            carry >>= LIMB_BITS;
        }
    }

    constexpr uint64_t modulo(uint64_t m) const
    {
        uint64_t rest = 0;

        for (int i = LIMBS - 1; i >= 0; i--)
            rest = ((rest << LIMB_BITS) + limb[i]) % m;
        return rest;
    }
};

static constexpr moduli make_moduli()
{
    constexpr int NUMBERS[MODULI] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197};
    const auto product_without = [&](int which) {
        big_integer product = {{1}};

        for (int i = 0; i < MODULI; i++)
            if (i != which) {
                big_integer next = {};

                next.add(product, (uint64_t)NUMBERS[i]);
                product = next;
            }
        return product;
    };
    const big_integer all = product_without(-1);
    moduli to = {};

    for (int l = 0; l < MODULI; l++) {
        const big_integer others = product_without(l);
        const uint64_t m = (uint64_t)NUMBERS[l], residue = others.modulo(m);
        big_integer weight = {};
        uint64_t inverse = 1;

        while (inverse * residue % m != 1)
            inverse++;
        weight.add(others, inverse);
        to.modulus[l] = NUMBERS[l];
        to.inverse[l] = 1.0 / NUMBERS[l];
        for (int i = 0; i < LIMBS; i++)
            to.weight[l][i] = (double)weight.limb[i];
    }
    for (int i = 0; i < LIMBS; i++)
        to.all[i] = (double)all.limb[i];
    to.inverse_of_all = 1 / (to.all[2] * (double)(1ull << LIMB_BITS) + to.all[1]);
    return to;
}

// Bits of the operands' scaled elements, so that sums of k products are below 0.45 times the product of all
// moduli.
static int bits_of_elements(const moduli &of, int64_t k)
{
    double all = 1;

    for (double modulus : of.modulus)
        all *= modulus;
    return std::min(MOST_BITS, (int)std::floor(std::log2(0.45 * all / (double)std::max<int64_t>(k, 1)) / 2));
}

// ---- the residues of an operand ----

// What is known of an operand's sides. Those of single sides are zeroed before the first kernel.
struct range_facts {
    unsigned long long *logarithms; // per side: the sum of log_of() of the elements
    unsigned *exponent;             // per side: of its largest element
    unsigned *zeros;                // per side: elements that have no logarithm
    unsigned *wide;                 // per strip of sides: not 0 if one of them is wide
};

struct residue_operand {
    digit_operand<double> digits;
    range_facts facts;
};

// 1 more than the exponent of x has in its bits; 0 if x is 0, SUBNORMAL if it is below all normal numbers.
static __device__ inline unsigned exponent_of(double x)
{
    const unsigned in_bits = (unsigned)__double2hiint(x) >> 20 & 2047;

    return in_bits ? in_bits + 1 : x != 0;
}

// the power of two by which a side is multiplied: its elements then have `bits`
static __device__ inline int scale_of_side(unsigned exponent, int bits)
{
    return bits + 1023 - (int)exponent;
}

// 1023 + log2(|x|) in LOG_STEPS, with a straight line between powers of two, and rounded down: no larger than it
// is. For normal numbers.
static __device__ inline unsigned log_of(double x)
{
    return (unsigned)__double2hiint(x) >> 15 & 0xffff;
}

static __global__ void __launch_bounds__(SPLIT_BLOCK)
    matmul_measure_sides(residue_operand a, residue_operand b, int64_t a_tiles)
{
    constexpr unsigned ZERO = 1 << 23; // a zero among sums of logarithms
    static_assert(SPLIT_ROWS <= SPLIT_COLUMNS && SPLIT_COLUMNS * 0xffff < ZERO, "a tile's sums are smaller");
    const split_tile<double> tile(a.digits.from, b.digits.from, a_tiles);
    const range_facts &facts = (blockIdx.x < a_tiles ? a : b).facts;
    double x[WARP_ROWS][LANE_COLUMNS];

    pdl_wait();
    tile.load(x);
    tile.join_sides([&](int r, int c) { return exponent_of(x[r][c]); },
                    [](unsigned p, unsigned q) { return max(p, q); },
                    [&](int64_t side, unsigned largest) { atomicMax(&facts.exponent[side], largest); });
    tile.join_sides(
        [&](int r, int c) {
            return !tile.has(r, c) ? 0 : exponent_of(x[r][c]) > SUBNORMAL ? log_of(x[r][c]) : ZERO;
        },
        [](unsigned p, unsigned q) { return p + q; },
        [&](int64_t side, unsigned sum) {
            atomicAdd(&facts.logarithms[side], (unsigned long long)(sum % ZERO));
            if (sum / ZERO)
                atomicAdd(&facts.zeros[side], sum / ZERO);
        });
}

// A block has a strip of a, or of b if there are not so many. `most_depth`: how far the numbers of a side that is
// not wide are below its largest one's power of two, all together, in LOG_STEPS. A product with a zero adds
// nothing to |A||B|, which the logarithms of the others must make up for: ZERO_BITS of each are enough, because
// they are more than log2(k).
static __global__ void __launch_bounds__(STRIP)
    matmul_find_wide_sides(residue_operand a, residue_operand b, int64_t a_strips, int64_t most_depth)
{
    const bool is_a = blockIdx.x < a_strips;
    const residue_operand &x = is_a ? a : b;
    const range_facts &facts = x.facts;
    const int64_t strip = is_a ? blockIdx.x : blockIdx.x - a_strips, sides = x.digits.from.sides();
    const int64_t in_matrix = strip % x.digits.from.strips() * STRIP + threadIdx.x;
    bool wide = false;

    pdl_wait();
    if (in_matrix < sides) {
        const int64_t side = strip / x.digits.from.strips() * sides + in_matrix, zeros = facts.zeros[side];
        const unsigned exponent = facts.exponent[side];
        const int64_t depth = (x.digits.k - zeros) * exponent * LOG_STEPS - (int64_t)facts.logarithms[side] +
                              zeros * ZERO_BITS * LOG_STEPS;

        wide = exponent == INFINITE || (exponent > 0 && depth > most_depth);
    }
    wide = __syncthreads_or(wide);
    if (threadIdx.x == 0)
        facts.wide[strip] = wide;
}

// The most_depth of sides whose elements have `bits`.
static int64_t most_depth(int64_t k, int bits)
{
    return (int64_t)std::floor((double)k * LOG_STEPS * (std::log2((double)k) - 2 - (53 - bits)) / 2);
}

// Which tiles of C are sums in float64: those between strips of which one is wide.
struct wide_tiles {
    const unsigned *a_wide, *b_wide;
    int64_t a_strips, b_strips; // of a matrix
    int a_matrices, b_matrices; // 1: the same for the whole batch

    __device__ bool row(int64_t matrix, int64_t strip) const
    {
        return a_wide[(a_matrices > 1 ? matrix : 0) * a_strips + strip];
    }

    __device__ bool column(int64_t matrix, int64_t strip) const
    {
        return b_wide[(b_matrices > 1 ? matrix : 0) * b_strips + strip];
    }

    // of STRIP x STRIP elements
    __device__ bool operator()(int matrix, int row_strip, int column_strip) const
    {
        return row(matrix, row_strip) || column(matrix, column_strip);
    }
};

// Whether a list of tiles has any.
struct is_not_empty {
    const unsigned *list;

    __device__ bool operator()() const
    {
        return *list > 0;
    }
};

// Stores the number of tiles that takes(matrix, tile's row, tile's column), and these tiles in their order.
template <class Takes>
static __device__ void list_tiles(const tile_order &order, unsigned *list, Takes takes)
{
    __shared__ unsigned counts[LISTING_BLOCK / WARP];
    const int warp = threadIdx.x / WARP;
    unsigned listed = 0;

    for (int64_t first = 0; first < order.count(); first += LISTING_BLOCK) {
        const int64_t tile = first + threadIdx.x;
        bool taken = false;

        if (tile < order.count()) {
            const tile_position at = order.position(tile);

            taken = takes(at.matrix, at.row, at.column);
        }
        const unsigned all = __ballot_sync(~0u, taken), before = all & ((1u << threadIdx.x % WARP) - 1);

        if (threadIdx.x % WARP == 0)
            counts[warp] = (unsigned)__popc(all);
        __syncthreads(); // all warps have counted
        unsigned at = listed + (unsigned)__popc(before);

        for (int w = 0; w < LISTING_BLOCK / WARP; w++) {
            at += w < warp ? counts[w] : 0;
            listed += counts[w];
        }
        if (taken)
            list[1 + at] = (unsigned)tile;
        __syncthreads(); // all have read the counts
    }
    if (threadIdx.x == 0)
        *list = listed;
}

// The first block lists the tiles in float64, the second those that have residues: BM x COLUMNS elements, in one
// strip of rows and two of columns.
static __global__ void __launch_bounds__(LISTING_BLOCK)
    matmul_list_tiles(tile_order in_float64, unsigned *float64_list, tile_order in_residues,
                      unsigned *residue_list, wide_tiles wide)
{
    static_assert(BM == STRIP && COLUMNS == 2 * STRIP, "so many strips");

    pdl_wait();
    if (blockIdx.x == 0)
        list_tiles(in_float64, float64_list, wide);
    else
        list_tiles(in_residues, residue_list, [&](int matrix, int row, int column) {
            return !wide(matrix, row, 2 * column) ||
                   (2 * column + 1 < wide.b_strips && !wide(matrix, row, 2 * column + 1));
        });
}

// The residue, of -128 to 127, of an integer. The quotient is rounded by a number to whose last bit it is added.
// The remainder may be beyond half of the modulus by |x| times the relative error of the inverse, which is below
// 1/2 for all odd moduli up to |x| = 2^54; to 256, 128 is as good as -128.
static __device__ inline uint32_t residue(double x, double modulus, double inverse)
{
    constexpr double ROUND = 3ll << 51;
    const double quotient = fma(x, inverse, ROUND) - ROUND;

    return (uint32_t)(uint8_t)__double2loint(fma(-modulus, quotient, x) + ROUND);
}

// Makes integers of a thread's elements; of those that are not finite, numbers that no result is made of. BY_ROW:
// its rows are of one side each, otherwise its columns are.
template <bool BY_ROW>
static __device__ void scale_elements(double (&x)[WARP_ROWS][LANE_COLUMNS], const split_tile<double> &tile,
                                      const unsigned *exponents, int bits)
{
    static_assert(WARP_ROWS == LANE_COLUMNS, "as many sides, whether they are rows or columns");
#pragma unroll
    for (int i = 0; i < WARP_ROWS; i++) {
        const int r = BY_ROW ? i : 0, c = BY_ROW ? 0 : i;
        const unsigned exponent = tile.has(r, c) ? exponents[tile.side(r, c)] : 0;
        const int scale = scale_of_side(exponent, bits);

#pragma unroll
        for (int j = 0; j < LANE_COLUMNS; j++) {
            double &element = BY_ROW ? x[i][j] : x[j][i];

            element = rint(scalbn(element, scale));
        }
    }
}

static __global__ void __launch_bounds__(SPLIT_BLOCK)
    matmul_store_residues(residue_operand a, residue_operand b, int64_t a_tiles, int bits, is_not_empty needed,
                          const __grid_constant__ moduli of)
{
    const split_tile<double> tile(a.digits.from, b.digits.from, a_tiles);
    const residue_operand &x = blockIdx.x < a_tiles ? a : b;
    double values[WARP_ROWS][LANE_COLUMNS];

    pdl_wait();
    if (!needed())
        return;
    tile.load(values);
    if (tile.of.sides_are_rows)
        scale_elements<true>(values, tile, x.facts.exponent, bits);
    else
        scale_elements<false>(values, tile, x.facts.exponent, bits);
    store_digits<MODULI>(x.digits, tile, values, [&](const double(&some)[LANE_COLUMNS], int which) {
        uint32_t word = 0;

#pragma unroll
        for (int i = 0; i < LANE_COLUMNS; i++)
            word |= residue(some[i], of.modulus[which], of.inverse[which]) << (8 * i);
        return word;
    });
}

// ---- the products ----

constexpr int64_t LARGEST_SUM = 1 << 30;

// Reduces sums of at most LARGEST_SUM modulo a number. The quotient is rounded down; for a negative multiple of
// the modulus it is one less, which leaves the modulus itself: as good as 0.
template <int N>
static __device__ void reduce_sums(uint32_t (&sum)[N], int modulus)
{
    constexpr int SHIFT = 38;
    const int inverse = (int)(((int64_t)1 << SHIFT) / modulus) + 1;

#pragma unroll
    for (int e = 0; e < N; e++)
        sum[e] -= (uint32_t)((int)((int64_t)(int)sum[e] * inverse >> SHIFT) * modulus);
}

// C's residues are (moduli, products, m, matmul_residue_row(n)). Tiles of which all are sums in float64 have none.
template <class Step>
static __global__ void __launch_bounds__(BLOCK, 1)
    matmul_wgmma_residues(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                          const plain_product<uint8_t> p, int products, const unsigned *list,
                          const __grid_constant__ moduli of)
{
    constexpr int64_t SAFE_STEPS = (LARGEST_SUM - 256) / (128 * 128 * Step::BK); // after which sums are reduced
    extern __shared__ __align__(1024) unsigned char bytes[];
    step_ring<Step> &ring = *(step_ring<Step> *)bytes;

    const listed_tiles tiles = {list};
    // all tiles of a modulus after those of another
    const auto for_each_tile = [&](auto visit) {
        const int64_t count = tiles.count();

        for (int64_t i = blockIdx.x; i < MODULI * count; i += gridDim.x) {
            const tile_position at = p.mapped.order.position(tiles.tile(i % count));

            visit((int)(i / count), at.matrix, at.row, at.column);
        }
    };
    unsigned turn = 0;

    pdl_wait();
    share_work(
        ring,
        [&] {
            for_each_tile([&](int modulus, int product, int row, int column) {
                const int a_z = modulus * p.mapped.a_matrices + p.mapped.a_matrix(product);
                const int b_z = modulus * p.mapped.b_matrices + p.mapped.b_matrix(product);

                for (int k = 0; k < p.mapped.k; k += Step::BK, turn++) {
                    uint64_t *const full = &ring.full[turn % step_ring<Step>::STAGES];
                    Step &to = begin_stage<Step::BN>(ring, turn);

                    load_panels<Step, true, BM>(to.a[0], a_map, row * BM, k, a_z, full);
                    load_panels<Step, true, Step::BN>(to.b[0], b_map, column * Step::BN, k, b_z, full);
                }
            });
        },
        [&] {
            const int group = threadIdx.x / GROUP - 1, warp = threadIdx.x / WARP - GROUP / WARP;
            const int64_t steps = ceil_div(p.mapped.k, Step::BK);

            for_each_tile([&](int modulus, int product, int row, int column) {
                uint32_t sum[Step::BN / 2];

                for (int64_t done = 0; done < steps; done += SAFE_STEPS) {
                    multiply_bytes(ring, sum, group * MM, done > 0, turn, min(SAFE_STEPS, steps - done));
                    reduce_sums(sum, (int)of.modulus[modulus]);
                }
                store_rows(ring.rows[warp], p, sum, modulus * products + product,
                           (int64_t)row * BM + warp * WARP_MM, (int64_t)column * Step::BN);
            });
        });
}

// ---- the result ----

// The sum of the weights times an element's residues, modulo the product of all moduli: between plus and minus a
// half of it. `sum`: of each limb, an integer below 2^53.
static __device__ double modulo_all(double (&sum)[LIMBS], const moduli &of)
{
    constexpr double BASE = 1ull << LIMB_BITS;
    const double times = rint(fma(sum[2], BASE, sum[1]) * of.inverse_of_all);

#pragma unroll
    for (int i = 0; i < LIMBS; i++)
        sum[i] = fma(-times, of.all[i], sum[i]);
#pragma unroll
    for (int i = 0; i + 1 < LIMBS; i++) { // what is beyond a limb is moved to the next
        const double carry = floor(sum[i] * (1 / BASE));

        sum[i] = fma(-carry, BASE, sum[i]);
        sum[i + 1] += carry;
    }
    return fma(fma(sum[2], BASE, sum[1]), BASE, sum[0]);
}

// A thread computes four neighbours in a row of C at once. `whole`: C's rows are made of fours, which are aligned.
static __global__ void __launch_bounds__(COMBINING_BLOCK)
    matmul_combine_residues(const __grid_constant__ product<double> p, const unsigned *a_exponent,
                            const unsigned *b_exponent, const uint8_t *residues, int64_t pitch, bool whole,
                            int bits, const wide_tiles wide, const __grid_constant__ moduli of)
{
    const int64_t rows = p.batches * p.m, right = ceil_div(p.n, FOUR * COMBINING_BLOCK);

    pdl_wait();
    for (int64_t item = blockIdx.x; item < rows * right; item += gridDim.x) {
        const int64_t row = item / right, matrix = row / p.m, in_matrix = row % p.m;
        const int64_t column = (item % right * COMBINING_BLOCK + threadIdx.x) * FOUR;
        const int left = (int)min(p.n - column, (int64_t)FOUR);
        const unsigned a = a_exponent[(p.a.batch_stride ? matrix : 0) * p.m + in_matrix];
        double *const to = &p.c[row * p.n + column];
        double sum[FOUR][LIMBS] = {};
        pack<double, FOUR> c;

        if (left <= 0 || wide((int)matrix, (int)(in_matrix / STRIP), (int)(column / STRIP)))
            continue;
#pragma unroll
        for (int l = 0; l < MODULI; l++) {
            const uint32_t word = *(const uint32_t *)&residues[(l * rows + row) * pitch + column];

#pragma unroll
            for (int i = 0; i < FOUR; i++) {
                const double residue = __hiloint2double(0x43300000, (int)(word >> (8 * i) & 255)) - 0x1p52;

#pragma unroll
                for (int limb = 0; limb < LIMBS; limb++)
                    sum[i][limb] = fma(residue, of.weight[l][limb], sum[i][limb]);
            }
        }
#pragma unroll
        for (int i = 0; i < FOUR; i++) {
            if (i >= left)
                break;
            const unsigned b = b_exponent[(p.b.batch_stride ? matrix : 0) * p.n + column + i];

            c.element[i] = scalbn(modulo_all(sum[i], of), -scale_of_side(a, bits) - scale_of_side(b, bits));
        }
        if (whole)
            *(pack<double, FOUR> *)to = c;
        else
#pragma unroll
            for (int i = 0; i < FOUR; i++)
                if (i < left)
                    to[i] = c.element[i];
    }
}

cudaError_t launch_matmul_wgmma_residues(const matmul_args *args, cudaStream_t stream)
{
    constexpr int64_t GRAIN = 128; // bytes
    using Step = step_tiles<int8_t, COLUMNS, 1, true, true>;
    static constexpr moduli of = make_moduli();
    const product<double> p = product_of<double>(args);
    char *next = (char *)args->scratch;
    const auto take = [&](int64_t bytes) {
        char *const first = next;

        next += ceil_div(bytes, GRAIN) * GRAIN;
        return first;
    };
    const auto operand = [&](const strided_matrix<double> &x, int64_t stride, int64_t sides) {
        return residue_operand{{split_operand_of(x, stride ? args->batches : 1, sides, args->k), nullptr, args->k,
                                matmul_residue_pitch(args->k)},
                               {}};
    };
    residue_operand a = operand(p.a, args->a_batch_stride, args->m);
    residue_operand b = operand(p.b.transposed(), args->b_batch_stride, args->n);

    for (residue_operand *x : {&a, &b}) {
        const split_operand<double> &from = x->digits.from;
        const auto take_words = [&](int64_t count) { return (unsigned *)take(count * (int64_t)sizeof(unsigned)); };
        const int64_t sides = from.matrices * from.sides();

        x->facts.logarithms = (unsigned long long *)take_words(2 * sides);
        x->facts.exponent = take_words(sides);
        x->facts.zeros = take_words(sides);
        x->facts.wide = take_words(from.matrices * from.strips());
    }
    const int64_t words = (next - (char *)args->scratch) / (int64_t)sizeof(unsigned);

    for (residue_operand *x : {&a, &b})
        x->digits.digits = (uint8_t *)take(MODULI * x->digits.digit_bytes());
    matmul_args padded = *args;

    padded.n = matmul_residue_row(args->n); // the TMA gives zeros for the sides that B does not have
    uint8_t *const residues = (uint8_t *)take(MODULI * args->batches * args->m * padded.n);
    const plain_product<uint8_t> products = {
        mapped_product_of(&padded, a.digits.from.matrices, b.digits.from.matrices, COLUMNS), residues,
        row_packs<uint8_t>::are_whole(residues, padded.n)};
    const tile_order in_residues = products.mapped.order;
    const tile_order in_float64 = mapped_product_of(args, 1, 1, STRIP).order;
    const auto take_list = [&](const tile_order &of_tiles) {
        return (unsigned *)take((1 + of_tiles.count()) * (int64_t)sizeof(unsigned));
    };
    unsigned *const residue_list = take_list(in_residues), *const float64_list = take_list(in_float64);

    if ((uint64_t)(next - (char *)args->scratch) > args->scratch_bytes || MODULI * args->batches > INT32_MAX)
        return cudaErrorInvalidValue;
    const int64_t a_tiles = split_tiles(a.digits.from), tiles = a_tiles + split_tiles(b.digits.from);
    const int64_t a_strips = a.digits.from.matrices * a.digits.from.strips();
    const int64_t strips = a_strips + b.digits.from.matrices * b.digits.from.strips();

    if (tiles > MAX_GRID_X || strips > MAX_GRID_X || in_float64.count() > UINT32_MAX)
        return cudaErrorInvalidConfiguration;
    const int bits = bits_of_elements(of, args->k);
    const auto map = [&](CUtensorMap *to, const residue_operand &x, int sides) {
        const split_operand<double> &from = x.digits.from;

        return make_tensor_map(to,
                               tensor<int8_t>{(const int8_t *)x.digits.digits, MODULI * from.matrices,
                                              from.sides(), x.digits.k, from.sides() * x.digits.pitch,
                                              x.digits.pitch},
                               sides);
    };
    const wide_tiles wide = {a.facts.wide,
                             b.facts.wide,
                             a.digits.from.strips(),
                             b.digits.from.strips(),
                             (int)a.digits.from.matrices,
                             (int)b.digits.from.matrices};
    const auto blocks_of = [&](int64_t items, int block) {
        return (unsigned)std::min<int64_t>(ceil_div(items, block), 8 * (int64_t)args->multiprocessors);
    };
    CUtensorMap a_map, b_map;

    if (cudaError_t error = launch<matmul_split_zero>(blocks_of(words, SPLIT_BLOCK), SPLIT_BLOCK, 0, stream,
                                                      (unsigned *)args->scratch, words))
        return error;
    if (cudaError_t error = launch<matmul_measure_sides>((unsigned)tiles, SPLIT_BLOCK, 0, stream, a, b, a_tiles))
        return error;
    if (cudaError_t error = launch<matmul_find_wide_sides>((unsigned)strips, STRIP, 0, stream, a, b, a_strips,
                                                           most_depth(args->k, bits)))
        return error;
    if (cudaError_t error = launch<matmul_list_tiles>(2, LISTING_BLOCK, 0, stream, in_float64, float64_list,
                                                      in_residues, residue_list, wide))
        return error;
    if (cudaError_t error = launch<matmul_store_residues>((unsigned)tiles, SPLIT_BLOCK, 0, stream, a, b, a_tiles,
                                                          bits, is_not_empty{residue_list}, of))
        return error;
    if (cudaError_t error = map(&a_map, a, BM))
        return error;
    if (cudaError_t error = map(&b_map, b, COLUMNS))
        return error;
    if (cudaError_t error = launch_on_multiprocessors<matmul_wgmma_residues<Step>>(
            args, MODULI * in_residues.count(), stream, a_map, b_map, products, (int)args->batches, residue_list,
            of))
        return error;
    const bool whole = args->n % FOUR == 0 && (uintptr_t)args->c % sizeof(pack<double, FOUR>) == 0;

    if (cudaError_t error = launch<matmul_combine_residues>(
            blocks_of(args->batches * args->m * ceil_div(args->n, FOUR * COMBINING_BLOCK), 1), COMBINING_BLOCK, 0,
            stream, p, a.facts.exponent, b.facts.exponent, residues, padded.n, whole, bits, wide, of))
        return error;
    matmul_args others = *args;

    others.scratch = next;
    others.scratch_bytes = args->scratch_bytes - (uint64_t)(next - (char *)args->scratch);
    return launch_dmma<STRIP>(&others, stream, listed_tiles{float64_list}, is_not_empty{float64_list});
}
