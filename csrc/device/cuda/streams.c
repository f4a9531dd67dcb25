/* Waiting, streams and events. */
#include "gpu.h"

/* Querying or synchronising a stream under capture would end the capture. True if it is not captured. */
static bool check_not_captured(device_stream stream, struct failure *failure)
{
    if (!gpu_is_capturing(stream))
        return true;
    failure_set(failure, FAILURE_KERNEL,
                "a stream under graph capture has done nothing yet: it can be asked, and waited for, once the "
                "capture has ended");
    return false;
}

bool cuda_synchronize_stream(struct device *device, device_stream stream, struct failure *failure)
{
    struct visit visit;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    bool ok = check_not_captured(stream, failure) && CHECK(cudaStreamSynchronize(stream));
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_is_capturing(struct device *device, device_stream stream)
{
    struct visit visit;
    struct failure ignored;

    if (!gpu_make_current(device, &visit, &ignored))
        return false;
    const bool capturing = gpu_is_capturing(stream);
    gpu_restore_context(&visit);
    return capturing;
}

bool cuda_synchronize_device(struct device *device, struct failure *failure)
{
    struct visit visit;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaDeviceSynchronize());
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_record_new_event(struct device *device, device_stream stream, device_event *mark,
                           struct failure *failure)
{
    struct visit visit;
    cudaEvent_t event = NULL;

    *mark = NULL;
    if (!gpu_make_current(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaEventCreate(&event)) && CHECK(cudaEventRecord(event, stream));
    if (ok)
        *mark = event;
    else if (event != NULL)
        (void)cudaEventDestroy(event);
    gpu_restore_context(&visit);
    return ok;
}

bool gpu_stream_wait_stream(struct device *device, cudaStream_t later, cudaStream_t earlier,
                            struct failure *failure)
{
    cudaEvent_t event = NULL;
    const bool ok = CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) &&
                    CHECK(cudaEventRecord(event, earlier)) && CHECK(cudaStreamWaitEvent(later, event, 0));

    if (event != NULL)
        (void)cudaEventDestroy(event); /* CUDA keeps it while something waits for it */
    return ok;
}

bool cuda_stream_wait_stream(struct device *device, device_stream later, device_stream earlier,
                             struct failure *failure)
{
    struct visit visit;

    if (later == earlier)
        return true;
    if (!gpu_make_current(device, &visit, failure))
        return false;
    const bool ok = gpu_is_capturing(later) || gpu_is_capturing(earlier) ||
                    gpu_stream_wait_stream(device, later, earlier, failure);
    gpu_restore_context(&visit);
    return ok;
}

/* cudaErrorNotReady is not an error. */
static bool check_query(struct device *device, cudaError_t code, const char *call, bool *done,
                        struct failure *failure)
{
    *done = code == cudaSuccess;
    if (code != cudaErrorNotReady)
        return gpu_check(device, code, call, failure);
    (void)cudaGetLastError();
    return true;
}

bool cuda_query_stream(struct device *device, device_stream stream, bool *done, struct failure *failure)
{
    struct visit visit;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    bool ok = check_not_captured(stream, failure) &&
              check_query(device, cudaStreamQuery(stream), "cudaStreamQuery(stream)", done, failure);
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_stream_wait_event(struct device *device, device_stream stream, device_event event,
                            struct failure *failure)
{
    struct visit visit;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaStreamWaitEvent(stream, event, 0));
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_record_event(struct device *device, device_stream stream, device_event event, struct failure *failure)
{
    struct visit visit;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaEventRecord(event, stream));
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_query_event(struct device *device, device_event event, bool *done, struct failure *failure)
{
    struct visit visit;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    bool ok = check_query(device, cudaEventQuery(event), "cudaEventQuery(event)", done, failure);
    gpu_restore_capture_mode(mode);
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_synchronize_event(struct device *device, device_event event, struct failure *failure)
{
    struct visit visit;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    bool ok = CHECK(cudaEventSynchronize(event));
    gpu_restore_capture_mode(mode);
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_seconds_between(struct device *device, device_event earlier, device_event later, double *seconds,
                          struct failure *failure)
{
    struct visit visit;
    float milliseconds = 0;

    if (!gpu_make_current(device, &visit, failure))
        return false;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    cudaError_t code = cudaErrorNotReady;
    bool ok = true;
    while (ok && code == cudaErrorNotReady) { /* another thread may record them again in between */
        ok = CHECK(cudaEventSynchronize(earlier)) && CHECK(cudaEventSynchronize(later));
        code = ok ? cudaEventElapsedTime(&milliseconds, earlier, later) : code;
        if (code == cudaErrorNotReady)
            (void)cudaGetLastError();
    }
    ok = ok && gpu_check(device, code, "cudaEventElapsedTime(&milliseconds, earlier, later)", failure);
    gpu_restore_capture_mode(mode);
    *seconds = milliseconds * 1e-3;
    gpu_restore_context(&visit);
    return ok;
}

void cuda_destroy_event(struct device *device, device_event event)
{
    struct visit visit;
    struct failure ignored, *failure = &ignored;

    if (event == NULL || !gpu_make_current(device, &visit, failure))
        return;
    (void)CHECK(cudaEventDestroy(event));
    gpu_restore_context(&visit);
}

/* A non-blocking stream, not synchronised with the default stream. */
bool cuda_stream_create(struct device *device, device_stream *made, struct failure *failure)
{
    struct visit visit;
    cudaStream_t stream = NULL;

    *made = NULL;
    if (!gpu_make_current(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (ok)
        *made = stream;
    gpu_restore_context(&visit);
    return ok;
}

/* Returns at once; enqueued work still runs. `stream` may be NULL. No memory may be released on it afterwards. */
void cuda_stream_destroy(struct device *device, device_stream stream)
{
    struct visit visit;
    struct failure ignored, *failure = &ignored;

    if (stream == NULL || !gpu_make_current(device, &visit, failure))
        return;
    cuda_run_deferred_frees(device);
    (void)CHECK(cudaStreamDestroy(stream));
    gpu_restore_context(&visit);
}

device_stream cuda_second_stream(struct device *device)
{
    _Atomic(cudaStream_t) *place = &gpus[device->ordinal].second_stream;
    cudaStream_t known = atomic_load(place);
    struct failure ignored = {0};
    device_stream made;

    if (known || !cuda_stream_create(device, &made, &ignored) ||
        atomic_compare_exchange_strong(place, &known, made))
        return atomic_load(place);
    cuda_stream_destroy(device, made); /* another thread was first */
    return known;
}
