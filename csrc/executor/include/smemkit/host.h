/* The host side of the dialect: launches, errors, memory. Memory of the CPU device is host memory between guard
 * pages, and every launch is complete when it returns. */
#ifndef SMEMKIT_HOST_H
#define SMEMKIT_HOST_H

/* nodiscard: our launchers do not compile if they ignore an error (setup.py); users' code may ignore them. */
enum [[nodiscard]] cudaError{cudaSuccess = 0,
                             cudaErrorInvalidValue = 1,
                             cudaErrorMemoryAllocation = 2,
                             cudaErrorInvalidConfiguration = 9,
                             cudaErrorInvalidDeviceFunction = 98,
                             cudaErrorIllegalAddress = 700,
                             cudaErrorLaunchTimeout = 702,
                             cudaErrorLaunchFailure = 719,
                             cudaErrorCooperativeLaunchTooLarge = 720,
                             cudaErrorNotSupported = 801,
                             cudaErrorUnknown = 999};
typedef enum cudaError cudaError_t;

/* Not CUDA's CUstream_st: launchers for the two devices must have different types. */
typedef struct smemkit_stream *cudaStream_t;

typedef unsigned long long cudaGraphConditionalHandle;
SMEMKIT_UNAVAILABLE("conditional nodes of graphs do not run on the CPU device")
void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value);

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaDeviceAttr : int;
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

static inline cudaError_t cudaGetLastError()
{
    return (cudaError_t)smemkit_last_error(1);
}
static inline cudaError_t cudaPeekAtLastError()
{
    return (cudaError_t)smemkit_last_error(0);
}
static inline cudaError_t cudaDeviceSynchronize()
{
    return (cudaError_t)smemkit_last_error(1);
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return (cudaError_t)smemkit_last_error(1);
}
static inline const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
        return "cudaErrorInvalidConfiguration";
    case cudaErrorIllegalAddress:
        return "cudaErrorIllegalAddress";
    case cudaErrorLaunchTimeout:
        return "cudaErrorLaunchTimeout";
    case cudaErrorLaunchFailure:
        return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported:
        return "cudaErrorNotSupported";
    default:
        return "cudaErrorUnknown";
    }
}
static inline const char *cudaGetErrorString(cudaError_t error)
{
    const char *message = error == cudaSuccess ? "no error" : smemkit_last_message();
    return *message ? message : cudaGetErrorName(error);
}

static inline cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = smemkit_allocate(bytes);
    return (cudaError_t)smemkit_set_error(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}
