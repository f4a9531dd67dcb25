/* The CUDA devices: device/device.h on the CUDA runtime, which is linked statically.
 *
 * Two rules hold for every function. It leaves the calling thread as it found it: `gpu_make_current` makes the
 * device current, `gpu_restore_context` restores the context that PyTorch or CuPy had chosen. And every runtime
 * call is wrapped in CHECK, which turns its error into a failure that quotes the call; an error that destroys the
 * context marks the device as lost, and from then on `gpu_make_current` refuses it with the message of that first
 * error.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "executor/executor.h"
#include "device/launches.h"
#include "gpu.h"

#define FORKED_MESSAGE "CUDA was initialised before fork(); use the 'spawn' start method, or device='cpu'"

/* Per-process state, like the driver's. `initialise` writes all of it once, guarded by `started`; of a struct gpu
 * only the atomics change later, and `failure` under `lost_lock`. */
static pthread_once_t started = PTHREAD_ONCE_INIT;
static pthread_mutex_t lost_lock = PTHREAD_MUTEX_INITIALIZER;
struct gpu gpus[MAX_GPUS];
static int gpu_count;
static char no_gpu_reason[320] = FORKED_MESSAGE; /* remains only if a fork interrupted `initialise` */
static atomic_bool forked; /* in a child process whose parent had started to initialise: CUDA may hang there */
static CUresult (*get_context)(CUcontext *);
static CUresult (*get_context_state)(CUdevice, unsigned *, int *);
static CUresult (*set_context)(CUcontext);

/* By attributes, not by struct cudaDeviceProp, some of whose fields toolkit 13 removed. */
static bool read_attributes(struct device *device, struct device_properties *p, struct failure *failure)
{
    const struct {
        enum cudaDeviceAttr which;
        int *as_int;
        size_t *as_size;
    } wanted[] = {
        {cudaDevAttrComputeCapabilityMajor, &p->capability_major, NULL},
        {cudaDevAttrComputeCapabilityMinor, &p->capability_minor, NULL},
        {cudaDevAttrMultiProcessorCount, &p->multiprocessors, NULL},
        {cudaDevAttrMaxThreadsPerBlock, &p->max_threads_per_block, NULL},
        {cudaDevAttrMaxThreadsPerMultiProcessor, &p->max_threads_per_multiprocessor, NULL},
        {cudaDevAttrWarpSize, &p->warp_size, NULL},
        {cudaDevAttrMaxSharedMemoryPerBlock, NULL, &p->shared_per_block},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, NULL, &p->shared_per_block_optin},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, NULL, &p->shared_per_multiprocessor},
        {cudaDevAttrMaxRegistersPerMultiprocessor, &p->registers_per_multiprocessor, NULL},
        {cudaDevAttrMaxBlocksPerMultiprocessor, &p->max_blocks_per_multiprocessor, NULL},
        {cudaDevAttrReservedSharedMemoryPerBlock, NULL, &p->shared_reserved_per_block},
        {cudaDevAttrL2CacheSize, NULL, &p->l2_bytes},
        {cudaDevAttrClockRate, &p->clock_khz, NULL},
        {cudaDevAttrMemoryClockRate, &p->memory_clock_khz, NULL},
        {cudaDevAttrGlobalMemoryBusWidth, &p->memory_bus_bits, NULL},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int value = 0;
        if (!CHECK(cudaDeviceGetAttribute(&value, wanted[i].which, device->ordinal)))
            return false;
        if (wanted[i].as_int != NULL)
            *wanted[i].as_int = value;
        else
            *wanted[i].as_size = (size_t)value;
    }
    return true;
}

