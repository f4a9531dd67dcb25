// An operand of a product as 16-bit parts for the tensor cores, in rows that the TMA can copy: see
// wgmma_split.cuh.
//
// A side is a row of a, or a column of b. The elements of a float32 side are multiplied by a power of two, by
// which the product's elements are divided again. One or two float16, rounded remainders of each other, hold 11 or
// 22 bits of an element, down to 2^-25 where the side's largest is 2^14 to 2^15; bfloat16 hold 8 bits each, from
// 2^51 down to 2^-50.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "product.cuh"

enum { STRIP = 128 }; // sides whose flags are joined
enum split_flags : unsigned {
    LONG = 1,  // a number has more than 11 bits
    SPARSE = 2 // a side has mostly small numbers
};

constexpr int HALVES_EXPONENT = 14, BFLOATS_EXPONENT = 50; // of a side's largest element, once multiplied

// What is known about the sides of a float32 operand. All are zeroed before the first kernel.
struct side_facts {
    unsigned *largest; // per side: the bits of the largest magnitude; Inf and NaN are larger than all others
    unsigned *large;   // per side: the number of elements of at least 2^-6 of it
    unsigned *special; // per side: not 0 if its elements' range is too wide, or not finite
    unsigned *tickets; // per strip of tiles: how many blocks are done with theirs
    unsigned *flags;   // per strip of sides: enum split_flags
    unsigned *all;     // the flags of all strips
};

// An operand as it lies in memory: columns are nearer to each other than rows. Its parts are (parts, matrices,
// rows, pitch); of float32, there are some in float16, and others in bfloat16 for those tiles of c that need them.
template <class T>
struct split_operand {
    strided_matrix<T> data;
    int64_t matrices, rows, columns, pitch;
    bool sides_are_rows, packs;
    side_facts facts;
    uint16_t *parts, *bfloats;

    __host__ __device__ int64_t sides() const
    {
        return sides_are_rows ? rows : columns;
    }

    __host__ __device__ int64_t strips() const
    {
        return ceil_div(sides(), STRIP);
    }

    __host__ int64_t part_elements() const
    {
        return matrices * rows * pitch;
    }
};

// Whether float16 is exact enough for products of sides whose strips have these flags. It loses the product of two
// second parts, and what is below 2^-25. That is little beside a sum of like numbers; a sum of few numbers, which
// a side of mostly small ones may give, has to be exact: then each number must fit one float16.
static __device__ inline bool halves_suffice(unsigned flags)
{
    return flags != (LONG | SPARSE);
}

// the exponent of the power of two by which a side is multiplied, so that its largest element has this exponent
static __device__ inline int side_scale(unsigned largest, int exponent)
{
    return exponent + 127 - max((int)(largest >> 23), 1);
}

static __device__ inline bool is_finite_side(unsigned largest)
{
    return largest < 0x7f800000;
}

// for exponents of normal numbers
static __device__ inline float power_of_two(int exponent)
{
    return __int_as_float((exponent + 127) << 23);
}

// x * 2^exponent, rounded once
static __device__ inline float times_power(float x, int exponent)
{
    const auto limited = [](int e) { return max(-126, min(127, e)); };
    const int last = limited(exponent), middle = limited(exponent - last);

    return x * power_of_two(limited(exponent - last - middle)) * power_of_two(middle) * power_of_two(last);
}

constexpr int SPLIT_ROWS = 32, SPLIT_COLUMNS = 128, SPLIT_BLOCK = 256, SPLIT_WARPS = SPLIT_BLOCK / 32;
constexpr int WARP_ROWS = SPLIT_ROWS / SPLIT_WARPS, LANE_COLUMNS = SPLIT_COLUMNS / 32;

template <class T>
static int64_t split_tiles(const split_operand<T> &x)
{
    return x.matrices * ceil_div(x.rows, SPLIT_ROWS) * ceil_div(x.columns, SPLIT_COLUMNS);
}

// A block's tile of an operand: each lane has LANE_COLUMNS columns of WARP_ROWS rows.
template <class T>
struct split_tile {
    split_operand<T> of;
    int64_t matrix, row, column; // of this thread's first element
    int64_t strip;               // of the tiles with the same sides

