// Launches: built-in indices in 1, 2 and 3 dimensions, rejected configurations, and every way to name a kernel.
#include "check.h"

struct Position {
    int thread[3], block[3], block_dim[3], grid_dim[3];
};

__global__ void write_position(Position *out)
{
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    Position &mine = out[block * (blockDim.x * blockDim.y * blockDim.z) + thread];
    mine = Position{{(int)threadIdx.x, (int)threadIdx.y, (int)threadIdx.z},
                    {(int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z},
                    {(int)blockDim.x, (int)blockDim.y, (int)blockDim.z},
                    {(int)gridDim.x, (int)gridDim.y, (int)gridDim.z}};
}

static void indices(dim3 grid, dim3 block)
{
    Array<Position> out((size_t)grid.x * grid.y * grid.z * block.x * block.y * block.z);
    write_position<<<grid, block>>>(out.device);
    RUNS();
    out.download();
    size_t i = 0;
    for (unsigned bz = 0; bz < grid.z; ++bz)
        for (unsigned by = 0; by < grid.y; ++by)
            for (unsigned bx = 0; bx < grid.x; ++bx)
                for (unsigned tz = 0; tz < block.z; ++tz)
                    for (unsigned ty = 0; ty < block.y; ++ty)
                        for (unsigned tx = 0; tx < block.x; ++tx, ++i) {
                            Position want = {{(int)tx, (int)ty, (int)tz},
                                             {(int)bx, (int)by, (int)bz},
                                             {(int)block.x, (int)block.y, (int)block.z},
                                             {(int)grid.x, (int)grid.y, (int)grid.z}};
                            EQUAL_AT(i, memcmp(&out[i], &want, sizeof want), 0);
                        }
}

// ---- configurations -------------------------------------------------------------------------------------------

__global__ void count(int *counter)
{
    atomicAdd(counter, 1);
}

static void refused(dim3 grid, dim3 block, size_t shared, cudaError_t want, int *counter)
{
    count<<<grid, block, shared>>>(counter);
    const cudaError_t came = cudaPeekAtLastError();
    EQUAL(came == want || came == cudaErrorInvalidValue, true); // CUDA 13 has only one error for all of these
    ERROR(cudaGetLastError(), came);                            // peeking does not clear it
    ERROR(cudaGetLastError(), cudaSuccess);
    ERROR(cudaDeviceSynchronize(), cudaSuccess);
}

static void accepted(dim3 grid, dim3 block, size_t shared, int *counter)
{
    int before, after;
    cudaMemcpy(&before, counter, sizeof before, cudaMemcpyDeviceToHost);
    count<<<grid, block, shared>>>(counter);
    RUNS();
    cudaMemcpy(&after, counter, sizeof after, cudaMemcpyDeviceToHost);
    EQUAL(after - before, (int)(grid.x * grid.y * grid.z * block.x * block.y * block.z));
}

static void configurations()
{
    Array<int> counter(1);
    counter.zero();
    refused(1, 1025, 0, cudaErrorInvalidConfiguration, counter.device);
    refused(1, dim3(1, 1025), 0, cudaErrorInvalidConfiguration, counter.device);
    refused(1, dim3(1, 1, 65), 0, cudaErrorInvalidConfiguration, counter.device);
    refused(1, dim3(32, 32, 2), 0, cudaErrorInvalidConfiguration, counter.device);
    refused(1, 0, 0, cudaErrorInvalidConfiguration, counter.device);
    refused(1, dim3(1, 0), 0, cudaErrorInvalidConfiguration, counter.device);
    refused(0, 1, 0, cudaErrorInvalidConfiguration, counter.device);
    refused(dim3(1, 1, 0), 1, 0, cudaErrorInvalidConfiguration, counter.device);
    refused(dim3(1, 65536), 1, 0, cudaErrorInvalidConfiguration, counter.device);
    refused(dim3(1, 1, 65536), 1, 0, cudaErrorInvalidConfiguration, counter.device);
    refused(0x80000000u, 1, 0, cudaErrorInvalidConfiguration, counter.device);
    refused(1, 1, 48 * 1024 + 1, cudaErrorInvalidValue, counter.device);
    counter.download();
    EQUAL(counter[0], 0); // none of them ran

    accepted(1, 1024, 0, counter.device);
    accepted(1, dim3(1, 1024), 0, counter.device);
    accepted(1, dim3(4, 4, 64), 0, counter.device);
    accepted(dim3(1, 65535), 1, 0, counter.device);
    accepted(dim3(1, 1, 65535), 1, 0, counter.device);
    accepted(65537, 1, 0, counter.device);
    accepted(1, 1, 48 * 1024, counter.device);

    EQUAL(strcmp(cudaGetErrorName(cudaErrorInvalidConfiguration), "cudaErrorInvalidConfiguration"), 0);
    EQUAL(strlen(cudaGetErrorString(cudaErrorInvalidConfiguration)) > 0, true); // the wording may differ
    EQUAL(strcmp(cudaGetErrorString(cudaSuccess), "no error"), 0);
}

// ---- many threads ---------------------------------------------------------------------------------------------

__global__ void triple(unsigned *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 3 * i;
}

static void a_million_threads()
{
    const unsigned n = 1 << 20;
    Array<unsigned> out(n);
    const dim3 shapes[] = {dim3(n / 1024, 1024), dim3(n / 32, 32), dim3(n, 1)};
    for (dim3 shape : shapes) {
        cudaMemset(out.device, 0xA5, n * sizeof(unsigned));
        triple<<<shape.x, shape.y>>>(out.device);
        RUNS();
        out.download();
        for (unsigned i = 0; i < n; ++i)
            EQUAL_AT(i, out[i], 3 * i);
    }
}

__global__ void increment(int *x)
{
    *x += 1;
}

static void a_thousand_launches()
{
    Array<int> x(1);
    x.zero();
    for (int i = 0; i < 1000; ++i)
        increment<<<1, 1>>>(x.device); // in order: each sees the result of the one before
    RUNS();
    x.download();
    EQUAL(x[0], 1000);
}

// ---- templates ------------------------------------------------------------------------------------------------

// Each instance has its own tile, of its own type and size.
template <typename T, int N>
__global__ void reverse(const T *in, T *out)
{
    __shared__ T tile[N];
    tile[threadIdx.x] = in[blockIdx.x * N + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * N + threadIdx.x] = tile[N - 1 - threadIdx.x];
}

template <typename T, int N>
static void reversed()
{
    const int blocks = 5;
    Array<T> in(blocks * N), out(blocks * N);
    for (int i = 0; i < blocks * N; ++i)
        in[i] = (T)(i % 101);
    in.upload();
    reverse<T, N><<<blocks, N>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < blocks * N; ++i)
        EQUAL_AT(i, out[i], in[i / N * N + N - 1 - i % N]);
}

