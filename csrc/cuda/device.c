/* The CUDA devices: csrc/device.h on the CUDA runtime, which is linked statically.
 *
 * Two things hold for every function. It leaves the calling thread as it found it: `enter` makes the device
 * current, `leave` gives back the context that PyTorch or CuPy had chosen. And every call of the runtime stands
 * in CHECK, which turns its error into a failure that quotes the call; an error that destroys the context marks
 * the device lost, and from then on `enter` refuses it with the message of that first error.
 *
 * Memory comes from the device's default pool in the order of a stream. The pool keeps what is released, so that
 * an allocation seldom costs more than a microsecond, and gives it back when the device runs short.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"

#define MAX_GPUS 64
#define FORKED   "CUDA was initialised before fork(); use the 'spawn' start method, or device='cpu'"

/* Memory whose release waits for the end of a capture. */
struct deferred {
    struct deferred *next;
    void *memory;
    device_stream stream;
};

struct gpu {
    struct device device;
    _Atomic(CUcontext) context; /* the primary context, once it has been seen */
    atomic_bool pool_ready;     /* the pool keeps what is released */
    atomic_int captures;        /* of cuda_graphs, going on now */
    _Atomic(struct deferred *) deferred;
    atomic_bool lost; /* set after `failure`, which never changes again */
    struct failure failure;
};

/* What the process shares, as it shares the driver. `initialise` writes all of it once, under `started`; of a
 * struct gpu the atomics change later, and `failure` under `losing`. */
static pthread_once_t started = PTHREAD_ONCE_INIT;
static pthread_mutex_t losing = PTHREAD_MUTEX_INITIALIZER;
static struct gpu gpus[MAX_GPUS];
static int gpu_count;
static char no_gpu[320] = FORKED; /* stands only if a fork cut `initialise` short */
static atomic_bool forked;        /* in a child whose parent had begun to initialise: CUDA may hang there */
static CUresult (*get_context)(CUcontext *);
static CUresult (*set_context)(CUcontext);

static const struct device_type cuda_type;

/* ---- Failures ---- */

/* True for the errors after which the context is gone for good. */
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

/* Marks the device lost; the first failure is the one that stays. */
static void lose(struct gpu *gpu, const struct failure *failure)
{
    pthread_mutex_lock(&losing);
    if (!atomic_load(&gpu->lost)) {
        gpu->failure = *failure;
        atomic_store(&gpu->lost, true);
    }
    pthread_mutex_unlock(&losing);
}

/* True where code is cudaSuccess; else fills failure, and clears the error unless it sticks to the context. */
static bool check(struct device *device, cudaError_t code, const char *call, struct failure *failure)
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
        lose(&gpus[device->ordinal], failure);
    return false;
}

/* Where `device` and `failure` are in scope. */
#define CHECK(call) check(device, (call), #call, failure)

/* ---- The devices ---- */

static void after_fork(void)
{
    atomic_store(&forked, true);
}

/* The two driver calls by which `leave` restores a context; the runtime's cudaSetDevice would create one. */
static bool find_driver_calls(void)
{
    enum cudaDriverEntryPointQueryResult found;
    void **get = (void **)&get_context, **set = (void **)&set_context;

#if CUDART_VERSION >= 12050
    (void)cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", get, 12000, cudaEnableDefault, &found);
    (void)cudaGetDriverEntryPointByVersion("cuCtxSetCurrent", set, 12000, cudaEnableDefault, &found);
#else
    (void)cudaGetDriverEntryPoint("cuCtxGetCurrent", get, cudaEnableDefault, &found);
    (void)cudaGetDriverEntryPoint("cuCtxSetCurrent", set, cudaEnableDefault, &found);
#endif
    return *get != NULL && *set != NULL;
}

