// An operand of a product as 16-bit parts for the tensor cores, in rows that the TMA can copy: see
// wgmma_split.cuh.
//
// A side is a row of a, or a column of b. The elements of a float32 side are multiplied by a power of two, by
// which the product's elements are divided again. One or two float16, rounded remainders of each other, hold 11 or
// 22 bits of an element, down to 2^-25 where the side's largest is 2^14 to 2^15; bfloat16 hold 8 bits each, from
// 2^51 down to 2^-50. Operands that are multiplied as they are, but lie where the TMA cannot copy them, have one
// part: a copy.
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

constexpr int SPECIAL_SIDE = 1 << 20;                      // larger than any scale
constexpr int SCALES = 4;                                  // that are loaded together
constexpr int HALVES_EXPONENT = 14, BFLOATS_EXPONENT = 50; // of a side's largest element, once multiplied

// What is known about the sides of a float32 operand. All are zeroed before the first kernel.
struct side_facts {
    unsigned *largest; // per side: the bits of the largest magnitude; Inf and NaN are larger than all others
    unsigned *large;   // per side: the number of elements of at least 2^-6 of it
    unsigned *special; // per side: not 0 if its elements' range is too wide, or not finite
    unsigned *flags;   // per strip of sides: enum split_flags
    unsigned *all;     // the flags of all strips
    int *scale;        // per side, at matrix * side_pitch: its side_scale() without exponent, or SPECIAL_SIDE
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

