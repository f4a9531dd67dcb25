/* Waiting, streams and events. */
#include "gpu.h"

/* Querying or synchronising a stream under capture would end the capture. True if it is not captured. */
static bool check_not_captured(device_stream stream, struct failure *failure)
{
    if (!gpu_is_capturing(stream))
        return true;
    failure_set(failure, FAILURE_KERNEL,
                "the stream is under graph capture: query or synchronise it after the capture "
                "has ended");
    return false;
}

bool cuda_synchronize_stream(struct device *device, device_stream stream, struct failure *failure)
{
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = check_not_captured(stream, failure) && CHECK(cudaStreamSynchronize(stream));
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_is_capturing(struct device *device, device_stream stream)
{
    struct saved_context saved;
    struct failure ignored;

    if (!gpu_make_current(device, &saved, &ignored))
        return false;
    const bool capturing = gpu_is_capturing(stream);
    gpu_restore_context(&saved);
    return capturing;
}

bool cuda_synchronize_device(struct device *device, struct failure *failure)
{
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaDeviceSynchronize());
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_record_new_event(struct device *device, device_stream stream, device_event *created,
                           struct failure *failure)
{
    struct saved_context saved;
    cudaEvent_t event = NULL;

    *created = NULL;
    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaEventCreate(&event)) && CHECK(cudaEventRecord(event, stream));
    if (ok)
        *created = event;
    else if (event != NULL)
        (void)cudaEventDestroy(event);
    gpu_restore_context(&saved);
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
    struct saved_context saved;

    if (later == earlier)
        return true;
    if (!gpu_make_current(device, &saved, failure))
        return false;
    const bool ok = gpu_is_capturing(later) || gpu_is_capturing(earlier) ||
                    gpu_stream_wait_stream(device, later, earlier, failure);
    gpu_restore_context(&saved);
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
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = check_not_captured(stream, failure) &&
              check_query(device, cudaStreamQuery(stream), "cudaStreamQuery(stream)", done, failure);
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_stream_wait_event(struct device *device, device_stream stream, device_event event,
                            struct failure *failure)
{
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaStreamWaitEvent(stream, event, 0));
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_record_event(struct device *device, device_stream stream, device_event event, struct failure *failure)
{
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaEventRecord(event, stream));
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_query_event(struct device *device, device_event event, bool *done, struct failure *failure)
{
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    bool ok = check_query(device, cudaEventQuery(event), "cudaEventQuery(event)", done, failure);
    gpu_restore_capture_mode(mode);
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_synchronize_event(struct device *device, device_event event, struct failure *failure)
{
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    bool ok = CHECK(cudaEventSynchronize(event));
    gpu_restore_capture_mode(mode);
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_seconds_between(struct device *device, device_event earlier, device_event later, double *seconds,
                          struct failure *failure)
{
    struct saved_context saved;
    float milliseconds = 0;

    if (!gpu_make_current(device, &saved, failure))
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
    gpu_restore_context(&saved);
    return ok;
}

void cuda_destroy_event(struct device *device, device_event event)
{
    struct saved_context saved;
    struct failure ignored, *failure = &ignored;

    if (event == NULL || !gpu_make_current(device, &saved, failure))
        return;
    (void)CHECK(cudaEventDestroy(event));
    gpu_restore_context(&saved);
}

bool cuda_create_stream(struct device *device, device_stream *created, struct failure *failure)
{
    struct saved_context saved;
    cudaStream_t stream = NULL;

    *created = NULL;
    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (ok)
        *created = stream;
    gpu_restore_context(&saved);
    return ok;
}

void cuda_destroy_stream(struct device *device, device_stream stream)
{
    struct saved_context saved;
    struct failure ignored, *failure = &ignored;

    if (stream == NULL || !gpu_make_current(device, &saved, failure))
        return;
    cuda_run_deferred_frees(device);
    (void)CHECK(cudaStreamDestroy(stream));
    gpu_restore_context(&saved);
}

device_stream cuda_second_stream(struct device *device)
{
    _Atomic(cudaStream_t) *shared_stream = &gpus[device->ordinal].second_stream;
    cudaStream_t existing = atomic_load(shared_stream);
    struct failure ignored = {0};
    device_stream created;

    if (existing || !cuda_create_stream(device, &created, &ignored) ||
        atomic_compare_exchange_strong(shared_stream, &existing, created))
        return atomic_load(shared_stream);
    cuda_destroy_stream(device, created); /* another thread was first */
    return existing;
}
