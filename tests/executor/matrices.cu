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

// Packed elements: fields of a word, the first in the lowest bits
template <int K, class T>
__global__ void packed(const unsigned *a, const unsigned *b, int *c, int saturate)
{
    wmma::fragment<wmma::matrix_a, 8, 8, K, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, K, T, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, K, int> fc;

    wmma::load_matrix_sync(fa, a, 2 * K);
    wmma::load_matrix_sync(fb, b, K);
    wmma::fill_fragment(fc, saturate ? INT_MAX - 5 : 1);
    if constexpr (K == 128) {
        wmma::bmma_sync(fc, fa, fb, fc);
        wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpAND);
    } else {
        wmma::mma_sync(fc, fa, fb, fc, saturate);
    }
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

static int field(const unsigned *words, int at, int bits, bool sign)
{
    const int value = words[at * bits / 32] >> at * bits % 32 & ((1 << bits) - 1);
    return sign && value >> (bits - 1) ? value - (1 << bits) : value;
}

template <int K, class T, int Bits, bool Signed>
static void check_packed(bool saturate)
{
    const int words = 8 * K * Bits / 32;
    Array<unsigned> a(2 * words), b(words); // every other row of a
    Array<int> c(64);

    for (int i = 0; i < 2 * words; i++)
        a[i] = 2654435761u * (i + 1);
    for (int i = 0; i < words; i++)
        b[i] = 40503u * 65537u * (i + 7);
    a.upload();
    b.upload();
    packed<K, T><<<1, 32>>>(a.device, b.device, c.device, saturate);
    RUNS();
    c.download();
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            long long sum = saturate ? INT_MAX - 5 : 1;
            for (int k = 0; k < K; k++) {
                const int x = field(&a[0], i * 2 * K + k, Bits, Signed), y = field(&b[0], j * K + k, Bits, Signed);
                sum += Bits == 1 ? (x ^ y) + (x & y) : x * y;
            }
            EQUAL_AT(i * 8 + j, c[i * 8 + j], saturate && sum > INT_MAX ? INT_MAX : (int)sum);
        }
}

// operands of tf32 lose their last 13 bits, a product of double precision is not rounded before it is added
__global__ void precisions(float *narrow, double *wide)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> c;
    wmma::fill_fragment(a, 1 + 0x1p-11f);
    wmma::fill_fragment(b, 1);
    wmma::fill_fragment(c, 0);
    wmma::mma_sync(c, a, b, c);
    narrow[0] = c.x[0];

    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> z;
    wmma::fill_fragment(x, 1 + 0x1p-30);
    wmma::fill_fragment(y, 0);
    wmma::fill_fragment(z, -1 - 0x1p-29);
    if (threadIdx.x == 0)
        y.x[0] = 1 + 0x1p-30; // row 0, column 0
    wmma::mma_sync(z, x, y, z);
    if (threadIdx.x == 0)
        wide[0] = z.x[0];
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
    check<8, 32, 16, __half, __half, column, row, __half>();
    check<32, 8, 16, __half, float, row, row, __half>();
    check<16, 16, 16, __nv_bfloat16, float, row, column, __nv_bfloat16>();
    check<32, 8, 16, signed char, int, row, column, signed char>();
    check<16, 16, 8, wmma::precision::tf32, float, column, row, float>();
    check<8, 8, 4, double, double, column, column, double>();
    for (bool saturate : {false, true}) {
        check_packed<32, wmma::experimental::precision::s4, 4, true>(saturate);
        check_packed<32, wmma::experimental::precision::u4, 4, false>(saturate);
    }
    check_packed<128, wmma::experimental::precision::b1, 1, false>(false);
    {
        Array<float> narrow(1);
        Array<double> wide(1);
        precisions<<<1, 32>>>(narrow.device, wide.device);
        RUNS();
        narrow.download();
        wide.download();
        EQUAL_AT(0, narrow[0], 8);
        EQUAL_AT(0, wide[0], 0x1p-60);
    }
    Array<float> x(4);
    tf32<<<1, 1>>>(x.device);
    RUNS();
    x.download();
    const float want[] = {1 + 0x1p-10f, 1, -1 - 0x1p-10f, INFINITY};
    for (int i = 0; i < 4; i++)
        EQUAL_AT(i, x[i], want[i]);
    return verdict();
}
