// C = A @ B of integers on Hopper's tensor cores, which multiply bytes.
//
// The idea: an integer of D bytes is a number of D digits to the base of 256. Of the products of two digits, those
// of digit i and digit j count 256^(i + j) times; those with i + j >= D are multiples of 256^D, and what wraps
// around does not see them. The digits' products are added from the largest i + j to the smallest, and between
// them the sum is multiplied by 256 (Horner's rule): with D = 4, ten products instead of sixteen, and one set of
// sums. Signs do not matter, because they count multiples of 256^D, too. The sums have 32 bits and wrap around as
// the result does; those of eight digits are moved to sums of 64 bits before they could. (Henry, Heinecke,
// "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019, adds parts
// of numbers like this; the digits are school arithmetic.)
//
// Launch: a pass that stores the digits, in rows along k, as wgmma wants bytes; an operand of one digit that has
// such rows needs none. Then blocks of 384 threads, one per multiprocessor.
#pragma once

#include "wgmma.cuh"

constexpr int BK_MMA = 32; // elements along k of a wgmma of bytes

// ---- the digits of an operand ----

// An operand in its native layout, and its digits (digits, matrices, sides, pitch), where a side is a row of a or
// a column of b.
template <class T>
struct digit_operand {
    split_operand<T> from;
    uint8_t *digits;
    int64_t k, pitch;

    __host__ __device__ int64_t digit_bytes() const
    {
        return from.matrices * from.sides() * pitch;
    }
};

// Digit `which` of four neighbours.
template <class T>
static __device__ uint32_t digit_of(const T (&x)[LANE_COLUMNS], int which)
{
    uint32_t word = 0;

#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++)
        word |= (uint32_t)(uint8_t)(x[i] >> (8 * which)) << (8 * i);
    return word;
}

// Stores D digits of a tile's elements: a thread has four neighbours along k of four sides. digit(four neighbours,
// d): their digits d. If sides are columns of the tile, threads exchange digits through shared memory, so that
// each stores 16 neighbours along k.
template <int D, class T, class Digit>
static __device__ void store_digits(const digit_operand<T> &x, const split_tile<T> &tile,
                                    const T (&values)[WARP_ROWS][LANE_COLUMNS], Digit digit)
{
    constexpr int CHUNKS = SPLIT_ROWS / 16;
    constexpr int PITCH = SPLIT_COLUMNS + 4; // words of a warp's sides: two chunks are in different banks
    __shared__ alignas(16) uint32_t words[SPLIT_WARPS][PITCH];
    const int64_t first_side = tile.matrix * x.from.sides();

    if (x.from.sides_are_rows) {
        uint8_t *const to = &x.digits[(first_side + tile.row) * x.pitch + tile.column];

#pragma unroll
        for (int d = 0; d < D; d++)
#pragma unroll
            for (int r = 0; r < WARP_ROWS; r++)
                if (tile.row + r < x.from.rows && tile.column < x.pitch)
                    *(uint32_t *)&to[d * x.digit_bytes() + r * x.pitch] = digit(values[r], d);
        return;
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int own_side = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS; // that the thread stores
    const int64_t side = tile.column - lane * LANE_COLUMNS + own_side;
    const int64_t k = tile.row - warp * WARP_ROWS + chunk * 16;

    static_assert(SPLIT_COLUMNS * CHUNKS == SPLIT_BLOCK, "a thread stores one chunk of a digit");
#pragma unroll
    for (int d = 0; d < D; d++) {
        uint32_t of_side[LANE_COLUMNS], stored[4];

#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c++) {
            T along_k[WARP_ROWS];

#pragma unroll
            for (int r = 0; r < WARP_ROWS; r++)
                along_k[r] = values[r][c];
            of_side[c] = digit(along_k, d);
        }
        __syncthreads(); // the words of the previous digit have been read
        *(uint4 *)&words[warp][lane * LANE_COLUMNS] = make_uint4(of_side[0], of_side[1], of_side[2], of_side[3]);
        __syncthreads(); // all threads have stored theirs
#pragma unroll
        for (int i = 0; i < 4; i++)
            stored[i] = words[chunk * 4 + i][own_side];
        if (side < x.from.columns && k < x.pitch)
            __stwb((uint4 *)&x.digits[d * x.digit_bytes() + (first_side + side) * x.pitch + k],
                   make_uint4(stored[0], stored[1], stored[2], stored[3]));
    }
}

template <class T>
static __global__ void __launch_bounds__(SPLIT_BLOCK)
    matmul_store_digits(digit_operand<T> a, digit_operand<T> b, int64_t a_tiles)
{
    const split_tile<T> tile(a.from, b.from, a_tiles);
    T values[WARP_ROWS][LANE_COLUMNS];

    pdl_wait();
    tile.load(values);
    store_digits<sizeof(T)>(blockIdx.x < a_tiles ? a : b, tile, values,
                            [](const T(&x)[LANE_COLUMNS], int which) { return digit_of(x, which); });
}

