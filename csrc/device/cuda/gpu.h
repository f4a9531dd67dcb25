/* Declarations shared by the files of the CUDA devices. */
#ifndef SMEMKIT_GPU_H
#define SMEMKIT_GPU_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"

#define MAX_GPUS 64

static const size_t HUGE_PAGE_BYTES = (size_t)2 << 20;

struct deferred;
struct pool;

/* Slots for numbers that kernels write into host memory; protected by the lock. */
enum { RESULT_SLOTS = 128, RESULT_SLOT_BYTES = 32 };

struct result_slots {
    pthread_mutex_t lock;
    bool tried;
    char *memory; /* pinned; NULL if the allocation failed */
    int free_count, pending_count;
    unsigned char free[RESULT_SLOTS],
        pending[RESULT_SLOTS]; /* free slots; slots that work on a stream may still access */
};

/* Zeroed device memory that launches use and leave zeroed. A stream has a workspace of WORKSPACE_BYTES
 * permanently, the default stream the first one; a captured stream has one until the graph and everything
 * instantiated from it are destroyed. The list is protected by the lock. */
enum {
    WORKSPACE_BYTES = 256 << 10,
    MAX_WORKSPACES = 1024 /* per device */,
    MAX_STREAM_WORKSPACES = 64 /* of these, for streams */
};

struct zeroed_workspace {
    struct zeroed_workspace *next;
    void *memory;
    unsigned long long stream, capture; /* identities; capture 0: none */
    atomic_bool unused;                 /* the graph is destroyed */
};

struct zeroed_workspaces {
    pthread_mutex_t lock;
    struct zeroed_workspace *first;
    int count, streams; /* workspaces; those of streams other than the default one */
};

/* The kernels of small launches, each in a graph. Protected by the lock. */
enum { MAX_KERNEL_GRAPHS = 64, MAX_ARGUMENT_BYTES = 512 };

struct kernel_graph {
    const void *kernel;   /* NULL: an empty slot */
    cudaGraphExec_t exec; /* NULL: creating it failed */
    cudaGraphNode_t node;
    struct cudaKernelNodeParams last_params; /* the node's parameters; the arguments are in `arguments` */
    char arguments[MAX_ARGUMENT_BYTES];
};

struct kernel_graph_cache {
    pthread_mutex_t lock;
    struct kernel_graph slots[MAX_KERNEL_GRAPHS];
};

struct gpu {
    struct device device;
    _Atomic(CUcontext) context; /* the primary context, once known */
    _Atomic(cudaMemPool_t) pool;
    atomic_int captures; /* of cuda_graphs, in progress */
    _Atomic(struct deferred *) deferred;
    _Atomic(struct pool *) pools[2];     /* for uploads, for downloads */
    _Atomic(cudaStream_t) second_stream; /* NULL: not created yet */
    struct result_slots result_slots;
    struct zeroed_workspaces workspaces;
    struct kernel_graph_cache kernel_graphs;
    atomic_bool lost; /* set after `failure`, which then never changes */
    struct failure failure;
};

extern struct gpu gpus[MAX_GPUS];

/* ---- device.c ---- */

/* The thread's context before gpu_make_current. */
struct saved_context {
    CUcontext context; /* NULL: the thread had none */
    bool changed;
};

/* Makes the device current, unless it is lost or the process is a forked child. If true, call gpu_restore_context
 * later. */
bool gpu_make_current(struct device *, struct saved_context *, struct failure *);
void gpu_restore_context(const struct saved_context *);
/* Whether code is cudaSuccess; otherwise fills failure, and clears the error unless it is sticky. */
bool gpu_check(struct device *, cudaError_t code, const char *call, struct failure *);
/* Requires `device` and `failure` in scope. */
#define CHECK(call) gpu_check(device, (call), #call, failure)
/* Also true if unknown: for the default stream while another one is captured. */
bool gpu_is_capturing(device_stream);
bool gpu_is_forked(void);
/* Whether this process uses the GPU, by whatever library; also true if unknown. */
bool gpu_has_context(int ordinal);
/* While a thread captures a stream, CUDA refuses many unrelated calls of other threads, unless these set relaxed
 * mode, between these two functions. */
