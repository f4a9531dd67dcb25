// C = A @ B of float32 on Hopper's tensor cores, which multiply 16-bit numbers: operands are split into such
// parts.
//
// The idea: a float32 is the sum of two float16, to 22 bits, if a power of two has brought it into their range; of
// the four products of two such sums, the tensor cores compute the three large ones. They add only the products of
// BK elements of k, because they round towards zero; ordinary additions add those sums. Where the numbers of a row
// or column differ by too much for float16, tiles are computed from three bfloat16 and six products instead: the
// facts that the first passes collect decide, on the GPU. One float16 (or two bfloat16) have the accuracy of TF32.
// (Ootomo, Yokota, "Recovering single precision accuracy from Tensor Cores", 2022; Henry, Tang, Heinecke,
// "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019) Rows and
// columns with infinities, NaN or a range of more than 2^100 are computed one element at a time.
//
// Launch: the passes of split.cuh, then two kernels with blocks of 384 threads, one block per
// multiprocessor: one for the tiles in float16, one for those in bfloat16.
#include "wgmma.cuh"

// The operands and what is known about their sides.
struct split_product {
    mapped_product mapped;
    strided_matrix<float> a, b;
    side_facts a_facts, b_facts;
    float *c;
    bool whole_packs;
};

static __device__ float plain_sum(const split_product &p, int matrix, int64_t y, int64_t x)
{
    const float *a = p.a.data + matrix * p.a.batch_stride + y * p.a.row_stride;
    const float *b = p.b.data + matrix * p.b.batch_stride + x * p.b.column_stride;
    float sum = 0;

    for (int64_t q = 0; q < p.mapped.k; q++)
        sum += a[q * p.a.column_stride] * b[q * p.b.row_stride];
    return sum;
}

// Computes the elements of special rows and columns again, among a warp's rows and COLUMNS columns of C from (y,
// x) on. The scales are those of the first row and column.
template <int COLUMNS>
static __device__ void store_special_sums(const split_product &p, const int *row_scale, const int *column_scale,
                                          int matrix, int64_t y, int64_t x)
{
    const int64_t m = p.mapped.m, n = p.mapped.n;

    __syncwarp(); // the other lanes have stored what is overwritten
    for (int r = 0; r < WARP_MM && y + r < m; r++)
        for (int i = threadIdx.x % WARP; i < COLUMNS && x + i < n; i += WARP)
            if (row_scale[r] == SPECIAL_SIDE || column_scale[i] == SPECIAL_SIDE)
                p.c[(matrix * m + y + r) * n + x + i] = plain_sum(p, matrix, y + r, x + i);
}

// Stores a warp's rows of a tile, whose first element is (y, x), divided by what their sides were multiplied by.
// `exponent`: of a side's largest element, once multiplied.
template <int COLUMNS>
static __device__ void store_rows(row_buffer &buffer, const split_product &p, int exponent,
                                  const float (&sum)[COLUMNS / 2], int matrix, int64_t y, int64_t x)
{
    using packs = row_packs<float>;
    constexpr int SMALL = 63; // sums of two such exponents are exponents of normal numbers
    constexpr int ROUNDS = COLUMNS / packs::COLUMNS;
    const int64_t m = p.mapped.m, n = p.mapped.n, left = n - x - packs::column();
    const int rows = (int)min(m - y, (int64_t)WARP_MM);
    const int *row_scales = p.a_facts.scale + p.mapped.a_matrix(matrix) * ceil_div(m, SCALES) * SCALES + y;
    const int *column_scales = p.b_facts.scale + p.mapped.b_matrix(matrix) * ceil_div(n, SCALES) * SCALES + x;
    float *const c = &p.c[(matrix * m + y) * n + x + packs::column()];
    bool special = false, small = true;
    const auto look = [&](int &scale) {
        special = special || scale == SPECIAL_SIDE;
        scale += exponent;
        small = small && abs(scale) <= SMALL;
    };
    pack<int, SCALES> of_column[ROUNDS];
    int of_row[packs::ROWS];

    static_assert(packs::SIZE == SCALES, "a pack's scales are loaded together");
#pragma unroll
    for (int i = 0; i < packs::ROWS; i++)
        of_row[i] = packs::row(i) < rows ? row_scales[packs::row(i)] : -exponent;
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
        of_column[round] =
            round * packs::COLUMNS < left // the rest of a pack are zeros
                ? *(const pack<int, SCALES> *)&column_scales[round * packs::COLUMNS + packs::column()]
                : pack<int, SCALES>();
#pragma unroll
    for (int i = 0; i < packs::ROWS; i++)
        look(of_row[i]);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
#pragma unroll
        for (int e = 0; e < SCALES; e++)
            look(of_column[round].element[e]);

    if (p.whole_packs && __all_sync(~0u, small))
        packs::for_each(buffer, sum, [&](int round, int i, auto values) {
#pragma unroll
            for (int e = 0; e < SCALES; e++)
                values.element[e] *= power_of_two(-(of_row[i] + of_column[round].element[e]));
            if (packs::row(i) < rows && round * packs::COLUMNS < left)
                packs::store_whole(&c[packs::row(i) * n + round * packs::COLUMNS], values);
        });
    else
        packs::for_each(buffer, sum, [&](int round, int i, auto values) {
            for (int e = 0; e < SCALES; e++)
                values.element[e] = times_power(values.element[e], -(of_row[i] + of_column[round].element[e]));
            if (packs::row(i) < rows)
                packs::store(&c[packs::row(i) * n + round * packs::COLUMNS], (int)left - round * packs::COLUMNS,
                             values);
        });
    if (__any_sync(~0u, special))
        store_special_sums<COLUMNS>(p, row_scales, column_scales, matrix, y, x);
}