template <typename T>
__global__ void fill(T *out, T value)
{
    out[threadIdx.x] = value;
}

template <typename Function>
__global__ void apply(Function f, int *out)
{
    out[threadIdx.x] = f((int)threadIdx.x);
}

struct Affine {
    int slope, offset;
    __host__ __device__ int operator()(int x) const
    {
        return slope * x + offset;
    }
};

static void deduced()
{
    Array<double> d(8);
    fill<<<1, 8>>>(d.device, 2.5);
    RUNS();
    d.download();
    Array<char> c(8);
    fill<<<1, 8>>>(c.device, 'x');
    RUNS();
    c.download();
    Array<int> affine(8);
    apply<<<1, 8>>>(Affine{3, 5}, affine.device); // a struct by value
    RUNS();
    affine.download();
    for (int i = 0; i < 8; ++i) {
        EQUAL_AT(i, d[i], 2.5);
        EQUAL_AT(i, c[i], 'x');
        EQUAL_AT(i, affine[i], 3 * i + 5);
    }
}

// ---- shadowed names -------------------------------------------------------------------------------------------

__global__ void shadows(int *out)
{
    int *mine = out + 4 * blockIdx.x + threadIdx.x, sum = 0;
    const int thread = threadIdx.x, blocks = gridDim.x;
    for (int blockIdx = 0; blockIdx < blocks; ++blockIdx) { // tutorials do this
        int threadIdx = 10 * blockIdx;
        sum += threadIdx + thread;
    }
    struct {
        int x;
    } blockDim = {1000};
    *mine = sum + blockDim.x;
}

static void shadowed()
{
    Array<int> out(12);
    shadows<<<3, 4>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 12; ++i)
        EQUAL_AT(i, out[i], (0 + 10 + 20) + 3 * (i % 4) + 1000);
}

// ---- constants and globals ------------------------------------------------------------------------------------

__constant__ float coefficients[4];
__constant__ int initialised = 7;
__device__ int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ unsigned total;

