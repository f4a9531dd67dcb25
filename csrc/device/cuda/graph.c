/* Captured graphs for timing; see module/graph.c. */
#include <stdlib.h>

#include "gpu.h"

/* Made by cuda_capture_begin; the owner destroys it before the stream, whether or not cuda_capture_end succeeded.
 */
struct cuda_graph {
    struct device *device;
    device_stream stream;
    bool capturing;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t first, second; /* around the captured work */
    void *flush;               /* written before `first`, to evict everything else from L2 */
};

/* Ends the capture; the stream is usable again, whatever the result. Frees deferred memory. */
static cudaError_t end_capture(struct cuda_graph *graph)
{
    cudaError_t code = cudaStreamEndCapture(graph->stream, &graph->graph);
    graph->capturing = false;
    (void)atomic_fetch_sub(&gpus[graph->device->ordinal].captures, 1);
    cuda_run_deferred_frees(graph->device);
    return code;
}

/* Abandons a capture, so that the stream is usable again. */
static void abandon_capture(struct cuda_graph *graph)
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

/* Creates events and the flush buffer, outside the capture. */
static bool create_events_and_flush_buffer(struct cuda_graph *graph, size_t flush_bytes, struct failure *failure)
{
    struct device *device = graph->device;
    return CHECK(cudaEventCreate(&graph->first)) && CHECK(cudaEventCreate(&graph->second)) &&
           cuda_allocate(device, flush_bytes, graph->stream, &graph->flush, failure);
}

/* Starts the capture; the flush precedes the first event, so it is not timed. */
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

/* On true the stream is captured, and the caller must end and destroy *made; on false nothing is left to do. */
bool cuda_capture_begin(struct device *device, device_stream stream, size_t flush_bytes,
                        struct cuda_graph **created, struct failure *failure)
{
    struct saved_context saved;

    *created = NULL;
    struct cuda_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) {
        failure_set(failure, FAILURE_MEMORY, "out of memory on the host");
        return false;
    }
    graph->device = device;
    graph->stream = stream;
    bool ok = gpu_make_current(device, &saved, failure);
    if (ok) {
        ok = create_events_and_flush_buffer(graph, flush_bytes, failure) &&
             start_capture(graph, flush_bytes, failure);
        gpu_restore_context(&saved);
    }
    if (ok)
        *created = graph;
    else
        cuda_graph_destroy(graph);
    return ok;
}

/* Uploads the graph to the device, trimming the pool if memory runs short. */
static bool upload_graph(struct cuda_graph *graph, struct failure *failure)
{
    struct device *device = graph->device;

    if (CHECK(cudaGraphUpload(graph->exec, graph->stream)))
        return true;
    if (failure->kind != FAILURE_MEMORY || !cuda_trim_memory_pool(device, failure))
        return false;
    *failure = (struct failure){0};
    return CHECK(cudaGraphUpload(graph->exec, graph->stream));
}

/* Ends the capture, also to abandon it. On false the graph cannot be replayed, only destroyed. */
bool cuda_capture_end(struct cuda_graph *graph, struct failure *failure)
{
    struct saved_context saved;
    struct device *device = graph->device;
    cudaStream_t stream = graph->stream;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    /* memory that the captured work allocated and did not free is freed at the next replay */
    bool ok = CHECK(cudaEventRecordWithFlags(graph->second, stream, cudaEventRecordExternal)) &&
              gpu_check(device, end_capture(graph), "cudaStreamEndCapture(stream, &graph->graph)", failure) &&
              CHECK(cudaGraphInstantiateWithFlags(&graph->exec, graph->graph,
                                                  cudaGraphInstantiateFlagAutoFreeOnLaunch)) &&
              upload_graph(graph, failure);
    if (!ok)
        abandon_capture(graph);
    gpu_restore_context(&saved);
    return ok;
}

/* Runs the graph once and waits; sets the seconds between its two events. */
bool cuda_graph_replay(struct cuda_graph *graph, double *seconds, struct failure *failure)
{
    struct saved_context saved;
    struct device *device = graph->device;
    float milliseconds = 0;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaGraphLaunch(graph->exec, graph->stream)) && CHECK(cudaStreamSynchronize(graph->stream)) &&
              CHECK(cudaEventElapsedTime(&milliseconds, graph->first, graph->second));
    *seconds = milliseconds * 1e-3;
    gpu_restore_context(&saved);
    return ok;
}

/* Also abandons a capture that was never ended. `graph` may be NULL. */
void cuda_graph_destroy(struct cuda_graph *graph)
{
    struct saved_context saved;
    struct failure ignored;

    if (graph == NULL)
        return;
    if (gpu_make_current(graph->device, &saved, &ignored)) {
        abandon_capture(graph);
        cuda_release(graph->device, graph->flush, graph->stream);
        if (graph->second != NULL)
            (void)cudaEventDestroy(graph->second);
        if (graph->first != NULL)
            (void)cudaEventDestroy(graph->first);
        gpu_restore_context(&saved);
    }
    free(graph);
}