static bool cuda_properties(struct device *device, struct device_properties *p, struct failure *failure)
{
    struct saved_context saved;
    struct cudaDeviceProp named;

    *p = (struct device_properties){0};
    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaGetDeviceProperties(&named, device->ordinal)) && read_attributes(device, p, failure) &&
              CHECK(cudaMemGetInfo(&p->free_bytes, &p->memory_bytes)) &&
              CHECK(cudaDriverGetVersion(&p->driver_version)) && CHECK(cudaRuntimeGetVersion(&p->runtime_version));
    if (ok)
        snprintf(p->description, sizeof p->description, "%.*s", (int)sizeof named.name, named.name);
    gpu_restore_context(&saved);
    return ok;
}

static const struct device_type cuda_type;

bool gpu_is_forked(void)
{
    return atomic_load(&forked);
}

enum cudaStreamCaptureMode gpu_relax_capture_mode(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void gpu_restore_capture_mode(enum cudaStreamCaptureMode before)
{
    (void)cudaThreadExchangeStreamCaptureMode(&before);
}

/* Whether the error destroys the context. */
static bool is_fatal(cudaError_t code)
{
    switch ((int)code) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226: /* cudaErrorContained, from toolkit 12.8 */
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case 721: /* cudaErrorTensorMemoryLeak, from toolkit 12.8 */
    case cudaErrorMpsClientTerminated:
        return true;
    default:
        return false;
    }
}

/* Marks the device as lost, and keeps the first failure. */
static void mark_lost(struct gpu *gpu, const struct failure *failure)
{
    pthread_mutex_lock(&lost_lock);
    if (!atomic_load(&gpu->lost)) {
        gpu->failure = *failure;
        atomic_store(&gpu->lost, true);
    }
    pthread_mutex_unlock(&lost_lock);
}

