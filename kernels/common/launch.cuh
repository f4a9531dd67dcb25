// Launches with programmatic dependent launch (PDL): the blocks of a kernel may start before the previous kernel
// in the stream has ended, as soon as all of its blocks have triggered or exited. They wait in pdl_wait() until
// everything that it has written is visible. This saves 0.25 to 0.5 microseconds per launch. (CUDA C++ Programming
// Guide, Programmatic Dependent Launch; compute capability 9.0 and above.)
//
// Every kernel started by `launch` calls pdl_wait() first. A small grid triggers the next kernel right there. A
// large grid does not: the next kernel's blocks would occupy slots as they become free, many of them on one
// multiprocessor, which costs more than it gains. The exception is reduce_rows, which triggers where its work
// split says that this does no harm (reduce_work.early_trigger).
#pragma once

#include <cuda_runtime.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// allows the next kernel to start, once all blocks of this one have called it or exited
static __device__ inline void pdl_trigger()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// waits until the previous kernel's writes are visible; code before it overlaps with that kernel
static __device__ inline void pdl_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr unsigned SMALL_GRID = 128; // blocks: about one per multiprocessor

    cudaGridDependencySynchronize();
    if (gridDim.x <= SMALL_GRID && gridDim.y <= SMALL_GRID && gridDim.x * gridDim.y * gridDim.z <= SMALL_GRID)
        pdl_trigger(); // the next kernel may read anything but this kernel's output, for which it waits
#endif
}

// a type that is given, not deduced
template <class T>
struct exactly {
    using type = T;
};

#ifdef __CUDA_ARCH_LIST__

// Whether this binary has native code (SASS) for the device, compiled for sm_90 or above and so with PDL. If not,
// the device runs PTX of the oldest architecture, if there is any, which has no pdl_wait; so does every device
// under CUDA_FORCE_PTX_JIT.
static inline bool has_native_code(int device)
{
    constexpr int LIST[] = {__CUDA_ARCH_LIST__}; // 750, 900
    int major = 0, minor = 0;
    bool known = false;

    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    for (const int arch : LIST)
        known = known || (arch >= 900 && arch == 100 * major + 10 * minor);
    return known && !getenv("CUDA_FORCE_PTX_JIT");
}

static inline bool supports_pdl(int device)
{
    enum { UNKNOWN, NO, YES, MAX_DEVICES = 64 };
    static std::atomic<unsigned char> answers[MAX_DEVICES];

    if (device >= MAX_DEVICES)
        return false;
    if (answers[device] == UNKNOWN)
        answers[device] = has_native_code(device) ? YES : NO;
    return answers[device] == YES;
}

// csrc/device/cuda/launch.c: a launch with less host overhead, for the default stream. False where it is not
// available.
extern "C" bool gpu_launch_by_graph(int device, const cudaKernelNodeParams *, const size_t *argument_bytes,
                                    int arguments, cudaError_t *);

// Allows launches of a kernel with more than 48 KB of dynamic shared memory on the current device. Asks CUDA only
// once per device.
template <auto KERNEL>
[[nodiscard]] static cudaError_t allow_shared_bytes(int bytes)
{
    static std::atomic<uint64_t> allowed; // one bit per device
    int device = 0;

    if (cudaError_t error = cudaGetDevice(&device))
        return error;
    const uint64_t bit = device < 64 ? (uint64_t)1 << device : 0;
    if (allowed & bit)
        return cudaSuccess;
    if (cudaError_t error = cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))
        return error;
    allowed |= bit;
    return cudaSuccess;
}

// The arguments of a kernel: their addresses and sizes, which launches take as arrays.
struct argument_list {
    void **addresses;
    const size_t *sizes;
    int count;
};