enum cudaStreamCaptureMode gpu_relax_capture_mode(void);
void gpu_restore_capture_mode(enum cudaStreamCaptureMode before);

/* ---- streams.c ---- */

/* Makes later work on `later` wait for the work that is on `earlier` now. */
bool gpu_stream_wait_stream(struct device *, cudaStream_t later, cudaStream_t earlier, struct failure *);
bool cuda_synchronize_stream(struct device *device, device_stream stream, struct failure *failure);
bool cuda_is_capturing(struct device *device, device_stream stream);
bool cuda_synchronize_device(struct device *device, struct failure *failure);
bool cuda_record_new_event(struct device *device, device_stream stream, device_event *created,
                           struct failure *failure);
bool cuda_stream_wait_stream(struct device *device, device_stream later, device_stream earlier,
                             struct failure *failure);
bool cuda_query_stream(struct device *device, device_stream stream, bool *done, struct failure *failure);
bool cuda_stream_wait_event(struct device *device, device_stream stream, device_event event,
                            struct failure *failure);
bool cuda_record_event(struct device *device, device_stream stream, device_event event, struct failure *failure);

/* While any stream is captured, CUDA allows event queries only in threads with relaxed capture mode. */
bool cuda_query_event(struct device *device, device_event event, bool *done, struct failure *failure);
bool cuda_synchronize_event(struct device *device, device_event event, struct failure *failure);

/* Waits for both: on different streams one does not imply the other. */
bool cuda_seconds_between(struct device *device, device_event earlier, device_event later, double *seconds,
                          struct failure *failure);

/* `event` may be NULL. */
void cuda_destroy_event(struct device *device, device_event event);

/* A non-blocking stream, not synchronised with the default stream. */
bool cuda_create_stream(struct device *, device_stream *, struct failure *);

/* Returns at once; enqueued work still runs. `stream` may be NULL. No memory may be released on it afterwards. */
void cuda_destroy_stream(struct device *, device_stream);

/* Created once and never destroyed, because all calls share it. */
device_stream cuda_second_stream(struct device *device);

/* ---- launch.c ---- */

/* Launches a kernel on the default stream with less host overhead; `params` has no `extra`, and `sizes` are the
 * sizes of the arguments. False if that is not possible: then nothing has happened. */
bool gpu_launch_by_graph(int device, const struct cudaKernelNodeParams *params, const size_t *sizes, int count,
                         cudaError_t *);

/* ---- memory.c ---- */
bool cuda_memory_stats(struct device *, struct memory_stats *, struct failure *);
bool cuda_empty_cache(struct device *, struct failure *);

bool cuda_allocate(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
void cuda_release(struct device *, void *memory, device_stream);
size_t cuda_available_bytes(struct device *, size_t enough);
void *cuda_zeroed_workspace(struct device *, size_t bytes, device_stream);
void *cuda_allocate_result_slot(struct device *);
void cuda_release_result_slot(struct device *, void *memory, bool unused);
bool cuda_read_result_slot(struct device *, const void *memory, size_t bytes, bool awaited, void *to,
                           struct failure *);
/* Returns the pool's cached memory to the device, after synchronising it. The device is current. */
bool cuda_trim_memory_pool(struct device *, struct failure *);
/* Frees deferred memory, except of streams that are still captured. The device is current. */
void cuda_run_deferred_frees(struct device *);

/* ---- pinned.c ---- */

/* Returns pinned memory that no result has to the system. The device is current. */
void cuda_unpin_free_memory(void);

/* ---- transfer.c ---- */

bool cuda_upload_begin(struct device *, void *to, const struct segments *from, device_event free, device_stream,
                       struct transfer **, struct failure *);
bool cuda_upload_end(struct device *, struct transfer *, device_stream, struct interval *, struct failure *);
bool cuda_download_begin(struct device *, const struct segments *to, const void *from, device_stream,
                         struct transfer **, struct failure *);
void cuda_prefault(struct device *, void *memory, size_t bytes, struct transfer **);
bool cuda_download_end(struct device *, struct transfer *, struct interval *, struct failure *);

#endif
