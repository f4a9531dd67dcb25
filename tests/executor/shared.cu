// Shared memory: static, dynamic and both, divided into arrays, aligned for float4, limited, private to each
// block.
#include "check.h"

__global__ void static_1d(int *out)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = 100 * blockIdx.x + threadIdx.x;
    __syncthreads();
    out[64 * blockIdx.x + threadIdx.x] = tile[63 - threadIdx.x];
}

// A padded tile: rows are 33 floats apart.
__global__ void static_2d(const float *in, float *out)
{
    __shared__ float tile[32][32 + 1];
    for (int row = threadIdx.y; row < 32; row += 8)
        tile[row][threadIdx.x] = in[32 * row + threadIdx.x];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 8)
        out[32 * row + threadIdx.x] = tile[threadIdx.x][row];
}

__global__ void distances(long *out)
{
    __shared__ float tile[32][33];
    __shared__ char one;
    __shared__ double wide;
    out[0] = &tile[1][0] - &tile[0][0];
    out[1] = sizeof tile;
    out[2] = (long)((size_t)&wide % sizeof wide);
    out[3] = &one != (char *)&wide;
}

__global__ void dynamic(int *out)
{
    extern __shared__ int items[];
    items[threadIdx.x] = 7 * threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = items[blockDim.x - 1 - threadIdx.x];
}

// One dynamic array, divided into doubles, floats and bytes.
__global__ void divided(double *doubles_out, float *floats_out, char *bytes_out, int n)
{
    extern __shared__ __align__(16) unsigned char raw[];
    double *doubles = (double *)raw;
    float *floats = (float *)&doubles[n];
    char *bytes = (char *)&floats[n];
    const int i = threadIdx.x;
    doubles[i] = i + 0.25;
    floats[i] = i + 0.5f;
    bytes[i] = (char)i;
    __syncthreads();
    doubles_out[i] = doubles[n - 1 - i];
    floats_out[i] = floats[n - 1 - i];
    bytes_out[i] = bytes[n - 1 - i];
}

// Template kernels need one name and one type for the raw bytes, or the declarations collide.
template <typename T>
__global__ void dynamic_of(T *out)
{
    extern __shared__ float4 raw16[];
    T *items = reinterpret_cast<T *>(raw16);
    items[threadIdx.x] = (T)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = items[(threadIdx.x + 1) % blockDim.x];
}

__global__ void both(int *out)
{
    __shared__ int fixed[32];
    extern __shared__ int flexible[];
    fixed[threadIdx.x] = threadIdx.x;
    flexible[threadIdx.x] = 1000 + threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = fixed[31 - threadIdx.x] + flexible[(threadIdx.x + 1) % 32];
}

// Each thread writes four floats at once into static and into dynamic memory, after an array of odd size.
__global__ void by_float4(const float *in, float *out)
{
    __shared__ char odd[3];
    __shared__ __align__(16) float tile[128]; // otherwise a GPU may align it to only 4 bytes
    extern __shared__ float more[];
    odd[threadIdx.x % 3] = 1;
    reinterpret_cast<float4 *>(tile)[threadIdx.x] = reinterpret_cast<const float4 *>(in)[threadIdx.x];
    reinterpret_cast<float4 *>(more)[threadIdx.x] = reinterpret_cast<float4 *>(tile)[threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.x; i < 128; i += 32)
        out[i] = tile[i] + more[127 - i] + (odd[0] - 1);
}

// Private to each block: no block sees what another one wrote, whatever the schedule.
__global__ void private_to_block(int *out)
{
    __shared__ int mine;
    if (threadIdx.x == 0)
        mine = blockIdx.x;
    for (int round = 0; round < 4; ++round) {
        __syncthreads();
        if (threadIdx.x == (unsigned)round)
            mine += 1000;
        __syncthreads();
    }
    if (threadIdx.x == 5)
        out[blockIdx.x] = mine;
}

__device__ int *helper_tile()
{
    __shared__ int tile[32]; // a device function's shared array belongs to the block too
    return tile;
}

__global__ void through_a_function(int *out)
{
    helper_tile()[threadIdx.x] = threadIdx.x + 1;
    __syncthreads();
    out[threadIdx.x] = helper_tile()[31 - threadIdx.x];
}

// Every requested byte can be used, up to the last one.
__global__ void to_the_last_byte(unsigned char *out, unsigned bytes)
{
    extern __shared__ unsigned char whole[];
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x)
        whole[i] = (unsigned char)(i * 7 + blockIdx.x);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x)
        out[blockIdx.x * bytes + i] = whole[bytes - 1 - i];
}

static void last_byte(unsigned bytes)
{
    const unsigned blocks = 3;
    Array<unsigned char> out(blocks * bytes);
    to_the_last_byte<<<blocks, 256, bytes>>>(out.device, bytes);
    RUNS();
    out.download();
    for (unsigned i = 0; i < blocks * bytes; ++i)
        EQUAL_AT(i, out[i], (unsigned char)((bytes - 1 - i % bytes) * 7 + i / bytes));
}