/* Whether code is cudaSuccess; otherwise fills failure, and clears the error unless it is sticky. */
bool gpu_check(struct device *device, cudaError_t code, const char *call, struct failure *failure)
{
    if (code == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    failure_set(failure, code == cudaErrorMemoryAllocation ? FAILURE_MEMORY : FAILURE_CUDA, "%s: %s", call,
                cudaGetErrorString(code));
    failure->code = (int)code;
    failure->fatal = is_fatal(code);
    snprintf(failure->name, sizeof failure->name, "%s", cudaGetErrorName(code));
    if (failure->fatal)
        mark_lost(&gpus[device->ordinal], failure);
    return false;
}

/* A daemon thread may still be in a call, without the GIL, while the process exits and the CUDA libraries are
 * destroyed: it must be neither inside CUDA then, nor enter it. */
static atomic_int threads_inside;      /* between enter_cuda and leave_cuda */
static _Thread_local int calls_inside; /* of this thread: one may be inside another */
static atomic_bool exiting;
static pthread_t exiting_thread; /* set before `exiting` */

static void enter_cuda(void)
{
    if (calls_inside++ > 0)
        return;
    atomic_fetch_add(&threads_inside, 1);
    if (atomic_load(&exiting) && !pthread_equal(exiting_thread, pthread_self())) {
        atomic_fetch_sub(&threads_inside, 1);
        for (;;)
            (void)pause();
    }
}

static void leave_cuda(void)
{
    if (--calls_inside == 0)
        atomic_fetch_sub(&threads_inside, 1);
}

/* Waits for the threads inside, but not for long work. */
static void at_exit(void)
{
    enum { MILLISECONDS = 2000 };
    const struct timespec millisecond = {.tv_nsec = 1000000};

    exiting_thread = pthread_self();
    atomic_store(&exiting, true);
    for (int i = 0; i < MILLISECONDS && atomic_load(&threads_inside) > 0 && !atomic_load(&forked); i++)
        (void)nanosleep(&millisecond, NULL);
}

void cuda_wait_at_exit(void)
{
    (void)atexit(at_exit);
}

static void after_fork(void)
{
    atomic_store(&forked, true);
}

/* Finds the driver calls that restore a context, and ask for one; the runtime's cudaSetDevice would create one. */
static bool load_driver_entry_points(void)
{
    enum cudaDriverEntryPointQueryResult found;
    void **get = (void **)&get_context, **set = (void **)&set_context, **state = (void **)&get_context_state;

#if CUDART_VERSION >= 12050
    (void)cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", get, 12000, cudaEnableDefault, &found);
    (void)cudaGetDriverEntryPointByVersion("cuCtxSetCurrent", set, 12000, cudaEnableDefault, &found);
    (void)cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", state, 12000, cudaEnableDefault, &found);
#else
    (void)cudaGetDriverEntryPoint("cuCtxGetCurrent", get, cudaEnableDefault, &found);
    (void)cudaGetDriverEntryPoint("cuCtxSetCurrent", set, cudaEnableDefault, &found);
    (void)cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", state, cudaEnableDefault, &found);
#endif
    return *get != NULL && *set != NULL && *state != NULL;
}

bool gpu_has_context(int ordinal)
{
    unsigned flags = 0;
    int active = 1;

    return get_context_state(ordinal, &flags, &active) != CUDA_SUCCESS || active;
}

/* Writes the reason why there is no device, and the remedy, into no_gpu_reason. */
static void set_no_gpu_reason(cudaError_t code, int driver)
{
    int runtime = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        snprintf(no_gpu_reason, sizeof no_gpu_reason,
                 "no NVIDIA driver is installed: install one (in a container, pass the GPU through, as by "
                 "`docker run --gpus all`), or use device='cpu'");
    else if (code == cudaErrorInsufficientDriver)
        snprintf(no_gpu_reason, sizeof no_gpu_reason,
                 "the NVIDIA driver supports CUDA %d.%d, this build needs %d.%d: update the driver, build with an "
                 "older toolkit, or use device='cpu'",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else if ((code == cudaErrorNoDevice || code == cudaSuccess) && visible != NULL)
        snprintf(no_gpu_reason, sizeof no_gpu_reason,
                 "the NVIDIA driver shows no GPU: CUDA_VISIBLE_DEVICES is '%.64s'; unset it, or use device='cpu'",
                 visible);
    else if (code == cudaErrorNoDevice || code == cudaSuccess)
        snprintf(no_gpu_reason, sizeof no_gpu_reason,
                 "the NVIDIA driver finds no GPU: see what `nvidia-smi` says, or use device='cpu'");
    else
        snprintf(no_gpu_reason, sizeof no_gpu_reason,
                 "CUDA fails to initialise: %s: %s; see what `nvidia-smi` says, or use device='cpu'",
                 cudaGetErrorName(code), cudaGetErrorString(code));
}

/* Counts the devices. Creates no context on any of them. */
static void initialise(void)
{
    int driver = 0, count = 0;

    (void)pthread_atfork(NULL, NULL, after_fork);
    cudaError_t code = cudaGetDeviceCount(&count);
    cuda_wait_at_exit(); /* once more: what is registered after the CUDA libraries is called before they go */
    (void)cudaDriverGetVersion(&driver);
    if (code == cudaSuccess && count > 0 && !load_driver_entry_points())
        code = cudaErrorSymbolNotFound;
    (void)cudaGetLastError();
    if (code != cudaSuccess || count < 1) {
        set_no_gpu_reason(code, driver);
        return;
    }
    if (count > MAX_GPUS)
        count = MAX_GPUS;
    for (int i = 0; i < count; i++) {
        int l2_bytes = 0, major = 0, minor = 0;

        snprintf(gpus[i].device.name, sizeof gpus[i].device.name, "cuda:%d", i);
        gpus[i].device.ordinal = i;
        gpus[i].device.type = &cuda_type;
        if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) == cudaSuccess &&
            cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i) == cudaSuccess)
            gpus[i].device.capability = 10 * major + minor;
        if (cudaDeviceGetAttribute(&gpus[i].device.multiprocessors, cudaDevAttrMultiProcessorCount, i) !=
            cudaSuccess)
            gpus[i].device.multiprocessors = 1;
        if (cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, i) == cudaSuccess)
            gpus[i].device.l2_bytes = (size_t)l2_bytes;
        pthread_mutex_init(&gpus[i].result_slots.lock, NULL);
        pthread_mutex_init(&gpus[i].workspaces.lock, NULL);
        pthread_mutex_init(&gpus[i].kernel_graphs.lock, NULL);
    }
    gpu_count = count;
}