/* Writes into no_gpu why there is no device, and what would help. */
static void explain(cudaError_t code, int driver)
{
    int runtime = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        snprintf(no_gpu, sizeof no_gpu,
                 "no NVIDIA driver is installed: install one (in a container, pass the GPU through, as by "
                 "`docker run --gpus all`), or use device='cpu'");
    else if (code == cudaErrorInsufficientDriver)
        snprintf(no_gpu, sizeof no_gpu,
                 "the NVIDIA driver supports CUDA %d.%d, this build needs %d.%d: update the driver, build with an "
                 "older toolkit, or use device='cpu'",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else if ((code == cudaErrorNoDevice || code == cudaSuccess) && visible != NULL)
        snprintf(no_gpu, sizeof no_gpu,
                 "the NVIDIA driver shows no GPU: CUDA_VISIBLE_DEVICES is '%.64s'; unset it, or use device='cpu'",
                 visible);
    else if (code == cudaErrorNoDevice || code == cudaSuccess)
        snprintf(no_gpu, sizeof no_gpu,
                 "the NVIDIA driver finds no GPU: see what `nvidia-smi` says, or use device='cpu'");
    else
        snprintf(no_gpu, sizeof no_gpu,
                 "CUDA does not start: %s: %s; see what `nvidia-smi` says, or use device='cpu'",
                 cudaGetErrorName(code), cudaGetErrorString(code));
}

/* Counts the devices. Creates no context on any of them. */
static void initialise(void)
{
    int driver = 0, count = 0;

    (void)pthread_atfork(NULL, NULL, after_fork);
    cudaError_t code = cudaGetDeviceCount(&count);
    (void)cudaDriverGetVersion(&driver);
    if (code == cudaSuccess && count > 0 && !find_driver_calls())
        code = cudaErrorSymbolNotFound;
    (void)cudaGetLastError();
    if (code != cudaSuccess || count < 1) {
        explain(code, driver);
        return;
    }
    if (count > MAX_GPUS)
        count = MAX_GPUS;
    for (int i = 0; i < count; i++) {
        snprintf(gpus[i].device.name, sizeof gpus[i].device.name, "cuda:%d", i);
        gpus[i].device.ordinal = i;
        gpus[i].device.type = &cuda_type;
    }
    gpu_count = count;
}

/* In a forked child the parent's count stands, so that work on a GPU fails there rather than move to the CPU. */
int cuda_devices(const char **why)
{
    if (!atomic_load(&forked))
        (void)pthread_once(&started, initialise);
    if (why != NULL)
        *why = gpu_count > 0 ? NULL : no_gpu;
    return gpu_count;
}

/* NULL where there is no such device. */
struct device *cuda_device(int ordinal)
{
    return ordinal >= 0 && ordinal < cuda_devices(NULL) ? &gpus[ordinal].device : NULL;
}

/* ---- Making a device current ---- */

/* What `leave` needs to put the thread back where it was. */
struct visit {
    CUcontext before;
    bool moved;
};

/* Makes the device current, unless it is lost or the process is a forked child. After true, call `leave`. */
static bool enter(struct device *device, struct visit *visit, struct failure *failure)
{
    struct gpu *gpu = &gpus[device->ordinal];
    CUcontext now = NULL;

    *visit = (struct visit){NULL, false};
    if (atomic_load(&forked)) {
        failure_set(failure, FAILURE_CUDA, "%s", FORKED);
        failure->code = cudaErrorInitializationError;
        failure->fatal = true;
        snprintf(failure->name, sizeof failure->name, "cudaErrorInitializationError");
        return false;
    }
    if (atomic_load(&gpu->lost)) {
        *failure = gpu->failure;
        return false;
    }
    (void)get_context(&visit->before);
    if (visit->before != NULL && visit->before == atomic_load(&gpu->context))
        return true;
    if (!CHECK(cudaSetDevice(device->ordinal)))
        return false;
    (void)get_context(&now);
    atomic_store(&gpu->context, now);
    /* a thread that had none may keep cuda:0, which is what any library takes there by default */
    visit->moved = now != visit->before && (visit->before != NULL || device->ordinal != 0);
    return true;
}

static void leave(const struct visit *visit)
{
    if (visit->moved)
        (void)set_context(visit->before);
}

/* ---- Memory ---- */

/* Makes the default pool keep what is released: at first use, and again at no cost. */
static bool keep_pool(struct device *device, struct failure *failure)
{
    struct gpu *gpu = &gpus[device->ordinal];
    cudaMemPool_t pool = NULL;
    uint64_t keep = UINT64_MAX;

    if (atomic_load(&gpu->pool_ready))
        return true;
    if (!CHECK(cudaDeviceGetDefaultMemPool(&pool, device->ordinal)) ||
        !CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep)))
        return false;
    atomic_store(&gpu->pool_ready, true);
    return true;
}