static void limits()
{
    last_byte(1);
    last_byte(48 * 1024);
    to_the_last_byte<<<1, 1, 100 * 1024>>>(nullptr, 0);
    ERROR(cudaGetLastError(), cudaErrorInvalidValue); // rejected before cudaFuncSetAttribute
    ERROR(cudaFuncSetAttribute(to_the_last_byte, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024),
          cudaSuccess);
    last_byte(100 * 1024);
    to_the_last_byte<<<1, 1, 100 * 1024 + 4>>>(nullptr, 0);
    ERROR(cudaGetLastError(), cudaErrorInvalidValue); // rejected above the requested size
    ERROR(cudaFuncSetAttribute(to_the_last_byte, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024 * 1024),
          cudaErrorInvalidValue);
    ERROR(cudaGetLastError(), cudaErrorInvalidValue);
}

template <typename T>
static void dynamic_in()
{
    Array<T> out(100);
    dynamic_of<T><<<1, 100, 100 * sizeof(T)>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 100; ++i)
        EQUAL_AT(i, out[i], (i + 1) % 100);
}

// Declarations through macros, types and other forms.
#define SMEM       __shared__
#define TILE_OF(n) __shared__ float n[64]

SMEM int of_a_file[32], count_of_a_file;
namespace inside
{
__shared__ struct cell {
    int x, y;
} cells[32];
} // namespace inside

__global__ void forms(int *out)
{
    SMEM int a[2 < 3 ? 32 : 1], *pointer;
    float __shared__ late[32];
    __shared__ int(*rows)[32];
    TILE_OF(hidden);
    typedef decltype(a) same; // the array's type, not a reference
    static_assert(sizeof(same) == 128 && sizeof a == 128, "32 ints");
    const int i = threadIdx.x;
    auto put = [](int at, int value) { a[at] = value; };
    auto get = [=](int at) { return a[at] + i - i; }; // reads the array at the call, not a copy
    a[i] = -1;
    put(i, i);
    of_a_file[i] = 10 * i;
    inside::cells[i].y = 100 * i;
    late[i] = hidden[i] = 1000 * i;
    if (i == 0)
        pointer = a, rows = &a, count_of_a_file = 5;
    __syncthreads();
    const int j = 31 - i;
    out[i] = get(j) + pointer[j] + (*rows)[j] + of_a_file[j] + inside::cells[j].y + (int)late[j] + (int)hidden[j] +
             count_of_a_file;
    for (int k = 0; k < 3; ++k) {
        switch (k) {
        case 1: {
            __shared__ int in_a_case;
            if (i == 7)
                in_a_case = 9;
            __syncthreads();
            out[i] += in_a_case;
        }
        }
    }
}

int main()
{
    Array<int> a(64 * 100);
    static_1d<<<100, 64>>>(a.device);
    RUNS();
    a.download();
    for (int i = 0; i < 64 * 100; ++i)
        EQUAL_AT(i, a[i], i / 64 * 100 + 63 - i % 64);

    Array<float> in(1024), out(1024);
    for (int i = 0; i < 1024; ++i)
        in[i] = (float)i;
    in.upload();
    static_2d<<<1, dim3(32, 8)>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 1024; ++i)
        EQUAL_AT(i, out[i], in[i % 32 * 32 + i / 32]);

    Array<long> d(4);
    distances<<<1, 1>>>(d.device);
    RUNS();
    d.download();
    EQUAL(d[0], 33);
    EQUAL(d[1], 32 * 33 * 4);
    EQUAL(d[2], 0);
    EQUAL(d[3], 1);

    for (int n : {1, 33, 200, 1024}) { // a different size at each launch
        dynamic<<<1, n, n * sizeof(int)>>>(a.device);
        RUNS();
        a.download();
        for (int i = 0; i < n; ++i)
            EQUAL_AT(i, a[i], 7 * (n - 1 - i));
    }

    const int n = 96;
    Array<double> doubles(n);
    Array<float> floats(n);
    Array<char> bytes(n);
    divided<<<1, n, n *(8 + 4 + 1)>>>(doubles.device, floats.device, bytes.device, n);
    RUNS();
    doubles.download();
    floats.download();
    bytes.download();
    for (int i = 0; i < n; ++i) {
        EQUAL_AT(i, doubles[i], n - 1 - i + 0.25);
        EQUAL_AT(i, floats[i], n - 1 - i + 0.5f);
        EQUAL_AT(i, bytes[i], n - 1 - i);
    }

    dynamic_in<float>();
    dynamic_in<double>();
    dynamic_in<short>();

    both<<<1, 32, 32 * sizeof(int)>>>(a.device);
    RUNS();
    a.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, a[i], 31 - i + 1000 + (i + 1) % 32);

    by_float4<<<1, 32, 128 * sizeof(float)>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 128; ++i)
        EQUAL_AT(i, out[i], 127);

    private_to_block<<<2000, 32>>>(a.device);
    RUNS();
    a.download();
    for (int i = 0; i < 2000; ++i)
        EQUAL_AT(i, a[i], i + 4000);

    through_a_function<<<1, 32>>>(a.device);
    RUNS();
    a.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, a[i], 32 - i);

    forms<<<1, 32>>>(a.device);
    RUNS();
    a.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, a[i], (31 - i) * 2113 + 14);

    limits();
    return verdict();
}
