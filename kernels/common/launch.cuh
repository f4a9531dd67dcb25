// Launches that overlap: the blocks of a kernel come as soon as the kernel ahead of it says that they may, or its
// last block has ended, and wait there until all that it has written can be read. It saves a quarter to half a
// microsecond a launch. (CUDA C++ Programming Guide, Programmatic Dependent Launch; from compute capability 9.0
// on.)
//
// A kernel that `launch` is given begins with wait_for_earlier(). One of few blocks says there that the next one
// may come; one of many does not, for that one's blocks would take the places as they become free, many of them on
// one multiprocessor, which costs more than it gains; but where its plan knows that there is no room beside it, or
// as much everywhere (reduce_rows).
#pragma once

#include <cuda_runtime.h>
#include <atomic>
#include <cstddef>
#include <cstdlib>

// what comes behind it runs beside the next kernel's blocks, if all of this one's have come here
static __device__ inline void let_next_come()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// what comes before it runs beside the kernel ahead
static __device__ inline void wait_for_earlier()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr unsigned FEW = 128; // about one for each multiprocessor

    cudaGridDependencySynchronize();
    if (gridDim.x <= FEW && gridDim.y <= FEW && gridDim.x * gridDim.y * gridDim.z <= FEW)
        let_next_come(); // now that whatever the next one may read is there, but ours
#endif
}

#ifdef __CUDA_ARCH_LIST__

// Whether there is code for just this device, which knows how to wait: another one compiles the PTX of the oldest,
// as this one does where the driver is told to.
static inline bool knows_to_wait(int device)
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

static inline bool can_overlap(int device)
{
    enum { UNKNOWN, NO, YES, MOST_DEVICES = 64 };
    static std::atomic<unsigned char> answers[MOST_DEVICES];

    if (device >= MOST_DEVICES)
        return false;
    if (answers[device] == UNKNOWN)
        answers[device] = knows_to_wait(device) ? YES : NO;
    return answers[device] == YES;
}

// csrc/cuda/launch.c: a launch that costs the host less, on the default stream. False where there is none to be
// had.
extern "C" bool gpu_launch_small(int device, const cudaKernelNodeParams *, const size_t *argument_bytes,
                                 int arguments, cudaError_t *);

template <class T>
struct exactly {
    using type = T;
};

template <class... Parameters>
static cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                 cudaStream_t stream, const typename exactly<Parameters>::type &...parameters)
{
    constexpr unsigned SMALL = 8; // blocks
    constexpr size_t SIZES[] = {sizeof(Parameters)...};
    void *addresses[] = {(void *)&parameters...};
    cudaLaunchAttribute overlap = {};
    cudaLaunchConfig_t config = {};
    cudaError_t code;
    int device = 0;

    if (cudaError_t error = cudaGetDevice(&device))
        return error;
    if (!stream && grid.x <= SMALL && grid.y <= SMALL && grid.x * grid.y * grid.z <= SMALL) {
        cudaKernelNodeParams params = {};

        params.func = (void *)kernel;
        params.gridDim = grid;
        params.blockDim = block;
        params.sharedMemBytes = (unsigned)shared_bytes;
        params.kernelParams = addresses;
        if (gpu_launch_small(device, &params, SIZES, (int)sizeof...(Parameters), &code))
            return code;
    }
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = can_overlap(device);
    return cudaLaunchKernelExC(&config, (const void *)kernel, addresses);
}

template <auto KERNEL, class... Arguments>
[[nodiscard]] static cudaError_t launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                        const Arguments &...arguments)
{
    return launch_kernel(KERNEL, grid, block, shared_bytes, stream, arguments...);
}

#else // the CPU executor, whose launches come one after the other

struct kernel_name {
    char text[64];
};

// `reduce_rows` of "… KERNEL = reduce_rows<Sum<double>, float>; …", as compilers write a template's arguments
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

template <auto KERNEL, class... Arguments>
[[nodiscard]] static cudaError_t launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                        const Arguments &...arguments)
{
    static constexpr kernel_name NAME = name_of_kernel(__PRETTY_FUNCTION__);

    smemkit::configure(NAME.text, KERNEL, grid, block, shared_bytes, stream)(arguments...);
    return cudaGetLastError();
}

#endif