    // Takes tile `index` of a, or of b if there are not so many.
    __device__ split_tile(const split_operand<T> &a, const split_operand<T> &b, int64_t a_tiles)
    {
        const bool is_a = blockIdx.x < a_tiles;

        of = is_a ? a : b;
        const int64_t index = is_a ? blockIdx.x : blockIdx.x - a_tiles;
        const int64_t right = (of.columns + SPLIT_COLUMNS - 1) / SPLIT_COLUMNS;
        const int64_t down = (of.rows + SPLIT_ROWS - 1) / SPLIT_ROWS;
        const int64_t x = index % right, y = index / right % down;

        matrix = index / right / down;
        row = y * SPLIT_ROWS + threadIdx.x / 32 * WARP_ROWS;
        column = x * SPLIT_COLUMNS + threadIdx.x % 32 * LANE_COLUMNS;
        strip = matrix * (of.sides_are_rows ? down : right) + (of.sides_are_rows ? y : x);
    }

    __device__ bool has(int r, int c) const
    {
        return row + r < of.rows && column + c < of.columns;
    }

    __device__ void load(T (&x)[WARP_ROWS][LANE_COLUMNS]) const
    {
        const T *first = of.data.data + matrix * of.data.batch_stride;

#pragma unroll
        for (int r = 0; r < WARP_ROWS; r++) {
            const T *from = first + (row + r) * of.data.row_stride + column * of.data.column_stride;

            if (of.packs && has(r, LANE_COLUMNS - 1)) {
                const pack<T, LANE_COLUMNS> all = *(const pack<T, LANE_COLUMNS> *)from;

                for (int c = 0; c < LANE_COLUMNS; c++)
                    x[r][c] = all.element[c];
            } else {
                for (int c = 0; c < LANE_COLUMNS; c++)
                    x[r][c] = has(r, c) ? from[c * of.data.column_stride] : T(0);
            }
        }
    }

    // the flags of the tile's sides
    __device__ unsigned *flags() const
    {
        return &of.facts.flags[matrix * of.strips() + (of.sides_are_rows ? row : column) / STRIP];
    }

    // The joined flags of the STRIPS, counted from the first one on, to which the tile's strip belongs
    template <int STRIPS>
    __device__ unsigned flags_of_strips() const
    {
        const int64_t strip = (of.sides_are_rows ? row : column) / STRIP / STRIPS * STRIPS;
        unsigned flags = 0;

        for (int64_t i = strip; i < min(strip + STRIPS, of.strips()); i++)
            flags |= of.facts.flags[matrix * of.strips() + i];
        return flags;
    }

    // the index of the side of element (r, c) in the facts
    __device__ int64_t side(int r, int c) const
    {
        return matrix * of.sides() + (of.sides_are_rows ? row + r : column + c);
    }

    // What the elements of this thread's sides are multiplied by, in two steps; zeros if they are not finite.
    struct scales {
        bool by_row;
        float2 of_row[WARP_ROWS], of_column[LANE_COLUMNS];

        __device__ scales(const split_tile &tile, int exponent) : by_row(tile.of.sides_are_rows)
        {
            const auto scale = [&](bool inside, int r, int c) {
                const unsigned largest = inside ? tile.of.facts.largest[tile.side(r, c)] : 0;
                const int power = side_scale(largest, exponent), first = min(power, 127);

                return is_finite_side(largest) ? make_float2(power_of_two(first), power_of_two(power - first))
                                               : make_float2(0, 0);
            };

#pragma unroll
            for (int r = 0; r < WARP_ROWS; r++)
                of_row[r] = scale(by_row && tile.has(r, 0), r, 0);
#pragma unroll
            for (int c = 0; c < LANE_COLUMNS; c++)
                of_column[c] = scale(!by_row && tile.has(0, c), 0, c);
        }

        __device__ float2 operator()(int r, int c) const
        {
            return by_row ? of_row[r] : of_column[c];
        }
    };