// ---- the products ----

// The thread that copies: tiles of all pairs of digits, in the order in which they are multiplied.
template <int D, class Step>
static __device__ void bring_digits(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                    const CUtensorMap &b_map)
{
    unsigned turn = 0;

    for (int64_t tile = blockIdx.x; tile < p.order.count(); tile += gridDim.x) {
        const tile_position at = p.order.position(tile);

        for (int place = D - 1; place >= 0; place--)
            for (int digit = 0; digit <= place; digit++) {
                const int a_z = digit * p.a_matrices + p.a_matrix(at.matrix);
                const int b_z = (place - digit) * p.b_matrices + p.b_matrix(at.matrix);

                for (int k = 0; k < p.k; k += Step::BK, turn++) {
                    uint64_t *const full = &ring.full[turn % step_ring<Step>::STAGES];
                    Step &to = begin_stage<Step::BN>(ring, turn);

                    load_panels<Step, true, BM>(to.a[0], a_map, at.row * BM, k, a_z, full);
                    load_panels<Step, true, Step::BN>(to.b[0], b_map, at.column * Step::BN, k, b_z, full);
                }
            }
    }
}

// sum (+)= the products of so many steps from `turn` on
template <class Step, int N>
static __device__ void multiply_bytes(step_ring<Step> &ring, uint32_t (&sum)[N], int row, bool add, unsigned &turn,
                                      int64_t steps)
{
    multiply_steps(ring, turn, steps, [&](const Step &of, int64_t i) {
#pragma unroll
        for (int k = 0; k < Step::BK; k += BK_MMA)
            ptx::wgmma_mma_async(sum, ptx::wgmma_descriptor(&of.a[0][row * Step::BK + k]),
                                 ptx::wgmma_descriptor(&of.b[0][k]), add || i > 0 || k > 0, typename Step::T());
        ptx::wgmma_commit_group();
    });
    ptx::wgmma_fence_registers(sum);
}

// The sums of a warpgroup's rows of a tile: those of all pairs of digits.
template <int D, class Step, class Sum, int N>
static __device__ void multiply_digits(step_ring<Step> &ring, Sum (&sum)[N], int row, unsigned &turn, int64_t k)
{
    const int64_t steps = ceil_div(k, Step::BK);

    if constexpr (sizeof(Sum) == 4) {
        for (int place = D - 1; place >= 0; place--) {
            multiply_bytes(ring, sum, row, place < D - 1, turn, (place + 1) * steps);
            if (place > 0)
#pragma unroll
                for (int e = 0; e < N; e++)
                    sum[e] <<= 8;
        }
    } else {
        constexpr int64_t SAFE_STEPS = (1ll << 32) / (255 * 255 * Step::BK); // sums of so many are below 2^32
        uint32_t part[N];

#pragma unroll
        for (int e = 0; e < N; e++)
            sum[e] = 0;
        for (int place = D - 1; place >= 0; place--) {
#pragma unroll
            for (int e = 0; e < N; e++)
                sum[e] <<= 8;
            for (int64_t done = 0; done < (place + 1) * steps; done += SAFE_STEPS) {
                multiply_bytes(ring, part, row, false, turn, min(SAFE_STEPS, (place + 1) * steps - done));
#pragma unroll
                for (int e = 0; e < N; e++)
                    sum[e] += part[e];
            }
        }
    }
}

// D: digits of an operand's element.
template <int D, class T, class Step>
static __global__ void __launch_bounds__(BLOCK, 1)
    matmul_wgmma_digits(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                        const plain_product<T> p)
{
    constexpr int N = Step::BN / 2;
    using Sum = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    extern __shared__ __align__(1024) unsigned char bytes[];
    step_ring<Step> &ring = *(step_ring<Step> *)bytes;

    pdl_wait();
    share_work(
        ring, [&] { bring_digits<D>(ring, p.mapped, a_map, b_map); },
        [&] {
            const int group = threadIdx.x / GROUP - 1, warp = threadIdx.x / WARP - GROUP / WARP;
            unsigned turn = 0;

            for (int64_t tile = blockIdx.x; tile < p.mapped.order.count(); tile += gridDim.x) {
                const tile_position at = p.mapped.order.position(tile);
                Sum sum[N];

                multiply_digits<D>(ring, sum, group * MM, turn, p.mapped.k);
                store_rows(ring.rows[warp], p, sum, at.matrix, (int64_t)at.row * BM + warp * WARP_MM,
                           (int64_t)at.column * Step::BN);
            }
        });
}