/* Gives what the pool holds and nobody uses back to the device. */
static bool trim_pool(struct device *device, struct failure *failure)
{
    cudaMemPool_t pool = NULL;
    return CHECK(cudaDeviceSynchronize()) && CHECK(cudaDeviceGetDefaultMemPool(&pool, device->ordinal)) &&
           CHECK(cudaMemPoolTrimTo(pool, 0));
}

/* Also true where nobody can tell: for the default stream while another one is captured. */
static bool is_capturing(device_stream stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) == cudaSuccess)
        return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();
    return true;
}

static void set_out_of_memory(struct device *device, size_t bytes, struct failure *failure)
{
    size_t available = 0, total = 0;

    (void)cudaMemGetInfo(&available, &total);
    (void)cudaGetLastError();
    failure_set(failure, FAILURE_MEMORY, "out of memory on %s: %zu bytes asked, %zu of %zu bytes free",
                device->name, bytes, available, total);
    failure->code = cudaErrorMemoryAllocation;
    snprintf(failure->name, sizeof failure->name, "cudaErrorMemoryAllocation");
}

/* True where a wait for the whole device would break nobody's capture that we know of. */
static bool may_wait(struct device *device, device_stream stream)
{
    return atomic_load(&gpus[device->ordinal].captures) == 0 && !is_capturing(stream);
}

static void defer(struct gpu *gpu, struct deferred *entry)
{
    entry->next = atomic_load(&gpu->deferred);
    while (!atomic_compare_exchange_weak(&gpu->deferred, &entry->next, entry))
        ;
}

/* Frees what was deferred, but for streams that are still captured. The device is current. */
static void free_deferred(struct device *device)
{
    struct gpu *gpu = &gpus[device->ordinal];
    struct failure unheard, *failure = &unheard;
    struct deferred *next, *entry = atomic_exchange(&gpu->deferred, NULL);

    for (; entry != NULL; entry = next) {
        next = entry->next;
        if (is_capturing(entry->stream)) {
            defer(gpu, entry);
        } else {
            (void)CHECK(cudaFreeAsync(entry->memory, entry->stream));
            free(entry);
        }
    }
}

/* Where the device runs short, the pool gives back what it holds before the second and last try. */
static bool cuda_allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                          struct failure *failure)
{
    struct visit visit;
    bool ok = false;

    *memory = NULL;
    if (bytes == 0)
        return true;
    if (!enter(device, &visit, failure))
        return false;
    if (!keep_pool(device, failure))
        goto done;
    ok = CHECK(cudaMallocAsync(memory, bytes, stream));
    if (ok || failure->kind != FAILURE_MEMORY)
        goto done;
    if (may_wait(device, stream)) {
        free_deferred(device);
        if (!trim_pool(device, failure))
            goto done;
        *failure = (struct failure){0};
        ok = CHECK(cudaMallocAsync(memory, bytes, stream));
    }
    if (!ok && failure->kind == FAILURE_MEMORY)
        set_out_of_memory(device, bytes, failure);
done:
    if (!ok)
        *memory = NULL;
    leave(&visit);
    return ok;
}

/* NULL is fine. On a captured stream CUDA frees only what the capture allocated; the rest is deferred to its end.
 * Nobody could act on a failure; one that is fatal marks the device lost for the next call. */
static void cuda_release(struct device *device, void *memory, device_stream stream)
{
    struct visit visit;
    struct failure unheard, *failure = &unheard;

    if (memory == NULL || !enter(device, &visit, failure))
        return;
    if (atomic_load(&gpus[device->ordinal].deferred) != NULL)
        free_deferred(device);
    if (!CHECK(cudaFreeAsync(memory, stream)) && !failure->fatal && is_capturing(stream)) {
        struct deferred *entry = malloc(sizeof *entry);
        if (entry != NULL) {
            *entry = (struct deferred){NULL, memory, stream};
            defer(&gpus[device->ordinal], entry);
        }
    }
    leave(&visit);
}

/* ---- Copies ---- */

/* True where CUDA knows the memory, as pinned or managed: a copy from there is still under way on return. */
static bool is_registered(const void *memory)
{
    struct cudaPointerAttributes attributes = {0};
    if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess)
        return attributes.type != cudaMemoryTypeUnregistered;
    (void)cudaGetLastError();
    return false;
}