    // Joins what the threads know of each element's side, and gives it to `add(side, value)`.
    template <class Join, class Add>
    __device__ void join_sides(const unsigned (&x)[WARP_ROWS][LANE_COLUMNS], Join join, Add add) const
    {
        __shared__ unsigned of_columns[SPLIT_WARPS][SPLIT_COLUMNS];
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

        if (of.sides_are_rows) {
#pragma unroll
            for (int r = 0; r < WARP_ROWS; r++) {
                unsigned all = join(join(x[r][0], x[r][1]), join(x[r][2], x[r][3]));

                for (int distance = 16; distance > 0; distance /= 2)
                    all = join(all, __shfl_xor_sync(~0u, all, distance));
                if (lane == 0 && row + r < of.rows)
                    add(side(r, 0), all);
            }
            return;
        }
#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c++) {
            unsigned all = x[0][c];

#pragma unroll
            for (int r = 1; r < WARP_ROWS; r++)
                all = join(all, x[r][c]);
            of_columns[warp][lane + c * 32] = all;
        }
        __syncthreads(); // all warps have stored their columns before they are joined
        if (threadIdx.x < SPLIT_COLUMNS) {
            const int c = threadIdx.x / 32;
            unsigned all = of_columns[0][threadIdx.x];

            for (int w = 1; w < SPLIT_WARPS; w++)
                all = join(all, of_columns[w][threadIdx.x]);
            if (column + c < of.columns)
                add(side(0, c), all);
        }
    }
};

static __global__ void __launch_bounds__(SPLIT_BLOCK) matmul_split_zero(unsigned *facts, int64_t words)
{
    pdl_wait();
    for (int64_t i = (int64_t)blockIdx.x * SPLIT_BLOCK + threadIdx.x; i < words; i += gridDim.x * SPLIT_BLOCK)
        facts[i] = 0;
}

static __global__ void __launch_bounds__(SPLIT_BLOCK)
    matmul_split_largest(split_operand<float> a, split_operand<float> b, int64_t a_tiles)
{
    const split_tile<float> tile(a, b, a_tiles);
    float x[WARP_ROWS][LANE_COLUMNS];
    unsigned magnitude[WARP_ROWS][LANE_COLUMNS];

    pdl_wait();
    tile.load(x);
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++)
#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c++)
            magnitude[r][c] = __float_as_uint(x[r][c]) & 0x7fffffff;
    tile.join_sides(
        magnitude, [](unsigned p, unsigned q) { return max(p, q); },
        [&](int64_t side, unsigned largest) { atomicMax(&tile.of.facts.largest[side], largest); });
}

// Stores neighbours in row r of a part.
template <class T>
static __device__ inline void store_part(const split_tile<T> &tile, uint16_t *parts, int part, int r,
                                         const uint16_t (&x)[LANE_COLUMNS])
{
    const split_operand<T> &of = tile.of;
    pack<uint16_t, LANE_COLUMNS> all;

    if (tile.row + r >= of.rows || tile.column >= of.pitch) // a pitch is a multiple of a pack
        return;
    for (int c = 0; c < LANE_COLUMNS; c++)
        all.element[c] = x[c];
    *(pack<uint16_t, LANE_COLUMNS>
          *)&parts[((part * of.matrices + tile.matrix) * of.rows + tile.row + r) * of.pitch + tile.column] = all;
}

// Whether the strip of the block's tile has a side whose elements are mostly small, or sides so short that their
// products' errors do not cancel. Every block adds its counts first; the last one of the strip knows.
static __device__ bool is_last_and_sparse(const split_tile<float> &tile)
{
    constexpr int SHORT = 32;
    const split_operand<float> &of = tile.of;
    const int64_t length = of.sides_are_rows ? of.columns : of.rows;
    const int64_t tiles = ceil_div(length, of.sides_are_rows ? SPLIT_COLUMNS : SPLIT_ROWS);
    const int count = of.sides_are_rows ? SPLIT_ROWS : SPLIT_COLUMNS;
    const int64_t first = (of.sides_are_rows ? tile.row : tile.column) / count * count;
    __shared__ bool is_last;

    __threadfence();
    __syncthreads(); // all threads have added their counts before the ticket is drawn
    if (threadIdx.x == 0)
        is_last = atomicAdd(&of.facts.tickets[tile.strip], 1u) == tiles - 1;
    __syncthreads(); // all threads know whether the block is the last
    if (!is_last || threadIdx.x >= count || first + threadIdx.x >= of.sides())
        return false;
    __threadfence();
    const int64_t side = tile.matrix * of.sides() + first + threadIdx.x;
    const unsigned largest = of.facts.largest[side];

    return largest && is_finite_side(largest) &&
           (length < SHORT || 2 * (int64_t)__ldcg(&of.facts.large[side]) <= length);
}

