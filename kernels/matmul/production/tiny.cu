// C = A @ B for many tiny matrices, of up to 16 x 16 elements of C.
//
// The idea: one warp per product, or per 16 x 16 tile of C if C is larger, so that no warp waits for another. The
// warp loads tiles of A and B, 16 elements along k, into its own part of shared memory, and each lane computes 2 x
// 4 elements of C. What `simt` wastes on it: 15 sixteenths of its tile, and a block per product. Launch: blocks of
// up to 8 warps, one warp per product or tile.
#include "../../common/dispatch.cuh"
#include "product.cuh"

constexpr int SIDE = 16;          // of the square tiles of A, B and C
constexpr int TM = 2, TN = 4;     // a lane's tile of C
constexpr int ACROSS = SIDE / TN; // lanes per row of C

template <class T, int WARPS>
__global__ void __launch_bounds__(WARPS * 32) matmul_tiny(const product<T> p, int64_t first)
{
    using Sum = accumulator_type<T>;
    struct tiles {
        Sum a[SIDE][SIDE + 1], b[SIDE][SIDE]; // (m, k), (k, n); A is padded, because lanes read columns of it
    };
    __shared__ alignas(16) tiles warp_tiles[WARPS];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = lane / ACROSS * TM, column = lane % ACROSS * TN;                // of the lane's elements
    const int64_t down = (p.m + SIDE - 1) / SIDE, across = (p.n + SIDE - 1) / SIDE; // tiles of a product
    const int64_t index = first + (int64_t)blockIdx.x * WARPS + warp, batch = index / (down * across);
    const int64_t top = index % (down * across) / across * SIDE, left = index % across * SIDE; // of the tile
    tiles &tile = warp_tiles[warp];
    Sum sum[TM][TN] = {};

    pdl_wait();
    if (batch >= p.batches) // the same in all lanes of a warp
        return;
    const int64_t rows = p.m - top, columns = p.n - left; // that are left from the tile on
    const T *a = p.a.data + batch * p.a.batch_stride + top * p.a.row_stride;
    const T *b = p.b.data + batch * p.b.batch_stride + left * p.b.column_stride;
    for (int64_t t = 0; t < p.k; t += SIDE) {
#pragma unroll
        for (int e = 0; e < SIDE * SIDE; e += 32) {
            const int i = (e + lane) / SIDE, j = (e + lane) % SIDE;
            const bool in_a = i < rows && t + j < p.k, in_b = t + i < p.k && j < columns;

            tile.a[i][j] = in_a ? Sum(a[i * p.a.row_stride + (t + j) * p.a.column_stride]) : Sum(0);
            tile.b[i][j] = in_b ? Sum(b[(t + i) * p.b.row_stride + j * p.b.column_stride]) : Sum(0);
        }
        __syncwarp(); // the tiles are complete before any lane reads them
#pragma unroll
        for (int q = 0; q < SIDE; q++)
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += tile.a[row + i][q] * tile.b[q][column + j];
        __syncwarp(); // all lanes have read the tiles before they are overwritten
    }

    T *c = p.c + (batch * p.m + top) * p.n + left;
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            if (row + i < rows && column + j < columns)
                c[(row + i) * p.n + column + j] = T(sum[i][j]);
}

cudaError_t launch_matmul_tiny(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        constexpr int BYTES = sizeof(accumulator_type<T>), WARPS = BYTES <= 4 ? 8 : BYTES == 8 ? 4 : 2;
        const product<T> p = product_of<T>(args);
        const int64_t tiles = p.batches * ceil_div(p.m, SIDE) * ceil_div(p.n, SIDE);

        return cover(1, 1, tiles, 1, WARPS, [&](dim3 grid, int64_t, corner first) {
            return launch<matmul_tiny<T, WARPS>>(grid, WARPS * 32, 0, stream, p, first.column);
        });
    });
}