// Places the operands' digits in scratch memory of matmul_parts_bytes(). An error if they need more memory than
// there is, or if the TMA cannot count them.
template <class T>
[[nodiscard]] static cudaError_t place_digits(const matmul_args *args, digit_operand<T> &a, digit_operand<T> &b)
{
    constexpr int64_t GRAIN = 128, D = sizeof(T); // bytes, digits
    uint8_t *const begin = (uint8_t *)args->scratch, *next = begin;

    for (digit_operand<T> *x : {&a, &b}) {
        x->digits = next;
        next += ceil_div(D * x->digit_bytes(), GRAIN) * GRAIN;
    }
    const bool fits = (uint64_t)(next - begin) <= args->scratch_bytes && D * args->batches <= INT32_MAX &&
                      args->m < MATMUL_MAX_SIDE && args->n < MATMUL_MAX_SIDE && args->k < MATMUL_MAX_SIDE;

    return fits ? cudaSuccess : cudaErrorInvalidValue;
}

// In, T: unsigned types of the operands' and C's widths; signs matter to operands of one digit whose C is wider.
template <class In, class T, int COLUMNS>
[[nodiscard]] static cudaError_t launch_digits(const matmul_args *args, cudaStream_t stream)
{
    constexpr int D = sizeof(In), SECTOR = 32; // bytes; the TMA is slower if rows begin within one
    using Digit = std::conditional_t<D == 1, In, uint8_t>;
    using Step = step_tiles<Digit, COLUMNS, 1, true, true>;
    const product<In> of = product_of<In>(args);
    const auto operand = [&](const strided_matrix<In> &x, int64_t stride, int64_t sides) {
        return digit_operand<In>{split_operand_of(x, stride ? args->batches : 1, sides, args->k), nullptr, args->k,
                                 ceil_div(args->k, SECTOR) * SECTOR};
    };
    digit_operand<In> a = operand(of.a, args->a_batch_stride, args->m);
    digit_operand<In> b = operand(of.b.transposed(), args->b_batch_stride, args->n);
    const auto is_multiplied_in_place = [](const digit_operand<In> &x) {
        return D == 1 && x.from.sides_are_rows && has_tensor_map(x.from);
    };
    const auto map = [&](CUtensorMap *to, const digit_operand<In> &x, int sides) {
        const auto &data = x.from.data;
        const tensor<Digit> digits = {
            (const Digit *)x.digits, D * x.from.matrices, x.from.sides(), x.k, x.from.sides() * x.pitch, x.pitch};
        const tensor<Digit> in_memory = {(const Digit *)data.data, x.from.matrices, x.from.sides(), x.k,
                                         data.batch_stride,        data.row_stride};

        return make_tensor_map(to, is_multiplied_in_place(x) ? in_memory : digits, sides);
    };
    const int64_t a_tiles = is_multiplied_in_place(a) ? 0 : split_tiles(a.from),
                  b_tiles = is_multiplied_in_place(b) ? 0 : split_tiles(b.from);
    T *const c = (T *)args->c;
    const plain_product<T> p = {mapped_product_of(args, a.from.matrices, b.from.matrices, COLUMNS), c,
                                row_packs<T>::are_whole(c, args->n)};
    CUtensorMap a_map, b_map;

    if (cudaError_t error = place_digits(args, a, b))
        return error;
    if (a_tiles + b_tiles > MAX_GRID_X)
        return cudaErrorInvalidConfiguration;
    if (a_tiles + b_tiles > 0)
        if (cudaError_t error = launch<matmul_store_digits<In>>((unsigned)(a_tiles + b_tiles), SPLIT_BLOCK, 0,
                                                                stream, a, b, a_tiles))
            return error;
    if (cudaError_t error = map(&a_map, a, BM))
        return error;
    if (cudaError_t error = map(&b_map, b, COLUMNS))
        return error;
    return launch_on_multiprocessors<matmul_wgmma_digits<D, T, Step>>(args, p.mapped.order.count(), stream, a_map,
                                                                      b_map, p);
}

template <int COLUMNS>
[[nodiscard]] static cudaError_t launch_digits(const matmul_args *args, cudaStream_t stream)
{
    const bool wide = args->dtype & (INT32 | UINT32);

    switch (args->operands) {
    case INT8:
        return wide ? launch_digits<int8_t, uint32_t, COLUMNS>(args, stream)
                    : launch_digits<uint8_t, uint8_t, COLUMNS>(args, stream);
    case UINT8:
        return wide ? launch_digits<uint8_t, uint32_t, COLUMNS>(args, stream)
                    : launch_digits<uint8_t, uint8_t, COLUMNS>(args, stream);
    case INT16:
    case UINT16:
        return launch_digits<uint16_t, uint16_t, COLUMNS>(args, stream);
    case INT32:
    case UINT32:
        return launch_digits<uint32_t, uint32_t, COLUMNS>(args, stream);
    default: // whose sums have twice as many registers
        return launch_digits<uint64_t, uint64_t, COLUMNS / 2>(args, stream);
    }
}