// Stores an operand as PARTS float16, and completes the facts.
template <int PARTS>
static __global__ void __launch_bounds__(SPLIT_BLOCK, 3)
    matmul_split_halves(split_operand<float> a, split_operand<float> b, int64_t a_tiles)
{
    constexpr float LARGE = 512, LEAST = 0x1p-86f; // BFLOATS_EXPONENT makes 2^-50 of the latter
    const split_tile<float> tile(a, b, a_tiles);
    const side_facts &facts = tile.of.facts;
    float x[WARP_ROWS][LANE_COLUMNS];
    unsigned large[WARP_ROWS][LANE_COLUMNS];
    bool is_long = false;
    unsigned special = 0; // a bit per element

    pdl_wait();
    tile.load(x);
    const split_tile<float>::scales scales(tile, HALVES_EXPONENT);
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++) {
        uint16_t parts[PARTS][LANE_COLUMNS];

#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c++) {
            const float2 scale = scales(r, c);
            const float scaled = scale.x > 0 ? x[r][c] * scale.x * scale.y : 0;
            float rest = scaled;

#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                const __half rounded = __float2half_rn(rest);

                parts[part][c] = __half_as_ushort(rounded);
                rest -= __half2float(rounded);
                is_long = is_long || (part == 0 && rest != 0);
            }
            large[r][c] = fabsf(scaled) >= LARGE;
            special |= (unsigned)(scale.x == 0 || (x[r][c] != 0 && fabsf(scaled) < LEAST))
                       << (r * LANE_COLUMNS + c);
        }
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            store_part(tile, tile.of.parts, part, r, parts[part]);
    }
    static_assert(WARP_ROWS * LANE_COLUMNS < 32, "a bit per element");
    for (int e = 0; special >> e; e++)
        if (special >> e & 1)
            atomicOr(&facts.special[tile.side(e / LANE_COLUMNS, e % LANE_COLUMNS)], 1u);
    tile.join_sides(
        large, [](unsigned p, unsigned q) { return p + q; },
        [&](int64_t side, unsigned count) { atomicAdd(&facts.large[side], count); });

    unsigned flags = __syncthreads_or(is_long) ? LONG : 0;

    if (__syncthreads_or(is_last_and_sparse(tile)))
        flags |= SPARSE;
    if (threadIdx.x == 0 && flags) {
        atomicOr(tile.flags(), flags);
        atomicOr(facts.all, flags);
    }
}

// Stores an operand as PARTS bfloat16, where float16 does not suffice for all products with the other operand.
// STRIPS of sides together may belong to one tile of c.
template <int PARTS, int STRIPS>
static __global__ void __launch_bounds__(SPLIT_BLOCK)
    matmul_split_bfloats(split_operand<float> a, split_operand<float> b, int64_t a_tiles)
{
    pdl_wait();
    if (halves_suffice(*a.facts.all | *b.facts.all))
        return;
    const split_tile<float> tile(a, b, a_tiles);
    float x[WARP_ROWS][LANE_COLUMNS];

    if (halves_suffice(tile.flags_of_strips<STRIPS>() | *(blockIdx.x < a_tiles ? b : a).facts.all))
        return;
    tile.load(x);
    const split_tile<float>::scales scales(tile, BFLOATS_EXPONENT);
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++) {
        uint16_t parts[PARTS][LANE_COLUMNS];

#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c++) {
            const float2 scale = scales(r, c);
            float rest = scale.x > 0 ? x[r][c] * scale.x * scale.y : 0;

#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                const __nv_bfloat16 rounded = __float2bfloat16_rn(rest);

                parts[part][c] = __bfloat16_as_ushort(rounded);
                rest -= __bfloat162float(rounded);
            }
        }
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            store_part(tile, tile.of.bfloats, part, r, parts[part]);
    }
}