    __host__ __device__ int64_t side_pitch() const
    {
        return ceil_div(sides(), SCALES) * SCALES;
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

    // Takes tile `block` of a, or of b if there are not so many.
    __device__ split_tile(const split_operand<T> &a, const split_operand<T> &b, int64_t a_tiles,
                          int64_t block = blockIdx.x)
    {
        const bool is_a = block < a_tiles;

        of = is_a ? a : b;
        const unsigned index = (unsigned)(is_a ? block : block - a_tiles); // a grid has no more tiles
        const unsigned right = (unsigned)ceil_div(of.columns, SPLIT_COLUMNS);
        const unsigned down = (unsigned)ceil_div(of.rows, SPLIT_ROWS);

        matrix = index / right / down;
        row = (int64_t)(index / right % down) * SPLIT_ROWS + threadIdx.x / 32 * WARP_ROWS;
        column = (int64_t)(index % right) * SPLIT_COLUMNS + threadIdx.x % 32 * LANE_COLUMNS;
    }

    __device__ bool has(int r, int c) const
    {
        return row + r < of.rows && column + c < of.columns;
    }

    __device__ T element(int r, int c) const
    {
        return of.data.data[matrix * of.data.batch_stride + (row + r) * of.data.row_stride +
                            (column + c) * of.data.column_stride];
    }

    __device__ void load(T (&x)[WARP_ROWS][LANE_COLUMNS]) const
    {
        const T *first = of.data.data + matrix * of.data.batch_stride + row * of.data.row_stride +
                         column * of.data.column_stride;

#pragma unroll
        for (int r = 0; r < WARP_ROWS; r++) {
            const T *from = first + r * of.data.row_stride;

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

    // Joins value(r, c) of the threads' elements for each side, and gives it to `add(side, joined value)`.
    template <class Value, class Join, class Add>
    __device__ void join_sides(Value value, Join join, Add add) const
    {
        __shared__ unsigned of_columns[SPLIT_WARPS][SPLIT_COLUMNS];
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

        if (of.sides_are_rows) {
#pragma unroll
            for (int r = 0; r < WARP_ROWS; r++) {
                unsigned all = value(r, 0);

#pragma unroll
                for (int c = 1; c < LANE_COLUMNS; c++)
                    all = join(all, value(r, c));
                for (int distance = 16; distance > 0; distance /= 2)
                    all = join(all, __shfl_xor_sync(~0u, all, distance));
                if (lane == 0 && row + r < of.rows)
                    add(side(r, 0), all);
            }
            return;
        }
#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c++) {
            unsigned all = value(0, c);

#pragma unroll
            for (int r = 1; r < WARP_ROWS; r++)
                all = join(all, value(r, c));
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

    pdl_wait();
    tile.load(x);
    tile.join_sides([&](int r, int c) { return __float_as_uint(x[r][c]) & 0x7fffffff; },
                    [](unsigned p, unsigned q) { return max(p, q); },
                    [&](int64_t side, unsigned largest) { atomicMax(&tile.of.facts.largest[side], largest); });
}

// A thread's neighbours in a row of a part.
using part_pack = uint2;
static_assert(sizeof(part_pack) == LANE_COLUMNS * sizeof(uint16_t), "as many as a thread's columns");

// Where a thread stores its elements' parts.
struct part_rows {
    uint16_t *first;
    int64_t pitch, part_elements;
    int rows; // that the operand has from this thread's first one on

    __device__ part_rows(const split_tile<float> &tile, uint16_t *parts)
        : first(&parts[(tile.matrix * tile.of.rows + tile.row) * tile.of.pitch + tile.column]),
          pitch(tile.of.pitch), part_elements(tile.of.matrices * tile.of.rows * tile.of.pitch),
          rows(tile.column < tile.of.pitch ? (int)min(tile.of.rows - tile.row, (int64_t)WARP_ROWS) : 0)
    {
    }

    __device__ void store(int part, int r, const part_pack &x) const
    {
        if (r < rows) // a pitch is a multiple of a pack
            // an assignment would become narrower stores
            __stwb((part_pack *)&first[part * part_elements + r * pitch], x);
    }
};

// Two numbers rounded to 16 bits.
static __device__ inline __half2 round_pair(float x, float y, __half)
{
    return __floats2half2_rn(x, y);
}

static __device__ inline __nv_bfloat162 round_pair(float x, float y, __nv_bfloat16)
{
    return __floats2bfloat162_rn(x, y);
}

// What store_parts() has seen: an element of more than one part, a side that is not finite.
struct stored_parts {
    bool more_than_one, special;
};

// Stores a thread's elements as PARTS numbers of type Part, which are rounded remainders of each other. Calls
// look(side, x, scaled x) for each element, whose side is the side-th of the thread's. Sides that are not finite
// are stored as zeros.
template <class Part, int PARTS, bool BY_ROW, class Look>
static __device__ stored_parts store_parts(const split_tile<float> &tile, uint16_t *parts, int exponent,
                                           const float (&x)[WARP_ROWS][LANE_COLUMNS], Look look)
{
    const part_rows rows(tile, parts);
    float2 scales[WARP_ROWS]; // what a side's elements are multiplied by, in two steps
    unsigned rests = 0;
    bool special = false;

    static_assert(WARP_ROWS == LANE_COLUMNS, "as many sides, whether they are rows or columns");
#pragma unroll
    for (int i = 0; i < WARP_ROWS; i++) {
        const int r = BY_ROW ? i : 0, c = BY_ROW ? 0 : i;
        const unsigned largest = tile.has(r, c) ? tile.of.facts.largest[tile.side(r, c)] : 0;
        const int power = side_scale(largest, exponent), first = min(power, 127);

        scales[i] = make_float2(power_of_two(first), power_of_two(power - first));
        if (!is_finite_side(largest))
            scales[i].x = 0, special = true;
    }
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++) {
        uint32_t words[PARTS][LANE_COLUMNS / 2];

#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c += 2) {
            float rest[2];

#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int side = BY_ROW ? r : c + e;

                rest[e] = scales[side].x > 0 ? x[r][c + e] * scales[side].x * scales[side].y : 0;
                look(side, x[r][c + e], rest[e]);
            }
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                const auto rounded = round_pair(rest[0], rest[1], Part());

                memcpy(&words[part][c / 2], &rounded, sizeof rounded);
                rest[0] -= __low2float(rounded);
                rest[1] -= __high2float(rounded);
                if (part == 0)
                    rests |= __float_as_uint(rest[0]) | __float_as_uint(rest[1]);
            }
        }
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            rows.store(part, r, make_uint2(words[part][0], words[part][1]));
    }
    return {rests << 1 != 0, special};
}

