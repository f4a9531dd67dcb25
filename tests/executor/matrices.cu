// nvcuda::wmma: products of small integers, which are exact, in every type, shape and layout.
#include "check.h"

#include <mma.h>

using namespace nvcuda;

template <int M, int N, int K, class T, class C, class LayoutA, class LayoutB, class Memory>
__global__ void product(const Memory *a, const Memory *b, C *c)
{
    wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;

    wmma::fill_fragment(fc, 1);
    wmma::load_matrix_sync(fa, a, std::is_same_v<LayoutA, wmma::row_major> ? K : M);
    wmma::load_matrix_sync(fb, b, std::is_same_v<LayoutB, wmma::row_major> ? N : K);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] = fc.x[i] + fc.x[i];
    wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
    __syncwarp();
    wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
    wmma::store_matrix_sync(c + M * N, fc, M, wmma::mem_col_major);
}

// (3 i - 2 k) % 7 and (k + 5 j) % 5 as the matrices: 2 (a @ b + 1), and its transpose
template <int M, int N, int K, class T, class C, class LayoutA, class LayoutB, class Memory>
static void check()
{
    Array<Memory> a(M * K), b(K * N);
    Array<C> c(2 * M * N);

    for (int k = 0; k < K; k++) {
        for (int i = 0; i < M; i++)
            a[std::is_same_v<LayoutA, wmma::row_major> ? i * K + k : i + k * M] = (Memory)((3 * i + 2 * k) % 7);
        for (int j = 0; j < N; j++)
            b[std::is_same_v<LayoutB, wmma::row_major> ? k * N + j : k + j * K] = (Memory)((k + 5 * j) % 6);
    }
    a.upload();
    b.upload();
    product<M, N, K, T, C, LayoutA, LayoutB, Memory><<<1, 32>>>(a.device, b.device, c.device);
    RUNS();
    c.download();
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int sum = 1;
            for (int k = 0; k < K; k++)
                sum += (3 * i + 2 * k) % 7 * ((k + 5 * j) % 6);
            EQUAL_AT(i * N + j, (double)c[i * N + j], 2 * sum);
            EQUAL_AT(i * N + j, (double)c[M * N + i + j * M], 2 * sum);
        }
}

__global__ void tf32(float *x)
{
    x[0] = wmma::__float_to_tf32(1 + 0x1p-11f);
    x[1] = wmma::__float_to_tf32(1 + 0x1p-12f);
    x[2] = wmma::__float_to_tf32(-1 - 0x1p-11f);
    x[3] = wmma::__float_to_tf32(INFINITY);
}

int main()
{
    using row = wmma::row_major;
    using column = wmma::col_major;
    check<16, 16, 16, __half, float, row, row, __half>();
    check<16, 16, 16, __half, __half, row, column, __half>();
    check<32, 8, 16, __nv_bfloat16, float, column, row, __nv_bfloat16>();
    check<8, 32, 16, signed char, int, column, column, signed char>();
    check<16, 16, 16, unsigned char, int, row, row, unsigned char>();
    check<16, 16, 8, wmma::precision::tf32, float, row, column, float>();
    check<8, 8, 4, double, double, row, row, double>();
    Array<float> x(4);
    tf32<<<1, 1>>>(x.device);
    RUNS();
    x.download();
    const float want[] = {1 + 0x1p-10f, 1, -1 - 0x1p-10f, INFINITY};
    for (int i = 0; i < 4; i++)
        EQUAL_AT(i, x[i], want[i]);
    return verdict();
}