// No template, because there are hundreds of kernels.
[[maybe_unused]] static cudaError_t launch_kernel(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                                                  unsigned cluster, cudaStream_t stream, argument_list arguments)
{
    constexpr unsigned GRAPH_GRID = 8; // blocks
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    cudaError_t code;
    int device = 0;

    if (cudaError_t error = cudaGetDevice(&device))
        return error;
    if (!stream && cluster == 1 && grid.x <= GRAPH_GRID && grid.y <= GRAPH_GRID &&
        grid.x * grid.y * grid.z <= GRAPH_GRID) {
        cudaKernelNodeParams params = {};

        params.func = (void *)kernel;
        params.gridDim = grid;
        params.blockDim = block;
        params.sharedMemBytes = (unsigned)shared_bytes;
        params.kernelParams = arguments.addresses;
        if (gpu_launch_by_graph(device, &params, arguments.sizes, arguments.count, &code))
            return code;
    }
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (supports_pdl(device)) {
        cudaLaunchAttribute &overlap = attributes[config.numAttrs++];

        overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        overlap.val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        cudaLaunchAttribute &clusters = attributes[config.numAttrs++];

        clusters.id = cudaLaunchAttributeClusterDimension;
        clusters.val.clusterDim.x = cluster;
        clusters.val.clusterDim.y = clusters.val.clusterDim.z = 1;
    }
    return cudaLaunchKernelExC(&config, kernel, arguments.addresses);
}

template <class... Parameters>
static cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                 unsigned cluster, cudaStream_t stream,
                                 const typename exactly<Parameters>::type &...parameters)
{
    static constexpr size_t SIZES[] = {sizeof(Parameters)...};
    void *addresses[] = {(void *)&parameters...};

    return launch_kernel((const void *)kernel, grid, block, shared_bytes, cluster, stream,
                         argument_list{addresses, SIZES, (int)sizeof...(Parameters)});
}

// CLUSTER: blocks along x that run together and reach each other's shared memory.
template <auto KERNEL, unsigned CLUSTER = 1, class... Arguments>
[[nodiscard]] static cudaError_t launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                        const Arguments &...arguments)
{
    return launch_kernel(KERNEL, grid, block, shared_bytes, CLUSTER, stream, arguments...);
}

#else // the CPU executor runs one launch after the other

template <auto KERNEL>
[[nodiscard]] static cudaError_t allow_shared_bytes(int bytes)
{
    return cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

struct kernel_name {
    char text[64];
};

// extracts `reduce_rows` from "… KERNEL = reduce_rows<Sum<double>, float>; …", the compiler's spelling of a
// template argument
static constexpr kernel_name name_of_kernel(const char *function)
{
    constexpr char BEFORE[] = "KERNEL = ";
    kernel_name name = {};
    int matched = 0, length = 0;

    while (*function && BEFORE[matched]) {
        matched = *function == BEFORE[matched] ? matched + 1 : *function == BEFORE[0];
        function++;
    }
    function += *function == '&';
    while (*function && *function != '<' && *function != ';' && *function != ',' && *function != ']' &&
           length < (int)sizeof name.text - 1)
        name.text[length++] = *function++;
    return name;
}

// One function per list of parameters, not per kernel: there are hundreds of kernels with the same parameters.
template <class... Parameters>
static __attribute__((noinline)) cudaError_t
launch_kernel(void (*kernel)(Parameters...), const char *name, dim3 grid, dim3 block, size_t shared_bytes,
              unsigned cluster, cudaStream_t stream, const typename exactly<Parameters>::type &...parameters)
{
    smemkit_launch configured = smemkit::configuration(name, grid, block, shared_bytes, stream);

    if (cluster > 1) {
        configured.cluster[0] = cluster;
        configured.cluster[1] = configured.cluster[2] = 1;
    }
    smemkit::launch(configured, kernel, parameters...);
    return cudaGetLastError();
}

template <auto KERNEL, unsigned CLUSTER = 1, class... Arguments>
[[nodiscard]] static cudaError_t launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                        const Arguments &...arguments)
{
    static constexpr kernel_name NAME = name_of_kernel(__PRETTY_FUNCTION__);

    return launch_kernel(KERNEL, NAME.text, grid, block, shared_bytes, CLUSTER, stream, arguments...);
}

#endif
