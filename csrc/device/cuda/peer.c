/* Copies between the memories of two CUDA devices.
 *
 * 386 GB/s between two H100 with NVLink, whose pools give each other access when they are created (share_pool).
 * Without access the driver takes copies through a buffer of its own, at 37 GB/s. Two reports against access:
 * given while other threads use the pool, it made their work fail with "unspecified launch failure" (CUDA 13.0, on
 * H100); and on GPUs of compute capability 7.5 copies wrote nothing, in silence (CUDA.jl, pull request 3112). On
 * four H100, 45,000 copies by 8 threads were all correct, while their pools grew and were trimmed.
 */
#include "gpu.h"

/* Enqueues the copy alone. */
static bool enqueue(const struct device_span *to, const struct device_span *from, size_t bytes,
                    struct failure *failure)
{
    struct device *const device = to->device;
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(
        cudaMemcpyPeerAsync(to->memory, device->ordinal, from->memory, from->device->ordinal, bytes, to->stream));
    gpu_restore_context(&saved);
    return ok;
}

/* Makes later work on the stream of `later` wait for the work that is on the other one now. */
static bool order(const struct device_span *later, const struct device_span *earlier, struct failure *failure)
{
    device_event event = NULL;

    bool ok = cuda_record_new_event(earlier->device, earlier->stream, &event, failure) &&
              cuda_stream_wait_event(later->device, later->stream, event, failure);
    cuda_destroy_event(earlier->device, event);
    return ok;
}

bool cuda_copy_between(const struct device_span *to, const struct device_span *from, size_t bytes, bool wait,
                       struct failure *failure)
{
    struct failure ignored = {0};

    if (bytes == 0)
        return true;
    bool ok = order(to, from, failure) && enqueue(to, from, bytes, failure) &&
              (wait ? cuda_synchronize_stream(to->device, to->stream, failure) : order(from, to, failure));
    if (!ok) /* the copy may be in progress, and the memory of both is released next */
        (void)cuda_synchronize_stream(to->device, to->stream, &ignored);
    return ok;
}