__global__ void polynomial(const float *x, float *out)
{
    float y = 0;
    for (int i = 3; i >= 0; --i)
        y = y * x[threadIdx.x] + coefficients[i];
    out[threadIdx.x] = y + initialised;
}

__global__ void rotate_table()
{
    int mine = table[(threadIdx.x + 1) % 8];
    __syncthreads();
    table[threadIdx.x] = mine;
    atomicAdd(&total, (unsigned)mine);
}

static void symbols()
{
    const float c[4] = {1, 2, 3, 4};
    ERROR(cudaMemcpyToSymbol(coefficients, c, sizeof c), cudaSuccess);
    Array<float> x(16), y(16);
    for (int i = 0; i < 16; ++i)
        x[i] = (float)i;
    x.upload();
    polynomial<<<1, 16>>>(x.device, y.device);
    RUNS();
    y.download();
    for (int i = 0; i < 16; ++i)
        EQUAL_AT(i, y[i], (float)(1 + 2 * i + 3 * i * i + 4 * i * i * i + 7));

    const float last = 40; // one element, at an offset
    ERROR(cudaMemcpyToSymbol(coefficients, &last, sizeof last, 3 * sizeof last), cudaSuccess);
    float back[4];
    ERROR(cudaMemcpyFromSymbol(back, coefficients, sizeof back), cudaSuccess);
    EQUAL(back[2], 3);
    EQUAL(back[3], 40);

    rotate_table<<<1, 8>>>();
    rotate_table<<<1, 8>>>();
    RUNS();
    int rotated[8];
    unsigned sum;
    ERROR(cudaMemcpyFromSymbol(rotated, table, sizeof rotated), cudaSuccess);
    ERROR(cudaMemcpyFromSymbol(&sum, total, sizeof sum), cudaSuccess);
    for (int i = 0; i < 8; ++i)
        EQUAL_AT(i, rotated[i], (i + 2) % 8 + 1);
    EQUAL(sum, 72u);
}

// ---- ways to write and to name a kernel -----------------------------------------------------------------------

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __forceinline__ int plus_one(int x);

__global__ void recursive(int *out)
{
    out[threadIdx.x] = fibonacci((int)threadIdx.x);
}

static __global__ void __launch_bounds__(128, 2) bounded(const int *__restrict__ in, int *__restrict__ out)
{
    out[threadIdx.x] = plus_one(in[threadIdx.x]) + warpSize;
}

__device__ __forceinline__ int plus_one(int x)
{
    return x + 1;
}

namespace outer
{
namespace inner
{
__global__ void namespaced(int *out)
{
    auto square = [](int x) { return x * x; };
    out[threadIdx.x] = square((int)threadIdx.x);
}
} // namespace inner
} // namespace outer

static void names()
{
    Array<int> a(16), b(16);
    recursive<<<1, 16>>>(a.device);
    bounded<<<dim3(1), dim3{16}, 0, 0>>>(a.device, b.device); // with a stream too
    RUNS();
    a.download();
    b.download();
    for (int i = 0, f = 0, next = 1; i < 16; ++i) {
        EQUAL_AT(i, a[i], f);
        EQUAL_AT(i, b[i], f + 1 + 32);
        next += f;
        f = next - f;
    }

    // clang-format off
    auto launch = [&](int n) { outer::inner::namespaced<<<1 << 0, n > 8 ? 1 << 4 : 1>>>(a.device); };
    // clang-format on
    launch(16);
    RUNS();
    a.download();
    for (int i = 0; i < 16; ++i)
        EQUAL_AT(i, a[i], i * i);

    void (*pointer)(int *, int) = fill<int>;
    pointer<<<1, 16>>>(a.device, -3);
    RUNS();
    // clang-format off
    fill<int>
        <<<1,  // a launch may take
           8>>>(b.device,
                4); // several lines
    // clang-format on
    RUNS();
    a.download();
    b.download();
    for (int i = 0; i < 8; ++i) {
        EQUAL_AT(i, a[i + 8], -3);
        EQUAL_AT(i, b[i], 4);
    }
}

int main()
{
    indices(7, 33);
    indices(dim3(3, 4), dim3(5, 6));
    indices(dim3(2, 3, 4), dim3(3, 5, 7));
    configurations();
    a_million_threads();
    a_thousand_launches();
    reversed<float, 64>();
    reversed<double, 64>();
    reversed<int, 64>();
    reversed<char, 64>();
    reversed<double, 31>();
    deduced();
    shadowed();
    symbols();
    names();
    return verdict();
}
