/* Small launches on the default stream, by graphs of one kernel.
 *
 * A launch costs the host two to four microseconds; a graph that holds the kernel already, half of that, even if
 * its arguments are set anew each time. What it loses is that the next launch begins beside it
 * (kernels/common/launch.cuh), so that it is for kernels of few blocks: most are over before the host has
 * launched the next one anyhow.
 *
 * A kernel has its graph from its first such launch on, for good; those that come when all places are taken are
 * launched as all others. A profiler shows them as graphs, unless it is asked for their nodes.
 */
#include <string.h>

#include "gpu.h"

/* The place of a kernel, which is its own or nobody's. NULL: there is none left. */
static struct small_kernel *find_place(struct small_kernels *kernels, const void *kernel)
{
    const size_t first = (uintptr_t)kernel >> 4;

    for (size_t i = 0; i < SMALL_KERNELS; i++) {
        struct small_kernel *place = &kernels->places[(first + i) % SMALL_KERNELS];

        if (!place->kernel || place->kernel == kernel)
            return place;
    }
    return NULL;
}

/* CUDA would end the capture that another thread has begun. */
static void make_graph(struct small_kernel *place, const struct cudaKernelNodeParams *params)
{
    const enum cudaStreamCaptureMode mode = gpu_relax();
    cudaGraph_t graph = NULL;

    if (cudaGraphCreate(&graph, 0) != cudaSuccess ||
        cudaGraphAddKernelNode(&place->node, graph, NULL, 0, params) != cudaSuccess ||
        cudaGraphInstantiate(&place->exec, graph, 0) != cudaSuccess)
        place->exec = NULL;
    if (!place->exec && graph)
        (void)cudaGraphDestroy(graph); /* else its node stands for that of `exec` */
    (void)cudaGetLastError();
    gpu_unrelax(mode);
}

static bool is_set(const struct small_kernel *place, const struct cudaKernelNodeParams *params)
{
    const dim3 a[] = {place->set.gridDim, place->set.blockDim}, b[] = {params->gridDim, params->blockDim};

    return memcmp(a, b, sizeof a) == 0 && place->set.sharedMemBytes == params->sharedMemBytes;
}

/* The arguments side by side; false where they are those of `place` already. */
static bool note_arguments(struct small_kernel *place, void *const *arguments, const size_t *sizes, int count)
{
    bool changed = false;
    size_t at = 0;

    for (int i = 0; i < count; at += sizes[i++])
        if (memcmp(place->arguments + at, arguments[i], sizes[i]) != 0) {
            memcpy(place->arguments + at, arguments[i], sizes[i]);
            changed = true;
        }
    return changed;
}

static bool set_kernel(struct small_kernel *place, const struct cudaKernelNodeParams *params, const size_t *sizes,
                       int count)
{
    bool changed = note_arguments(place, params->kernelParams, sizes, count);

    changed = !is_set(place, params) || changed;
    place->set = *params;
    place->set.kernelParams = NULL; /* they are the caller's */
    if (!changed || cudaGraphExecKernelNodeSetParams(place->exec, place->node, params) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    memset(&place->set, 0, sizeof place->set); /* whatever it is now */
    return false;
}

bool gpu_launch_small(int device, const struct cudaKernelNodeParams *params, const size_t *sizes, int count,
                      cudaError_t *code)
{
    struct small_kernels *kernels;
    struct small_kernel *place;
    size_t bytes = 0;
    bool ok = false;

    for (int i = 0; i < count; i++)
        bytes += sizes[i];
    if (bytes > ARGUMENT_BYTES || device >= MAX_GPUS)
        return false;
    kernels = &gpus[device].small;
    pthread_mutex_lock(&kernels->lock);
    place = find_place(kernels, params->func);
    if (place && !place->kernel) {
        place->kernel = params->func;
        make_graph(place, params);
    }
    ok = place && place->exec && set_kernel(place, params, sizes, count);
    if (ok)
        *code = cudaGraphLaunch(place->exec, NULL);
    pthread_mutex_unlock(&kernels->lock);
    if (!ok || *code != cudaErrorMemoryAllocation)
        return ok;
    (void)cudaGetLastError(); /* which a launch needs not */
    return false;
}
