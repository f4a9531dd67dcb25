/* Small launches on the default stream, as graphs of one kernel.
 *
 * A launch costs the host two to four microseconds; launching an instantiated graph costs half of that, even if
 * its arguments are set each time. It cannot use programmatic dependent launch (kernels/common/launch.cuh), so
 * this is for kernels of few blocks: most have ended before the host has launched the next one anyway.
 *
 * A kernel gets its graph with its first such launch, permanently; when all slots are taken, other kernels are
 * launched normally. Profilers show these launches as graphs, unless told to show graph nodes.
 */
#include <string.h>

#include "gpu.h"

/* The slot of a kernel, or an empty slot. NULL if there is none left. */
static struct kernel_graph *find_slot(struct kernel_graph_cache *kernels, const void *kernel)
{
    const size_t first = (uintptr_t)kernel >> 4;

    for (size_t i = 0; i < MAX_KERNEL_GRAPHS; i++) {
        struct kernel_graph *slot = &kernels->slots[(first + i) % MAX_KERNEL_GRAPHS];

        if (!slot->kernel || slot->kernel == kernel)
            return slot;
    }
    return NULL;
}

/* Relaxed mode, because CUDA would otherwise invalidate another thread's capture. */
static void instantiate_graph(struct kernel_graph *slot, const struct cudaKernelNodeParams *params)
{
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    cudaGraph_t graph = NULL;

    if (cudaGraphCreate(&graph, 0) != cudaSuccess ||
        cudaGraphAddKernelNode(&slot->node, graph, NULL, 0, params) != cudaSuccess ||
        cudaGraphInstantiate(&slot->exec, graph, 0) != cudaSuccess)
        slot->exec = NULL;
    if (!slot->exec && graph)
        (void)cudaGraphDestroy(graph); /* on success it is kept: its node identifies that of `exec` */
    (void)cudaGetLastError();
    gpu_restore_capture_mode(mode);
}

static bool has_same_configuration(const struct kernel_graph *slot, const struct cudaKernelNodeParams *params)
{
    const dim3 a[] = {slot->last_params.gridDim, slot->last_params.blockDim},
               b[] = {params->gridDim, params->blockDim};

    return memcmp(a, b, sizeof a) == 0 && slot->last_params.sharedMemBytes == params->sharedMemBytes;
}

/* Packs the arguments; false if they are the same as in the last launch. */
static bool store_arguments(struct kernel_graph *slot, void *const *arguments, const size_t *sizes, int count)
{
    bool changed = false;
    size_t offset = 0;

    for (int i = 0; i < count; offset += sizes[i++])
        if (memcmp(slot->arguments + offset, arguments[i], sizes[i]) != 0) {
            memcpy(slot->arguments + offset, arguments[i], sizes[i]);
            changed = true;
        }
    return changed;
}

static bool update_node(struct kernel_graph *slot, const struct cudaKernelNodeParams *params, const size_t *sizes,
                        int count)
{
    bool changed = store_arguments(slot, params->kernelParams, sizes, count);

    changed = !has_same_configuration(slot, params) || changed;
    slot->last_params = *params;
    slot->last_params.kernelParams = NULL; /* they belong to the caller */
    if (!changed || cudaGraphExecKernelNodeSetParams(slot->exec, slot->node, params) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    memset(&slot->last_params, 0, sizeof slot->last_params); /* the node's state is unknown */
    return false;
}

bool gpu_launch_by_graph(int device, const struct cudaKernelNodeParams *params, const size_t *sizes, int count,
                         cudaError_t *code)
{
    struct kernel_graph_cache *kernels;
    struct kernel_graph *slot;
    size_t bytes = 0;
    bool ok = false;

    for (int i = 0; i < count; i++)
        bytes += sizes[i];
    if (bytes > MAX_ARGUMENT_BYTES || device >= MAX_GPUS)
        return false;
    kernels = &gpus[device].kernel_graphs;
    pthread_mutex_lock(&kernels->lock);
    slot = find_slot(kernels, params->func);
    if (slot && !slot->kernel) {
        slot->kernel = params->func;
        instantiate_graph(slot, params);
    }
    ok = slot && slot->exec && update_node(slot, params, sizes, count);
    if (ok)
        *code = cudaGraphLaunch(slot->exec, NULL);
    pthread_mutex_unlock(&kernels->lock);
    if (!ok || *code != cudaErrorMemoryAllocation)
        return ok;
    (void)cudaGetLastError(); /* falls back to a normal launch */
    return false;
}
