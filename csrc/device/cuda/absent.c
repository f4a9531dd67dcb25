/* In a build without CUDA: no CUDA device, and the reason. */
#ifndef SMEMKIT_CUDA

#include "device/device.h"

static const char not_built[] =
    "this build of smemkit has no CUDA: nvcc or an NVIDIA driver was missing when it was "
    "installed; reinstall with SMEMKIT_CUDA=1";

int cuda_devices(const char **why)
{
    *why = not_built;
    return 0;
}

struct device *cuda_device(int ordinal)
{
    (void)ordinal;
    return NULL;
}

bool cuda_device_of_pointer(const void *pointer, struct device **device, struct failure *failure)
{
    (void)pointer;
    (void)device;
    failure_set(failure, FAILURE_NO_DEVICE, "%s", not_built);
    return false;
}

void cuda_wait_at_exit(void)
{
}

void cuda_close_copy_pools(void)
{
}

bool cuda_pinned_copy(struct device *device, size_t bytes, bool to_device, double *seconds,
                      struct failure *failure)
{
    (void)device;
    (void)bytes;
    (void)to_device;
    (void)seconds;
    failure_set(failure, FAILURE_NO_DEVICE, "%s", not_built);
    return false;
}

void *cuda_allocate_pinned(struct device *device, size_t bytes)
{
    (void)device;
    (void)bytes;
    return NULL;
}

size_t cuda_pinned_bytes(const void *memory)
{
    (void)memory;
    return 0;
}

bool cuda_release_pinned(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return false;
}

bool cuda_copy_between(const struct device_span *to, const struct device_span *from, size_t bytes, bool wait,
                       struct failure *failure)
{
    (void)to;
    (void)from;
    (void)bytes;
    (void)wait;
    failure_set(failure, FAILURE_NO_DEVICE, "%s", not_built);
    return false;
}

bool cuda_capture_begin(struct device *device, device_stream stream, size_t flush_bytes, struct cuda_graph **graph,
                        struct failure *failure)
{
    (void)device;
    (void)stream;
    (void)flush_bytes;
    (void)graph;
    failure_set(failure, FAILURE_NO_DEVICE, "%s", not_built);
    return false;
}

bool cuda_capture_end(struct cuda_graph *graph, struct failure *failure)
{
    (void)graph;
    failure_set(failure, FAILURE_NO_DEVICE, "%s", not_built);
    return false;
}

bool cuda_graph_replay(struct cuda_graph *graph, double *seconds, struct failure *failure)
{
    (void)graph;
    (void)seconds;
    failure_set(failure, FAILURE_NO_DEVICE, "%s", not_built);
    return false;
}

void cuda_graph_destroy(struct cuda_graph *graph)
{
    (void)graph;
}

#else
typedef int smemkit_has_cuda; /* C does not allow an empty file */
#endif