/* In a forked child the parent's count is kept, so that GPU work fails there and does not move to the CPU. */
int cuda_devices(const char **why)
{
    if (!atomic_load(&forked)) {
        enter_cuda();
        (void)pthread_once(&started, initialise);
        leave_cuda();
    }
    if (why != NULL)
        *why = gpu_count > 0 ? NULL : no_gpu_reason;
    return gpu_count;
}

/* NULL if there is no such device. */
struct device *cuda_device(int ordinal)
{
    return ordinal >= 0 && ordinal < cuda_devices(NULL) ? &gpus[ordinal].device : NULL;
}

/* Makes the device current, unless it is lost or the process is a forked child. If true, call gpu_restore_context
 * later. */
bool gpu_make_current(struct device *device, struct saved_context *saved, struct failure *failure)
{
    struct gpu *gpu = &gpus[device->ordinal];
    CUcontext current = NULL;

    *saved = (struct saved_context){NULL, false};
    if (atomic_load(&forked)) {
        failure_set(failure, FAILURE_CUDA, "%s", FORKED_MESSAGE);
        failure->code = cudaErrorInitializationError;
        failure->fatal = true;
        snprintf(failure->name, sizeof failure->name, "cudaErrorInitializationError");
        return false;
    }
    if (atomic_load(&gpu->lost)) {
        *failure = gpu->failure;
        return false;
    }
    enter_cuda();
    (void)get_context(&saved->context);
    if (saved->context != NULL && saved->context == atomic_load(&gpu->context))
        return true;
    if (!CHECK(cudaSetDevice(device->ordinal))) {
        leave_cuda();
        return false;
    }
    (void)get_context(&current);
    atomic_store(&gpu->context, current);
    /* a thread without a context may keep cuda:0, the default of every library */
    saved->changed = current != saved->context && (saved->context != NULL || device->ordinal != 0);
    return true;
}

void gpu_restore_context(const struct saved_context *saved)
{
    if (saved->changed)
        (void)set_context(saved->context);
    leave_cuda();
}

/* Also true for the default stream while another one is captured. False after any other error, such as that of a
 * lost device: the next use of the stream reports it. */
bool gpu_is_capturing(device_stream stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t code = cudaStreamIsCapturing(stream, &status);

    if (code == cudaSuccess)
        return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();
    return code == cudaErrorStreamCaptureImplicit;
}

static bool cuda_copy(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                      struct failure *failure)
{
    struct saved_context saved;

    if (bytes == 0)
        return true;
    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    gpu_restore_context(&saved);
    return ok;
}

static bool cuda_fill(struct device *device, void *to, int byte, size_t bytes, device_stream stream,
                      struct failure *failure)
{
    struct saved_context saved;

    if (bytes == 0)
        return true;
    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaMemsetAsync(to, byte, bytes, stream));
    gpu_restore_context(&saved);
    return ok;
}

/* The kernel was not compiled, or not for this GPU. */
static void set_kernel_missing(struct device *device, const struct kernel_row *row, struct failure *failure)
{
    const char *op = op_names[row->op];
    const int needs = (int)row->needs, capability = device->capability;

    if (row->needs == HOST)
        failure_set(failure, FAILURE_KERNEL, "kernel '%s' of %s runs on the host only: use device='cpu'",
                    row->name, op);
    else if (row->needs == SM_90A ? capability == needs : capability >= needs)
        failure_set(failure, FAILURE_KERNEL,
                    "kernel '%s' of %s is not in this build for %s, an sm_%d: smemkit was built for %s. "
                    "To add a GPU, install it again with SMEMKIT_ARCHS",
                    row->name, op, device->name, capability, SMEMKIT_BUILD_ARCHS);
    else
        failure_set(failure, FAILURE_KERNEL, "kernel '%s' of %s is not in this build for %s: it needs sm_%d%s",
                    row->name, op, device->name, needs, row->needs == SM_90A ? "a" : "");
}