// Adds up the threads' counts for each side, and gives them to `add(side, count)`. A thread has one in each byte,
// for its rows or its columns; a block's counts fit a byte.
template <bool BY_ROW, class Add>
static __device__ void add_counts(const split_tile<float> &tile, unsigned counts, Add add)
{
    constexpr int BITS = 8;
    const auto count = [](unsigned all, int i) { return all >> i * BITS & ((1 << BITS) - 1); };
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    static_assert(SPLIT_COLUMNS < 1 << BITS && SPLIT_ROWS < 1 << BITS && WARP_ROWS * BITS == 32, "they fit");
    if (BY_ROW) {
        for (int distance = 16; distance > 0; distance /= 2)
            counts += __shfl_xor_sync(~0u, counts, distance);
        if (lane < WARP_ROWS && tile.row + lane < tile.of.rows)
            add(tile.side(lane, 0), count(counts, lane));
        return;
    }
    __shared__ unsigned of_columns[SPLIT_WARPS][32];

    of_columns[warp][lane] = counts;
    __syncthreads(); // all warps have stored their columns' counts before they are added up
    if (threadIdx.x < SPLIT_COLUMNS) {
        const int64_t column = tile.column - lane * LANE_COLUMNS + threadIdx.x; // of the thread that adds
        unsigned all = 0;

        for (int w = 0; w < SPLIT_WARPS; w++)
            all += of_columns[w][threadIdx.x / LANE_COLUMNS];
        if (column < tile.of.columns)
            add(tile.matrix * tile.of.sides() + column, count(all, threadIdx.x % LANE_COLUMNS));
    }
}

template <int PARTS, bool BY_ROW>
static __device__ void store_halves(const split_tile<float> &tile)
{
    constexpr float LARGE = 512, LEAST = 0x1p-86f; // BFLOATS_EXPONENT makes 2^-50 of the latter
    const side_facts &facts = tile.of.facts;
    float x[WARP_ROWS][LANE_COLUMNS];
    unsigned large = 0; // a count in each byte
    bool tiny = false;

    tile.load(x);
    const stored_parts stored = store_parts<__half, PARTS, BY_ROW>(
        tile, tile.of.parts, HALVES_EXPONENT, x, [&](int side, float element, float scaled) {
            large += (unsigned)(fabsf(scaled) >= LARGE) << side * 8;
            tiny = tiny || (element != 0 && fabsf(scaled) < LEAST);
        });

    if (stored.special || tiny) // rare: each element is loaded once more
#pragma unroll 1
        for (int e = 0; e < WARP_ROWS * LANE_COLUMNS; e++) {
            const int r = e / LANE_COLUMNS, c = e % LANE_COLUMNS;

            if (!tile.has(r, c))
                continue;
            const float element = tile.element(r, c);
            const unsigned largest = facts.largest[tile.side(r, c)];
            const float scaled = times_power(element, side_scale(largest, HALVES_EXPONENT));

            if (!is_finite_side(largest) || (element != 0 && fabsf(scaled) < LEAST))
                atomicOr(&facts.special[tile.side(r, c)], 1u);
        }
    add_counts<BY_ROW>(tile, large, [&](int64_t side, unsigned count) { atomicAdd(&facts.large[side], count); });
    if (__syncthreads_or(stored.more_than_one) && threadIdx.x == 0) {
        atomicOr(tile.flags(), LONG);
        atomicOr(facts.all, LONG);
    }
}

// Stores an operand as PARTS float16, and counts its sides' large elements. The tiles have the reverse order of
// the pass before: what that read last is still in L2.
template <int PARTS>
static __global__ void __launch_bounds__(SPLIT_BLOCK, 4)
    matmul_split_halves(split_operand<float> a, split_operand<float> b, int64_t a_tiles)
{
    const split_tile<float> tile(a, b, a_tiles, gridDim.x - 1 - blockIdx.x);

    pdl_wait();
    if (tile.of.sides_are_rows)
        store_halves<PARTS, true>(tile);
    else
        store_halves<PARTS, false>(tile);
}

