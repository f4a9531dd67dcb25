/* Copies between the memories of two CUDA devices: over NVLink or PCIe where one reaches the other's memory,
 * otherwise the driver takes them through the host. */
#include "gpu.h"

/* whether the first device has been given access to the second one's pool, or can have none */
static atomic_bool prepared[MAX_GPUS][MAX_GPUS];

/* Lets `device` access the memory pool of `other`, if there is a link. A failure means that there is none. */
static void give_access(struct device *device, struct device *other)
{
    const struct cudaMemAccessDesc access = {.location = {cudaMemLocationTypeDevice, device->ordinal},
                                             .flags = cudaMemAccessFlagsProtReadWrite};
    struct failure ignored = {0}, *failure = &ignored;
    struct saved_context saved;
    cudaMemPool_t pool;
    int possible = false;

    if (atomic_load(&prepared[device->ordinal][other->ordinal]) || !gpu_make_current(other, &saved, failure))
        return;
    pool = gpu_memory_pool(other, failure);
    if (pool != NULL && CHECK(cudaDeviceCanAccessPeer(&possible, device->ordinal, other->ordinal)) && possible)
        (void)CHECK(cudaMemPoolSetAccess(pool, &access, 1));
    atomic_store(&prepared[device->ordinal][other->ordinal], true);
    gpu_restore_context(&saved);
}

/* Enqueues the copy alone. */
static bool enqueue(const struct device_span *to, const struct device_span *from, size_t bytes,
                    struct failure *failure)
{
    struct device *const device = to->device;
    struct saved_context saved;

    give_access(device, from->device);
    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(
        cudaMemcpyPeerAsync(to->memory, device->ordinal, from->memory, from->device->ordinal, bytes, to->stream));
    gpu_restore_context(&saved);
    return ok;
}

/* Makes later work on `from` wait for the copy. */
static bool order_after_copy(const struct device_span *to, const struct device_span *from, struct failure *failure)
{
    device_event copied = NULL;

    bool ok = cuda_record_new_event(to->device, to->stream, &copied, failure) &&
              cuda_stream_wait_event(from->device, from->stream, copied, failure);
    cuda_destroy_event(to->device, copied);
    return ok;
}

bool cuda_copy_between(const struct device_span *to, const struct device_span *from, size_t bytes, bool blocking,
                       struct failure *failure)
{
    device_event written = NULL;

    if (bytes == 0)
        return true;
    bool ok = cuda_record_new_event(from->device, from->stream, &written, failure) &&
              cuda_stream_wait_event(to->device, to->stream, written, failure) &&
              enqueue(to, from, bytes, failure) &&
              (blocking ? cuda_synchronize_stream(to->device, to->stream, failure)
                        : order_after_copy(to, from, failure));
    cuda_destroy_event(from->device, written);
    return ok;
}