/* True once the kernel is enqueued; errors during its execution are reported by later calls. */
static bool cuda_launch(struct device *device, const struct kernel_row *row, const void *args,
                        device_stream stream, struct failure *failure)
{
    struct saved_context saved;
    char call[128];

    if (cuda_launchers[row->index] == NULL) {
        set_kernel_missing(device, row, failure);
        return false;
    }
    if (smemkit_launch_failure(row->name) != cudaSuccess) { /* for tests */
        failure_set(failure, smemkit_last_error(1) == cudaErrorUnknown ? FAILURE_INTERRUPTED : FAILURE_KERNEL,
                    "%s", smemkit_last_message());
        return false;
    }
    if (!gpu_make_current(device, &saved, failure))
        return false;
    launch_counted();
    cudaError_t code = (cudaError_t)cuda_launchers[row->index](args, stream);
    bool ok = code == cudaSuccess;
    failure->ran = true; /* perhaps the first of several kernels */
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) {
        (void)cudaGetLastError();
        set_kernel_missing(device, row, failure);
    } else if (!ok) {
        snprintf(call, sizeof call, "launch of kernel '%s' of %s", row->name, op_names[row->op]);
        ok = gpu_check(device, code, call, failure);
    }
    gpu_restore_context(&saved);
    return ok;
}

static const struct device_type cuda_type = {
    .allocate = cuda_allocate,
    .release = cuda_release,
    .upload_begin = cuda_upload_begin,
    .upload_end = cuda_upload_end,
    .download_begin = cuda_download_begin,
    .download_end = cuda_download_end,
    .prefault = cuda_prefault,
    .zeroed_workspace = cuda_zeroed_workspace,
    .allocate_result_slot = cuda_allocate_result_slot,
    .release_result_slot = cuda_release_result_slot,
    .read_result_slot = cuda_read_result_slot,
    .properties = cuda_properties,
    .memory_stats = cuda_memory_stats,
    .empty_cache = cuda_empty_cache,
    .available_bytes = cuda_available_bytes,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .launch = cuda_launch,
    .synchronize_stream = cuda_synchronize_stream,
    .synchronize_device = cuda_synchronize_device,
    .is_capturing = cuda_is_capturing,
    .stream_wait_stream = cuda_stream_wait_stream,
    .create_stream = cuda_create_stream,
    .destroy_stream = cuda_destroy_stream,
    .second_stream = cuda_second_stream,
    .query_stream = cuda_query_stream,
    .stream_wait_event = cuda_stream_wait_event,
    .record_new_event = cuda_record_new_event,
    .record_event = cuda_record_event,
    .query_event = cuda_query_event,
    .synchronize_event = cuda_synchronize_event,
    .seconds_between = cuda_seconds_between,
    .destroy_event = cuda_destroy_event,
};

bool cuda_device_of_pointer(const void *pointer, struct device **device, struct failure *failure)
{
    struct cudaPointerAttributes attributes = {0};
    struct saved_context saved;

    *device = NULL;
    if (!gpu_is_forked() && cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess &&
        attributes.type != cudaMemoryTypeUnregistered)
        *device = cuda_device(attributes.device);
    if (*device == NULL && cuda_device(0) != NULL) { /* the device may be lost, or this process a fork */
        if (!gpu_make_current(cuda_device(0), &saved, failure))
            return false;
        gpu_restore_context(&saved);
    }
    (void)cudaGetLastError();
    if (*device == NULL)
        failure_set(failure, FAILURE_CUDA, "%p is not memory of a CUDA device", pointer);
    return *device != NULL;
}