// Completes the facts: the scales, and the flags of the strips that have a side whose elements are mostly small,
// or sides so short that their products' errors do not cancel. A block has a strip of a, or of b if there are not
// so many.
static __global__ void __launch_bounds__(STRIP)
    matmul_split_facts(split_operand<float> a, split_operand<float> b, int64_t a_strips)
{
    constexpr int SHORT = 32;
    const bool is_a = blockIdx.x < a_strips;
    const split_operand<float> of = is_a ? a : b;
    const int64_t strip = is_a ? blockIdx.x : blockIdx.x - a_strips, sides = of.sides();
    const int64_t length = of.sides_are_rows ? of.columns : of.rows;
    const int64_t in_matrix = strip % of.strips() * STRIP + threadIdx.x;
    const int64_t side = strip / of.strips() * sides + in_matrix;
    bool is_sparse = false;

    pdl_wait();
    if (in_matrix < sides) {
        const unsigned largest = of.facts.largest[side];

        is_sparse =
            largest && is_finite_side(largest) && (length < SHORT || 2 * (int64_t)of.facts.large[side] <= length);
        of.facts.scale[strip / of.strips() * of.side_pitch() + in_matrix] = of.facts.special[side] ? SPECIAL_SIDE
                                                                            : largest ? side_scale(largest, 0)
                                                                                      : 0;
    }
    if (__syncthreads_or(is_sparse) && threadIdx.x == 0) {
        atomicOr(&of.facts.flags[strip], SPARSE);
        atomicOr(of.facts.all, SPARSE);
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
    const auto ignore = [](int, float, float) {};

    if (tile.of.sides_are_rows)
        store_parts<__nv_bfloat16, PARTS, true>(tile, tile.of.bfloats, BFLOATS_EXPONENT, x, ignore);
    else
        store_parts<__nv_bfloat16, PARTS, false>(tile, tile.of.bfloats, BFLOATS_EXPONENT, x, ignore);
}

struct always {
    __device__ bool operator()() const
    {
        return true;
    }
};

// Copies operands as they are, if needed().
template <class T, class Needed>
static __global__ void __launch_bounds__(SPLIT_BLOCK)
    matmul_split_copy(split_operand<T> a, split_operand<T> b, int64_t a_tiles, Needed needed)
{
    const split_tile<T> tile(a, b, a_tiles);
    T x[WARP_ROWS][LANE_COLUMNS];

    pdl_wait();
    if (!needed())
        return;
    tile.load(x);
    using chunk = std::conditional_t<(sizeof x[0] < sizeof(uint4)), uint2, uint4>;
    T *const first = (T *)tile.of.parts + (tile.matrix * tile.of.rows + tile.row) * tile.of.pitch + tile.column;

#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++)
#pragma unroll
        for (int c = 0; c < (int)(sizeof x[0] / sizeof(chunk)); c++) {
            chunk bits;

            memcpy(&bits, (const char *)x[r] + c * sizeof bits, sizeof bits);
            if (tile.row + r < tile.of.rows && tile.column < tile.of.pitch) // a multiple of a thread's columns
                __stwb((chunk *)(first + r * tile.of.pitch) + c, bits);
        }
}

// The operand as it lies in memory, seen as (sides, k).
template <class T>
static split_operand<T> split_operand_of(const strided_matrix<T> &x, int64_t matrices, int64_t sides, int64_t k)
{
    // elements of 16 bits fill a sector of 32 bytes, wider ones several: the TMA is slower if rows begin within
    // one
    constexpr int64_t SECTOR = 16;
    const bool along_k = std::abs(x.column_stride) <= std::abs(x.row_stride);
    split_operand<T> to = {};

    to.data = along_k ? x : x.transposed();
    to.matrices = matrices;
    to.rows = along_k ? sides : k;
    to.columns = along_k ? k : sides;
    to.pitch = ceil_div(to.columns, SECTOR) * SECTOR;
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

    for (split_operand<float> *x : {&a, &b}) // first, so that they can be loaded together
        x->facts.scale = (int *)take(x->matrices * x->side_pitch());
    for (split_operand<float> *x : {&a, &b}) {
        const int64_t sides = x->matrices * x->sides();

        x->facts.largest = take(sides);
        x->facts.large = take(sides);
        x->facts.special = take(sides);
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
    const bool fits = (uint64_t)(next - begin) <= args->scratch_bytes && args->batches <= INT32_MAX &&
                      args->m < MATMUL_MAX_SIDE && args->n < MATMUL_MAX_SIDE && args->k < MATMUL_MAX_SIDE;

    return fits ? cudaSuccess : cudaErrorInvalidValue;
}

template <auto KERNEL, class T, class... Arguments>
[[nodiscard]] static cudaError_t launch_on_tiles(const split_operand<T> &a, const split_operand<T> &b,
                                                 cudaStream_t stream, const Arguments &...arguments)
{
    const int64_t a_tiles = split_tiles(a), tiles = a_tiles + split_tiles(b);

    return tiles > MAX_GRID_X
               ? cudaErrorInvalidConfiguration
               : launch<KERNEL>((unsigned)tiles, SPLIT_BLOCK, 0, stream, a, b, a_tiles, arguments...);
}

[[nodiscard]] static cudaError_t launch_facts(const split_operand<float> &a, const split_operand<float> &b,
                                              cudaStream_t stream)
{
    const int64_t a_strips = a.matrices * a.strips(), strips = a_strips + b.matrices * b.strips();

    return strips > MAX_GRID_X ? cudaErrorInvalidConfiguration
                               : launch<matmul_split_facts>((unsigned)strips, STRIP, 0, stream, a, b, a_strips);
}
