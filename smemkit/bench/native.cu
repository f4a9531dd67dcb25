// NVIDIA's own libraries as peers of the benchmark: cuBLAS and CUB, behind functions that ctypes can call. All
// arrays are in C order. Each function enqueues on a stream and returns 0, or the library's error.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <chrono>
#include <cstdint>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

constexpr size_t WORKSPACE = 32 << 20; // what NVIDIA recommends for Hopper

struct blas {
    cublasHandle_t handle;
    void *workspace;
};

// what comes from this thread is for this device
extern "C" int use_device(int device)
{
    return cudaSetDevice(device);
}

extern "C" int blas_version()
{
    return CUBLAS_VERSION;
}

extern "C" int cub_version()
{
    return CUB_VERSION;
}

extern "C" int blas_create(blas **made)
{
    *made = new blas{};
    if (cudaMalloc(&(*made)->workspace, WORKSPACE) != cudaSuccess)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cublasCreate(&(*made)->handle);
}

static int on(const blas *blas, cudaStream_t stream)
{
    const int status = cublasSetStream(blas->handle, stream);

    // memory of its own: a captured graph may be replayed long after the call
    return status ? status : cublasSetWorkspace(blas->handle, blas->workspace, WORKSPACE);
}

// c (m, n) = a (m, k) @ b (k, n), by default math, with sums in float32; type is a cudaDataType of all three
extern "C" int blas_matmul(const blas *blas, int type, int64_t m, int64_t n, int64_t k, const void *a,
                           const void *b, void *c, cudaStream_t stream)
{
    const cudaDataType data = (cudaDataType)type;
    const float one = 1, zero = 0;
    const int status = on(blas, stream);

    if (status)
        return status;
    if (data == CUDA_R_32F)
        return cublasSgemm(blas->handle, CUBLAS_OP_N, CUBLAS_OP_N, (int)n, (int)m, (int)k, &one, (const float *)b,
                           (int)n, (const float *)a, (int)k, &zero, (float *)c, (int)n);
    return cublasGemmEx(blas->handle, CUBLAS_OP_N, CUBLAS_OP_N, (int)n, (int)m, (int)k, &one, b, data, (int)n, a,
                        data, (int)k, &zero, c, data, (int)n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

// out (columns, rows) = the transpose of x (rows, columns), for elements of 4, 8 or 16 bytes
extern "C" int blas_transpose(const blas *blas, int bytes, int64_t rows, int64_t columns, const void *x, void *out,
                              cudaStream_t stream)
{
    const float one = 1, zero = 0;
    const double one_d = 1, zero_d = 0;
    const cuDoubleComplex one_z = {1, 0}, zero_z = {0, 0};
    const int status = on(blas, stream), m = (int)rows, n = (int)columns;

    if (status)
        return status;
    if (bytes == 4)
        return cublasSgeam(blas->handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, &one, (const float *)x, n, &zero,
                           (const float *)out, m, (float *)out, m);
    if (bytes == 16)
        return cublasZgeam(blas->handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, &one_z, (const cuDoubleComplex *)x, n,
                           &zero_z, (const cuDoubleComplex *)out, m, (cuDoubleComplex *)out, m);
    return cublasDgeam(blas->handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, &one_d, (const double *)x, n, &zero_d,
                       (const double *)out, m, (double *)out, m);
}

// the offset of row i
struct row_begin {
    int64_t length;

    __host__ __device__ int64_t operator()(int64_t i) const
    {
        return i * length;
    }
};

// If temporary is NULL, sets *bytes to the number of bytes that it needs.
template <class In, class Out>
static int sum(const In *x, Out *out, int64_t rows, int64_t length, void *temporary, size_t *bytes,
               cudaStream_t stream)
{
    if (rows == 1)
        return cub::DeviceReduce::Sum(temporary, *bytes, x, out, length, stream);
    auto begin = thrust::make_transform_iterator(thrust::make_counting_iterator<int64_t>(0), row_begin{length});
    return cub::DeviceSegmentedReduce::Sum(temporary, *bytes, x, out, rows, begin, begin + 1, stream);
}

// out (rows) = sums (op 'u'), minima ('i') or maxima ('a') of the rows of x (rows, length). The type of a sum is
// 'f', 'd', 'i' (int32 in, int64 out) or 'b' (int8 in, int64 out); minima and maxima are of one row of float32.
extern "C" int cub_reduce(int op, int type, const void *x, void *out, int64_t rows, int64_t length,
                          void *temporary, size_t *bytes, cudaStream_t stream)
{
    if (op == 'i')
        return cub::DeviceReduce::Min(temporary, *bytes, (const float *)x, (float *)out, length, stream);
    if (op == 'a')
        return cub::DeviceReduce::Max(temporary, *bytes, (const float *)x, (float *)out, length, stream);
    switch (type) {
    case 'f':
        return sum((const float *)x, (float *)out, rows, length, temporary, bytes, stream);
    case 'd':
        return sum((const double *)x, (double *)out, rows, length, temporary, bytes, stream);
    case 'b':
        return sum((const int8_t *)x, (int64_t *)out, rows, length, temporary, bytes, stream);
    default:
        return sum((const int32_t *)x, (int64_t *)out, rows, length, temporary, bytes, stream);
    }
}

struct arguments { // as many bytes as a kernel of smemkit has
    char bytes[120];
};

static __global__ void empty_kernel(arguments)
{
}

// The host's time for `count` launches on the default stream, as a graph of one kernel or one by one.
extern "C" int launch_empty(int as_graph, int count, double *seconds)
{
    arguments values = {};
    void *addresses[] = {&values};
    cudaKernelNodeParams kernel = {};
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t node;
    cudaGraphExec_t made = nullptr;

    kernel.func = (void *)empty_kernel;
    kernel.gridDim = 1;
    kernel.blockDim = 32;
    kernel.kernelParams = addresses;
    if (cudaError_t error = cudaGraphCreate(&graph, 0))
        return error;

    const auto launch = [&](int times) {
        cudaError_t error = cudaSuccess;

        for (int i = 0; i < times && !error; i++)
            error = as_graph
                        ? cudaGraphLaunch(made, nullptr)
                        : cudaLaunchKernel(kernel.func, kernel.gridDim, kernel.blockDim, addresses, 0, nullptr);
        return error;
    };
    cudaError_t error = cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel);

    if (!error)
        error = cudaGraphInstantiate(&made, graph, 0);
    if (!error)
        error = launch(count / 10); // the first ones take longer
    if (!error)
        error = cudaDeviceSynchronize();

    const auto start = std::chrono::steady_clock::now();

    if (!error)
        error = launch(count);
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!error)
        error = cudaDeviceSynchronize();
    if (made)
        cudaGraphExecDestroy(made);
    cudaGraphDestroy(graph);
    return error;
}