template <class T>
static inline cudaError_t cudaMalloc(T **memory, size_t bytes)
{
    return cudaMalloc((void **)memory, bytes);
}
template <class T>
static inline cudaError_t cudaMallocManaged(T **memory, size_t bytes, unsigned = 1)
{
    return cudaMalloc((void **)memory, bytes);
}
static inline cudaError_t cudaFree(void *memory)
{
    smemkit_release(memory);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind)
{
    memmove(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                          cudaStream_t = nullptr)
{
    return cudaMemcpy(to, from, bytes, kind);
}
static inline cudaError_t cudaMemset(void *to, int byte, size_t bytes)
{
    memset(to, byte, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t = nullptr)
{
    return cudaMemset(to, byte, bytes);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                             cudaMemcpyKind = cudaMemcpyHostToDevice)
{
    memcpy((char *)&symbol + offset, from, bytes);
    return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                               cudaMemcpyKind = cudaMemcpyDeviceToHost)
{
    memcpy(to, (const char *)&symbol + offset, bytes);
    return cudaSuccess;
}

namespace smemkit
{

/* Arrivals of blocks at grid-wide barriers: a multiple of their number when all have passed one. One launch at a
 * time runs. */
inline unsigned grid_arrivals;

/* The limit of dynamic shared memory. cudaFuncSetAttribute raises it above 48 KB, here for all kernels. */
SMEMKIT_NO_HOOKS inline size_t &shared_limit()
{
    static size_t bytes = 48 * 1024;
    return bytes;
}

/* extern __shared__ T name[]; at file scope */
template <class T>
struct dynamic_shared {
    const char *name;

    SMEMKIT_NO_HOOKS operator T *() const
    {
        declare_dynamic_shared<T>(name);
        return (T *)smemkit_dynamic_shared();
    }
    template <class U>
    SMEMKIT_NO_HOOKS explicit operator U *() const
    {
        declare_dynamic_shared<T>(name);
        return (U *)smemkit_dynamic_shared();
    }
};

/* Runs one CUDA thread: `closure` is the addresses of the call and of the launch's arguments, which it copies. */
template <class Call, class... Arguments, size_t... I>
SMEMKIT_NO_HOOKS void call_with(const void *const *addresses, std::index_sequence<I...>)
{
    (*(const Call *)addresses[0])(*(const Arguments *)addresses[I + 1]...);
}
template <class Call, class... Arguments>
SMEMKIT_NO_HOOKS void run_thread(void *closure)
{
    call_with<Call, Arguments...>((const void *const *)closure, std::index_sequence_for<Arguments...>());
}

/* Does not depend on the kernel: there are hundreds, so what is instantiated for each has to be small. */
SMEMKIT_NO_HOOKS inline __attribute__((noinline)) void start(smemkit_launch launch, void (*run)(void *),
                                                             const void *const *addresses, const size_t *bytes,
                                                             unsigned count)
{
    launch.run = run;
    launch.closure = (void *)addresses;
#ifdef SMEMKIT_CHECKED
    launch.argument_count = count;
    launch.arguments = addresses + 1;
    launch.argument_bytes = bytes + 1;
#endif
    (void)bytes, (void)count;
    smemkit_run(&launch);
}
template <class Call, class... Arguments>
SMEMKIT_NO_HOOKS void launch(const smemkit_launch &configured, const Call &call, const Arguments &...arguments)
{
    const void *const addresses[] = {__builtin_addressof(call), __builtin_addressof(arguments)...};
    static constexpr size_t BYTES[] = {0, sizeof arguments...};

    start(configured, run_thread<Call, Arguments...>, addresses, BYTES, sizeof...(Arguments));
}

/* smemkit's own kernels always end, so they are built without a watchdog (SMEMKIT_UNWATCHED). */
#ifdef SMEMKIT_UNWATCHED
constexpr int watched = 0;
#else
constexpr int watched = 1;
#endif

/* The first half of kernel<<<configuration>>>(arguments); the second half calls the result. `Call` is a function,
 * or a lambda that calls a template, so that the types of the copied arguments select the instance. */
SMEMKIT_NO_HOOKS inline __attribute__((noinline)) smemkit_launch
configuration(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t = nullptr)
{
    return {kernel,
            {grid.x, grid.y, grid.z},
            {block.x, block.y, block.z},
            shared_bytes,
            shared_limit(),
            watched,
            nullptr,
            nullptr,
            0,
            nullptr,
            nullptr,
            0,
            0,
            &grid_arrivals};
}
template <class Call>
SMEMKIT_NO_HOOKS auto configure(const char *kernel, Call call, dim3 grid, dim3 block, size_t shared_bytes = 0,
                                cudaStream_t stream = nullptr)
{
    return [configured = configuration(kernel, grid, block, shared_bytes, stream), call](auto... arguments)
               SMEMKIT_NO_HOOKS { launch(configured, call, arguments...); };
}
template <class... Parameters>
SMEMKIT_NO_HOOKS auto configure(const char *kernel, void (*call)(Parameters...), dim3 grid, dim3 block,
                                size_t shared_bytes = 0, cudaStream_t stream = nullptr)
{
    return [configured = configuration(kernel, grid, block, shared_bytes, stream), call](Parameters... arguments)
               SMEMKIT_NO_HOOKS { launch(configured, call, arguments...); };
}

template <class... P, size_t... I>
SMEMKIT_NO_HOOKS cudaError_t launch_cooperative(void (*kernel)(P...), smemkit_launch launched, void **arguments,
                                                std::index_sequence<I...>)
{
    (void)arguments;
    launched.cooperative = 1;
    launch(launched, kernel, *(std::remove_reference_t<P> *)arguments[I]...);
    return (cudaError_t)smemkit_last_error(0);
}

} // namespace smemkit

/* Its blocks run together, so that they may wait for each other. */
template <class... P>
static inline cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                                                      void **arguments, size_t shared_bytes = 0,
                                                      cudaStream_t stream = nullptr)
{
    const smemkit_launch launched = smemkit::configuration("cooperative", grid, block, shared_bytes, stream);
    return smemkit::launch_cooperative(kernel, launched, arguments, std::index_sequence_for<P...>());
}

template <class Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || value > 227 * 1024)
        return (cudaError_t)smemkit_set_error(cudaErrorInvalidValue);
    if ((size_t)value > smemkit::shared_limit())
        smemkit::shared_limit() = (size_t)value;
    return cudaSuccess;
}

#endif
