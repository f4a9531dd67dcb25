/* Small launches on the default stream, by graphs of one kernel.
 *
 * A launch costs the host two to four microseconds; a graph that holds the kernel already, half of that, even if
 * its arguments are set anew each time. What it loses is that the next launch begins beside it
 * (kernels/common/launch.cuh), so that it is for kernels of few blocks, which are over before the host has
 * launched the next one anyhow.
 *
 * A kernel has its graph from its first such launch on, for good; those that come when all places are taken are
 * launched as all others. A profiler shows them as graphs, unless it is asked for their nodes.
 */
#include <string.h>

#include "gpu.h"

enum { KERNELS = 64, ARGUMENT_BYTES = 512 };

struct one_kernel {
    const void *kernel; /* NULL: nobody's place */
    int device;
    cudaGraphExec_t exec; /* NULL: it could not be made */
    cudaGraphNode_t node;
    struct cudaKernelNodeParams set; /* but for the arguments, which are */
    char arguments[ARGUMENT_BYTES];
};

/* Of the process, under the lock. */
static struct one_kernel kernels[KERNELS];
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;

/* The place of a kernel, which is its own or nobody's. NULL: there is none left. */
static struct one_kernel *find_place(const void *kernel, int device)
{
    const size_t first = ((uintptr_t)kernel >> 4) + (size_t)device;

    for (size_t i = 0; i < KERNELS; i++) {
        struct one_kernel *place = &kernels[(first + i) % KERNELS];

        if (!place->kernel || (place->kernel == kernel && place->device == device))
            return place;
    }
    return NULL;
}

/* CUDA would end the capture that another thread has begun. */
static void make_graph(struct one_kernel *place, const struct cudaKernelNodeParams *params)
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

static bool is_set(const struct one_kernel *place, const struct cudaKernelNodeParams *params)
{
    const dim3 a[] = {place->set.gridDim, place->set.blockDim}, b[] = {params->gridDim, params->blockDim};

    return memcmp(a, b, sizeof a) == 0 && place->set.sharedMemBytes == params->sharedMemBytes;
}

/* The arguments side by side; false where they are those of `place` already. */
static bool note_arguments(struct one_kernel *place, void *const *arguments, const size_t *sizes, int count)
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

static bool set_kernel(struct one_kernel *place, const struct cudaKernelNodeParams *params, const size_t *sizes,
                       int count)
{
    bool changed = note_arguments(place, params->kernelParams, sizes, count);

    changed = !is_set(place, params) || changed;
    place->set = *params;
    if (!changed || cudaGraphExecKernelNodeSetParams(place->exec, place->node, params) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    memset(&place->set, 0, sizeof place->set); /* whatever it is now */
    return false;
}

bool gpu_launch_small(int device, const struct cudaKernelNodeParams *params, const size_t *sizes, int count,
                      cudaError_t *code)
{
    struct one_kernel *place;
    size_t bytes = 0;
    bool ok = false;

    for (int i = 0; i < count; i++)
        bytes += sizes[i];
    if (bytes > ARGUMENT_BYTES)
        return false;
    pthread_mutex_lock(&launching);
    place = find_place(params->func, device);
    if (place && !place->kernel) {
        place->kernel = params->func;
        place->device = device;
        make_graph(place, params);
    }
    ok = place && place->exec && set_kernel(place, params, sizes, count);
    if (ok)
        *code = cudaGraphLaunch(place->exec, NULL);
    pthread_mutex_unlock(&launching);
    if (!ok || *code != cudaErrorMemoryAllocation)
        return ok;
    (void)cudaGetLastError(); /* which a launch needs not */
    return false;
}