/* On return `from` may change: CUDA has staged pageable memory, and other memory is waited for. */
static bool cuda_copy_in(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                         struct failure *failure)
{
    struct visit visit;

    if (bytes == 0)
        return true;
    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream)) &&
              (!is_registered(from) || CHECK(cudaStreamSynchronize(stream)));
    leave(&visit);
    return ok;
}

/* On return the host can read `to`. */
static bool cuda_copy_out(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                          struct failure *failure)
{
    struct visit visit;

    if (bytes == 0)
        return true;
    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream)) &&
              CHECK(cudaStreamSynchronize(stream));
    leave(&visit);
    return ok;
}

static bool cuda_copy(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                      struct failure *failure)
{
    struct visit visit;

    if (bytes == 0)
        return true;
    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    leave(&visit);
    return ok;
}

static bool cuda_fill(struct device *device, void *to, int byte, size_t bytes, device_stream stream,
                      struct failure *failure)
{
    struct visit visit;

    if (bytes == 0)
        return true;
    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaMemsetAsync(to, byte, bytes, stream));
    leave(&visit);
    return ok;
}

/* ---- Kernels ---- */

/* The kernel was not compiled, or not for this GPU. */
static void set_missing(struct device *device, const struct kernel_row *row, struct failure *failure)
{
    const char *op = op_names[row->op];

    if (row->needs == HOST)
        failure_set(failure, FAILURE_KERNEL, "kernel '%s' of %s runs on the host only: use device='cpu'",
                    row->name, op);
    else if (row->needs == ANY)
        failure_set(failure, FAILURE_KERNEL, "kernel '%s' of %s is not in this build for %s", row->name, op,
                    device->name);
    else
        failure_set(failure, FAILURE_KERNEL, "kernel '%s' of %s is not in this build for %s: it needs sm_%d%s",
                    row->name, op, device->name, (int)row->needs, row->needs == SM_90A ? "a" : "");
}

/* True once the kernel is enqueued; what goes wrong while it runs comes back from a later call. */
static bool cuda_launch(struct device *device, const struct kernel_row *row, const void *args,
                        device_stream stream, struct failure *failure)
{
    struct visit visit;
    char call[128];

    if (cuda_launchers[row->index] == NULL) {
        set_missing(device, row, failure);
        return false;
    }
    if (!enter(device, &visit, failure))
        return false;
    cudaError_t code = (cudaError_t)cuda_launchers[row->index](args, stream);
    bool ok = code == cudaSuccess;
    if (code == cudaErrorNoKernelImageForDevice) {
        (void)cudaGetLastError();
        set_missing(device, row, failure);
    } else if (!ok) {
        snprintf(call, sizeof call, "launch of kernel '%s' of %s", row->name, op_names[row->op]);
        ok = check(device, code, call, failure);
    }
    leave(&visit);
    return ok;
}

/* ---- Waiting, events, streams ---- */

static bool cuda_wait(struct device *device, device_stream stream, struct failure *failure)
{
    struct visit visit;

    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaStreamSynchronize(stream));
    leave(&visit);
    return ok;
}

static bool cuda_wait_all(struct device *device, struct failure *failure)
{
    struct visit visit;

    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaDeviceSynchronize());
    leave(&visit);
    return ok;
}

static bool cuda_mark(struct device *device, device_stream stream, device_event *mark, struct failure *failure)
{
    struct visit visit;
    cudaEvent_t event = NULL;

    *mark = NULL;
    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaEventCreate(&event)) && CHECK(cudaEventRecord(event, stream));
    if (ok)
        *mark = event;
    else if (event != NULL)
        (void)cudaEventDestroy(event);
    leave(&visit);
    return ok;
}

static bool cuda_follow(struct device *device, device_stream later, device_stream earlier, struct failure *failure)
{
    struct visit visit;
    cudaEvent_t event = NULL;

    if (later == earlier)
        return true;
    if (!enter(device, &visit, failure))
        return false;
    bool ok = is_capturing(later) || is_capturing(earlier) ||
              (CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) &&
               CHECK(cudaEventRecord(event, earlier)) && CHECK(cudaStreamWaitEvent(later, event, 0)));
    if (event != NULL)
        (void)cudaEventDestroy(event); /* CUDA keeps it for those who wait */
    leave(&visit);
    return ok;
}