// Copies operands of 16-bit elements.
template <class T>
static __global__ void __launch_bounds__(SPLIT_BLOCK)
    matmul_split_copy(split_operand<T> a, split_operand<T> b, int64_t a_tiles)
{
    const split_tile<T> tile(a, b, a_tiles);
    T x[WARP_ROWS][LANE_COLUMNS];

    pdl_wait();
    tile.load(x);
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++) {
        uint16_t bits[LANE_COLUMNS];

        for (int c = 0; c < LANE_COLUMNS; c++)
            bits[c] = reinterpret_cast<const uint16_t &>(x[r][c]);
        store_part(tile, tile.of.parts, 0, r, bits);
    }
}

// The operand as it lies in memory, seen as (sides, k).
template <class T>
static split_operand<T> split_operand_of(const strided_matrix<T> &x, int64_t matrices, int64_t sides, int64_t k)
{
    const bool along_k = std::abs(x.column_stride) <= std::abs(x.row_stride);
    split_operand<T> to = {};

    to.data = along_k ? x : x.transposed();
    to.matrices = matrices;
    to.rows = along_k ? sides : k;
    to.columns = along_k ? k : sides;
    to.pitch = ceil_div(to.columns, 8) * 8;
    to.sides_are_rows = along_k;
    to.packs = has_packs<LANE_COLUMNS>(to.data, to.columns, false);
    return to;
}

// Places the operands' facts and parts in scratch memory of matmul_parts_bytes(). Returns the number of words of
// facts, which come first.
static int64_t place_facts(void *scratch, split_operand<float> &a, split_operand<float> &b)
{
    unsigned *next = (unsigned *)scratch;
    const auto take = [&](int64_t count) {
        unsigned *const first = next;

        next += count;
        return first;
    };

    for (split_operand<float> *x : {&a, &b}) {
        const int64_t sides = x->matrices * x->sides();

        x->facts.largest = take(sides);
        x->facts.large = take(sides);
        x->facts.special = take(sides);
        x->facts.tickets = take(x->matrices * ceil_div(x->sides(), SPLIT_ROWS));
        x->facts.flags = take(x->matrices * x->strips());
        x->facts.all = take(1);
    }
    return next - (unsigned *)scratch;
}

// `parts` and `bfloats`: how many. An error if they need more memory than there is, or if the TMA cannot count
// them.
template <class T>
[[nodiscard]] static cudaError_t place_parts(const matmul_args *args, int64_t words_before, int parts, int bfloats,
                                             split_operand<T> &a, split_operand<T> &b)
{
    constexpr int64_t GRAIN = 128; // bytes
    char *const begin = (char *)args->scratch;
    char *next = begin + ceil_div(words_before * (int64_t)sizeof(unsigned), GRAIN) * GRAIN;
    const auto take = [&](int64_t elements) {
        uint16_t *const first = (uint16_t *)next;

        next += ceil_div(elements * (int64_t)sizeof(uint16_t), GRAIN) * GRAIN;
        return first;
    };

    for (split_operand<T> *x : {&a, &b}) {
        x->parts = take(parts * x->part_elements());
        x->bfloats = take(bfloats * x->part_elements());
    }
    const bool fits = (uint64_t)(next - begin) <= args->scratch_bytes && args->m < MATMUL_MAX_SIDE &&
                      args->n < MATMUL_MAX_SIDE && args->k < MATMUL_MAX_SIDE;

    return fits ? cudaSuccess : cudaErrorInvalidValue;
}

template <auto KERNEL, class T>
[[nodiscard]] static cudaError_t launch_on_tiles(const split_operand<T> &a, const split_operand<T> &b,
                                                 cudaStream_t stream)
{
    const int64_t a_tiles = split_tiles(a), tiles = a_tiles + split_tiles(b);

    return tiles > MAX_GRID_X ? cudaErrorInvalidConfiguration
                              : launch<KERNEL>((unsigned)tiles, SPLIT_BLOCK, 0, stream, a, b, a_tiles);
}