// Computes those tiles of C for which float16 suffices, or, with bfloat16 as Step::T, the others.
template <class Step, bool PROMOTE>
static __global__ void __launch_bounds__(BLOCK, 1)
    matmul_wgmma_split(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                       const split_product p)
{
    constexpr bool HALVES = std::is_same_v<typename Step::T, __half>;
    constexpr int COLUMNS = Step::BN;
    extern __shared__ __align__(1024) unsigned char bytes[];

    pdl_wait();
    const bool all_in_halves = halves_suffice(*p.a_facts.all | *p.b_facts.all);
    const auto takes = [&](int matrix, int row, int column) {
        if (all_in_halves)
            return HALVES;
        const int64_t a_strips = ceil_div(p.mapped.m, STRIP), b_strips = ceil_div(p.mapped.n, STRIP);
        const unsigned *b_flags = p.b_facts.flags + p.mapped.b_matrix(matrix) * b_strips;
        unsigned flags = p.a_facts.flags[p.mapped.a_matrix(matrix) * a_strips + row];

        for (int64_t x = column * (int64_t)COLUMNS; x < min((column + 1) * (int64_t)COLUMNS, p.mapped.n);
             x += STRIP)
            flags |= b_flags[x / STRIP];
        return HALVES == halves_suffice(flags);
    };

    static_assert(BM == STRIP, "a tile's rows are one strip");
    if (!HALVES && all_in_halves)
        return;
    multiply<Step, PROMOTE>(
        *(step_ring<Step> *)bytes, p.mapped, a_map, b_map, takes,
        [&](row_buffer &buffer, const float(&sum)[COLUMNS / 2], int matrix, int64_t y, int64_t x) {
            constexpr int STORED = COLUMNS < 128 ? COLUMNS : 128; // at once: a thread can hold so many scales
            using sums = const float[STORED / 2];

#pragma unroll
            for (int from = 0; from < COLUMNS; from += STORED)
                store_rows<STORED>(buffer, p, HALVES ? HALVES_EXPONENT : BFLOATS_EXPONENT, *(sums *)&sum[from / 2],
                                   matrix, y, x + from);
        });
}

template <class Step, bool PROMOTE>
[[nodiscard]] static cudaError_t launch_split_product(const matmul_args *args, const split_operand<float> &a,
                                                      const split_operand<float> &b, cudaStream_t stream)
{
    const product<float> of = product_of<float>(args);
    const split_product p = {mapped_product_of(args, a.matrices, b.matrices, Step::BN),
                             of.a,
                             of.b,
                             a.facts,
                             b.facts,
                             of.c,
                             row_packs<float>::are_whole(of.c, args->n)};
    CUtensorMap a_map, b_map;

    if (cudaError_t error = map_parts<typename Step::T>(&a_map, a, Step::PARTS, BM))
        return error;
    if (cudaError_t error = map_parts<typename Step::T>(&b_map, b, Step::PARTS, Step::BN))
        return error;
    return launch_on_multiprocessors<matmul_wgmma_split<Step, PROMOTE>>(args, p.mapped.order.count(), stream,
                                                                        a_map, b_map, p);
}

// Splits the operands into so many parts, and multiplies them. COLUMNS: of a block's tile of C.
template <int COLUMNS, int HALVES, int BFLOATS, bool PROMOTE>
[[nodiscard]] static cudaError_t launch_split(const matmul_args *args, cudaStream_t stream)
{
    const product<float> of = product_of<float>(args);
    const auto matrices = [&](int64_t stride) { return stride ? args->batches : 1; };
    auto a = split_operand_of(of.a, matrices(args->a_batch_stride), args->m, args->k);
    auto b = split_operand_of(of.b.transposed(), matrices(args->b_batch_stride), args->n, args->k);
    const int64_t words = place_facts(args->scratch, a, b);
    const unsigned zeroing = (unsigned)std::min<int64_t>(ceil_div(words, SPLIT_BLOCK), args->multiprocessors);

    if (cudaError_t error = place_parts(args, words, HALVES, BFLOATS, a, b))
        return error;
    if (cudaError_t error =
            launch<matmul_split_zero>(zeroing, SPLIT_BLOCK, 0, stream, (unsigned *)args->scratch, words))
        return error;
    if (cudaError_t error = launch_on_tiles<matmul_split_largest>(a, b, stream))
        return error;
    if (cudaError_t error = launch_on_tiles<matmul_split_halves<HALVES>>(a, b, stream))
        return error;
    if (cudaError_t error = launch_facts(a, b, stream))
        return error;
    if (cudaError_t error =
            launch_on_tiles<matmul_split_bfloats<BFLOATS, (COLUMNS + STRIP - 1) / STRIP>>(a, b, stream))
        return error;
    return with_layouts(a.sides_are_rows, b.sides_are_rows, [&](auto along) {
        using A = decltype(along);
        using halves = step_tiles<__half, COLUMNS, HALVES, A::A_ALONG_K, A::B_ALONG_K>;
        using bfloats = step_tiles<__nv_bfloat16, COLUMNS, BFLOATS, A::A_ALONG_K, A::B_ALONG_K>;

        if (cudaError_t error = launch_split_product<halves, PROMOTE>(args, a, b, stream))
            return error;
        return launch_split_product<bfloats, PROMOTE>(args, a, b, stream);
    });
}