/* Waits for both: on two streams the later one says nothing about the earlier. */
static bool cuda_seconds_between(struct device *device, device_event earlier, device_event later, double *seconds,
                                 struct failure *failure)
{
    struct visit visit;
    float milliseconds = 0;

    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaEventSynchronize(earlier)) && CHECK(cudaEventSynchronize(later)) &&
              CHECK(cudaEventElapsedTime(&milliseconds, earlier, later));
    *seconds = milliseconds * 1e-3;
    leave(&visit);
    return ok;
}

/* NULL is fine. */
static void cuda_drop(struct device *device, device_event event)
{
    struct visit visit;
    struct failure unheard, *failure = &unheard;

    if (event == NULL || !enter(device, &visit, failure))
        return;
    (void)CHECK(cudaEventDestroy(event));
    leave(&visit);
}

/* A stream that does not wait for the default one, nor the default one for it. */
bool cuda_stream_create(struct device *device, device_stream *made, struct failure *failure)
{
    struct visit visit;
    cudaStream_t stream = NULL;

    *made = NULL;
    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (ok)
        *made = stream;
    leave(&visit);
    return ok;
}

/* Returns at once; what is enqueued still runs. NULL is fine. No memory may be released on it afterwards. */
void cuda_stream_destroy(struct device *device, device_stream stream)
{
    struct visit visit;
    struct failure unheard, *failure = &unheard;

    if (stream == NULL || !enter(device, &visit, failure))
        return;
    free_deferred(device);
    (void)CHECK(cudaStreamDestroy(stream));
    leave(&visit);
}

static const struct device_type cuda_type = {
    .allocate = cuda_allocate,
    .release = cuda_release,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .launch = cuda_launch,
    .wait = cuda_wait,
    .wait_all = cuda_wait_all,
    .follow = cuda_follow,
    .mark = cuda_mark,
    .seconds_between = cuda_seconds_between,
    .drop = cuda_drop,
};

/* ---- Properties ---- */

/* Asks by attribute, not by struct cudaDeviceProp: toolkit 13 dropped some of its fields. */
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

bool cuda_properties(struct device *device, struct device_properties *p, struct failure *failure)
{
    struct visit visit;
    struct cudaDeviceProp named;

    *p = (struct device_properties){0};
    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaGetDeviceProperties(&named, device->ordinal)) && read_attributes(device, p, failure) &&
              CHECK(cudaMemGetInfo(&p->free_bytes, &p->memory_bytes)) &&
              CHECK(cudaDriverGetVersion(&p->driver_version)) && CHECK(cudaRuntimeGetVersion(&p->runtime_version));
    if (ok)
        snprintf(p->description, sizeof p->description, "%.*s", (int)sizeof named.name, named.name);
    leave(&visit);
    return ok;
}

/* ---- Graphs, for timing ---- */

/* Made by cuda_capture_begin; its owner destroys it, before the stream, whatever cuda_capture_end said. */
struct cuda_graph {
    struct device *device;
    device_stream stream;
    bool capturing;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t first, second; /* around the captured work */
    void *flush;               /* written before `first`, so that L2 holds nothing else */
};

/* The stream is usable again, whatever the result; what could not be released during the capture is now. */
static cudaError_t end_capture(struct cuda_graph *graph)
{
    cudaError_t code = cudaStreamEndCapture(graph->stream, &graph->graph);
    graph->capturing = false;
    (void)atomic_fetch_sub(&gpus[graph->device->ordinal].captures, 1);
    free_deferred(graph->device);
    return code;
}

/* Ends a capture that failed or is not wanted, so that the stream is usable again; drops what it captured. */
static void drop_capture(struct cuda_graph *graph)
{
    if (graph->capturing)
        (void)end_capture(graph);
    if (graph->exec != NULL)
        (void)cudaGraphExecDestroy(graph->exec);
    if (graph->graph != NULL)
        (void)cudaGraphDestroy(graph->graph);
    graph->exec = NULL;
    graph->graph = NULL;
    (void)cudaGetLastError();
}

/* Prepares what a graph replays with; nothing of it is captured. */
static bool make_events_and_flush(struct cuda_graph *graph, size_t flush_bytes, struct failure *failure)
{
    struct device *device = graph->device;
    return CHECK(cudaEventCreate(&graph->first)) && CHECK(cudaEventCreate(&graph->second)) &&
           cuda_allocate(device, flush_bytes, graph->stream, &graph->flush, failure);
}

/* From here on the stream captures; the flush stands before the first event and so is not timed. */
static bool start_capture(struct cuda_graph *graph, size_t flush_bytes, struct failure *failure)
{
    struct device *device = graph->device;
    cudaStream_t stream = graph->stream;

    if (!CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)))
        return false;
    graph->capturing = true;
    (void)atomic_fetch_add(&gpus[device->ordinal].captures, 1);
    return (flush_bytes == 0 || CHECK(cudaMemsetAsync(graph->flush, 0, flush_bytes, stream))) &&
           CHECK(cudaEventRecordWithFlags(graph->first, stream, cudaEventRecordExternal));
}

/* On true the stream captures and *made is the caller's to end and destroy; on false nothing is left. */
bool cuda_capture_begin(struct device *device, device_stream stream, size_t flush_bytes, struct cuda_graph **made,
                        struct failure *failure)
{
    struct visit visit;

    *made = NULL;
    struct cuda_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) {
        failure_set(failure, FAILURE_MEMORY, "out of memory on the host");
        return false;
    }
    graph->device = device;
    graph->stream = stream;
    bool ok = enter(device, &visit, failure);
    if (ok) {
        ok = make_events_and_flush(graph, flush_bytes, failure) && start_capture(graph, flush_bytes, failure);
        leave(&visit);
    }
    if (ok)
        *made = graph;
    else
        cuda_graph_destroy(graph);
    return ok;
}

/* Brings the graph to the device; what the pool keeps makes room for it, where there is none. */
static bool upload_graph(struct cuda_graph *graph, struct failure *failure)
{
    struct device *device = graph->device;

    if (CHECK(cudaGraphUpload(graph->exec, graph->stream)))
        return true;
    if (failure->kind != FAILURE_MEMORY || !trim_pool(device, failure))
        return false;
    *failure = (struct failure){0};
    return CHECK(cudaGraphUpload(graph->exec, graph->stream));
}

/* Ends the capture, also to abandon it. On false the graph cannot be replayed, only destroyed. */
bool cuda_capture_end(struct cuda_graph *graph, struct failure *failure)
{
    struct visit visit;
    struct device *device = graph->device;
    cudaStream_t stream = graph->stream;

    if (!enter(device, &visit, failure))
        return false;
    /* memory that the captured work allocated and did not free is freed at the next replay */
    bool ok = CHECK(cudaEventRecordWithFlags(graph->second, stream, cudaEventRecordExternal)) &&
              check(device, end_capture(graph), "cudaStreamEndCapture(stream, &graph->graph)", failure) &&
              CHECK(cudaGraphInstantiateWithFlags(&graph->exec, graph->graph,
                                                  cudaGraphInstantiateFlagAutoFreeOnLaunch)) &&
              upload_graph(graph, failure);
    if (!ok)
        drop_capture(graph);
    leave(&visit);
    return ok;
}

/* Runs the graph once and waits; the seconds are those between its two events. */
bool cuda_graph_replay(struct cuda_graph *graph, double *seconds, struct failure *failure)
{
    struct visit visit;
    struct device *device = graph->device;
    float milliseconds = 0;

    if (!enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaGraphLaunch(graph->exec, graph->stream)) && CHECK(cudaStreamSynchronize(graph->stream)) &&
              CHECK(cudaEventElapsedTime(&milliseconds, graph->first, graph->second));
    *seconds = milliseconds * 1e-3;
    leave(&visit);
    return ok;
}

/* Also abandons a capture that was never ended. NULL is fine. */
void cuda_graph_destroy(struct cuda_graph *graph)
{
    struct visit visit;
    struct failure unheard;

    if (graph == NULL)
        return;
    if (enter(graph->device, &visit, &unheard)) {
        drop_capture(graph);
        cuda_release(graph->device, graph->flush, graph->stream);
        if (graph->second != NULL)
            (void)cudaEventDestroy(graph->second);
        if (graph->first != NULL)
            (void)cudaEventDestroy(graph->first);
        leave(&visit);
    }
    free(graph);
}
